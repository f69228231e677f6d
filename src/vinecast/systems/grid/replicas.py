"""Replica placement (S4 §3.3.2): whom to give copies of what a node keeps, so that one is always to be had.

A second application of GRID, and a small one. Two ways to choose holders are known: the peers that are
regular in most slots, or those whose patterns complement each other, so that at any hour somebody is there.
Both are a utility for Victor to cluster by, and a choice among the peers that GRID has found.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.config import limited
from vinecast.core.events import Effect, Event
from vinecast.protocols.victor.machine import Utility
from vinecast.systems.grid.machine import GridNode, GridNodeConfig

PLACEMENTS = ("regular", "complement")


@dataclass(frozen=True, slots=True)
class ReplicasConfig(GridNodeConfig):
    """GRID, and where copies go."""

    placement: str = limited("complement", one_of=PLACEMENTS)
    """The most regular peers, or those who are regular when the others are not (S4 §3.3.2)."""
    copies: int = limited(3, at_least=1, at_most=100)
    """How many peers hold a copy, besides the node itself (ours)."""


class RegularReplicas:
    """The machine: a GRID node whose utility is good holders."""

    def __init__(
        self, config: ReplicasConfig, seed: int, me: int, patterns: Patterns, scratch: Scratch
    ) -> None:
        self.config = config
        self.me = me
        self.patterns = patterns
        utility = most_regular(patterns) if config.placement == "regular" else complement(patterns)
        self.node = GridNode(config, seed, me, patterns, scratch, utility)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        return self.node.handle(event, now_us)

    def known(self) -> list[int]:
        """Everybody that GRID has found for any slot, ascending."""
        slots = range(self.patterns.regular.shape[1])
        found = {peer for slot in slots for peer in self.node.grid.regular_nodes(slot).tolist()}
        return sorted(found)

    def holders(self) -> list[int]:
        """Who should hold the copies, the best first: each adds as much as it can to those before."""
        regular = self.patterns.regular
        covered, left = regular[self.me].copy(), self.known()
        chosen: list[int] = []
        while left and len(chosen) < self.config.copies:
            if self.config.placement == "regular":
                best = max(left, key=lambda peer: (int(regular[peer].sum()), -peer))
            else:
                best = max(
                    left,
                    key=lambda peer: (int((regular[peer] & ~covered).sum()), int(regular[peer].sum()), -peer),
                )
            chosen.append(best)
            left.remove(best)
            covered |= regular[best]
        return chosen

    def slots_covered(self) -> float:
        """The share of slots in which the node itself or a holder is regular."""
        covered = self.patterns.regular[[self.me, *self.holders()]].any(axis=0)
        return float(np.mean(covered))


def most_regular(patterns: Patterns) -> Utility:
    """Peers are worth as much as they have regular slots, whoever asks."""

    def utility(target: int, candidates: NDArray[np.int32], scores: NDArray[np.uint64]) -> None:
        scores[:] = patterns.regular[candidates].sum(axis=1)

    return utility


def complement(patterns: Patterns) -> Utility:
    """Peers are worth as much as they have regular slots in which the target is not regular."""

    def utility(target: int, candidates: NDArray[np.int32], scores: NDArray[np.uint64]) -> None:
        scores[:] = (patterns.regular[candidates] & ~patterns.regular[target]).sum(axis=1)

    return utility
