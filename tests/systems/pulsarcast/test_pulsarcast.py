"""PulsarCast's trees on Kademlia: whole networks of it, static and under accidents, and its wiring."""

import hashlib
from collections import defaultdict

import pytest

from support.paths import SCENARIOS
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import as_table, read
from vinecast.core.errors import InputError
from vinecast.core.events import Count, PeerFound, Publish, Received, Send, Start, Stop, Subscribe
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.protocols.kademlia import Found, KademliaConfig, KademliaGoodbye, KademliaPong, Operation
from vinecast.protocols.multicast_tree import RecruitingConfig, TreeHeartbeat
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import read_scenario
from vinecast.sim.workload.subscriptions import pattern
from vinecast.systems.pulsarcast.machine import PulsarCast, PulsarCastConfig

SECOND = 1_000_000
TOPICS = range(20)
CONFIG = PulsarCastConfig.of_period(1.0)


class Net:
    """A network that starts at once, and what was seen of it."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        network: NetworkConfig | None = None,
        config: PulsarCastConfig = CONFIG,
        traced: bool = False,
    ) -> None:
        subscriptions = pattern("random", seed, nodes, len(TOPICS), 3)
        self.profiles = Profiles.simulated(seed, subscriptions.start, subscriptions.topics, len(TOPICS))
        self.trace: list[TraceRecord] = []
        self.got: defaultdict[int, list[int]] = defaultdict(list)
        self.engine = EventEngine(
            lambda me: PulsarCast(config, seed, me, self.profiles),
            nodes,
            seed,
            Network(network or NetworkConfig(), seed, nodes),
            trace=self.trace.append if traced else None,
            on_deliver=lambda me, delivery: self.got[delivery.event].append(me),
        )
        for me, contacts in enumerate(random_views(seed, nodes, min(6, nodes - 1)).tolist()):
            self.engine.start(me, 0, tuple(contacts))

    def node(self, me: int) -> PulsarCast:
        found = self.engine.machines[me]
        assert isinstance(found, PulsarCast)
        return found

    @property
    def online(self) -> list[int]:
        return [me for me, up in enumerate(self.engine.online) if up]

    def run(self, seconds: float) -> None:
        self.engine.run(self.engine.now_us + round(seconds * SECOND))

    def subscribers(self, topic: int) -> list[int]:
        return [me for me in self.online if self.node(me).tree.subscribed(topic)]

    def root_of(self, topic: int) -> int:
        points, key = self.profiles.ids.tolist(), int(self.profiles.topic_ids[topic])
        return min(self.online, key=lambda me: points[me] ^ key)

    def check_trees(self) -> None:
        """One root a topic, the nearest node; every member reaches it; links agree at both ends; every
        parent is nearer than its child."""
        points = self.profiles.ids.tolist()
        for topic in TOPICS:
            root, key = self.root_of(topic), int(self.profiles.topic_ids[topic])
            members = [me for me in self.online if topic in self.node(me).tree.branches]
            assert [me for me in members if topic in self.node(me).tree.roots] == ([root] if members else [])
            for me in members:
                if me == root:
                    continue
                parent = self.node(me).tree.branches[topic].parent
                assert me in self.node(parent).tree.branches[topic].children
                assert points[parent] ^ key < points[me] ^ key

    def publish(self, first_event: int, publisher: int | None = None) -> None:
        """One event on every topic, and time to arrive; each subscriber gets it once, nobody else does."""
        for topic in TOPICS:
            who = next(iter(self.subscribers(topic)), 0) if publisher is None else publisher
            self.engine.command(who, self.engine.now_us, Publish(topic, first_event + topic))
        self.run(0.8)
        for topic in TOPICS:
            assert sorted(self.got[first_event + topic]) == self.subscribers(topic), topic


@pytest.mark.parametrize(("nodes", "seed"), [(1, 1), (2, 1), (30, 2), (150, 3)])
def test_in_a_static_network_every_subscriber_gets_every_event_once(nodes: int, seed: int) -> None:
    net = Net(nodes, seed, traced=True)
    net.run(5.1)
    net.check_trees()
    net.publish(100)
    net.publish(200, publisher=nodes - 1)
    again = [record for record in net.trace if record.kind == TraceKind.RECEIVED_AGAIN]
    assert not again  # trees have no circles


def test_an_event_takes_the_links_of_the_tree_and_not_the_way_to_the_root() -> None:
    net = Net(100, 4)
    net.run(5.1)
    net.publish(100)
    assert sum(net.engine.counters["sent.tree.publish"]) == 0
    links = sum(net.node(me).tree.links for me in net.online)
    assert sum(net.engine.counters["sent.tree.event"]) == links


def test_searching_makes_fewer_forwarders() -> None:
    forwarders = []
    for searched in (1, 8):
        tree = RecruitingConfig(period_s=1.0, timeout_s=0.25, searched=searched)
        net = Net(150, 5, config=PulsarCastConfig(CONFIG.kademlia, tree, settle_s=0.25))
        net.run(5)
        trees = [net.node(me).tree for me in net.online]
        forwarders.append(sum(not b.subscribed for tree in trees for b in tree.branches.values()))
    assert forwarders[1] < forwarders[0]


def test_when_a_root_dies_its_children_turn_to_its_heir() -> None:
    net = Net(120, 6)
    net.run(6)
    topic = max(TOPICS, key=lambda t: len(net.node(net.root_of(t)).tree.branches[t].children))
    root = net.root_of(topic)
    children = list(net.node(root).tree.branches[topic].children)
    net.engine.crash(root, net.engine.now_us)
    net.run(0)
    heir = net.root_of(topic)
    assert all(heir in net.node(me).tree.above[topic] for me in children if me != heir)
    net.run(3)
    assert topic in net.node(heir).tree.roots
    assert [net.node(me).tree.branches[topic].parent for me in children if me != heir] == [heir] * (
        len(children) - (heir in children)
    )
    net.run(10)
    net.check_trees()
    net.publish(100)


@pytest.mark.parametrize("seed", [7, 8])
def test_the_crash_of_a_third_is_overcome_and_their_return(seed: int) -> None:
    net = Net(90, seed, NetworkConfig(latency_ms=10.0, loss=0.02))
    net.run(6)
    gone = net.online[::3]
    for me in gone:
        net.engine.crash(me, net.engine.now_us)
    net.run(15)
    net.engine.network = Network(NetworkConfig(latency_ms=10.0), seed, 90)
    net.run(10)
    net.check_trees()
    net.publish(100)
    for me in gone:
        net.engine.start(me, net.engine.now_us, (net.online[0],))
    net.run(15)
    net.check_trees()
    net.publish(200)


def test_the_table_below_keeps_values_for_whoever_asks() -> None:
    net = Net(60, 9)
    net.run(5)
    block = b"a topic's descriptor"
    key = hashlib.sha256(block).digest()
    for effect in net.node(3).kademlia.put(key, block, net.engine.now_us):
        net.engine._apply(3, effect)
    net.run(2)
    (stored,) = net.node(3).kademlia.take_results()
    assert (stored.operation, len(stored.peers)) == (Operation.PUT, 8)
    for effect in net.node(50).kademlia.get(key, net.engine.now_us):
        net.engine._apply(50, effect)
    net.run(2)
    (found,) = net.node(50).kademlia.take_results()
    assert found == Found(Operation.GET, key, found.peers, block)


# The wiring.


def machine(me: int = 3) -> PulsarCast:
    wanted = pattern("random", 1, 10, 4, 2)
    profiles = Profiles.simulated(1, wanted.start, wanted.topics, 4)
    made = PulsarCast(CONFIG, 1, me, profiles)
    made.handle(Start(), 0)
    return made


def test_whoever_speaks_of_trees_was_seen() -> None:
    node = machine()
    node.handle(Received(5, TreeHeartbeat(())), 1)
    assert node.kademlia.buckets.known == [5]
    assert node.peers.tolist() == [5] + [NOBODY] * 9
    node.handle(Received(5, KademliaGoodbye()), 2)
    assert node.kademlia.buckets.known == []
    assert Send(6, KademliaGoodbye()) in [
        *node.handle(Received(6, KademliaPong(1)), 3),
        *node.handle(Stop(), 3),
    ]


def test_a_peer_that_was_found_is_a_contact() -> None:
    node = machine()
    effects = node.handle(PeerFound(5), 1)
    assert [effect.to for effect in effects if isinstance(effect, Send)] == [5]
    assert node.kademlia.contacts == [5]
    assert node.handle(PeerFound(3), 1) == []
    assert node.handle(PeerFound(99), 1) == []


def test_topics_and_nodes_that_do_not_exist_are_refused() -> None:
    node = machine()
    for event in (Publish(9, 1), Subscribe(-1)):
        assert node.handle(event, 1) == [Count("pulsarcast.unknown_topics")]
    assert node.next_hop(9) == NOBODY
    assert node.ways(9, 3) == node.heirs(9, 3) == []
    assert not node.is_nearer(9, 1)
    with pytest.raises(InputError):
        machine(10)


def test_its_configuration_reads_back_and_is_checked() -> None:
    assert read(PulsarCastConfig, as_table(CONFIG)) == CONFIG
    assert CONFIG.period_us == SECOND
    assert PulsarCastConfig().kademlia.nearest == 8
    with pytest.raises(InputError):
        PulsarCastConfig(KademliaConfig(), RecruitingConfig(period_s=0.5), settle_s=1.0)


def test_the_scenario_of_it_runs_and_gives_the_same_twice() -> None:
    path = SCENARIOS / "pulsarcast-start.toml"
    found = read_scenario(path, {"nodes": 60, "cycles": 3})
    first, second = simulate(found), simulate(found)
    assert first.rows == second.rows
    assert first.summary == second.summary
    assert first.rows[-1]["hit_ratio"] == 1.0
    assert first.summary["counters"]["pulsarcast.heartbeats"] > 0
