"""Notify, then pull: how events travel where neighbours are many and events may be large (S2 §3.4).

Whoever has an event tells its links so in a few bytes; who has not got it asks one of those who told it for
it, and tells its own links once it has it. So an event is carried to each node once, however many links lead
there. Who is asked and does not answer is followed by the next who told.

An event of somebody who knows no subscriber is *seeking*: it travels towards the topic's rendezvous until it
meets a node that has to do with the topic.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from vinecast.core.events import Count, Deliver, Effect, Observe, Send, SetTimer
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.systems.common.recent import RecentEvents

TIMER = "notices.pull"
TELLERS_MAX = 8  # ours: who else could be asked for an event
ASKED_MAX = 4096
"""Events that one peer is asked for at a time (ours): who tells of more than it sends keeps nobody else from
being heard."""


@dataclass(frozen=True, slots=True)
class Notice:
    """I have this event: it is ``hops`` links from its publisher to you, through me."""

    kind: ClassVar[str] = "notices.notice"
    topic: int
    number: int
    hops: int
    seeking: bool


@dataclass(frozen=True, slots=True)
class Pull:
    """Send me the event of this notice, which is repeated."""

    kind: ClassVar[str] = "notices.pull"
    topic: int
    number: int
    hops: int
    seeking: bool


@dataclass(frozen=True, slots=True)
class PulledEvent:
    """The event itself."""

    kind: ClassVar[str] = "notices.event"
    topic: int
    event: int
    hops: int


@dataclass(frozen=True, slots=True)
class SeekingEvent:
    """The event itself, while it is seeking."""

    kind: ClassVar[str] = "notices.seeking event"
    topic: int
    event: int
    hops: int


Carried = PulledEvent | SeekingEvent


class _Wait:
    """An event that was asked for."""

    __slots__ = ("asked", "asked_us", "notice", "tellers")

    def __init__(self, asked: int, notice: Notice, asked_us: int) -> None:
        self.asked = asked
        self.notice = notice
        self.asked_us = asked_us
        self.tellers: list[tuple[int, Notice]] = []


class Notices:
    """The events of one node.

    ``wants(topic)``: whether it subscribes; ``links(topic)``: whom its events go to; ``on_event(topic)`` is
    told of every event that it gets; ``next_hop(topic)``: who is next on the way to the rendezvous.
    """

    def __init__(
        self,
        name: str,
        recent: RecentEvents,
        timeout_us: int,
        waiting_max: int,
        wants: Callable[[int], bool],
        links: Callable[[int], list[int]],
        next_hop: Callable[[int], int],
        on_event: Callable[[int], object],
    ) -> None:
        self.recent = recent
        self._name = name
        self._timeout_us = timeout_us
        self._waiting_max = waiting_max
        self._wants = wants
        self._links = links
        self._next_hop = next_hop
        self._on_event = on_event
        self._waiting: OrderedDict[int, _Wait] = OrderedDict()
        """event -> what was asked, the one asked for longest first"""
        self._asked: dict[int, int] = {}
        """Who was asked -> for how many of these"""

    def clear(self) -> None:
        """A restart: nothing that was asked for will come."""
        self._waiting.clear()
        self._asked.clear()

    def peers(self) -> set[int]:
        """Who was asked for something, or could be."""
        return self._asked.keys() | {peer for wait in self._waiting.values() for peer, _ in wait.tellers}

    def waits_for(self, event: int) -> bool:
        """Whether an event was asked for, and has not come."""
        return event in self._waiting

    def note(self, event: int, now_us: int) -> None:
        """An event is here by other means: it is neither asked for any more nor passed on."""
        self._end(event)
        self.recent.take(event, now_us)

    def publish(self, topic: int, event: int, now_us: int) -> list[Effect]:
        """The application publishes."""
        effects: list[Effect] = [Observe(TraceKind.PUBLISHED, topic, event)]
        if not self.recent.take(event, now_us):
            return effects + self.recent.turned_away(topic, event, NOBODY, 0)
        if self._wants(topic):
            self._on_event(topic)
            effects.append(Deliver(topic, event, 0))
        return effects + self._pass_on(topic, event, 0, NOBODY, seeking=True)

    def hear(self, sender: int, message: Notice | Pull | Carried, now_us: int) -> list[Effect]:
        """Somebody tells, asks for, or sends an event."""
        match message:
            case Notice():
                return self._notice(sender, message, now_us)
            case Pull(topic, number, hops, seeking):
                if number in self.recent:
                    carried = SeekingEvent if seeking else PulledEvent
                    return [Send(sender, carried(topic, number, hops))]
                return [Count(f"{self._name}.asked in vain")]
            case PulledEvent() | SeekingEvent():
                return self._receive(sender, message, now_us)

    def _notice(self, sender: int, notice: Notice, now_us: int) -> list[Effect]:
        if notice.number in self.recent:
            return []
        wait = self._waiting.get(notice.number)
        if wait is not None:
            known = wait.asked == sender or any(teller == sender for teller, _ in wait.tellers)
            if not known and len(wait.tellers) < TELLERS_MAX:
                wait.tellers.append((sender, notice))
            return []
        if len(self._waiting) >= self._waiting_max:
            return self.recent.turned_away(notice.topic, notice.number, sender, notice.hops)
        if self._asked.get(sender, 0) >= ASKED_MAX:
            return [Count(f"{self._name}.told too much")]
        effects: list[Effect] = [] if self._waiting else [SetTimer(TIMER, self._timeout_us)]
        return [self._ask(_Wait(sender, notice, now_us)), *effects]

    def _ask(self, wait: _Wait) -> Effect:
        notice = wait.notice
        self._waiting[notice.number] = wait
        self._asked[wait.asked] = self._asked.get(wait.asked, 0) + 1
        return Send(wait.asked, Pull(notice.topic, notice.number, notice.hops, notice.seeking))

    def _end(self, event: int) -> _Wait | None:
        """An event is not waited for any more, or not of the one who was asked."""
        wait = self._waiting.pop(event, None)
        if wait is not None:
            self._asked[wait.asked] -= 1
            if not self._asked[wait.asked]:
                del self._asked[wait.asked]
        return wait

    def wake(self, now_us: int) -> list[Effect]:
        """The timer fired: who was asked for an event for too long is followed by the next."""
        effects: list[Effect] = []
        late = [n for n, wait in self._waiting.items() if now_us - wait.asked_us >= self._timeout_us]
        for number in late:
            wait = self._end(number)
            effects.append(Count(f"{self._name}.pull unanswered"))
            if wait is not None and wait.tellers:
                wait.asked, wait.notice = wait.tellers.pop(0)
                wait.asked_us = now_us
                effects.append(self._ask(wait))
        if self._waiting:
            first = next(iter(self._waiting.values()))
            effects.append(SetTimer(TIMER, max(first.asked_us + self._timeout_us - now_us, 1)))
        return effects

    def _receive(self, sender: int, message: Carried, now_us: int) -> list[Effect]:
        topic, event, hops = message.topic, message.event, message.hops
        self._end(event)
        if event in self.recent:
            return [Observe(TraceKind.RECEIVED_AGAIN, topic, event, sender, hops)]
        if not self.recent.take(event, now_us):
            return self.recent.turned_away(topic, event, sender, hops)
        effects: list[Effect] = [Observe(TraceKind.RECEIVED_FIRST, topic, event, sender, hops)]
        if self._wants(topic):
            self._on_event(topic)
            effects.append(Deliver(topic, event, hops))
        return effects + self._pass_on(topic, event, hops, sender, isinstance(message, SeekingEvent))

    def _pass_on(self, topic: int, event: int, hops: int, sender: int, seeking: bool) -> list[Effect]:
        links = self._links(topic)
        if links or self._wants(topic):
            notice = Notice(topic, event, hops + 1, False)
            return [Send(peer, notice) for peer in links if peer != sender]
        if not seeking:
            return [Count(f"{self._name}.not subscribed")]
        peer = self._next_hop(topic)
        if peer == NOBODY:
            return [Observe(TraceKind.DROPPED, topic, event, hops=hops, reason="no subscriber known")]
        return [Send(peer, Notice(topic, event, hops + 1, True))]
