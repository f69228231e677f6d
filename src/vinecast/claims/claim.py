"""What a claim is: an assertion of a document that knows how to measure itself here."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Setup:
    """How to measure."""

    scale: str
    """``small`` (seconds; what the tests run) or ``paper`` (the size that the document speaks of)."""
    seed: int = 1
    threads: int = 1
    data: Path | None = None
    workload: str | None = None
    """Which subscriptions; None leaves it to the claim."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found."""

    text: str
    """One line for the table."""
    holds: bool
    values: dict[str, Any] = field(default_factory=dict)
    """The numbers behind it."""


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim next to what was measured."""

    claim: Claim
    measured: str
    holds: bool
    values: dict[str, Any]

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


def check_claim(claim: Claim, setup: Setup) -> Verdict:
    """Measure a claim."""
    found = claim.measure(setup)
    return Verdict(claim, found.text, found.holds, dataclasses.asdict(found)["values"])
