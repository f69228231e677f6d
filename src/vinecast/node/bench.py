"""Speed of live nodes, on loopback: what two nodes can do, each in a process of its own.

On a machine that others use too, CPU time per event is the stable figure; rates stand beside it. Every event
is signed by its publisher, and its signature verified by the subscriber before the application gets it.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from vinecast.node.config import NodeConfig
from vinecast.node.loop import run
from vinecast.node.node import Node

TOPIC = "bench"
PAYLOAD_BYTES = 256
CONFIG = NodeConfig(period_s=0.2, waiting=10_000_000)
PATIENCE_S = 60.0
HAND = 256  # events that a publisher with many in hand publishes at a time
CALM_RATE = 1000  # events a second while latency is measured


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the benchmark."""

    what: str
    measured: str
    value: float
    target: str = ""
    meets: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def bench_node(events: int) -> Iterator[Result]:
    """All figures; ``events``: how many are published for each."""
    yield from run(_two_nodes(events))


async def _two_nodes(events: int) -> list[Result]:
    async with Node(config=CONFIG) as node, _subscriber(node.address) as child:
        await node.subscribe(TOPIC).close()
        await _told(child, "ready")
        while not node.driver.machine.cyclon.view.size:
            await node.driver.next_cycle()
        found = []
        for hand, target, name in ((1, 6_000, "one by one"), (HAND, 30_000, f"{HAND} in hand")):
            found += await _rate(node, child, events, hand, target, name)
        found.append(await _latency(node, child, min(events, 2 * CALM_RATE)))
        return found


async def _rate(
    node: Node, child: "asyncio.subprocess.Process", events: int, hand: int, target: int, name: str
) -> list[Result]:
    """Publish as fast as it goes, until the subscriber has all."""
    await _say(child, {"expect": events})
    await _told(child, "expecting")
    payload = bytes(PAYLOAD_BYTES)
    cpu, begin = time.process_time(), time.perf_counter()
    for at in range(0, events, hand):
        if hand == 1:
            await node.publish(TOPIC, payload)
        else:
            await asyncio.gather(*(node.publish(TOPIC, payload) for _ in range(min(hand, events - at))))
    told = await _told(child, "got")
    seconds = time.perf_counter() - begin
    cpu_us = (time.process_time() - cpu + told["cpu_s"]) / events * 1e6
    rate = told["events"] / seconds
    what = f"two nodes, {PAYLOAD_BYTES}-byte events, signed, {name}"
    return [
        Result(f"{what}: events a second", f"{rate:,.0f}", rate, f"≥ {target:,}", rate >= target),
        Result(f"{what}: CPU time an event, both nodes", f"{cpu_us:.0f} µs", cpu_us),
        Result(
            f"{what}: lost",
            f"{events - told['events']:,}",
            events - told["events"],
            "0",
            told["events"] == events,
        ),
    ]


async def _latency(node: Node, child: "asyncio.subprocess.Process", events: int) -> Result:
    """Publish at a calm rate; the subscriber compares clocks, which on one machine are the same."""
    await _say(child, {"expect": events, "latency": True})
    await _told(child, "expecting")
    begin = time.perf_counter()
    for i in range(events):
        await node.publish(TOPIC, time.time_ns().to_bytes(8, "big") + bytes(PAYLOAD_BYTES - 8))
        ahead = begin + (i + 1) / CALM_RATE - time.perf_counter()
        if ahead > 0:
            await asyncio.sleep(ahead)
    told = await _told(child, "got")
    p50 = told["p50_ms"]
    what = f"two nodes, {CALM_RATE:,} events a second: latency, median"
    return Result(what, f"{p50:.2f} ms (99 of 100 within {told['p99_ms']:.2f} ms)", p50, "≤ 1 ms", p50 <= 1)


# The other process.


@contextlib.asynccontextmanager
async def _subscriber(address: str) -> AsyncIterator["asyncio.subprocess.Process"]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "vinecast.node.bench", address,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _say(child: "asyncio.subprocess.Process", what: dict[str, Any]) -> None:
    assert child.stdin is not None
    child.stdin.write(json.dumps(what).encode() + b"\n")
    await child.stdin.drain()


async def _told(child: "asyncio.subprocess.Process", what: str) -> dict[str, Any]:
    assert child.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        told: dict[str, Any] = json.loads(await child.stdout.readline())
    assert told["is"] == what, told
    return told


async def _subscribe(address: str) -> None:
    """What the child does: read, and tell how many came in how much CPU time."""
    loop = asyncio.get_running_loop()
    async with Node(join=[address], config=CONFIG) as node:
        subscription = node.subscribe(TOPIC)
        await node.driver.joined.wait()
        for _ in range(3):
            await node.driver.next_cycle()
        _tell({"is": "ready"})
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            asked = json.loads(line)
            cpu = time.process_time()
            _tell({"is": "expecting"})
            took_ms: list[float] = []
            got = 0
            with contextlib.suppress(TimeoutError):
                while got < asked["expect"]:
                    async with asyncio.timeout(5):
                        event = await anext(subscription)
                    got += 1
                    if asked.get("latency"):
                        took_ms.append((time.time_ns() - int.from_bytes(event.payload[:8], "big")) / 1e6)
            took_ms.sort()
            told = {"is": "got", "events": got, "cpu_s": time.process_time() - cpu}
            if took_ms:
                told |= {"p50_ms": took_ms[len(took_ms) // 2], "p99_ms": took_ms[len(took_ms) * 99 // 100]}
            _tell(told)


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(_subscribe(sys.argv[1]))
