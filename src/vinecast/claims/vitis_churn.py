"""The claim of S2 §3.6.6: Vitis and RVR while nodes come and go as Skype's super-peers did.

A cycle of T-Man takes a second or so in S2 (it holds nodes to events ten seconds after they come, and does
not say how long a cycle is); here a node is held to events ten cycles after it has come, with cycles of a
minute, as in the other claims about this trace: the same comings and goings meet a network that is
sixty times slower to repair itself.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.claims.claim import Figure, Mark, Measured, Panel, Series, Setup
from vinecast.claims.vitis_network import config_of
from vinecast.core.profiles import Profiles
from vinecast.core.traffic import unwanted_overall
from vinecast.sim.bench_vitis import CONTACTS, population
from vinecast.sim.churn import on_off, read_avt
from vinecast.sim.metrics import spread_stats
from vinecast.sim.scenario import find_file
from vinecast.sim.workload import Subscriptions, pattern
from vinecast.sim.world import choose_contacts
from vinecast.systems.on_tman_events import Publication

TRACE = "skype.avt.gz"
PERIOD_S = 60.0
HELD = 10  # S2 §3.6.6: "10 seconds after the node joins"; cycles here
SETTLED = 20  # ours: cycles before anything counts
VITIS_LEAST = 0.99  # S2 §3.6.6: "the worst case hit ratio is about 99%"
NODES = {"paper": 2000, "small": 150}
CYCLES = {"paper": 1440, "small": 50}
TOPICS = {"paper": (1000, 20), "small": (100, 5)}  # ours: topics, and how many each node has
COLUMNS = ("hit_ratio", "overhead", "hops")


def churn(setup: Setup) -> Measured:
    """VI-8: the lowest hit ratio of each, and the mean."""
    nodes, cycles = NODES[setup.scale], CYCLES[setup.scale]
    if setup.scale == "paper" and setup.data is not None:
        availability, trace = read_avt(find_file(TRACE, Path(), setup.data)).take(nodes), "Skype"
    else:
        availability = on_off(setup.seed, nodes, cycles * PERIOD_S, 7200.0, 3600.0)
        trace = "synthetic churn (2 h on, 1 h off)"
    found = pattern("random", setup.seed, nodes, *TOPICS[setup.scale])
    runs = {
        system: churn_run(system, found, availability.at_cycles(PERIOD_S, cycles), setup)
        for system in ("vitis", "rvr")
    }
    hits = {system: np.array(run["hit_ratio"][SETTLED:]) for system, run in runs.items()}
    text = (
        "; ".join(
            f"{name} {hits[system].min():.2%} at the lowest, {hits[system].mean():.3%} on average"
            for name, system in (("Vitis", "vitis"), ("RVR", "rvr"))
        )
        + f" ({trace}, {cycles:,} cycles, {nodes:,} nodes, held to events {HELD} cycles after coming)"
    )
    holds = bool(hits["vitis"].min() >= VITIS_LEAST and hits["rvr"].min() < hits["vitis"].min())
    hours = (np.arange(cycles) * PERIOD_S / 3600).tolist()
    labels = ("hit ratio", "unwanted share of events", "hops, mean")
    panels = tuple(
        Panel(
            f"{letter}) {label}", "hours", label,
            tuple(Series(name, hours, runs[name.lower()][column]) for name in ("Vitis", "RVR")),
            (Mark("S2: RVR at its lowest", y=0.87),) if column == "hit_ratio" else (),
        )
        for letter, label, column in zip("abc", labels, COLUMNS, strict=True)
    )  # fmt: skip
    figure = Figure("vitis-fig10", f"S2 Fig. 3.10: churn ({trace}, {nodes:,} nodes)", panels, columns=1)
    return Measured(text, holds, {system: dict(run) for system, run in runs.items()}, (figure,))


def churn_run(
    system: str, found: Subscriptions, masks: Iterator[NDArray[np.bool_]], setup: Setup
) -> dict[str, list[Any]]:
    """One event a topic after every cycle, from and for those who have been there for long enough."""
    profiles = Profiles.simulated(setup.seed, found.start, found.topics, found.topic_count)
    old = next(masks)
    sweep, engine = population(config_of(system), profiles, setup.seed, setup.threads, np.flatnonzero(old))
    age = np.where(old, HELD, -1)
    run: dict[str, list[Any]] = {column: [] for column in (*COLUMNS, "online")}
    for cycle, mask in enumerate(itertools.chain([old], masks)):
        sweep.stop(np.flatnonzero(old & ~mask))
        coming = np.flatnonzero(mask & ~old)
        if coming.size:
            known = np.flatnonzero(old & mask)
            sweep.start(coming, choose_contacts(setup.seed, cycle, coming, known, CONTACTS))
        age = np.where(mask, age + 1, -1)
        engine.run(1)
        held = age >= HELD
        publication = Publication(sweep, cycle, publishers=held)
        stats = spread_stats(publication.run(engine.divide), profiles, held)
        for column, value in zip(
            (*COLUMNS, "online"),
            (stats.hit_ratio, unwanted_overall(publication.received), stats.hops_mean, int(mask.sum())),
            strict=True,
        ):
            run[column].append(value)
        old = mask
    engine.close()
    return run
