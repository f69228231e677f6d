"""T-Man's configuration."""

from dataclasses import dataclass

from vinecast.core.config import check, limited
from vinecast.core.machine import SECOND_US


@dataclass(frozen=True, slots=True)
class TManConfig:
    """How large a table, how often it is gone over, and when a neighbour counts as gone."""

    table_size: int = limited(15, at_least=4, at_most=1000)
    """Entries in the routing table (S2 §3.6.1: 15)."""
    threshold: int = limited(3, at_least=1, at_most=100)
    """Profiles in a row that a neighbour may leave unanswered (S2 Algorithm 6, THRESHOLD; the number is
    ours)."""
    news_max: int = limited(30, at_least=1, at_most=10_000)
    """Cycles for which word of a peer is passed on and believed after it was last heard (ours): the dead
    are soon forgotten everywhere."""
    introduces: bool = True
    """Whether whoever answers a profile names those of its table that the system thinks the asker should
    meet (ours; S2 has no such thing): a ring closes, and heals, in a fraction of the cycles."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds of a cycle (δt), as in the other systems here."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The length of a cycle in microseconds."""
        return round(self.period_s * SECOND_US)
