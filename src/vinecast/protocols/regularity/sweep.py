"""The own-regularity services of a whole population: the same rules, applied to every node's row.

All clocks show the same time, so that everybody is in the same slot.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import Patterns, pack
from vinecast.core.rule import rule
from vinecast.protocols.regularity import rules
from vinecast.protocols.regularity.config import RegularityConfig
from vinecast.protocols.regularity.rules import Times

Flags = NDArray[np.bool_]


class RegularitySweep:
    """A population of services. times: [node, 4]; online_us: [node, slot]; slot, round: of the present
    period."""

    def __init__(self, config: RegularityConfig, patterns: Patterns, gap_us_max: int) -> None:
        nodes, slots = patterns.regular.shape
        self.config = config
        self.patterns = patterns
        self.slot = -1
        self.round = 0
        self.times = rules.make_times((nodes,))
        self.online_us: Times = np.zeros((nodes, slots), dtype=np.int64)
        self.last_slot: NDArray[np.int32] = np.full(nodes, -1, dtype=np.int32)
        self.stale: Flags = np.ones(nodes, dtype=np.bool_)
        self._grid = config.grid
        self._gap_us_max = gap_us_max

    @property
    def nbytes(self) -> int:
        """Bytes of all of it, patterns included."""
        arrays = (
            self.times,
            self.online_us,
            self.last_slot,
            self.stale,
            self.patterns.regular,
            self.patterns.packed,
        )
        return sum(array.nbytes for array in arrays)

    def start(self, nodes: NDArray[np.int64], now_us: int) -> None:
        """Nodes come on line: each notes it in its log."""
        start_nodes(self.times, self.stale, nodes, now_us)

    def forget_state(self, nodes: NDArray[np.int64]) -> None:
        """Lose the log, and the pattern with it."""
        self.times[nodes] = rules.make_times()
        self.online_us[nodes], self.last_slot[nodes] = 0, -1
        self.stale[nodes] = True

    def mark_still_on(self, online: Flags, now_us: int, begin: int, end: int) -> None:
        """BO for the nodes begin … end−1 that are on line."""
        grid = self._grid
        mark_nodes(
            self.times, self.online_us, online, now_us, self._gap_us_max, grid.cycle, grid.slot, begin, end
        )

    def begin_period(self, now_us: int) -> None:
        """Look at the clock: everybody's slot from now on."""
        self.slot, self.round = self._grid.slot_at(now_us), now_us // self._grid.cycle

    def refresh(self, online: Flags, begin: int, end: int) -> None:
        """Find the patterns of the nodes begin … end−1 that are on line, where that is due."""
        grid, always = self._grid, self.config.refresh == "cycle"
        refresh_nodes(
            self.times, self.online_us, self.last_slot, self.stale, self.patterns.regular,
            self.patterns.packed, online, self.slot, always, self.patterns.given, self.config.threshold,
            grid.cycle, grid.slot, begin, end,
        )  # fmt: skip


@rule
def start_nodes(times: Times, stale: Flags, nodes: NDArray[np.int64], now: int) -> None:
    """``mark_on`` for each of ``nodes``."""
    for i in range(nodes.size):
        rules.mark_on(times[nodes[i]], now)
        stale[nodes[i]] = True


@rule
def mark_nodes(
    times: Times,
    online_us: Times,
    online: Flags,
    now: int,
    gap_max: int,
    cycle: int,
    slot: int,
    begin: int,
    end: int,
) -> None:
    """``mark_still_on`` for whoever is on line."""
    for p in range(begin, end):
        if online[p]:
            rules.mark_still_on(times[p], online_us[p], now, gap_max, cycle, slot)


@rule
def refresh_nodes(
    times: Times,
    online_us: Times,
    last_slot: NDArray[np.int32],
    stale: Flags,
    regular: Flags,
    packed: NDArray[np.uint64],
    online: Flags,
    present: int,
    always: bool,
    given: bool,
    threshold: int,
    cycle: int,
    slot: int,
    begin: int,
    end: int,
) -> None:
    """``begin_period``, after the mark, for whoever is on line. regular: [node, slot]; packed: [node, …]"""
    observed = np.zeros(online_us.shape[1], dtype=np.int64)
    for p in range(begin, end):
        if not online[p]:
            continue
        if not given and (always or stale[p] or last_slot[p] != present):
            rules.find_pattern(times[p], online_us[p], cycle, slot, threshold, always, observed, regular[p])
            pack(regular[p], packed[p])
        last_slot[p], stale[p] = present, False
