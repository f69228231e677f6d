"""What can be set for Vinifera on a live node."""

from dataclasses import dataclass

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.systems.common.wire import TABLE_MAX


@dataclass(frozen=True, slots=True)
class ViniferaSettings:
    """What can be set for Vinifera: S2's parameters."""

    table_size: int = limited(15, at_least=4, at_most=TABLE_MAX)
    """Entries in the routing table, however many filters the node has (S2 §4.6.2: ten)."""
    long_links: int = limited(4, at_least=0, at_most=TABLE_MAX - 2)
    """Those of them at random distances, besides the two of the ring (S2 §4.6.2: none; then ways are long in
    large networks)."""
    beta: int = limited(4, at_least=0, at_most=1_000_000)
    """How many times as much to do a node's successor must have for the node to move towards it; 0: nodes
    never move."""
    to_friends: bool = True
    """Whether who wants an event also sends it to the neighbours that want it, as far as it knows: it is
    faster, and little is lost while nodes come and go, for more copies."""
    requests: int = limited(65_536, at_least=64, at_most=1 << 24)
    """Requests of others that the node has room for."""

    def __post_init__(self) -> None:
        check(self)
        if self.long_links + 2 > self.table_size:
            raise InputError(
                f"long_links + 2 must be at most table_size ({self.table_size}), not {self.long_links + 2}"
            )
