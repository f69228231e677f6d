"""Gravity's configuration and what nodes say to each other."""

from dataclasses import dataclass
from typing import ClassVar

from vinecast.core.arrays.bloom import DIFFERENCE_MAX, LEVELS_MAX
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US


@dataclass(frozen=True, slots=True)
class GravityConfig:
    """The filters, the links they travel on, and how often."""

    filter_bytes: int = limited(512, at_least=8, at_most=32_768)
    """Bytes of a level, a power of two (S1 §4: B = 512)."""
    depth: int = limited(3, at_least=1, at_most=LEVELS_MAX)
    """Levels of a filter (S1 §4: K = 3)."""
    hashes: int = limited(4, at_least=1, at_most=16)
    """Bits that an item sets in a level (ours)."""
    degree: int = limited(14, at_least=2, at_most=1000)
    """Neighbours at the most (ours: so many make the 22 kB of S1 §4). A node seeks half of them itself."""
    period_s: float = limited(10.0, at_least=0.001, at_most=86400.0)
    """Seconds between two updates."""
    fresh: float = limited(3.5, at_least=1.0, at_most=1000.0)
    """Periods after which a neighbour that is not heard from is forgotten (S1's T; ours: three may be
    lost)."""
    calm: float = limited(0.3, at_least=0.0, at_most=1.0)
    """A level with at most this share of its bits set is above suspicion (ours: not one stranger in a hundred
    seems to be in it, and a node can have some 350 topics)."""
    crowded: float = limited(0.8, at_least=0.0, at_most=1.0)
    """A level with more bits set than this tells nothing, and is not used (ours)."""

    def __post_init__(self) -> None:
        check(self)
        if self.filter_bytes & (self.filter_bytes - 1):
            raise InputError(f"filter_bytes must be a power of two, not {self.filter_bytes}")
        if self.filter_bytes * self.depth > DIFFERENCE_MAX:
            raise InputError(f"filter_bytes × depth must be at most {DIFFERENCE_MAX:,}")

    @property
    def period_us(self) -> int:
        """The period in microseconds."""
        return round(self.period_s * SECOND_US)

    @property
    def fresh_us(self) -> int:
        """For how long a neighbour counts without being heard from."""
        return round(self.fresh * self.period_us)

    @property
    def state_bytes(self) -> int:
        """Bytes of filters that a node keeps at the most: one of every neighbour."""
        return self.degree * self.depth * self.filter_bytes


@dataclass(frozen=True, slots=True)
class GravityUpdate:
    """The sender's home: all of it, or what has changed since version ``base``. Versions ascend."""

    kind: ClassVar[str] = "gravity.update"
    version: int
    base: int
    """0: ``data`` is all of it."""
    data: bytes


@dataclass(frozen=True, slots=True)
class GravityAsk:
    """The sender cannot use a difference and wants all of it."""

    kind: ClassVar[str] = "gravity.ask"


@dataclass(frozen=True, slots=True)
class GravityRefuse:
    """The sender has no room for another neighbour."""

    kind: ClassVar[str] = "gravity.refuse"


@dataclass(frozen=True, slots=True)
class GravityLeave:
    """The sender is no neighbour any more."""

    kind: ClassVar[str] = "gravity.leave"
