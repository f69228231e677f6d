"""A local network, to try things: N nodes in a few processes, that publish and perhaps come and go.

The parent starts the processes (``node/net_worker``), tells their nodes what to do and keeps the books
(``node/net_tally``). The nodes are real ones, with sockets and signatures; only the parent is not: it knows
everything, so that what is shown is the truth and not a node's belief. Publishing begins when all rings are
complete, or after a while without that.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from vinecast.core.config import as_table, check, limited
from vinecast.core.errors import InputError
from vinecast.node.config import NodeConfig
from vinecast.node.net_messages import (
    LINE_BYTES_MAX,
    Begin,
    Command,
    Down,
    Failed,
    PublishOn,
    Ready,
    Report,
    StartNode,
    StopNode,
    Up,
    Warm,
    line,
    told_decoder,
)
from vinecast.node.net_tally import Tally

PROCESS_NODES = 25  # ours: nodes that share a process
REPORT_S = 0.5  # ours
CONTACTS = 3  # ours: nodes that a new one is told to join
PATIENCE_CYCLES = 5  # ours: an event is judged after so many cycles
PATIENCE_S = 3.0  # … and at least so many seconds
UNREADY_CYCLES = 60  # ours: publishing begins without complete rings after so many cycles
AWAY_CYCLES = 5  # ours: how long a node stays away
SLOW_S = 4.0  # ours: a process that is not ready by then compiles
TROUBLE_MAX = 20  # ours: nobody reads more
END_S = 15.0  # ours: for a process to end before it is killed


@dataclass(frozen=True, slots=True)
class NetConfig:
    """What a local network is like."""

    nodes: int = limited(25, at_least=1, at_most=2000)
    topics: int = limited(10, at_least=1, at_most=10_000)
    """Different topics: topic/0, topic/1, …"""
    subscriptions: int = limited(4, at_least=1, at_most=1000)
    """Topics that each node subscribes to, drawn at random."""
    period_s: float = limited(0.5, at_least=0.05, at_most=60.0)
    """Seconds between two exchanges of each gossip layer."""
    rate: float = limited(5.0, at_least=0.0, at_most=10_000.0)
    """Events a second, of all nodes together."""
    churn: float = limited(0.0, at_least=0.0, at_most=60.0)
    """The share of the nodes that leave each minute, and come back a few cycles later."""
    seed: int = limited(1, at_least=0)
    network: str = "local"

    def __post_init__(self) -> None:
        check(self)
        if self.subscriptions > self.topics:
            raise InputError(
                f"a node cannot subscribe to {self.subscriptions} of {self.topics} topics: more --topics"
            )


@dataclass
class _Process:
    """A worker process as the parent holds it."""

    number: int
    process: asyncio.subprocess.Process
    warm: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False


class LocalNetwork:
    """Use it in ``async with``; ``tally`` is what it knows, ``trouble`` what went wrong."""

    def __init__(self, config: NetConfig) -> None:
        draw = random.Random(config.seed)
        topics = [f"topic/{i}" for i in range(config.topics)]
        wanted = [tuple(sorted(draw.sample(topics, config.subscriptions))) for _ in range(config.nodes)]
        self.config = config
        self.tally = Tally(wanted, max(PATIENCE_S, PATIENCE_CYCLES * config.period_s))
        self.trouble: list[str] = []
        self.complete_after_s: float | None = None
        """When all rings were complete for the first time, counted from all nodes being up."""
        self.started = asyncio.Event()
        """Set when publishing begins."""
        self._started_s: float | None = None
        self._settled_s: float | None = None
        self._draw = draw
        self._processes: list[_Process] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[tuple[type[Any], int], asyncio.Future[None]] = {}
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
        begin = Begin(config.network, as_table(NodeConfig(period_s=config.period_s)), REPORT_S)
        say("starting processes")
        await self._spawn(begin, 1)  # one alone first: what it compiles is there for the others
        slow = asyncio.get_running_loop().call_later(SLOW_S, say, "compiling rules, once …")
        await self._unless_dead(self._processes[0].warm.wait())
        slow.cancel()
        await self._spawn(begin, self.processes - 1)
        await self._unless_dead(*(one.warm.wait() for one in self._processes))
        say("starting nodes")
        await self._unless_dead(self._start_node(0))
        await self._unless_dead(*(self._start_nodes_of(one.number) for one in self._processes))
        self._all_up_s = self.elapsed_s
        self._tasks.append(asyncio.create_task(self._publish()))
        if config.churn:
            self._tasks.append(asyncio.create_task(self._churn()))

    async def close(self) -> None:
        """End everything: nodes leave in good order, processes that do not end are killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._processes:
            if one.process.stdin is not None:
                one.process.stdin.close()
        await asyncio.gather(*(self._bury(one.process) for one in self._processes))
        self._processes = []

    async def settle(self) -> None:
        """Publish no more, and wait until what is under way is judged."""
        self._settled_s = self.elapsed_s
        while self.tally.on_their_way:
            self.tally.judge(self.elapsed_s)
            await asyncio.sleep(0.05)

    def kill(self) -> None:
        """End everything at once."""
        for one in self._processes:
            with contextlib.suppress(ProcessLookupError):
                one.process.kill()

    @property
    def processes(self) -> int:
        """How many processes the nodes share."""
        return -(-self.config.nodes // PROCESS_NODES)

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
        return bool(self._processes) and all(one.ended for one in self._processes)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def addresses(self) -> list[str]:
        """Where nodes that are up can be joined."""
        return [member.address for member in self.tally.up]

    # Processes.

    async def _spawn(self, begin: Begin, count: int) -> None:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "vinecast.node.net_worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
                start_new_session=True,  # Ctrl-C on the terminal is for the parent alone
            )
            one = _Process(len(self._processes), process)
            self._processes.append(one)
            assert process.stdin is not None
            process.stdin.write(line(begin))
            self._tasks.append(asyncio.create_task(self._listen(one)))

    async def _listen(self, one: _Process) -> None:
        """Hear what a process tells, until it ends."""
        assert one.process.stdout is not None
        async for text in one.process.stdout:
            self._hear(one, text)
        told = f"process {one.number} ended by itself (exit code {await one.process.wait()})"
        self._note_trouble(told)
        one.ended = True
        one.warm.set()
        for number in self._numbers_of(one.number):
            for kind in (Up, Down):
                self._resolve(kind, number)
            if self.tally.members[number].up:
                self.tally.on_leaving(number)

    def _note_trouble(self, text: str) -> None:
        if len(self.trouble) < TROUBLE_MAX:
            self.trouble.append(text)

    def _hear(self, one: _Process, text: bytes) -> None:
        message = told_decoder.decode(text)
        match message:
            case Warm():
                one.warm.set()
            case Up(number, point, address):
                self.tally.on_up(number, point, address)
                self._resolve(Up, number)
            case Ready(number):
                self.tally.on_ready(number)
            case Down(number):
                self._resolve(Down, number)
            case Failed(number, why):
                self._note_trouble(f"node {number}: {why}")
                self._resolve(Up, number)
            case Report():
                self.tally.on_report(one.number, message)
                self._look_at_rings()

    def _resolve(self, kind: type[Any], number: int) -> None:
        future = self._waiting.pop((kind, number), None)
        if future is not None and not future.done():
            future.set_result(None)

    async def _unless_dead(self, *work: Any) -> None:
        await asyncio.gather(*work)
        if self.trouble:
            raise InputError(f"the network could not start: {self.trouble[0]}")

    async def _bury(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    # Nodes.

    def _numbers_of(self, process: int) -> range:
        """The nodes of a process: every so-manieth, so that processes are equally full."""
        return range(process, self.config.nodes, self.processes)

    async def _tell(self, command: Command) -> None:
        stdin = self._processes[command.node % self.processes].process.stdin
        assert stdin is not None
        with contextlib.suppress(ConnectionError):  # its end is noticed where it is listened to
            stdin.write(line(command))
            await stdin.drain()

    async def _tell_and_wait(self, command: Command, kind: type[Any]) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting[kind, command.node] = future
        await self._tell(command)
        await future

    async def _start_node(self, number: int) -> None:
        if self.tally.members[number].up:
            return
        up = self.addresses()
        join = self._draw.sample(up, min(CONTACTS, len(up)))
        await self._tell_and_wait(StartNode(number, list(self.tally.members[number].topics), join), Up)

    async def _start_nodes_of(self, process: int) -> None:
        for number in self._numbers_of(process):
            await self._start_node(number)

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
        number, owed, last = 0, 1.0, self.elapsed_s
        while True:
            await asyncio.sleep(0.02)
            now = self.elapsed_s
            self.tally.judge(now)
            if not self._is_busy:
                last = now
                continue
            owed, last = min(owed + (now - last) * self.config.rate, 1 + self.config.rate), now
            ready = [member for member in self.tally.up if member.ready]
            while owed >= 1 and ready:
                owed -= 1
                member = self._draw.choice(ready)
                topic = self._draw.choice(member.topics)
                self.tally.on_published(number, topic, member.number, now)
                await self._tell(PublishOn(member.number, topic, number))
                number += 1

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
        await self._tell_and_wait(StopNode(number), Down)
        await asyncio.sleep(AWAY_CYCLES * self.config.period_s)
        await self._start_node(number)

    # What came of it.

    def summary(self) -> dict[str, Any]:
        """Everything in numbers."""
        tally = self.tally
        complete, rings, right, links = tally.rings()
        resident = sum(report.resident_bytes for report in tally.reports.values())
        totals = tally.totals
        return {
            **{key: value for key, value in asdict(self.config).items() if key != "network"},
            "processes": self.processes,
            "seconds": round(self.elapsed_s, 3),
            "up": len(tally.up),
            "left": tally.left,
            "came_back": tally.came_back,
            "rings": {"complete": complete, "of": rings},
            "ring_links": {"right": right, "of": links},
            "rings_complete_after_s": self.complete_after_s and round(self.complete_after_s, 3),
            "events": totals.events,
            "deliveries": {
                "expected": totals.due,
                "got": totals.got,
                "repeated": totals.repeated,
                "strays": totals.strays,
            },
            "hops_mean": round(tally.hops_mean(), 4),
            "hops_max": totals.hops_max,
            "duplication": round(tally.duplication(), 4),
            "refused": dict(tally.refused()),
            "resident_mb": round(resident / 1e6, 1),
            "resident_mb_per_node": round(resident / 1e6 / self.config.nodes, 2),
            "cpu_s": round(sum(report.cpu_s for report in tally.reports.values()), 2),
            "trouble": self.trouble,
        }
