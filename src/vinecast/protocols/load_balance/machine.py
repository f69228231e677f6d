"""Load balancing on one node: its load, and its moves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from vinecast.core.events import Count, Effect, Send
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule

LASTING = 4  # ours: a cycle's load counts for about so many cycles
LOAD_MAX = 1 << 40
"""No load is said to be more (ours)."""


@dataclass(frozen=True, slots=True)
class ShiftAsk:
    """May I move to this place, between mine and yours? The sender's load besides."""

    kind: ClassVar[str] = "load_balance.ask"
    place: int
    load: int


@dataclass(frozen=True, slots=True)
class ShiftGrant:
    """Move, and take over what is wanted of the arc; each (attribute, filter, first place, last place)."""

    kind: ClassVar[str] = "load_balance.grant"
    place: int
    load: int
    wanted: tuple[tuple[int, int, int, int], ...]


class Shift(NamedTuple):
    """A move that may be made now."""

    place: int
    wanted: tuple[tuple[int, int, int, int], ...]


@rule
def is_heavier(load: int, other: int, beta: int) -> bool:
    """Whether the successor has so much more to do that one should move (Algorithm 12, lines 2, 3)."""
    return (load == 0 and other > beta) or other > load * beta


@rule
def half_way(here: int, there: int, circle: int) -> int:
    """The place in the middle of the way up from one place to another, or −1 if there is none between."""
    gap = (there - here) % circle
    return (here + gap // 2) % circle if gap >= 2 else -1


class LoadBalance:
    """The machine. ``handed(low, high)``: what is wanted of an arc, going up from low, that may wrap."""

    def __init__(
        self, beta: int, circle: int, handed: Callable[[int, int], Iterable[tuple[int, int, int, int]]]
    ) -> None:
        self.load = 0
        self._beta = beta
        self._circle = circle
        self._handed = handed
        self._seen = 0
        self._asked, self._place = NOBODY, -1

    def clear(self) -> None:
        """A restart: nothing has been seen, nobody is asked."""
        self.load = self._seen = 0
        self._asked = NOBODY

    def note(self) -> None:
        """An event came that it owns and does not want."""
        self._seen += 1

    def turn(self) -> None:
        """A cycle begins."""
        self.load = min(self.load - self.load // LASTING + self._seen, LOAD_MAX)
        if self.load < LASTING and not self._seen:
            self.load = 0
        self._seen = 0
        self._asked = NOBODY

    def consider(self, here: int, successor: int, there: int, load: int) -> list[Effect]:
        """Ask the successor, which is there and has this load, whether one may move."""
        place = half_way(here, there, self._circle)
        if place < 0 or not is_heavier(self.load, load, self._beta):
            return []
        self._asked, self._place = successor, place
        return [Send(successor, ShiftAsk(place, self.load))]

    def hear_ask(self, sender: int, ask: ShiftAsk, predecessor: int, below: int, here: int) -> list[Effect]:
        """Let the predecessor, which is at ``below``, move; nobody else, and nowhere else."""
        up, gap = (ask.place - below) % self._circle, (here - below) % self._circle
        if sender != predecessor or not 0 < up < gap or not 0 <= ask.load <= LOAD_MAX:
            return [Count("load_balance.refused")]
        self.load = (self.load + ask.load) // 2
        wanted = tuple(self._handed((below + 1) % self._circle, ask.place))
        return [Send(sender, ShiftGrant(ask.place, self.load, wanted))]

    def hear_grant(self, sender: int, grant: ShiftGrant) -> Shift | None:
        """The move that was asked for, or None if this one was not."""
        if sender != self._asked or grant.place != self._place or not 0 <= grant.load <= LOAD_MAX:
            return None
        self._asked = NOBODY
        self.load = grant.load
        return Shift(grant.place, grant.wanted)
