"""Durable streams on real processes, while somebody kills them: one node a process, and the checker of
simulated runs.

The parent is the application of every node: it has events published, is handed what consumers read, and keeps
the ledger (``lab/localnet/ledger``). What is done to the processes: ``lab/localnet/durable_kinds``.
"""

import asyncio
import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from vinecast.core.config import as_table
from vinecast.core.errors import TimedOutError
from vinecast.lab.localnet.ledger import NETWORK, TOPIC, Ledger, LedgerOutcome
from vinecast.lab.localnet.messages import (
    AckStream,
    Begin,
    Command,
    Consumed,
    Failed,
    Handed,
    PublishStream,
    Ready,
    Safe,
    Shown,
    StartNode,
    Stream,
    TellStream,
    Unpublished,
    Up,
    WorkerMessage,
    WorkerReport,
)
from vinecast.lab.localnet.processes import Processes
from vinecast.node.runtime.config import NodeConfig

REPORT_S = 0.2  # ours
LOOK_S = 0.02  # ours: between two looks whether all streams are equal
STAYS_S = 0.5  # ours: for which they must stay so
TURN_S = 0.05  # ours: between two turns of publishing
RECEIPT_S = 3.0  # ours: that a receipt waits for holders
CONTACTS = 3  # ours: nodes that a new one is told to join
TROUBLE_MAX = 20  # ours: nobody reads more

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LiveSize:
    """How large a run is. All values are ours."""

    nodes: int = 6
    """Processes, each with one node."""
    events: int = 60
    """That are published at least."""
    hand: int = 3
    """Of these, how many at once."""
    kills: int = 3
    """Processes that are killed one by one, where some are."""
    rounds: int = 1
    """Runs, each a network of its own."""
    replicas: int = 4
    holders: int = 3
    """k: others that hold an event that counts as acknowledged, where some die for good."""
    period_s: float = 0.2
    patience_s: float = 60.0
    """For streams to become equal after the last fault, and for anything else."""


@dataclass(slots=True)
class _DurableProcess:
    """A process that runs one node, as the parent knows it."""

    point: int = -1
    address: str = ""
    up: bool = False
    ready: bool = False
    reads: bool = False


