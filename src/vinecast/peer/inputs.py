"""What goes into a peer: what the world tells it, and what its application asks for.

A peer is one machine, ``handle(input, now_us) -> list[Output]`` (``peer/peer``). Whoever runs it, a live
node's runtime or the simulator, hands it these, one after the other. Peers are named by their ids here, the
hash of their keys; numbers are the machine's own. Those that come with every event are ``Struct``: they are
made five times as fast.
"""

from dataclasses import dataclass

from msgspec import Struct

from vinecast.core.content.filters import FilterSet
from vinecast.core.content.schemas import Schema
from vinecast.core.events import TimerFired
from vinecast.peer.address import Address
from vinecast.protocols.kademlia import Operation

# What the world tells.


@dataclass(frozen=True, slots=True)
class NodeBegins:
    """The node comes up, once in the life of a peer."""

    address: Address
    """Where others reach it."""
    join: tuple[Address, ...] = ()
    """Where others are that it was told of."""
    remembered: tuple[Address, ...] = ()
    """Where those were whom it met before a restart, the last first."""
    topics: tuple[str, ...] = ()
    """What it subscribed to before a restart."""
    sessions: tuple[tuple[int, int], ...] = ()
    """From when to when it was on line before, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class NodeEnds:
    """The node leaves in good order: the last chance to send something."""


@dataclass(frozen=True, slots=True)
class StoreCloses:
    """The store of streams takes nothing more; it may still say what is safe."""


@dataclass(frozen=True, slots=True)
class LinkUp:
    """There is a connection to a peer."""

    peer: bytes


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The connection to a peer is gone."""

    peer: bytes
    broken: bool
    """Whether the peer may be gone too; not when a side closed it in good order."""


@dataclass(frozen=True, slots=True)
class PeerUnreachable:
    """No connection to a peer could be made."""

    peer: bytes


class FrameCame(Struct, frozen=True):
    """A peer sent a frame, whatever it holds. A connection keeps the order."""

    peer: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class FrameUnsent:
    """A frame that was to go out to a peer did not."""

    peer: bytes
    things: int
    """Messages or events in it."""
    frame: bytes
    """The frame itself: who published an event in it is told of one neighbour less."""


@dataclass(frozen=True, slots=True)
class QueuesCrowded:
    """The peers whose queues are more than half full are these now."""

    peers: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class AddressReached:
    """Somebody answers at an address that was dialled, and has proved who it is."""

    address: Address
    peer: bytes


@dataclass(frozen=True, slots=True)
class AddressFailed:
    """Nobody was reached at an address that was dialled."""

    address: Address
    reason: str


@dataclass(frozen=True, slots=True)
class EventsStored:
    """These events are safe in the store of streams: a crash does not lose them."""

    cids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class IndexCompiled:
    """The rules of the index of filters are compiled (``CompileIndex`` asked for that)."""


# What the application asks for. Every request has a number of its own, and one answer (``Answered``).


class Draft(Struct, frozen=True):
    """An event that is to be published."""

    payload: bytes
    headers: dict[str, str | bytes]
    sequence: int
    """One of the publisher's own, never used before."""
    time_us: int
    """When, by the publisher's clock, in microseconds since 1970."""


class PublishDrafts(Struct, frozen=True):
    """A request of a turn: publish events on a topic, in this order. The answer is a ``Receipt`` or an error
    for each."""

    request: int
    topic: str
    drafts: tuple[Draft, ...]
    durable: bool = True


class PublishTurn(Struct, frozen=True):
    """All that was published in a turn of the loop: it is signed and sent together."""

    requests: tuple[PublishDrafts, ...]


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """Read a topic, or the topics of a pattern. Answered at once, with None."""

    request: int
    subscription: int
    """A number that names it from now on."""
    topic: str
    start: str | int
    """See ``peer/streams/cursor``."""
    consumer: str | None = None
    schema: Schema | None = None
    """For a subscription to the events of a schema that match one of these filters."""
    wanted: FilterSet | None = None


@dataclass(frozen=True, slots=True)
class CloseSubscription:
    """Read no more."""

    subscription: int


@dataclass(frozen=True, slots=True)
class LeaveTopic:
    """Leave a topic, whoever reads it."""

    topic: str


class EventsTaken(Struct, frozen=True):
    """The reader of a subscription took events that waited for it: there is room for others."""

    subscription: int
    events: int
    size: int
    """Bytes of their blocks."""


@dataclass(frozen=True, slots=True)
class AckPosition:
    """The consumer of a subscription is done with all up to a position. Answered at once."""

    request: int
    subscription: int
    topic: str
    position: int


@dataclass(frozen=True, slots=True)
class AwaitReady:
    """Answered when events of all topics of a subscription would reach this node, or nobody else is there."""

    request: int
    subscription: int


@dataclass(frozen=True, slots=True)
class AwaitLevel:
    """Answered when this node has all of a topic's stream that others tell of."""

    request: int
    topic: str


@dataclass(frozen=True, slots=True)
class AskTable:
    """Have Kademlia put or get a value. The answer is a ``Found``."""

    request: int
    operation: Operation
    key: bytes
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class ForgetValue:
    """Have Kademlia put a value no longer."""

    key: bytes


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Nobody waits for the answer to a request any longer: what has not begun need not."""

    request: int


WorldInput = (
    NodeBegins
    | NodeEnds
    | StoreCloses
    | LinkUp
    | LinkDown
    | PeerUnreachable
    | FrameCame
    | FrameUnsent
    | QueuesCrowded
    | AddressReached
    | AddressFailed
    | TimerFired
    | EventsStored
    | IndexCompiled
)
PeerCommand = (
    PublishTurn
    | OpenSubscription
    | CloseSubscription
    | LeaveTopic
    | EventsTaken
    | AckPosition
    | AwaitReady
    | AwaitLevel
    | AskTable
    | ForgetValue
    | CancelRequest
)
PeerInput = WorldInput | PeerCommand
"""What a peer can be handed."""
