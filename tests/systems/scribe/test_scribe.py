"""Scribe: whole networks of it, static and under accidents, and its wiring."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from support.disseminations import dissemination_of
from support.paths import SCENARIOS
from vinecast.core.arrays.profiles import Profiles, choose_publishers
from vinecast.core.dissemination import MISSED
from vinecast.core.errors import InputError
from vinecast.core.events import Publish, Subscribe, Unsubscribe
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.protocols.multicast_tree import TreeConfig
from vinecast.protocols.pastry import PastryConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import read_scenario, resolve
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.systems.scribe.events import publish_frozen
from vinecast.systems.scribe.machine import Scribe, ScribeConfig

SECOND = 1_000_000
CONFIG = ScribeConfig.of_period(1.0)
PATIENT = ScribeConfig(
    PastryConfig(period_s=1.0, timeout_s=0.25, patience=3),
    TreeConfig(period_s=1.0, timeout_s=0.25, patience=3),
    settle_s=0.25,
)


class Net:
    """A network of Scribe nodes on the event engine that all start at once, and what was seen of it."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        network: NetworkConfig | None = None,
        config: ScribeConfig = CONFIG,
        topics: int = 20,
        subscriptions: int = 3,
        traced: bool = False,
    ) -> None:
        self.subscriptions: Subscriptions = pattern("random", seed, nodes, topics, subscriptions)
        self.profiles = Profiles.simulated(seed, self.subscriptions.start, self.subscriptions.topics, topics)
        self.trace: list[TraceRecord] = []
        self.got: defaultdict[int, list[int]] = defaultdict(list)
        self.engine = EventEngine(
            lambda me: Scribe(config, seed, me, self.profiles),
            nodes,
            seed,
            Network(network or NetworkConfig(), seed, nodes),
            trace=self.trace.append if traced else None,
            on_deliver=lambda me, delivery: self.got[delivery.event].append(me),
        )
        contacts = random_views(seed, nodes, min(10, nodes - 1))
        for me in range(nodes):
            self.engine.start(me, 0, tuple(contacts[me].tolist()))

    def node(self, me: int) -> Scribe:
        found = self.engine.machines[me]
        assert isinstance(found, Scribe)
        return found

    @property
    def online(self) -> list[int]:
        return [me for me, up in enumerate(self.engine.online) if up]

    def subscribers(self, topic: int) -> list[int]:
        return [me for me in self.online if self.node(me).tree.subscribed(topic)]

    def run(self, until_s: float) -> None:
        self.engine.run(round(until_s * SECOND))

    def publish(self, topics: range, first_event: int, publisher: int | None = None) -> None:
        """One event on every topic, now; event numbers follow the topics'."""
        for i, topic in enumerate(topics):
            who = self.subscribers(topic)[0] if publisher is None else publisher
            self.engine.command(who, self.engine.now_us + 1, Publish(topic, first_event + i))

    def delivered(self, event: int) -> list[int]:
        """Who got an event, each as often as it did."""
        return sorted(self.got[event])

    def check_nothing_came_twice(self) -> None:
        assert all(len(set(nodes)) == len(nodes) for nodes in self.got.values())

    def root_of(self, topic: int) -> int:
        points, key = self.profiles.ids.tolist(), int(self.profiles.topic_ids[topic])
        circle = 2**64
        return min(
            self.online, key=lambda me: (min((points[me] - key) % circle, (key - points[me]) % circle), me)
        )

    def check_trees(self, topics: range) -> None:
        """One root a topic, the nearest node; every subscriber reaches it; links agree at both ends."""
        for topic in topics:
            root = self.root_of(topic)
            members = [me for me in self.online if topic in self.node(me).tree.branches]
            assert [me for me in members if topic in self.node(me).tree.roots] == ([root] if members else [])
            for me in members:
                at, steps = me, 0
                while at != root:
                    parent = self.node(at).tree.branches[topic].parent
                    assert at in self.node(parent).tree.branches[topic].children
                    at, steps = parent, steps + 1
                    assert steps < 50


