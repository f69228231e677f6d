"""Pastry: its rules against obvious twins, machines back to back, and populations under accidents."""

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.circle import simulated_ids
from vinecast.core.draws import draw, purpose, stream
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
)
from vinecast.core.events import TimerFired as Fired
from vinecast.core.machine import NOBODY
from vinecast.protocols.pastry import (
    MESSAGES,
    Pastry,
    PastryAnnounce,
    PastryAnswer,
    PastryConfig,
    PastryExchange,
    PastryGone,
    PastryGoodbye,
    PastryJoin,
    PastryProbe,
    PastryRow,
    PastryWelcome,
    rules,
)
from vinecast.protocols.pastry.machine import GATHERED_MAX, GONE_MAX
from vinecast.protocols.pastry.rules import HIGHER, LOWER, Ids, Peers
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig, Partition
from vinecast.sim.measure.overlay import random_views

SECOND = 1_000_000
CIRCLE = 2**64
ROWS = 16

words = st.integers(0, CIRCLE - 1)
populations = st.lists(words, min_size=2, max_size=60, unique=True).map(sorted)


def some(*peers: int) -> Peers:
    return np.array(peers, dtype=np.int32)


def as_ids(points: list[int]) -> Ids:
    return np.array(points, dtype=np.uint64)


def away(a: int, b: int) -> int:
    return min((a - b) % CIRCLE, (b - a) % CIRCLE)


def nearest_of(points: list[int], key: int, peers: list[int]) -> int:
    return min(peers, key=lambda peer: (away(points[peer], key), peer))


