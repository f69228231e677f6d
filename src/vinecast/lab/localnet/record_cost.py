"""What it costs a node to be recorded: CPU a delivery without a record, with one, and with one without
payloads, in turns.

    python -m vinecast.lab.localnet.record_cost

Four nodes in one process, over TLS on loopback, with folders; all publish on one topic that all read. CPU is
the whole process's, the threads that write included.
"""

import asyncio
import resource
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import WITHOUT_PAYLOADS, NodeConfig
from vinecast.node.runtime.loop import run
from vinecast.node.storage.record_writer import SUFFIX

NODES, HANDS, HAND, PAYLOAD_BYTES, TURNS = 4, 100, 20, 100, 5
"""Hands of events that are published at once, and turns of which the median counts (ours)."""
MODES: dict[str, bool | str] = {"not recorded": False, "recorded": True, "without payloads": WITHOUT_PAYLOADS}
PATIENCE_S = 120.0


class RecordCost(NamedTuple):
    """What one run took, a delivery."""

    cpu_us: float
    record_bytes: float


async def measure(record: bool | str, durable: bool) -> RecordCost:
    """One run."""
    folder, nodes = Path(tempfile.mkdtemp(prefix="vinecast-cost-")), list[Node]()
    try:
        for number in range(NODES):
            config = NodeConfig(period_s=0.5, record=record)
            join = [node.address for node in nodes[:1]]
            nodes.append(await Node(join=join, folder=folder / str(number), config=config).start())
        readers = [node.subscribe("news") for node in nodes]
        for reader in readers:
            await reader.ready()
        before_s = _cpu_s()
        reading = asyncio.gather(*map(_read, readers))
        for hand in range(HANDS):
            payloads = [bytes(PAYLOAD_BYTES)] * HAND
            await nodes[hand % NODES].publish_all("news", payloads, durable=durable)
        async with asyncio.timeout(PATIENCE_S):
            await reading
        deliveries, used_s = NODES * HANDS * HAND, _cpu_s() - before_s
        size = sum(path.stat().st_size for path in folder.rglob(f"*{SUFFIX}"))
        return RecordCost(used_s / deliveries * 1e6, size / deliveries)
    finally:
        for node in nodes:
            await node.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _read(reader: Subscription) -> None:
    for _ in range(HANDS * HAND):
        await anext(reader)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def report(durable: bool) -> list[str]:
    """Lines of a table."""
    runs: dict[str, list[RecordCost]] = {name: [] for name in MODES}
    run(measure(False, durable))  # what is compiled then is there for the others
    for _ in range(TURNS):
        for name, record in MODES.items():
            runs[name].append(run(measure(record, durable)))
    lines, plain = [], statistics.median(cost.cpu_us for cost in next(iter(runs.values())))
    for name, costs in runs.items():
        cpu_us = statistics.median(cost.cpu_us for cost in costs)
        size = statistics.median(cost.record_bytes for cost in costs)
        what = "durable" if durable else "volatile"
        lines.append(f"| {what} | {name} | {cpu_us:.0f} µs | {cpu_us / plain:.2f} | {size:,.0f} |")
    return lines


if __name__ == "__main__":
    heading = "| events | the nodes | CPU a delivery | beside none | bytes of record a delivery |"
    print("\n".join([heading, "| --- | --- | --- | --- | --- |"]))  # noqa: T201
    for kept in (False, True):
        print("\n".join(report(kept)), flush=True)  # noqa: T201
