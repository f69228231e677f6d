"""What comes out of a peer: what its runtime has to carry out, in this order."""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from vinecast.core.events import SetTimer
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.trace import NamedRecord
from vinecast.peer.address import Address


class SendFrame(Struct, frozen=True):
    """Send a frame to a peer, making a connection if there is none."""

    peer: bytes
    address: Address | None
    """Where it is, as far as that is known."""
    frame: bytes
    things: int
    """Messages or events in it; told back if it cannot go out (``FrameUnsent``)."""


@dataclass(frozen=True, slots=True)
class DialAddress:
    """Make a connection to whoever is there; ``AddressReached`` or ``AddressFailed`` tells."""

    address: Address


@dataclass(frozen=True, slots=True)
class ShunPeer:
    """End the connection to a peer that misbehaves, and make no other for a while."""

    peer: bytes


class DeliverEvent(Struct, frozen=True):
    """Let an event wait for the reader of a subscription."""

    subscription: int
    signed: SignedEvent
    hops: int
    """Connections that it travelled; −1 for one that was fetched or read again."""
    position: int
    """Its place in its topic's stream on this node, from 1; 0 outside of streams."""


@dataclass(frozen=True, slots=True)
class EventDropped:
    """An event found no room to wait for the reader of a subscription."""

    subscription: int


@dataclass(frozen=True, slots=True)
class ReadingFailed:
    """A subscription cannot go on reading from the store; it is tried again when the reader takes more."""

    subscription: int
    error: Exception


class Answered(Struct, frozen=True):
    """The answer to a request."""

    request: int
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The node takes up topics by name, or leaves them: to be remembered for the time after a restart."""

    taken_up: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardRenewed:
    """The node's card has this version: the next one must be higher, after a restart too."""

    version: int


@dataclass(frozen=True, slots=True)
class CompileIndex:
    """Have the rules of the index of filters compiled beside the loop; ``IndexCompiled`` tells. Until then
    filters are looked at one by one, which finds the same."""


@dataclass(frozen=True, slots=True)
class NetworkJoined:
    """Somebody else is known, for the first time."""


@dataclass(frozen=True, slots=True)
class Traced:
    """What happened meanwhile, where the peer is traced; after all else that comes of an input."""

    records: tuple[NamedRecord, ...]


@dataclass(frozen=True, slots=True)
class CycleEnded:
    """All gossip layers had their turn once more."""


PeerOutput = (
    SendFrame
    | DialAddress
    | ShunPeer
    | SetTimer
    | DeliverEvent
    | EventDropped
    | ReadingFailed
    | Answered
    | TopicsChanged
    | CardRenewed
    | CompileIndex
    | NetworkJoined
    | CycleEnded
    | Traced
)
"""What a peer can ask for."""
