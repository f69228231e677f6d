"""What goes into a machine and what comes out of it: small frozen types, matched exhaustively.

A machine is pure: an event and the time go in, a list of effects comes out, and whoever drives it (the
simulator's event engine, a live node's peer) carries the effects out. Peers are *numbers*: in a
simulation the node's number in the population, on a live node the row of its private table of peers.
Numbers are what rules compare and arrays store; the peer's codec turns them into ids on the wire.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from vinecast.core.trace import TraceKind


@runtime_checkable
class Message(Protocol):
    """What one machine says to another: a frozen dataclass with a name for its kind (``cyclon.request``)."""

    kind: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Start:
    """The node comes up, for the first time or again, and knows these peers from outside."""

    contacts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """The node is about to leave in good order: the last chance to send something."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived. The sender is whom the transport vouches for, not what the message says."""

    sender: int
    message: Message


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer that this machine set has run out."""

    name: str


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The transport gave up on a peer: its link broke or could not be made."""

    peer: int


@dataclass(frozen=True, slots=True)
class PeerFound:
    """A peer was met by other means than the machine's own, while the node is up."""

    peer: int


@dataclass(frozen=True, slots=True)
class Publish:
    """The application publishes an event on a topic. ``event`` is its number or content id."""

    topic: int
    event: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The application wants a topic's events from now on."""

    topic: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The application has had enough of a topic."""

    topic: int


Command = Publish | Subscribe | Unsubscribe
"""What the application can ask for."""

Event = Start | Stop | Received | TimerFired | PeerLost | PeerFound | Command
"""What a machine can be handed."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a peer. Delivery is not promised.

    A transport that finds that the peer cannot be reached sends it to ``otherwise`` instead, if that is
    somebody, and leaves it at that.
    """

    to: int
    message: Message
    otherwise: int = -1


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire a timer after this many microseconds of the node's own clock."""

    name: str
    after_us: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand an event to the application that subscribed to its topic."""

    topic: int
    event: int
    hops: int


@dataclass(frozen=True, slots=True)
class Observe:
    """Leave a trace record; whoever drives it adds the node and the time."""

    kind: TraceKind
    topic: int
    event: int
    peer: int = -1
    hops: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """Add to a named counter of this node."""

    name: str
    by: int = 1


@dataclass(frozen=True, slots=True)
class Blame:
    """A peer did what no honest node does."""

    peer: int
    reason: str


Effect = Send | SetTimer | Deliver | Observe | Count | Blame
"""What a machine can ask for."""
