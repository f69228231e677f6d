"""Quasar: whom events reach, what polling adds, and what liars can do."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from support.systems.conformance import Trial, filter_sets
from support.systems.conformance_systems import SYSTEMS
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.events import Deliver, Effect, Event, Publish, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.machine import Machine
from vinecast.protocols.directed_walk import Walk, WalkConfig
from vinecast.protocols.gravity import GravityConfig, GravityUpdate
from vinecast.protocols.gravity.machine import TIMER
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.systems.quasar.machine import Quasar, QuasarConfig, QuasarEvent
from vinecast.systems.quasar.poll import ANSWERED_MAX, Missed, QuasarAnswer, QuasarPoll
from vinecast.systems.quasar.sweep import links_of, random_contacts

GRAVITY = GravityConfig(degree=6, period_s=1.0)
CONFIG = QuasarConfig(overlay="given", gravity=GRAVITY)


class Net:
    """A population on given links."""

    def __init__(
        self,
        config: QuasarConfig,
        subscriptions: Subscriptions,
        make: Callable[[int, Profiles], Machine] | None = None,
        seed: int = 1,
    ) -> None:
        nodes = subscriptions.nodes
        self.profiles = Profiles.simulated(
            seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count
        )
        self.got: set[tuple[int, int]] = set()
        self.engine = EventEngine(
            lambda node: (make and make(node, self.profiles)) or Quasar(config, seed, node, self.profiles),
            nodes, seed, Network(NetworkConfig(latency_ms=5.0), seed, nodes), on_deliver=self._deliver,
        )  # fmt: skip
        for node, known in enumerate(random_contacts(seed, nodes, config.gravity.degree).tolist()):
            self.engine.start(node, 0, tuple(known))

    def _deliver(self, node: int, deliver: Deliver) -> None:
        self.got.add((node, deliver.event))

    def run(self, seconds: float) -> None:
        self.engine.run(self.engine.now_us + round(seconds * 1e6))

    def publish_all(self, publishers: list[int]) -> float:
        """One event a topic, from a publisher of the list if one subscribes; the share of members reached."""
        subscribers = self.profiles.subscribers()
        due = 0
        for topic in range(self.profiles.topic_ids.size):
            nodes = subscribers.node[subscribers.start[topic] : subscribers.start[topic + 1]].tolist()
            honest = [node for node in nodes if node in publishers]
            self.engine.command(honest[0], self.engine.now_us, Publish(topic, topic))
            due += len(honest)
        self.run(0.9)
        return len([1 for node, _ in self.got if node in publishers]) / due

    def count(self, name: str) -> int:
        return sum(self.engine.counters[name])


CROWD = pattern("random", 1, 120, topics=20, subscriptions=2)


def test_few_copies_miss_some_and_polling_finds_them() -> None:
    few = replace(CONFIG, walk=WalkConfig(branching=2))
    everybody = list(range(120))
    shares = []
    for config in (few, replace(few, polls=2, poll_s=1.0)):
        net = Net(config, CROWD)
        net.run(4.2)
        shares.append([net.publish_all(everybody)])
        for _ in range(5):
            net.run(1.0)
            shares[-1].append(len(net.got) / 240)
    without, polled = shares
    assert without[0] == without[-1] < 1
    assert polled[-1] == 1
    assert polled == sorted(polled)


def test_polling_costs_nothing_where_it_is_switched_off() -> None:
    net = Net(CONFIG, CROWD)
    net.run(4.2)
    net.publish_all(list(range(120)))
    assert not net.count("sent.quasar.poll")
    assert not net.count("sent.quasar.answer")


def test_who_left_a_topic_misleads_messages_until_homes_are_told() -> None:
    """A stale gradient: messages that arrive where nobody is any more go on, and still find the others."""
    trial = Trial(SYSTEMS["quasar"], filter_sets([[0] if node % 3 == 0 else [] for node in range(30)], 1), 3)
    trial.settle()
    for node in (6, 12, 18):
        trial.unsubscribe(node, 0)
    event = trial.publish(0, 0)
    trial.engine.run(trial.engine.now_us + 150_000)  # before anybody's next update
    assert sum(trial.engine.counters["quasar.misled"]) > 0
    trial.run(1)
    trial.check([event])


# Liars.


class Liar:
    """Claims to be near everything, takes what comes of it, and passes nothing on."""

    def __init__(self, filter_: bytes) -> None:
        self.filter = filter_
        self.contacts: tuple[int, ...] = ()
        self.swallowed = 0
        self.version = 0

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Start(contacts):
                self.contacts = contacts
                return [SetTimer(TIMER, 0)]
            case TimerFired():
                self.version = now_us + 1
                return [SetTimer(TIMER, 1_000_000), *self._lie(self.contacts)]
            case Received(sender, GravityUpdate()):
                return self._lie((sender,)) if sender not in self.contacts else []
            case Received(_, QuasarEvent()):
                self.swallowed += 1
        return []

    def _lie(self, to: tuple[int, ...]) -> list[Effect]:
        return [Send(peer, GravityUpdate(self.version, 0, self.filter)) for peer in to]


def lied_to(config: QuasarConfig, filter_: bytes) -> tuple[float, int, Net]:
    """What share of honest members events reach where one node in ten lies, and how many copies vanish."""
    liars: list[Liar] = []

    def make(node: int, profiles: Profiles) -> Machine | None:
        if node % 10:
            return None
        liars.append(Liar(filter_))
        return liars[-1]

    net = Net(config, CROWD, make)  # type: ignore[arg-type]
    net.run(5.2)
    share = net.publish_all([node for node in range(120) if node % 10])
    return share, sum(liar.swallowed for liar in liars), net


def random_bits(share: float) -> bytes:
    """A filter with this share of its bits set."""
    return np.packbits(np.random.default_rng(1).random(3 * 4096) < share).tobytes()


@pytest.mark.parametrize("filter_", [b"\xff" * (3 * 512), random_bits(0.7)], ids=["all ones", "mostly ones"])
def test_a_full_filter_does_not_attract_the_traffic_of_every_topic(filter_: bytes) -> None:
    """All ones negate themselves, for they hold every publisher, and everybody's homes with them; a little
    less attracts. Where such levels are not believed, a liar gets what a node gets that says nothing."""
    config = replace(CONFIG, walk=WalkConfig(branching=3))
    credulous = replace(config, gravity=replace(GRAVITY, calm=1.0, crowded=1.0))
    believed, drawn, _ = lied_to(credulous, filter_)
    ignored, taken, net = lied_to(config, filter_)
    assert (ignored, taken) == lied_to(config, bytes(3 * 512))[:2]
    assert believed < ignored
    assert drawn > taken
    assert net.count("gravity.too full") > 0


def test_filters_of_another_size_are_counted_and_do_no_harm() -> None:
    share, _, net = lied_to(CONFIG, b"\xff" * 512)
    assert net.count("gravity.wrong size") > 0
    assert share > 0.9


def test_messages_that_name_what_does_not_exist_are_counted() -> None:
    net = Net(CONFIG, CROWD)
    net.run(2.2)
    machine = net.engine.machines[0]
    assert isinstance(machine, Quasar)
    for topic in (-1, 20, 2**40):
        for message in (
            QuasarEvent(topic, 1, 1, Walk(b"", 9)),
            QuasarEvent(0, -1, 1, Walk(b"", 9)),
            QuasarEvent(0, 2**64, 1, Walk(b"", 9)),
            QuasarEvent(0, 5, 2**70, Walk(b"", 9)),
            QuasarPoll(topic, 3, b"", Walk(b"", 9)),
            QuasarPoll(0, topic + 10**6, b"", Walk(b"", 9)),
        ):
            effects = machine.handle(Received(5, message), net.engine.now_us)
            assert [type(effect).__name__ for effect in effects] == ["Count"]
    unasked = machine.handle(Received(5, QuasarAnswer(0, b"\x01" * 99)), net.engine.now_us)
    assert [type(effect).__name__ for effect in unasked] == ["Count"]
    assert machine.handle(Publish(99, 1), net.engine.now_us)[-1].reason == "no such topic"  # type: ignore[union-attr]


def test_whoever_polls_in_anothers_name_gets_it_few_answers() -> None:
    """A victim that nobody asked for is sent what a member could have had by polling too often."""
    net = Net(replace(CONFIG, polls=1, poll_s=10.0), CROWD)
    net.run(4.2)
    net.publish_all(list(range(120)))
    member = next(m for m in net.engine.machines if isinstance(m, Quasar) and m.missed)
    topic, victim = next(iter(member.missed)), (member.me + 1) % 120
    now_us = net.engine.now_us

    def flood(asker: int, at_us: int) -> list[Effect]:
        poll = QuasarPoll(topic, asker, b"", Walk(b"", 9))
        return [effect for _ in range(1000) for effect in member.handle(Received(5, poll), at_us)]

    answers = [effect for effect in flood(victim, now_us) if isinstance(effect, Send)]
    assert [(send.to, type(send.message)) for send in answers] == [(victim, QuasarAnswer)]
    assert all(not isinstance(effect, Send) for effect in flood(victim, now_us + 4_999_999))
    assert [effect for effect in flood(victim, now_us + 5_000_000) if isinstance(effect, Send)]
    honest = member.handle(Received(5, QuasarPoll(topic, victim + 1, b"", Walk(b"", 9))), now_us)
    assert isinstance(honest[0], Send)


def test_answers_are_bounded_whoever_is_said_to_ask() -> None:
    book = Missed(0, 60_000_000, 4, 1000)
    assert sum(book.may_answer(asker, 5) for asker in range(10_000)) == ANSWERED_MAX
    assert book.may_answer(3, 1005)


# What a member knows of a topic.


def test_an_offer_does_not_grow_younger_and_reaches_nobody_who_came_later() -> None:
    first, second, late = (Missed(since_us, 60_000_000, 4, 0) for since_us in (0, 0, 5_000_000))
    first.has(7, 1_000_000)
    offers = first.offer(b"", 4_000_000)
    ((event, heard_us),) = second.wanted(offers, 4_000_000)
    assert (event, heard_us) == (7, 1_000_000)
    second.has(event, heard_us)
    assert late.wanted(second.offer(b"", 9_000_000), 9_000_000) == []
    assert first.offer(second.known(9_000_000), 9_000_000) == b""
    assert first.offer(b"", 61_000_001) == b""  # too old for anybody


def test_books_are_bounded_whatever_is_offered() -> None:
    book = Missed(0, 60_000_000, 4, 0)
    for event in range(1000):
        book.has(event, event)
    assert len(book.known(1000)) <= 8 * 64
    assert len(book.wanted(b"\x05" * 10_000_000, 10**15)) <= 64
    assert book.offer(b"\x01" * 13, 1000)


def test_links_are_symmetric_and_as_many_as_wanted() -> None:
    links = links_of(random_contacts(3, 200, 8))
    degree = (links >= 0).sum(axis=1)
    assert degree.max() == 8
    assert degree.mean() > 7.5
    pairs = {(node, int(peer)) for node in range(200) for peer in links[node] if peer >= 0}
    assert all((peer, node) in pairs and peer != node for node, peer in pairs)
    assert all(np.diff(row[row >= 0]).min() > 0 for row in links)


@pytest.mark.parametrize("degree", [0, 3, 200])
def test_impossible_degrees_are_refused(degree: int) -> None:
    from vinecast.core.errors import InputError

    with pytest.raises(InputError):
        random_contacts(1, 200, degree)
