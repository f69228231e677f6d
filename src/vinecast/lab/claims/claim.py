"""What a claim is: an assertion of a document that knows how to measure itself here.

A claim may also describe figures (``Measured.figures``): series, labels, and the paper's values as marks.
``vinecast reproduce … --figures DIR`` draws them. Figures of one name are drawn as one, so that a claim adds
its curve to another's picture by giving a figure of the same name with a panel of the same title:

    panel = Panel("a) delay", "fan-out f", "hops, mean", (Series("Scribe", fanouts, hops),))
    Measured(text, holds, values, (Figure(figure_name(8, "facebook"), "…", (panel,)),))
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vinecast.core.errors import InputError
from vinecast.lab.claims.live import Live
from vinecast.lab.runs.run_cache import Job, do
from vinecast.sim.measure.figures import Figure, Panel, ReferenceLine, Series

__all__ = [
    "Claim",
    "Figure",
    "Measured",
    "Panel",
    "ReferenceLine",
    "Series",
    "Setup",
    "Verdict",
    "check_claim",
    "figure_name",
]


@dataclass(frozen=True, slots=True)
class Setup:
    """How claims are measured: how large, with which seeds and data, and where runs are kept."""

    scale: str
    """``small`` (seconds; what the tests run) or ``paper`` (the size that the document speaks of)."""
    seed: int = 1
    threads: int = 1
    data: Path | None = None
    workload: str | None = None
    """Which subscriptions; None leaves it to the claim."""
    seeds: int | None = None
    """Over how many seeds a claim averages that averages over some; None leaves it to the claim."""
    periods_s: tuple[int, ...] | None = None
    """Which lengths of a cycle, in seconds, a claim measures that has several; None for all of them."""
    keep: Path | None = None
    """A folder for finished runs, so that what was stopped can go on."""
    live: Live | None = field(default=None, compare=False)
    """How to run real processes, for claims that have a live half; None leaves it out."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found."""

    text: str
    """One line for the table."""
    holds: bool
    values: dict[str, Any] = field(default_factory=dict)
    """The numbers behind it."""
    figures: tuple[Figure, ...] = ()
    """Pictures of them."""


def figure_name(number: int, workload: str) -> str:
    """The name of our version of a figure of S0, for one workload."""
    return f"poldercast-fig{number}-{workload}"


@dataclass(frozen=True, slots=True)
class Claim:
    """One assertion of a document."""

    id: str
    title: str
    paper: str
    """The document's value or condition."""
    source: str
    """Where it stands."""
    measure: Callable[[Setup], Measured]
    needs: Callable[[Setup], Sequence[Job]] = lambda setup: ()
    """The runs that it will ask for, the most telling first."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim next to what was measured."""

    claim: Claim
    measured: str
    holds: bool
    values: dict[str, Any]
    figures: tuple[Figure, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "claim": self.claim.id,
            "title": self.claim.title,
            "paper": self.claim.paper,
            "source": self.claim.source,
            "measured": self.measured,
            "values": self.values,
            "holds": self.holds,
        }


def check_claim(claim: Claim, setup: Setup, alone: bool = True) -> Verdict:
    """Measure a claim. One of many that cannot be measured, for lack of data or of a package, says so."""
    try:
        do(claim.needs(setup), processes=1)
        found = claim.measure(setup)
    except InputError as error:
        if alone:
            raise
        found = Measured(f"not measured: {error}", False)
    return Verdict(claim, found.text, found.holds, found.values, found.figures)
