"""How time is cut, and what counts as regular."""

from dataclasses import dataclass

from vinecast.core.arrays.regularity import DAY_S, WEEK_S, Grid
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US

SLOTS_MAX = 2016
"""A week in slots of five minutes: patterns are told to others, and views are kept for every slot (ours)."""


@dataclass(frozen=True, slots=True)
class RegularityConfig:
    """The cycle of recurring behaviour, its slots, and the threshold."""

    cycle_s: int = limited(DAY_S, at_least=1, at_most=8 * WEEK_S)
    """Seconds of a cycle of recurring behaviour: 86,400 for a day, 604,800 for a week (S4 §2.3)."""
    slot_s: int = limited(3600, at_least=1, at_most=WEEK_S)
    """Seconds of a slot (S4 §6.6.5: an hour). They must divide the cycle."""
    threshold: int = limited(70, at_least=0, at_most=99)
    """γ in per cent: who was on line for a greater share of a slot is regular in it (S4 §6.8: 70)."""
    refresh: str = limited("slot", one_of=("slot", "cycle"))
    """When a node looks at its log again: at every change of slots and whenever it comes on line, by the
    windows that are over (S4 §5.5.1); or in every period, so that the window that is running counts too."""
    clock_skew_s: float = limited(5.0, at_least=0, at_most=WEEK_S)
    """By how many seconds clocks may be apart: for as long before and after a change of slots the neighbours
    of both serve (S4 §6.5: α; five seconds is ours)."""

    def __post_init__(self) -> None:
        check(self)
        if self.cycle_s % self.slot_s:
            raise InputError(f"slot_s ({self.slot_s}) must divide cycle_s ({self.cycle_s}) into equal parts")
        if self.slots > SLOTS_MAX:
            raise InputError(f"a cycle may have {SLOTS_MAX:,} slots at the most, not {self.slots:,}")
        if 2 * self.clock_skew_s >= self.slot_s:
            raise InputError(f"clock_skew_s ({self.clock_skew_s:g}) must be less than half of a slot")

    @property
    def slots(self) -> int:
        """How many slots a cycle has."""
        return self.cycle_s // self.slot_s

    @property
    def grid(self) -> Grid:
        """The cycle and its slots, in microseconds."""
        return Grid(self.cycle_s * SECOND_US, self.slot_s * SECOND_US)

    @property
    def clock_skew_us(self) -> int:
        """The skew in microseconds."""
        return round(self.clock_skew_s * SECOND_US)
