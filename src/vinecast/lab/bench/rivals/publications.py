"""How a member publishes a run, the same way for everybody, and what comes back with each event.

As fast as it goes: events one by one, each when the publisher's call for the one before has returned; or in
hands, of which some are under way at a time. By the clock: each event alone and when it is due, whether or
not the calls for those before it have returned. A call returns with the receipt, where there are any.
"""

import asyncio
import time
from collections import deque
from typing import Any

from vinecast.lab.bench.member import ArrivalTally, BenchMember, Sleep, payloads_of
from vinecast.lab.bench.rivals.times import buckets_of

HANDS_AHEAD = 8  # as many as Node.publish_all has under way
WORDS_MAX = 160  # ours: of an error, what fits into a table


class RivalTally(ArrivalTally):
    """What arrived of one run, and in which times."""

    def told(self) -> dict[str, Any]:
        """For the parent."""
        return {**super().told(), "took": buckets_of(list(self._took_us))}


class _Publication:
    """One run of one publisher."""

    def __init__(self, member: BenchMember, order: dict[str, Any]) -> None:
        self._member, self._run, self._first = member, order["run"], order["first"]
        self.events = 0
        """Handed over so far."""
        self.receipts_us: list[int] = []

    async def one_by_one(self, events: int) -> None:
        """Each when the call for the one before has returned."""
        while self.events < events:
            await self._member.publish(self._next(1))

    async def in_hands(self, events: int, hand: int) -> None:
        """Some hands at a time, the next when the oldest of them has returned."""
        ahead: deque[asyncio.Task[None]] = deque()
        try:
            while self.events < events:
                if len(ahead) >= HANDS_AHEAD:
                    await ahead.popleft()
                ahead.append(asyncio.create_task(self._publish(self._next(min(hand, events - self.events)))))
                await asyncio.sleep(0)
            while ahead:
                await ahead.popleft()
        finally:
            for task in ahead:
                task.cancel()

    async def by_the_clock(self, events: int, rate: float, sleep: Sleep) -> None:
        """Each when it is due."""
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as under_way:
            while self.events < events:
                wait_s = self.events / rate - (time.perf_counter() - begin)
                if wait_s > 0:
                    await sleep(wait_s)
                    continue
                under_way.create_task(self._timed(self._next(1)))

    def _next(self, count: int) -> list[bytes]:
        payloads = payloads_of(self._run, self._first + self.events, count)
        self.events += count
        return payloads

    async def _publish(self, payloads: list[bytes]) -> None:
        await self._member.publish(payloads)

    async def _timed(self, payloads: list[bytes]) -> None:
        begin = time.perf_counter()
        await self._member.publish(payloads)
        self.receipts_us.append(round((time.perf_counter() - begin) * 1e6))


async def publish_run(member: BenchMember, sleep: Sleep, order: dict[str, Any]) -> dict[str, Any]:
    """Do what an order says, until it is done, fails or takes too long: how many events were handed over, the
    times of their receipts, and why it ended early."""
    publication, events, why = _Publication(member, order), order["events"], ""
    limit = asyncio.timeout(order["patience_s"])
    try:
        async with limit:
            if order["rate"]:
                await publication.by_the_clock(events, order["rate"], sleep)
            elif order["hand"] == 1:
                await publication.one_by_one(events)
            else:
                await publication.in_hands(events, order["hand"])
    except Exception as error:  # whatever a client of another product raises
        first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        why = " ".join(f"{type(first).__name__}: {first}".split())[:WORDS_MAX]
        if limit.expired():
            why = f"it took longer than {order['patience_s']:g} s"
    return {"events": publication.events, "receipts": buckets_of(publication.receipts_us), "why": why}
