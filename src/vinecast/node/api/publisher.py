"""Publishing, as the application asks for it: payloads become drafts with numbers and times, and go to the
peer, which signs and sends them (``peer/publisher``)."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vinecast.core.errors import InputError
from vinecast.node.runtime.driver import Driver
from vinecast.node.storage.store import Store
from vinecast.peer.inputs import Draft
from vinecast.peer.receipt import Receipt

HAND, HAND_BYTES = 256, 256 * 1024  # ours: events that are signed and sent in one turn of the loop
HANDS_AHEAD = 8  # ours: handfuls that are on their way at a time

Headers = Mapping[str, str | bytes]
Payload = bytes | str


class Publisher:
    """Publishes for the application of one node."""

    def __init__(self, driver: Driver, store: Store) -> None:
        self._driver, self._store = driver, store

    async def publish(
        self, topic: str, payload: Payload, headers: Headers | None = None, durable: bool = True
    ) -> Receipt:
        """See ``Node.publish``."""
        draft = await self._draft(_bytes_of(payload), headers, self._driver.clock.wall_us())
        asked = self._driver.publish(topic, (draft,), durable)
        return _receipts(await self._driver.answer_of(asked))[0]

    async def publish_all(
        self, topic: str, events: Iterable[tuple[Payload, Headers | None]], durable: bool = True
    ) -> list[Receipt]:
        """See ``Node.publish_all``. events: payloads and headers"""
        receipts: list[Receipt] = []
        ahead: deque[asyncio.Future[Any]] = deque()
        hands, refusal = _hands(events), None
        try:
            while True:
                try:
                    hand = next(hands, None)
                except Exception as error:  # those before it are published all the same
                    refusal = error
                    break
                if hand is None:
                    break
                while len(ahead) >= HANDS_AHEAD:
                    receipts += _receipts(await ahead[0])
                    ahead.popleft()
                ahead.append(self._driver.publish(topic, await self._drafts(hand), durable))
                self._driver.end_turn()
                await asyncio.sleep(0)
            if (
                not ahead and not receipts and refusal is None
            ):  # nothing to publish: the topic is looked at all the same
                ahead.append(self._driver.publish(topic, (), durable))
            while ahead:
                receipts += _receipts(await ahead[0])
                ahead.popleft()
            if refusal is not None:
                raise refusal
        finally:
            for future in ahead:
                if future.done():
                    future.cancelled() or future.exception()
                else:
                    self._driver.withdraw(future)
        return receipts

    async def _drafts(self, hand: Sequence[tuple[bytes, Headers | None]]) -> tuple[Draft, ...]:
        time_us = self._driver.clock.wall_us()
        return tuple([await self._draft(data, headers, time_us) for data, headers in hand])

    async def _draft(self, data: bytes, headers: Headers | None, time_us: int) -> Draft:
        return Draft(data, dict(headers) if headers else {}, await self._store.next_sequence(), time_us)


def _receipts(outcomes: Sequence[Receipt | Exception]) -> list[Receipt]:
    """What became of events, if all went well; else what went wrong first."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, Receipt)]


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
