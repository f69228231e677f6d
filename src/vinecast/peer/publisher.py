"""Publishing: what the application publishes becomes signed events, and receipts.

A publisher is made to feel that its neighbours or its disk are slow: what it publishes waits here, and when
that lasts it is told. Before the first event on a stream it waits a moment for what others have of it; before
one outside of streams, where no subscriber is known, for one to be found.

Events of one turn share a signature. An event of a stream follows those that its publisher knows, and its
receipt waits until it is safe: written down on this node, and held by as many others as were asked for, which
say so when it is safe on their disks. Where others take too long the publisher gets its receipt nevertheless,
which says how many hold the event: it is on its way to them, and to publish it once more would make two of
it.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from vinecast.core.errors import ClosedError, InputError, OverloadedError, UnsafeError
from vinecast.core.events import SetTimer
from vinecast.core.log.batch_signature import BATCH_MAX, Sign, SignedEvent, event_number, sign_batch
from vinecast.core.log.blocks import ContentId
from vinecast.core.log.event_record import EventRecord, encode
from vinecast.core.machine import SECOND_US
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import PublishDrafts
from vinecast.peer.outputs import Answered, PeerOutput
from vinecast.peer.receipt import Receipt
from vinecast.peer.streams.durable_runtime import UNPUBLISHED, DurableRuntime
from vinecast.peer.topics import check_topic
from vinecast.peer.volatile_events import VolatileEvents

JOIN_US = 3_000_000
"""For how long a publisher waits for its node to meet the first of those that it was told of (ours)."""
LOOK_US = 5_000
"""Between two looks whether what waits can go on (ours)."""
PENDING_BYTES = 256 * 1024
"""Of events that wait for the end of the turn (ours); further ones wait for room."""
UNREAD = (
    "the store cannot be read at the moment, so the event has no place in its stream: it was not published"
)
OUTSTANDING_MAX = 2048
"""Events of streams without a receipt at a time (ours): fewer than a node remembers the holders of."""

LOOK_TIMER, EXPIRE_TIMER, SETTLE_TIMER = "publish.look", "publish.expire", "publish.settle"
PUBLISH_TIMERS = frozenset({LOOK_TIMER, EXPIRE_TIMER, SETTLE_TIMER})

_SETTLE = SetTimer(SETTLE_TIMER, 0)

Outcome = Receipt | Exception


class PublisherHost(Protocol):
    """The peer, as far as it is needed here."""

    config: PeerConfig
    network: str
    cid_of: ContentId
    """What content ids are."""
    counters: Counter[str]
    events: VolatileEvents
    streams: DurableRuntime
    out: list[PeerOutput]

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""

    def set_timer(self, name: str, after_us: int) -> None:
        """Have a timer run out after so long."""

    def search(self, topic: str) -> bool:
        """Where no subscriber is known, search for one; whether to wait a moment for what comes of it."""

    def is_crowded(self, topic: str) -> bool:
        """Whether a peer that events of a topic may go to has a crowded queue."""

    def expected_others(self) -> int:
        """How many other nodes there are, or should be."""

    def is_joining(self) -> bool:
        """Whether nobody was met yet, and somebody may be there whom the node was told of."""

    def note_unreadable(self) -> None:
        """The store could not be read."""


@dataclass(slots=True)
class _Asked:
    """A request, and what has become of its events."""

    command: PublishDrafts
    began_us: int
    """When it came, or when it began to wait for room."""
    outcomes: list[Outcome | None] = field(default_factory=list)
    left: int = 0
    is_probing: bool = True

    @property
    def line(self) -> tuple[str, bool]:
        """With whom it stands in line: requests of a line go on in the order in which they came."""
        return self.command.topic, self.command.durable


@dataclass(slots=True)
class _UnsettledEvent:
    """An event without a receipt, and which of a request's it is."""

    asked: _Asked
    index: int
    record: EventRecord
    block: bytes = b""
    """Of an event that is signed, as ``cid`` is."""
    cid: bytes = b""
    neighbours: int = 0
    safe: bool = False
    holders: int = 0


