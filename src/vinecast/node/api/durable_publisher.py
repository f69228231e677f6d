"""Publishing into streams: an event follows those that its publisher knows, and its receipt waits until it is
safe.

Safe means: written down on this node, and held by as many others as were asked for, which say so when it is
safe on their disks. Events of one turn of the loop share a signature, and each follows the one before it on
its topic. Where others take too long the publisher gets its receipt nevertheless, which says how many hold
the event: it is on its way to them, and to publish it once more would make two of it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vinecast.core.errors import ClosedError, InputError, UnsafeError
from vinecast.core.log.batch_signature import BATCH_MAX, Sign, SignedEvent, sign_batch
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import EventRecord, encode
from vinecast.node.api.receipt import Receipt
from vinecast.peer.streams.durable_runtime import DurableRuntime

OUTSTANDING_MAX = 2048
"""Events without a receipt at a time (ours): fewer than a node remembers the holders of."""


@dataclass(slots=True)
class _Awaited:
    """An event without a receipt."""

    future: asyncio.Future[Receipt]
    neighbours: int = 0
    safe: bool = False
    holders: int = 0


class DurablePublisher:
    """Puts the events of one node into streams. ``holders``: how many others must hold an event; ``others``:
    how many there are; ``wait_s``: how long they may take."""

    def __init__(
        self,
        network: str,
        sign: Sign,
        streams: DurableRuntime,
        holders: int,
        others: Callable[[], int],
        wait_s: float,
    ) -> None:
        self._network, self._sign, self._streams = network, sign, streams
        self._holders, self._others, self._wait_s = holders, others, wait_s
        self._pending: list[tuple[EventRecord, asyncio.Future[Receipt]]] = []
        self._awaited: dict[bytes, _Awaited] = {}
        streams.listener = self

    @property
    def outstanding(self) -> int:
        """Events without a receipt."""
        return len(self._awaited) + len(self._pending)

    def put(self, record: EventRecord) -> asyncio.Future[Receipt]:
        """Publish an event in this turn of the loop."""
        loop = asyncio.get_running_loop()
        if not self._pending:
            loop.call_soon(self.flush)
        receipt: asyncio.Future[Receipt] = loop.create_future()
        self._pending.append((record, receipt))
        return receipt

    def flush(self) -> None:
        """Publish what was put here, now."""
        pending, self._pending = self._pending, []
        for begin in range(0, len(pending), BATCH_MAX):
            self._send(pending[begin : begin + BATCH_MAX])

    def close(self) -> None:
        """Those who wait for a receipt will get none."""
        self._pending, pending = [], self._pending
        self._awaited, awaited = {}, self._awaited
        for receipt in (*(one for _, one in pending), *(one.future for one in awaited.values())):
            if not receipt.done():
                receipt.set_exception(ClosedError("the node was closed before the event was safe"))

    def _send(self, pending: Sequence[tuple[EventRecord, asyncio.Future[Receipt]]]) -> None:
        hand = self._sign_batch([(record, receipt) for record, receipt in pending if not receipt.done()])
        for signed, receipt in hand:
            self._awaited[signed.cid] = _Awaited(receipt)
        taken = self._streams.publish([signed for signed, _ in hand])
        for (signed, _), neighbours in zip(hand, taken, strict=True):
            if signed.cid in self._awaited:
                self._awaited[signed.cid].neighbours = neighbours
        cids = [signed.cid for signed, _ in hand]
        asyncio.get_running_loop().call_later(self._wait_s, self._expire, cids)

    def _sign_batch(
        self, pending: Sequence[tuple[EventRecord, asyncio.Future[Receipt]]]
    ) -> list[tuple[SignedEvent, asyncio.Future[Receipt]]]:
        """Put events in their places, and sign them together. Only those fail that are outside the limits."""
        places: dict[str, tuple[tuple[bytes, ...], int]] = {}
        placed = []
        for record, receipt in pending:
            topic = record.topic
            parents, height = places.get(topic) or self._streams.place(topic)
            record = record._replace(parents=parents, height=height)
            try:
                block = encode(record)
            except InputError as error:
                receipt.set_exception(error)
                continue
            cid = cid_of(block)
            places[topic] = (cid,), height + 1
            placed.append((record, block, cid, receipt))
        if not placed:
            return []
        signatures = sign_batch(self._network, [cid for _, _, cid, _ in placed], self._sign)
        return [
            (SignedEvent(record, block, cid, signature), receipt)
            for (record, block, cid, receipt), signature in zip(placed, signatures, strict=True)
        ]

    # What becomes of them.

    def safe(self, cids: Sequence[bytes]) -> None:
        for cid in cids:
            awaited = self._awaited.get(cid)
            if awaited is not None:
                awaited.safe = True
                self._settle(cid, awaited)

    def held(self, cid: bytes, holders: int) -> None:
        awaited = self._awaited.get(cid)
        if awaited is not None:
            awaited.holders = holders
            self._settle(cid, awaited)

    def _settle(self, cid: bytes, awaited: _Awaited, enough: bool = False) -> None:
        if awaited.safe and (enough or awaited.holders >= min(self._holders, self._others())):
            del self._awaited[cid]
            if not awaited.future.done():
                awaited.future.set_result(Receipt(cid, awaited.neighbours, awaited.holders))

    def _expire(self, cids: Sequence[bytes]) -> None:
        """Time is up for these."""
        for cid in cids:
            awaited = self._awaited.get(cid)
            if awaited is None:
                continue
            self._settle(cid, awaited, enough=True)
            if self._awaited.pop(cid, None) is not None and not awaited.future.done():
                awaited.future.set_exception(
                    UnsafeError("the event is on its way, but could not be written down here in time")
                )
