"""Anycast: a subscriber that nobody near knows of is found, and nobody gains by lying about it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.bloom import fill_of, from_bytes
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
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
from vinecast.protocols.directed_walk import NO_LEVEL, Walk, WalkConfig
from vinecast.protocols.gravity import GravityAsk, GravityConfig, GravityRefuse, GravityUpdate
from vinecast.protocols.gravity.machine import TIMER
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.workload.subscriptions import Subscriptions, subscribe
from vinecast.systems.common.anycast import (
    BEGUN_A_CYCLE,
    FOUND,
    FOUND_CYCLES,
    LONELY_CYCLES,
    NEWS_CYCLES,
    PASSED_A_CYCLE,
    PASSED_FOR_ONE,
    REFUSED_CYCLES,
    REST_CYCLES,
    SEARCHES,
    TRAILS,
    WHOLES_MAX,
    Anycast,
    AnycastConfig,
    AnycastFound,
    AnycastSeek,
)
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.poldercast.sweep import PolderCastSweep

SECOND = 1_000_000
GRAVITY = GravityConfig(degree=6, crowded=0.5, period_s=2.0)
ON = AnycastConfig(on=True, gravity=GRAVITY)
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


# One machine.


def one_of(
    nodes: int = 40,
    own: tuple[int, ...] = (),
    config: AnycastConfig = ON,
    known: dict[int, int] | None = None,
    view: NDArray[np.int32] | None = None,
) -> Anycast:
    """A machine that knows some subscribers in its views, by topic."""
    found = subscribe(np.array([0] * len(own) + [1]), np.array([*own, 1]), nodes, 9)
    profiles = Profiles.simulated(1, found.start, found.topics, 9)

    def knows(item: int, avoided: set[int]) -> int:
        topic = profiles.topic_ids.tolist().index(item) if item in profiles.topic_ids else -1
        peer = (known or {}).get(topic, NOBODY)
        return NOBODY if peer == NOBODY or int(profiles.ids[peer]) in avoided else peer

    machine = Anycast(config, 1, 0, profiles, lambda: VIEW if view is None else view, knows)
    machine.handle(Start(()), 0)
    machine.handle(TimerFired(TIMER), 1)
    return machine


VIEW = np.arange(1, 21, dtype=np.int32)


def item_of(machine: Anycast, topic: int) -> int:
    return int(machine.profiles.topic_ids[topic])


def sends(effects: list[Effect]) -> list[tuple[int, AnycastSeek | AnycastFound]]:
    return [
        (effect.to, effect.message)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, AnycastSeek | AnycastFound)
    ]


def counts(effects: list[Effect]) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, Count)]


def test_whoever_subscribes_answers_the_sender_and_nobody_else() -> None:
    """A search names no asker, so that nobody can ask in another's name."""
    machine = one_of(own=(3,))
    seek = AnycastSeek(item_of(machine, 3), Walk(b"", 9, 0, 77))
    assert sends(machine.handle(Received(5, seek), 0)) == [(5, AnycastFound(77, 0))]
    own_id = machine.profiles.ids[:1].tobytes()
    avoiding = AnycastSeek(item_of(machine, 3), Walk(own_id, 9, 0, 78))
    ((to, message),) = sends(machine.handle(Received(5, avoiding), 0))
    assert to in VIEW
    assert isinstance(message, AnycastSeek)  # it was not for this node: without neighbours, to anybody


def test_who_knows_a_subscriber_sends_a_walk_straight_to_it() -> None:
    machine = one_of(known={2: 9})
    walk = Walk(b"", 9, NO_LEVEL, 77)
    ((to, message),) = sends(machine.handle(Received(5, AnycastSeek(item_of(machine, 2), walk)), 0))
    assert to == 9
    assert message == AnycastSeek(item_of(machine, 2), Walk(b"", 8, 0, 77))
    last = AnycastSeek(item_of(machine, 2), replace(walk, ttl=1))
    assert counts(machine.handle(Received(5, last), 0)) == ["anycast.expired"]


