"""A team that is measured until all events have come, or until no more come.

Events may be lost, and how many is a result: when the publishers are done and nothing has arrived anywhere
for some seconds, the run is over. Its rate is then that of what arrived, until the last of it arrived.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vinecast.lab.bench.rivals.times import Buckets, share_within_ms, together
from vinecast.lab.bench.team import WARM_UPS, AbsentError, MemberProcess, Team, cpu_s_of, limit

POLL_S = 0.1  # ours: between two looks at what has arrived
SILENCE_S = 3.0  # ours: nothing arrives for so long, then nothing will
PUBLISH_S = 60.0  # ours: that publishers may take for a run
GRACE_S = 30.0  # ours: more than that and silence; then a publisher does not end any more
WARM_EVENTS, WARM_RATE = 50, 100
CPU_CLOCK = 2  # of a process by its number, as Linux numbers clocks: CPUCLOCK_SCHED in its posix-timers.h


@dataclass(frozen=True, slots=True)
class RivalRun:
    """What one run came to."""

    planned: int
    """Events of all publishers."""
    published: int
    """… of which so many were handed over."""
    subscribers: int
    deliveries: int
    seconds: float
    """From the order to publish until the last delivery."""
    cpu_s: float
    took: Buckets = field(default_factory=Buckets)
    """From the call to publish until the application has it."""
    receipts: Buckets = field(default_factory=Buckets)
    """From the call to publish until it returns."""
    why: str = ""
    """It ended early."""

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self.deliveries / self.seconds if self.deliveries else 0.0

    @property
    def cpu_us(self) -> float:
        """CPU time of a delivery, in microseconds."""
        return self.cpu_s / self.deliveries * 1e6 if self.deliveries else float("nan")

    @property
    def lost(self) -> float:
        """The share of deliveries that never came."""
        due = self.published * self.subscribers
        return 1 - self.deliveries / due if due else 0.0

    @property
    def complete(self) -> bool:
        """Everything was published, and everything arrived."""
        return self.deliveries == self.planned * self.subscribers

    def took_ms(self, percent: int) -> float:
        """Deliveries: so many of a hundred took at most so long."""
        return share_within_ms(self.took, percent)

    def receipt_ms(self, percent: int) -> float:
        """Receipts: so many of a hundred took at most so long."""
        return share_within_ms(self.receipts, percent)


class RivalTeam(Team):
    """The first members publish, the others subscribe."""

    publishers = 1

    async def measure(
        self,
        events: int,
        *,
        hand: int = 1,
        rate: float = 0.0,
        publish_s: float = PUBLISH_S,
        silence_s: float = SILENCE_S,
    ) -> RivalRun:
        """Let each publisher publish so many events."""
        publishers, others = self._members[: self.publishers], self._members[self.publishers :]
        run = next(self._runs)
        wanted = events * len(publishers)
        patience_s = publish_s + (events / rate if rate else 0.0)
        async with limit("a publisher did not end", patience_s + silence_s + GRACE_S):
            for member in others:
                await member.ask("expecting", do="expect", run=run, events=wanted, timed=bool(rate))
            cpu_s, begin = await self._cpu_s(), time.monotonic()
            for i, member in enumerate(publishers):
                member.say(
                    do="publish", run=run, first=i * events, events=events, hand=hand,
                    rate=rate / len(publishers), patience_s=patience_s,
                )  # fmt: skip
            published = asyncio.gather(*(member.hear("published") for member in publishers))
            try:
                cpu_s = await self._until_quiet(published, others, wanted, silence_s) - cpu_s
            finally:
                published.cancel()
            told = [await member.ask("told", do="tell") for member in others]
        ends = published.result()
        return RivalRun(
            planned=wanted,
            published=sum(end["events"] for end in ends),
            subscribers=len(others),
            deliveries=sum(member["events"] for member in told),
            seconds=max(member["last_s"] for member in told) - begin,
            cpu_s=cpu_s,
            took=together(member["took"] for member in told),
            receipts=together(end["receipts"] for end in ends),
            why=next((end["why"] for end in ends if end["why"]), ""),
        )

    async def _until_quiet(
        self,
        published: asyncio.Future[list[dict[str, Any]]],
        others: Sequence[MemberProcess],
        wanted: int,
        silence_s: float,
    ) -> float:
        """Wait until the run is over: the CPU time that was used when the last of it had just happened."""
        arrived, was_done, cpu_s = -1, False, 0.0
        changed = time.monotonic()
        while True:
            await asyncio.sleep(POLL_S)
            done = published.done()
            if done and published.exception() is not None:
                published.result()
            now = sum([(await member.ask("count", do="count"))["events"] for member in others])
            if (now, done) != (arrived, was_done):
                arrived, was_done, changed, cpu_s = now, done, time.monotonic(), await self._cpu_s()
            if done and (now == wanted * len(others) or time.monotonic() - changed > silence_s):
                return cpu_s

    async def warm_up(self, events: int = WARM_EVENTS, rate: float = WARM_RATE) -> None:
        """Publish calmly until nothing is lost, so that nothing is measured before it works."""
        why = ""
        for _ in range(WARM_UPS):
            run = await self.measure(events, rate=rate)
            if run.complete:
                return
            why = why or run.why
        raise AbsentError(f"events are lost even when there are few{why and f': {why}'}")

    async def _cpu_s(self) -> float:
        """Of all processes, without asking them: publishers are busy, servers know no such question."""
        numbers = [member.number for member in self._members]
        return sum(map(_cpu_s_of, numbers + ([self._server] if self._server else [])))


def _cpu_s_of(process: int) -> float:
    """CPU seconds that a process and its threads have used: by its own clock, or where the system has none,
    by what is kept for everybody."""
    try:
        return time.clock_gettime(~process << 3 | CPU_CLOCK)
    except (OSError, AttributeError):
        return cpu_s_of(process)
