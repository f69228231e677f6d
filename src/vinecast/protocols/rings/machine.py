"""Rings on one node.

The machine does not know the other layers: the system hands it ``others``, which adds their views to a list
of candidates. Its topics are those of its own profile; when they change, the system calls ``resubscribe``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from vinecast.core.arrays.profiles import Table, row_of
from vinecast.core.arrays.topic_overlap import begin_gathering, gather, gather_one
from vinecast.core.arrays.view import View, make_view
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.exchange import Turn
from vinecast.core.gossip import GossipLayer, Host, Periodic
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings import informed, rules
from vinecast.protocols.rings.rules import Ages, Peers, Topics

TIMER = "rings"
FOREVER_US = 1 << 62
NO_PEERS: Peers = np.empty(0, dtype=np.int32)
EXCHANGES = ("paper", "informed")


@dataclass(frozen=True, slots=True)
class RingsConfig(Periodic):
    """How many neighbours a topic, how much a message carries, how often."""

    size: int = limited(4, at_least=2, at_most=4)
    """Neighbours a topic, half of them on each side (S0 §6.6: ℓ_ring = 4)."""
    gossip_size: int = limited(10, at_least=1, at_most=1000)
    """Entries in a message (S0 §6: g_ring = 10)."""
    exchange: str = limited("informed", one_of=EXCHANGES)
    """Whom to ask and what to send: the least recently heard, and a random choice (``paper``, S0 §5.1); or by
    what the profiles say is lacking (``informed``, ours)."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two exchanges that a node begins."""
    answer_within: float = limited(0.125, above=0.0, at_most=100.0)
    """Periods in which whoever was asked still counts as a neighbour (ours). In a simulation less than there
    is between two layers' turns; a live node waits for answers that are late."""

    def __post_init__(self) -> None:
        check(self)
        if self.size % 2:
            raise InputError(f"size must be even, half of it for each side, not {self.size}")

    @property
    def informed(self) -> bool:
        """Whether the exchange is the informed one."""
        return self.exchange == "informed"

    @property
    def answer_us(self) -> int:
        """For how long whoever was asked still counts as a neighbour, in microseconds."""
        return int(self.answer_within * self.period_us)


@dataclass(frozen=True, slots=True)
class RingsRequest:
    """Candidates for the partner's rings. The answer repeats ``cycle``."""

    kind: ClassVar[str] = "rings.request"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class RingsAnswer:
    """Candidates for the initiator's rings."""

    kind: ClassVar[str] = "rings.answer"
    cycle: int
    peers: Peers
    ages: Ages


class RingStatus(Protocol):
    """What Rings asks of profiles."""

    @property
    def table(self) -> Table:
        """See ``Profiles``."""

    def topics_of(self, peer: int) -> Topics:
        """See ``Profiles``."""


