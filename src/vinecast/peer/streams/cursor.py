"""The cursor: how far a subscription has come in the streams of its topics.

What a reader is handed of a stream it could as well have read from the store, where everything lies in the
order in which this node kept it. So a reader that is slow misses nothing: it is left behind, and goes on from
the store when it has time. Positions count; they are also the offsets that applications see.
"""

from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import cid_from_text, cid_text
from vinecast.core.log.streams import check_consumer
from vinecast.peer.streams.durable_runtime import DurableRuntime
from vinecast.protocols.streams import EARLIEST, NOW

AT_ONCE = 256
"""Events that are read from the store in one turn of the loop (ours): some milliseconds."""

Start = str | int
"""Where reading begins: with what is published from ``"now"`` on, with the ``"earliest"`` event, or after an
event, given by its offset on this node or by its id."""


class Cursor:
    """How far one subscription has read in the streams of its topics."""

    def __init__(self, streams: DurableRuntime, start: Start, consumer: str | None, is_plain: bool) -> None:
        """``is_plain``: whether the subscription names one topic."""
        if isinstance(start, bool) or not isinstance(start, str | int):
            raise InputError(f"a start is 'now', 'earliest', an offset or an event's id, not {start!r}")
        if isinstance(start, int) and start < 0:
            raise InputError(f"an offset is 0 or more, not {start}")
        self._after = cid_from_text(start) if isinstance(start, str) and start not in (NOW, EARLIEST) else b""
        if (self._after or isinstance(start, int)) and not is_plain:
            raise InputError(
                "an offset or an event's id is one topic's: a pattern starts 'now' or 'earliest'"
            )
        if consumer is not None:
            check_consumer(consumer)
        self._streams, self._start, self._consumer = streams, start, consumer
        self._at: dict[str, int] = {}
        self._above: dict[str, int] = {}
        """Topic → what is not higher is of the time before."""
        self._resumed: set[str] = set()
        """Topics in which a consumer goes on where it was: what came while it was away is not old."""
        self._behind: dict[str, None] = {}

    @property
    def follows(self) -> str:
        """From where on the node must have a stream."""
        return EARLIEST if self._start in (EARLIEST, 0) else NOW

    @property
    def is_behind(self) -> bool:
        """Whether there is something to read from the store."""
        return bool(self._behind)

    def begin(self, topic: str) -> None:
        """Begin with a topic; before the node follows it. InputError when there is no such place."""
        store = self._streams.store
        position = store.offset(self._consumer, topic) if self._consumer is not None else 0
        if position:
            self._resumed.add(topic)
        else:
            position = self._find(topic)
        self._at[topic] = position
        if position < self._streams.safe_position(topic):
            self._behind[topic] = None

    def _find(self, topic: str) -> int:
        store = self._streams.store
        if self._after:
            position = store.position_of(self._after) if store.height_of(topic, self._after) else 0
            if not position:
                raise InputError(f"this node keeps no event {cid_text(self._after)} of {topic!r}")
            return position
        if isinstance(self._start, int):
            last = store.state(topic).last
            if self._start > last:
                raise InputError(f"the offsets of {topic!r} on this node go up to {last}, not {self._start}")
            return self._start
        if self._start == EARLIEST:
            return 0
        self._above[topic] = self._streams.repair.horizon(topic)
        return store.state(topic).last

    def leave_out(self, topic: str, height: int) -> None:
        """What a stream has up to this height comes later, for somebody else; whoever began now need not have
        it."""
        if topic in self._at and self._start == NOW:
            self._above[topic] = max(height, self._above.get(topic, 0))

    def end(self, topic: str) -> None:
        """Read a topic no longer."""
        for known in (self._at, self._above, self._behind):
            known.pop(topic, None)
        self._resumed.discard(topic)

    def is_next(self, topic: str, position: int) -> bool:
        """Whether the event at a position is what comes next, and nothing has to be read before."""
        return topic not in self._behind and self._at.get(topic) == position - 1

    def wants(self, signed: SignedEvent) -> bool:
        """Whether an event is not from the time before."""
        topic = signed.record.topic
        if self._start == NOW and topic not in self._resumed and self._streams.is_old(signed):
            return False
        return signed.record.height > self._above.get(topic, 0)

    def advance(self, topic: str, position: int) -> None:
        """The reader was handed an event."""
        self._at[topic] = position

    def fall_behind(self, topic: str) -> None:
        """There is no room for an event: it is read later."""
        if topic in self._at:
            self._behind[topic] = None

    def catch_up(self) -> list[tuple[SignedEvent, int]]:
        """Read what comes next, of one topic; what is wanted of it, with its positions. InputError where it
        cannot be read: then all others have their turn before it is tried again."""
        topic = next(iter(self._behind))
        self._behind[topic] = self._behind.pop(topic)  # last in line
        safe, at = self._streams.safe_position(topic), self._at[topic]
        found = self._streams.store.after(topic, at, AT_ONCE)
        wanted = []
        for position, signed in found:
            if position > safe:
                self._at[topic] = at = safe  # retention took what lay between
                break
            self._at[topic] = at = position
            if self.wants(signed):
                wanted.append((signed, position))
        if not found or at >= safe:
            del self._behind[topic]
        return wanted

    def ack(self, topic: str, position: int) -> None:
        """The application is done with all up to here."""
        if self._consumer is None:
            raise InputError("only a subscription with a consumer's name acknowledges events")
        if position:
            self._streams.store.ack(self._consumer, topic, position)
