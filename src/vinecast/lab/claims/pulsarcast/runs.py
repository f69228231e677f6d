"""Runs for the claims of S3: networks of whole peers under faults, and systems whose costs are counted.

Both are jobs (lab/runs/run_cache.py), so that they are done side by side or on Spark, and kept. Costs in
processor time are what they were when the run was done.
"""

import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.lab.campaign.campaign import code_digest
from vinecast.lab.campaign.fault_plans import FaultSize
from vinecast.lab.campaign.fault_runs import FaultOutcome, run_faults
from vinecast.lab.campaign.name_runs import NamesOutcome, run_names
from vinecast.lab.claims.claim import Setup
from vinecast.lab.claims.pulsarcast.candidates import CANDIDATES, AnyCandidate, measure
from vinecast.lab.runs.run_cache import Arrays, digest_of, fetch
from vinecast.sim.scenario.costs import CostPlan
from vinecast.sim.workload.publications import Publications, draw_publications
from vinecast.sim.workload.sample import FILES, reddit_workload
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.sim.workload.zipf import zipf_subscriptions, zipf_weights

SEEDS = {"small": 20, "paper": 500}
"""Runs a claim (ours): one takes half a second, of paper scale about three."""
FAULT_SIZES = {"small": FaultSize(), "paper": FaultSize(nodes=16, topics=4, events=40, busy_s=10.0)}
CARRIERS = ("poldercast", "pulsarcast")
"""What carries events: in turn the product's default and S3's own tree."""
BATCH = 10
"""Runs in one job (ours)."""
BLACKOUT_EVERY = 5
"""Of PU-1, so many runs have one in which all nodes die at once (ours)."""
NAMES = "names"
KINDS = {
    "PU-1": "loss and restarts",
    "PU-2": "deaths",
    "PU-3": "partition",
    "PU-4": "absence",
    "PU-6": "hostile",
}
"""A claim's kind of faults; what they are stands with each (lab/campaign/fault_plans.py)."""


def run_one(claim: str, size: FaultSize, seed: int) -> FaultOutcome | NamesOutcome:
    """The run of a claim that a seed stands for."""
    if claim == NAMES:
        return run_names(seed)
    blackout = claim == "PU-1" and seed % BLACKOUT_EVERY == 0
    kind = "blackout" if blackout else KINDS[claim]
    return run_faults(kind, size, seed, CARRIERS[seed % len(CARRIERS)])


@dataclass(frozen=True, slots=True)
class FaultRuns:
    """Networks under one kind of faults, one a seed: a ``Job``."""

    kind: str
    scale: str
    first: int
    count: int
    keep: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}, seeds {self.first:,} to {self.first + self.count - 1:,}"

    @property
    def work(self) -> float:
        """See ``Job``: events that nodes handle, about; names are one record."""
        size = FAULT_SIZES[self.scale]
        return float(self.count * (size.nodes if self.kind == NAMES else size.nodes * size.events))

    def decided_by(self) -> dict[str, Any]:
        size = asdict(FAULT_SIZES[self.scale])
        told = {"faults": self.kind, "size": size, "first": self.first, "count": self.count}
        return {**told, "campaign": code_digest()}

    @property
    def alike(self) -> Hashable:
        """See ``Job``: no two."""
        return self

    def run_with(self, others: "Sequence[FaultRuns]") -> list[Arrays]:
        """See ``Job``: outcomes as JSON. [run]"""
        return [{"outcomes": runs._outcomes()} for runs in (self, *others)]

    def _outcomes(self) -> Any:
        seeds = range(self.first, self.first + self.count)
        size = FAULT_SIZES[self.scale]
        return np.array([json.dumps(asdict(run_one(self.kind, size, seed))) for seed in seeds])


def fault_runs(kind: str, setup: Setup) -> list[FaultRuns]:
    """The runs that a claim needs of a kind."""
    first, count = setup.seed * SEEDS["paper"], SEEDS[setup.scale]
    return [FaultRuns(kind, setup.scale, first + at, BATCH, setup.keep) for at in range(0, count, BATCH)]


def outcomes_of(kind: str, setup: Setup) -> list[FaultOutcome]:
    """What became of them."""
    return [FaultOutcome(**found) for found in _found(kind, setup)]


def names_outcomes(setup: Setup) -> list[NamesOutcome]:
    """What became of name records under attack."""
    return [NamesOutcome(**found) for found in _found(NAMES, setup)]


def _found(kind: str, setup: Setup) -> list[dict[str, Any]]:
    return [json.loads(text) for runs in fault_runs(kind, setup) for text in fetch(runs)["outcomes"].tolist()]


@dataclass(frozen=True, slots=True)
class CostSize:
    """How large a run is whose costs are counted."""

    users: int
    """Of the Reddit trace; and its first so many events."""
    written: int
    nodes: int
    """Of made workloads, and their topics, subscriptions a node, and events."""
    topics: int
    subscriptions: int
    events: int
    cycles: int
    after: int


COST_SIZES = {
    "small": CostSize(30, 30, 30, 12, 3, 30, 8, 4),
    "paper": CostSize(100, 4000, 200, 100, 10, 500, 60, 20),
}
STAY, CHURN = "stay", "come and go"
REDDIT, UNIFORM, ZIPF = "reddit", "uniform", "zipf"
_BY_LABEL = {candidate.label: candidate for candidate in CANDIDATES}


@dataclass(frozen=True, slots=True)
class CostRun:
    """A system, and a workload that is published in it: a ``Job``."""

    system: str
    """A candidate's label."""
    workload: str
    nodes: str
    """Whether they stay, or come and go."""
    scale: str
    seed: int
    data: Path | None
    keep: Path | None = None

    @property
    def candidate(self) -> AnyCandidate:
        """The system."""
        return _BY_LABEL[self.system]

    @property
    def name(self) -> str:
        return f"{self.system}, {self.workload}, nodes {self.nodes}"

    @property
    def work(self) -> float:
        """See ``Job``: events that nodes handle, about."""
        size = COST_SIZES[self.scale]
        return float(size.users * size.written if self.workload == REDDIT else size.nodes * size.events)

    def decided_by(self) -> dict[str, Any]:
        trace = self.data / FILES[REDDIT][0] if self.workload == REDDIT and self.data else None
        return {
            "costs": self.system,
            "workload": self.workload,
            "nodes": self.nodes,
            "size": asdict(COST_SIZES[self.scale]),
            "seed": self.seed,
            "code": code_digest(),
            "trace": digest_of(trace) if trace else None,
        }

    @property
    def alike(self) -> Hashable:
        """See ``Job``: no two."""
        return self

    def run_with(self, others: "Sequence[CostRun]") -> list[Arrays]:
        """See ``Job``: what ``measure_costs`` finds."""
        return [run._costs() for run in (self, *others)]

    def _costs(self) -> Arrays:
        size = COST_SIZES[self.scale]
        read, wrote = self._workload(size)
        plan = CostPlan(size.cycles, size.after, churn=self.nodes == CHURN)
        return dict(measure(self.candidate, read, wrote, plan, self.seed))

    def _workload(self, size: CostSize) -> tuple[Subscriptions, Publications]:
        if self.workload == REDDIT:
            read, wrote = reddit_workload(size.users, self.seed, self.data)
            return read, wrote.first(size.written)
        if self.workload == UNIFORM:
            found = pattern("random", self.seed, size.nodes, size.topics, size.subscriptions)
            return found, draw_publications(self.seed, found, size.events)
        found = zipf_subscriptions(self.seed, size.nodes, size.topics, size.subscriptions)
        return found, draw_publications(self.seed, found, size.events, zipf_weights(size.topics))