class DurableRun:
    """One run; use it in ``async with``. ``on_safe`` is told of every receipt."""

    def __init__(self, size: LiveSize, seed: int, holders: int) -> None:
        """``holders``: how many a receipt waits for, though not for long."""
        self.size, self.draw = size, random.Random(seed)
        self.outcome = LedgerOutcome()
        self.ledger = Ledger(self.outcome, lambda number: self._members[number].point)
        self.on_safe: Callable[[Safe], None] = lambda safe: None
        self._members: dict[int, _DurableProcess] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="vinecast-durable-")
        config = NodeConfig(
            period_s=size.period_s, replicas=size.replicas, holders=holders, publish_wait_s=RECEIPT_S
        )
        begin = Begin(NETWORK, as_table(config), REPORT_S, self._folder.name)
        self.processes = Processes(begin, self._hear, self._on_ended, compiled=False)
        self._waiting: dict[tuple[type[Any], int], asyncio.Future[Any]] = {}
        self._doing: set[asyncio.Task[None]] = set()
        self._reports: dict[int, WorkerReport] = {}
        self._reported: Counter[int] = Counter()
        self._refused: Counter[str] = Counter()
        """What processes refused that are gone."""
        self._quiet_s = time.monotonic()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._doing:
            task.cancel()
        await asyncio.gather(*self._doing, return_exceptions=True)
        self.processes.kill_all()
        await self.processes.close()
        self._folder.cleanup()

    # Processes and nodes.

    async def spawn(self, numbers: Iterable[int]) -> None:
        """Start processes; their nodes come later."""
        wanted = list(numbers)
        for number in wanted:
            self._members.setdefault(number, _DurableProcess())
        await asyncio.gather(*map(self.processes.spawn, wanted))
        self.outcome.processes = len(self._members)

    async def start(self, number: int, reads: bool = True, join: Sequence[int] | None = None) -> None:
        """Start a node, which joins some that are up, or these."""
        member, up = self._members[number], self.up
        contacts = self.draw.sample(up, min(CONTACTS, len(up))) if join is None else join
        member.reads, member.ready = reads, False
        addresses = [self._members[one].address for one in contacts]
        await self.ask(StartNode(number, [], addresses, [TOPIC] if reads else []), Up)

    async def start_all(self, numbers: Iterable[int], reads: bool = True) -> None:
        """Start processes and their nodes, and wait until events would reach all of them."""
        wanted = list(numbers)
        await self.spawn(wanted)
        for number in wanted:
            await self.start(number, reads)
        await self.ready()

    async def ready(self) -> None:
        """Wait until events would reach all nodes that are up."""
        await self.until(lambda: all(self._members[number].ready for number in self.up), "nodes are ready")

    async def kill(self, *numbers: int) -> None:
        """Kill processes, all at once, and wait until they are gone."""
        for number in numbers:
            self.kill_now(number)
        await asyncio.gather(*map(self.processes.kill, numbers))

    def kill_now(self, number: int) -> None:
        """Kill a process, without waiting."""
        self.outcome.killed += self._members[number].up
        self._members[number].up = False
        self.processes.kill_now(number)

    async def revive(self, *numbers: int, join: Sequence[int] | None = None) -> None:
        """Start killed processes again; their folders know who they are and what they kept."""
        await self.spawn(numbers)
        for number in numbers:
            await self.start(number, self._members[number].reads, join)

    @property
    def up(self) -> list[int]:
        """Nodes that are up."""
        return [number for number, member in self._members.items() if member.up]

    def address_of(self, number: int) -> str:
        """Where a node is."""
        return self._members[number].address

    def number_at(self, point: int) -> int:
        """The node at a point of the circle."""
        return next(number for number, member in self._members.items() if member.point == point)

    # What they are told, and tell.

    async def tell(self, command: Command) -> None:
        """Tell a node what to do."""
        await self.processes.tell(command.node, command)

    async def ask(self, command: Command, kind: type[T]) -> T:
        """Tell a node what to do, and wait for the answer."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[kind, command.node] = future
        await self.tell(command)
        async with asyncio.timeout(self.size.patience_s):
            return await future

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something to be so; TimedOutError when it does not become so."""
        try:
            async with asyncio.timeout(self.size.patience_s):
                while not holds():
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise TimedOutError(f"not within {self.size.patience_s:g} s: {what}") from None

    async def publish(self, number: int, events: int) -> None:
        """Have a node publish some events; receipts come later."""
        await self.tell(PublishStream(number, TOPIC, self.ledger.order(number, events)))

    @contextlib.asynccontextmanager
    async def publishing(self, numbers: Sequence[int]) -> AsyncIterator[None]:
        """These nodes publish meanwhile, by turns, as long as they are up."""
        task = asyncio.create_task(self._publish(numbers))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _publish(self, numbers: Sequence[int]) -> None:
        while True:
            there = [number for number in numbers if self._members[number].up]
            if there:
                await self.publish(self.draw.choice(there), self.size.hand)
            await asyncio.sleep(TURN_S)

    async def ordered_more(self, events: int) -> None:
        """Wait until so many events more were ordered."""
        wanted = self.ledger.ordered + events
        await self.until(lambda: self.ledger.ordered >= wanted, "nodes publish")

    async def publish_on(self, numbers: Sequence[int], events: int) -> None:
        """Have these nodes publish so many events at least, and wait for their receipts."""
        async with self.publishing(numbers):
            await self.ordered_more(events)
        await self.until(lambda: not self.ledger.unanswered, "receipts")

    async def hear_all(self) -> None:
        """Wait for reports that are written from now on."""
        wanted = {number: self._reported[number] + 2 for number in self.up}
        await self.until(
            lambda: all(self._reported[number] >= count for number, count in wanted.items()), "reports"
        )

    def _on_ended(self, process: int, why: str) -> None:
        self._members[process].up = False
        report = self._reports.pop(process, None)
        self._refused.update(report.refused if report is not None else {})
        self.ledger.on_gone(process)
        if why:
            self.outcome.faults.append(why)

    def _hear(self, process: int, message: WorkerMessage) -> None:
        match message:
            case Up(number, point, address):
                member = self._members[number]
                member.point, member.address, member.up = point, address, True
                self._resolve(Up, number, message)
            case Ready(number):
                self._members[number].ready = True
            case Failed(number, why):
                self._note_trouble(number, why)
                self._disappoint(number, why)
            case Unpublished(number, payload, why):
                self.ledger.unanswered.pop(payload, None)
                self._note_trouble(number, why)
            case Safe():
                self.ledger.on_safe(message)
                self.on_safe(message)
            case Handed(number, topic):
                self._do(self.tell(AckStream(number, topic, self.ledger.on_handed(message))))
            case Consumed():
                self.ledger.on_consumed(message)
            case Stream(number) | Shown(number):
                self._resolve(type(message), number, message)
            case WorkerReport():
                self._reports[process] = message
                self._reported[process] += 1

    def _note_trouble(self, number: int, why: str) -> None:
        if len(self.outcome.trouble) < TROUBLE_MAX:
            self.outcome.trouble.append(f"node {number}: {why}")

    def _resolve(self, kind: type[Any], number: int, told: WorkerMessage) -> None:
        future = self._waiting.pop((kind, number), None)
        if future is not None and not future.done():
            future.set_result(told)

    def _disappoint(self, number: int, why: str) -> None:
        """A node will not answer."""
        for (kind, who), future in list(self._waiting.items()):
            if who == number:
                del self._waiting[kind, who]
                future.set_exception(TimeoutError(f"node {number}: {why}"))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)

    # The end.

    def mark(self) -> None:
        """The last fault is over."""
        self._quiet_s = time.monotonic()

    async def converge(self, enough: int) -> float:
        """Wait until all readers that are up have the same events, and among them all that ``enough`` others
        hold; seconds since the last fault."""
        equal_s = 0.0
        end_s = time.monotonic() + self.size.patience_s
        while time.monotonic() < end_s:
            if not self.ledger.is_equal(self._readers(), enough):
                equal_s = 0.0
            elif not equal_s:
                equal_s = time.monotonic()
            elif time.monotonic() >= equal_s + STAYS_S:
                break
            await asyncio.sleep(LOOK_S)
        else:
            self.outcome.faults.append("the streams did not become equal in time")
        took_s = (equal_s or end_s) - self._quiet_s
        self.outcome.converged_s = max(took_s, self.outcome.converged_s)
        return took_s

    async def finish(self, enough: int) -> LedgerOutcome:
        """See what was broken."""
        ends = {}
        for number in self._readers():
            ends[number] = (await self.ask(TellStream(number, TOPIC), Stream)).cids
        self.ledger.close(ends, enough)
        for report in self._reports.values():
            self._refused.update(report.refused)
        self.outcome.refused = dict(self._refused)
        return self.outcome

    def _readers(self) -> list[int]:
        return [number for number in self.up if self._members[number].reads]
