"""Kademlia's settings."""

from dataclasses import dataclass

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US


@dataclass(frozen=True, slots=True)
class KademliaConfig:
    """How many peers stand for a key, how they are kept up, and what a node keeps for others."""

    nearest: int = limited(20, at_least=2, at_most=256)
    """Peers in a bucket, and peers that stand for a key: k (Kademlia §2.2: 20)."""
    parallel: int = limited(3, at_least=1, at_most=64)
    """Peers asked at a time in a lookup: α (Kademlia §2.3: 3)."""
    asked_max: int = limited(160, at_least=1, at_most=100_000)
    """Peers asked in one lookup, at most (ours): only liars make it longer."""
    tasks_max: int = limited(256, at_least=8, at_most=100_000)
    """Operations at a time before more are refused (ours)."""
    timeout_s: float = limited(3.0, at_least=0.001, at_most=3600.0)
    """Seconds for an answer (ours)."""
    tries: int = limited(2, at_least=1, at_most=10)
    """How often a peer is asked before it counts as gone (ours): messages get lost."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two rounds of upkeep (ours)."""
    probes: int = limited(4, at_least=0, at_most=256)
    """Peers pinged in a round, those that have been silent for longest (ours)."""
    lookup_periods: int = limited(5, at_least=1, at_most=10_000)
    """Periods between two times that a node looks itself up (ours)."""
    refresh_s: float = limited(3600.0, at_least=0.001, at_most=86400.0)
    """Seconds without a lookup in a bucket's range after which it is refreshed (Kademlia §2.3: an hour)."""
    expire_s: float = limited(86400.0, at_least=0.001, at_most=31_536_000.0)
    """Seconds that a value or a provider is kept for after its owner spoke of it (Kademlia §2.5: a day)."""
    republish_s: float = limited(3600.0, at_least=0.001, at_most=31_536_000.0)
    """Seconds after which a holder stores a value again that nobody stored with it meanwhile (Kademlia §2.5:
    an hour)."""
    value_bytes_max: int = limited(512 * 1024, at_least=1, at_most=16 * 1024 * 1024)
    """Bytes of a value, at most (ours: the largest event's block and its signature)."""
    records_max: int = limited(16_384, at_least=1, at_most=10_000_000)
    """Values and providers that are kept for others, together (ours)."""
    bytes_max: int = limited(64 * 1024 * 1024, at_least=1024)
    """What they may weigh, together (ours)."""
    providers_max: int = limited(20, at_least=1, at_most=256)
    """Providers of one key; the one that spoke first goes first (ours)."""
    own_max: int = limited(4096, at_least=1, at_most=10_000_000)
    """Values and keys that the node itself puts and provides again and again (ours)."""

    def __post_init__(self) -> None:
        check(self)
        if self.republish_s > self.expire_s / 2:
            raise InputError("republish_s must be at most half of expire_s: values would be gone before")

    @property
    def timeout_us(self) -> int:
        """The time for an answer in microseconds."""
        return round(self.timeout_s * SECOND_US)

    @property
    def period_us(self) -> int:
        """The period in microseconds."""
        return round(self.period_s * SECOND_US)

    @property
    def refresh_us(self) -> int:
        """The age of a bucket that is refreshed, in microseconds."""
        return round(self.refresh_s * SECOND_US)

    @property
    def expire_us(self) -> int:
        """How long something is kept, in microseconds."""
        return round(self.expire_s * SECOND_US)

    @property
    def republish_us(self) -> int:
        """The time from one storing to the next, in microseconds."""
        return round(self.republish_s * SECOND_US)
