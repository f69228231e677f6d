"""What can be set for Vitis on a live node."""

from dataclasses import dataclass

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.systems.common.wire import TABLE_MAX


@dataclass(frozen=True, slots=True)
class VitisSettings:
    """What can be set for Vitis: S2's parameters."""

    table_size: int = limited(15, at_least=4, at_most=TABLE_MAX)
    """Entries in the routing table, however many topics the node has (S2 §3.6.1: 15)."""
    long_links: int = limited(1, at_least=0, at_most=TABLE_MAX - 2)
    """Those of them at random distances, besides the two of the ring (S2 §3.6.2: one)."""
    gateway_hops: int = limited(5, at_least=1, at_most=64)
    """A gateway speaks for nodes so many hops away, at the most (S2 §3.6.1: d = 5)."""
    pull_timeout_s: float = limited(1.0, at_least=0.01, at_most=60.0)
    """Seconds after which an event is asked for elsewhere."""

    def __post_init__(self) -> None:
        check(self)
        if self.long_links + 2 > self.table_size:
            raise InputError(
                f"long_links + 2 must be at most table_size ({self.table_size}), not {self.long_links + 2}"
            )
