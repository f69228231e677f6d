"""Processes that are measured together, and what a run over them shows.

The parent starts them, tells them whom to join, and then lets the first one publish; the others say when
they have all events of the run. Every rate is events over the time from the order to publish until the last
one has said so. CPU time is that of all processes together, a server's included.
"""

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import subprocess
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from vinecast.core.errors import VinecastError

PATIENCE_S = 120.0  # ours: for whatever has no shorter limit
LATE_S = 0.3  # ours: when a rate is kept up, all have the last event so soon after it was due
QUIET_S = 0.3  # ours: nobody is busy for so long, then what was late has come
QUIET_CPU = 0.2  # ours: of one core; idle networks have heartbeats
QUIET_PATIENCE_S = 30.0  # ours
WARM_UPS, WARM_UP_S = 5, 10.0  # ours: how often, and how late events may be then


class AbsentError(VinecastError):
    """Why something cannot be measured here, in a sentence."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one run at one rate came to."""

    events: int
    seconds: float
    deliveries: int
    cpu_s: float
    lossless: bool
    """Everybody had everything in time."""
    p50_ms: float = float("nan")
    p99_ms: float = float("nan")
    """Of the times under way, where they were noted."""

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time of a delivery, in microseconds."""
        return self.cpu_s / max(self.deliveries, 1) * 1e6


class MemberProcess:
    """One member, seen from the parent."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._process, self._errors = process, errors
        self.number = process.pid
        self._heard: dict[str, deque[dict[str, Any]]] = {}

    def say(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def hear(self, what: str) -> dict[str, Any]:
        """Wait until it says this; what it says meanwhile is kept."""
        assert self._process.stdout is not None
        while not self._heard.get(what):
            line = await self._process.stdout.readline()
            if not line:
                raise AbsentError(f"a process ended: {self._last_words()}")
            with contextlib.suppress(ValueError):  # whatever a library prints
                told = json.loads(line)
                self._heard.setdefault(told["is"], deque()).append(told)
        return self._heard[what].popleft()

    async def ask(self, what: str, **order: Any) -> dict[str, Any]:
        self.say(**order)
        return await self.hear(what)

    def _last_words(self) -> str:
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip().splitlines()
        errors = [line for line in words if "Error" in line] or words
        return errors[-1].strip()[:200] if errors else "it did not say why"

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._errors.close()


class Team:
    """Members that have found each other. The first one publishes."""

    def __init__(self, members: Sequence[MemberProcess], server: int | None) -> None:
        self._members, self._server = members, server
        self._runs = itertools.count(1)

    @classmethod
    @contextlib.asynccontextmanager
    async def gather(
        cls, commands: Sequence[Sequence[str]], server: int | None = None
    ) -> AsyncIterator[Self]:
        """Start a process for each command, and wait until they are ready. ``server``: a process that works
        for them, if there is one."""
        members: list[MemberProcess] = []
        try:
            async with limit("the members did not find each other in time"):
                for command in commands:  # one at a time, so that none is forgotten when the next fails
                    members += [await _start(command)]
                addresses = [(await member.hear("up"))["address"] for member in members]
                for i, member in enumerate(members):
                    member.say(do="join", peers=addresses[:i])
                for member in members:
                    await member.hear("joined")
                for member in members:
                    member.say(do="ready", members=len(members))
                for member in members:
                    await member.hear("ready")
            yield cls(members, server)
        finally:
            await asyncio.gather(*(member.end() for member in members))

    async def trial(
        self,
        events: int,
        *,
        hand: int = 1,
        rate: float = 0.0,
        late_s: float = PATIENCE_S,
        timed: bool = False,
    ) -> Trial:
        """Publish so many events, ``hand`` at a time as fast as it goes, or at a rate; and look who has them
        ``late_s`` after the last was due. ``timed``: how long they were under way."""
        loop = asyncio.get_running_loop()
        publisher, others = self._members[0], self._members[1:]
        run = next(self._runs)
        patience_s = late_s + (events / rate if rate else 0.0)
        async with limit("the members did not answer in time", patience_s + PATIENCE_S):
            for member in others:
                await member.ask("expecting", do="expect", run=run, events=events, timed=timed)
            cpu_s, begin = await self._cpu_s(), loop.time()
            publisher.say(
                do="publish", run=run, events=events, hand=hand, rate=rate, patience_s=patience_s
            )  # fmt: skip
            complete = await self._all_got(run, others, begin + patience_s)
            seconds = loop.time() - begin
            published = (await publisher.hear("published"))["events"]
            told = [await member.ask("told", do="tell") for member in others]
            cpu_s = await self._cpu_s() - cpu_s
        deliveries = sum(member["events"] for member in told)
        lossless = complete and published == events
        times = {key: max(member.get(key, float("nan")) for member in told) for key in ("p50_ms", "p99_ms")}
        return Trial(events, seconds, deliveries, cpu_s, lossless, **times)

    async def _all_got(self, run: int, members: Sequence[MemberProcess], until: float) -> bool:
        async def got(member: MemberProcess) -> None:
            while (await member.hear("got"))["run"] != run:
                pass

        try:
            async with asyncio.timeout_at(until):
                for member in members:
                    await got(member)
        except TimeoutError:
            return False
        return True

    async def warm_up(self, events: int, rate: float) -> None:
        """Publish calmly until nothing is lost, so that nothing is measured the first time it runs."""
        for _ in range(WARM_UPS):
            if (await self.trial(events, rate=rate, late_s=WARM_UP_S)).lossless:
                return
            await self.quiet()
        raise AbsentError("events are lost even when there are few")

    async def quiet(self) -> None:
        """Wait until the members have nothing left to do."""
        until = asyncio.get_running_loop().time() + QUIET_PATIENCE_S
        before = await self._cpu_s()
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(QUIET_S)
            now = await self._cpu_s()
            if now - before < QUIET_S * QUIET_CPU:
                return
            before = now

    async def _cpu_s(self) -> float:
        told = [await member.ask("told", do="tell") for member in self._members]
        cpu_s: list[float] = [member["cpu_s"] for member in told]
        return sum(cpu_s) + (cpu_s_of(self._server) if self._server else 0.0)


def need_package(module: str, name: str, extra: str) -> None:
    """AbsentError if a package of Python is not installed: which extra brings it."""
    if importlib.util.find_spec(module) is None:
        raise AbsentError(f"{name} is not installed (extra '{extra}')")


async def _start(command: Sequence[str]) -> MemberProcess:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
    )
    return MemberProcess(process, errors)


