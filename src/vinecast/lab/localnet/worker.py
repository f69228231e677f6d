"""A process of a local network: some tens of nodes that do what the parent says.

Started by ``lab/localnet/network`` as ``python -m vinecast.lab.localnet.worker``. Commands come on standard
input, news go to standard output. When the input ends, because the parent said so or because it died, the
nodes leave.
"""

import asyncio
import contextlib
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from vinecast.core.config import read
from vinecast.core.errors import ClosedError, OverloadedError, VinecastError
from vinecast.lab.localnet.distance import DistantTransport
from vinecast.lab.localnet.durable_member import StreamMember
from vinecast.lab.localnet.load import SlowReader, publish_much
from vinecast.lab.localnet.messages import (
    LINE_BYTES_MAX,
    Begin,
    Command,
    Down,
    EndTraces,
    Failed,
    Following,
    FollowTopic,
    PublishMuch,
    PublishOn,
    Ready,
    StartNode,
    StopNode,
    TracesEnded,
    Up,
    Warm,
    WorkerMessage,
    WorkerReport,
    begin_decoder,
    command_decoder,
    line,
)
from vinecast.lab.localnet.replays import record_of
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.capabilities import session_draws
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.logs import set_up_logging
from vinecast.node.runtime.loop import run
from vinecast.node.runtime.warm_up import warm_up
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.interface import LOST_INSIDE
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity
from vinecast.sim.measure.reduction import RunFacts, TraceReducer

PAYLOAD = b"vinecast net"
"""Of a local network's own events."""
LEAVE_S = 10.0  # ours: for all nodes of a process together

_LOCAL = Address("127.0.0.1", 0)
_CUT = f"down: {LOST_INSIDE}"
_REFUSED = (
    "refused: ",
    "dropped: ",
    "cards: ",
    "durable.refused",
    "streams.refused",
    "kademlia.refused",
    _CUT,
)


@dataclass
class _WorkerNode:
    """A node of this process that is up."""

    node: Node
    streams: StreamMember
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    neighbours: dict[str, tuple[int, int]] = field(default_factory=dict)
    """As last told."""
    readers: list[SlowReader] = field(default_factory=list)


