"""What there is between two simulated nodes while they have a connection."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class SimulatedSession:
    """What there is between two nodes; index 0 is the lower number's side, or the direction away from it."""

    ends: tuple[int, int]
    way_us: int
    up: list[bool] = field(default_factory=lambda: [False, False])
    free_us: list[int] = field(default_factory=lambda: [0, 0])
    """When a direction has carried all that was sent so far."""
    last_us: list[int] = field(default_factory=lambda: [0, 0])
    """When the latest frame of a direction arrives."""
    held: list[list[tuple[int, bytes]]] = field(default_factory=lambda: [[], []])
    """Frames that a cut holds up, with their numbers."""
    used_us: int = 0
    sent: int = 0
    """The number of the latest frame."""
    closing: int = -1
    """The side that took leave since nobody uses it, and waits for the other; −1 for none."""
    is_torn: bool = False
    """Whether what is on its way is lost."""
    is_ending: bool = False
    """Whether an end is gone that was up."""
    is_over: bool = False

    def side_of(self, node: int) -> int:
        """The side of one of its nodes."""
        return 0 if self.ends[0] == node else 1


def pair_of(one: int, other: int) -> tuple[int, int]:
    """Two nodes, the lower number first."""
    return (one, other) if one < other else (other, one)


def in_turn(sessions: Iterable[SimulatedSession]) -> list[SimulatedSession]:
    """Sessions in the order of their nodes."""
    return sorted(sessions, key=lambda session: session.ends)
