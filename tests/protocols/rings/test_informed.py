"""The informed exchange: whom to ask, and what to say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, make_scratch
from vinecast.core.arrays.view import View
from vinecast.core.exchange import Turn
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings import RingsConfig, informed
from vinecast.protocols.rings.rules import up
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.metrics import ring_state, ring_targets
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.sample import load_workload
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.sweep import PolderCastSweep

DISTANCES = st.integers(1, 2**31 - 1)


@given(DISTANCES, DISTANCES)
def test_levels_are_in_the_order_of_distances(a: int, b: int) -> None:
    low, high = sorted((a, b))
    assert informed.level(low) <= informed.level(high) < 0xFFFF


@given(DISTANCES)
def test_a_level_stands_for_distances_that_are_about_as_long(steps: int) -> None:
    shortest = informed.steps_of(informed.level(steps))
    assert shortest <= steps < shortest * (1 + 2**-11) + 1
    assert shortest == steps or steps >= 4096


def test_nobody_is_farther_than_all() -> None:
    assert informed.steps_of(0xFFFF) > 2**31


class Population:
    """Nodes with topics and rows. ``rows``: node -> topic -> [lower, 2nd lower, higher, 2nd higher]."""

    def __init__(self, topics: dict[int, list[int]], nodes: int, topic_count: int = 8) -> None:
        lists = [sorted(topics.get(node, [])) for node in range(nodes)]
        start = np.cumsum([0, *map(len, lists)])
        flat = np.array([topic for mine in lists for topic in mine], dtype=np.int32)
        self.nodes = nodes
        self.profiles = Profiles.simulated(1, start, flat, topic_count)
        self.scratch: Scratch = make_scratch(nodes, topic_count, topic_count, 40)
        self.rows = {node: np.full((len(mine), 4), NOBODY, np.int32) for node, mine in enumerate(lists)}
        self.ages = {node: np.zeros((len(mine), 4), np.uint16) for node, mine in enumerate(lists)}

    def say(self, node: int, topic: int, lower: int, higher: int, standby: int = NOBODY) -> None:
        """Let a node have these nearest neighbours, and its profile say so."""
        row = int(np.searchsorted(self.profiles.topics_of(node), topic))
        self.rows[node][row] = [lower, NOBODY, higher, standby]
        gaps = [informed.gaps_of(mine, node, self.profiles.table) for mine in self.rows[node]]
        covered = np.zeros(len(gaps), dtype=np.uint8)
        self.profiles.annotate(node, covered, np.array(gaps, dtype=np.uint32))

    def partner(self, node: int, cycle: int = 1) -> int:
        return informed.select_partner(
            node, cycle, self.rows[node], self.ages[node], self.profiles.table, self.scratch
        )

    def choose(self, target: int, me: int, candidates: list[int], known: list[int], most: int) -> list[int]:
        peers = np.array(candidates, dtype=np.int32)
        count = gather(self.scratch, begin_gathering(self.scratch), peers, np.zeros(peers.size, np.uint16))
        out, ages = np.full(most, NOBODY, np.int32), np.zeros(most, np.uint16)
        turn, rows = Turn(1, 1, me, target), View(self.rows[me], self.ages[me])
        told, table = np.array(known, dtype=np.int32), self.profiles.table
        found = informed.choose_for(turn, count, table, self.scratch, rows, told, View(out, ages))
        return [int(peer) for peer in out[:found]]


def ring_of(*nodes: int, population: int = 40) -> Population:
    """One topic, 0, and nodes that subscribe to it and know nobody yet."""
    return Population({node: [0] for node in nodes}, population)


def test_neighbours_that_name_each_other_agree() -> None:
    world = ring_of(5, 10)
    world.say(5, 0, lower=10, higher=10)
    world.say(10, 0, lower=5, higher=5)
    assert not informed.disagrees(5, 10, 1, 0, world.profiles.table)
    assert not informed.disagrees(5, 10, 0, 0, world.profiles.table)


def test_a_neighbour_that_knows_somebody_nearer_is_asked_before_an_older_one() -> None:
    world = ring_of(5, 10, 20, 30)
    world.say(10, 0, lower=5, higher=30)
    world.say(5, 0, lower=30, higher=10)
    world.say(30, 0, lower=20, higher=5)  # it knows 20; 10 does not
    world.ages[10][0] = [9, 0, 1, 0]
    assert world.partner(10) == 30
    assert world.partner(10, cycle=informed.OLDEST_EVERY) == 5  # the oldest falls due all the same


def test_a_neighbour_that_does_not_know_me_is_asked() -> None:
    world = ring_of(5, 10, 20)
    world.say(10, 0, lower=5, higher=20)
    world.say(5, 0, lower=20, higher=10)
    world.say(20, 0, lower=5, higher=5)  # it should have 10
    assert world.partner(10) == 20


def test_where_all_agree_the_oldest_is_asked() -> None:
    world = ring_of(5, 10, 20)
    world.say(10, 0, lower=5, higher=20)
    world.say(5, 0, lower=20, higher=10)
    world.say(20, 0, lower=10, higher=5)
    world.ages[10][0] = [1, 0, 2, 0]
    assert world.partner(10) == 20
    world.ages[10][0] = [3, 0, 2, 0]
    assert world.partner(10) == 5


def test_the_neighbour_with_which_most_rings_disagree_is_asked_first() -> None:
    world = Population({10: [0, 1, 2], 20: [0, 1], 30: [2]}, 40)
    for topic, higher in ((0, 20), (1, 20), (2, 30)):
        world.say(10, topic, lower=higher, higher=higher)
    assert world.partner(10) == 20


def test_who_knows_nobody_asks_nobody() -> None:
    assert ring_of(5).partner(5) == NOBODY


def test_what_improves_most_rings_goes_first_and_stand_bys_fill_what_is_left() -> None:
    world = Population({10: [0, 1], 11: [0], 12: [0, 1], 20: [0], 30: [0]}, 40)
    world.say(10, 0, lower=30, higher=30)
    world.say(20, 0, lower=10, higher=30)
    # 12 comes first on both sides of ring 1, 11 on one side of ring 0; 30 is there already
    assert world.choose(10, 20, [11, 12, 30], [], 10) == [12, 11]
    assert world.choose(10, 20, [30], [], 10) == [30]  # 20 is next to 10, and 30 comes after 20


def test_what_the_partner_just_sent_is_not_sent_back() -> None:
    world = Population({10: [0], 11: [0], 20: [0]}, 40)
    assert world.choose(10, 20, [11], [], 10) == [11]
    assert world.choose(10, 20, [11], [11], 10) == []


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[Population, int, int, list[int], int]:
    nodes = draw(st.integers(3, 24))
    topics = {node: draw(st.lists(st.integers(0, 7), max_size=8, unique=True)) for node in range(nodes)}
    world = Population(topics, nodes)
    me, target = draw(st.permutations(range(nodes)))[:2]
    for node in range(nodes):
        for topic in topics[node]:
            others = [peer for peer in range(nodes) if peer != node and topic in topics[peer]]
            known = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
            if known:
                high = min(known, key=lambda peer: up(node, peer, world.profiles.table))
                low = max(known, key=lambda peer: up(node, peer, world.profiles.table))
                world.say(node, topic, low, high)
    candidates = draw(st.lists(st.integers(0, nodes - 1), unique=True))
    return world, target, me, candidates, draw(st.integers(1, 10))


def lacked(world: Population, target: int, me: int, candidates: list[int]) -> dict[int, int]:
    """By brute force: candidate -> how many rings of the target it improves, as the nearest of all."""
    found: dict[int, int] = {}
    for row, topic in enumerate(world.profiles.topics_of(target)):
        for side in range(2):
            there = int(world.rows[target][row, 2 * side])

            def far(peer: int, side: int = side) -> int:
                steps = up(target, peer, world.profiles.table)
                return steps if side else world.nodes - steps

            rivals = [peer for peer in (there, me) if peer != NOBODY]
            rivals = [peer for peer in rivals if topic in world.profiles.topics_of(peer)]
            able = [p for p in candidates if p not in (me, target) and topic in world.profiles.topics_of(p)]
            best = min(able, key=far, default=NOBODY)
            if best != NOBODY and all(far(best) < far(rival) for rival in rivals):
                found[best] = found.get(best, 0) + 1
    return found


@given(exchanges())
@settings(max_examples=200, deadline=None)
def test_a_message_holds_what_the_partner_lacks_the_most_useful_first(
    exchange: tuple[Population, int, int, list[int], int],
) -> None:
    world, target, me, candidates, most = exchange
    sent = world.choose(target, me, candidates, [], most)
    gains = lacked(world, target, me, candidates)
    assert len(sent) == len(set(sent)) <= most
    assert target not in sent
    useful = [peer for peer in sent if peer in gains]
    assert sent[: len(useful)] == useful
    assert len(useful) == min(most, len(gains))
    assert [gains[peer] for peer in useful] == sorted(gains.values(), reverse=True)[: len(useful)]
    mine = set(world.profiles.topics_of(me).tolist()) & set(world.profiles.topics_of(target).tolist())
    for peer in sent[len(useful) :]:  # stand-bys: on a shared ring, a neighbour of the sender's
        assert any(peer in world.rows[me][np.searchsorted(world.profiles.topics_of(me), t)] for t in mine)


@pytest.mark.parametrize("seed", [1, 2])
def test_rings_close_in_a_third_of_the_cycles(seed: int) -> None:
    took = {}
    subscriptions = load_workload("synthetic", 600, seed, None)
    for exchange in ("paper", "informed"):
        profiles = Profiles.simulated(
            seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count
        )
        config = PolderCastConfig(rings=RingsConfig(exchange=exchange))
        sweep = PolderCastSweep(config, seed, profiles)
        sweep.start(np.arange(600), random_views(seed, 600, 20))
        engine = SweepEngine(sweep, config.period_us, "synchronous", 1)
        targets = ring_targets(profiles, sweep.online)
        took[exchange] = 0
        while ring_state(sweep, targets).incomplete_rings > 0.01 and took[exchange] < 120:
            engine.run(1)
            took[exchange] += 1
    assert 3 * took["informed"] <= took["paper"]
