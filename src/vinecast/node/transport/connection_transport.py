"""All of a transport but the way bytes travel: dialling, accepting, sending, and looking after
connections."""

import abc
import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Unpack

from vinecast.core.errors import Bug, RemoteError
from vinecast.node.transport.connection import Connection, State
from vinecast.node.transport.interface import (
    IDLE,
    LEAVING,
    LOST,
    ConnectionInfo,
    Handler,
    SessionDraws,
    TransportConfig,
)
from vinecast.node.transport.sessions import PeerSession, SessionOptions, Sessions
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity, NodeId
from vinecast.peer.wire.frames import HEAD_BYTES
from vinecast.peer.wire.handshake import MISBEHAVED, OWN_IDENTITY


class ConnectionTransport(Sessions):
    """A transport over byte streams. What kind of streams, subclasses say."""

    def __init__(
        self,
        identity: Identity,
        listen: Address,
        network: str,
        draws: SessionDraws,
        config: TransportConfig | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__(identity, listen, network, draws, config, **options)
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(self.config.dials_max)
        self._empty = asyncio.Event()
        self._ticked_at = 0.0
        self._ticker: asyncio.TimerHandle | None = None

    # What subclasses do.

    @abc.abstractmethod
    async def _listen(self, listen: Address) -> Address:
        """Begin to accept: call ``_accept`` for each stream, then connect the two."""

    @abc.abstractmethod
    async def _unlisten(self) -> None:
        """Accept no more."""

    @abc.abstractmethod
    async def _open(self, address: Address, connection: Connection) -> None:
        """Join the connection to a stream to that address, or raise RemoteError."""

    # What the node does.

    async def start(self, handler: Handler) -> Address:
        """Listen; return where."""
        if self._handler is not None:
            raise Bug("a transport starts once")
        self._handler = handler
        address = await self._listen(self._listen_at)
        self._listen_at = address
        self._ticked_at = asyncio.get_running_loop().time()
        self._schedule_tick()
        return address

    async def connect(self, address: Address, peer: NodeId | None = None) -> NodeId:
        """Make a connection to whoever answers there (or to that peer only). RemoteError when nobody does."""
        if self._closing or self._handler is None:
            raise RemoteError("the transport is closed")
        if sum(connection.dialled for connection in self._connections) >= self.config.dialled_max:
            raise RemoteError("too many connections")
        connection = Connection(self, self.config, self._handler.on_frame, address.host, True, peer)
        self._connections.add(connection)
        try:
            async with asyncio.timeout(self.config.dial_s):
                await self._open(address, connection)
                await connection.welcome
        except (RemoteError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            connection.drop(reason)
            raise RemoteError(reason) from None
        finally:
            if not connection.connected:
                connection.drop("could not connect")
                self.gone(connection)
        if connection.state is State.DOWN and not connection.was_up:
            raise RemoteError(connection.reason)
        return connection.peer

    def send(self, peer: NodeId, address: Address | None, frame: bytes) -> bool:
        """Queue a frame, dialling the peer if need be; False when it cannot be queued."""
        if len(frame) > self.config.frame_bytes_max:
            self.counters["dropped: frame too large"] += 1
            return False
        connection = self._up.get(peer)
        if connection is None:
            return self._send_later(peer, address, frame)
        if connection.send(frame):
            return True
        self.counters["dropped: queue full"] += 1
        return False

    def shun(self, peer: NodeId) -> None:
        """End the session with a peer that misbehaves, and begin no other for a while."""
        self._shunned.add(peer, asyncio.get_running_loop().time())
        entry = self._peers.get(peer)
        for connection in list(entry.connections) if entry is not None else ():
            connection.refuse(MISBEHAVED)

    def cut(self) -> int:
        """Break all connections, as a network does that fails; how many there were."""
        connections = list(self._up.values())
        for connection in connections:
            connection.drop(LOST)
        return len(connections)

    def pressure(self, peer: NodeId) -> float:
        """How full the peer's queue is, 0 … 1."""
        connection = self._up.get(peer)
        if connection is not None:
            return connection.pressure()
        entry = self._peers.get(peer)
        return entry.waiting_bytes / self.config.queue_bytes_max if entry is not None else 0.0

    def crowded(self, above: float) -> list[NodeId]:
        """The connected peers whose queues are fuller than that, 0 … 1."""
        bound = above * self.config.queue_bytes_max
        return [peer for peer, connection in self._up.items() if connection.queue.queued_bytes > bound]

    async def drain(self, timeout_s: float) -> bool:
        """Wait until the peers have everything that was queued so far; whether they do."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        dials = list(self._tasks)
        if dials:
            await asyncio.wait(dials, timeout=timeout_s)
        confirmed = [connection.confirmed() for connection in self._up.values()]
        if confirmed:
            await asyncio.wait(confirmed, timeout=max(0.0, until - loop.time()))
        return all(dial.done() for dial in dials) and all(x.done() and x.result() for x in confirmed)

    async def close(self) -> None:
        """Send what is queued, take leave of everybody, and stop."""
        if self._closing:
            return
        self._closing = True
        if self._ticker is not None:
            self._ticker.cancel()
        await self._unlisten()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        for connection in list(self._connections):
            if connection.state is not State.LEAVING:
                self._retire(connection, LEAVING)
        await self._until_empty(self.config.close_s + 0.5)
        for connection in list(self._connections):
            connection.drop(LEAVING)
        await self._until_empty(1.0)

    def is_connected(self, peer: NodeId) -> bool:
        """Whether the connection to a peer is up."""
        return peer in self._up

    def connections(self) -> dict[NodeId, ConnectionInfo]:
        """The connections that are up."""
        return {peer: connection.info() for peer, connection in self._up.items()}

    # Dialling.

    def _send_later(self, peer: NodeId, address: Address | None, frame: bytes) -> bool:
        """Keep a frame until a connection is up, and see to it that one will be."""
        entry = self._peers.get(peer)
        if entry is None or not (
            entry.dialling or any(x.state is State.HANDSHAKE for x in entry.connections)
        ):
            obstacle = self._obstacle(peer, address, entry)
            if obstacle or address is None:
                self.counters[f"dropped: {obstacle}"] += 1
                return False
            entry = self._peers[peer] = PeerSession(self._marks())
            entry.dialling = True
            self._spawn(self._dial(peer, address, entry))
        waiting = entry.waiting_bytes + len(frame) + HEAD_BYTES
        if waiting > self.config.queue_bytes_max:
            self.counters["dropped: queue full"] += 1
            return False
        entry.waiting.append(frame)
        entry.waiting_bytes = waiting
        return True

    def _obstacle(self, peer: NodeId, address: Address | None, entry: PeerSession | None) -> str:
        """Why a peer cannot be dialled now."""
        if self._closing or self._handler is None:
            return "closed"
        if entry is not None:
            return "connection is closing"
        if peer == self.identity.id:
            return OWN_IDENTITY
        if address is None:
            return "no address"
        now = asyncio.get_running_loop().time()
        if self._shunned.has(peer, now):
            return MISBEHAVED
        if self._redial.must_wait(peer, now):
            return "backing off"
        made = sum(connection.dialled and connection.welcome.done() for connection in self._connections)
        return "too many connections" if made + len(self._tasks) >= self.config.dialled_max else ""

    async def _dial(self, peer: NodeId, address: Address, entry: PeerSession) -> None:
        try:
            async with self._turns:
                await self.connect(address, peer)
        except RemoteError as error:
            entry.dialling = False
            if not entry.connections:  # else the peer reached us meanwhile
                self._unreachable(peer, entry, str(error))
        finally:
            entry.dialling = False
            if self._peers.get(peer) is entry and not entry.connections:
                self._finish(peer, entry, LEAVING)

    def _unreachable(self, peer: NodeId, entry: PeerSession, reason: str) -> None:
        self._redial.fail(peer, asyncio.get_running_loop().time())
        self.counters[f"unreachable: {reason}"] += 1
        self._finish(peer, entry, reason)
        self._tell("on_unreachable", peer)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Accepting.

    def _accept(self, host: str) -> Connection | None:
        """A connection for a stream from some host, or None when there is no room for it."""
        accepted = len(self._connections) - sum(connection.dialled for connection in self._connections)
        if self._closing or self._handler is None:
            return None
        obstacle = self._accept_limiter.obstacle(host, accepted)
        if obstacle:
            self.refused(obstacle)
            return None
        connection = Connection(self, self.config, self._handler.on_frame, host, False)
        self._connections.add(connection)
        self._accept_limiter.enter(host)
        return connection

    def gone(self, connection: Connection) -> None:
        """A connection takes no more room."""
        super().gone(connection)
        if not self._connections:
            self._empty.set()

    # Looking after connections.

    def _schedule_tick(self) -> None:
        config = self.config
        period = min(config.heartbeat_s, config.idle_s, config.stalled_s_max) / 2
        self._ticker = asyncio.get_running_loop().call_later(period, self._tick)

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        slept = now - self._ticked_at > self.config.silent_s_max / 2 + self.config.heartbeat_s / 2
        self._ticked_at = now
        for connection in list(self._connections):
            if slept:
                connection.forgive(now)
            elif connection.state is State.UP:
                reason = connection.look(now)
                if reason == IDLE:
                    self._retire(connection, IDLE)
                elif reason:
                    connection.drop(reason)
        self._schedule_tick()

    async def _until_empty(self, timeout_s: float) -> None:
        self._empty.clear()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), timeout_s)
