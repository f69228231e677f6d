"""What RingsRegular says: the same as Rings, about regular peers."""

from dataclasses import dataclass
from typing import ClassVar

from vinecast.core.arrays.ring_places import Ages, Peers

TIMER = "rings_regular"


@dataclass(frozen=True, slots=True)
class RegularRequest:
    """Candidates for the partner's rings of regular peers. The answer repeats ``cycle``."""

    kind: ClassVar[str] = "rings_regular.request"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class RegularAnswer:
    """Candidates for the initiator's rings of regular peers."""

    kind: ClassVar[str] = "rings_regular.answer"
    cycle: int
    peers: Peers
    ages: Ages
