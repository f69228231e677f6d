"""Scribe at rest: computed tables, trees, hops and traffic against machines that joined, built and sent."""

import numpy as np
import pytest

from vinecast.core.arrays.profiles import Profiles, choose_publishers
from vinecast.core.events import Publish, Received, Start, Subscribe
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.core.traffic import Counts
from vinecast.protocols.multicast_tree.sweep import Detours, Forest, hops_of, traffic_of
from vinecast.protocols.pastry import Pastry, PastryAnnounce
from vinecast.protocols.pastry.rules import Peers
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.measure.traffic import Meter
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.systems.scribe.machine import Scribe, ScribeConfig
from vinecast.systems.scribe.sweep import grow_forest, measure_detours, tables_at_rest

SECOND = 1_000_000
CONFIG = ScribeConfig.of_period(1.0)


def profiles_of(found: Subscriptions, seed: int) -> Profiles:
    return Profiles.simulated(seed, found.start, found.topics, found.topic_count)


class Built:
    """A network whose nodes joined in peace and subscribed when that was over."""

    def __init__(self, nodes: int, seed: int, topics: int = 30) -> None:
        self.profiles = profiles_of(pattern("random", seed, nodes, topics, 4), seed)
        blank = profiles_of(Subscriptions(np.zeros(nodes + 1, np.int64), np.zeros(0, np.int32), topics), seed)
        self.trace: list[TraceRecord] = []
        self.meter = Meter(nodes, lambda node, topic: self.node(node).tree.subscribed(topic))
        self.engine = EventEngine(
            lambda me: Scribe(CONFIG, seed, me, blank), nodes, seed,
            Network(NetworkConfig(latency_ms=1.0), seed, nodes),
            trace=self.trace.append, on_send=self.meter.message,
        )  # fmt: skip
        for me, contacts in enumerate(random_views(seed, nodes, 10).tolist()):
            self.engine.start(me, 0, tuple(contacts))
        self.engine.run(round(8.2 * SECOND))  # between two rounds of Pastry
        for me in range(nodes):
            for topic in self.profiles.topics_of(me).tolist():
                self.engine.command(me, self.engine.now_us, Subscribe(topic))
        self.engine.run(round(8.5 * SECOND))
        self.meter.take()
        self.trace.clear()
        self.tables = self._tables()
        self.forest = grow_forest(self.profiles, *self.tables)
        self.publisher = choose_publishers(1, 0, self.profiles, np.ones(nodes, dtype=np.bool_))

    def node(self, me: int) -> Scribe:
        found = self.engine.machines[me]
        assert isinstance(found, Scribe)
        return found

    def _tables(self) -> tuple[Peers, Peers]:
        nodes = [self.node(me).pastry for me in range(self.engine.nodes)]
        return np.stack([n.leafs for n in nodes]), np.stack([n.table for n in nodes])


@pytest.fixture(scope="module")
def built() -> Built:
    return Built(150, 3)


@pytest.mark.parametrize("nodes", [1, 2, 12, 33, 90])
def test_tables_at_rest_are_those_of_machines_that_heard_from_everybody(nodes: int) -> None:
    profiles = profiles_of(pattern("random", 5, nodes, 10, 2), 5)
    leafs, tables = tables_at_rest(CONFIG, 5, profiles)
    for me in range(nodes):
        node = Pastry(CONFIG.pastry, 5, me, profiles)
        node.handle(Start(), 0)
        for peer in np.random.default_rng(me).permutation(nodes).tolist():
            if peer != me:
                node.handle(Received(peer, PastryAnnounce()), 1)
        assert np.array_equal(leafs[me], node.leafs)
        assert np.array_equal(tables[me], node.table)


def test_trees_are_those_that_machines_with_the_same_tables_build(built: Built) -> None:
    forest = built.forest
    for topic in range(30):
        members = range(forest.start[topic], forest.start[topic + 1])
        found = {
            int(forest.nodes[i]): (
                int(forest.nodes[forest.parent[i]]) if forest.parent[i] != NOBODY else NOBODY,
                bool(forest.subscribed[i]),
            )
            for i in members
        }
        branches = {me: built.node(me).tree.branches.get(topic) for me in range(150)}
        assert found == {me: (b.parent, b.subscribed) for me, b in branches.items() if b is not None}


