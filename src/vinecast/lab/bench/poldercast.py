"""Speed and memory of PolderCast in the simulator, next to the targets we set ourselves.

What is measured on the Facebook sample when there is a data folder is measured on a synthetic follower graph
with as many subscriptions a node when there is none; every line names its workload. Large populations have a
process of their own, so that its memory is theirs.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.errors import InputError
from vinecast.core.rule import COMPILED
from vinecast.core.sweep import Phase
from vinecast.lab.bench.result import Result, at_most
from vinecast.lab.bench.sim import SEED, child, growth_exponent, peak_bytes, seconds_a_cycle
from vinecast.protocols.rings import RingsConfig
from vinecast.sim.engine.network import Network, NetworkConfig, read_matrix
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.metrics import publish_and_measure, ring_state, ring_targets
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.world import choose_contacts
from vinecast.sim.workload.churn import Availability, on_off, read_avt
from vinecast.sim.workload.sample import load_workload, renumbered, synthetic
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.sweep import PolderCastSweep

EXCHANGES = ("paper", "informed")
FACEBOOK_MEAN = 101.8  # subscriptions a node in the sample of 10,000; about as √nodes in smaller ones
TRACE = "skype.avt.gz"
TRACE_CYCLES, TRACE_PERIOD_S = 41_300, 60.0
MATRIX = "planetlab-490-rtt-ms.txt.gz"
SMALLEST = 100


@dataclass(frozen=True, slots=True)
class PolderCastSizes:
    """How large everything is. The defaults are what the targets are stated for."""

    nodes: int = 10_000
    churn_nodes: int = 1_000
    churn_cycles: int = 1_000
    many: int = 100_000
    many_subscriptions: float = 25.0
    growth_nodes: tuple[int, ...] = (2_500, 5_000, 10_000, 20_000)
    growth_subscriptions: tuple[float, ...] = (12.5, 25.0, 50.0, 100.0)
    growth_at: int = 5_000
    """Nodes while subscriptions grow."""

    def __post_init__(self) -> None:
        if min(self.nodes, self.many, self.churn_nodes) < SMALLEST:
            raise InputError(f"a benchmark needs at least {SMALLEST} nodes")


QUICK = PolderCastSizes(
    nodes=1_000,
    churn_nodes=200,
    churn_cycles=50,
    many=2_000,
    growth_nodes=(400, 800, 1_600),
    growth_subscriptions=(8.0, 16.0, 32.0),
    growth_at=500,
)


def follower_workload(nodes: int, subscriptions: float) -> Subscriptions:
    """A synthetic follower graph with so many subscriptions a node."""
    return renumbered(synthetic(SEED, nodes, subscriptions), SEED)


def main_workload(nodes: int, data: Path | None) -> tuple[str, Subscriptions]:
    """The Facebook sample, or a follower graph that is as dense; its name for the table."""
    if data is not None:
        name, found = "facebook", load_workload("facebook", nodes, SEED, data)
    else:
        name, found = "synthetic", follower_workload(nodes, FACEBOOK_MEAN * math.sqrt(min(nodes / 10_000, 1)))
    return f"{nodes:,} nodes, {name}, {found.count / nodes:.0f} subscriptions", found


def engine_of(subscriptions: Subscriptions, exchange: str, threads: int, online: bool = True) -> SweepEngine:
    """A PolderCast population; with random contacts and on line, or waiting to be started."""
    config = PolderCastConfig(rings=RingsConfig(exchange=exchange))
    found = Profiles.simulated(SEED, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    sweep = PolderCastSweep(config, SEED, found)
    if online:
        sweep.start(np.arange(sweep.nodes), random_views(SEED, sweep.nodes, config.cyclon.view_size))
    return SweepEngine(sweep, config.period_us, "synchronous", threads)


def sweep_of(engine: SweepEngine) -> PolderCastSweep:
    """The population of an engine made here."""
    assert isinstance(engine.sweep, PolderCastSweep)
    return engine.sweep


def bench_poldercast(
    data: Path | None,
    rounds: int,
    sizes: PolderCastSizes,
    largest: int | None = None,
    whole_trace: bool = False,
    threads: int = 2,
) -> Iterator[Result]:
    """All figures, one after the other. ``largest``: nodes of a last, huge population, if there is one."""
    if largest is not None and largest < SMALLEST:
        raise InputError(f"a benchmark needs at least {SMALLEST} nodes")
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    yield from _main_figures(data, rounds, sizes, threads)
    yield from _churn(data, sizes, whole_trace, threads)
    yield from _many(sizes, rounds, threads)
    yield from _growth(sizes, rounds)
    if largest is not None:
        found = _alone("follower", largest, 10.0, threads, 1, None)
        what = f"PolderCast, {largest:,} nodes, synthetic, 10 subscriptions"
        yield at_most(f"{what}, peak memory of the whole process", found["gb"], 6, "GB", ".2f")
        yield Result(f"{what}, {threads} threads, a cycle", f"{found['seconds']:.1f} s", found["seconds"])


# Ten thousand nodes.


def _main_figures(data: Path | None, rounds: int, sizes: PolderCastSizes, threads: int) -> Iterator[Result]:
    name, subscriptions = main_workload(sizes.nodes, data)
    at = f"PolderCast, {name}"
    settings = [(exchange, count) for exchange in EXCHANGES for count in (threads, 1)]
    engines = [engine_of(subscriptions, exchange, count) for exchange, count in settings]
    for (exchange, count), seconds in zip(settings, seconds_a_cycle(engines, rounds, 1), strict=True):
        what = f"{at}, {exchange} exchange, {count} thread{'s' if count > 1 else ''}, a cycle"
        yield at_most(what, seconds, 1.0, "s") if count > 1 else Result(what, f"{seconds:.3f} s", seconds)
    for (exchange, count), engine in zip(settings, engines, strict=True):
        if count == 1:
            for layer, share in phase_shares(engine, rounds).items():
                yield Result(f"{at}, {exchange} exchange, share of a cycle: {layer}", f"{share:.0%}", share)
    engine = engines[settings.index(("informed", threads))]
    seconds = event_seconds(engine, rounds)
    yield at_most(f"{at}, an event for every topic, {threads} threads", seconds, 0.1, "s")
    if data is not None and (data / MATRIX).is_file():
        seconds = event_seconds(engine, rounds, data / MATRIX)
        yield Result(f"{at}, … in the order of time (PlanetLab)", f"{seconds:.3f} s", seconds)
    state, scratch = engine.bytes_per_node
    yield at_most(f"{at}, state", state, 4000, "bytes a node", ".0f")
    yield Result(f"{at}, mailboxes", f"{scratch:.0f} bytes a node", scratch)
    for engine in engines:
        engine.close()
    found = _alone("main", sizes.nodes, 0.0, threads, 2, data)
    yield at_most(f"{at}, peak memory of the whole process", found["gb"] * 1000, 400, "MB", ".0f")


def phase_shares(engine: SweepEngine, cycles: int) -> dict[str, float]:
    """Where the time of a cycle goes, by the name of the phase; those without a layer's name are small."""
    seconds: defaultdict[str, float] = defaultdict(float)
    last = time.perf_counter()

    def watch(phase: Phase) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[phase.name if ":" in phase.name else "cyclon and profiles"] += now - last
        last = now

    engine.watch = watch
    engine.run(cycles)
    engine.watch = None
    total = sum(seconds.values())
    return {name: part / total for name, part in seconds.items()}