class Node:
    """The arrays of one node, for the rules."""

    def __init__(self, ids: Ids, me: int, leaf_size: int = 8) -> None:
        self.ids, self.me = ids, me
        self.leafs: Peers = np.full((2, leaf_size // 2), NOBODY, dtype=np.int32)
        self.table: Peers = np.full((ROWS, 16), NOBODY, dtype=np.int32)
        self.gone: Peers = np.full(GONE_MAX, NOBODY, dtype=np.int32)

    def learn(self, peers: list[int], direct: bool = False, seed: int = 1) -> int:
        return rules.learn(
            self.ids, self.me, seed, self.leafs, self.table, self.gone, some(*peers), direct
        )  # fmt: skip

    def forget(self, peer: int) -> int:
        return rules.forget(self.ids, self.me, 1, self.leafs, self.table, peer)

    def next_hop(self, key: int, skip: int = NOBODY) -> int:
        return rules.next_hop(self.ids, self.me, self.leafs, self.table, np.uint64(key), skip)  # type: ignore[arg-type]

    @property
    def known(self) -> list[int]:
        return sorted({*self.leafs.ravel().tolist(), *self.table.ravel().tolist()} - {NOBODY})

    def nearest(self, among: list[int]) -> list[list[int]]:
        """What the leaf set should be, if the node knows these."""
        points, here = self.ids.tolist(), int(self.ids[self.me])
        size = self.leafs.shape[1]
        lower = sorted(among, key=lambda peer: (here - points[peer]) % CIRCLE)[:size]
        higher = sorted(among, key=lambda peer: (points[peer] - here) % CIRCLE)[:size]
        return [side + [NOBODY] * (size - len(side)) for side in (lower, higher)]


@given(words, words)
def test_digits_are_those_of_the_hexadecimal_number(a: int, b: int) -> None:
    left, right = f"{a:016x}", f"{b:016x}"
    pair = as_ids([a, b])
    assert [rules.digit(pair[0], row, ROWS) for row in range(ROWS)] == [int(c, 16) for c in left]
    shared = next((i for i, (x, y) in enumerate(zip(left, right, strict=True)) if x != y), ROWS)
    assert rules.shared_digits(pair[0], pair[1], ROWS) == shared


@given(words, st.sampled_from([1, 2, 8]))
def test_digits_may_have_other_sizes(point: int, bits: int) -> None:
    rows = 64 // bits
    digits = [rules.digit(as_ids([point])[0], row, rows) for row in range(rows)]
    value = 0
    for digit in digits:
        assert 0 <= digit < 2**bits
        value = value * 2**bits + digit
    assert value == point


@settings(max_examples=200)
@given(populations, st.data())
def test_the_leaf_set_is_the_nearest_of_all_it_was_told(points: list[int], data: st.DataObject) -> None:
    me = data.draw(st.integers(0, len(points) - 1))
    told = data.draw(st.lists(st.integers(-3, len(points) + 3), max_size=80))
    node = Node(as_ids(points), me)
    for peer in told:
        before = node.leafs.copy()
        changes = node.learn([peer])
        assert bool(changes & rules.LEAF) == bool((before != node.leafs).any())
        assert bool(changes & rules.NEAREST) == bool((before[:, 0] != node.leafs[:, 0]).any())
    real = sorted({peer for peer in told if 0 <= peer < len(points)} - {me})
    assert node.leafs.tolist() == node.nearest(real)


@settings(max_examples=200)
@given(populations, st.data())
def test_the_table_holds_everybodys_favourite_whatever_the_order(
    points: list[int], data: st.DataObject
) -> None:
    """Met in person; a slot's holder is the first in the node's own keyed order of all who fit there."""
    me = data.draw(st.integers(0, len(points) - 1))
    met = data.draw(st.lists(st.integers(0, len(points) - 1), max_size=80))
    node = Node(as_ids(points), me)
    for peer in met:
        node.learn([peer], direct=True)
    key = stream(1, purpose("pastry.table"), 0, me)
    obvious: dict[tuple[int, int], int] = {}
    for peer in sorted(set(met) - {me}, key=lambda peer: draw(key, peer)):
        row = int(rules.shared_digits(node.ids[me], node.ids[peer], ROWS))
        obvious.setdefault((row, int(f"{points[peer]:016x}"[row], 16)), peer)
    held = {(r, c): int(node.table[r, c]) for r in range(ROWS) for c in range(16) if node.table[r, c] >= 0}
    assert held == obvious


def test_hearsay_neither_replaces_an_entry_nor_raises_the_dead() -> None:
    points = [0, *[2**63 + i for i in range(20)]]  # all of them fit one slot of the first node's table
    node = Node(as_ids(points), 0, leaf_size=2)
    node.gone[0] = 5
    node.learn([4])
    node.learn([5, 6, 7])
    assert node.table[0, 8] == 4
    assert 5 not in node.known
    node.learn(list(range(1, 21)), direct=True)
    assert node.table[0, 8] != 4
    node.gone[0] = NOBODY
    node.learn([5], direct=True)


@settings(max_examples=200)
@given(populations, st.data())
def test_who_is_forgotten_is_nowhere_and_holes_are_filled(points: list[int], data: st.DataObject) -> None:
    me = data.draw(st.integers(0, len(points) - 1))
    node = Node(as_ids(points), me, leaf_size=4)
    node.learn(list(range(len(points))))
    for peer in data.draw(st.lists(st.integers(-2, len(points) + 2), max_size=10)):
        was_leaf = peer >= 0 and peer in node.leafs
        assert bool(node.forget(peer) & rules.LEAF) == was_leaf
        assert peer < 0 or peer not in node.known
        assert node.leafs.tolist() == node.nearest(node.known)


@settings(max_examples=200)
@given(populations, words, st.data())
def test_whatever_the_tables_hold_every_hop_is_nearer_and_no_way_is_a_circle(
    points: list[int], key: int, data: st.DataObject
) -> None:
    """Not only wrong tables: numbers strewn anywhere, in rows where they do not belong."""
    ids, everybody = as_ids(points), range(len(points))
    strewn = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    nodes = []
    for me in everybody:
        node = Node(ids, me, leaf_size=4)
        node.table[:] = strewn.integers(-1, len(points), node.table.shape)
        node.learn(strewn.integers(0, len(points), 5).tolist())
        nodes.append(node)
    at, way = 0, [0]
    while (hop := nodes[at].next_hop(key)) != at:
        assert nearest_of(points, key, [at, hop]) == hop
        at = hop
        way.append(at)
    assert len(set(way)) == len(way)


@given(populations, words)
def test_who_knows_everybody_finds_the_nearest(points: list[int], key: int) -> None:
    ids, everybody = as_ids(points), list(range(len(points)))
    for start in (0, len(points) - 1):
        node = Node(ids, start)
        node.learn(everybody)
        while (hop := node.next_hop(key)) != node.me:
            node = Node(ids, hop)
            node.learn(everybody)
        assert node.me == nearest_of(points, key, everybody)


def test_with_perfect_tables_a_way_is_about_as_long_as_the_ids_need_digits() -> None:
    ids = np.sort(simulated_ids(3, 1000))
    nodes = [Node(ids, me, leaf_size=32) for me in range(1000)]
    for node in nodes:
        node.learn(list(range(1000)))
    points = ids.tolist()
    lengths = []
    for i, key in enumerate(simulated_ids(4, 500).tolist()):
        at, hops = i, 0
        while (hop := nodes[at].next_hop(key)) != at:
            at, hops = hop, hops + 1
        assert at == nearest_of(points, key, list(range(1000)))
        lengths.append(hops)
    assert max(lengths) <= 4
    assert 2.0 < np.mean(lengths) < np.log(1000) / np.log(16)


def test_somebody_can_be_left_out_of_the_way() -> None:
    node = Node(as_ids([0, 100, 200]), 0)
    node.learn([1, 2])
    assert node.next_hop(100) == 1
    assert node.next_hop(100, skip=1) == 0
    assert node.next_hop(190, skip=1) == 2


def test_a_node_on_the_way_gives_the_rows_that_the_joiner_can_use() -> None:
    points = [0x1000 << 48, 0x1200 << 48, 0x1230 << 48, 0x8000 << 48]
    node = Node(as_ids(points), 1)
    node.learn([0, 2, 3])
    out = np.full(10, NOBODY, dtype=np.int32)
    assert rules.collect_rows(node.ids, 1, node.table, 0, 0, out, 0) == (2, 2)  # rows 0 and 1; 0 asks
    assert out[:2].tolist() == [1, 3]
    assert rules.collect_rows(node.ids, 1, node.table, 2, 1, out, 2) == (4, 3)  # rows 1 and 2
    assert out[2:4].tolist() == [1, 0]
    assert rules.collect_rows(node.ids, 1, node.table, 2, 0, out, 10) == (10, 3)  # no room, no harm


# The machine.

KEEP_UP = Fired("pastry")


def profiles_of(nodes: int, seed: int = 1) -> Profiles:
    return Profiles(np.sort(simulated_ids(seed, nodes)), np.zeros(0, dtype=np.uint64))


def machine(me: int, nodes: int = 20, contacts: tuple[int, ...] = (), **config: Any) -> Pastry:
    made = Pastry(PastryConfig(**{"period_s": 1.0, "timeout_s": 0.2, **config}), 1, me, profiles_of(nodes))
    made.handle(Start(contacts), 0)
    return made


def sends(effects: list[Effect], kind: type) -> list[int]:
    return [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def settle(nodes: dict[int, Pastry], effects: list[tuple[int, Effect]], now_us: int = 0) -> None:
    """Deliver everything at once, and what comes of it."""
    while effects:
        sender, effect = effects.pop(0)
        if isinstance(effect, Send) and effect.to in nodes:
            replies = nodes[effect.to].handle(Received(sender, effect.message), now_us)
            effects += [(effect.to, reply) for reply in replies]


def test_the_first_node_is_alone_and_nearest_to_everything() -> None:
    node = Pastry(PastryConfig(), 1, 3, profiles_of(20))
    assert node.next_hop(5) == NOBODY
    assert node.handle(Start(), 0) == [SetTimer("pastry", 60_000_000)]
    assert node.next_hop(5) == 3
    assert node.handle(KEEP_UP, 0) == [SetTimer("pastry", 60_000_000)]


def test_two_machines_back_to_back_know_each_other() -> None:
    a, b = machine(4), Pastry(PastryConfig(), 1, 9, profiles_of(20))
    started = b.handle(Start((4, 9, -1, 99)), 0)
    assert sends(started, PastryJoin) == [4]
    assert b.next_hop(0) == NOBODY
    settle({4: a, 9: b}, [(9, effect) for effect in started])
    assert b.joined
    assert a.known == [9]
    assert b.known == [4]
    assert b.leafs[LOWER, 0] == b.leafs[HIGHER, 0] == 4


def test_a_join_that_is_not_answered_is_tried_through_the_next_contact() -> None:
    node = Pastry(PastryConfig(), 1, 0, profiles_of(20))
    first = node.handle(Start((5, 6)), 0)
    assert SetTimer("pastry.join", 3_000_000) in first
    assert sends(first, PastryJoin) == [5]
    again = node.handle(Fired("pastry.join"), 3_000_000)
    assert sends(again, PastryJoin) == [6]
    stale = PastryWelcome(1, some(7, 8))
    assert node.handle(Received(8, stale), 1) == [Count("pastry.late")]
    node.handle(Received(8, PastryWelcome(2, some(7, 8))), 1)
    assert node.joined
    assert node.handle(Fired("pastry.join"), 6_000_000) == []


def test_a_newcomer_announces_itself_to_all_it_was_told_of() -> None:
    node = Pastry(PastryConfig(), 1, 0, profiles_of(60))
    node.handle(Start((5,)), 0)
    effects = node.handle(Received(9, PastryWelcome(1, np.arange(60, dtype=np.int32))), 1)
    told = sends(effects, PastryAnnounce) + sends(effects, PastryExchange)
    assert sorted(set(told)) == sorted(node.known)
    assert {1, 59} <= set(sends(effects, PastryExchange))


def test_a_restart_joins_again_through_whom_it_knew() -> None:
    node = machine(0, contacts=(5, 6))
    node.handle(Received(5, PastryWelcome(1, some(7))), 1)
    node.handle(PeerLost(5), 2)
    effects = node.handle(Start((9,)), 10)
    assert not node.joined
    assert node.contacts == [9, 6, 7] or set(node.contacts) == {9, 6, 7}
    assert len(sends(effects, PastryJoin)) == 1
    assert not node.asked
    assert not node.gone


def met(node: Pastry, *peers: int) -> Pastry:
    for peer in peers:
        node.handle(Received(peer, PastryAnnounce()), 0)
    return node


def test_a_silent_neighbour_is_gone_after_a_period_and_the_leafs_are_told() -> None:
    node = met(machine(10, probes=0, leaf_size=4), 8, 9, 11, 12)
    asked = node.handle(KEEP_UP, SECOND)
    assert {9, 11} <= set(sends(asked, PastryExchange))
    node.handle(Received(11, PastryAnswer(some(13))), SECOND + 5)
    effects = node.handle(KEEP_UP, 2 * SECOND)
    assert 9 not in node.known
    assert 11 in node.known
    assert set(sends(effects, PastryGone)) == set(node.leafs.ravel().tolist()) - {NOBODY}
    assert node.leafs[LOWER, 0] == 8
    node.handle(Received(8, PastryAnswer(some(9))), 2 * SECOND)
    assert 9 not in node.known  # the neighbour has not noticed yet
    node.handle(Received(9, PastryAnnounce()), 2 * SECOND)
    assert node.leafs[LOWER, 0] == 9  # it speaks for itself


def test_nobody_is_called_silent_who_was_asked_a_moment_ago() -> None:
    node = met(machine(10, probes=0), 9, 11)
    node.handle(KEEP_UP, SECOND)
    node.handle(KEEP_UP, SECOND + 100_000)
    assert node.known == [9, 11]
    patient = met(machine(10, probes=0, patience=3), 9, 11)
    for second in (1, 2, 3):
        patient.handle(KEEP_UP, second * SECOND)
        assert len(patient.known) == 2
    patient.hear(9, 0)
    patient.handle(KEEP_UP, 4 * SECOND)
    assert patient.known == [9]


def test_a_rumour_is_verified_and_not_believed() -> None:
    node = met(machine(10, probes=0, leaf_size=4), 7, 8, 9, 11, 12)
    effects = node.handle(Received(9, PastryGone(some(8, 8, 15, -4, 12))), SECOND)
    assert sends(effects, PastryProbe) == [8, 12]
    node.handle(Received(8, PastryRow(some())), SECOND)
    effects = node.handle(KEEP_UP, 2 * SECOND)
    assert 8 in node.known
    assert 12 not in node.known
    assert not sends(effects, PastryGone)  # whoever found it out has told everybody


@pytest.mark.parametrize("event", [PeerLost(9), Received(9, PastryGoodbye())])
def test_who_is_lost_or_says_goodbye_is_forgotten_at_once(event: Event) -> None:
    node = met(machine(10), 8, 9, 11)
    before = node.changes
    effects = node.handle(event, 5)
    assert sorted(node.known) == [8, 11]
    assert node.changes > before
    if isinstance(event, PeerLost):
        assert 8 in sends(effects, PastryExchange)
        assert set(sends(effects, PastryGone)) == {8, 11}


def test_a_leaver_says_goodbye_to_all_it_knows() -> None:
    assert sorted(sends(met(machine(10), 8, 9).handle(Stop(), 1), PastryGoodbye)) == [8, 9]


def test_others_are_asked_for_rows_in_turn() -> None:
    node = met(machine(10, probes=2), *range(5))
    asked = []
    for second in range(1, 4):
        effects = node.handle(KEEP_UP, second * SECOND)
        asked += sends(effects, PastryProbe)
        for peer in node.known:
            node.hear(peer, 0)
    assert set(asked) == {*range(5)}
    effects = node.handle(Received(3, PastryProbe(0)), 9 * SECOND)
    (sent,) = [e for e in effects if isinstance(e, Send)]
    assert isinstance(sent.message, PastryRow)
    assert set(sent.message.peers.tolist()) <= set(node.known)


@pytest.mark.parametrize("event", [Publish(1, 2), Fired("somebody else's")])
def test_what_does_not_concern_it_is_ignored(event: Event) -> None:
    assert machine(0, contacts=(1,)).handle(event, 0) == []


numbers = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 22)
lists = st.lists(numbers, max_size=40).map(lambda peers: some(*peers))
big = st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 20)
messages = st.one_of(
    st.builds(PastryJoin, numbers, big, big, big, lists),
    st.builds(PastryJoin, numbers, big, st.just(0), st.just(1), lists),
    st.builds(PastryWelcome, big, lists),
    st.builds(PastryAnnounce),
    st.builds(PastryGoodbye),
    st.builds(PastryExchange, lists),
    st.builds(PastryAnswer, lists),
    st.builds(PastryProbe, big),
    st.builds(PastryRow, lists),
    st.builds(PastryGone, lists),
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 6) | st.integers(8, 19), messages), max_size=20), st.booleans())
def test_whatever_peers_send_the_tables_stay_sound(conversation: list[tuple[int, Any]], in_it: bool) -> None:
    node = machine(7, contacts=(1, 2) if in_it else (), leaf_size=4)
    for step, (sender, message) in enumerate(conversation):
        assert isinstance(message, MESSAGES)
        effects = node.handle(Received(sender, message), step * SECOND // 3)
        if step % 4 == 3:
            effects += node.handle(KEEP_UP, step * SECOND // 3)
        for effect in effects:
            if isinstance(effect, Send):
                assert 0 <= effect.to < 20
                assert effect.to != 7
                assert getattr(effect.message, "peers", some()).size <= GATHERED_MAX
        check_tables(node, 20)
        assert len(node.gone) <= GONE_MAX
        assert len(node.asked) <= 20


def test_a_message_that_is_too_long_is_cut_or_refused() -> None:
    node = machine(7)
    flood = np.zeros(100_000, dtype=np.int32)
    assert node.handle(Received(1, PastryJoin(2, 1, 0, 1, flood)), 0) == [Count("pastry.refused")]
    assert node.handle(Received(1, PastryJoin(2, 1, 0, 64, some())), 0) == [Count("pastry.refused")]
    assert node.handle(Received(1, PastryProbe(99)), 0) == [Count("pastry.refused")]
    node.handle(Received(1, PastryExchange(flood)), 0)
    assert sorted(node.known) == [0, 1]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"digit_bits": 3}, "digit_bits must divide 64"),
        ({"leaf_size": 7}, "leaf_size must be even"),
        ({"leaf_size": 0}, "leaf_size must be at least 2"),
        ({"period_s": 0.0}, "period_s must be at least"),
        ({"patience": 0}, "patience must be at least 1"),
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        PastryConfig(**wrong)


