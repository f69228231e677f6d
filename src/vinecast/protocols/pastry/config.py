"""Pastry's settings."""

from dataclasses import dataclass

from vinecast.core.circle import BITS
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US


@dataclass(frozen=True, slots=True)
class PastryConfig:
    """How large the tables are, and how often and how patiently they are kept up."""

    digit_bits: int = limited(4, at_least=1, at_most=8)
    """Bits in a digit, a divisor of 64 (S0 §6: b = 4)."""
    leaf_size: int = limited(32, at_least=2, at_most=256)
    """Peers in the leaf set, both sides together (S0 §6: l = 32)."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two rounds of upkeep (S0 §6.6: cycles of one minute)."""
    patience: int = limited(1, at_least=1, at_most=100)
    """Periods for which a peer that was asked may be silent (ours)."""
    timeout_s: float = limited(3.0, at_least=0.001, at_most=86400.0)
    """Seconds for an answer: a peer asked less than that ago is not silent yet, and a join that was not
    answered in that time is tried again (ours)."""
    probes: int = limited(4, at_least=0, at_most=256)
    """Peers asked for a row each period, besides the two nearest (ours)."""
    lookup_periods: int = limited(5, at_least=1, at_most=10_000)
    """Periods between two times that a node looks itself up (ours)."""

    def __post_init__(self) -> None:
        check(self)
        if BITS % self.digit_bits:
            raise InputError(f"digit_bits must divide {BITS}, not be {self.digit_bits}")
        if self.leaf_size % 2:
            raise InputError(f"leaf_size must be even, not {self.leaf_size}: both sides are alike")

    @property
    def period_us(self) -> int:
        """The period in microseconds."""
        return round(self.period_s * SECOND_US)

    @property
    def timeout_us(self) -> int:
        """The time for an answer in microseconds."""
        return round(self.timeout_s * SECOND_US)