class Rings(GossipLayer):
    """The machine. ``others(count)`` adds the other layers' views to the scratch's candidates.

    peers, ages: [topic of mine, place], in the order of the own profile's topics.
    """

    request: ClassVar[type[Any]] = RingsRequest
    answer: ClassVar[type[Any]] = RingsAnswer
    timer = counter = TIMER

    def __init__(
        self, config: RingsConfig, host: Host, profiles: RingStatus, others: Callable[[int], int]
    ) -> None:
        super().__init__(host, config.gossip_size, config.period_us)
        self.config = config
        self.profiles = profiles
        self.asked_us = 0
        self.lost = False
        self.peers, self.ages = make_view(profiles.topics_of(host.me).size, config.size)
        self._others = others

    def forget(self, peer: int) -> None:
        rules.drop(self.peers, self.ages, peer)
        self.lost = True

    def resubscribe(self, before: Topics, after: Topics) -> None:
        """Move the rows to where the profile's new topics are; new topics begin empty."""
        peers = np.full((after.size, self.config.size), NOBODY, dtype=np.int32)
        ages = np.zeros((after.size, self.config.size), dtype=np.uint16)
        _, old, new = np.intersect1d(before, after, assume_unique=True, return_indices=True)
        peers[new], ages[new] = self.peers[old], self.ages[old]
        self.peers, self.ages = peers, ages
        self.lost = True

    def carriers(self, row: int, now_us: int) -> Peers:
        """Who carries the events of a topic: its row, and whoever was just asked and had no time to answer.

        A partner leaves the rows when it is asked, and comes back when it answers. That is how the silent
        leave; but events must not miss somebody because it is being talked to. [place]
        """
        peers: Peers = self.peers[row]
        if self.partner == NOBODY or now_us - self.asked_us >= self.config.answer_us:
            return peers
        topic = int(self.profiles.topics_of(self.me)[row])
        if row_of(self.profiles.table, self.partner, topic) < 0:
            return peers
        found, ages = peers[None].copy(), self.ages[row][None].copy()
        rules.offer(found, ages, 0, self.me, self.partner, 0, self.profiles.table)
        both: Peers = found[0]
        return both

    def carriers_until(self, now_us: int) -> int:
        """For how long the carriers stay the same while nothing happens: until a partner's time is up."""
        end_us = self.asked_us + self.config.answer_us
        return FOREVER_US if self.partner == NOBODY or now_us >= end_us else end_us

    def coverage(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """How many neighbours each topic has. [topic of mine]"""
        counts = [rules.count_neighbours(row) for row in self.peers]
        return np.array(counts, dtype=np.uint8)

    def gaps(self) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """How near the nearest neighbours of each topic are. [topic of mine]"""
        table = self.profiles.table
        return np.array([informed.gaps_of(row, self.me, table) for row in self.peers], dtype=np.uint32)

    def _give_up(self) -> None:
        """Whoever was asked stayed silent: everybody known is considered again for the places it left."""
        self.lost |= self.partner != NOBODY
        super()._give_up()

    def _gather(self) -> int:
        scratch = self._scratch
        return self._others(gather(scratch, begin_gathering(scratch), self.peers.ravel(), self.ages.ravel()))

    def _consider(self, count: int) -> None:
        rules.consider(self.me, count, self.peers, self.ages, self.profiles.table, self._scratch)

    def _selected(self, target: int, cycle: int, known: Peers | None) -> View:
        """What to send: to a target that just sent ``known``, or that is about to be asked."""
        scratch, table, most = self._scratch, self.profiles.table, self.config.gossip_size
        turn = Turn(self.seed, cycle, self.me, target)
        out = View(np.empty(most, dtype=np.int32), np.empty(most, dtype=np.uint16))
        if self.config.informed:
            count, told = (0, NO_PEERS) if known is None else (self._gather(), known)
            found = informed.choose_for(turn, count, table, scratch, View(self.peers, self.ages), told, out)
        else:
            common = rules.select_for(target, self.me, self._gather(), table, scratch)
            found = rules.cut(turn, common, scratch, out)
        return View(out.peers[:found], out.ages[:found])

    def _select_partner(self) -> int:
        if not self.config.informed:
            return rules.select_oldest(self.peers, self.ages)
        table = self.profiles.table
        return informed.select_partner(self.me, self.cycle, self.peers, self.ages, table, self._scratch)

    def _ask(self, now_us: int) -> View | None:
        self._consider(self._gather() if self.lost else self._others(begin_gathering(self._scratch)))
        self.lost = False
        rules.grow_older(self.ages)
        self.partner = self._select_partner()
        self.asked_us = now_us
        if self.partner == NOBODY:
            return None
        rules.drop(self.peers, self.ages, self.partner)
        return self._selected(self.partner, self.cycle, None)

    def _give(self, sender: int, cycle: int, told: View) -> View:
        return self._selected(sender, cycle, told.peers)

    def _merge(self, sender: int, cycle: int, told: View) -> None:
        scratch = self._scratch
        rules.hear_from(self.peers, self.ages, sender)
        self._suspicion.forgive(sender)
        count = gather_one(scratch, begin_gathering(scratch), sender, 0)
        self._consider(self._suspicion.gather(scratch, count, told.peers, told.ages))
