"""Beyond S2: PolderCast and Vitis on the same subscriptions, for whoever has to choose (docs/choosing.md).

At rest and under churn the runs are those of the claims about Vitis (lab/claims/vitis/runs.py), with
PolderCast's beside them. What upkeep weighs is counted on machines, which are fewer for it.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.lab.claims.claim import Claim, Measured, Setup
from vinecast.lab.claims.vitis.churn import SETTLED, churn_runs
from vinecast.lab.claims.vitis.points import NetworkAtRest, crowd_of, found_in, size_of, vitis, where
from vinecast.lab.claims.vitis.runs import Churned, SubscriptionPattern, VitisRestRun
from vinecast.lab.runs.run_cache import Arrays, fetch
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import Resolved, resolve

NAMES = {"poldercast": "PolderCast", "vitis": "Vitis"}
WORKLOADS = ("random", "high", "synthetic")
UPKEEP_NODES = {"paper": 500, "small": 60}  # ours
UPKEEP_CYCLES = {"paper": 20, "small": 8}  # ours


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Machines without events: a ``Job`` (lab/runs/run_cache.py). What they send is counted in the third
    quarter: by then they have found each other, and the last cycle of a run always has events."""

    system: str
    crowd: SubscriptionPattern
    cycles: int
    keep: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.system}, {self.crowd.workload}, upkeep"

    @property
    def work(self) -> float:
        """See ``Job``: machines take longer."""
        return 50.0 * self.crowd.nodes * self.cycles

    def resolved(self) -> Resolved:
        """The scenario."""
        return resolve(
            {
                "name": "upkeep",
                "seed": self.crowd.seed,
                "nodes": self.crowd.nodes,
                "cycles": self.cycles,
                "system": self.system,
                "engine": "event",
                "event": {"records": False},
                "workload": {"kind": self.crowd.workload},
                "publish": {"every": self.cycles},
                "measure": {"every": self.cycles // 4},
            },
            Path(),
        )

    def decided_by(self) -> dict[str, Any]:
        return {"scenario": self.resolved().table(), "crowd": self.crowd.decided_by()}

    @property
    def alike(self) -> Hashable:
        """See ``Job``: none is."""
        return self

    def run_with(self, others: "Sequence[Upkeep]") -> list[Arrays]:
        """See ``Job``: messages and bytes sent, a node and cycle."""
        rows = [simulate(play.resolved(), data=play.crowd.data).rows[2] for play in (self, *others)]
        return [{name: np.array([row[f"control_{name}"]]) for name in ("messages", "bytes")} for row in rows]


def _workloads(setup: Setup) -> tuple[str, ...]:
    return (*WORKLOADS[:-1], setup.workload or WORKLOADS[-1])


def _rest(setup: Setup, system: str, workload: str) -> VitisRestRun:
    found = vitis(setup, workload)
    return found if system == "vitis" else replace(found, system=system)


def _upkeep(setup: Setup, system: str, workload: str) -> Upkeep:
    crowd = replace(
        crowd_of(setup, workload), nodes=UPKEEP_NODES[setup.scale], topics=None, subscriptions=None
    )
    return Upkeep(system, crowd, UPKEEP_CYCLES[setup.scale], setup.keep)


def _churned(setup: Setup, system: str) -> Churned:
    return replace(churn_runs(setup)[0], system=system)


def choice_runs(setup: Setup) -> list[VitisRestRun | Upkeep | Churned]:
    """All runs of the comparison."""
    chosen = [(system, workload) for workload in _workloads(setup) for system in NAMES]
    return [
        *(_churned(setup, system) for system in NAMES),
        *(_rest(setup, *pair) for pair in chosen),
        *(_upkeep(setup, *pair) for pair in chosen),
    ]


def side_by_side(setup: Setup) -> Measured:
    """VI-9: what each costs where, and whether it is a choice at all."""
    rows: list[list[str]] = []
    holds, values = True, dict[str, Any]()
    for workload in _workloads(setup):
        found = {system: found_in(_rest(setup, system, workload)) for system in NAMES}
        upkeep = [fetch(_upkeep(setup, system, workload)) for system in NAMES]
        rings, table = found.values()
        holds &= bool(table.degrees.mean() < rings.degrees.mean() and rings.overhead < table.overhead)
        rows += [
            [f"{workload}: {what}", *(text(run) for run in found.values())] for what, text in AT_REST.items()
        ]
        nodes = UPKEEP_NODES[setup.scale]
        rows += [
            [f"{workload}: {what} a node and cycle ({nodes:,} nodes)"]
            + [f"{float(run[name][0]):,.0f}" for run in upkeep]
            for name, what in (("messages", "upkeep, messages"), ("bytes", "upkeep, bytes"))
        ]
        values[workload] = {
            name: {"degree": float(run.degrees.mean()), "overhead": run.overhead, "hops": run.hops}
            for name, run in found.items()
        }
    hits = [fetch(_churned(setup, system))["hit_ratio"][SETTLED:] for system in NAMES]
    rows.append(["churn: events that arrive, on average", *(f"{hit.mean():.2%}" for hit in hits)])
    rows.append(["churn: events that arrive, at the lowest", *(f"{hit.min():.2%}" for hit in hits)])
    trace = "synthetic churn" if churn_runs(setup)[0].trace is None else "Skype's churn"
    values["table"] = {"headings": ["", *NAMES.values()], "rows": rows}
    text = (
        f"{'Vitis has fewer links and PolderCast less unwanted on' if holds else 'not so on all of'} "
        f"{', '.join(_workloads(setup))}; all figures in the table below ({where(setup, 'random')}; {trace}, "
        f"{churn_runs(setup)[0].crowd.nodes:,} nodes; tables of {size_of(setup).tables[0]})"
    )
    return Measured(text, holds, values)


def _links(run: NetworkAtRest) -> str:
    return f"{run.degrees.mean():.0f}, {int(run.degrees.max()):,}"


AT_REST: dict[str, Callable[[NetworkAtRest], str]] = {
    "links a node, mean and most": _links,
    "events received that were not wanted": lambda run: f"{run.overhead:.1%}",
    "hops, mean": lambda run: f"{run.hops:.1f}",
    "events that arrive": lambda run: f"{run.hit_ratio:.2%}",
}

BEYOND = (
    Claim(
        "VI-9", "PolderCast or Vitis", "not measured; ours: fewer links or less unwanted, never both",
        "beyond S2", side_by_side, choice_runs,
    ),
)  # fmt: skip
