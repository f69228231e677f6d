"""The own-regularity service on one node.

Whoever drives it tells when the node comes on line, that it still is, and when it leaves; it sums that up by
slots and writes the node's pattern into the table of patterns, for others to see.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import Patterns
from vinecast.protocols.regularity import rules
from vinecast.protocols.regularity.config import RegularityConfig
from vinecast.protocols.regularity.rules import LAST, Times


class OwnRegularity:
    """The service. ``slot`` is the slot of the present period, −1 before any, and ``round`` the number of the
    cycle of recurring behaviour that it belongs to; times are microseconds.

    gap_us_max: how far apart two marks of one session can be
    """

    def __init__(self, config: RegularityConfig, me: int, patterns: Patterns, gap_us_max: int) -> None:
        self.config = config
        self.me = me
        self.patterns = patterns
        self.slot = -1
        self.round = 0
        self._grid = config.grid
        self._gap_us_max = gap_us_max
        self._stale = True
        self._times = rules.make_times()
        self._online: Times = np.zeros(self._grid.slots, dtype=np.int64)
        self._observed: Times = np.zeros(self._grid.slots, dtype=np.int64)
        """Room for what is of no interest when the pattern is looked for."""

    @property
    def pattern(self) -> NDArray[np.bool_]:
        """What the node says of itself. [slot]"""
        own: NDArray[np.bool_] = self.patterns.regular[self.me]
        return own

    @property
    def is_regular(self) -> bool:
        """Whether the node is regular in the slot of the present period."""
        return self.slot >= 0 and bool(self.pattern[self.slot])

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """Begin with what a log tells of earlier runs: (on, off), as ``log.sessions_of`` has them.

        Whatever lies before the latest time known, or ends before it begins, is passed over: time counts
        once.
        """
        grid = self._grid
        for on, off in sessions:
            rules.mark_on(self._times, on)
            last = int(self._times[LAST])
            if last < off:
                rules.count(self._times, self._online, last, off, grid.cycle, grid.slot)
                self._times[LAST] = off

    def shares(self) -> NDArray[np.float64]:
        """The share of each slot that the node was on line for; NaN where nothing was observed. [slot]"""
        observed: Times = np.zeros(self._grid.slots, dtype=np.int64)
        self._look(True, observed)
        shares = np.full(self._grid.slots, np.nan)
        np.divide(self._online, observed, out=shares, where=observed > 0)
        return shares

    def mark_on(self, now_us: int) -> None:
        """ON: the node comes on line."""
        rules.mark_on(self._times, now_us)
        self._stale = True

    def mark_still_on(self, now_us: int) -> None:
        """BO: the node is on line."""
        grid = self._grid
        rules.mark_still_on(self._times, self._online, now_us, self._gap_us_max, grid.cycle, grid.slot)

    def mark_off(self, now_us: int) -> None:
        """OFF: the node leaves."""
        self.mark_still_on(now_us)

    def begin_period(self, now_us: int) -> None:
        """Once a period, when the node's profile is refreshed: mark, and look at the pattern if that is
        due."""
        self.mark_still_on(now_us)
        slot = self._grid.slot_at(now_us)
        if self._stale or slot != self.slot or self.config.refresh == "cycle":
            self.refresh()
        self.slot, self.round, self._stale = slot, now_us // self._grid.cycle, False

    def refresh(self) -> None:
        """Find the pattern anew, and tell it."""
        if not self.patterns.given:
            self.patterns.replace(self.me, self._look(self.config.refresh == "cycle", self._observed))

    def _look(self, with_running: bool, observed: Times) -> NDArray[np.bool_]:
        grid, pattern = self._grid, np.zeros(self._grid.slots, dtype=np.bool_)
        rules.find_pattern(
            self._times,
            self._online,
            grid.cycle,
            grid.slot,
            self.config.threshold,
            with_running,
            observed,
            pattern,
        )
        return pattern