@contextlib.asynccontextmanager
async def limit(sentence: str, seconds: float = PATIENCE_S) -> AsyncIterator[None]:
    """AbsentError with this sentence if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise AbsentError(sentence) from None


def cpu_s_of(process: int) -> float:
    """CPU seconds that a process has used, by number; not a number where the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def highest_rate(
    attempt: Callable[[float], Awaitable[Trial]],
    first: float,
    largest: float = 1e6,
    refine: int = 3,
    rest: Callable[[], Awaitable[None]] | None = None,
) -> Trial | None:
    """The fastest lossless trial: doubled rates until one is too high, then halves between. A rate that fails
    is tried again, since machines hiccup. None where even one event a second is too many."""

    async def best_of_two(rate: float) -> Trial | None:
        for _ in range(2):
            trial = await attempt(rate)
            if rest is not None:
                await rest()
            if trial.lossless:
                return trial
        return None

    rate, found = first, await best_of_two(first)
    while found is None and rate > 1:
        rate = rate / 2
        found = await best_of_two(rate)
    if found is None:
        return None
    low, high = rate, 2 * rate
    if rate == first:
        while high <= largest and (trial := await best_of_two(high)) is not None:
            found, low, high = trial, high, 2 * high
    for _ in range(refine):
        middle = (low * high) ** 0.5
        trial = await best_of_two(middle)
        if trial is None:
            high = middle
        else:
            found, low = trial, middle
    return found
