"""The claim of S2 §3.6.6: Vitis and RVR while nodes come and go as Skype's super-peers did.

A cycle of T-Man takes a second or so in S2 (it holds nodes to events ten seconds after they come, and does
not say how long a cycle is); here a node is held to events ten cycles after it has come, with cycles of a
minute, as in the other claims about this trace. Nodes were probed about every half hour, and all that came or
went in between do so at one instant: many at once, however short a cycle is.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.lab.claims.claim import Figure, Measured, Panel, ReferenceLine, Series, Setup
from vinecast.lab.claims.vitis.runs import COLUMNS, HELD, PERIOD_S, Churned, SubscriptionPattern
from vinecast.lab.runs.run_cache import fetch
from vinecast.sim.scenario.scenario import find_file

TRACE = "skype.avt.gz"
SETTLED = 20  # ours: cycles before anything counts
CROWD = 60  # ours: cycles that a flash crowd is felt for, from that on in which most nodes come
VITIS_LEAST = 0.99  # S2 §3.6.6: "the worst case hit ratio is about 99%"
NODES = {"paper": 2000, "small": 150}
CYCLES = {"paper": 1440, "small": 50}
TOPICS = {"paper": (1000, 20), "small": (100, 5)}  # ours: topics, and how many each node has
NAMES = {"vitis": "Vitis", "rvr": "RVR"}


def churn_runs(setup: Setup) -> list[Churned]:
    """Vitis and RVR."""
    trace = None
    if setup.scale == "paper" and setup.data is not None:
        trace = find_file(TRACE, Path(), setup.data)
    crowd = SubscriptionPattern("random", NODES[setup.scale], setup.seed, *TOPICS[setup.scale])
    return [Churned(system, crowd, CYCLES[setup.scale], trace, setup.keep) for system in NAMES]


def _flash_crowd(online: NDArray[np.float64]) -> int:
    """The cycle in which most nodes come, all together. online: [cycle]"""
    return SETTLED + int(np.argmax(np.diff(online[SETTLED - 1 :])))


def _departure(online: NDArray[np.float64]) -> int:
    """The cycle in which most nodes leave. online: [cycle]"""
    return SETTLED + int(np.argmin(np.diff(online[SETTLED - 1 :])))


def _hour(cycle: int) -> str:
    return f"hour {cycle * PERIOD_S / 3600:.1f}"


def churn(setup: Setup) -> Measured:
    """VI-8: the lowest hit ratio of each, in the flash crowd and of all, and the mean."""
    plays = churn_runs(setup)
    nodes, cycles = plays[0].crowd.nodes, plays[0].cycles
    trace = "synthetic churn (2 h on, 1 h off)" if plays[0].trace is None else "Skype"
    runs = {play.system: fetch(play) for play in plays}
    hits = {system: run["hit_ratio"][SETTLED:] for system, run in runs.items()}
    crowd, gone = _flash_crowd(runs["vitis"]["online"]), _departure(runs["vitis"]["online"])
    in_crowd = slice(crowd, crowd + CROWD)
    text = (
        "; ".join(
            f"{name} {runs[system]['hit_ratio'][in_crowd].min():.2%} at the lowest in the flash crowd, "
            f"{hits[system].min():.2%} of all (in {_hour(SETTLED + int(np.argmin(hits[system])))}), "
            f"{hits[system].mean():.3%} on average"
            for system, name in NAMES.items()
        )
        + f" ({trace}, most come in {_hour(crowd)} and most leave in {_hour(gone)}; {cycles:,} cycles, "
        f"{nodes:,} nodes, held to events {HELD} cycles after coming)"
    )
    holds = bool(hits["vitis"].min() >= VITIS_LEAST and hits["rvr"].min() < hits["vitis"].min())
    hours = (np.arange(cycles) * PERIOD_S / 3600).tolist()
    labels = ("hit ratio", "unwanted share of events", "hops, mean")
    panels = tuple(
        Panel(
            f"{letter}) {label}", "hours", label,
            tuple(Series(name, hours, runs[system][column].tolist()) for system, name in NAMES.items()),
            (ReferenceLine("S2: RVR at its lowest", y=0.87),) if column == "hit_ratio" else (),
        )
        for letter, label, column in zip("abc", labels, COLUMNS, strict=True)
    )  # fmt: skip
    figure = Figure("vitis-fig10", f"S2 Fig. 3.10: churn ({trace}, {nodes:,} nodes)", panels, columns=1)
    values = {system: {name: run[name].tolist() for name in run} for system, run in runs.items()}
    return Measured(text, holds, values, (figure,))
