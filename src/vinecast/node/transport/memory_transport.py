"""A transport inside one process, for tests: the same connections, handshakes, bounds and refusals, over
memory.

Streams deliver in order, after a delay that the test chooses, and hold a bounded amount before the writer is
paused, like sockets do. On request the network cuts connections, makes nodes unreachable, or freezes a node,
which then neither reads nor writes and never closes anything, like a stopped process. Nothing here draws or
reads a clock of its own.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Unpack

from vinecast.core.errors import InputError, RemoteError
from vinecast.node.transport.connection import Connection
from vinecast.node.transport.connection_transport import ConnectionTransport
from vinecast.node.transport.interface import SessionDraws, TransportConfig
from vinecast.node.transport.sessions import SessionOptions
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity, NodeId


class MemoryNetwork:
    """What lies between the transports of a test."""

    def __init__(self, delay_s: Callable[[NodeId, NodeId], float] = lambda sender, receiver: 0.0) -> None:
        self.delay_s = delay_s
        """How long bytes travel from one node to another, in seconds; may be changed at any time."""
        self.unreachable: set[NodeId] = set()
        """Nodes that cannot dial or be dialled; their connections live on."""
        self._frozen: set[NodeId] = set()
        self._listening: dict[Address, MemoryTransport] = {}
        self._streams: dict[MemoryStream, None] = {}
        self._ports, self._marks = itertools.count(1), itertools.count(1)

    def next_mark(self) -> bytes:
        """A session's mark that none had before."""
        return next(self._marks).to_bytes(8, "big")

    def cut(self, one: NodeId, other: NodeId | None = None) -> int:
        """Break the connections of a node (with one other); how many there were."""
        ends = [s for s in self._streams if s.owner == one and other in (None, s.other.owner)]
        for stream in ends:
            stream.abort()
        return len(ends)

    def freeze(self, node: NodeId) -> None:
        """From now on nothing reaches the node, and nothing comes from it."""
        self._frozen.add(node)

    def thaw(self, node: NodeId) -> None:
        """Let it go on; what was held is delivered."""
        self._frozen.discard(node)
        for stream in list(self._streams):
            stream.deliver()

    def holds(self, one: NodeId, other: NodeId) -> bool:
        """Whether nothing travels between two nodes."""
        return one in self._frozen or other in self._frozen

    def listen(self, transport: "MemoryTransport", address: Address) -> Address:
        """Give the transport an address."""
        if address.port == 0:
            address = Address(address.host, next(self._ports))
        if address in self._listening:
            raise InputError(f"cannot listen on {address}: address already in use")
        self._listening[address] = transport
        return address

    def unlisten(self, transport: "MemoryTransport") -> None:
        """Take it back."""
        self._listening = {a: t for a, t in self._listening.items() if t is not transport}

    def find(self, address: Address) -> "MemoryTransport":
        """Who listens there, or RemoteError."""
        found = self._listening.get(address)
        if found is None:
            raise RemoteError("nobody listens there")
        return found

    def connect(
        self, dialler: Identity, protocol: asyncio.Protocol, answerer: Identity, other: asyncio.Protocol
    ) -> None:
        """Lay a stream between two nodes."""
        here = MemoryStream(self, dialler.id, answerer.public, protocol)
        there = MemoryStream(self, answerer.id, dialler.public, other)
        here.other, there.other = there, here
        self._streams |= {here: None, there: None}
        other.connection_made(there)
        protocol.connection_made(here)

    def leave(self, stream: "MemoryStream") -> None:
        """It is closed."""
        self._streams.pop(stream, None)