class Worker:
    """The nodes of this process, and what they report."""

    def __init__(self, begin: Begin, out: asyncio.StreamWriter) -> None:
        self._network, self._config = begin.network, read(NodeConfig, begin.config, "config")
        self._report_s, self._latency_ms, self._seed = begin.report_s, begin.latency_ms, begin.seed
        self._folder = Path(begin.folder) if begin.folder is not None else None
        self._out = out
        self._members: dict[int, _WorkerNode] = {}
        self._identities: dict[int, Identity] = {}
        self._reducer = TraceReducer(frozenset(begin.measured)) if begin.measured else None
        self._past: Counter[str] = Counter()
        self._one_at_a_time = asyncio.Lock()
        self._doing: set[asyncio.Task[None]] = set()

    async def work(self, commands: asyncio.StreamReader) -> None:
        """Do what is said until there is nothing more; then let all nodes leave."""
        await asyncio.get_running_loop().run_in_executor(None, warm_up, self._config)
        await self._tell(Warm())
        reporter = asyncio.create_task(self._report_now_and_then())
        try:
            while text := await commands.readline():
                task = asyncio.create_task(self._do(command_decoder.decode(text)))
                self._doing.add(task)
                task.add_done_callback(self._doing.discard)
        finally:
            for task in (reporter, *self._doing):
                task.cancel()
            await asyncio.gather(reporter, *self._doing, return_exceptions=True)
            async with asyncio.timeout(LEAVE_S):
                await asyncio.gather(*(self._stop(number) for number in list(self._members)))
            await self._tell(self._report())

    async def _do(self, command: Command) -> None:
        try:
            match command:
                case StartNode():
                    await self._start(command)
                case StopNode(number):
                    await self._stop(number)
                    await self._tell(Down(number))
                case PublishOn(number, topic):
                    if number in self._members:
                        # The node has counted it, or leaves before it could publish.
                        with contextlib.suppress(OverloadedError, ClosedError):
                            await self._members[number].node.publish(topic, PAYLOAD, durable=False)
                case FollowTopic(number, topic, pause_s):
                    await self._follow(self._members[number], topic, pause_s)
                    await self._tell(Following(number))
                case PublishMuch(number):
                    await self._tell(await publish_much(self._members[number].node, command))
                case EndTraces(process):
                    self._end_traces()
                    await self._tell(self._report())
                    await self._tell(TracesEnded(process))
                case _:
                    await self._members[command.node].streams.do(command)
        except VinecastError as error:
            await self._tell(Failed(command.node, str(error)))

    async def _start(self, command: StartNode) -> None:
        number = command.node
        node = self._make(number, command.join)
        await node.start()
        member = self._members[number] = _WorkerNode(node, StreamMember(number, node, self._tell))
        brought = node.topics()
        key = node._peer.peer_table.card.public
        await self._tell(Up(number, _point(node.id), node.address, brought, key))
        if command.streams is None:
            subscriptions = [node.subscribe(topic) for topic in command.topics or brought]
            readers = [_read(one) for one in subscriptions]
        else:
            subscriptions = [member.streams.subscribe(topic) for topic in command.streams]
            readers = [member.streams.read(one) for one in subscriptions]
        member.tasks = [asyncio.create_task(reader) for reader in readers]
        member.tasks.append(asyncio.create_task(self._wait_until_ready(number, subscriptions)))

    def _make(self, number: int, join: list[str]) -> Node:
        """A node that is the same one whenever it is started: by its folder, or by this process's memory."""
        same: dict[str, Any] = {}
        if self._folder is not None:
            same["folder"] = self._folder / f"node-{number}"
        else:
            if number not in self._identities:
                self._identities[number] = make_identity()
            same["identity"] = self._identities[number]
        config = self._config
        if config.record:
            config = replace(config, record_folder=record_of(config.record_folder, number))
        if self._latency_ms:
            same["transport"] = self._distant(same["identity"], config)
        node = Node(join=join, network=self._network, config=config, **same)
        if self._reducer is not None:
            node.trace_to(partial(self._reducer.take, number))
        return node

    def _distant(self, identity: Identity, config: NodeConfig) -> DistantTransport:
        """What carries frames of a node that is far from others."""
        settings, system = config.transport, config.system
        made = DistantTransport(identity, _LOCAL, self._network, session_draws(), settings, system=system)
        made.at_distance(self._seed, self._latency_ms, identity.id)
        return made

    def _end_traces(self) -> None:
        """What happens from now on is no part of the run."""
        for member in self._members.values():
            if member.node._trace is not None:
                member.node._trace.close()
        self._config = replace(self._config, trace_folder="")

    async def _stop(self, number: int) -> None:
        member = self._members.pop(number, None)
        if member is not None:
            for task in member.tasks:
                task.cancel()
            await asyncio.gather(*member.tasks, return_exceptions=True)
            await member.node.close()
            self._past.update(_counted(member.node))

    async def _follow(self, member: _WorkerNode, topic: str, pause_s: float) -> None:
        subscription = member.node.subscribe(topic)
        reader = SlowReader(subscription, pause_s)
        member.readers.append(reader)
        member.tasks.append(asyncio.create_task(reader.run()))
        await subscription.ready()

    async def _wait_until_ready(self, number: int, subscriptions: list[Subscription]) -> None:
        for subscription in subscriptions:
            await subscription.ready()
        await self._tell(Ready(number))

    async def _tell(self, message: WorkerMessage) -> None:
        async with self._one_at_a_time:
            self._out.write(line(message))
            await self._out.drain()

    # Reports.

    async def _report_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._report_s)
            await self._tell(self._report())

    def _report(self) -> WorkerReport:
        counters = Counter(self._past)
        for member in self._members.values():
            counters.update(_counted(member.node))
        changed = [
            (number, topic, *pair)
            for number, member in self._members.items()
            for topic, pair in _changed_neighbours(member)
        ]
        usage = resource.getrusage(resource.RUSAGE_SELF)
        now_us = time.time_ns() // 1000  # no node's clock is behind
        return WorkerReport(
            neighbours=changed,
            facts=self._reducer.facts(now_us) if self._reducer is not None else RunFacts(now_us),
            refused={name: count for name, count in counters.items() if name.startswith(_REFUSED)},
            resident_bytes=_resident_bytes(),
            cpu_s=usage.ru_utime + usage.ru_stime,
            followed=[
                (number, *reader.told())
                for number, member in self._members.items()
                for reader in member.readers
            ],
        )


async def _read(subscription: Subscription) -> None:
    """An application that takes what comes."""
    async for _ in subscription:
        pass


def _counted(node: Node) -> Counter[str]:
    """What a node counted, what it thought of cards, and frames that never came to their end."""
    peer, driver = node._peer, node._driver
    more = {f"cards: {why}": count for why, count in peer.peer_table.counters.items()}
    return peer.counters + driver.counters + Counter({**more, _CUT: driver.transport.counters[_CUT]})


def _changed_neighbours(member: _WorkerNode) -> list[tuple[str, tuple[int, int]]]:
    """The topics whose ring neighbours are others than last told."""
    changed = []
    for topic, (lower, higher) in member.node._peer.neighbours().items():
        pair = (_point(lower), _point(higher))
        if member.neighbours.get(topic) != pair:
            member.neighbours[topic] = pair
            changed.append((topic, pair))
    return changed


def _point(peer: bytes) -> int:
    return int.from_bytes(peer[:8], "big") if peer else -1


def _resident_bytes() -> int:
    """What the process holds now; where the system does not say, the most it ever held."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def _main() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    pipe, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout
    )
    out = asyncio.StreamWriter(pipe, protocol, None, loop)
    try:
        await Worker(begin_decoder.decode(await commands.readline()), out).work(commands)
    except (BrokenPipeError, ConnectionResetError, TimeoutError):
        pass  # the parent is gone, or a node would not leave: there is nobody to tell
    finally:
        out.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends our input
    set_up_logging()
    run(_main())