TOPICS = range(20)


@pytest.mark.parametrize(("nodes", "seed"), [(1, 1), (2, 1), (7, 2), (150, 3), (300, 4)])
def test_in_a_static_network_every_subscriber_gets_every_event_exactly_once(nodes: int, seed: int) -> None:
    net = Net(nodes, seed, traced=True)
    net.run(5)
    net.check_trees(TOPICS)
    wanted = {topic: net.subscribers(topic) for topic in TOPICS}
    live = range(20) if nodes > 20 else range(0)
    net.publish(live, 100)
    outsider = nodes - 1
    net.publish(TOPICS, 200, publisher=outsider)  # subscribed or not
    net.run(8)
    for topic in TOPICS:
        assert net.delivered(200 + topic) == wanted[topic]
    for topic in live:
        assert net.delivered(100 + topic) == wanted[topic]
    published = [r for r in net.trace if r.kind == TraceKind.PUBLISHED]
    assert len(published) == len(live) + 20
    assert [r.reason for r in net.trace if r.kind == TraceKind.DROPPED and r.topic in wanted] == [
        "no subscribers" for topic in TOPICS if not wanted[topic]
    ]


def test_relays_carry_what_they_did_not_ask_for_and_hops_are_counted_from_the_publisher() -> None:
    net = Net(300, 1, traced=True)
    net.run(5)
    net.publish(TOPICS, 0)
    net.run(8)
    received = [r for r in net.trace if r.kind in (TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN)]
    unwanted = [r for r in received if not net.node(r.node).tree.subscribed(r.topic)]
    assert 0.05 < len(unwanted) / len(received) < 0.9
    hops = [r.hops for r in net.trace if r.kind == TraceKind.DELIVERED]
    assert 2.0 < np.mean(hops) < 6.0  # about log₁₆ 300 up and the same down
    for record in net.trace:
        if record.kind == TraceKind.DELIVERED:
            arrivals = [r.hops for r in received if (r.node, r.event) == (record.node, record.event)]
            assert record.hops in arrivals or record.hops == 0
    firsts = Counter((r.node, r.event) for r in received if r.kind == TraceKind.RECEIVED_FIRST)
    assert set(firsts.values()) == {1}
    sent = Counter(r.message for r in net.trace if r.kind == TraceKind.SENT and r.event >= 0)
    assert set(sent) == {"tree.publish", "tree.event"}
    assert sum(sent.values()) == len(received)


def test_heartbeats_are_counted_a_topic_each() -> None:
    net = Net(100, 1)
    net.run(5.5)
    before = sum(net.engine.counters["scribe.heartbeats"])
    messages = sum(net.engine.counters["sent.tree.heartbeat"])
    net.run(6.5)
    links = sum(net.node(me).tree.links for me in range(100))
    assert sum(net.engine.counters["scribe.heartbeats"]) - before == links
    assert sum(net.engine.counters["sent.tree.heartbeat"]) - messages < links
    received = sum(net.engine.counters["scribe.heartbeats_received"])
    assert received == sum(net.engine.counters["scribe.heartbeats"])
    assert 0 < sum(net.engine.counters["scribe.heartbeats_unwanted"]) < received


def test_a_late_subscriber_receives_from_then_on_and_a_leaver_no_more() -> None:
    net = Net(150, 5)
    net.run(5)
    outside = [me for me in range(150) if not net.node(me).tree.subscribed(3)][:20]
    inside = net.subscribers(3)[:10]
    net.publish(range(3, 4), 1)
    net.run(6)
    for me in outside:
        net.engine.command(me, 6 * SECOND, Subscribe(3))
    for me in inside:
        net.engine.command(me, 6 * SECOND, Unsubscribe(3))
    net.run(7)
    net.publish(range(3, 4), 2, publisher=inside[0])
    net.run(9)
    assert not set(outside) & set(net.delivered(1))
    assert set(inside) <= set(net.delivered(1))
    assert set(outside) <= set(net.delivered(2))
    assert not set(inside) & set(net.delivered(2))
    net.check_trees(TOPICS)
    for me in net.subscribers(3):
        net.engine.command(me, 9 * SECOND, Unsubscribe(3))
    net.run(11)
    assert not any(3 in net.node(me).tree.branches for me in range(150))


