"""A local network, to try things: N nodes in a few processes, that publish and perhaps come and go.

The parent starts the processes (``lab/localnet/worker``), tells their nodes what to do and keeps the tally
(``lab/localnet/tally``). The nodes are real ones, with sockets and signatures; only the parent is not: it
knows everything, so that what is shown is the truth and not a node's belief. Publishing begins when all nodes
are ready and all rings complete, where there are rings, or after a while without that.
"""

import asyncio
import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from vinecast.core.config import as_table
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.core.trace_lines import SUFFIX, TraceHeading
from vinecast.lab.localnet.config import NetConfig
from vinecast.lab.localnet.crash import Crash
from vinecast.lab.localnet.hostile import HostileRun
from vinecast.lab.localnet.messages import (
    Begin,
    Command,
    Down,
    EndTraces,
    Failed,
    Following,
    PublishedMuch,
    PublishOn,
    Ready,
    StartNode,
    StopNode,
    TracesEnded,
    Up,
    WorkerMessage,
    WorkerReport,
)
from vinecast.lab.localnet.overload import Overload
from vinecast.lab.localnet.processes import Processes
from vinecast.lab.localnet.replays import check_records
from vinecast.lab.localnet.tally import NetTally
from vinecast.node.storage.trace_files import TraceFiles
from vinecast.peer.identity import node_id_of

REPORT_S = 0.5  # ours
QUICK_REPORT_S = 0.1  # ours: where somebody waits for what a process has to say
LOOK_S = 0.02  # ours
CONTACTS = 3  # ours: nodes that a new one is told to join
PATIENCE_CYCLES = 5  # ours: an event is judged after so many cycles
PATIENCE_S = 3.0  # … and at least so many seconds,
BUSY_PATIENCE_S = 15.0  # … or, where strangers keep the machine busy, so many: late is not lost
UNREADY_CYCLES = 60  # ours: publishing begins without complete rings after so many cycles
AWAY_CYCLES = 5  # ours: how long a node stays away
END_S = 10.0  # ours: for processes to tell the last of their traces
SLOW_S = 4.0  # ours: a process that is not ready by then compiles
TROUBLE_MAX = 20  # ours: nobody reads more

_UNTOLD = ("network", "given", "hostile", "overload")
"""Settings that are not part of the summary: what came of the last two stands there instead."""

T = TypeVar("T")


def _wall_us() -> int:
    return time.time_ns() // 1000


