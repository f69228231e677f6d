"""The live half of a claim: real processes, run by whoever may, judged here.

Claims know no live node (the rooms' rule). Whoever has a claim measured may hand it a way to run one
(``Setup.live``); the command ``vinecast reproduce`` does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class LiveOutcome(Protocol):
    """What became of a live run; all rounds together."""

    @property
    def faults(self) -> Sequence[str]:
        """Promises that were broken."""

    @property
    def trouble(self) -> Sequence[str]:
        """What a node could not do."""

    @property
    def converged_s(self) -> float:
        """Seconds from the last fault until all streams were equal, at most."""

    @property
    def processes(self) -> int:
        """With one node each."""

    @property
    def killed(self) -> int:
        """How often one was killed (−9)."""

    @property
    def published(self) -> int:
        """Events."""

    @property
    def acknowledged(self) -> int:
        """Of these, how many as many others hold as the claim asks for."""

    @property
    def delivered(self) -> int:
        """Events that consumers were handed."""

    @property
    def refused(self) -> Mapping[str, int]:
        """What nodes refused, by reason."""

    @property
    def noted(self) -> Mapping[str, Any]:
        """What else there is to tell."""


Live = Callable[[str, str, int], LiveOutcome]
"""(claim, scale, seed) -> what became of it."""
