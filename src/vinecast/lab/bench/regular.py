"""The thesis's run (S4 §6.6): what PolderCast with regular rings takes, next to the targets we set ourselves.

1,000 nodes follow the Skype trace for 28.7 days with a cycle every 100 seconds, and every topic has an event
in every cycle. S4 §6.6.1: "around 48 hours" and "up to 20-30GB". A stretch in the middle is measured, by the
day and by the week, with either exchange and with either sample that takes the place of S4's Twitter users,
each in a process of its own. Nodes are given the patterns that the whole trace gives them, so that the
regular rings are as full as they become, although what came before was left out.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import CYCLES_S, OnlineTimes, observed_time, sum_online
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.result import Result, at_most
from vinecast.lab.bench.sim import SEED, SMALLEST, child, peak_bytes
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.regularity import RegularityConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.protocols.victor import VictorConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.metrics import publish_and_measure, ring_state, ring_targets
from vinecast.sim.scenario.world import choose_contacts
from vinecast.sim.workload.churn import Availability, on_off, read_avt
from vinecast.sim.workload.sample import FILES, load_workload
from vinecast.systems.grid.machine import GridConfig
from vinecast.systems.poldercast_regular.machine import PolderCastRegularConfig
from vinecast.systems.poldercast_regular.sweep import PolderCastRegularSweep

TRACE, WORKLOADS = "skype.avt.gz", ("slashdot", "facebook")
EXCHANGES = ("informed", "paper")
"""Ours, which is the default, and S0's, which S4 ran."""
CYCLES, PERIOD_S = 24_780, 100.0
MINUTES, GB = 20.0, 1.0
"""Our targets for the whole run."""
BEGIN = 12_096
"""Where a stretch begins: after two weeks exactly, so that the population's clock, which begins with it,
shows the trace's hour of the day and of the week."""
WARM_UP = 100
"""Cycles before a stretch is measured: a few slots, for the rings to come together."""
CONTACTS = 20


@dataclass(frozen=True, slots=True)
class RegularSizes:
    """How large everything is. The defaults are what the targets are stated for."""

    nodes: int = 1_000
    cycles: int = 500
    """Of the stretch."""

    def __post_init__(self) -> None:
        if self.nodes < SMALLEST:
            raise InputError(f"a benchmark needs at least {SMALLEST} nodes")


QUICK = RegularSizes(nodes=200, cycles=40)


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run took."""

    minutes: float
    """For all cycles of the thesis's run."""
    gb: float
    """Peak memory of the whole process."""
    online: float
    """Nodes on line, on average."""
    regular: float
    """… of them regular."""
    trace: str


def trace_patterns(trace: Availability, config: RegularityConfig) -> NDArray[np.bool_]:
    """In which slots each node of a trace is regular, judged by all of it. [node, slot]"""
    grid = config.grid
    online = np.zeros((trace.nodes, grid.slots), dtype=np.int64)
    on, off = (np.rint(times * SECOND_US).astype(np.int64) for times in (trace.on_s, trace.off_s))
    sum_online(OnlineTimes(trace.start, on, off), grid.cycle, grid.slot, online)
    observed = observed_time(grid, round(trace.horizon_s * SECOND_US))
    regular: NDArray[np.bool_] = online * 100 > observed * config.threshold
    return regular


def bench_regular(
    data: Path | None, sizes: RegularSizes, whole_trace: bool = False, threads: int = 2
) -> Iterator[Result]:
    """All figures, one after the other."""
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    cycles = CYCLES if whole_trace else sizes.cycles
    how = "" if whole_trace else f", from {sizes.cycles:,} in the middle of it"
    workloads = ("synthetic",) if data is None else WORKLOADS
    for workload, exchange, cycle in product(workloads, EXCHANGES, CYCLES_S):
        found = measure_alone(data, workload, exchange, cycle, sizes.nodes, cycles, threads)
        rings = f"PolderCast with regular rings by the {cycle}"
        where = f"{sizes.nodes:,} nodes, {workload}, {found.trace} at {PERIOD_S:.0f} s a cycle"
        what = f"{rings}, {exchange} exchange, {where}, an event for every topic each cycle"
        yield at_most(
            f"{what}, {threads} threads, {CYCLES:,} cycles{how}", found.minutes, MINUTES, "min", ".1f"
        )
        yield at_most(f"{what}, peak memory of the whole process", found.gb, GB, "GB", ".2f")
        if workload == workloads[0] and exchange == EXCHANGES[0]:
            yield Result(f"{rings}, {where}, nodes on line", f"{found.online:.0f}", found.online)
            yield Result(f"{rings}, {where}, of them regular", f"{found.regular:.0f}", found.regular)


