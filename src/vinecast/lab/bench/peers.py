"""Speed of whole peers in the simulator: inputs a second, a standard run, and seeds of the campaign.

Times are those of the core, so that others who use it at the same time do not count. A run is measured with
all that belongs to it: its world, the people on it, and the judges in the end.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vinecast.lab.bench.result import Result, at_most
from vinecast.lab.campaign.draw import draw_plan
from vinecast.lab.campaign.plan import (
    AnyStep,
    BeginStep,
    BreakLinkStep,
    CrashStep,
    CutOffStep,
    PauseStep,
    PeerPlan,
    Plan,
    PublishStep,
    ReadStep,
)
from vinecast.lab.campaign.run import PlanRun, Watch

INPUTS_TARGET = 20_000
STANDARD_S_MAX = 2.0
CAMPAIGN_S_MAX = 1200.0
CAMPAIGN_SEEDS, CAMPAIGN_CORES = 1000, 2
NODES, SECONDS = 8, 60
"""Of the standard run."""


@dataclass(frozen=True, slots=True)
class PeersSizes:
    """How much is measured."""

    seeds: int = 60
    repeat: int = 5


QUICK = PeersSizes(seeds=2, repeat=1)


def standard_plan() -> Plan:
    """Eight peers for a minute: two topics, three events a second, and a fault of each of the usual kinds."""
    topics = ("news/now", "jobs")
    begins = [BeginStep(0.1 * n, n, (0,) if n else (1,)) for n in range(NODES)]
    starts = ["earliest" if n % 3 else "now" for n in range(NODES)]
    reads = [ReadStep(2 + 0.1 * n, n, n, topics[n % 2], start) for n, start in enumerate(starts)]
    publishes = [
        PublishStep(5.0 + at, 2 * at % NODES, at, topics[at % 2], 3, at % 4 > 0) for at in range(SECONDS - 5)
    ]
    faults: list[AnyStep] = [
        CrashStep(15.0, 3, 5.0, False),
        PauseStep(25.0, 5, 4.0),
        CutOffStep(32.0, (0, 1, 2), 6.0),
        BreakLinkStep(45.0, 7),
    ]
    every: list[AnyStep] = [*begins, *reads, *publishes, *faults]
    steps = sorted(every, key=lambda step: step.at_s)
    return Plan(1, "poldercast", (PeerPlan(),) * NODES, tuple(steps))


def bench_peers(sizes: PeersSizes, tell: Callable[[str], None] = lambda _: None) -> Iterator[Result]:
    """All figures."""
    plans = [draw_plan(seed) for seed in range(1, sizes.seeds + 1)]
    _run(plans[0])  # what is loaded and compiled once
    tell("seeds of the campaign")
    done = [_run(plan) for plan in plans]
    cpu_s, inputs = sum(cpu_s for cpu_s, _ in done), sum(inputs for _, inputs in done)
    rate = inputs / cpu_s
    yield Result(
        "inputs of whole peers, one core",
        f"{rate:,.0f} a second",
        rate,
        f"≥ {INPUTS_TARGET:,} a second",
        rate >= INPUTS_TARGET,
    )
    tell("the standard run")
    at_once = Watch(rest_s=0.0, patience_s=0.0, slow_s=0.0)
    turns = [_run(standard_plan(), at_once)[0] for _ in range(sizes.repeat)]
    what = f"standard run: {NODES} peers, {SECONDS} s, faults"
    yield at_most(what, statistics.median(turns), STANDARD_S_MAX, "s of one core", ".2f")
    whole_s = cpu_s / sizes.seeds * CAMPAIGN_SEEDS / CAMPAIGN_CORES
    what = f"{CAMPAIGN_SEEDS:,} seeds of the campaign on {CAMPAIGN_CORES} cores, by these {sizes.seeds}"
    yield at_most(what, whole_s, CAMPAIGN_S_MAX, "s", ".0f")


def _run(plan: Plan, watch: Watch | None = None) -> tuple[float, int]:
    """Seconds of the core, and inputs that peers handled."""
    begin = time.process_time()
    run = PlanRun(plan) if watch is None else PlanRun(plan, watch=watch)
    outcome = run.run()
    return time.process_time() - begin, outcome.history.inputs
