"""One connection: a byte stream to one peer, from the handshake to the goodbye.

    opening ──connected──▶ handshake ──HELLO──▶ up ──BYE sent──▶ leaving ──BYE received──▶ down

Any state goes down when the stream breaks, the peer breaks the protocol (it is told why, with a REFUSED
frame) or time runs out. A BYE is the last frame of its side; whoever gets one sends what is queued, answers
with its own and closes. So a connection that is closed in good order has lost nothing in either direction.
"""

import asyncio
import enum
import struct
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from vinecast.core.errors import RemoteError
from vinecast.node.transport.interface import (
    IDLE,
    LEAVING,
    LOST,
    LOST_INSIDE,
    SILENT,
    ConnectionInfo,
    TransportConfig,
)
from vinecast.node.transport.send_queue import SendQueue
from vinecast.peer.address import Address
from vinecast.peer.identity import NodeId
from vinecast.peer.wire.frames import FrameKind, Splitter, control
from vinecast.peer.wire.handshake import Handshake, read_handshake, read_reason

DUPLICATE = "duplicate"
"""Why a connection is closed when there is another one to the same peer."""

TURN_FRAMES, TURN_BYTES = 64, 32 * 1024
"""How much of a connection is handled in one turn of the loop (ours): so many frames, or frames of so many
bytes, which is some milliseconds of work."""

_number = struct.Struct(">Q")
_GOODBYES = {reason.encode(): reason for reason in (IDLE, LEAVING, DUPLICATE)}


class State(enum.Enum):
    """Where a connection is in its life."""

    OPENING = "opening"
    HANDSHAKE = "handshake"
    UP = "up"
    LEAVING = "leaving"
    DOWN = "down"


class ConnectionOwner(Protocol):
    """Who owns a connection: the table of connections."""

    def introduce(self, connection: "Connection", stream: asyncio.Transport, /) -> Handshake:
        """Find out who is at the other end, set ``connection.peer``; the handshake for it, or RemoteError."""

    def agree(self, connection: "Connection", theirs: Handshake, /) -> None:
        """The peer's handshake came: take it, or raise RemoteError."""

    def came_up(self, connection: "Connection", /) -> None:
        """Both sides have done the handshake."""

    def ended(self, connection: "Connection", /) -> None:
        """The connection is down; ``connection.reason`` says why."""

    def gone(self, connection: "Connection", /) -> None:
        """The connection's stream is closed and takes no more room."""

    def failed(self, connection: "Connection", /) -> None:
        """The handler raised."""


