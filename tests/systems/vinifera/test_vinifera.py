"""Vinifera and Ferry*: the choice of friends, populations from end to end, churn, and bad input."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.content import SCHEMA
from support.systems.content_net import ContentNet
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import begin_gathering, gather, make_scratch
from vinecast.core.content.filters import everything, make_filter
from vinecast.core.content.schemas import Attribute, Schema
from vinecast.core.errors import InputError
from vinecast.core.events import Count, PeerLost, Publish, Received, Subscribe, Unsubscribe
from vinecast.protocols.small_world import LinkChoice
from vinecast.protocols.tman import TManConfig
from vinecast.sim.scenario.content_run import ContentRun
from vinecast.sim.workload.content import KINDS, SIZE, content_workload
from vinecast.systems.ferry.machine import FerryConfig
from vinecast.systems.vinifera.catalogue import RANGES_MAX, Catalogue, ContentProfiles
from vinecast.systems.vinifera.events import HOPS_MAX, ContentEvent
from vinecast.systems.vinifera.machine import ViniferaConfig, vinifera_machines
from vinecast.systems.vinifera.rules import Ranges, select_neighbours, select_primary, utility

PLAIN = Schema("plain", tuple(Attribute(f"a{i}", "number", 0, 100) for i in range(3)))
CONFIGS: dict[str, Any] = {"vinifera": ViniferaConfig, "ferry": FerryConfig}


def config_of(system: str, **rest: Any) -> Any:
    return CONFIGS[system](tman=TManConfig(table_size=10), **rest)


def described(wants: list[dict[str, tuple[float, float]]]) -> ContentProfiles:
    """Profiles of nodes with one filter each."""
    found = [make_filter(PLAIN, one) for one in wants]
    catalogue = Catalogue([PLAIN], found)
    return ContentProfiles.populate(1, catalogue, [[catalogue.numbers[one]] for one in found])


def ranges_of(profiles: ContentProfiles) -> Ranges:
    return profiles.shared.ranges


# Friends.


def test_utility_is_overlap_over_union() -> None:
    """S2 formula 4.1."""
    ranges = ranges_of(described([{"a0": (0, 40)}, {"a0": (20, 60)}, {"a0": (0, 40)}, {"a0": (80, 90)}]))
    assert abs(utility(ranges, 0, 1, 0) / 2**30 - 1 / 3) < 1e-6
    assert utility(ranges, 0, 2, 0) == 2**30
    assert utility(ranges, 0, 3, 0) == 0
    assert utility(ranges, 0, 1, 1) == 2**30  # both want anything of it


@given(
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 63)), min_size=1, max_size=RANGES_MAX),
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 63)), min_size=1, max_size=RANGES_MAX),
)
def test_utility_counts_places_of_several_ranges(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    schema = Schema("small", (Attribute("a", "integer", 0, 2**20),))
    boxes = [[make_filter(schema, {"a": (min(r), max(r))}) for r in own] for own in (one, other)]
    catalogue = Catalogue([schema], (box for own in boxes for box in own))
    profiles = ContentProfiles.populate(1, catalogue, [[catalogue.numbers[b] for b in own] for own in boxes])
    step = 2**11
    places = [
        {p for low, high in ((int(catalogue.low[n, 0]), int(catalogue.high[n, 0])) for n in own)
         for p in range(low // step, high // step + 1)}
        for own in (profiles.topics_of(0).tolist(), profiles.topics_of(1).tolist())
    ]  # fmt: skip
    both, either = len(places[0] & places[1]), len(places[0] | places[1])
    assert abs(utility(ranges_of(profiles), 0, 1, 0) / 2**30 - both / either) <= 70 / either


def test_the_primary_attribute_is_where_most_neighbours_overlap() -> None:
    """S2 Fig. 4.1: three neighbours overlap on one attribute, two on the other."""
    wants = [
        {"a0": (20.0, 60.0), "a1": (20.0, 60.0)},
        {"a0": (30.0, 70.0), "a1": (30.0, 70.0)},
        {"a0": (50.0, 90.0), "a1": (10.0, 30.0)},
        {"a0": (0.0, 25.0), "a1": (80.0, 90.0)},
    ]
    ranges = ranges_of(described(wants))
    assert select_primary(0, 1, np.array([1, 2, 3], dtype=np.int32), ranges) == 0
    assert select_primary(0, 1, np.array([1, 2, -1], dtype=np.int32), ranges) == 1  # as good as the other
    assert select_primary(0, 2, np.array([1, 2, -1], dtype=np.int32), ranges) == 0
    anything = ranges_of(described([{}, {"a0": (0.0, 1.0)}]))
    assert select_primary(0, 2, np.array([1], dtype=np.int32), anything) == 2


@settings(max_examples=60)
@given(st.lists(st.integers(0, 90), min_size=5, max_size=14), st.integers(0, 2), st.integers(0, 5))
def test_friends_are_those_of_the_highest_utility(lows: list[int], long_links: int, friends: int) -> None:
    profiles = described([{"a0": (low, low + 10)} for low in lows])
    scratch, nodes, most = make_scratch(len(lows), 0, 0, 20), len(lows), 2 + long_links + friends
    row = np.arange(1, nodes, dtype=np.int32)
    count = gather(scratch, begin_gathering(scratch), row, np.zeros(row.size, dtype=np.uint16))
    ranges = ranges_of(profiles)
    chosen = select_neighbours(LinkChoice(0, 1, long_links), 0, count, most, profiles.table, ranges, scratch)
    peers = scratch.peers[scratch.best[:chosen]].tolist()
    assert len(set(peers)) == chosen == min(most, nodes - 1)
    assert peers[:2] == [1, nodes - 1]
    worth = [int(utility(ranges, 0, peer, 0)) for peer in peers[2 + long_links :]]
    left = [int(utility(ranges, 0, peer, 0)) for peer in range(1, nodes) if peer not in peers]
    assert worth == sorted(worth, reverse=True)
    assert not left or not worth or max(left) <= worth[-1]


# Populations.


def check(run: ContentRun, events: int) -> None:
    run.publish(events)
    assert run.meter.missed() == {}
    stats = run.meter.take()
    assert stats.wrong == 0
    assert stats.events == events


@pytest.mark.parametrize("system", CONFIGS)
@pytest.mark.parametrize("kind", ["random", "stocks"])
def test_everybody_gets_what_it_wants(system: str, kind: str) -> None:
    run = ContentRun(system, config_of(system), content_workload(kind, 3, 40, 2, each=2), 3)
    run.start()
    run.advance(15)
    check(run, 40)


@pytest.mark.parametrize("system", CONFIGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_and_again_after_churn(system: str, seed: int) -> None:
    """Nodes crash, others come, some return without their state, some want something else."""
    run = ContentRun(system, config_of(system), content_workload("zipf", seed, 48, 2, each=2), seed)
    run.start(range(36))
    run.advance(10)
    run.publish(10)
    run.meter.take()
    gone = np.array([3, 4, 5, 11, 20, 33])
    run.world.stop(gone, graceful=False)
    run.advance(2)
    coming = np.concatenate([gone[:3], np.arange(36, 48)])
    run.world.start(coming, np.full((coming.size, 1), 30, dtype=np.int32), keep_state=False)
    filters = len(run.profiles.catalogue.filters)
    for node in (0, 7, 40):
        at = run.world.engine.now_us + 1
        run.world.engine.command(node, at, Unsubscribe(int(run.profiles.topics_of(node)[0])))
        run.world.engine.command(node, at + 1, Subscribe((node * 5) % filters))
    run.advance(20)
    check(run, 40)


def test_load_is_shared_out_and_nothing_is_lost_meanwhile() -> None:
    """Skewed events, which nodes move towards; every one of them is held to all it should get."""
    run = ContentRun("vinifera", config_of("vinifera", beta=2), content_workload("skewed", 1, 60), 1)
    run.start()
    run.advance(12)
    before = run.profiles.place.copy()
    for _ in range(8):
        check(run, 40)
    assert sum(run.world.engine.counters["load_balance.moves"]) > 0
    assert (run.profiles.place != before).any()


def test_same_seed_same_run() -> None:
    found = []
    for _ in range(2):
        run = ContentRun("vinifera", config_of("vinifera"), content_workload("random", 5, 20), 5)
        run.start()
        run.advance(6)
        run.publish(10)
        stats = run.meter.take()
        found.append((stats.hops, stats.received.tolist(), stats.passed.tolist(), run.world.engine.handled))
    assert found[0] == found[1]


def test_a_bounded_node_drops_what_is_too_much() -> None:
    config = config_of("ferry")
    runs = [ContentRun("ferry", config, content_workload("random", 1, 40), 1, most=m) for m in (5, 10_000)]
    for run in runs:
        run.start()
        run.advance(12)
        run.publish(60)
    few, many = (run.meter.take() for run in runs)
    assert few.hit_ratio < 0.7
    assert many.hit_ratio == 1.0


# Workloads.


@pytest.mark.parametrize("kind", KINDS)
def test_publishers_want_what_they_publish(kind: str) -> None:
    workload = content_workload(kind, 1, 30, 3, each=2)
    for node in range(30):
        event = workload.event(1, node, node)
        assert any(one.matches(event) for one in workload.filters[node])


@pytest.mark.parametrize("attributes", [1, 2, 5])
def test_one_event_in_32_matches_whatever_the_attributes(attributes: int) -> None:
    workload = content_workload("random", 1, 400, attributes)
    points = np.random.default_rng(1).uniform(0, 2**15, (300, attributes)).tolist()
    hits = sum(found[0].matches(tuple(point)) for found in workload.filters for point in points)
    assert abs(hits / 400 / 300 * SIZE - 1) < 0.25


def test_skewed_is_what_makes_most_events_interesting_to_many() -> None:
    shares = {}
    for kind in ("random", "zipf", "skewed"):
        workload = content_workload(kind, 1, 300)
        drawn = [workload.event(1, i, i % 300) for i in range(200)]
        shares[kind] = sum(f[0].matches(e) for f in workload.filters for e in drawn) / 300 / 200
    assert shares["random"] < 0.06 > shares["zipf"]
    assert 0.35 < shares["skewed"] < 0.6


# Bad input.


def test_bad_configurations_and_workloads_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="long_links"):
        ViniferaConfig(long_links=14)
    with pytest.raises(InputError, match="kept"):
        ViniferaConfig(kept=1)
    with pytest.raises(InputError, match="one of random"):
        content_workload("uniform", 1, 10)
    with pytest.raises(InputError, match="at least a node"):
        content_workload("random", 1, 10, 0)
    with pytest.raises(InputError, match="needs a schema"):
        Catalogue([])
    with pytest.raises(InputError, match="no schema stocks"):
        Catalogue([PLAIN], [everything(SCHEMA)])
    profiles = Profiles.simulated(1, np.zeros(3, np.int64), np.zeros(0, np.int32), 0)
    with pytest.raises(InputError, match="filters, not topics"):
        vinifera_machines(ViniferaConfig(), 1, profiles)


def test_a_filter_for_everything_gets_everything() -> None:
    net = ContentNet("vinifera", [SCHEMA], [[everything(SCHEMA)], [], [], [], []], 1)
    net.turn()
    net.run()
    for node in range(5):
        net.publish(node, 0, SCHEMA.event({"price": node, "count": 1, "at": 10**15, "order": "buy"}))
    net.run()
    net.check()


@pytest.mark.parametrize("system", ["vinifera", "ferry"])
def test_what_led_through_a_neighbour_that_is_gone_is_asked_for_at_once(system: str) -> None:
    wants = [[make_filter(PLAIN, {"a0": (8.0 * node, 8.0 * node + 20)})] for node in range(10)]
    for gone in range(10):
        net = ContentNet(system, [PLAIN], [[] if node == gone else wants[node] for node in range(10)], 3)
        net.turn()
        net.run()
        for node in range(10):
            if node != gone:
                net.handle(node, PeerLost(gone))
        net.run()
        for value in range(0, 100, 7):
            net.publish((gone + 1 + value % 9) % 10, 0, (float(value), 50.0, 50.0))
        net.run()
        net.check()


def test_what_peers_send_that_makes_no_sense_is_counted() -> None:
    net = ContentNet("vinifera", [SCHEMA, PLAIN], [[everything(SCHEMA)], [everything(PLAIN)], []], 1)
    net.turn()
    net.run()
    good = ContentEvent(1, 7, 1, (1.0, 2.0, 3.0), 0, False)
    no_value: Any = ([], 2.0, 3.0)
    unknown, far = [Count("vinifera.unknown events")], [Count("vinifera.too many hops")]
    for bad, says in (
        (dataclasses.replace(good, topic=0), unknown),  # an event of another schema
        (dataclasses.replace(good, topic=2), unknown),
        (dataclasses.replace(good, values=(1.0, 2.0)), unknown),
        (dataclasses.replace(good, values=(1.0, 2.0, 101.0)), unknown),
        (dataclasses.replace(good, values=(1.0, 2.0, float("nan"))), unknown),
        (dataclasses.replace(good, values=(1.0, 2.0, "three")), unknown),
        (dataclasses.replace(good, values=(1, 2.0, 3.0)), unknown),  # equal to a good one, and not one
        (dataclasses.replace(good, values=(True, 2.0, 3.0)), unknown),
        (dataclasses.replace(good, values=no_value), unknown),
        (dataclasses.replace(good, attribute=3), unknown),
        (dataclasses.replace(good, hops=-1), far),
        (dataclasses.replace(good, hops=HOPS_MAX), far),
    ):
        assert net.machines[1].handle(Received(0, bad), 0) == says
    assert net.machines[1].handle(Publish(0, 99), 0) == unknown
    assert any(effect for effect in net.machines[1].handle(Received(0, good), 0))