def test_an_answer_goes_back_the_way_the_walk_came() -> None:
    machine = one_of(known={2: 9})
    seek = AnycastSeek(item_of(machine, 2), Walk(b"", 9, NO_LEVEL, 77))
    machine.handle(Received(5, seek), 0)
    machine.handle(Received(6, seek), 0)  # it comes by again: the first way is the shorter one
    answer = AnycastFound(77, 9)
    assert counts(machine.handle(Received(8, answer), 0)) == ["anycast.unasked answer"]  # it never went there
    assert sends(machine.handle(Received(9, answer), 0)) == [(5, answer)]
    assert counts(machine.handle(Received(9, answer), 0)) == ["anycast.unasked answer"]  # once is enough


def test_only_who_subscribes_by_its_own_word_is_believed() -> None:
    machine = one_of(known={1: 9, 2: 9})
    for topic, expected in ((2, "anycast.false answer"), (1, "anycast.found")):
        ((to, message), *_) = sends(machine.search(item_of(machine, topic), 0))
        assert isinstance(message, AnycastSeek)
        answer = AnycastFound(message.walk.number, 1)  # who subscribes to topic 1
        assert counts(machine.handle(Received(to, answer), 0)) == [expected]
    assert machine.is_searching(item_of(machine, 2), 0)
    assert not machine.is_searching(item_of(machine, 2), ON.answer_us)  # its time is over
    assert not machine.is_searching(item_of(machine, 1), 0)
    assert machine.peers.tolist().count(1) == 1
    for _ in range(FOUND_CYCLES + 1):
        machine.begin_cycle((), 0)
    assert machine.in_use() == set(machine.gravity.links)


def test_a_search_in_vain_rests_twice_as_long_each_time() -> None:
    machine = one_of()
    item = item_of(machine, 2)
    alone = one_of(view=VIEW[:0])
    assert alone.search(item, 0) == []
    assert not alone.is_searching(item, 0)  # nobody to send a walk to
    begun = []
    for cycle in range(100):
        if sends(machine.search(item, cycle * SECOND)):
            begun.append(cycle)
            assert machine.is_searching(item, cycle * SECOND)
        machine.begin_cycle((), cycle * SECOND)
    rests = np.diff(begun)
    assert rests[0] > REST_CYCLES
    assert all(later > 1.5 * sooner for sooner, later in pairwise(rests))


def test_a_lonely_subscriber_waits_before_it_searches_and_stops_when_it_is_not() -> None:
    machine = one_of(own=tuple(range(2, 9)))
    lonely = [item_of(machine, topic) for topic in range(2, 9)]
    walks: list[int] = []
    for _ in range(LONELY_CYCLES + 2):
        found = sends(machine.begin_cycle(lonely, 0))  # in no time, so that nothing is tried again
        walks.append(len({message.item for _, message in found if isinstance(message, AnycastSeek)}))
    assert walks == [0] * LONELY_CYCLES + [BEGUN_A_CYCLE, len(lonely) - BEGUN_A_CYCLE]
    assert all(not sends(machine.begin_cycle((), 0)) for _ in range(20))


# Bounds.


def test_a_flood_of_walks_is_passed_on_no_further() -> None:
    machine = one_of(known={2: 9})
    item = item_of(machine, 2)

    def flood(sender: int) -> int:
        seeks = (AnycastSeek(item, Walk(b"", 24, NO_LEVEL, 1000 * sender + n)) for n in range(500))
        return sum(len(sends(machine.handle(Received(sender, seek), 0))) for seek in seeks)

    assert [flood(sender) for sender in range(10, 16)] == [PASSED_FOR_ONE] * 4 + [0, 0]
    assert PASSED_A_CYCLE == 4 * PASSED_FOR_ONE
    for _ in range(20):
        machine.begin_cycle((), 0)
        assert flood(10) == PASSED_FOR_ONE
        assert len(machine._trails) <= TRAILS


