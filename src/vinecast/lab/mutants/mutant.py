"""A mutant: one small change of one source file that breaks a promise, and what should notice it."""

from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import Bug


@dataclass(frozen=True, slots=True)
class Mutant:
    """A small change that breaks a promise."""

    name: str
    breaks: str
    """Which promise: D1 … D13, V, L, R or S, as in docs/campaign.md."""
    what: str
    """What the changed code does, in a few words."""
    module: str
    """The changed file, in the package."""
    before: str
    """Text that stands in it once."""
    after: str
    """What stands there instead."""
    tests: tuple[str, ...] = ()
    """Tests that should notice it, as pytest names them."""
    seed: int | None = None
    """The first seed of the campaign, from 1 on, that shows it; None: none of those that were tried."""

    def changed(self, text: str) -> str:
        """The source with the change."""
        if text.count(self.before) != 1:
            found = text.count(self.before)
            raise Bug(f"mutant {self.name}: what it changes stands {found} times in {self.module}")
        return text.replace(self.before, self.after)

    def source(self, package: Path) -> str:
        """What stands in its file, in a copy of the package."""
        return (package / self.module).read_text()