# Each in a process of its own.

_ALONE = """
import sys
from vinecast.lab.bench.regular import report_alone
report_alone(*sys.argv[1:])
"""


def measure_alone(
    data: Path | None, workload: str, exchange: str, cycle: str, nodes: int, cycles: int, threads: int
) -> RunCost:
    """Minutes for the whole run and peak memory, by a process that does nothing else.

    Without a data folder the trace is on-off churn; the workload must then be a synthetic one.
    """
    if data is not None:
        for file in (TRACE, *FILES.get(workload, ())[:1]):
            if not (data / file).is_file():
                raise InputError(f"{data / file}: no such file, and the benchmark of regular rings needs it")
    words = (
        "" if data is None else str(data),
        workload,
        exchange,
        cycle,
        *map(str, (nodes, cycles, threads)),
    )
    return RunCost(**json.loads(child(_ALONE, *words)))


def report_alone(
    data: str, workload: str, exchange: str, cycle: str, nodes: str, cycles: str, threads: str
) -> None:
    """What ``measure_alone`` runs: follow a stretch of the trace, and print what that took."""
    folder, count = Path(data) if data else None, int(cycles)
    trace, told = _trace(folder, int(nodes))
    config = PolderCastRegularConfig(
        cyclon=CyclonConfig(period_s=PERIOD_S),
        vicinity=VicinityConfig(period_s=PERIOD_S),
        rings=RingsConfig(period_s=PERIOD_S, exchange=exchange),
        regular=RingsConfig(period_s=PERIOD_S, exchange=exchange),
        grid=GridConfig(RegularityConfig(cycle_s=CYCLES_S[cycle]), VictorConfig(period_s=PERIOD_S)),
        stand_by=exchange == "informed",
    )
    found = load_workload(workload, int(nodes), SEED, folder)
    profiles = Profiles.simulated(SEED, found.start, found.topics, found.topic_count)
    sweep = PolderCastRegularSweep(config, SEED, profiles)
    sweep.patterns.give(trace_patterns(trace, config.grid.regularity))
    engine = SweepEngine(sweep, config.period_us, "synchronous", int(threads))
    begin, warm_up = (0, 0) if count == CYCLES else (BEGIN, WARM_UP)
    seconds, online, regular = follow(engine, trace, begin, warm_up, count)
    engine.close()
    result = RunCost(seconds / count * CYCLES / 60, peak_bytes() / 1e9, online, regular, told)
    print(json.dumps(asdict(result)))  # noqa: T201


def _trace(data: Path | None, nodes: int) -> tuple[Availability, str]:
    """The trace, and what it is called."""
    if data is None:
        return on_off(SEED, nodes, CYCLES * PERIOD_S, 36_000.0, 24_000.0), "on-off churn"
    return read_avt(data / TRACE).take(nodes), "Skype trace"


def follow(
    engine: SweepEngine, trace: Availability, begin: int, warm_up: int, cycles: int
) -> tuple[float, float, float]:
    """Follow a trace for so many cycles after a warm-up and publish on every topic after each: the seconds
    that took, the nodes on line and the regular among them, on average.

    All is measured that a run measures: rings, hits, hops, copies.
    """
    sweep = engine.sweep
    assert isinstance(sweep, PolderCastRegularSweep)
    seconds, online, regular = 0.0, 0, 0
    for cycle, mask in enumerate(trace.at_cycles(PERIOD_S, begin + warm_up + cycles)):
        if cycle < begin:
            continue
        started = time.perf_counter()
        sweep.stop(np.flatnonzero(sweep.online & ~mask))
        coming = np.flatnonzero(mask & ~sweep.online)
        known = np.flatnonzero(sweep.online) if sweep.online.any() else coming
        sweep.start(coming, choose_contacts(SEED, cycle, coming, known, CONTACTS))
        engine.run(1)
        ring_state(sweep, ring_targets(sweep.profiles, sweep.online))
        publish_and_measure(engine, cycle, sweep.online)
        if cycle >= begin + warm_up:
            seconds += time.perf_counter() - started
            online += int(mask.sum())
            regular += int((mask & sweep.patterns.regular[:, sweep.regularity.slot]).sum())
    return seconds, online / cycles, regular / cycles
