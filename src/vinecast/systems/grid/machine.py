"""GRID (S4 ch. 5): who is regular, found for any application that wants to know.

    Cyclon        uniformly random peers
    Victor        for every slot, the regular peers that are worth most to the application
    regularity    the node's own pattern, from its own log, for others to see

An application gives a ``utility`` (S4 §5.4: the callback interface) and asks for ``regular_nodes(slot)`` and
``own_descriptor()`` (the consumer interface). ``GridService`` is GRID above a peer sampling layer that the
application has already, as in systems/poldercast_regular/machine.py; ``GridNode`` is a system of its own,
with its Cyclon.

A period has four moments: at its beginning the node looks at its clock, its log and its pattern, and Cyclon
begins; a sixth later it turns to the slot that it found, when everybody's pattern is told; a third later
Victor begins. What is the present slot is thus settled once a period.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.regularity_overlap import in_common
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.arrays.view import View
from vinecast.core.config import check
from vinecast.core.events import Effect, Event, PeerLost, Received, SetTimer, Start, Stop, TimerFired
from vinecast.core.gossip import Host
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.regularity import OwnRegularity, RegularityConfig
from vinecast.protocols.victor import Victor, VictorAnswer, VictorConfig, VictorRequest
from vinecast.protocols.victor import machine as victor
from vinecast.protocols.victor.machine import Sample, Utility

TIMER = "grid"
TURN = 6
"""The part of a period after which a node turns to its slot: when everybody has told its pattern."""
MARKS_APART = 2
"""Periods that may lie between two marks of a session: a longer gap is sleep, not presence (ours)."""


@dataclass(frozen=True, slots=True)
class GridConfig:
    """What regular means, and how regular peers are found."""

    regularity: RegularityConfig = field(default_factory=RegularityConfig)
    victor: VictorConfig = field(default_factory=VictorConfig)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a node tells of itself (S4 Data Structure 1)."""

    peer: int
    pattern: tuple[bool, ...]
    """[slot], whether it is regular there."""


class GridService:
    """GRID on one node, above a peer sampling layer.

    The application calls ``begin_period`` when a period begins, before anybody looks at the node's profile,
    and hands over whatever GRID handles.
    """

    def __init__(
        self, config: GridConfig, host: Host, patterns: Patterns, sample: Sample, utility: Utility
    ) -> None:
        period_us = config.victor.period_us
        self.config = config
        self.suspicion = host.suspicion
        self.own = OwnRegularity(config.regularity, host.me, patterns, MARKS_APART * period_us)
        host = replace(host, first_after_us=period_us // 3)
        self.victor = Victor(config.victor, host, patterns, sample, utility)

    @property
    def slot(self) -> int:
        """The slot of the present period, or −1."""
        return self.own.slot

    def regular_nodes(self, slot: int) -> NDArray[np.int32]:
        """The peers regular in a slot that are worth most to this node, of all it knows."""
        return self.victor.regular_nodes(slot)

    def own_descriptor(self) -> Descriptor:
        """What the node says of itself."""
        return Descriptor(self.own.me, tuple(self.own.pattern.tolist()))

    def begin_period(self, now_us: int) -> None:
        """Look at the clock, the log and the pattern."""
        self.suspicion.cycle += 1
        self.own.begin_period(now_us)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case TimerFired(name) if name == TIMER:
                if self.slot >= 0:
                    self.victor.turn_to(self.slot, self.own.round)
                return [SetTimer(TIMER, self.config.victor.period_us)]
            case TimerFired():
                self.own.mark_still_on(now_us)
                return self.victor.handle(event, now_us)
            case Start():
                self.suspicion.clear()
                self.own.mark_on(now_us)
                turn = SetTimer(TIMER, self.config.victor.period_us // TURN)
                return [turn, *self.victor.handle(event, now_us)]
            case Stop():
                self.own.mark_off(now_us)
                return self.victor.handle(event, now_us)
            case PeerLost(peer):
                self.suspicion.note(peer)
                return self.victor.handle(event, now_us)
            case _:
                return self.victor.handle(event, now_us)


@dataclass(frozen=True, slots=True)
class GridNodeConfig:
    """GRID with a Cyclon of its own."""

    cyclon: CyclonConfig = field(default_factory=CyclonConfig)
    grid: GridConfig = field(default_factory=GridConfig)

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The length of a period: Cyclon's."""
        return self.cyclon.period_us

    @property
    def most(self) -> int:
        """The longest list that any layer ever chooses."""
        return max(self.cyclon.view_size, self.grid.victor.view_size)


class GridNode:
    """The machine: Cyclon and GRID. ``utility`` is what the application makes of it; left out, peers are
    worth as much as they have slots in common with the node."""

    def __init__(
        self,
        config: GridNodeConfig,
        seed: int,
        me: int,
        patterns: Patterns,
        scratch: Scratch,
        utility: Utility | None = None,
    ) -> None:
        self.cyclon = Cyclon(config.cyclon, seed, me)
        self.grid = GridService(
            config.grid, Host(seed, me, scratch), patterns, self._sample, utility or slots_in_common(patterns)
        )

    def _sample(self) -> View:
        return View(self.cyclon.peers, self.cyclon.ages)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case TimerFired(name) if name == cyclon.TIMER:
                self.grid.begin_period(now_us)
                return self.cyclon.handle(event, now_us)
            case TimerFired(name) if name in (TIMER, victor.TIMER):
                return self.grid.handle(event, now_us)
            case Received(_, VictorRequest() | VictorAnswer()):
                return self.grid.handle(event, now_us)
            case Received() | TimerFired():
                return self.cyclon.handle(event, now_us)
            case _:
                return self.cyclon.handle(event, now_us) + self.grid.handle(event, now_us)


def slots_in_common(patterns: Patterns) -> Utility:
    """Peers are worth as much as they have slots in common with the target."""

    def utility(target: int, candidates: NDArray[np.int32], scores: NDArray[np.uint64]) -> None:
        for i, peer in enumerate(candidates.tolist()):
            scores[i] = in_common(patterns.packed, target, peer)

    return utility
