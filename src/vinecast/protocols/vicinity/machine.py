"""Vicinity on one node.

The machine does not know the other layers: the system hands it ``others``, which adds their views to a list
of candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.suspicion import SuspicionMemory
from vinecast.core.arrays.topic_overlap import WANTED_MAX, Scratch, begin_gathering, gather, gather_one
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, Event, PeerLost, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.exchange import Turn
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.protocols.vicinity import rules
from vinecast.protocols.vicinity.rules import Ages, Peers

TIMER = "vicinity"


@dataclass(frozen=True, slots=True)
class VicinityConfig:
    """How large a view, how much of it a message carries, how often."""

    view_size: int = limited(20, at_least=1, at_most=1000)
    """Entries in the view (S0 §6: ℓ_vic = 20)."""
    gossip_size: int = limited(10, at_least=1, at_most=1000)
    """Entries in a message (S0 §6: g_vic = 10)."""
    wanted: int = limited(4, at_least=1, at_most=WANTED_MAX)
    """Ring neighbours that every topic should have before others come first (S4 formula 2.1: k)."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two exchanges that a node begins."""

    def __post_init__(self) -> None:
        check(self)
        if self.gossip_size > self.view_size:
            raise InputError(f"gossip_size ({self.gossip_size}) must not exceed view_size ({self.view_size})")

    @property
    def period_us(self) -> int:
        """The period in microseconds."""
        return round(self.period_s * SECOND_US)


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


class Vicinity:
    """The machine. ``others(count)`` adds the other layers' views to the scratch's candidates;
    ``on_suspect(peer)`` is told of a partner that did not answer."""

    def __init__(
        self,
        config: VicinityConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        scratch: Scratch,
        others: Callable[[int], int],
        first_after_us: int = 0,
        on_suspect: Callable[[int], object] = lambda peer: None,
        suspicion: SuspicionMemory | None = None,
    ) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.profiles = profiles
        self.cycle = 0
        self.partner = NOBODY
        self.peers: Peers = np.full(config.view_size, NOBODY, dtype=np.int32)
        self.ages: Ages = np.zeros(config.view_size, dtype=np.uint16)
        self._scratch = scratch
        self._others = others
        self._first_after_us = first_after_us
        self._on_suspect = on_suspect
        self._suspicion = suspicion or SuspicionMemory()

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``."""
        match event:
            case Received(sender, VicinityRequest() as request):
                return self._answer(sender, request)
            case Received(sender, VicinityAnswer() as answer):
                return self._end(sender, answer)
            case TimerFired(name) if name == TIMER:
                return self._begin()
            case Start():
                if self.partner != NOBODY:
                    self._on_suspect(self.partner)
                self.partner = NOBODY
                return [SetTimer(TIMER, self._first_after_us)]
            case PeerLost(peer):
                self.forget(peer)
                return []
            case _:
                return []

    def forget(self, peer: int) -> None:
        """Drop a peer that another layer, or the transport, found gone."""
        rules.remove(self.peers, self.ages, peer)

    def _gather(self) -> int:
        scratch = self._scratch
        return self._others(gather(scratch, begin_gathering(scratch), self.peers, self.ages))

    def _select(self, target: int, cycle: int, count: int, most: int) -> int:
        table, turn = self.profiles.table, Turn(self.seed, cycle, self.me, target)
        known, wanted = rules.NOTHING_KNOWN, self.config.wanted
        return rules.select_best(turn, wanted, count, most, table, self._scratch, known)

    def _chosen(self, found: int) -> tuple[Peers, Ages]:
        peers, ages = np.empty(found, dtype=np.int32), np.empty(found, dtype=np.uint16)
        rules.write_out(self._scratch, found, peers, ages)
        return peers, ages

    def _begin(self) -> list[Effect]:
        effects: list[Effect] = [SetTimer(TIMER, self.config.period_us)]
        if self.partner != NOBODY:
            effects.append(Count("vicinity.silent"))
            self._suspicion.note(self.partner)
            self._on_suspect(self.partner)
        self.cycle += 1
        count = self._gather()
        found = self._select(self.me, self.cycle, count, self.config.view_size)
        rules.keep(self.peers, self.ages, self._scratch, found)
        self.partner = rules.take_oldest(self.peers, self.ages)
        if self.partner != NOBODY:
            count = gather_one(self._scratch, count, self.me, 0)
            found = self._select(self.partner, self.cycle, count, self.config.gossip_size)
            effects.append(Send(self.partner, VicinityRequest(self.cycle, *self._chosen(found))))
        return effects

    def _answer(self, sender: int, request: VicinityRequest) -> list[Effect]:
        count = gather_one(self._scratch, self._gather(), self.me, 0)
        found = self._select(sender, request.cycle, count, self.config.gossip_size)
        answer = VicinityAnswer(request.cycle, *self._chosen(found))
        self._merge(sender, request.cycle, request.peers, request.ages)
        return [Send(sender, answer)]

    def _end(self, sender: int, answer: VicinityAnswer) -> list[Effect]:
        if sender != self.partner or answer.cycle != self.cycle:
            return [Count("vicinity.late")]
        self._merge(sender, self.cycle, answer.peers, answer.ages)
        self.partner = NOBODY
        return []

    def _merge(self, sender: int, cycle: int, peers: Peers, ages: Ages) -> None:
        most, scratch = self.config.gossip_size, self._scratch
        rules.hear_from(self.peers, self.ages, sender)
        self._suspicion.forgive(sender)
        count = gather(scratch, begin_gathering(scratch), self.peers, self.ages)
        count = gather_one(scratch, count, sender, 0)
        count = self._suspicion.gather(scratch, count, peers[:most], ages[:most])
        found = self._select(self.me, cycle, count, self.config.view_size)
        rules.keep(self.peers, self.ages, scratch, found)
