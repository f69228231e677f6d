"""What benchmarks yield: one line for each thing that was measured."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured, as one line of a benchmark's table: the target, and whether it is met."""

    what: str
    measured: str
    value: float
    target: str = ""
    meets: bool | None = None

    @property
    def verdict(self) -> str:
        """For the table."""
        return {None: "", True: "yes", False: "no"}[self.meets]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def at_most(what: str, value: float, limit: float, unit: str, form: str = ".3f") -> Result:
    """A line with a limit."""
    return Result(what, f"{value:{form}} {unit}", value, f"≤ {limit:g} {unit}", value <= limit)
