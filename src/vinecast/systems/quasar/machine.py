"""Quasar: publish/subscribe without rendezvous and without state per group (S1).

Links are a random overlay; over them every node tells what is near it (protocols/gravity), and messages find
members by directed walks (protocols/directed_walk). A publisher sends copies in different directions; whoever
gets a message of its topics for the first time delivers it and publishes it again, adding its id to those
whose wells do not draw it any more; a copy that comes to a member that has the message ends there. Nodes that
are not members pass every copy on, and remember nothing.

So nobody knows the members, and some may be missed: those around whom others take in whatever comes near. S1
§4 suggests *limited polling*: with ``polls``, members ask for what they missed. A poll is itself a directed
walk, which neither the member that sends it draws nor those that it asked lately: it finds another member,
and that one answers with what it has that the asker has not.

Links are those that a node is given when it starts, and whoever links to it (``overlay = "given"``); or
Cyclon finds others when they are lost (``"cyclon"``).
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import check, limited
from vinecast.core.draws import SEED_MAX, below, purpose, shuffled, stream, substream
from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Event,
    Observe,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.core.trace import TraceKind
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.directed_walk import Walk, WalkConfig, Walker
from vinecast.protocols.gravity import (
    Gravity,
    GravityAsk,
    GravityConfig,
    GravityLeave,
    GravityRefuse,
    GravityUpdate,
)
from vinecast.protocols.gravity.machine import TIMER as GRAVITY_TIMER
from vinecast.systems.common.plain import OwnTopics
from vinecast.systems.common.recent import RecentEvents, Remembering
from vinecast.systems.quasar.poll import POLL_TIMER, Missed, QuasarAnswer, QuasarPoll

HOPS_MAX = 1_000_000  # ours: hops that a message can say it took
RENEWED = 10  # ours: periods after which a node exchanges one of its links for another

_SEEK = purpose("quasar.seek")


@dataclass(frozen=True, slots=True)
class QuasarConfig(Remembering):
    """The overlay, the filters, the walks, and polling."""

    overlay: str = limited("cyclon", one_of=("given", "cyclon"))
    """Whether Cyclon finds new links for those that are lost."""
    polls: int = limited(0, at_least=0, at_most=1000)
    """Topics for which a node polls at a time, in turn; 0: it never does, as in S1."""
    poll_s: float = limited(10.0, at_least=0.001, at_most=86400.0)
    """Seconds from one time to the next (ours)."""
    offer_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds for which an event is offered to those who poll (ours)."""
    gravity: GravityConfig = field(default_factory=GravityConfig)
    walk: WalkConfig = field(default_factory=WalkConfig)
    cyclon: CyclonConfig = field(default_factory=lambda: CyclonConfig(period_s=10.0))

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The length of a cycle: gravity's period."""
        return self.gravity.period_us

    @property
    def offer_us(self) -> int:
        """For how long an event is offered, in microseconds."""
        return round(self.offer_s * SECOND_US)

    @property
    def asked(self) -> int:
        """Members that a poll avoids: half of its negative ids, so that there is room for what misled it."""
        return self.walk.negatives // 2

    @property
    def poll_us(self) -> int:
        """From one time of polling to the next, in microseconds."""
        return round(self.poll_s * SECOND_US)


@dataclass(frozen=True, slots=True)
class QuasarEvent:
    """A copy of an event on its way."""

    kind: ClassVar[str] = "quasar.event"
    topic: int
    event: int
    hops: int
    walk: Walk


