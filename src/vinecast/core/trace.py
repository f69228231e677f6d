"""Trace records: the one source of every metric, in both worlds.

The simulator and the live node write the same records with the same schema; hit ratio, hops, duplication
and the rest are computed from them by one definition. The schema is declared here as plain data, and as an
Arrow schema for those who have PyArrow.

Machines and tables know nodes and topics by number (``TraceRecord``). A whole peer, live or simulated, leaves
the same records under names that mean the same on every node (``NamedRecord``).
"""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow

SCHEMA_VERSION = 2
"""1: without sizes, and without ``JOINED`` and ``LEFT``."""


class TraceKind(enum.IntEnum):
    """What happened. The numbers are part of the schema."""

    PUBLISHED = 0
    SENT = 1
    RECEIVED_FIRST = 2
    RECEIVED_AGAIN = 3
    DELIVERED = 4
    DROPPED = 5
    JOINED = 6
    """Of whole peers: from now on the topic's events should reach the node; without a topic, the node is
    up."""
    LEFT = 7
    """Of whole peers: from now on they need not; without a topic, the node is gone."""


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One thing that happened on one node."""

    time_us: int
    """When, in microseconds of the run's clock."""
    node: int
    """Where: the number of the node that it happened on."""
    kind: TraceKind
    """What happened."""
    peer: int = -1
    """The other node, or −1: the receiver of what was sent, the sender of what was received or dropped."""
    message: str = ""
    """The kind of the message sent, received or dropped, such as ``cyclon.request``; empty for the rest."""
    topic: int = -1
    """The topic, or −1 for messages that carry no event."""
    event: int = -1
    """The event, or −1."""
    hops: int = -1
    """How many links the event has travelled, or −1."""
    reason: str = ""
    """Why it was dropped."""
    size: int = 0
    """What was sent weighs, in bytes, with its share of the frame; 0 where messages are not encoded."""


class NamedRecord(NamedTuple):
    """One thing that happened on one whole peer, in names that mean the same on every node."""

    time_us: int
    """When, in microseconds since 1970, by the node's own clock."""
    node: bytes
    """Where: the id of the node."""
    kind: TraceKind
    """What happened."""
    peer: bytes = b""
    """The id of the other node: the receiver of what was sent or could not be, the sender of what came; empty
    where there is none."""
    message: str = ""
    """The kind of the message that was sent, received or dropped; empty for the rest, also for an event that
    ends here."""
    topic: str = ""
    """The topic's name."""
    event: int = -1
    """The event's number, which is a part of its content id (``core/log/batch_signature``), or −1."""
    hops: int = -1
    """How many links the event has travelled; −1 also for one that was fetched or read from the store."""
    reason: str = ""
    """Why it was dropped."""
    size: int = 0
    """What was sent weighs, in bytes, with its share of the frame."""


FIELDS: tuple[tuple[str, str], ...] = (
    ("time_us", "int64"),
    ("node", "int32"),
    ("kind", "int8"),
    ("peer", "int32"),
    ("message", "dictionary"),
    ("topic", "int32"),
    ("event", "int64"),
    ("hops", "int16"),
    ("reason", "dictionary"),
    ("size", "int32"),
)
"""Column names and types, in order. ``dictionary`` is a string from a small set."""


def arrow_schema() -> "pyarrow.Schema":
    """The records' schema for Arrow and Parquet, with its version in the metadata."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    fields = [pa.field(name, types[kind], nullable=False) for name, kind in FIELDS]
    return pa.schema(fields, metadata={"vinecast.trace": str(SCHEMA_VERSION)})