def test_half_of_the_places_are_for_those_whom_a_node_chose_itself() -> None:
    machine = one_of()
    home = bytes(GRAVITY.depth * GRAVITY.filter_bytes)
    for peer in range(20, 30):
        effects = machine.handle(Received(peer, GravityUpdate(1, 0, home)), 1)
        kinds = [type(effect.message) for effect in effects if isinstance(effect, Send)]
        assert kinds == [GravityUpdate if peer < 20 + GRAVITY.degree // 2 else GravityRefuse]
    for _ in range(4):
        machine.begin_cycle((), 2)
    assert set(machine.gravity.links) & set(VIEW.tolist())


def test_whoever_had_no_room_is_not_asked_again_at_once() -> None:
    machine = one_of(view=VIEW[:1])
    asked = []
    for cycle in range(3 * REFUSED_CYCLES):
        effects = machine.begin_cycle((), cycle * SECOND)
        if any(isinstance(effect, Send) and effect.to == 1 for effect in effects):
            asked.append(cycle)
            machine.handle(Received(1, GravityRefuse()), cycle * SECOND)
    assert len(asked) == 3
    assert machine.gravity.links == []


def test_what_a_node_comes_to_subscribe_to_is_told_within_a_cycle() -> None:
    machine = one_of(view=VIEW[:2])
    for _ in range(3):
        machine.begin_cycle((), 2)
    assert sorted(machine.gravity.links) == [1, 2]
    for _ in range(NEWS_CYCLES):
        assert machine.begin_cycle((), 2) == []
    machine.profiles.set_topics(0, np.array([4], dtype=np.int32), np.zeros(1, dtype=np.uint8))
    machine.renew_items()
    told = [effect.message for effect in machine.begin_cycle((), 2) if isinstance(effect, Send)]
    assert [type(message) for message in told] == [GravityUpdate] * 2
    assert all(0 < len(message.data) <= 3 * GRAVITY.hashes for message in told)  # type: ignore[attr-defined]
    assert machine.begin_cycle((), 2) == []


def test_a_home_is_told_once_a_cycle_however_often_it_is_asked_for() -> None:
    """After a few at once: what a node sends for the sake of others is bounded."""
    machine = one_of()
    machine.begin_cycle((), 2)
    (peer, *_) = machine.gravity.links

    def told() -> int:
        answers = [machine.handle(Received(peer, GravityAsk()), 2) for _ in range(100)]
        return sum(isinstance(effect, Send) for effects in answers for effect in effects)

    assert told() <= WHOLES_MAX
    for _ in range(5):
        machine.gravity.drop(machine.gravity.links[-1])  # it would like to link to others, too
        sought = [effect for effect in machine.begin_cycle((), 3) if isinstance(effect, Send)]
        assert len(sought) + told() == 1
    assert machine.handle(Received(39, GravityAsk()), 2) == [Count("gravity.told enough")]  # a stranger


def test_changes_are_told_out_of_turn_so_often_and_no_more() -> None:
    machine = one_of(view=VIEW[:2])
    told = 0
    for _ in range(4 * NEWS_CYCLES):
        machine.renew_items()
        sent = [effect for effect in machine.begin_cycle((), 2) if isinstance(effect, Send)]
        told += any(effect.message.base for effect in sent if isinstance(effect.message, GravityUpdate))
    assert 3 <= told <= 4


words = st.integers(0, 2**64 - 1) | st.sampled_from([5, 6, 7])
walks = st.builds(Walk, st.binary(max_size=100), st.integers(-5, 10**6), st.integers(-9, 99), words)
messages = st.one_of(
    st.builds(AnycastSeek, words, walks),
    st.builds(AnycastFound, words, st.integers(0, 39)),
    st.builds(GravityUpdate, words, st.integers(0, 3), st.binary(max_size=64)),
    st.just(GravityAsk()),
    st.just(GravityRefuse()),
)


@given(st.lists(st.tuples(st.integers(1, 39), messages), max_size=60))
def test_nothing_that_peers_send_breaks_or_grows_it(said: list[tuple[int, object]]) -> None:
    machine = one_of(own=(3,), known={2: 9})
    for sender, message in said:
        effects = machine.handle(Received(sender, message), 0)  # type: ignore[arg-type]
        assert len(effects) <= 3
    machine.begin_cycle([item_of(machine, 3)], 1)
    assert len(machine.gravity.links) <= GRAVITY.degree
    assert len(machine._trails) <= TRAILS
    assert len(machine._searches) <= SEARCHES
    assert machine.peers.size == FOUND


def test_searches_are_forgotten_where_there_are_too_many() -> None:
    machine = one_of()
    for item in range(3 * SEARCHES):
        machine.search(item, 0)
    assert len(machine._searches) == SEARCHES


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
