"""The settings of multicast trees."""

from dataclasses import dataclass

from vinecast.core.config import check, limited
from vinecast.core.machine import SECOND_US


@dataclass(frozen=True, slots=True)
class TreeConfig:
    """How often trees are mended, and what bounds them."""

    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two heartbeats (S0 §6.5 and §6.6: regular, in cycles of one minute)."""
    patience: int = limited(1, at_least=1, at_most=100)
    """Heartbeats, or answers to them, that may fail to come before a peer is given up (ours)."""
    timeout_s: float = limited(3.0, at_least=0.001, at_most=86400.0)
    """Seconds for a parent to accept a child; it is given up at the next heartbeat after that (ours)."""
    memory_size: int = limited(10_000, at_least=1, at_most=10_000_000)
    """Events remembered so that a second copy is recognised; the oldest is forgotten first (ours)."""
    topics_max: int = limited(100_000, at_least=1, at_most=10_000_000)
    """Trees that a node takes part in before it refuses to forward for more (ours)."""
    children_max: int = limited(1_000_000, at_least=1, at_most=100_000_000)
    """Children of a node, in all trees together, before it refuses more (ours)."""
    pending_max: int = limited(256, at_least=0, at_most=1_000_000)
    """Own events that wait for a route, before the node has joined (ours)."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The period in microseconds."""
        return round(self.period_s * SECOND_US)

    @property
    def timeout_us(self) -> int:
        """The time to accept a child, in microseconds."""
        return round(self.timeout_s * SECOND_US)

    @property
    def silence_us_max(self) -> int:
        """How long a peer may be silent: half a period more than its patience, for latencies to vary."""
        return self.patience * self.period_us + self.period_us // 2
