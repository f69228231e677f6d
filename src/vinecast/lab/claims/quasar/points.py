"""Points of Quasar's figures: which runs they are made of, and what these say together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vinecast.lab.claims.claim import Setup
from vinecast.lab.claims.quasar.runs import CONSTANT, PROPORTION, QuasarPopulation, QuasarRun, degree_for
from vinecast.lab.runs.run_cache import fetch
from vinecast.protocols.directed_walk.sweep import SENT

ALL, FEW = 0, 4  # ours: lab/claims/quasar/claims.py says why
COVERAGE = 0.97  # S1 §4, Fig. 3
SPREAD = 0.02  # SYSTEMS.md: independent of the number of nodes
SIZES = {"small": (1024, 2048, 4096), "paper": (1024, 2048, 4096, 8192, 16384, 32768)}
POPULATIONS, GROUPS = {"small": 2, "paper": 5}, {"small": 10, "paper": 20}
NAMES = {ALL: "to all neighbours", FEW: f"{FEW} copies"}
GROUP_NAMES = {
    "MySpace": "MySpace-like groups",
    "constant": f"groups of {CONSTANT}",
    "proportional": f"groups of 1 in {PROPORTION} nodes",
}


@dataclass(frozen=True, slots=True)
class Point:
    """All publications at one point of a figure."""

    coverage: NDArray[np.float64]
    """[publication]"""
    others: NDArray[np.float64]
    """[publication], the publisher left out"""
    last: NDArray[np.float64]
    """[publication], hops to the last member reached"""
    size: NDArray[np.float64]
    tally: NDArray[np.int64]
    """[what is counted], all together"""
    polled: NDArray[np.float64]
    """[members without the event or messages, time of polling], all together"""
    diameter: int

    @property
    def messages(self) -> float:
        """Messages for each member."""
        return float(self.tally[SENT] / self.size.sum())


def plays_at(
    setup: Setup, at: QuasarPopulation, branching: int, groups: int | None = None
) -> list[QuasarRun]:
    """The runs of a point: populations with seeds from the setup's on."""
    count = setup.seeds or POPULATIONS[setup.scale]
    where = replace(at, groups=groups or GROUPS[setup.scale])
    return [
        QuasarRun(replace(where, seed=setup.seed + i), branching, branching == FEW, setup.keep)
        for i in range(count)
    ]


def point_of(plays: Sequence[QuasarRun]) -> Point:
    """The runs of a point, put together."""
    found = [fetch(play) for play in plays]
    columns = {name: np.concatenate([run[name] for run in found]) for name in found[0]}
    tally, polled = columns["tally"].sum(axis=0), columns["polled"].sum(axis=0)
    return Point(
        columns["coverage"], columns["others"], columns["last"], columns["size"], tally, polled,
        int(columns["diameter"].max()),
    )  # fmt: skip


def point_at(nodes: int, kind: str) -> QuasarPopulation:
    return QuasarPopulation(nodes, kind, 0, 0, degree_for(nodes))