class LocalNetwork:
    """Use it in ``async with``; ``tally`` is what it knows, ``trouble`` what went wrong."""

    def __init__(self, config: NetConfig) -> None:
        draw = random.Random(config.seed)
        topics = [f"topic/{i}" for i in range(config.topics)]
        wanted = [tuple(sorted(draw.sample(topics, config.subscriptions))) for _ in range(config.nodes)]
        self.config = config
        patience_s = BUSY_PATIENCE_S if config.hostile or config.overload else PATIENCE_S
        self.patience_s = max(patience_s, PATIENCE_CYCLES * config.period_s)
        """How long after its publication an event is judged."""
        self.ended_s = 0.0
        """When the traces ended."""
        self.tally = NetTally(wanted, self.patience_s, config.period_s, config.has_rings, _wall_us())
        self._check_traces()
        if config.record:
            check_records(config.record)
        self.trouble: list[str] = []
        self.complete_after_s: float | None = None
        """When all nodes were ready and all rings complete for the first time, counted from all being up."""
        self.started = asyncio.Event()
        """Set when publishing begins."""
        self._started_s: float | None = None
        self._settled_s: float | None = None
        self._draw = draw
        comes_back = config.kill or config.churn  # and then must not count its events from 0 once more
        self._folder = tempfile.TemporaryDirectory(prefix="vinecast-net-") if comes_back else None
        begin = Begin(
            config.network,
            as_table(config.node),
            QUICK_REPORT_S if config.hostile or config.overload else REPORT_S,
            self._folder.name if self._folder else None,
            config.latency_ms,
            config.seed,
            topics,
        )
        self.processes = Processes(begin, self._hear, self._on_ended)
        self.crash = Crash(self) if config.kill else None
        self.hostile = HostileRun(self) if config.hostile else None
        self.overload = Overload(self) if config.overload else None
        self.scenario = self.crash or self.hostile or self.overload
        """What happens to the network beside its own publishing; it ends when that is done."""
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[tuple[type[Any], int], asyncio.Future[Any]] = {}
        self._reported: Counter[int] = Counter()
        self._begun = time.monotonic()
        self._all_up_s: float | None = None

    # Life.

    async def __aenter__(self) -> "LocalNetwork":
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def start(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Start the processes, then the nodes, each joining some that are up."""
        config = self.config
        say("starting processes")
        slow = asyncio.get_running_loop().call_later(SLOW_S, say, "compiling rules, once …")
        await self._unless_dead(self.processes.spawn(0))  # alone: what it compiles is there for the others
        slow.cancel()
        await self._unless_dead(*(self.processes.spawn(number) for number in range(1, config.processes)))
        say("starting nodes")
        await self._unless_dead(self.start_node(0))
        await self._unless_dead(*(self._start_nodes_of(number) for number in range(config.processes)))
        self._all_up_s = self.elapsed_s
        self._tasks.append(asyncio.create_task(self._publish()))
        if config.churn:
            self._tasks.append(asyncio.create_task(self._churn()))
        if self.scenario is not None:
            self._tasks.append(asyncio.create_task(self.scenario.run()))

    async def close(self) -> None:
        """End everything: nodes leave in good order, processes that do not end are killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.processes.close()
        if self._folder is not None:
            self._folder.cleanup()

    async def settle(self) -> None:
        """Publish no more, wait until what is under way has arrived or had its time, and end the traces."""
        self._settled_s = self.elapsed_s
        while self.tally.on_their_way and not self.is_dead:
            if self.elapsed_s - self._settled_s > PATIENCE_S and self.tally.all_arrived:
                break
            await asyncio.sleep(LOOK_S)
        running = [one for one in range(self.config.processes) if not self.processes.has_ended(one)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await asyncio.gather(
                    *(self.tell_and_wait(EndTraces(process), TracesEnded) for process in running)
                )
        self.ended_s = self.elapsed_s
        self.tally.finish()

    def kill(self) -> None:
        """End everything at once."""
        self.processes.kill_all()

    @property
    def all_up(self) -> bool:
        """Whether all nodes have been started."""
        return self._all_up_s is not None

    @property
    def publishing_s(self) -> float:
        """For how long events were published."""
        end = self.elapsed_s if self._settled_s is None else self._settled_s
        return end - self._started_s if self._started_s is not None else 0.0

    @property
    def _is_busy(self) -> bool:
        return self.started.is_set() and self._settled_s is None

    @property
    def is_dead(self) -> bool:
        """Whether no process is left that could do anything."""
        return self.processes.all_ended

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def addresses(self) -> list[str]:
        """Where nodes that are up can be joined."""
        return [member.address for member in self.tally.up]

    def _check_traces(self) -> None:
        """Say so if the folder for traces cannot be written, or has some of another run."""
        folder = self.config.node.trace_folder
        if not folder:
            return
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"the folder for traces, {folder}, cannot be written ({why})") from None
        if any(Path(folder).glob(f"*{SUFFIX}")):
            raise InputError(f"{folder} has traces of another run: name another folder, or remove them")

    # Processes.

    def _on_ended(self, process: int, why: str) -> None:
        """A process is gone; a word on why, if nobody wanted that."""
        if why:
            self.note_trouble(why)
        self.tally.on_ended(process)
        for number in self.numbers_of(process):
            for kind in (Up, Down, Following, PublishedMuch, TracesEnded):
                self._resolve(kind, number)
            if self.tally.members[number].up:
                self.lose(number)

    def lose(self, number: int) -> None:
        """A node is killed: its trace does not say that it left, so that it is said here."""
        now_us, key, node = _wall_us(), self.tally.members[number].key, self.config.node
        self.tally.on_killed(number, now_us)
        if node.trace_folder and not self.ended_s:
            heading = TraceHeading(node_id_of(key), node.system, round(node.period_s * SECOND_US))
            files = TraceFiles(Path(node.trace_folder), heading, node.trace_bytes)
            files.write([NamedRecord(now_us, heading.node, TraceKind.LEFT)])
            files.close()

    def note_trouble(self, text: str) -> None:
        """Something went wrong that should not."""
        if len(self.trouble) < TROUBLE_MAX:
            self.trouble.append(text)

    def _hear(self, process: int, message: WorkerMessage) -> None:
        match message:
            case Up(number, point, address, topics, key):
                self.tally.on_up(number, point, address, key)
                if self.crash is not None:
                    self.crash.on_up(number, point, topics)
                self._resolve(Up, number)
            case Ready(number):
                self.tally.on_ready(number)
            case Down(number) | TracesEnded(number):
                self._resolve(type(message), number)
            case Failed(number, why):
                self.note_trouble(f"node {number}: {why}")
                self._resolve(Up, number)
                self._resolve(Following, number)
            case Following(number) | PublishedMuch(number):
                self._resolve(type(message), number, message)
            case WorkerReport():
                self._reported[process] += 1
                self.tally.on_report(process, message)
                self._look_at_rings()

    def _resolve(self, kind: type[Any], number: int, told: WorkerMessage | None = None) -> None:
        future = self._waiting.pop((kind, number), None)
        if future is not None and not future.done():
            future.set_result(told)

    async def _unless_dead(self, *work: Any) -> None:
        await asyncio.gather(*work)
        if self.trouble:
            raise InputError(f"the network could not start: {self.trouble[0]}")

    # Nodes.

    def numbers_of(self, process: int) -> range:
        """The nodes of a process: every so-manieth, so that processes are equally full."""
        return range(process, self.config.nodes, self.config.processes)

    async def _tell(self, command: Command) -> None:
        await self.processes.tell(command.node % self.config.processes, command)

    async def tell_and_wait(self, command: Command, kind: type[T]) -> T | None:
        """Tell a node what to do, and wait for an answer of some kind; None when none will come."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._waiting[kind, command.node] = future
        await self._tell(command)
        return await future

    async def hear_from(self, process: int, reports: int) -> None:
        """Wait for some more reports of a process, unless it is gone."""
        wanted = self._reported[process] + reports
        while self._reported[process] < wanted and not self.processes.has_ended(process):
            await asyncio.sleep(LOOK_S)

    async def start_node(self, number: int) -> None:
        """Start a node; one that was killed is told nothing: its folder knows who it is and whom it knew."""
        member = self.tally.members[number]
        if member.up:
            return
        if self.crash is not None and number in self.crash.killed:
            await self.tell_and_wait(StartNode(number, [], []), Up)
            return
        up = self.tally.up
        contacts = self._draw.sample(up, min(CONTACTS, len(up)))
        member.contacts = tuple(contact.number for contact in contacts)
        join = [contact.address for contact in contacts]
        await self.tell_and_wait(StartNode(number, list(member.topics), join), Up)

    async def _start_nodes_of(self, process: int) -> None:
        for number in self.numbers_of(process):
            await self.start_node(number)

    def _look_at_rings(self) -> None:
        """Note when all rings are complete; begin to publish then, or when that has taken too long."""
        if self._all_up_s is None or self.complete_after_s is not None:
            return
        complete, rings, _, _ = self.tally.rings()
        waited_s = self.elapsed_s - self._all_up_s
        if complete == rings and all(member.ready for member in self.tally.up):
            self.complete_after_s = waited_s
        if self.complete_after_s is not None or waited_s > UNREADY_CYCLES * self.config.period_s:
            self.started.set()
            self._started_s = self._started_s or self.elapsed_s

    async def _publish(self) -> None:
        """Publish at the rate, each event by a random node that is ready, on one of its topics."""
        owed, last = 1.0, self.elapsed_s
        while True:
            await asyncio.sleep(0.02)
            now = self.elapsed_s
            if not self._is_busy:
                last = now
                continue
            owed, last = min(owed + (now - last) * self.config.rate, 1 + self.config.rate), now
            ready = [member for member in self.tally.up if member.ready and not self._is_taken(member.number)]
            while owed >= 1 and ready:
                owed -= 1
                member = self._draw.choice(ready)
                await self._tell(PublishOn(member.number, self._draw.choice(member.topics)))

    def _is_taken(self, number: int) -> bool:
        """Whether a node has enough to publish already."""
        return self.overload is not None and number == self.overload.publisher

    async def _churn(self) -> None:
        """Let nodes leave, one at a time, and come back a little later."""
        pause_s = 60.0 / (self.config.churn * self.config.nodes)
        while True:
            await asyncio.sleep(self._draw.expovariate(1 / pause_s))
            ready = [member for member in self.tally.up if member.ready]
            if self._is_busy and len(ready) > max(2, self.config.nodes // 2):
                number = self._draw.choice(ready).number
                self._tasks = [task for task in self._tasks if not task.done()]
                self._tasks.append(asyncio.create_task(self._go_and_come_back(number)))

    async def _go_and_come_back(self, number: int) -> None:
        self.tally.on_leaving(number)
        await self.tell_and_wait(StopNode(number), Down)
        await asyncio.sleep(AWAY_CYCLES * self.config.period_s)
        await self.start_node(number)

    # What came of it.

    def summary(self) -> dict[str, Any]:
        """Everything in numbers."""
        tally, meter = self.tally, self.tally.meter
        complete, rings, right, links = tally.rings()
        resident = sum(report.resident_bytes for report in tally.reports.values())
        measures = meter.measures()
        return {
            **{key: value for key, value in asdict(self.config).items() if key not in _UNTOLD},
            "system": self.config.given.system,
            "processes": self.config.processes,
            "seconds": round(self.elapsed_s, 3),
            "up": len(tally.up),
            "left": tally.left,
            "came_back": tally.came_back,
            "rings": {"complete": complete, "of": rings},
            "ring_links": {"right": right, "of": links},
            "rings_complete_after_s": self.complete_after_s and round(self.complete_after_s, 3),
            "events": meter.published,
            "deliveries": {
                "expected": measures["due"],
                "got": measures["hits"],
                "repeated": meter.repeated,
                "strays": tally.strays,
            },
            "measures": measures,
            "patience_s": self.patience_s,
            "control": {kind: list(counted) for kind, counted in meter.control().items()},
            "link_latency_ms": meter.link_latency_ms,
            "dropped": dict(sorted(meter.dropped.items())),
            "refused": dict(tally.refused()),
            "resident_mb": round(resident / 1e6, 1),
            "resident_mb_per_node": round(resident / 1e6 / self.config.nodes, 2),
            "cpu_s": round(sum(report.cpu_s for report in tally.reports.values()), 2),
            **({self.scenario.NAME: self.scenario.summary()} if self.scenario is not None else {}),
            "trouble": self.trouble,
        }
