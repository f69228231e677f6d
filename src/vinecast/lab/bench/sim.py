"""Speed and memory of the simulator, next to the targets we set ourselves.

The machines that this runs on are noisy: every figure is the best of several rounds, what is compared is
measured in turns within one run, and memory is measured in a process of its own.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from vinecast.core.errors import InputError
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.result import Result, at_most
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.overlay import random_views

SEED = 1
WARM_UP = 5
SMALLEST = 100


def cyclon_engine(nodes: int, setting: str, threads: int) -> SweepEngine:
    """A Cyclon population with random views, everybody on line."""
    config = CyclonConfig()
    sweep = CyclonSweep(config, SEED, nodes)
    sweep.start(np.arange(nodes), random_views(SEED, nodes, config.view_size))
    return SweepEngine(sweep, config.period_us, setting, threads)


def seconds_a_cycle(
    engines: list[SweepEngine], rounds: int, cycles: int = 3, warm_up: int = WARM_UP
) -> list[float]:
    """The best time of a cycle for each engine, measured in turns."""
    for engine in engines:
        engine.run(warm_up)
    best = [float("inf")] * len(engines)
    for _ in range(rounds):
        for i, engine in enumerate(engines):
            begin = time.perf_counter()
            engine.run(cycles)
            best[i] = min(best[i], (time.perf_counter() - begin) / cycles)
    return best


def growth_exponent(sizes: Sequence[float], seconds: list[float]) -> float:
    """The exponent b of seconds ≈ a · size^b."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def events_a_second(nodes: int, cycles: int) -> float:
    """Machine events a second of Cyclon on the event engine, timers spread, one constant latency."""
    config = CyclonConfig(period_s=1.0)
    engine = EventEngine(
        lambda node: Cyclon(config, SEED, node), nodes, SEED, Network(NetworkConfig(), SEED, nodes)
    )
    views = random_views(SEED, nodes, config.view_size)
    for node in range(nodes):
        engine.start(node, node * config.period_us // nodes, tuple(views[node].tolist()))
    engine.run(2 * config.period_us)
    handled, begin = engine.handled, time.perf_counter()
    engine.run((2 + cycles) * config.period_us)
    return (engine.handled - handled) / (time.perf_counter() - begin)


def child(code: str, *arguments: str, **environment: str) -> str:
    """Run Python code in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def peak_bytes() -> int:
    """The most memory that this process had. What getrusage says includes what its parent had before."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_MEMORY = """
import json, sys, time
from vinecast.lab.bench.sim import cyclon_engine, peak_bytes
engine = cyclon_engine(int(sys.argv[1]), "synchronous", int(sys.argv[2]))
begin = time.perf_counter()
engine.run(2)
seconds = (time.perf_counter() - begin) / 2
print(json.dumps({"gb": peak_bytes() / 1e9, "seconds": seconds}))
"""

_FIRST_CYCLE = """
import time
begin = time.perf_counter()
from vinecast.lab.bench.sim import cyclon_engine
cyclon_engine(100, "synchronous", 1).run(1)
print(time.perf_counter() - begin)
"""


def cold_start(rounds: int) -> float:
    """Seconds that ``vinecast --help`` takes in a new process, the best of several."""

    def once() -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "vinecast", "--help"], check=True, capture_output=True)
        return time.perf_counter() - begin

    return min(once() for _ in range(rounds))


def bench_sim(nodes: int, rounds: int, largest: int, threads: int = 2) -> Iterator[Result]:
    """All figures, one after the other."""
    if min(nodes, largest) < SMALLEST:
        raise InputError(f"a benchmark needs at least {SMALLEST} nodes")
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    engines = [
        cyclon_engine(nodes, "sequential", 1),
        cyclon_engine(nodes, "synchronous", 1),
        cyclon_engine(nodes, "synchronous", threads),
    ]
    sequential, one, many = seconds_a_cycle(engines, rounds)
    at = f"Cyclon, {nodes:,} nodes"
    per = 100_000 / nodes  # the targets are for 100,000 nodes; cost grows linearly
    yield at_most(f"{at}, sequential, a cycle (per 100,000)", sequential * per, 0.11, "s")
    yield at_most(f"{at}, synchronous, 1 thread, a cycle (per 100,000)", one * per, 0.11, "s")
    yield at_most(f"{at}, synchronous, {threads} threads, a cycle (per 100,000)", many * per, 0.055, "s")
    state, scratch = engines[-1].bytes_per_node
    yield at_most(f"{at}, state", state, 170, "bytes a node", ".0f")
    yield Result(f"{at}, mailbox of the synchronous setting", f"{scratch:.0f} bytes a node", scratch)
    for engine in engines:
        engine.close()
    yield _growth(nodes, rounds)
    yield from _memory(largest, threads)
    rate = max(events_a_second(2000, 10) for _ in range(rounds))
    yield Result("event engine, Cyclon", f"{rate:,.0f} events/s", rate, "≥ 150,000 events/s", rate >= 150_000)
    yield at_most("vinecast --help, cold start", cold_start(rounds), 0.3, "s")
    yield from _compilation()


def _growth(nodes: int, rounds: int) -> Result:
    sizes = [max(nodes // 8, 1000), max(nodes // 4, 2000), max(nodes // 2, 4000), max(nodes, 8000)]
    engines = [cyclon_engine(size, "synchronous", 1) for size in sizes]
    exponent = growth_exponent(sizes, seconds_a_cycle(engines, rounds))
    span = f"{sizes[0]:,} … {sizes[-1]:,} nodes"
    return Result(
        f"growth of a cycle's cost, {span}",
        f"nodes^{exponent:.2f}",
        exponent,
        "linear (≤ 1.15)",
        exponent <= 1.15,
    )


def _memory(largest: int, threads: int) -> Iterator[Result]:
    found = json.loads(child(_MEMORY, str(largest), str(threads)))
    what = f"Cyclon, {largest:,} nodes"
    yield at_most(f"{what}, peak memory of the whole process", found["gb"], 0.4, "GB")
    yield Result(
        f"{what}, synchronous, {threads} threads, a cycle", f"{found['seconds']:.2f} s", found["seconds"]
    )


def _compilation() -> Iterator[Result]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        first, second = (float(child(_FIRST_CYCLE, VINECAST_CACHE_DIR=folder)) for _ in range(2))
    yield Result("first cycle of a new process, nothing cached", f"{first:.1f} s", first)
    yield at_most("first cycle of a new process, compiled code cached", second, 2.0, "s", ".2f")
