"""The subscriptions of a peer, those by patterns too, and what comes for them.

A peer never waits for a reader. What a reader does not take in time waits with the application, bounded in
events and in bytes: the peer counts what it handed over and what was taken. When there is no room, further
events outside of streams are dropped and counted. Events of streams are not dropped: they lie in the store,
and are read from there later (``peer/streams/cursor``).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, assert_never

from vinecast.core.content.schemas import Schema
from vinecast.core.errors import ClosedError, InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.peer.content import Look, SchemaDesk, SubscriptionFilter
from vinecast.peer.inputs import (
    AckPosition,
    AwaitLevel,
    AwaitReady,
    CloseSubscription,
    LeaveTopic,
    OpenSubscription,
)
from vinecast.peer.limits.replay_window import ReplayWindow
from vinecast.peer.outputs import Answered, DeliverEvent, EventDropped, ReadingFailed, TopicsChanged
from vinecast.peer.readiness import Readiness, ReadinessHost
from vinecast.peer.streams.cursor import AT_ONCE, Cursor
from vinecast.peer.topics import Pattern
from vinecast.peer.tracing import TOO_SLOW
from vinecast.protocols.streams import EARLIEST, NOW

FOLLOWED_A_CYCLE = 256  # ours: topics that a pattern takes up in one cycle, at the most
WAITING_BYTES = 64 * 1024 * 1024
"""Of all events that wait for one reader (ours): ten thousand of the largest would take gigabytes."""
READ_TIMER = "subscriptions.read"

SubscriptionInput = OpenSubscription | CloseSubscription | LeaveTopic | AckPosition | AwaitReady | AwaitLevel


class SubscriptionsHost(ReadinessHost, Protocol):
    """The peer, as far as it is needed here."""

    counters: Counter[str]
    look: Look

    @property
    def by_content(self) -> bool:
        """Whether its system routes events by content."""

    def when_compiled(self, then: Callable[[], None]) -> None:
        """See ``WhenCompiled``."""

    def set_timer(self, name: str, after_us: int) -> None:
        """Have a timer run out after so long."""

    def note_unreadable(self) -> None:
        """The store could not be read."""

    def subscribe(self, topics: list[str], start: str, *, is_plain: bool) -> list[str]:
        """Take part in these topics, and read their streams; those for which there was room. is_plain:
        whether they were asked for by their names"""

    def unsubscribe(self, topic: str) -> None:
        """Leave a topic."""

    def want(self, names: frozenset[str], no_longer: frozenset[str]) -> set[str]:
        """Have events brought that these names ask for; those for which there was room."""


@dataclass(slots=True, eq=False)
class _Reading:
    """One subscription, and how much of what it was handed has not been taken."""

    number: int
    pattern: Pattern
    cursor: Cursor | None
    """How far it has come in streams; None where there are none."""
    wanted: SubscriptionFilter | None
    """Which events of its topic it wants; None for all."""
    waiting: int = 0
    waiting_bytes: int = 0


class PeerSubscriptions:
    """All subscriptions of one node. ``waiting``: events that may wait for a reader; ``alone_cycles``: cycles
    without another subscriber after which a subscription counts as ready."""

    def __init__(self, host: SubscriptionsHost, waiting: int, alone_cycles: int) -> None:
        self._host, self._waiting_max = host, waiting
        self.readiness = Readiness(host, alone_cycles, self._names_of)
        self.unread = 0
        """Events that nobody read."""
        self._readings: dict[int, _Reading] = {}
        self._by_topic: dict[str, list[_Reading]] = {}
        """Topic → who reads it."""
        self._routed: dict[str, list[_Reading]] = {}
        """Topic → who has those of its events that the node's system brings for their content."""
        self._patterns: list[_Reading] = []
        self._desks: dict[Schema, SchemaDesk] = {}
        self._replay_window = ReplayWindow()
        """Of what is brought for its content: where a stream is not followed, an old event would be news."""
        self._closed = False
        self._behind: dict[int, None] = {}
        """Subscriptions that go on reading from the store."""

    def close(self) -> None:
        """The store is about to close: what is acknowledged from now on would be lost."""
        self._closed = True

    def is_open(self, number: int) -> bool:
        """Whether a subscription has not been closed, nor its topic left."""
        return number in self._readings

    def handle(self, what: SubscriptionInput) -> None:
        """What the application asks for."""
        match what:
            case OpenSubscription(request=request):
                self._answer(request, lambda: self._open(what))
            case CloseSubscription(number):
                self._close(self._readings.get(number))
            case LeaveTopic(topic):
                self._leave_plainly(topic)
            case AckPosition(request, number, topic, position):
                self._answer(request, lambda: self._ack(number, topic, position))
            case AwaitReady(request, number):
                self.readiness.await_ready(request, number)
            case AwaitLevel(request, topic):
                self.readiness.await_level(request, topic)
            case _:
                assert_never(what)

    def _answer(self, request: int, do: Callable[[], None]) -> None:
        try:
            do()
        except InputError as error:
            self._host.out.append(Answered(request, error=error))
        else:
            self._host.out.append(Answered(request))

    # Coming and going.

    def _open(self, what: OpenSubscription) -> None:
        if what.schema is None:
            self._begin(what, None)
            return
        assert what.wanted is not None
        self._desks = {schema: desk for schema, desk in self._desks.items() if len(desk)}
        desk = self._desks.get(what.schema)
        if desk is None:
            host = self._host
            desk = SchemaDesk(what.schema, host.counters, host.when_compiled, host.want, host.look)
            self._desks[what.schema] = desk
        wanted = desk.add(what.wanted)
        wanted.is_routed = self._host.by_content and what.start == NOW and what.consumer is None
        try:
            if wanted.is_routed and not desk.tell():
                raise InputError(f"there is no room for one more filter over {what.schema.name}")
            self._begin(what, wanted)
        except InputError:
            wanted.close()
            raise

    def _begin(self, what: OpenSubscription, wanted: SubscriptionFilter | None) -> None:
        pattern = Pattern.parse(what.topic)
        if wanted is not None and wanted.is_routed:
            routed = self._readings[what.subscription] = _Reading(what.subscription, pattern, None, wanted)
            self._routed.setdefault(what.topic, []).append(routed)
            return
        cursor = Cursor(self._host.streams, what.start, what.consumer, pattern.is_plain)
        reading = _Reading(what.subscription, pattern, cursor, wanted)
        if pattern.is_plain:
            if not self._read([what.topic], reading):
                raise InputError(f"there is no room for one more topic ({what.topic[:80]!r})")
            self._host.out.append(TopicsChanged(taken_up=(what.topic,)))
        else:
            self._patterns.append(reading)
            self._read(pattern.choose(self._host.peer_table.topics.known()), reading)
        self._readings[what.subscription] = reading
        self._go_on(reading)
        if wanted is None:
            self.readiness.trace(what.subscription)

    def _read(self, topics: list[str], reading: _Reading) -> list[str]:
        """Let a subscription have these topics; those for which there was room. Those of a pattern of which
        the store cannot be read have to wait for the next cycle."""
        cursor = reading.cursor
        assert cursor is not None
        topics = [topic for topic in topics[:FOLLOWED_A_CYCLE] if self._begin_topic(topic, reading, cursor)]
        found = self._host.subscribe(topics, cursor.follows, is_plain=reading.pattern.is_plain)
        for topic in found:
            self._by_topic.setdefault(topic, []).append(reading)
        for topic in set(topics).difference(found):
            cursor.end(topic)
        return found

    def _begin_topic(self, topic: str, reading: _Reading, cursor: Cursor) -> bool:
        try:
            cursor.begin(topic)
            if cursor.follows == EARLIEST:
                for other in self._by_topic.get(topic, ()):
                    assert other.cursor is not None
                    other.cursor.leave_out(topic, self._host.streams.store.state(topic).floor)
        except InputError:
            if reading.pattern.is_plain:
                raise
            self._host.note_unreadable()
            return False
        return True

    def _close(self, reading: _Reading | None) -> None:
        if reading is None:
            return
        del self._readings[reading.number]
        self._behind.pop(reading.number, None)
        if reading.wanted is not None:
            reading.wanted.close()
        if reading in self._patterns:
            self._patterns.remove(reading)
        for topic, readings in list(self._routed.items()):
            if reading in readings:
                readings.remove(reading)
                if not readings:
                    del self._routed[topic]
        for topic, readings in list(self._by_topic.items()):
            if reading in readings:
                readings.remove(reading)
                if reading.cursor is not None:
                    reading.cursor.end(topic)
                if not readings:
                    self._leave(topic)

    def _leave_plainly(self, topic: str) -> None:
        """Close all that read a topic by its name; those who read it by a pattern go on."""
        for reading in list(self._by_topic.get(topic, ())):
            if reading.pattern.is_plain:
                self._close(reading)
        if topic in self._by_topic:
            self._host.out.append(TopicsChanged(left=(topic,)))
        else:
            self._leave(topic)

    def _leave(self, topic: str) -> None:
        self._by_topic.pop(topic, None)
        self._host.unsubscribe(topic)
        self._host.out.append(TopicsChanged(left=(topic,)))
        if self._host.tracing is not None:
            self._host.tracing.leave(topic)

    def _ack(self, number: int, topic: str, position: int) -> None:
        reading = self._readings.get(number)
        if self._closed or reading is None:
            raise ClosedError("what is closed takes no acknowledgement: acknowledge before")
        if reading.cursor is not None:
            reading.cursor.ack(topic, position)

    def _names_of(self, number: int) -> list[str]:
        """What the node takes part in for a subscription."""
        reading = self._readings.get(number)
        if reading is None:
            return []
        if reading.wanted is not None and reading.wanted.is_routed:
            return sorted(reading.wanted.names)
        return [topic for topic, readings in self._by_topic.items() if reading in readings]

    def end_cycle(self) -> None:
        """A cycle of gossip is over: see whether patterns ask for more topics, and who waits no longer."""
        known = self._host.peer_table.topics.known() if self._patterns else []
        for reading in self._patterns:
            missing = [
                name for name in reading.pattern.choose(known) if reading not in self._by_topic.get(name, ())
            ]
            if missing and not self._read(missing, reading):
                self._host.counters["refused: no room for a topic of a pattern"] += 1
            elif missing:
                self.readiness.trace(reading.number)
            self._go_on(reading)
        self.readiness.end_cycle()

    # Events that come.

    def take(self, signed: SignedEvent, hops: int) -> None:
        """Give an event outside of streams to its readers."""
        topic = signed.record.topic
        self._offer(signed, hops, [*self._by_topic.get(topic, ()), *self._routed.get(topic, ())])

    def _offer(self, signed: SignedEvent, hops: int, readings: list[_Reading]) -> None:
        if not readings:
            self.unread += 1
        for reading in readings:
            if reading.wanted is not None and not reading.wanted.has(signed):
                continue
            size = reading.waiting_bytes + len(signed.block)
            if reading.waiting >= self._waiting_max or size > WAITING_BYTES:
                self._host.counters[f"dropped: {TOO_SLOW}"] += 1
                self._host.out.append(EventDropped(reading.number))
                if self._host.tracing is not None:
                    self._host.tracing.drop(signed, TOO_SLOW, hops)
            else:
                self._hand(reading, signed, hops, 0)

    def read(self, signed: SignedEvent, hops: int, position: int) -> None:
        """Give an event of a stream to its readers; at position 0, to those who have it for its content."""
        topic = signed.record.topic
        if not position:
            if not self._replay_window.is_new(signed.record.publisher, signed.record.sequence):
                self._host.counters["refused: event replayed"] += 1
                return
            self._offer(signed, hops, self._routed.get(topic, []))
            return
        readings = self._by_topic.get(topic)
        if not readings:
            self.unread += 1
            return
        for reading in readings:
            cursor = reading.cursor
            assert cursor is not None
            has_room = reading.waiting < self._waiting_max and reading.waiting_bytes < WAITING_BYTES
            if has_room and cursor.is_next(topic, position):
                cursor.advance(topic, position)
                if cursor.wants(signed):
                    self._hand_wanted(reading, signed, hops, position)
            else:
                cursor.fall_behind(topic)
                self._go_on(reading)

    def took(self, number: int, events: int, size: int) -> None:
        """A reader took events."""
        reading = self._readings.get(number)
        if reading is not None:
            reading.waiting -= events
            reading.waiting_bytes -= size
            self._go_on(reading)

    def _go_on(self, reading: _Reading) -> None:
        """Have a subscription read from the store, in a moment, if it is behind and its reader is not."""
        if self._is_hungry(reading) and reading.number not in self._behind:
            if not self._behind:
                self._host.set_timer(READ_TIMER, 1)  # in the next turn: others are waiting, too
            self._behind[reading.number] = None

    def _is_hungry(self, reading: _Reading) -> bool:
        room = min(AT_ONCE, self._waiting_max)
        is_behind = reading.cursor is not None and reading.cursor.is_behind
        return is_behind and reading.waiting < room and reading.waiting_bytes < WAITING_BYTES

    def fire(self) -> None:
        """Read on for those that are behind, some events each."""
        behind, self._behind = self._behind, {}
        for number in behind:
            reading = self._readings.get(number)
            if reading is None or not self._is_hungry(reading):
                continue
            assert reading.cursor is not None
            try:
                for signed, position in reading.cursor.catch_up():
                    self._hand_wanted(reading, signed, -1, position)
            except InputError as error:
                self._host.out.append(ReadingFailed(number, error))
                continue
            self._go_on(reading)

    def _hand_wanted(self, reading: _Reading, signed: SignedEvent, hops: int, position: int) -> None:
        if reading.wanted is None or reading.wanted.has(signed):
            self._hand(reading, signed, hops, position)

    def _hand(self, reading: _Reading, signed: SignedEvent, hops: int, position: int) -> None:
        reading.waiting += 1
        reading.waiting_bytes += len(signed.block)
        self._host.out.append(DeliverEvent(reading.number, signed, hops, position))
        if self._host.tracing is not None:
            self._host.tracing.deliver(signed, hops)
