"""What gap repair is told, what it says to other nodes, and what it asks for besides keeping events."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from vinecast.core.events import Blame, Count, Send, SetTimer
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.streams import Keep, SetFloor

# What it is told.

NOW, EARLIEST = "now", "earliest"


@dataclass(frozen=True, slots=True)
class Follow:
    """Event: keep a topic's stream from now on."""

    topic: str
    start: str = EARLIEST
    """Where a stream begins that was never kept here: with what is published NOW, or with the EARLIEST event
    that anybody still keeps. One that was kept before goes on where it was."""
    reads: bool = True
    """Whether an application here reads it; else it is kept for others."""
    size: int = 0
    """Bytes of it that are kept already, where it is kept for others."""


@dataclass(frozen=True, slots=True)
class Unfollow:
    """Event: keep no more of a topic's stream."""

    topic: str


@dataclass(frozen=True, slots=True)
class Lower:
    """Event: fetch what a stream has above this height after all."""

    topic: str
    floor: int


@dataclass(frozen=True, slots=True)
class TopicReplicas:
    """Event: these peers keep a topic's stream, whoever reads it."""

    topic: str
    peers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Providers:
    """Event: these peers say that they have a topic's stream; the answer to ``FindProviders``."""

    topic: str
    peers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Met:
    """Event: a peer has said that it is there and follows these topics."""

    peer: int
    topics: tuple[str, ...]


# What it says to other nodes.

NEVER, IF_OTHER, ALWAYS = 0, 1, 2


class StreamStatus(NamedTuple):
    """What one node tells another of a stream."""

    topic: str
    heads: tuple[bytes, ...]
    """All of them, or some in turn where they are many."""
    height: int
    """Of the highest."""
    floor: int
    """At or below this height it may lack parents."""
    bottom: int
    """At or below this height it has nothing."""


@dataclass(frozen=True, slots=True)
class StreamHeads:
    """How far the sender has come."""

    kind: ClassVar[str] = "streams.heads"
    told: tuple[StreamStatus, ...]
    asks: int
    """When the sender wants to be told too: NEVER, IF_OTHER heads are known, or ALWAYS."""


@dataclass(frozen=True, slots=True)
class StreamList:
    """Asks which events come after a place, in the order that all nodes share."""

    kind: ClassVar[str] = "streams.list"
    topic: str
    height: int
    cid: bytes


@dataclass(frozen=True, slots=True)
class StreamListed:
    """Answers ``StreamList``."""

    kind: ClassVar[str] = "streams.listed"
    topic: str
    after: tuple[int, bytes]
    """The place that was asked for."""
    cids: tuple[bytes, ...]
    height: int
    """Of the last of them."""


@dataclass(frozen=True, slots=True)
class StreamWant:
    """Asks for events by content id."""

    kind: ClassVar[str] = "streams.want"
    topic: str
    cids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class StreamEvents:
    """Here are some of them."""

    kind: ClassVar[str] = "streams.events"
    topic: str
    events: tuple[SignedEvent, ...]
    missing: tuple[bytes, ...] = ()
    """Those that the sender does not keep."""


@dataclass(frozen=True, slots=True)
class StreamPush:
    """Events of the sender's own for a replica, who should say when they are safe."""

    kind: ClassVar[str] = "streams.push"
    topic: str
    events: tuple[SignedEvent, ...]


@dataclass(frozen=True, slots=True)
class StreamAck:
    """These are safe here."""

    kind: ClassVar[str] = "streams.ack"
    cids: tuple[bytes, ...]


StreamMessage = StreamHeads | StreamList | StreamListed | StreamWant | StreamEvents | StreamPush | StreamAck
STREAM_MESSAGES = (StreamHeads, StreamList, StreamListed, StreamWant, StreamEvents, StreamPush, StreamAck)

# What it asks for.


@dataclass(frozen=True, slots=True)
class Hand:
    """Effect: hand an event that is safe to the application; its parents came before."""

    signed: SignedEvent
    hops: int = -1
    """Links that it travelled; −1 where it was fetched."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Effect: so many other nodes have said that they hold an event of this node's own."""

    cid: bytes
    holders: int


@dataclass(frozen=True, slots=True)
class Provide:
    """Effect: let others find out that this node has a topic's stream."""

    topic: str


@dataclass(frozen=True, slots=True)
class FindProviders:
    """Effect: neighbours and replicas lack something; who else has the topic's stream?"""

    topic: str


StreamEffect = (
    Send | SetTimer | Count | Blame | Keep | SetFloor | Hand | Acknowledged | Provide | FindProviders
)