class Quasar:
    """The machine. ``profiles`` gives ids to peers and topics, and says what this node subscribes to."""

    def __init__(self, config: QuasarConfig, seed: int, me: int, profiles: Profiles) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.profiles = profiles
        own = int(profiles.ids[me])
        self.cyclon = Cyclon(config.cyclon, seed, me)
        self.gravity = Gravity(config.gravity, me)
        self.walker = Walker(config.walk, config.gravity.hashes, seed, me, own)
        self.topics = OwnTopics(profiles, me, "quasar")
        self.recent = RecentEvents(config.remembered, config.remember_us, "quasar")
        self.missed: OrderedDict[int, Missed] = OrderedDict()
        """By topic: what polling needs to know; whose turn it is comes first."""
        self._cycle = 0
        self._tell_gravity(0)

    @property
    def view(self) -> NDArray[np.int32]:
        """Its neighbours. [slot], NOBODY where there is none"""
        view = np.full(self.config.gravity.degree, NOBODY, dtype=np.int32)
        links = self.gravity.links
        view[: len(links)] = links
        return view

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, QuasarEvent() as message):
                return self._receive(sender, message, now_us)
            case Received(_, GravityUpdate() | GravityAsk() | GravityRefuse() | GravityLeave()):
                return self.gravity.handle(event, now_us)
            case Received(sender, QuasarPoll() as poll):
                return self._answer_poll(sender, poll, now_us)
            case Received(sender, QuasarAnswer() as answer):
                return self._take_answer(sender, answer, now_us)
            case TimerFired(name) if name == GRAVITY_TIMER:
                return self._seek(now_us) + self.gravity.handle(event, now_us)
            case TimerFired(name) if name == POLL_TIMER:
                return self._poll(now_us)
            case Publish(topic, number):
                return self._publish(topic, number, now_us)
            case Subscribe(topic):
                return self._change(self.topics.add(topic), now_us)
            case Unsubscribe(topic):
                return self._change(self.topics.remove(topic), now_us)
            case Start(contacts):
                return self._start(contacts, now_us)
            case _:
                links = self.gravity.handle(event, now_us)
                return links + self.cyclon.handle(event, now_us) if self._sampled else links

    @property
    def _sampled(self) -> bool:
        return self.config.overlay == "cyclon"

    # Links and topics.

    def _start(self, contacts: tuple[int, ...], now_us: int) -> list[Effect]:
        for contact in contacts[: max(self.config.gravity.degree // 2, 1)]:
            self.gravity.link(contact, now_us)
        for missed in self.missed.values():
            missed.since_us = now_us
        effects = self.gravity.handle(Start(contacts), now_us)
        if self._sampled:
            effects += self.cyclon.handle(Start(contacts), now_us)
        if self.config.polls:
            effects.append(SetTimer(POLL_TIMER, self.config.poll_us))
        return effects

    def _seek(self, now_us: int) -> list[Effect]:
        """Once a period: where links were lost, take others from Cyclon's view, but leave room for those who
        link to this node. Now and then give one up, so that parts which were cut off from each other for
        long, and have made up for lost links among themselves, are linked again."""
        self._cycle += 1
        if not self._sampled or self._cycle == 1:
            return []
        degree, links, effects = self.config.gravity.degree, self.gravity.links, list[Effect]()
        key, view = stream(self.seed, _SEEK, self._cycle, self.me), self.cyclon.view
        lacking = degree - degree // 4 - len(links)
        if lacking <= 0 and (self._cycle + self.me) % RENEWED == 0:
            given_up = links[below(key, view.size, len(links))]
            self.gravity.drop(given_up)
            effects.append(Send(given_up, GravityLeave()))
            lacking = 1
        for peer in view[shuffled(key, view.size)].tolist()[: max(lacking, 0)]:
            self.gravity.link(peer, now_us)
        return effects

    def _change(self, effects: list[Effect], now_us: int) -> list[Effect]:
        self._tell_gravity(now_us)
        return effects

    def _tell_gravity(self, now_us: int) -> None:
        topics = self.profiles.topics_of(self.me)
        self.gravity.items = np.append(self.profiles.topic_ids[topics], self.profiles.ids[self.me])
        for topic in list(self.missed):
            if topic not in self.topics:
                del self.missed[topic]
        for topic in topics.tolist():
            if topic not in self.missed:
                rest_us = self.config.poll_us // 2
                self.missed[topic] = Missed(now_us, self.config.offer_us, self.config.asked, rest_us)

    def _exists(self, topic: int) -> bool:
        return 0 <= topic < self.profiles.topic_ids.size

    # Events.

    def _publish(self, topic: int, event: int, now_us: int) -> list[Effect]:
        effects: list[Effect] = [Observe(TraceKind.PUBLISHED, topic, event)]
        if not self._exists(topic):
            return [*effects, Observe(TraceKind.DROPPED, topic, event, reason="no such topic")]
        if not self.recent.take(event, now_us):
            return effects + self.recent.turned_away(topic, event, NOBODY, 0)
        if topic in self.topics:
            self.missed[topic].has(event, now_us)
            effects.append(Deliver(topic, event, 0))
        sent = self._set_out(topic, event, 1, b"")
        if not sent:
            effects.append(Observe(TraceKind.DROPPED, topic, event, reason="no neighbours"))
        return effects + sent

    def _set_out(self, topic: int, event: int, hops: int, negative: bytes) -> list[Effect]:
        peers = self.gravity.neighbours[0]
        walks = self.walker.begin(event, peers, negative)
        return [Send(to, QuasarEvent(topic, event, hops, walk)) for to, walk in walks]

    def _receive(self, sender: int, message: QuasarEvent, now_us: int) -> list[Effect]:
        topic, event, hops = message.topic, message.event, message.hops
        if not (self._exists(topic) and 0 <= event <= SEED_MAX and 0 < hops <= HOPS_MAX):
            return [Count("quasar.bad message")]
        if topic not in self.topics:
            return self._pass_on(message)
        if event in self.recent:
            return [Observe(TraceKind.RECEIVED_AGAIN, topic, event, sender, hops)]
        if not self.recent.take(event, now_us):
            return self.recent.turned_away(topic, event, sender, hops)
        self.missed[topic].has(event, now_us)
        first = Observe(TraceKind.RECEIVED_FIRST, topic, event, sender, hops)
        again = self._set_out(topic, event, hops + 1, message.walk.negative)
        return [first, Deliver(topic, event, hops), *again]

    def _pass_on(self, message: QuasarEvent) -> list[Effect]:
        item = int(self.profiles.topic_ids[message.topic])
        onward = self.walker.go_on(message.walk, item, self.gravity.homes, self.gravity.neighbours)
        if onward is None:
            return [Count("quasar.expired")]
        to, walk, misled = onward
        sent: list[Effect] = [Send(to, QuasarEvent(message.topic, message.event, message.hops + 1, walk))]
        return [*sent, Count("quasar.misled")] if misled else sent

    # Polling.

    def _poll(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = [SetTimer(POLL_TIMER, self.config.poll_us)]
        peers = self.gravity.neighbours[0]
        for topic in list(self.missed)[: self.config.polls]:
            missed = self.missed[topic]
            self.missed.move_to_end(topic)
            negative = missed.ask()
            number = substream(int(self.profiles.topic_ids[topic]), missed.polls)
            for to, walk in self.walker.begin(int(number), peers, negative, 1):
                effects.append(Send(to, QuasarPoll(topic, self.me, missed.known(now_us), walk)))
        return effects

    def _answer_poll(self, sender: int, poll: QuasarPoll, now_us: int) -> list[Effect]:
        topic = poll.topic
        if not self._exists(topic) or not 0 <= poll.asker < self.profiles.peers:
            return [Count("quasar.bad message")]
        if topic in self.topics and not self.walker.is_avoided(poll.walk):
            missed = self.missed[topic]
            if not missed.may_answer(poll.asker, now_us):
                return [Count("quasar.answered already")]
            return [Send(poll.asker, QuasarAnswer(topic, missed.offer(poll.known, now_us)))]
        item = int(self.profiles.topic_ids[topic])
        onward = self.walker.go_on(poll.walk, item, self.gravity.homes, self.gravity.neighbours)
        if onward is None:
            return [Count("quasar.expired")]
        return [Send(onward[0], QuasarPoll(topic, poll.asker, poll.known, onward[1]))]

    def _take_answer(self, sender: int, answer: QuasarAnswer, now_us: int) -> list[Effect]:
        missed = self.missed.get(answer.topic)
        if missed is None or not missed.answered(int(self.profiles.ids[sender]), now_us):
            return [Count("quasar.unasked answer")]
        effects: list[Effect] = []
        for event, heard_us in missed.wanted(answer.offers, now_us):
            if event in self.recent or not self.recent.take(event, now_us):
                continue
            missed.has(event, heard_us)
            effects.append(Observe(TraceKind.RECEIVED_FIRST, answer.topic, event, sender, POLLED_HOPS))
            effects.append(Deliver(answer.topic, event, POLLED_HOPS))
        return [*effects, Count("quasar.polled", len(effects) // 2)] if effects else []


POLLED_HOPS = 1
"""What was polled for came straight from the member that answered."""
