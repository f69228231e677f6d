"""A node of a local network, as far as its streams go: it publishes, reads and names topics for its parent.

The parent is the application. What a consumer is handed is told to the parent, and acknowledged only when the
parent says so; that the acknowledgement is safe is told when it is. So whenever a process is killed, the
parent has heard of everything that the consumer was done with.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from vinecast.core.errors import VinecastError
from vinecast.core.log.name_record import encode_name
from vinecast.lab.localnet.ledger import point_of
from vinecast.lab.localnet.messages import (
    AckStream,
    Consumed,
    CreateTopic,
    CutConnections,
    Handed,
    PublishStream,
    Safe,
    Shown,
    ShowTopic,
    Stream,
    StreamCommand,
    TellStream,
    Unpublished,
    WorkerMessage,
)
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.api.topic_names import Described
from vinecast.node.transport.connection_transport import ConnectionTransport
from vinecast.protocols.streams import EARLIEST

CONSUMER = "parent"
STREAM_MAX = 1_000_000  # ours: events of a stream that are told


class StreamMember:
    """The streams of one node of a local network. ``tell`` tells the parent."""

    def __init__(self, number: int, node: Node, tell: Callable[[WorkerMessage], Awaitable[None]]) -> None:
        self._number, self._node, self._tell = number, node, tell
        self._readers: dict[str, Subscription] = {}
        self._handed: dict[str, deque[Event]] = {}
        """Topic → events that the consumer was handed and is not done with."""

    def subscribe(self, topic: str) -> Subscription:
        """Read a stream from its beginning, or from where the consumer was."""
        self._handed[topic] = deque()
        reader = self._readers[topic] = self._node.subscribe(topic, EARLIEST, CONSUMER)
        return reader

    async def read(self, reader: Subscription) -> None:
        """Tell what the consumer is handed, for ever."""
        async for event in reader:
            events = [event]
            while reader.waiting:
                events.append(await anext(reader))
            self._handed[reader.topic].extend(events)
            told = [(one.offset, one._signed.block, one._signed.signature.to_bytes()) for one in events]
            await self._tell(Handed(self._number, reader.topic, told))

    async def do(self, command: StreamCommand) -> None:
        """Do what the parent says."""
        names = self._node.names
        match command:
            case PublishStream(_, topic, payloads):
                await self._publish(topic, payloads)
            case AckStream(_, topic, offset):
                await self._ack(topic, offset)
            case TellStream(_, topic):
                cids = [event._signed.cid for event in self._node.log(topic, count=STREAM_MAX)]
                await self._tell(Stream(self._number, topic, cids))
            case CutConnections():
                transport = self._node._driver.transport
                assert isinstance(transport, ConnectionTransport)
                transport.cut()
            case CreateTopic(_, topic, parent):
                created = await names.create(topic)
                await self._show(await names.add(parent, topic) if parent else created)
            case ShowTopic(_, topic, owner):
                await self._show(await names.show(topic, owner))

    async def _publish(self, topic: str, payloads: Sequence[bytes]) -> None:
        await asyncio.gather(*(self._publish_one(topic, payload) for payload in payloads))

    async def _publish_one(self, topic: str, payload: bytes) -> None:
        streams = self._node._peer.streams
        try:
            receipt = await self._node.publish(topic, payload)
        except VinecastError as error:
            await self._tell(Unpublished(self._number, payload, str(error)))
            return
        signed = streams.store.get(receipt.cid)
        assert signed is not None
        ids = [self._node._peer.peer_table.id_of(peer) for peer in streams.repair.holders.of(receipt.cid)]
        points = [point_of(one) for one in ids]
        told = Safe(self._number, signed.block, signed.signature.to_bytes(), receipt.holders, points)
        await self._tell(told)

    async def _ack(self, topic: str, offset: int) -> None:
        handed, last = self._handed[topic], None
        while handed and handed[0].offset <= offset:
            last = handed.popleft()
        if last is not None:
            await self._readers[topic].ack(last)
            await self._node._peer.streams.store.durable()
            await self._tell(Consumed(self._number, topic, last.offset))

    async def _show(self, found: Described) -> None:
        assert found.record is not None
        await self._tell(Shown(self._number, encode_name(found.record)))