def event_seconds(engine: SweepEngine, rounds: int, matrix: Path | None = None) -> float:
    """The best time to choose publishers and spread one event a topic; what becomes of it is not measured."""
    sweep, delays, best = sweep_of(engine), None, float("inf")
    if matrix is not None:
        config = NetworkConfig(latency="matrix", matrix=str(matrix))
        delays = Network(config, SEED, sweep.nodes, read_matrix(matrix)).delays()
    for epoch in range(max(rounds, 3) + 1):
        begin = time.perf_counter()
        sweep.publish(epoch, delays=delays).run(engine.divide)
        best = min(best, time.perf_counter() - begin)
    return best


# A thousand nodes that come and go.


def _churn(data: Path | None, sizes: PolderCastSizes, whole_trace: bool, threads: int) -> Iterator[Result]:
    nodes = sizes.churn_nodes
    name, subscriptions = main_workload(nodes, data)
    if data is not None:
        if not (data / TRACE).is_file():
            raise InputError(f"{data / TRACE}: no such file, and the benchmark under churn needs it")
        trace, told = read_avt(data / TRACE).take(nodes), "Skype trace"
    else:
        trace = on_off(SEED, nodes, TRACE_CYCLES * TRACE_PERIOD_S, 36_000.0, 24_000.0)
        told = "on-off churn"
    cycles = TRACE_CYCLES if whole_trace else sizes.churn_cycles
    engine = engine_of(subscriptions, "informed", threads, online=False)
    seconds = follow_trace(engine, trace, 0 if whole_trace else TRACE_CYCLES // 2, cycles)
    engine.close()
    at = f"PolderCast, {name}, {told} at {TRACE_PERIOD_S:.0f} s a cycle, an event for every topic each cycle"
    minutes = seconds / cycles * TRACE_CYCLES / 60
    how = "" if cycles == TRACE_CYCLES else f", from {cycles:,} in the middle of it"
    yield at_most(f"{at}, {threads} threads, {TRACE_CYCLES:,} cycles{how}", minutes, 30, "min", ".1f")


def follow_trace(engine: SweepEngine, trace: Availability, first: int, cycles: int) -> float:
    """Run so many cycles of a trace and publish on every topic after each; how many seconds that took.

    Twenty cycles come before, to warm up. All is measured that a run measures: rings, hits, hops, copies.
    """
    sweep, warm_up = sweep_of(engine), 20
    begin = 0.0
    masks = trace.at_cycles(TRACE_PERIOD_S, first + warm_up + cycles)
    for cycle, mask in enumerate(masks):
        if cycle < first:
            continue
        if cycle == first + warm_up:
            begin = time.perf_counter()
        leaving, coming = np.flatnonzero(sweep.online & ~mask), np.flatnonzero(mask & ~sweep.online)
        sweep.stop(leaving)
        known = np.flatnonzero(sweep.online) if sweep.online.any() else coming
        sweep.start(coming, choose_contacts(SEED, cycle, coming, known, 5))
        engine.run(1)
        ring_state(sweep, ring_targets(sweep.profiles, sweep.online))
        publish_and_measure(engine, cycle, sweep.online)
    return time.perf_counter() - begin


# Larger populations, each in a process of its own.

_ALONE = """
import sys
from vinecast.lab.bench.poldercast import report_alone
report_alone(*sys.argv[1:])
"""


def _alone(
    kind: str, nodes: int, subscriptions: float, threads: int, rounds: int, data: Path | None
) -> dict[str, float]:
    """Seconds a cycle and peak memory of a process that does nothing else."""
    where = "" if data is None else str(data)
    text = child(_ALONE, kind, str(nodes), str(subscriptions), str(threads), str(rounds), where)
    found: dict[str, float] = json.loads(text)
    return found


def report_alone(kind: str, nodes: str, subscriptions: str, threads: str, rounds: str, data: str) -> None:
    """What ``_alone`` runs: build the population, run it, publish once, and print what that took."""
    if kind == "main":
        _, found = main_workload(int(nodes), Path(data) if data else None)
    else:
        found = follower_workload(int(nodes), float(subscriptions))
    engine = engine_of(found, "informed", int(threads))
    del found
    (seconds,) = seconds_a_cycle([engine], int(rounds), 1)
    publish_and_measure(engine, 0, engine.sweep.online)
    print(json.dumps({"gb": peak_bytes() / 1e9, "seconds": seconds}))  # noqa: T201


def _many(sizes: PolderCastSizes, rounds: int, threads: int) -> Iterator[Result]:
    found = _alone("follower", sizes.many, sizes.many_subscriptions, threads, rounds, None)
    what = f"PolderCast, {sizes.many:,} nodes, synthetic, {sizes.many_subscriptions:.0f} subscriptions"
    per = 100_000 / sizes.many
    yield at_most(
        f"{what}, informed exchange, {threads} threads, a cycle (per 100,000)", found["seconds"] * per, 4, "s"
    )
    yield at_most(f"{what}, peak memory of the whole process", found["gb"] * 1000, 500, "MB", ".0f")


def _growth(sizes: PolderCastSizes, rounds: int) -> Iterator[Result]:
    fixed = sizes.many_subscriptions
    by_nodes = [(nodes, fixed) for nodes in sizes.growth_nodes]
    exponent = _fit(by_nodes, rounds, [nodes for nodes, _ in by_nodes])
    span = f"{sizes.growth_nodes[0]:,} … {sizes.growth_nodes[-1]:,} nodes"
    what = f"PolderCast, synthetic, growth of a cycle's cost, {span} with {fixed:.0f} subscriptions"
    yield Result(what, f"nodes^{exponent:.2f}", exponent)
    by_subscriptions = [(sizes.growth_at, mean) for mean in sizes.growth_subscriptions]
    exponent = _fit(by_subscriptions, rounds, list(sizes.growth_subscriptions))
    span = f"{sizes.growth_subscriptions[0]:g} … {sizes.growth_subscriptions[-1]:g} subscriptions"
    what = f"PolderCast, synthetic, growth of a cycle's cost, {sizes.growth_at:,} nodes with {span}"
    yield Result(what, f"subscriptions^{exponent:.2f}", exponent)


def _fit(populations: list[tuple[int, float]], rounds: int, against: list[int] | list[float]) -> float:
    engines = [engine_of(follower_workload(nodes, mean), "informed", 1) for nodes, mean in populations]
    return growth_exponent(against, seconds_a_cycle(engines, rounds, 1))