# Populations.


def check_tables(node: Pastry, nodes: int) -> None:
    """Invariants that no accident may break."""
    for side in node.leafs.tolist():
        packed = [peer for peer in side if peer != NOBODY]
        assert side == packed + [NOBODY] * (len(side) - len(packed))
        assert len(set(packed)) == len(packed)
    known = node.known
    assert node.me not in known
    assert all(0 <= peer < nodes for peer in known)
    ids = node.profiles.ids
    for peer in set(node.table.ravel().tolist()) - {NOBODY}:
        row = rules.shared_digits(ids[node.me], ids[peer], ROWS)
        assert node.table[row, rules.digit(ids[peer], row, ROWS)] == peer
    assert np.count_nonzero(node.table != NOBODY) == len(set(node.table.ravel().tolist()) - {NOBODY})
    view = node.peers
    assert view.size == node.leafs.size + node.table.size
    assert sorted(view[view != NOBODY].tolist()) == sorted(known)


def population(
    nodes: int, seed: int, network: NetworkConfig | None = None, *, at_once: bool = True, **config: Any
) -> EventEngine:
    """Nodes that all start together knowing ten random others, or one after the other knowing an earlier."""
    made = PastryConfig(**{"period_s": 1.0, "timeout_s": 0.5, "leaf_size": 16, **config})
    table = profiles_of(nodes, seed)
    engine = EventEngine(
        lambda me: Pastry(made, seed, me, table),
        nodes,
        seed,
        Network(network or NetworkConfig(), seed, nodes),
    )
    contacts = random_views(seed, nodes, min(10, nodes - 1))
    order = np.random.default_rng(seed).permutation(nodes).tolist()
    for place, me in enumerate(order):
        if at_once:
            engine.start(me, 0, tuple(contacts[me].tolist()))
        else:
            engine.start(me, place * SECOND // 50, (order[place * 7 // 11],) if place else ())
    return engine


def pastry(engine: EventEngine, me: int) -> Pastry:
    node = engine.machines[me]
    assert isinstance(node, Pastry)
    return node


def wrong_leafs(engine: EventEngine) -> int:
    """How many nodes on line have another leaf set than they should."""
    alive = [me for me, online in enumerate(engine.online) if online]
    wrong = 0
    for place, me in enumerate(alive):
        node = pastry(engine, me)
        check_tables(node, engine.nodes)
        size = min(node.leafs.shape[1], len(alive) - 1)
        lower = [alive[(place - i - 1) % len(alive)] for i in range(size)]
        higher = [alive[(place + i + 1) % len(alive)] for i in range(size)]
        wrong += node.leafs[:, :size].tolist() != [lower, higher]
    return wrong


def walk(engine: EventEngine, start: int, key: int) -> list[int]:
    way = [start]
    while (hop := pastry(engine, way[-1]).next_hop(key)) != way[-1]:
        way.append(hop)
    return way


def check_ways(engine: EventEngine, seed: int) -> float:
    """From everywhere to anywhere the way ends at the nearest node on line. Returns the mean hops."""
    alive = [me for me, online in enumerate(engine.online) if online]
    points = pastry(engine, alive[0]).profiles.ids.tolist()
    hops = []
    for me, key in zip(alive * 2, simulated_ids(seed + 77, 2 * len(alive)).tolist(), strict=True):
        way = walk(engine, me, key)
        assert way[-1] == nearest_of(points, key, alive)
        for here, there in pairwise(way):
            assert nearest_of(points, key, [here, there]) == there
        hops.append(len(way) - 1)
    return float(np.mean(hops))


@pytest.mark.parametrize(
    ("nodes", "at_once"), [(5, True), (100, True), (300, True), (100, False), (300, False)]
)
def test_leaf_sets_become_the_true_neighbours_and_ways_are_short(nodes: int, at_once: bool) -> None:
    engine = population(nodes, 1, at_once=at_once)
    engine.run((6 if at_once else 6 + nodes // 50) * SECOND)
    assert wrong_leafs(engine) == 0
    assert check_ways(engine, 1) < np.log(nodes) / np.log(16) + 0.5


@pytest.mark.parametrize("seed", range(2))
def test_after_the_crash_of_half_the_others_find_each_other(seed: int) -> None:
    engine = population(100, seed)
    engine.run(8 * SECOND)
    for me in range(0, 100, 2):
        engine.crash(me, 8 * SECOND + 1)
        engine.start(me, 45 * SECOND, (1,), keep_state=me % 4 == 0)
    engine.run(40 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, seed)
    dead = sum(peer % 2 == 0 for me in range(1, 100, 2) for peer in pastry(engine, me).known)
    assert dead == 0
    engine.run(60 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, seed)


def test_joins_while_others_come_and_go() -> None:
    engine = population(120, 3, at_once=False)
    fates = np.random.default_rng(3)
    for second in range(4, 24):
        for me in fates.choice(120, 4, replace=False).tolist():
            engine.crash(me, second * SECOND)
            engine.start(me, (second + 3) * SECOND, (int(fates.integers(120)), int(fates.integers(120))))
    engine.run(27 * SECOND)
    joined = [pastry(engine, me).joined for me in range(120)]
    assert sum(joined) >= 115
    engine.run(50 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, 3)


@pytest.mark.parametrize("seed", range(2))
def test_loss_duplication_and_reordering_are_survived(seed: int) -> None:
    bad = NetworkConfig(
        latency="sampled", latency_ms=1.0, latency_ms_max=200.0, loss=0.3, duplication=0.2, reordering=0.2
    )
    engine = population(80, seed, bad, patience=3)
    for second in range(5, 31, 5):
        engine.run(second * SECOND)
        wrong_leafs(engine)
    assert all(pastry(engine, me).joined for me in range(80))
    neighbours = [pastry(engine, me).leafs[HIGHER, 0] == (me + 1) % 80 for me in range(80)]
    assert sum(neighbours) > 60
    engine.network = Network(NetworkConfig(), seed, 80)
    engine.run(45 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, seed)


def test_a_partition_heals() -> None:
    """Each side closes its own circle; who looks itself up through the other side joins them again."""
    engine = population(100, 2, NetworkConfig(partitions=(Partition(from_s=10.0, to_s=30.0),)))
    engine.run(30 * SECOND)
    assert wrong_leafs(engine) > 50
    engine.run(60 * SECOND)
    assert wrong_leafs(engine) == 0


def digest_of_a_run() -> str:
    """Everything that a small network under accidents comes to, in a few letters."""
    bad = NetworkConfig(latency="sampled", latency_ms=1.0, latency_ms_max=300.0, loss=0.1, duplication=0.1)
    engine = population(40, 5, bad)
    engine.crash(3, 3 * SECOND)
    engine.run(6 * SECOND)
    tables = b"".join(pastry(engine, me).peers.tobytes() for me in range(40))
    return hashlib.sha256(tables + repr((engine.handled, dict(engine.counters))).encode()).hexdigest()


def test_the_same_seed_gives_the_same_run_with_and_without_numba() -> None:
    here = digest_of_a_run()
    assert digest_of_a_run() == here
    plain = subprocess.run(
        [sys.executable, "-c", "import test_pastry; print(test_pastry.digest_of_a_run())"],
        cwd=Path(__file__).parent,
        env={**os.environ, "VINECAST_COMPILE": "0", "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert plain.stdout.strip() == here