def test_hops_and_traffic_are_those_that_machines_make(built: Built) -> None:
    forest, publisher = built.forest, built.publisher
    for topic, node in enumerate(publisher.tolist()):
        built.engine.command(node, built.engine.now_us, Publish(topic, topic))
    built.engine.run(round(9.5 * SECOND))  # in it, every node sends its heartbeats once
    hops = hops_of(forest, publisher)
    expected = {
        (int(node), int(topic)): int(count)
        for node, topic, count, wanted in zip(
            forest.nodes, forest.topics, hops, forest.subscribed, strict=True
        )
        if wanted
    }
    delivered = [r for r in built.trace if r.kind == TraceKind.DELIVERED]
    assert {(r.node, r.topic): r.hops for r in delivered} == expected
    computed, counted = traffic_of(forest, 150, publisher), built.meter.take()
    for name in ("events_received", "events_sent", "control_received", "control_sent"):
        left: Counts = getattr(computed, name)
        assert np.array_equal(left, getattr(counted, name)), name
        assert left.sum(axis=1).all(), name


def test_networks_that_joined_are_about_as_deep_as_those_at_rest(built: Built) -> None:
    joined = built.forest
    resting = grow_forest(built.profiles, *tables_at_rest(CONFIG, 3, built.profiles))
    for forest in (joined, resting):
        assert (forest.depth[forest.subscribed].size) == built.profiles.topics.size
    depths = [float(f.depth[f.subscribed].mean()) for f in (joined, resting)]
    relays = [float((~f.subscribed).mean()) for f in (joined, resting)]
    assert depths[0] == pytest.approx(depths[1], rel=0.05)
    assert relays[0] == pytest.approx(relays[1], rel=0.1)


def chain() -> tuple[Forest, Peers]:
    """One topic: node 5 (root) ← 3 (forwards only) ← 8 and 2, both subscribed; and one that nobody wants."""
    forest = Forest(
        start=np.array([0, 4, 4]),
        nodes=np.array([8, 3, 5, 2], dtype=np.int32),
        parent=np.array([1, 2, NOBODY, 1]),
        depth=np.array([2, 1, 0, 2], dtype=np.int16),
        subscribed=np.array([True, False, True, True]),
    )
    return forest, np.array([8, NOBODY], dtype=np.int32)


def test_hops_and_traffic_by_hand() -> None:
    forest, publisher = chain()
    assert hops_of(forest, publisher).tolist() == [4, 3, 2, 4]
    assert hops_of(forest, np.array([5, NOBODY], dtype=np.int32)).tolist() == [2, 1, 0, 2]
    assert hops_of(forest, np.array([NOBODY, NOBODY], dtype=np.int32)).tolist() == [NOBODY] * 4
    traffic = traffic_of(forest, 9, publisher)
    assert traffic.control_received[:, [8, 3, 5, 2]].tolist() == [[0, 1, 0, 0], [1, 0, 0, 1]]
    assert traffic.control_sent[:, [8, 3, 5, 2]].tolist() == [[0, 2, 0, 0], [0, 0, 1, 0]]
    assert traffic.events_received[:, [8, 3, 5, 2]].tolist() == [[0, 2, 0, 0], [1, 0, 1, 1]]
    assert traffic.events_sent[:, [8, 3, 5, 2]].tolist() == [[0, 3, 0, 0], [1, 0, 1, 0]]


def test_detours_follow_the_machines_own_routing(built: Built) -> None:
    """A slow twin: ask machine after machine for the next hop to the child's id."""
    forest, publisher = built.forest, built.publisher
    detours = measure_detours(built.profiles, *built.tables, forest)
    twins = [Pastry(CONFIG.pastry, 3, me, built.profiles) for me in range(150)]
    for twin, leafs, table in zip(twins, *built.tables, strict=True):
        twin.leafs, twin.table, twin.joined = leafs, table, True
    relayed = np.zeros((2, 150), dtype=np.int64)
    for i, (node, parent, topic) in enumerate(zip(forest.nodes, forest.parent, forest.topics, strict=True)):
        hops, at = 0, int(forest.nodes[parent]) if parent != NOBODY else int(node)
        while at != node:
            at = twins[at].next_hop(int(built.profiles.ids[node]))
            hops += 1
            if at != node:
                relayed[int(topic in built.profiles.topics_of(at)), at] += 1
        assert detours.hops[i] == hops
    assert np.array_equal(detours.relayed, relayed)
    assert relayed.sum() > 0
    assert hops_of(forest, publisher, detours).mean() > hops_of(forest, publisher).mean()
    direct, routed = traffic_of(forest, 150, publisher), traffic_of(forest, 150, publisher, detours)
    assert np.array_equal(routed.passing - direct.passing, 4 * relayed)


def test_detours_by_hand() -> None:
    forest, publisher = chain()
    detours = Detours(np.array([3, 1, 0, 1], dtype=np.int16), np.zeros((2, 9), dtype=np.int64))
    assert hops_of(forest, publisher, detours).tolist() == [6, 3, 2, 4]