@pytest.mark.parametrize("graceful", [False, True])
def test_a_tree_whose_root_falls_is_mended_within_a_few_periods(graceful: bool) -> None:
    net = Net(100, 6)
    net.run(5)
    roots = sorted({net.root_of(topic) for topic in TOPICS})
    for root in roots:
        (net.engine.leave if graceful else net.engine.crash)(root, 5 * SECOND)
    net.run(7.5 if graceful else 10.0)
    wanted = {topic: net.subscribers(topic) for topic in TOPICS}
    net.publish(TOPICS, 0)
    net.run(13)
    net.check_trees(TOPICS)
    for topic in TOPICS:
        assert net.delivered(topic) == wanted[topic]


def test_a_newcomer_nearer_to_a_key_becomes_the_root_at_once() -> None:
    net = Net(100, 7)
    net.engine.run(1)
    root = net.root_of(4)
    net.engine.crash(root, 2)
    net.run(8)
    old = net.root_of(4)
    assert old != root
    net.engine.start(root, 8 * SECOND, (old,), keep_state=False)
    net.run(9)
    assert net.root_of(4) == root
    assert 4 in net.node(root).tree.roots
    assert net.node(old).tree.branches[4].parent == root
    net.publish(range(4, 5), 1)
    net.run(9.9)
    assert set(net.delivered(1)) == set(net.subscribers(4))


@pytest.mark.parametrize("seed", range(2))
def test_after_the_crash_of_half_everything_arrives_again(seed: int) -> None:
    net = Net(100, seed)
    net.run(5)
    for me in range(0, 100, 2):
        net.engine.crash(me, 5 * SECOND)
        net.engine.start(me, 40 * SECOND, (1, 3), keep_state=me % 4 == 0)
    for second in range(6, 30, 3):
        net.run(second)
        net.publish(TOPICS, 1000 * second)
    net.run(30)
    net.publish(TOPICS, 0)
    net.run(35)
    net.check_trees(TOPICS)
    for topic in TOPICS:
        assert net.delivered(topic) == net.subscribers(topic)
    net.run(55)
    net.publish(TOPICS, 100)
    net.run(60)
    net.check_trees(TOPICS)
    for topic in TOPICS:
        assert net.delivered(100 + topic) == net.subscribers(topic)
        assert set(net.subscribers(topic)) == {me for me in range(100) if topic in net.subscriptions.of(me)}
    net.check_nothing_came_twice()


@pytest.mark.parametrize("seed", range(2))
def test_under_loss_trees_hold_together_and_mend_when_it_ends(seed: int) -> None:
    bad = NetworkConfig(
        latency="sampled", latency_ms=1.0, latency_ms_max=100.0, loss=0.3, duplication=0.1, reordering=0.1,
        reordering_ms=300.0,
    )  # fmt: skip
    net = Net(70, seed, bad, PATIENT)
    net.run(10)
    shares = []
    for second in range(10, 20):
        wanted = {topic: net.subscribers(topic) for topic in TOPICS}
        net.publish(TOPICS, 100 * second)
        net.run(second + 1)
        got = [len(net.delivered(100 * second + topic)) for topic in TOPICS]
        shares.append(sum(got) / sum(len(wanted[topic]) for topic in TOPICS))
    assert 0.1 < np.mean(shares) < 0.9
    net.engine.network = Network(NetworkConfig(), seed, 70)
    net.run(35)
    net.publish(TOPICS, 0)
    net.run(38)
    net.check_trees(TOPICS)
    for topic in TOPICS:
        assert net.delivered(topic) == net.subscribers(topic)
    net.check_nothing_came_twice()


