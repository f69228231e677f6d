"""How peers behave in gap repair. Whoever did wrong too often lately is not relied on, until that is
forgotten."""

from collections import Counter

from vinecast.core.events import Blame, Count
from vinecast.protocols.streams.messages import StreamEffect

FAULTS = 4
"""Faults with which a peer is not relied on (ours)."""
PERIODS = 8
"""Periods after which what somebody did counts half (ours)."""


class Standing:
    """One node's opinion of its peers. It is bounded by the faults of a few periods."""

    def __init__(self) -> None:
        self._faults: Counter[int] = Counter()
        self._cycle = 0

    def begin_period(self) -> None:
        """A period begins."""
        self._cycle += 1
        if self._cycle % PERIODS == 0:
            self._faults = Counter({peer: faults // 2 for peer, faults in self._faults.items() if faults > 1})

    def is_fair(self, peer: int) -> bool:
        """Whether a peer can be relied on."""
        return self._faults[peer] < FAULTS

    def doubt(self, peer: int) -> None:
        """A peer was of no use; that may not be its fault."""
        self._faults[peer] += 1

    def blame(self, peer: int, reason: str) -> list[StreamEffect]:
        """A peer did what no honest node does."""
        self._faults[peer] += 1
        return [Count(f"streams.refused {reason}"), Blame(peer, reason)]