class MemoryStream(asyncio.Transport):
    """One end of a stream in memory."""

    other: "MemoryStream"

    def __init__(
        self, network: MemoryNetwork, owner: NodeId, other_key: bytes, protocol: asyncio.Protocol
    ) -> None:
        super().__init__()
        self._network = network
        self.owner = owner
        self.other_key = other_key
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[bytes | None] = deque()
        """What has reached this end and is not read yet; None is the end of the stream."""
        self._travelling: deque[bytes | None] = deque()
        self._written = 0
        """Bytes that this end wrote and the other has not read."""
        self._high, self._low = 64 * 1024, 16 * 1024
        self._paused_writing = False
        self._reading = True
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes on their way."""
        if self._closing:
            return
        self._written += len(data)
        self.other.travel(bytes(data))
        if self._written > self._high and not self._paused_writing:
            self._paused_writing = True
            self._protocol.pause_writing()

    def travel(self, data: bytes | None) -> None:
        """Take what the other end sends, and deliver it later."""
        self._travelling.append(data)
        delay = self._network.delay_s(self.other.owner, self.owner)
        if delay > 0:
            self._loop.call_later(delay, self._arrive)
        else:
            self._loop.call_soon(self._arrive)

    def _arrive(self) -> None:
        if self._travelling:  # an abort on the way took the rest
            self._arrived.append(self._travelling.popleft())
            self.deliver()

    def deliver(self) -> None:
        """Hand over what has arrived, as far as this end reads."""
        while self._arrived and self._reading and not self._network.holds(self.owner, self.other.owner):
            data = self._arrived.popleft()
            if data is None:
                self._lose(None)
            elif not self._closing:
                self.other.was_read(len(data))
                self._protocol.data_received(data)

    def was_read(self, size: int) -> None:
        """The other end has read so much of what this one wrote."""
        self._written -= size
        if self._paused_writing and self._written <= self._low and not self._closing:
            self._paused_writing = False
            self._protocol.resume_writing()

    def close(self) -> None:
        """Send the end of the stream after what was written."""
        if not self._closing:
            self.other.travel(None)
            self._lose(None)

    def abort(self) -> None:
        """Break the stream at both ends, with what is on its way."""
        if self._closing:
            return
        self.other.break_off()
        self._lose(None)

    def break_off(self) -> None:
        """The other end broke the stream."""
        self._travelling.clear()
        self._arrived.clear()
        if self._network.holds(self.owner, self.other.owner):
            self._arrived.append(None)  # it will notice when it wakes up
        else:
            self._lose(ConnectionResetError("cut"))

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._network.leave(self)
            self._loop.call_soon(self._protocol.connection_lost, error)

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._closing

    def pause_reading(self) -> None:
        """Let what arrives wait."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read on."""
        self._reading = True
        self._loop.call_soon(self.deliver)

    def is_reading(self) -> bool:
        """Whether it reads."""
        return self._reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """How much may be under way before the writer is paused, and when it goes on."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """What the other end has not read."""
        return self._written


class MemoryTransport(ConnectionTransport):
    """A transport over a MemoryNetwork."""

    def __init__(
        self,
        memory: MemoryNetwork,
        identity: Identity,
        listen: Address | None = None,
        network: str = "default",
        config: TransportConfig | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        draws = SessionDraws(lambda: 1.0, memory.next_mark)
        super().__init__(identity, listen or Address("memory", 0), network, draws, config, **options)
        self._memory = memory

    async def _listen(self, listen: Address) -> Address:
        return self._memory.listen(self, listen)

    async def _unlisten(self) -> None:
        self._memory.unlisten(self)

    async def _open(self, address: Address, connection: Connection) -> None:
        memory, me = self._memory, self.identity
        answerer = memory.find(address)
        you = answerer.identity
        if memory.unreachable & {me.id, you.id}:
            raise RemoteError("could not connect")
        accepted = answerer._accept(self._listen_at.host)
        if accepted is None:
            raise RemoteError("could not connect")
        memory.connect(me, connection, you, accepted)

    def _public_key(self, stream: asyncio.Transport) -> bytes:
        if not isinstance(stream, MemoryStream):
            raise RemoteError("bad certificate")
        return stream.other_key
