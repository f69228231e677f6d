"""Conversations: what two nodes have with each other, over however many links.

A conversation with a peer usually has one link. Two nodes that dial each other at once get two; then the node
with the smaller id takes leave of the one that came second in its eyes, and the other follows. A greeting
carries the conversation's mark: a new mark says that the peer lost its side (it restarted, or its end of a
link broke and ours did not notice), and then ours ends, too.
"""

import abc
import asyncio
import logging
import random
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Any

from vinecast.core.errors import Bug, RemoteError
from vinecast.core.version import VERSION
from vinecast.node.transport.accept_limiter import AcceptLimiter, Redial, Shunned
from vinecast.node.transport.connection import DUPLICATE, Connection, State
from vinecast.node.transport.interface import PROTOCOL_VERSIONS, Handler, PeerFacts, TransportConfig
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

LINKS_MAX = 4
"""Links with one peer at the same time; more than two are mischief. Ours."""


class PeerSession:
    """What there is with one peer; exists while there is a link or a dial."""

    __slots__ = ("announced", "dialling", "link", "links", "mark", "their_mark", "waiting", "waiting_bytes")

    def __init__(self) -> None:
        self.mark = secrets.token_bytes(8)
        self.their_mark = b""
        self.announced = False
        """Whether the handler was told that it is up."""
        self.link: Connection | None = None
        """The link that frames go to."""
        self.links: list[Connection] = []
        self.dialling = False
        self.waiting: list[bytes] = []
        self.waiting_bytes = 0


class Sessions(abc.ABC):
    """The conversations of one node and their links: what happens when links come, speak and go."""

    def __init__(
        self,
        identity: Identity,
        listen: Address,
        network: str,
        config: TransportConfig | None = None,
        *,
        advertise: Address | None = None,
        system: str = DEFAULT_SYSTEM,
        versions: tuple[int, int] = PROTOCOL_VERSIONS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """``advertise``: where others reach this node, if not where it listens; ``system``: what carries its
        events; ``jitter``: 0 … 1."""
        check_network(network)
        self.identity = identity
        self.config = config or TransportConfig()
        self.counters: Counter[str] = Counter()
        self._listen_at = listen
        self._network, self._system = network, system
        self._advertise = advertise
        self._versions = versions
        self._handler: Handler | None = None
        self._peers: dict[NodeId, PeerSession] = {}
        self._up: dict[NodeId, Connection] = {}
        self._links: set[Connection] = set()
        self._accept_limiter = AcceptLimiter(self.config)
        self._redial = Redial(self.config, jitter)
        self._shunned = Shunned()
        self._closing = False

    @abc.abstractmethod
    def _public_key(self, stream: asyncio.Transport) -> bytes:
        """The proved public key at the other end of a stream, or RemoteError."""

    # What links tell.

    def introduce(self, link: Connection, stream: asyncio.Transport) -> Handshake:
        """Find out who is at the other end; what to greet it with, or RemoteError."""
        link.public = self._public_key(stream)
        peer = node_id_of(link.public)
        if peer == self.identity.id:
            raise RemoteError(OWN_IDENTITY)
        if link.expected is not None and peer != link.expected:
            raise RemoteError(OTHER_IDENTITY)
        if self._shunned.has(peer, asyncio.get_running_loop().time()):
            raise RemoteError(MISBEHAVED)
        entry = self._peers.setdefault(peer, PeerSession())
        if len(entry.links) >= LINKS_MAX:
            raise RemoteError("too many links")
        link.peer = peer
        entry.links.append(link)
        return self._handshake(entry.mark)

    def _handshake(self, mark: bytes) -> Handshake:
        address = self._advertise or self._listen_at
        oldest, newest = self._versions
        where = address.host, address.port
        return Handshake(oldest, newest, self._network, VERSION, *where, mark, self._system)

    def agree(self, link: Connection, theirs: Handshake) -> None:
        """Take the peer's greeting, or raise RemoteError with the reason to refuse it."""
        link.protocol = agree(self._handshake(b""), theirs)
        link.address = reachable(theirs.address, link.host)

    def came_up(self, link: Connection) -> None:
        """Both sides have greeted each other."""
        peer, handshake = link.peer, link.handshake
        self._leave_door(link)
        self._redial.reach(peer)
        entry = self._peers[peer]
        if handshake is None:
            raise Bug("a link came up without a greeting")
        if entry.their_mark not in (b"", handshake.session):  # the peer has lost its side
            self._finish(peer, entry, "began anew", keep=link)
        entry.their_mark = handshake.session
        if entry.link is None:
            self._use(peer, entry, link)
        elif self.identity.id < peer:
            self._retire(link, DUPLICATE)

    def _use(self, peer: NodeId, entry: PeerSession, link: Connection) -> None:
        """Send by this link from now on: first what the handler has to say, then what waits."""
        entry.link = self._up[peer] = link
        if not entry.announced:
            entry.announced = True
            facts = PeerFacts(
                link.public, link.handshake.software if link.handshake else "", link.protocol, link.dialled
            )
            if not self._tell("on_up", peer, link.address, facts):
                link.drop("handler failed")
        waiting, entry.waiting, entry.waiting_bytes = entry.waiting, [], 0
        for frame in waiting:
            if not link.send(frame):
                self.counters["dropped: queue full"] += 1

    def ended(self, link: Connection) -> None:
        """A link is down."""
        if link.at_fault or not (link.was_up or link.dialled or self._closing):
            self.refused(link.reason)
        peer = link.peer
        entry = self._peers.get(peer)
        if entry is None or link not in entry.links:
            return
        entry.links.remove(link)
        if entry.link is link:
            entry.link = None
            self._up.pop(peer, None)
        if link.was_up and not link.farewelled:  # frames may be lost: the conversation cannot go on
            self._finish(peer, entry, link.reason)
        elif entry.link is None:
            other = next((x for x in entry.links if x.state is State.UP), None)
            if other is not None:
                self._use(peer, entry, other)
            elif not entry.links and not (entry.dialling and not entry.announced):
                self._finish(peer, entry, link.reason)

    def _finish(self, peer: NodeId, entry: PeerSession, reason: str, keep: Connection | None = None) -> None:
        """End a conversation with all its links, but for one that begins the next."""
        self._up.pop(peer, None)
        links = [link for link in entry.links if link is not keep]
        entry.links = [] if keep is None else [keep]
        entry.link = None
        begun, entry.announced = entry.announced or bool(entry.waiting), False
        if entry.waiting:
            self.counters["dropped: no link"] += len(entry.waiting)
            entry.waiting, entry.waiting_bytes = [], 0
        entry.their_mark = b""
        if keep is None:
            entry.mark = secrets.token_bytes(8)
            if not entry.dialling:
                del self._peers[peer]
        for link in links:
            link.drop(reason)
        if begun:
            self.counters[f"down: {reason}"] += 1
            self._tell("on_down", peer, reason)

    def gone(self, link: Connection) -> None:
        """A link takes no more room."""
        self._leave_door(link)
        self._links.discard(link)

    def failed(self, link: Connection) -> None:
        """The handler raised while it was handed a frame."""
        _log.exception("the handler failed on a frame")
        link.drop("handler failed")

    def _leave_door(self, link: Connection) -> None:
        if not link.dialled and not link.proved:
            link.proved = True
            self._accept_limiter.leave(link.host)

    def _retire(self, link: Connection, reason: str) -> None:
        entry = self._peers.get(link.peer)
        if entry is not None and entry.link is link:
            entry.link = None
            del self._up[link.peer]
        link.retire(reason)

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
