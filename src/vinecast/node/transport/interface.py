"""What a node asks of a transport, and what a transport tells a node.

A transport carries frames between nodes that have proved who they are. A *session* with a peer begins
with ``on_up`` and ends with ``on_down``. In between every frame arrives whole and once, whichever connections
carry it; when that cannot be kept the session ends, on both sides. Connections are made when there is
something to send, and made again after an ever longer, jittered wait when a peer cannot be reached.

Nothing here waits for a peer: ``send`` puts a frame into a bounded queue or says that it cannot. What is
turned away is counted with its reason.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.peer.address import Address
from vinecast.peer.identity import NodeId
from vinecast.peer.wire.frames import FRAME_BYTES_MAX, HEAD_BYTES

PROTOCOL_VERSIONS = (1, 1)
"""The oldest and the newest protocol version that this program speaks."""

IDLE = "idle"
"""Why a session ended when nobody had anything to say: the peer is well."""

LEAVING = "leaving"
"""Why it ended when a side shut down in good order."""

LOST, LOST_INSIDE, SILENT = "connection lost", "connection lost in the middle of a frame", "no heartbeat"
BROKEN = frozenset((LOST, LOST_INSIDE, SILENT))
"""Why it ended when the peer may be gone."""


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """The limits of a transport. All defaults are ours."""

    frame_bytes_max: int = limited(1024 * 1024, at_least=1024, at_most=FRAME_BYTES_MAX)
    """The largest frame that is sent or accepted, in bytes."""
    queue_bytes_max: int = limited(4 * 1024 * 1024, at_least=2048)
    """How much may wait to be sent to one peer, in bytes."""
    accepted_max: int = limited(512, at_least=1)
    """Connections that others made to this node."""
    dialled_max: int = limited(512, at_least=1)
    """Connections that this node made or is making."""
    dials_max: int = limited(16, at_least=1)
    """Connections that it makes at the same time; further ones wait for their turn."""
    handshakes_max: int = limited(256, at_least=1)
    """Accepted connections that have not said who they are."""
    handshakes_per_host_max: int = limited(64, at_least=1)
    """The same, from one remote host."""
    unauthenticated_s: float = limited(10.0, above=0)
    """How long an accepted connection may take until its HELLO, in seconds."""
    dial_s: float = limited(10.0, above=0)
    """How long it may take to make a connection, up to the peer's HELLO, in seconds."""
    redial_s_min: float = limited(0.5, above=0)
    """The wait after a first failure to reach a peer, in seconds; it doubles with every further one."""
    redial_s_max: float = limited(60.0, above=0)
    """The longest such wait, in seconds."""
    heartbeat_s: float = limited(5.0, above=0)
    """After so much silence of a peer it is asked for a sign of life, in seconds."""
    silent_s_max: float = limited(20.0, above=0)
    """After so much silence it is given up, in seconds."""
    stalled_s_max: float = limited(30.0, above=0)
    """How long a peer may take nothing of what waits for it, in seconds."""
    idle_s: float = limited(10.0, above=0)
    """A connection that carried no data for so long is closed, in seconds."""
    close_s: float = limited(5.0, above=0)
    """How long a connection may take to close in good order, in seconds."""

    def __post_init__(self) -> None:
        check(self)
        if self.queue_bytes_max < self.frame_bytes_max + HEAD_BYTES:
            raise InputError("queue_bytes_max must have room for a frame of frame_bytes_max and its head")
        if self.silent_s_max < 2 * self.heartbeat_s:
            raise InputError("silent_s_max must be at least twice heartbeat_s")
        if self.redial_s_max < self.redial_s_min:
            raise InputError("redial_s_max must be at least redial_s_min")


class SessionDraws(NamedTuple):
    """What a transport draws: it reads no entropy of its own."""

    jitter: Callable[[], float]
    """0 … 1, anew with every call."""
    marks: Callable[[], bytes]
    """8 bytes that no session had before, in this process or an earlier one."""


@dataclass(frozen=True, slots=True)
class PeerFacts:
    """What is known of a peer when its connection comes up. Only the public key is proved."""

    public: bytes
    """Its public key."""
    software: str
    """The version of the program it says it runs."""
    protocol: int
    """The protocol version that both sides speak."""
    dialled: bool
    """Whether this node made the connection."""


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """One connection that is up, and what it carried."""

    peer: NodeId
    address: Address
    """Where the peer listens."""
    dialled: bool
    """Whether this node made the connection."""
    up_s: float
    """How long it has been up, in seconds."""
    frames_in: int
    frames_out: int
    bytes_in: int
    bytes_out: int
    queued_bytes: int
    """What waits to be sent."""
    dropped: int
    """Frames that found the queue full."""
    round_trip_s: float | None
    """The time of the last heartbeat there and back, in seconds."""


class Handler(Protocol):
    """Who is told. All calls come from the event loop, return at once and must not raise."""

    def on_up(self, peer: NodeId, address: Address, facts: PeerFacts, /) -> None:
        """A session begins."""

    def on_frame(self, peer: NodeId, frame: bytes, /) -> None:
        """The peer sent a frame."""

    def on_down(self, peer: NodeId, reason: str, /) -> None:
        """The session ended, or never began: what was queued for it is lost."""

    def on_unreachable(self, peer: NodeId, /) -> None:
        """No connection to the peer could be made. Comes after ``on_down``."""

    def on_refused(self, reason: str, /) -> None:
        """Something from outside was turned away."""


class Transport(Protocol):
    """Who carries frames."""

    counters: Counter[str]
    """What was refused or dropped, by reason."""

    async def start(self, handler: Handler, /) -> Address:
        """Listen; return where."""

    async def connect(self, address: Address, peer: NodeId | None = None, /) -> NodeId:
        """Make a connection to whoever answers there (or to that peer only). RemoteError when nobody does."""

    def send(self, peer: NodeId, address: Address | None, frame: bytes, /) -> bool:
        """Queue a frame, dialling the peer if need be; False when it cannot be queued, or is larger than
        frames may be."""

    def shun(self, peer: NodeId, /) -> None:
        """End the session with a peer that misbehaves, and begin no other for a while."""

    def pressure(self, peer: NodeId, /) -> float:
        """How full the peer's queue is, 0 … 1."""

    def crowded(self, above: float, /) -> list[NodeId]:
        """The connected peers whose queues are fuller than that, 0 … 1."""

    async def drain(self, timeout_s: float, /) -> bool:
        """Wait until the peers have everything that was queued so far; whether they do."""

    async def close(self) -> None:
        """Send what is queued, take leave of everybody, and stop."""

    def is_connected(self, peer: NodeId, /) -> bool:
        """Whether the connection to a peer is up."""

    def connections(self) -> Mapping[NodeId, ConnectionInfo]:
        """The connections that are up."""
