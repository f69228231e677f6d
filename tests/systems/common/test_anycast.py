"""Anycast: a subscriber that nobody near knows of is found, and nobody gains by lying about it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from support.systems.anycast import GRAVITY, ON, SECOND
from vinecast.core.arrays.bloom import fill_of, from_bytes
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Deliver,
    Effect,
    Event,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
)
from vinecast.core.machine import NOBODY, Machine
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.directed_walk import WalkConfig
from vinecast.protocols.gravity import GravityConfig, GravityUpdate
from vinecast.protocols.gravity.machine import TIMER
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.workload.subscriptions import Subscriptions, subscribe
from vinecast.systems.common.anycast import LONELY_CYCLES, AnycastConfig, AnycastSeek
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.poldercast.sweep import PolderCastSweep

SPARSE = PolderCastConfig(
    cyclon=CyclonConfig(view_size=4, gossip_size=3, period_s=1.0),
    vicinity=VicinityConfig(period_s=1.0),
    rings=RingsConfig(period_s=1.0),
    anycast=ON,
)
"""Nodes know few others, so that there are several hops between any two."""
NODES, RARE = 60, 8
"""The first topics have one subscriber each, node 7 · topic; everybody has one more."""


def crowd(nodes: int = NODES) -> Subscriptions:
    node = [7 * topic for topic in range(RARE)] + list(range(nodes))
    topic = [*range(RARE), *[RARE] * nodes]
    return subscribe(np.array(node), np.array(topic), nodes, RARE + 1)


class Net:
    """A population on the event engine."""

    def __init__(
        self,
        config: PolderCastConfig = SPARSE,
        subscriptions: Subscriptions | None = None,
        make: Callable[[int], Machine | None] = lambda node: None,
        seed: int = 1,
    ) -> None:
        found = subscriptions or crowd()
        nodes = found.nodes
        self.profiles = Profiles.simulated(seed, found.start, found.topics, found.topic_count)
        topics = found.topic_count
        room = make_scratch(nodes, topics, topics, config.most, config.rings.size)
        self.delivered: list[tuple[int, int, int]] = []
        self.engine = EventEngine(
            lambda node: make(node) or PolderCast(config, seed, node, self.profiles, room),
            nodes, seed, Network(NetworkConfig(latency_ms=5.0), seed, nodes), on_deliver=self._deliver,
        )  # fmt: skip
        for node in range(nodes):
            self.engine.start(node, 0, tuple((node * step + step) % nodes for step in (1, 7, 23)))
        self.run(12.0)

    def _deliver(self, node: int, deliver: Deliver) -> None:
        self.delivered.append((node, deliver.topic, deliver.hops))

    def run(self, seconds: float) -> None:
        self.engine.run(self.engine.now_us + round(seconds * SECOND))

    def machine(self, node: int) -> PolderCast:
        machine = self.engine.machines[node]
        assert isinstance(machine, PolderCast)
        return machine

    def stranger_to(self, topic: int) -> int:
        """Somebody who knows no subscriber of a topic."""
        for node in range(NODES):
            machine = self.engine.machines[node]
            if not isinstance(machine, PolderCast) or machine.subscribes(topic):
                continue
            if machine._subscriber(topic, 0, self.engine.now_us) == NOBODY:
                return node
        raise AssertionError("everybody knows one")

    def search(self, node: int, topic: int) -> None:
        for effect in self.machine(node).search(topic, self.engine.now_us):
            self.engine._apply(node, effect)

    def count(self, name: str) -> int:
        return sum(self.engine.counters[name])


# Finding.


def publish_on_rare_topics(net: Net) -> int:
    """Publish one event on every rare topic, from nodes that know no subscriber; how many arrive."""
    publishers = []
    for topic in range(RARE):
        publishers.append(net.stranger_to(topic))
        net.search(publishers[-1], topic)
    net.run(0.3)
    for topic, publisher in enumerate(publishers):
        net.engine.command(publisher, net.engine.now_us, Publish(topic, topic))
    net.run(0.3)
    return len({topic for node, topic, _ in net.delivered if node == 7 * topic})


def test_a_publisher_finds_a_subscriber_several_hops_away() -> None:
    net = Net()
    before = net.count("anycast.passed on")
    assert publish_on_rare_topics(net) == RARE
    assert net.count("anycast.found") >= RARE
    assert net.count("anycast.passed on") - before >= RARE  # so many hops more than one each


def test_and_does_not_where_it_is_switched_off() -> None:
    net = Net(replace(SPARSE, anycast=AnycastConfig()))
    assert publish_on_rare_topics(net) < RARE
    assert not net.count("sent.gravity.update")
    assert not net.count("sent.anycast.seek")


def test_the_same_seed_gives_the_same_messages() -> None:
    def told() -> list[tuple[str, tuple[int, ...]]]:
        net = Net()
        publish_on_rare_topics(net)
        return sorted((name, tuple(counts)) for name, counts in net.engine.counters.items())

    assert told() == told()


def test_who_joins_a_topic_that_nobody_near_knows_finds_its_ring() -> None:
    net = Net()
    joins = net.stranger_to(0)
    net.engine.command(joins, net.engine.now_us, Subscribe(0))
    net.run(LONELY_CYCLES + 4)
    for one, other in ((0, joins), (joins, 0)):
        assert net.machine(one).rings.peers[0].tolist().count(other) == 2  # on both sides


def test_a_found_subscriber_is_handed_the_next_events_too_for_a_while() -> None:
    net = Net()
    publisher = net.stranger_to(1)
    machine = net.machine(publisher)
    first = machine.handle(Publish(1, 100), net.engine.now_us)  # too early for this one
    assert [effect.reason for effect in first if hasattr(effect, "reason")][-1] == "no subscriber known"
    for effect in first:
        net.engine._apply(publisher, effect)
    net.run(0.3)
    assert machine._subscriber(1, 0, net.engine.now_us) == 7
    assert 7 in machine.peers_in_use()
    sent = machine.handle(Publish(1, 101), net.engine.now_us)
    assert [effect.to for effect in sent if isinstance(effect, Send)] == [7]
    machine.handle(PeerLost(7), net.engine.now_us)
    assert 7 not in machine.anycast.peers  # type: ignore[union-attr]


# Liars.


class Liar:
    """Claims to be near everything, answers nobody and passes nothing on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.swallowed = 0
        self._peers: set[int] = set()

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        lie = GravityUpdate(now_us + 1, 0, self.data)
        match event:
            case Start(contacts):
                self._peers.update(contacts)
                return [SetTimer(TIMER, 0)]
            case TimerFired():
                return [
                    SetTimer(TIMER, GRAVITY.period_us),
                    *(Send(peer, lie) for peer in sorted(self._peers)),
                ]
            case Received(sender, GravityUpdate()):
                self._peers.add(sender)
                return [Send(sender, lie)]
            case Received(_, AnycastSeek()):
                self.swallowed += 1
        return []


