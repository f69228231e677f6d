"""Vicinity on one node.

The machine does not know the other layers: the system hands it ``others``, which adds their views to a list
of candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import WANTED_MAX, begin_gathering, gather, gather_one
from vinecast.core.arrays.view import View, make_view
from vinecast.core.config import limited
from vinecast.core.exchange import Turn
from vinecast.core.gossip import GossipLayer, Host, ViewGossip
from vinecast.core.machine import NOBODY
from vinecast.protocols.vicinity import rules
from vinecast.protocols.vicinity.rules import Ages, Peers

TIMER = "vicinity"


@dataclass(frozen=True, slots=True)
class VicinityConfig(ViewGossip):
    """How large a view, how much of it a message carries, how often."""

    view_size: int = limited(20, at_least=1, at_most=1000)
    """Entries in the view (S0 §6: ℓ_vic = 20)."""
    gossip_size: int = limited(10, at_least=1, at_most=1000)
    """Entries in a message (S0 §6: g_vic = 10)."""
    wanted: int = limited(4, at_least=1, at_most=WANTED_MAX)
    """Ring neighbours that every topic should have before others come first (S4 formula 2.1: k)."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two exchanges that a node begins."""


@dataclass(frozen=True, slots=True)
class VicinityRequest:
    """What is worth most to the partner, of all the initiator knows. The answer repeats ``cycle``."""

    kind: ClassVar[str] = "vicinity.request"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class VicinityAnswer:
    """What is worth most to the initiator, of all the partner knows."""

    kind: ClassVar[str] = "vicinity.answer"
    cycle: int
    peers: Peers
    ages: Ages


class Vicinity(GossipLayer):
    """The machine. ``others(count)`` adds the other layers' views to the scratch's candidates."""

    request: ClassVar[type[Any]] = VicinityRequest
    answer: ClassVar[type[Any]] = VicinityAnswer
    timer = counter = TIMER

    def __init__(
        self, config: VicinityConfig, host: Host, profiles: Profiles, others: Callable[[int], int]
    ) -> None:
        super().__init__(host, config.gossip_size, config.period_us)
        self.config = config
        self.profiles = profiles
        self.peers, self.ages = make_view(config.view_size)
        self._others = others

    def forget(self, peer: int) -> None:
        rules.remove(self.peers, self.ages, peer)

    def _gather(self) -> int:
        scratch = self._scratch
        return self._others(gather(scratch, begin_gathering(scratch), self.peers, self.ages))

    def _select(self, target: int, cycle: int, count: int, most: int) -> int:
        table, turn = self.profiles.table, Turn(self.seed, cycle, self.me, target)
        known, wanted = rules.NOTHING_KNOWN, self.config.wanted
        return rules.select_best(turn, wanted, count, most, table, self._scratch, known)

    def _ask(self, now_us: int) -> View | None:
        count = self._gather()
        found = self._select(self.me, self.cycle, count, self.config.view_size)
        rules.keep(self.peers, self.ages, self._scratch, found)
        self.partner = rules.take_oldest(self.peers, self.ages)
        return None if self.partner == NOBODY else self._chosen_for(self.partner, self.cycle, count)

    def _give(self, sender: int, cycle: int, told: View) -> View:
        return self._chosen_for(sender, cycle, self._gather())

    def _chosen_for(self, target: int, cycle: int, count: int) -> View:
        count = gather_one(self._scratch, count, self.me, 0)
        return self._written(self._select(target, cycle, count, self.config.gossip_size))

    def _merge(self, sender: int, cycle: int, told: View) -> None:
        scratch = self._scratch
        rules.hear_from(self.peers, self.ages, sender)
        self._suspicion.forgive(sender)
        count = gather(scratch, begin_gathering(scratch), self.peers, self.ages)
        count = gather_one(scratch, count, sender, 0)
        count = self._suspicion.gather(scratch, count, told.peers, told.ages)
        found = self._select(self.me, cycle, count, self.config.view_size)
        rules.keep(self.peers, self.ages, scratch, found)
