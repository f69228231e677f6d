"""Publishing: records are made, signed together and sent, and the publisher feels when neighbours are slow.

What is published in the same turn of the loop shares one signature. Nothing is taken that the queues of the
neighbours on its topic could not hold: who publishes faster than they read is made to wait, and told when
that lasts.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from vinecast.core.errors import ClosedError, InputError, OverloadedError
from vinecast.core.log.batch_signature import BATCH_MAX, SignedEvent, sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.node.api.durable_publisher import OUTSTANDING_MAX, DurablePublisher
from vinecast.node.api.receipt import Receipt
from vinecast.node.runtime.driver import Driver
from vinecast.node.storage.store import Store
from vinecast.peer.identity import Identity
from vinecast.peer.topics import check_topic

CROWDED = 0.5  # ours: how full a neighbour's queue may be before a publisher has to wait
LOOK_S = 0.005  # ours: seconds between two looks at the queues of neighbours
HAND, HAND_BYTES = 256, 256 * 1024  # ours: events that are signed and sent in one turn of the loop

Headers = Mapping[str, str | bytes]
Payload = bytes | str


class Publisher:
    """Signs and sends the volatile events of one node. ``wait_s``: how long a publisher waits for slow
    neighbours before it is told; ``others``: how many other nodes there are, or should be; ``holders``: how
    many of them must hold an event."""

    def __init__(
        self,
        identity: Identity,
        network: str,
        driver: Driver,
        store: Store,
        wait_s: float,
        others: Callable[[], int],
        holders: int,
    ) -> None:
        self._public, self._sign = identity.public, identity.sign
        self._network, self._driver, self._store, self._wait_s = network, driver, store, wait_s
        self._durable = DurablePublisher(network, identity.sign, driver.streams, holders, others, wait_s)
        self._pending: list[tuple[EventRecord, asyncio.Future[Receipt]]] = []
        self._pending_bytes = 0

    async def publish(
        self, topic: str, payload: Payload, headers: Headers | None = None, durable: bool = True
    ) -> Receipt:
        check_topic(topic)
        data = _bytes_of(payload)
        if durable:
            await self._visit(topic)
            await self._wait_for_room(lambda: self._is_full(topic))
            return await self._durable.put(await self._record(topic, data, headers))
        await self._search(topic)
        await self._wait_for_room(lambda: self._pending_bytes > HAND_BYTES or self._is_crowded(topic))
        record = await self._record(topic, data, headers)
        loop = asyncio.get_running_loop()
        receipt: asyncio.Future[Receipt] = loop.create_future()
        if not self._pending:
            loop.call_soon(self._flush)
        self._pending.append((record, receipt))
        self._pending_bytes += len(data)
        return await receipt

    async def publish_all(
        self, topic: str, events: Iterable[tuple[Payload, Headers | None]], durable: bool = True
    ) -> list[Receipt]:
        """See ``Node.publish_all``. events: payloads and headers"""
        check_topic(topic)
        if durable:
            return await self._publish_all(topic, events)
        receipts: list[Receipt] = []
        await self._search(topic)
        for hand in _hands(events):
            await self._wait_for_room(lambda: self._is_crowded(topic))
            records = [await self._record(topic, *event) for event in hand]
            receipts += self._send(sign_events(self._network, records, self._sign))
            await asyncio.sleep(0)
        return receipts

    async def _publish_all(
        self, topic: str, events: Iterable[tuple[Payload, Headers | None]]
    ) -> list[Receipt]:
        """Publish many events into a stream; so many at a time are without a receipt."""
        await self._visit(topic)
        receipts: list[asyncio.Future[Receipt]] = []
        for hand in _hands(events):
            while self._durable.outstanding >= OUTSTANDING_MAX:  # they get their receipts, late or not
                await asyncio.sleep(LOOK_S)
            await self._wait_for_room(lambda: self._is_full(topic))
            receipts += [self._durable.put(await self._record(topic, *event)) for event in hand]
            self._durable.flush()
            await asyncio.sleep(0)
        return list(await asyncio.gather(*receipts))

    def close(self) -> None:
        """Those who wait for a receipt will get none."""
        self._durable.close()
        for _, receipt in self._pending:
            if not receipt.done():
                receipt.set_exception(ClosedError("the node was closed before the event was published"))
        self._pending = []

    async def _record(self, topic: str, data: bytes, headers: Headers | None) -> EventRecord:
        return EventRecord(
            topic=topic,
            publisher=self._public,
            sequence=await self._store.next_sequence(),
            time_us=time.time_ns() // 1000,
            payload=data,
            headers=dict(headers) if headers else {},
        )

    async def _search(self, topic: str) -> None:
        """Where no subscriber is known, wait a moment for one to be found."""
        while self._driver.search(topic):
            await asyncio.sleep(LOOK_S)

    async def _visit(self, topic: str) -> None:
        """Before the first event on a stream, wait a moment for what others have of it. A subscriber that has
        to be found first is not waited for: replicas have the event, and it asks them."""
        self._driver.search(topic)
        while self._driver.streams.visit(topic):
            await asyncio.sleep(LOOK_S)

    def _is_crowded(self, topic: str) -> bool:
        return self._driver.is_crowded(topic, CROWDED)

    def _is_full(self, topic: str) -> bool:
        """Whether neighbours or the disk are too slow."""
        streams, waiting = self._driver.streams, self._durable.outstanding
        return self._is_crowded(topic) or streams.is_crowded or waiting >= OUTSTANDING_MAX

    async def _wait_for_room(self, is_full: Callable[[], bool]) -> None:
        """Make a publisher feel that its neighbours are slow."""
        waited = 0.0
        while is_full():
            if waited >= self._wait_s:
                self._driver.counters["refused: publisher too fast"] += 1
                raise OverloadedError("the neighbours cannot take more events at the moment")
            await asyncio.sleep(LOOK_S)
            waited += LOOK_S

    def _flush(self) -> None:
        """Sign all that was published in this turn of the loop with one signature, and send it."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        for begin in range(0, len(pending), BATCH_MAX):
            signed = [
                one for one in self._sign_batch(pending[begin : begin + BATCH_MAX]) if not one[0].done()
            ]
            try:
                receipts = self._send([event for _, event in signed])
            except Exception as error:
                for future, _ in signed:
                    future.set_exception(error)
                continue
            for (future, _), receipt in zip(signed, receipts, strict=True):
                future.set_result(receipt)

    def _send(self, hand: Sequence[SignedEvent]) -> list[Receipt]:
        taken = self._driver.publish(hand)
        return [Receipt(signed.cid, peers) for signed, peers in zip(hand, taken, strict=True)]

    def _sign_batch(
        self, batch: list[tuple[EventRecord, asyncio.Future[Receipt]]]
    ) -> list[tuple[asyncio.Future[Receipt], SignedEvent]]:
        """The batch, signed. If one of them cannot be, only that one fails."""
        try:
            signed = sign_events(self._network, [record for record, _ in batch], self._sign)
            return [(receipt, event) for (_, receipt), event in zip(batch, signed, strict=True)]
        except InputError as error:
            if len(batch) == 1:
                if not batch[0][1].done():
                    batch[0][1].set_exception(error)
                return []
            return [done for one in batch for done in self._sign_batch([one])]


def _bytes_of(payload: Payload) -> bytes:
    if not isinstance(payload, str | bytes | bytearray | memoryview):
        raise InputError(f"a payload is bytes or a string, not {type(payload).__name__}")
    return payload.encode() if isinstance(payload, str) else bytes(payload)


def _hands(events: Iterable[tuple[Payload, Headers | None]]) -> Iterator[list[tuple[bytes, Headers | None]]]:
    """Payloads and headers by the handful: many small ones, few large ones."""
    hand: list[tuple[bytes, Headers | None]] = []
    size = 0
    for payload, headers in events:
        data = _bytes_of(payload)
        hand.append((data, headers))
        size += len(data)
        if len(hand) >= HAND or size >= HAND_BYTES:
            yield hand
            hand, size = [], 0
    if hand:
        yield hand