def test_churn_costs_some_deliveries_and_no_double_ones() -> None:
    net = Net(100, 8)
    net.run(5)
    fates = np.random.default_rng(8)
    hits = wanted = 0
    for second in range(5, 25):
        for me in fates.choice(100, 2, replace=False).tolist():
            net.engine.crash(me, second * SECOND)
            net.engine.start(me, (second + 4) * SECOND, tuple(fates.integers(0, 100, 5).tolist()))
        net.engine.run(second * SECOND + SECOND // 2)
        expected = {topic: net.subscribers(topic) for topic in TOPICS}
        net.publish(TOPICS, 100 * second)
        net.run(second + 0.99)
        hits += sum(len(set(net.delivered(100 * second + t)) & set(expected[t])) for t in TOPICS)
        wanted += sum(map(len, expected.values()))
    assert 0.5 < hits / wanted < 1.0
    net.run(45)
    net.publish(TOPICS, 0)
    net.run(48)
    net.check_trees(TOPICS)
    assert [net.delivered(topic) for topic in TOPICS] == [net.subscribers(topic) for topic in TOPICS]
    net.check_nothing_came_twice()


def test_the_same_seed_gives_the_same_run() -> None:
    bad = NetworkConfig(latency="sampled", latency_ms=1.0, latency_ms_max=200.0, loss=0.1, duplication=0.1)
    runs = []
    for _ in range(2):
        net = Net(60, 9, bad, traced=True)
        net.engine.crash(3, 4 * SECOND)
        net.run(6)
        net.publish(range(5), 0)
        net.run(9)
        runs.append((net.trace, dict(net.engine.counters)))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("crashed", [0, 1, 12])
def test_events_on_a_frozen_network_go_where_the_engine_takes_them(crashed: int) -> None:
    net = Net(80, 10, NetworkConfig(latency_ms=1.0), traced=True)
    net.run(5.2)
    for me in range(0, 6 * crashed, 6):
        net.engine.crash(me, net.engine.now_us)
    net.run(5.3)
    online = np.array(net.engine.online)
    nodes = [net.node(me) for me in range(80)]
    dissemination = publish_frozen(nodes, online, net.profiles, 10, 0, net.engine.now_us)
    assert np.array_equal(dissemination.publisher, choose_publishers(10, 0, net.profiles, online))
    net.trace.clear()
    for topic in TOPICS:
        net.engine.command(
            int(dissemination.publisher[topic]), net.engine.now_us, Publish(topic, 1000 + topic)
        )
    net.run(5.5)
    twin = dissemination_of(net.trace, net.profiles, 1000)
    assert np.array_equal(dissemination.hops, twin.hops)
    assert np.array_equal(dissemination.copies, twin.copies)
    missed = int((dissemination.hops == MISSED).sum())
    assert missed >= 3 * crashed if crashed else missed == 0  # the dead themselves, and who was below them


def test_scribe_is_a_system_that_scenarios_can_run() -> None:
    path = SCENARIOS / "scribe-start.toml"
    small = {"nodes": 60, "cycles": 4}
    outcome = simulate(read_scenario(path, small))
    assert outcome.summary["system"] == "scribe"
    assert outcome.summary["final"]["online"] == 60
    assert outcome.summary["final"]["hit_ratio"] == 1.0
    assert outcome.summary["counters"]["sent.tree.event"] > 0
    assert outcome.rows == simulate(read_scenario(path, small)).rows
    with pytest.raises(InputError, match='engine = "sweep" is not offered by scribe; use engine = "event"'):
        resolve({"name": "t", "seed": 1, "nodes": 9, "cycles": 1, "system": "scribe"}, path.parent)