class Connection(asyncio.Protocol):
    """A connection to a peer. See the module's text for its states."""

    def __init__(
        self,
        owner: ConnectionOwner,
        config: TransportConfig,
        on_frame: Callable[[NodeId, bytes], None],
        host: str,
        dialled: bool,
        expected: NodeId | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._config = config
        self._on_frame = on_frame
        self.host = host
        """The host at the other end, as the socket sees it."""
        self.dialled = dialled
        self.expected = expected
        """Who must be at the other end, if that is known."""
        self.state = State.OPENING
        self.reason = ""
        """Why it ended, or is about to."""
        self.peer: NodeId = b""
        self.public = b""
        self.handshake: Handshake | None = None
        self.protocol = 0
        self.address = Address("", 0)
        self.connected = False
        """Whether there ever was a stream: then ``gone`` will be told."""
        self.proved = False
        """Whether it stopped counting as a connection of somebody unknown."""
        self.was_up = False
        self.at_fault = False
        """Whether the peer broke the protocol."""
        self.farewelled = False
        """Whether the peer's BYE came: nothing of what it sent is lost."""
        self.welcome: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is up or never will be."""
        self.queue = SendQueue(config.queue_bytes_max)
        self.send = self.queue.send
        self._stream: asyncio.Transport | None = None
        self._splitter = Splitter(config.frame_bytes_max)
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._working = False
        self._pings = 0
        self._pinged_at: float | None = None
        self._owed = b""
        self._waiters: list[tuple[int, asyncio.Future[bool]]] = []
        self._frames_seen = self._frames_in = self._bytes_in = 0
        self._up_at = self._heard_at = self._used_at = self._loop.time()
        self._round_trip_s: float | None = None
        limit = config.dial_s if dialled else config.unauthenticated_s
        self._deadline = self._loop.call_later(limit, self.drop, "no handshake in time")

    # What the owner does.

    def pressure(self) -> float:
        """How full the queue is, 0 … 1."""
        return min(1.0, self.queue.queued_bytes / self.queue.bytes_max)

    def retire(self, reason: str) -> None:
        """Send what is queued and take leave; the connection goes down when the peer has answered."""
        if self.state is not State.UP:
            self.drop(reason)
            return
        self.state = State.LEAVING
        self.reason = reason
        self.queue.close(control(FrameKind.BYE, reason.encode()))
        # A duplicate has all the time that a living peer may take: the session goes on beside it.
        limit = self._config.silent_s_max if reason == DUPLICATE else self._config.close_s
        self._deadline = self._loop.call_later(limit, self.drop, reason)

    def confirmed(self) -> "asyncio.Future[bool]":
        """Done when the peer has all that was queued until now: True, or False if the connection goes
        down."""
        future: asyncio.Future[bool] = self._loop.create_future()
        if self.state is State.UP:
            self._ping()
            self._waiters.append((self._pings, future))
        else:
            future.set_result(False)
        return future

    def look(self, now: float) -> str:
        """Look after a connection that is up, now and then; why it should end, if it should."""
        frames = self._frames_in + self.queue.frames_out
        if frames != self._frames_seen:
            self._frames_seen = frames
            self._used_at = now
        if now - self._heard_at > self._config.silent_s_max:
            return SILENT
        stalled_at = self.queue.stalled_at
        if stalled_at is not None and now - stalled_at > self._config.stalled_s_max:
            return "stopped reading"
        if now - self._used_at > self._config.idle_s:
            return IDLE
        if now - self._heard_at >= self._config.heartbeat_s and self._pinged_at is None:
            self._ping()
        return ""

    def forgive(self, now: float) -> None:
        """This process slept: the peer's silence says nothing."""
        self._heard_at = now
        if self.queue.stalled_at is not None:
            self.queue.stalled_at = now

    def drop(self, reason: str) -> None:
        """Cut the connection at once."""
        stream = self._stream
        self._end(reason)
        if stream is not None:
            stream.abort()

    def refuse(self, reason: str) -> None:
        """Tell the peer what it did wrong, and close."""
        if self.state is State.DOWN:
            return
        stream = self._stream
        self.at_fault = True
        self._end(reason)
        if stream is not None and not stream.is_closing():
            stream.write(control(FrameKind.REFUSED, reason.encode()))
            stream.close()

    def info(self) -> ConnectionInfo:
        """What there is to know about the connection."""
        return ConnectionInfo(
            peer=self.peer,
            address=self.address,
            dialled=self.dialled,
            up_s=self._loop.time() - self._up_at,
            frames_in=self._frames_in,
            frames_out=self.queue.frames_out,
            bytes_in=self._bytes_in,
            bytes_out=self.queue.bytes_out,
            queued_bytes=self.queue.queued_bytes,
            dropped=self.queue.dropped,
            round_trip_s=self._round_trip_s,
        )

    def _end(self, reason: str) -> None:
        if self.state is State.DOWN:
            return
        self.was_up = self.state in (State.UP, State.LEAVING)
        self.state = State.DOWN
        self.reason = self.reason or reason
        self._deadline.cancel()
        self.queue.close()
        if not self.welcome.done():
            self.welcome.set_result(None)
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(False)
        self._waiters.clear()
        self._owner.ended(self)

    # What the stream tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is open and, where there is TLS, the peer's key is proved."""
        stream = cast(asyncio.Transport, transport)
        self._stream = stream
        self.connected = True
        if self.state is State.DOWN:
            stream.abort()
            return
        self.state = State.HANDSHAKE
        try:
            handshake = self._owner.introduce(self, stream)
        except RemoteError as error:
            self.refuse(str(error))
            return
        stream.write(handshake.frame())
        self.queue.open(stream)

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream is closed, by whomever. What came before that counts."""
        while self._inbox:
            self._take()
        self._end(LOST_INSIDE if self._splitter.unfinished else LOST)
        self._stream = None
        self._owner.gone(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came, cut anyhow."""
        if self.state is State.DOWN:
            return
        self._heard_at = self._loop.time()
        self._bytes_in += len(data)
        self._inbox.extend(self._splitter.feed(data))
        if not self._working:
            self._work()

    def _work(self) -> None:
        """Handle some of the frames that came. The others wait for the next turn of the loop, and the stream
        with them: a peer that sends without a pause must not keep this node from everything else."""
        self._take()
        stream = self._stream
        self._working = bool(self._inbox)
        if self._working:
            self._loop.call_soon(self._work)
            if stream is not None and stream.is_reading():
                stream.pause_reading()
        elif self._splitter.fault:
            self.refuse(self._splitter.fault)
        elif stream is not None and not stream.is_closing() and not stream.is_reading():
            stream.resume_reading()

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write."""
        self.queue.pause()

    def resume_writing(self) -> None:
        """There is room again."""
        if self._owed:
            self.queue.put(self._owed)
            self._owed = b""
        self.queue.resume()

    # Frames.

    def _take(self) -> None:
        """Handle the frames of a turn."""
        on_frame, peer, inbox = self._on_frame, self.peer, self._inbox
        frames, size = TURN_FRAMES, TURN_BYTES
        while inbox and frames and size > 0:
            if self.state is State.DOWN:
                inbox.clear()
                return
            kind, body = inbox.popleft()
            frames -= 1
            size -= len(body)
            if kind:
                self._control(kind, body)
                continue
            self._frames_in += 1
            try:
                on_frame(peer, body)
            except Exception:
                self._owner.failed(self)
                return

    def _control(self, kind: int, body: bytes) -> None:
        match kind:
            case FrameKind.HELLO:
                self._shaken_hands(body)
            case FrameKind.PING if len(body) == _number.size:
                self._pong(body)
            case FrameKind.PONG if len(body) == _number.size:
                self._ponged(_number.unpack(body)[0])
            case FrameKind.BYE:
                self._bye(_GOODBYES.get(body, LEAVING))
            case FrameKind.REFUSED:
                self.drop(f"refused by the peer: {read_reason(body)}")
            case _:
                self.refuse("bad heartbeat")

    def _shaken_hands(self, body: bytes) -> None:
        try:
            if self.state is not State.HANDSHAKE:
                raise RemoteError("second HELLO")
            self.handshake = read_handshake(body)
            self._owner.agree(self, self.handshake)
        except RemoteError as error:
            self.refuse(str(error))
            return
        self.state = State.UP
        self._deadline.cancel()
        self._up_at = self._used_at = self._loop.time()
        self._owner.came_up(self)
        if not self.welcome.done():
            self.welcome.set_result(None)

    def _ping(self) -> None:
        self._pings += 1
        self._pinged_at = self._loop.time()
        self.queue.put(control(FrameKind.PING, _number.pack(self._pings)))

    def _pong(self, body: bytes) -> None:
        answer = control(FrameKind.PONG, body)
        if self.queue.paused:  # a peer that asks and does not read is owed one answer, not thousands
            self._owed = answer
        elif self.state is State.UP:
            self.queue.put(answer)

    def _ponged(self, number: int) -> None:
        if self._pinged_at is not None and number == self._pings:
            self._round_trip_s = self._heard_at - self._pinged_at
            self._pinged_at = None
        while self._waiters and self._waiters[0][0] <= number:
            _, waiter = self._waiters.pop(0)
            if not waiter.done():
                waiter.set_result(True)

    def _bye(self, reason: str) -> None:
        self.farewelled = True
        if self.state is State.UP:
            self.reason = reason
            self.queue.close(control(FrameKind.BYE, reason.encode()))
        stream = self._stream
        self._end(reason)
        if stream is not None:
            stream.close()
