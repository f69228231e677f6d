"""The campaign: many seeds, side by side or on Spark, kept, and what they found.

Seeds are done in batches, each a ``Job`` of the run cache (lab/runs/run_cache): what was stopped goes on
where it was, and results of other code are not mixed in, since a digest of the code is part of what decides a
result.
"""

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import vinecast
from vinecast.core.errors import InputError
from vinecast.lab.campaign.draw import draw_plan
from vinecast.lab.campaign.known import unexpected_in
from vinecast.lab.campaign.promises import BrokenPromise
from vinecast.lab.campaign.run import run_plan
from vinecast.lab.runs.run_cache import Arrays, Tell, check_folder, do, fetch, place_of

SEEDS_MAX = 1_000_000
"""Of one campaign (ours): some days."""
BATCH = 20
"""Seeds in one job (ours): some ten seconds."""
ROOMS = ("core", "protocols", "systems", "peer", "sim/peers", "lab/campaign", "node/api/content.py")
"""Whose code decides what becomes of a run."""
NOT_DECIDING = frozenset({"lab/campaign/known.py"})
"""What in them does not: it says what of a result is news."""


@dataclass(frozen=True)
class SeedResult:
    """What became of one seed."""

    seed: int
    system: str
    counts: dict[str, int]
    """Faults by name."""
    faults: tuple[BrokenPromise, ...]
    """Those of every name, node, topic and reader."""
    figures: dict[str, int]
    took_s: float
    """Seconds of the run."""
    drawn_for: str | None = None
    """The system that was asked for; None: the seed drew one."""

    @functools.cached_property
    def unexpected(self) -> list[str]:
        """Names of the faults that nobody knows of. It is asked when it is needed: results are kept, and the
        list of what is known gets shorter."""
        return unexpected_in(draw_plan(self.seed, self.drawn_for), self.faults) if self.faults else []

    @classmethod
    def from_json(cls, text: str) -> "SeedResult":
        """What was kept."""
        told = json.loads(text)
        return cls(**{**told, "faults": tuple(BrokenPromise(**fault) for fault in told["faults"])})


def result_of(seed: int, system: str | None = None) -> SeedResult:
    """Do one seed."""
    plan = draw_plan(seed, system)
    outcome = run_plan(plan)
    counts = dict(sorted(outcome.judgement.counts.items()))
    faults = {(one.name, one.node, one.topic, one.reader): one for one in reversed(outcome.judgement.faults)}
    figures, took_s = outcome.judgement.figures, round(outcome.took_s, 3)
    return SeedResult(seed, plan.system, counts, tuple(faults.values()), figures, took_s, system)


@functools.cache
def code_digest() -> str:
    """A digest of all code that decides what becomes of a run."""
    package = Path(vinecast.__file__).parent
    digest = hashlib.sha256()
    for room in ROOMS:
        place = package / room
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            module = path.relative_to(package).as_posix()
            if module in NOT_DECIDING:
                continue
            digest.update(module.encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class SeedBatch:
    """Some seeds, one after the other: a ``Job``."""

    first: int
    count: int
    system: str | None = None
    keep: Path | None = None

    @property
    def name(self) -> str:
        return f"seeds {self.first:,} to {self.first + self.count - 1:,}"

    @property
    def work(self) -> float:
        """See ``Job``: seeds."""
        return float(self.count)

    def decided_by(self) -> dict[str, Any]:
        told = {"campaign": code_digest(), "first": self.first, "count": self.count}
        return {**told, "system": self.system} if self.system else told

    @property
    def alike(self) -> Hashable:
        """See ``Job``: no two."""
        return self

    def run_with(self, others: "Sequence[SeedBatch]") -> list[Arrays]:
        """See ``Job``: results as JSON. [seed]"""
        return [{"results": batch._results()} for batch in (self, *others)]

    def _results(self) -> Any:
        seeds = range(self.first, self.first + self.count)
        return np.array([json.dumps(asdict(result_of(seed, self.system)), sort_keys=True) for seed in seeds])


@dataclass(slots=True)
class CampaignReport:
    """What a campaign found."""

    first: int
    last: int
    code: str
    results: list[SeedResult] = field(default_factory=list)

    @property
    def unexpected(self) -> list[SeedResult]:
        """Seeds with faults that nobody knows of."""
        return [result for result in self.results if result.unexpected]

    def seeds_by_fault(self) -> dict[str, list[int]]:
        """BrokenPromise by name → seeds that show it."""
        found: dict[str, list[int]] = {}
        for result in self.results:
            for name in result.counts:
                found.setdefault(name, []).append(result.seed)
        return dict(sorted(found.items()))

    def unexpected_by_fault(self) -> dict[str, list[int]]:
        """The same, of those that are not known."""
        found: dict[str, list[int]] = {}
        for result in self.results:
            for name in result.unexpected:
                found.setdefault(name, []).append(result.seed)
        return dict(sorted(found.items()))

    def figures(self) -> dict[str, int]:
        """How much there was of everything."""
        total: Counter[str] = Counter()
        for result in self.results:
            total.update(result.figures)
        return dict(total)

    def systems(self) -> dict[str, int]:
        """Runs by system."""
        return dict(sorted(Counter(result.system for result in self.results).items()))


def batches(first: int, last: int, system: str | None, keep: Path | None) -> list[SeedBatch]:
    """The jobs of a range of seeds: cut where any other range is cut too, so that what is kept is shared."""
    found, at = [], first
    while at <= last:
        end = min(last, at // BATCH * BATCH + BATCH - 1)
        found.append(SeedBatch(at, end - at + 1, system, keep))
        at = end + 1
    return found


def run_campaign(
    first: int,
    last: int,
    *,
    system: str | None = None,
    keep: Path | None = None,
    processes: int = 1,
    spark: str | None = None,
    tell: Tell | None = None,
) -> CampaignReport:
    """Do all seeds from the first to the last."""
    if last - first >= SEEDS_MAX:
        raise InputError(f"a campaign has {SEEDS_MAX:,} seeds at the most: do it in ranges")
    if not 0 <= first <= last:
        raise InputError(f"seeds go from a number to one that is not lower, not from {first} to {last}")
    if spark is not None and keep is None:
        raise InputError("on Spark results are handed over in a folder: say which with --keep")
    if keep is not None:
        check_folder(keep)
    jobs = batches(first, last, system, keep)
    do(jobs, processes, tell, spark)
    report = CampaignReport(first, last, code_digest())
    for job in jobs:
        try:
            report.results += [SeedResult.from_json(text) for text in fetch(job)["results"].tolist()]
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{place_of(job)} is no result of a campaign: delete it") from None
    return report
