"""What passes between a node's streams in memory and their file: what is found there, and what is written.

An event's row is its stream's number and its position in one, so that a stream lies together in the file, in
the order in which consumers read it.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vinecast.core.log.stream_buffer import Place, StreamSummary

POSITION_BITS = 36
"""Of a row's number; the others are the stream's."""


def row_of(stream: int, position: int) -> int:
    """The number of an event's row."""
    return stream << POSITION_BITS | position


def position_in(row: int) -> int:
    """The position of the event in a row."""
    return row & (1 << POSITION_BITS) - 1


class ExpiredEvent(NamedTuple):
    """What retention must know of an event."""

    stream: int
    position: int
    place: Place
    kept_us: int
    size: int


class StoredStream(NamedTuple):
    """A stream as it lies in the file."""

    number: int
    summary: StreamSummary
    offsets: dict[str, int]
    """Of its consumers, by name."""
    is_ragged: bool
    """Whether something is forgotten or lacking."""


@dataclass(slots=True)
class WriteBatch:
    """What one commit writes. Events that go lie in the file already; they go before others come."""

    gone: dict[bytes, ExpiredEvent] = field(default_factory=dict)
    """By content id."""
    forgotten: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """Heights by stream and content id; 0 for one that is kept again."""
    events: dict[bytes, tuple[Any, ...]] = field(default_factory=dict)
    """Rows by content id."""
    heads: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """Heights by stream and content id; 0 for one that is a head no longer."""
    lacking: dict[tuple[int, bytes], list[int]] = field(default_factory=dict)
    """The positions of events for which a parent was not there, by stream and that parent."""
    offsets: dict[tuple[int, str], int] = field(default_factory=dict)
    """By stream and consumer; 0 for one that is forgotten."""
    streams: dict[int, tuple[str, StreamSummary]] = field(default_factory=dict)
    """Topics and summaries of all streams that changed."""
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """The same as rows, when the batch is closed."""
    size: int = 0
    """Bytes of the events."""

    def __bool__(self) -> bool:
        return bool(self.streams)

    def close(self) -> None:
        """Nothing is added from now on, and states that change do not matter to it."""
        self.rows = [
            (number, topic, summary.first, summary.last, summary.floor, summary.events, summary.size)
            for number, (topic, summary) in self.streams.items()
        ]