def random_bits(share: float) -> bytes:
    """A home with this share of its bits set."""
    bits = np.random.default_rng(1).random(8 * GRAVITY.depth * GRAVITY.filter_bytes) < share
    return np.packbits(bits).tobytes()


def lied_to(data: bytes, gravity: GravityConfig = GRAVITY) -> tuple[int, Net]:
    """How many walks vanish where one node in eight lies, and the network."""
    liars: list[Liar] = []

    def make(node: int) -> Machine | None:
        if node % 8 != 5:
            return None
        liars.append(Liar(data))
        return liars[-1]

    net = Net(replace(SPARSE, anycast=replace(ON, gravity=gravity)), make=make)
    before = sum(liar.swallowed for liar in liars)
    topics = list(range(RARE))
    for node in range(NODES):
        if node % 8 != 5:
            for topic in topics[node % 4 :: 4]:
                net.search(node, topic)
    net.run(0.5)
    return sum(liar.swallowed for liar in liars) - before, net


@pytest.mark.parametrize("share", [1.0, 0.75])
def test_a_full_filter_does_not_attract_the_walks_of_every_topic(share: float) -> None:
    data = random_bits(share)
    assert (fill_of(from_bytes(data, GRAVITY.filter_bytes, GRAVITY.depth)) > GRAVITY.crowded).all()
    modest, _ = lied_to(bytes(len(data)))
    taken, net = lied_to(data)
    assert net.count("gravity.too full") > 0
    assert taken <= 1.5 * modest + 8  # about what a node gets that says nothing
    if share < 1:  # a filter of all ones negates itself
        drawn, _ = lied_to(data, replace(GRAVITY, calm=1.0, crowded=1.0))
        assert drawn > 1.5 * taken


def test_filters_of_another_size_are_counted_and_do_no_harm() -> None:
    _, net = lied_to(b"\xff" * 512)
    assert net.count("gravity.wrong size") > 0
    assert net.count("anycast.found") > 0


def test_a_sweep_has_no_searches() -> None:
    found = crowd()
    profiles = Profiles.simulated(1, found.start, found.topics, found.topic_count)
    with pytest.raises(InputError, match="anycast"):
        PolderCastSweep(SPARSE, 1, profiles)


def test_what_a_node_keeps_is_bounded() -> None:
    """25 kB of filters at degree 20: what the product's filters take there, with a level less."""
    assert AnycastConfig().gravity.state_bytes <= 25_000
    assert replace(AnycastConfig().gravity, degree=20, depth=2).state_bytes <= 25_000
    assert WalkConfig(ttl=24).ttl == AnycastConfig().walk.ttl
