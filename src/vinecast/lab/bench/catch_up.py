"""How fast a node that was off line gets what it missed: from peers in processes of their own, over real
sockets, every signature verified and every event committed with ``fsync``.

The node comes back with the beginning of a stream, its subscription and addresses of peers; they have all of
it. Time runs from the node's start until the last event is safe with it, so that finding others counts too.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from vinecast.core.config import as_table
from vinecast.core.errors import Bug, InputError
from vinecast.core.log.batch_signature import read_signed_event
from vinecast.core.log.blocks import cid_of
from vinecast.lab.bench.durable import (
    NETWORK,
    PAYLOAD_BYTES,
    TOPIC,
    DurableSizes,
    Raw,
    Round,
    StreamMaker,
    rate_of,
)
from vinecast.lab.bench.node import Tell
from vinecast.lab.bench.result import Result
from vinecast.lab.localnet.messages import Begin, StartNode, Up, WorkerMessage
from vinecast.lab.localnet.processes import Processes
from vinecast.node.api.node import Node
from vinecast.node.api.publisher import HAND
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.loop import run
from vinecast.node.storage.identity_file import load_or_make_identity
from vinecast.node.storage.store import Store
from vinecast.node.storage.streams_store import StreamStore

CATCH_UP_MIN = 5_000
PEERS = 2  # ours
BEFORE = 4 * HAND  # ours: events that the node had before it went
LOOK_S = 0.01  # ours: between two looks how far it has come
LONG_S = 600.0  # ours: nobody waits longer


def bench_catch_up(
    sizes: DurableSizes, folder: Path | None = None, tell: Tell = lambda text: None
) -> Iterator[Result]:
    """The figure. The folder lies on the disk that is measured (None: where temporary files go)."""
    try:
        with tempfile.TemporaryDirectory(prefix="vinecast-bench-", dir=folder) as name:
            yield run(_measure(sizes, Path(name), tell))
    except OSError as error:
        raise InputError(f"cannot measure in {folder or tempfile.gettempdir()}: {error.strerror}") from None


async def _measure(sizes: DurableSizes, folder: Path, tell: Tell) -> Result:
    tell(f"a stream of {sizes.missed:,} events, at {PEERS} nodes")
    publisher = StreamMaker()
    before, missed = publisher.hands(BEFORE), publisher.hands(sizes.missed)
    for peer in range(PEERS):
        await _fill(folder / f"node-{peer}", [*before, *missed])
    rounds: list[Round] = []
    begun: list[float] = []
    async with _Peers(folder) as addresses:
        for i in range(sizes.repeat):
            tell(f"{sizes.missed:,} events, caught up with: round {i + 1} of {sizes.repeat}")
            await _fill(folder / f"away-{i}", before)
            first_s, took = await _come_back(folder / f"away-{i}", addresses, sizes.missed)
            begun.append(first_s)
            rounds.append(took)
    what = f"a node that was off line gets {sizes.missed:,} {PAYLOAD_BYTES}-byte events from {PEERS} others"
    found = rate_of(what, rounds, CATCH_UP_MIN)
    return Result(
        found.what,
        f"{found.measured}; the first after {min(begun):.2f} … {max(begun):.2f} s",
        found.value,
        found.target,
        found.meets,
    )


async def _fill(folder: Path, hands: Sequence[Sequence[Raw]]) -> None:
    """A node's folder, with these events and a subscription."""
    identity = load_or_make_identity(folder)
    store = await Store.open(folder, identity.id)
    store.add_subscription(TOPIC)
    await store.close()
    streams = await StreamStore.open(folder, identity.id)
    for hand in hands:
        await streams.room()
        events = [read_signed_event(block, cid_of(block), signature) for block, signature in hand]
        streams.keep(events, time.time_ns() // 1000)
        await asyncio.sleep(0)
    await streams.durable()
    await streams.close()


async def _come_back(folder: Path, addresses: Sequence[str], missed: int) -> tuple[float, Round]:
    """Start a node; seconds until the first event that it missed came, and what it took to get all."""
    begun, cpu = time.perf_counter(), time.process_time()
    first_s = 0.0
    async with Node(join=addresses, folder=folder, network=NETWORK) as node, asyncio.timeout(LONG_S):
        streams = node._peer.streams
        while (last := streams.safe_position(TOPIC)) < BEFORE + missed:
            if last > BEFORE and not first_s:
                first_s = time.perf_counter() - begun
            await asyncio.sleep(LOOK_S)
        took = Round(missed, time.perf_counter() - begun, time.process_time() - cpu)
    return first_s or took.seconds, took


class _Peers:
    """Nodes in processes of their own. Use it in ``async with``: it says where they are."""

    def __init__(self, folder: Path) -> None:
        begin = Begin(NETWORK, as_table(NodeConfig()), 3600.0, str(folder))
        self._processes = Processes(begin, self._hear, self._ended)
        self._addresses: list[str] = []
        self._up = asyncio.Event()

    async def __aenter__(self) -> list[str]:
        for number in range(PEERS):
            await self._processes.spawn(number)
            self._up.clear()
            await self._processes.tell(number, StartNode(number, [TOPIC], self._addresses[:1]))
            await self._up.wait()
        if len(self._addresses) < PEERS:
            raise Bug("a node of the benchmark could not start")
        return self._addresses

    async def __aexit__(self, *failure: object) -> None:
        await self._processes.close()

    def _hear(self, process: int, message: WorkerMessage) -> None:
        if isinstance(message, Up):
            self._addresses.append(message.address)
            self._up.set()

    def _ended(self, process: int, why: str) -> None:
        self._up.set()
