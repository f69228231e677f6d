"""Speed and memory of Vitis and RVR in the simulator, next to the targets that were set.

S2's setting (§3.6.1): 50 of 5,000 topics each, tables of 15. Each system and pattern of subscriptions has a
process of its own, so that its memory is its own; cycles are timed when tables have filled, and then one
event a topic is published.
"""

import json
import time
from collections.abc import Iterator
from itertools import product
from statistics import median

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.errors import InputError
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.result import Result, at_most
from vinecast.lab.bench.sim import SEED, SMALLEST, child, peak_bytes
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.metrics import dissemination_stats
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.subscriptions import pattern
from vinecast.systems.rvr.machine import RvrConfig
from vinecast.systems.tman_sweep.events import TManPublication
from vinecast.systems.tman_sweep.sweep import Config, TManSweep
from vinecast.systems.vitis.machine import VitisConfig

NODES, QUICK = 10_000, 500
TOPICS, SUBSCRIPTIONS, CONTACTS = 5_000, 50, 20
WARM_UP = 20
"""Cycles before any is timed."""
CYCLE_S, GB = 2.0, 2.0
"""Our targets."""
CONFIGS: dict[str, type[VitisConfig] | type[RvrConfig]] = {"Vitis": VitisConfig, "RVR": RvrConfig}
PATTERNS = ("random", "high")


def population(
    config: Config, profiles: Profiles, seed: int, threads: int, online: NDArray[np.int64]
) -> tuple[TManSweep, SweepEngine]:
    """Nodes that know a few random others."""
    sweep = TManSweep(config, seed, profiles)
    degree = min(CONTACTS, online.size - 1)
    sweep.start(online, online[random_views(seed, online.size, degree)].astype(np.int32))
    return sweep, SweepEngine(sweep, config.period_us, "synchronous", threads)


def measure_alone(system: str, kind: str, nodes: int, rounds: int, threads: int) -> dict[str, float]:
    """What one population takes, in the process that calls."""
    found = pattern(kind, SEED, nodes, TOPICS, SUBSCRIPTIONS)
    profiles = Profiles.simulated(SEED, found.start, found.topics, found.topic_count)
    sweep, engine = population(CONFIGS[system](), profiles, SEED, threads, np.arange(nodes))
    engine.run(WARM_UP)
    cycles = []
    for _ in range(rounds):
        begin = time.perf_counter()
        engine.run(1)
        cycles.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    dissemination = TManPublication(sweep, WARM_UP + rounds).run(engine.divide)
    published = time.perf_counter() - begin
    engine.close()
    hit = dissemination_stats(dissemination, profiles, sweep.online).hit_ratio
    return {"cycle": median(cycles), "published": published, "hit": hit, "gb": peak_bytes() / 1e9}


_ALONE = """
import json, sys
from vinecast.lab.bench.vitis import measure_alone
print(json.dumps(measure_alone(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))))
"""


def bench_vitis(nodes: int, rounds: int, threads: int = 2) -> Iterator[Result]:
    """All figures, one after the other."""
    if nodes < SMALLEST:
        raise InputError(f"a benchmark needs at least {SMALLEST} nodes")
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    for system, kind in product(CONFIGS, PATTERNS):
        child(_ALONE, system, kind, str(SMALLEST), "1", "1")  # compiles what is not
        alone = json.loads(child(_ALONE, system, kind, str(nodes), str(rounds), str(threads)))
        at = f"{system}, {nodes:,} nodes, {kind} subscriptions"
        yield at_most(f"{at}, a cycle, {threads} threads", alone["cycle"], CYCLE_S, "s", ".2f")
        yield Result(f"{at}, one event a topic", f"{alone['published']:.2f} s", alone["published"])
        yield Result(f"{at}, … reach of their subscribers", f"{alone['hit']:.2%}", alone["hit"])
        yield at_most(f"{at}, peak memory of the whole process", alone["gb"], GB, "GB", ".2f")
