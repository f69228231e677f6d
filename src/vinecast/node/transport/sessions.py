"""Sessions: what two nodes have with each other, over however many connections.

A session with a peer usually has one connection. Two nodes that dial each other at once get two; then the
node with the smaller id takes leave of the one that came second in its eyes, and the other follows. A
handshake carries the session's mark: a new mark says that the peer lost its side (it restarted, or its end of
a connection broke and ours did not notice), and then ours ends, too.
"""

import abc
import asyncio
import logging
from collections import Counter
from typing import Any, TypedDict

from vinecast.core.errors import Bug, RemoteError
from vinecast.core.version import VERSION
from vinecast.node.transport.accept_limiter import AcceptLimiter, Redial, Shunned
from vinecast.node.transport.connection import DUPLICATE, Connection, State
from vinecast.node.transport.interface import (
    PROTOCOL_VERSIONS,
    Handler,
    PeerFacts,
    SessionDraws,
    TransportConfig,
)
from vinecast.peer.address import Address, reachable
from vinecast.peer.identity import Identity, NodeId, node_id_of
from vinecast.peer.wire.handshake import (
    DEFAULT_SYSTEM,
    MISBEHAVED,
    OTHER_IDENTITY,
    OWN_IDENTITY,
    Handshake,
    agree,
    check_network,
)

_log = logging.getLogger(__name__)

CONNECTIONS_MAX = 4
"""Connections with one peer at the same time; more than two are mischief. Ours."""