class PeerPublisher:
    """Publishes the events of one node."""

    def __init__(self, host: PublisherHost, public: bytes, sign: Sign) -> None:
        self._host, self._public, self._sign = host, public, sign
        self._wait_us = round(host.config.publish_wait_s * SECOND_US)
        self._waiting: deque[_Asked] = deque()
        self._pending: dict[bool, list[_UnsettledEvent]] = {False: [], True: []}
        """Durable or not → what is sent at the end of the turn."""
        self._pending_bytes = 0
        self._awaited: dict[bytes, _UnsettledEvent] = {}
        """Of streams."""
        self._sent: list[_UnsettledEvent] = []
        """Outside of streams."""
        self._in_hand: list[_UnsettledEvent] = []
        """Of all, what was sent just now: a frame with it may turn out not to go out."""
        self._expiring: deque[tuple[int, list[bytes]]] = deque()
        self._closed = False
        host.streams.listener = self

    @property
    def outstanding(self) -> int:
        """Events of streams without a receipt."""
        return len(self._awaited) + len(self._pending[True])

    # What is asked for.

    def publish(self, turn: Iterable[PublishDrafts]) -> None:
        """Publish the events of a turn, now or when there is room."""
        for command in turn:
            self._begin(command)
        self._flush()

    def _begin(self, command: PublishDrafts) -> None:
        asked = _Asked(command, self._host.now_us(), [None] * len(command.drafts), len(command.drafts))
        try:
            check_topic(command.topic)
            if self._closed:
                raise ClosedError("the node is closed: make another one to go on")
        except InputError as error:
            self._host.out.append(Answered(command.request, error=error))
            return
        if command.durable:
            self._host.search(command.topic)
        if not self._advance(asked, any(one.line == asked.line for one in self._waiting)):
            if not self._waiting:
                self._host.set_timer(LOOK_TIMER, LOOK_US)
            self._waiting.append(asked)

    def cancel(self, request: int) -> None:
        """Nobody waits for the answer any longer: what has not begun will not."""
        self._waiting = deque(one for one in self._waiting if one.command.request != request)

    def fire(self, name: str) -> None:
        """A timer ran out."""
        if name == EXPIRE_TIMER:
            self._expire()
            return
        if name == SETTLE_TIMER:
            self._settle_sent()
            return
        waiting, self._waiting = self._waiting, deque()
        lines: set[tuple[str, bool]] = set()
        for asked in waiting:
            if not self._advance(asked, asked.line in lines):
                lines.add(asked.line)
                self._waiting.append(asked)
        if self._waiting:
            self._host.set_timer(LOOK_TIMER, LOOK_US)
        self._flush()

    def _advance(self, asked: _Asked, is_behind: bool) -> bool:
        """Go on with a request, unless it is behind others; whether it waits no longer."""
        command = asked.command
        if asked.is_probing:
            if self._probes(asked):
                return False
            asked.is_probing, asked.began_us = False, self._host.now_us()
        if command.durable and self.outstanding >= OUTSTANDING_MAX:
            asked.began_us = self._host.now_us()  # they get their receipts, late or not
            return False
        is_full = self._is_full(command)
        if not is_full and not is_behind:
            self._put(asked)
            return True
        if not is_full or self._host.now_us() - asked.began_us < self._wait_us:
            return False
        self._host.counters["refused: publisher too fast"] += 1
        error = OverloadedError("the neighbours cannot take more events at the moment")
        self._host.out.append(Answered(command.request, error=error))
        return True

    def _probes(self, asked: _Asked) -> bool:
        """Whether to wait a moment until somebody is met, for what others have of a stream, or for a
        subscriber to be found. Before an event of a stream no subscriber is waited for: replicas have the
        event, and it asks them."""
        command = asked.command
        if self._host.is_joining() and self._host.now_us() - asked.began_us < JOIN_US:
            return True
        if command.durable:
            return self._host.streams.visit(command.topic)
        return self._host.search(command.topic)

    def _is_full(self, command: PublishDrafts) -> bool:
        """Whether neighbours or the disk are too slow, or this turn had enough: what it publishes comes on
        top of what lies in the queues."""
        disk = command.durable and self._host.streams.is_crowded
        return disk or self._pending_bytes > PENDING_BYTES or self._host.is_crowded(command.topic)

    def _put(self, asked: _Asked) -> None:
        command = asked.command
        if not command.drafts:
            self._host.out.append(Answered(command.request, ()))
        for index, draft in enumerate(command.drafts):
            record = EventRecord(
                topic=command.topic,
                publisher=self._public,
                sequence=draft.sequence,
                time_us=draft.time_us,
                payload=draft.payload,
                headers=draft.headers,
            )
            self._pending[command.durable].append(_UnsettledEvent(asked, index, record))
            self._pending_bytes += len(draft.payload)

    # At the end of a turn.

    def _flush(self) -> None:
        """Sign and send what was published in this turn."""
        if not (self._pending[False] or self._pending[True]):
            return
        pending, self._pending, self._pending_bytes = self._pending, {False: [], True: []}, 0
        for durable, every in pending.items():
            for begin in range(0, len(every), BATCH_MAX):
                placed = self._place(every[begin : begin + BATCH_MAX], durable)
                if placed:
                    self._send(placed, durable)
        if self._in_hand:
            self._host.out.append(_SETTLE)  # behind all that is told of frames that do not go out

    def _place(self, pending: Sequence[_UnsettledEvent], durable: bool) -> list[_UnsettledEvent]:
        """Put events of streams in their places, and encode all. Only those fail that are outside the
        limits."""
        places: dict[str, tuple[tuple[bytes, ...], int]] = {}
        placed, unreadable = [], set()
        for one in pending:
            topic = one.record.topic
            if durable and topic not in places and topic not in unreadable:
                try:
                    places[topic] = self._host.streams.place(topic)
                except InputError:
                    self._host.note_unreadable()
                    unreadable.add(topic)
            if topic in unreadable:
                self._settle(one.asked, one.index, OverloadedError(UNREAD))
                continue
            if durable:
                parents, height = places[topic]
                one.record = one.record._replace(parents=parents, height=height)
            try:
                one.block = encode(one.record)
            except InputError as error:
                self._settle(one.asked, one.index, error)
                continue
            one.cid = self._host.cid_of(one.block)
            if durable:
                places[topic] = (one.cid,), one.record.height + 1
            placed.append(one)
        return placed

    def _send(self, placed: Sequence[_UnsettledEvent], durable: bool) -> None:
        signatures = sign_batch(self._host.network, [one.cid for one in placed], self._sign)
        hand = [
            SignedEvent(one.record, one.block, one.cid, signature)
            for one, signature in zip(placed, signatures, strict=True)
        ]
        if not durable:
            for one, neighbours in zip(placed, self._host.events.publish(hand), strict=True):
                one.neighbours = neighbours
            self._sent += placed
            self._in_hand += placed
            return
        self._awaited.update((one.cid, one) for one in placed)
        for one, neighbours in zip(placed, self._host.streams.publish(hand), strict=True):
            one.neighbours = neighbours
            if neighbours == UNPUBLISHED:
                del self._awaited[one.cid]
                self._settle(one.asked, one.index, OverloadedError(UNREAD))
            else:
                self._in_hand.append(one)
        if not self._expiring:
            self._host.set_timer(EXPIRE_TIMER, max(1, self._wait_us))
        self._expiring.append((self._host.now_us() + self._wait_us, [one.cid for one in placed]))

    # What becomes of them.

    @property
    def has_in_hand(self) -> bool:
        """Whether something was sent just now."""
        return bool(self._in_hand)

    def note_unsent(self, numbers: Iterable[int]) -> None:
        """A frame with these events, or with the news of them, did not go out after all."""
        unsent = frozenset(numbers)
        for one in self._in_hand:
            if event_number(one.cid) in unsent:
                one.neighbours -= 1

    def _settle_sent(self) -> None:
        """All that was sent went out, or is known not to have."""
        sent, self._sent, self._in_hand = self._sent, [], []
        for one in sent:
            self._settle(one.asked, one.index, Receipt(one.cid, one.neighbours))

    def safe(self, cids: Sequence[bytes]) -> None:
        """Events are safe on this node."""
        for cid in cids:
            awaited = self._awaited.get(cid)
            if awaited is not None:
                awaited.safe = True
                self._look(cid, awaited, enough=self._closed)

    def held(self, cid: bytes, holders: int) -> None:
        """So many others hold an event."""
        awaited = self._awaited.get(cid)
        if awaited is not None:
            awaited.holders = holders
            self._look(cid, awaited)

    def _look(self, cid: bytes, awaited: _UnsettledEvent, enough: bool = False) -> None:
        wanted = self._host.config.holders
        if awaited.safe and (enough or awaited.holders >= min(wanted, self._host.expected_others())):
            del self._awaited[cid]
            self._settle(awaited.asked, awaited.index, Receipt(cid, awaited.neighbours, awaited.holders))

    def _expire(self) -> None:
        """Time is up for the events published longest ago."""
        now_us = self._host.now_us()
        while self._expiring and self._expiring[0][0] <= now_us:
            for cid in self._expiring.popleft()[1]:
                awaited = self._awaited.get(cid)
                if awaited is None:
                    continue
                self._look(cid, awaited, enough=True)
                if self._awaited.pop(cid, None) is not None:
                    error = UnsafeError("the event is on its way, but could not be written down here in time")
                    self._settle(awaited.asked, awaited.index, error)
        if self._expiring:
            self._host.set_timer(EXPIRE_TIMER, max(1, self._expiring[0][0] - now_us))

    def _settle(self, asked: _Asked, index: int, outcome: Outcome) -> None:
        """What became of one event of a request; the last of them answers it."""
        asked.outcomes[index] = outcome
        asked.left -= 1
        if not asked.left:
            value: Any = tuple(asked.outcomes)
            self._host.out.append(Answered(asked.command.request, value))

    def close(self) -> None:
        """The store is about to close: nothing more is published, and no further holders are waited for. An
        event that is safe has its receipt, another one gets it if the store makes it safe as it closes."""
        self._closed = True
        self._settle_sent()
        for cid, awaited in list(self._awaited.items()):
            self._look(cid, awaited, enough=True)
        never = ClosedError("the node was closed before the event was published")
        for asked in self._waiting:
            self._host.out.append(Answered(asked.command.request, error=never))
        self._waiting.clear()
        pending, self._pending = self._pending, {False: [], True: []}
        for one in (*pending[False], *pending[True]):
            self._settle(one.asked, one.index, never)

    def end(self) -> None:
        """The node ends: those who still wait for a receipt will get none."""
        late = ClosedError("the node was closed before the event was safe")
        for awaited in self._awaited.values():
            self._settle(awaited.asked, awaited.index, late)
        self._awaited.clear()
