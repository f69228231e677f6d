"""Durable streams: what a node's machine asks of the place where it keeps events, and what is told back.

A stream is all events of a topic that have a height (``core/log/event_record``), a graph by their parents. A
node keeps an event only when it keeps its parents too, or has decided to do without what lies before it: so
what is kept has no holes above its *floor*, and every node that keeps the same events finds the same order in
them, by height, then content id. Besides, each node numbers events as it keeps them: *positions*, from 1, are
what a consumer's offset counts; they respect parents, and are the node's own.

Keeping is not instant. A machine says ``Keep``, the event can be read back at once, and ``Kept`` tells it
when it is safe against a crash: only then may it say so to others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from vinecast.core.errors import BadNameError, Bug
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.event_record import NUMBER_MAX

CONSUMER_BYTES_MAX = 255
"""Of a consumer's name in UTF-8 (ours)."""


class KeptEvent(NamedTuple):
    """An event that is kept, and its position in the order in which this node kept it."""

    position: int
    signed: SignedEvent


class StreamState(NamedTuple):
    """A stream as far as a node keeps it."""

    heads: tuple[bytes, ...]
    """Events that none follows that is kept or was, by content id, the highest first. A head that is not
    kept any longer stays a head, so that whoever publishes next goes on where the stream was."""
    first: int
    """The lowest position that is still kept; one more than the last where nothing is."""
    last: int
    """The highest position that was ever given; 0 before the first."""
    floor: int
    """Parents that are not kept are missed only by events above this height; 0: all is kept."""


EMPTY = StreamState((), 1, 0, 0)


class Streams(Protocol):
    """Where events are kept: on disk, or in the memory of a simulated node. Reading never waits."""

    def state(self, topic: str) -> StreamState:
        """A stream; EMPTY when nothing is known of it."""

    def topics(self) -> list[str]:
        """All streams that something is known of, by name."""

    def height_of(self, topic: str, cid: bytes) -> int:
        """The height of an event of this stream that is kept, is a head, or was forgotten not long ago; 0 for
        all others: they never were kept, lie far below the floor, or belong to another stream."""

    def get(self, cid: bytes) -> SignedEvent | None:
        """An event that is kept."""

    def after(self, topic: str, position: int, count: int) -> list[KeptEvent]:
        """The next events after a position, in the order of positions."""

    def in_order(self, topic: str, after: tuple[int, bytes], count: int) -> list[KeptEvent]:
        """The next events after (height, content id), in the order that all nodes share."""

    def position_of(self, cid: bytes) -> int:
        """The position of an event that is kept; 0 when it is not."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Effect: keep events, in this order; each one's parents are kept already, come before it, or lie below
    the floor."""

    events: tuple[SignedEvent, ...]


@dataclass(frozen=True, slots=True)
class SetFloor:
    """Effect: do without what a stream has at or below this height."""

    topic: str
    floor: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Event: these are safe now."""

    cids: tuple[bytes, ...]


class StreamSink(Protocol):
    """The other half of the place where events are kept, for whoever carries effects out."""

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        """Carry out ``Keep``: readable at once, safe later. What is kept already is left as it is."""

    def set_floor(self, topic: str, floor: int) -> None:
        """Carry out ``SetFloor``."""


class Consumers(Protocol):
    """How far named readers have come, kept beside the streams that they read."""

    def offset(self, consumer: str, topic: str) -> int:
        """The last position that a consumer acknowledged; 0 before the first."""

    def ack(self, consumer: str, topic: str, position: int) -> None:
        """Note that a consumer is done with all up to a position; it never goes back. Safe when all that was
        kept before is. InputError when the stream has no such position."""

    def consumers(self, topic: str) -> dict[str, int]:
        """The consumers of a stream that acknowledged something, with their offsets, by name."""

    def drop_consumer(self, consumer: str, topic: str) -> None:
        """Forget how far a consumer has come."""


def check_number(value: int) -> None:
    """Bug for what no store can hold, before it is noted."""
    if not 0 <= value <= NUMBER_MAX:
        raise Bug(f"a stream holds numbers from 0 to 2⁶³ − 1, not {value}")


def check_consumer(name: str) -> None:
    """Refuse what cannot be the name of a consumer."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise BadNameError(f"a consumer's name is valid Unicode, not {name[:80]!r}") from None
    if not 0 < length <= CONSUMER_BYTES_MAX:
        raise BadNameError(f"a consumer's name has 1 to {CONSUMER_BYTES_MAX} bytes, not {length}")