class PeerSession:
    """What there is with one peer; exists while there is a connection or a dial."""

    __slots__ = (
        "announced",
        "connection",
        "connections",
        "dialling",
        "mark",
        "their_mark",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.their_mark = b""
        self.announced = False
        """Whether the handler was told that it is up."""
        self.connection: Connection | None = None
        """The connection that frames go to."""
        self.connections: list[Connection] = []
        self.dialling = False
        self.waiting: list[bytes] = []
        self.waiting_bytes = 0


class SessionOptions(TypedDict, total=False):
    """What a transport may be given besides; see ``Sessions``."""

    advertise: Address | None
    system: str
    versions: tuple[int, int]


class Sessions(abc.ABC):
    """The sessions of one node and their connections: what happens when connections come, speak and go."""

    def __init__(
        self,
        identity: Identity,
        listen: Address,
        network: str,
        draws: SessionDraws,
        config: TransportConfig | None = None,
        *,
        advertise: Address | None = None,
        system: str = DEFAULT_SYSTEM,
        versions: tuple[int, int] = PROTOCOL_VERSIONS,
    ) -> None:
        """``advertise``: where others reach this node, if not where it listens; ``system``: what carries its
        events."""
        check_network(network)
        self.identity = identity
        self.config = config or TransportConfig()
        self.counters: Counter[str] = Counter()
        self._listen_at = listen
        self._network, self._system = network, system
        self._advertise = advertise
        self._versions, self._marks = versions, draws.marks
        self._handler: Handler | None = None
        self._peers: dict[NodeId, PeerSession] = {}
        self._up: dict[NodeId, Connection] = {}
        self._connections: set[Connection] = set()
        self._accept_limiter = AcceptLimiter(self.config)
        self._redial = Redial(self.config, draws.jitter)
        self._shunned = Shunned()
        self._closing = False

    @abc.abstractmethod
    def _public_key(self, stream: asyncio.Transport) -> bytes:
        """The proved public key at the other end of a stream, or RemoteError."""

    # What connections tell.

    def introduce(self, connection: Connection, stream: asyncio.Transport) -> Handshake:
        """Find out who is at the other end; the handshake for it, or RemoteError."""
        connection.public = self._public_key(stream)
        peer = node_id_of(connection.public)
        if peer == self.identity.id:
            raise RemoteError(OWN_IDENTITY)
        if connection.expected is not None and peer != connection.expected:
            raise RemoteError(OTHER_IDENTITY)
        if self._shunned.has(peer, asyncio.get_running_loop().time()):
            raise RemoteError(MISBEHAVED)
        entry = self._peers.setdefault(peer, PeerSession(self._marks()))
        if len(entry.connections) >= CONNECTIONS_MAX:
            raise RemoteError("too many links")
        connection.peer = peer
        entry.connections.append(connection)
        return self._handshake(entry.mark)

    def _handshake(self, mark: bytes) -> Handshake:
        address = self._advertise or self._listen_at
        oldest, newest = self._versions
        where = address.host, address.port
        return Handshake(oldest, newest, self._network, VERSION, *where, mark, self._system)

    def agree(self, connection: Connection, theirs: Handshake) -> None:
        """Take the peer's handshake, or raise RemoteError with the reason to refuse it."""
        connection.protocol = agree(self._handshake(b""), theirs)
        connection.address = reachable(theirs.address, connection.host)

    def came_up(self, connection: Connection) -> None:
        """Both sides have done the handshake."""
        peer, handshake = connection.peer, connection.handshake
        self._leave_limiter(connection)
        self._redial.reach(peer)
        entry = self._peers[peer]
        if handshake is None:
            raise Bug("a connection came up without a handshake")
        if entry.their_mark not in (b"", handshake.session):  # the peer has lost its side
            self._finish(peer, entry, "began anew", keep=connection)
        entry.their_mark = handshake.session
        if entry.connection is None:
            self._use(peer, entry, connection)
        elif self.identity.id < peer:
            self._retire(connection, DUPLICATE)

    def _use(self, peer: NodeId, entry: PeerSession, connection: Connection) -> None:
        """Send by this connection from now on: first what the handler has to say, then what waits."""
        entry.connection = self._up[peer] = connection
        if not entry.announced:
            entry.announced = True
            facts = PeerFacts(
                connection.public,
                connection.handshake.software if connection.handshake else "",
                connection.protocol,
                connection.dialled,
            )
            if not self._tell("on_up", peer, connection.address, facts):
                connection.drop("handler failed")
        waiting, entry.waiting, entry.waiting_bytes = entry.waiting, [], 0
        for frame in waiting:
            if not connection.send(frame):
                self.counters["dropped: queue full"] += 1

    def ended(self, connection: Connection) -> None:
        """A connection is down."""
        if connection.at_fault or not (connection.was_up or connection.dialled or self._closing):
            self.refused(connection.reason)
        peer = connection.peer
        entry = self._peers.get(peer)
        if entry is None or connection not in entry.connections:
            return
        entry.connections.remove(connection)
        if entry.connection is connection:
            entry.connection = None
            self._up.pop(peer, None)
        if connection.was_up and not connection.farewelled:  # frames may be lost: the session cannot go on
            self._finish(peer, entry, connection.reason)
        elif entry.connection is None:
            other = next((x for x in entry.connections if x.state is State.UP), None)
            if other is not None:
                self._use(peer, entry, other)
            elif not entry.connections and not (entry.dialling and not entry.announced):
                self._finish(peer, entry, connection.reason)

    def _finish(self, peer: NodeId, entry: PeerSession, reason: str, keep: Connection | None = None) -> None:
        """End a session with all its connections, but for one that begins the next."""
        self._up.pop(peer, None)
        connections = [connection for connection in entry.connections if connection is not keep]
        entry.connections = [] if keep is None else [keep]
        entry.connection = None
        begun, entry.announced = entry.announced or bool(entry.waiting), False
        if entry.waiting:
            self.counters["dropped: no connection"] += len(entry.waiting)
            entry.waiting, entry.waiting_bytes = [], 0
        entry.their_mark = b""
        if keep is None:
            entry.mark = self._marks()
            if not entry.dialling:
                del self._peers[peer]
        for connection in connections:
            connection.drop(reason)
        if begun:
            self.counters[f"down: {reason}"] += 1
            self._tell("on_down", peer, reason)

    def gone(self, connection: Connection) -> None:
        """A connection takes no more room."""
        self._leave_limiter(connection)
        self._connections.discard(connection)

    def failed(self, connection: Connection) -> None:
        """The handler raised while it was handed a frame."""
        _log.exception("the handler failed on a frame")
        connection.drop("handler failed")

    def _leave_limiter(self, connection: Connection) -> None:
        if not connection.dialled and not connection.proved:
            connection.proved = True
            self._accept_limiter.leave(connection.host)

    def _retire(self, connection: Connection, reason: str) -> None:
        entry = self._peers.get(connection.peer)
        if entry is not None and entry.connection is connection:
            entry.connection = None
            del self._up[connection.peer]
        connection.retire(reason)

    def refused(self, reason: str) -> None:
        """Count what was turned away, and tell."""
        self.counters[f"refused: {reason}"] += 1
        self._tell("on_refused", reason)

    def _tell(self, what: str, *arguments: Any) -> bool:
        """Tell the handler; its failure is logged and nobody else's."""
        try:
            getattr(self._handler, what)(*arguments)
        except Exception:
            _log.exception("the handler failed in %s", what)
            return False
        return True
