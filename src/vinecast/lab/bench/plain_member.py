"""Our stack without signatures and without TLS, for the comparison with a broker that has neither.

There is no such mode of a node. What is measured is what one would leave: records with their content ids,
event frames, connections with their bounded queues over plain TCP, and the subscription that the application
reads. What is left out: signatures, TLS, the memory of events seen before, and PolderCast's machine, which
would not send to ten subscribers directly. Who is at the other end of a connection is not known; it is named
by its socket.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Any

from vinecast.core.errors import RemoteError
from vinecast.core.log.batch_signature import BatchSignature, SignedEvent
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import EventRecord
from vinecast.core.log.event_record import decode as decode_record
from vinecast.core.log.event_record import encode as encode_record
from vinecast.lab.bench.member import TOPIC, WAITING, ArrivalTally, read_all, read_line, say, serve
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.capabilities import session_draws
from vinecast.node.runtime.driver import EventSink
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.connection import Connection
from vinecast.node.transport.connection_transport import ConnectionTransport
from vinecast.node.transport.interface import PeerFacts
from vinecast.peer.address import Address
from vinecast.peer.identity import NodeId
from vinecast.peer.inputs import EventsTaken, PeerCommand
from vinecast.peer.outputs import DeliverEvent
from vinecast.peer.subscriptions import WAITING_BYTES
from vinecast.peer.wire.batcher import EncodedEvent, cuts, event_frame
from vinecast.peer.wire.messages import EventFrame, decode

NO_SIGNATURE = BatchSignature(b"", 0, 0, b"")
CROWDED = 0.5  # as for a node
LOOK_S = 0.0005  # ours: seconds between two looks at full queues


class PlainTransport(ConnectionTransport):
    """Connections over plain TCP on this machine."""

    _server: asyncio.Server | None = None

    async def _listen(self, listen: Address) -> Address:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accepted, listen.host, listen.port)
        return Address(listen.host, self._server.sockets[0].getsockname()[1])

    def _accepted(self) -> asyncio.Protocol:
        return self._accept(self._listen_at.host) or asyncio.Protocol()

    async def _unlisten(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _open(self, address: Address, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection, address.host, address.port)
        except OSError:
            raise RemoteError("could not connect") from None

    def _public_key(self, stream: asyncio.Transport) -> bytes:
        return hashlib.sha256(repr(stream.get_extra_info("peername")).encode()).digest()


class PlainReading:
    """The subscription of a member, and what a peer does for it: it bounds what waits for the reader."""

    def __init__(self) -> None:
        self.reader = Subscription(self, 1, TOPIC, WAITING)
        self.sinks: dict[int, EventSink] = {1: self.reader}
        self._waiting = self._waiting_bytes = 0

    def offer(self, signed: SignedEvent, hops: int) -> None:
        """Let an event wait for the reader, if there is room."""
        size = self._waiting_bytes + len(signed.block)
        if self._waiting >= WAITING or size > WAITING_BYTES:
            self.reader.dropped += 1
            return
        self._waiting, self._waiting_bytes = self._waiting + 1, size
        self.reader.offer(DeliverEvent(1, signed, hops, 0))

    def feed(self, what: PeerCommand) -> None:
        """The reader took events."""
        if isinstance(what, EventsTaken):
            self._waiting -= what.events
            self._waiting_bytes -= what.size

    def request(self, make: Callable[[int], PeerCommand]) -> asyncio.Future[Any]:
        """Nothing to wait for."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.set_result(None)
        return answer

    async def ask(self, make: Callable[[int], PeerCommand]) -> Any:
        """Nothing to wait for."""


class PlainMember:
    """A publisher with direct connections to all subscribers, or one of these."""

    def __init__(self, transport: PlainTransport, tally: ArrivalTally) -> None:
        self._transport = transport
        self._sequence = 0
        self._readings = {TOPIC: PlainReading()}
        self._reader = asyncio.create_task(read_all(self._readings[TOPIC].reader, tally))

    # What the parent asks for.

    async def join(self, peers: list[str]) -> None:
        """The first is the publisher."""
        for peer in peers[:1]:
            await self._transport.connect(Address.parse(peer))

    async def ready(self, members: int) -> None:
        """A publisher has all subscribers, a subscriber the publisher."""
        connections = self._transport.connections
        while len(connections()) < members - 1 and not any(
            connection.dialled for connection in connections().values()
        ):
            await asyncio.sleep(0.01)

    async def publish(self, payloads: list[bytes]) -> None:
        """Send each to everybody, as fast as the slowest takes them."""
        transport = self._transport
        peers = list(transport.connections())
        while max(map(transport.pressure, peers), default=0.0) > CROWDED:
            await asyncio.sleep(LOOK_S)
        encoded_events = []
        for payload in payloads:
            self._sequence += 1
            now_us = time.time_ns() // 1000
            record = EventRecord(TOPIC, transport.identity.public, self._sequence, now_us, payload)
            encoded_events.append(EncodedEvent(encode_record(record), b""))
        for begin, end in cuts(encoded_events):
            frame = event_frame(1, encoded_events[begin:end])
            for peer in peers:
                transport.send(peer, None, frame)
        await asyncio.sleep(0)

    # What the transport tells.

    def on_frame(self, peer: NodeId, data: bytes) -> None:
        """Events: each into the queue of its reader."""
        frame = decode(data)
        assert isinstance(frame, EventFrame)
        for block, _ in frame.events:
            signed = SignedEvent(decode_record(block), block, cid_of(block), NO_SIGNATURE)
            reading = self._readings.get(signed.record.topic)
            if reading is not None:
                reading.offer(signed, frame.hops)

    def on_up(self, peer: NodeId, address: Address, facts: PeerFacts) -> None:
        """Nothing to do."""

    def on_down(self, peer: NodeId, reason: str) -> None:
        """What is lost is missed by who counts."""

    def on_unreachable(self, peer: NodeId) -> None:
        """What is lost is missed by who counts."""

    def on_refused(self, reason: str) -> None:
        """What is lost is missed by who counts."""


async def plain(settings: dict[str, Any]) -> None:
    """What the process does."""
    tally = ArrivalTally()
    transport = PlainTransport(make_identity(), Address("127.0.0.1", 0), "bench", session_draws())
    member = PlainMember(transport, tally)
    address = await transport.start(member)
    say({"is": "up", "address": str(address)})
    await serve(member, tally, read_line, asyncio.sleep)
    await transport.close()
