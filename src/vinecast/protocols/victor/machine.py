"""Victor on one node.

The machine does not know the peer sampling layer nor what the application wants: the system hands it
``sample``, the sampled peers and their ages, and ``utility``, which says what candidates are worth to
somebody.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.suspicion import SuspicionMemory
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather_one, leave_out
from vinecast.core.arrays.view import Ages, Peers, hear_from, keep, remove, take_oldest, write_out
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, Event, PeerLost, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.protocols.victor import rules
from vinecast.protocols.victor.rules import Scores, make_buckets

TIMER = "victor"

Utility = Callable[[int, NDArray[np.int32], Scores], object]
"""(target, candidates, scores): write what each candidate is worth to the target. candidates, scores:
[candidate]"""
Sample = Callable[[], tuple[Peers, Ages]]
"""The peer sampling layer's view."""


@dataclass(frozen=True, slots=True)
class VictorConfig:
    """How large a bucket, how much of it a message carries, how often."""

    view_size: int = limited(20, at_least=1, at_most=1000)
    """Entries in the bucket of a slot (S4 §6.6.3: l_Victor = 20)."""
    gossip_size: int = limited(10, at_least=1, at_most=1000)
    """Entries in a message (S4 §6.6.3: g_Victor = 10)."""
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
class VictorRequest:
    """What is worth most to the partner, of all regular peers that the initiator knows."""

    kind: ClassVar[str] = "victor.request"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class VictorAnswer:
    """What is worth most to the initiator, without what it sent."""

    kind: ClassVar[str] = "victor.answer"
    cycle: int
    peers: Peers
    ages: Ages


class Victor:
    """The machine. ``slot`` is the slot of its view, −1 before the first; ``on_suspect(peer)`` is told of a
    partner that did not answer."""

    def __init__(
        self,
        config: VictorConfig,
        seed: int,
        me: int,
        patterns: Patterns,
        scratch: Scratch,
        sample: Sample,
        utility: Utility,
        first_after_us: int = 0,
        on_suspect: Callable[[int], object] = lambda peer: None,
        suspicion: SuspicionMemory | None = None,
    ) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.cycle = 0
        self.partner = NOBODY
        self.slot = -1
        self.round = 0
        self.peers: Peers = np.full(config.view_size, NOBODY, dtype=np.int32)
        self.ages: Ages = np.zeros(config.view_size, dtype=np.uint16)
        self.buckets = make_buckets((patterns.regular.shape[1],), config.view_size)
        self._patterns = patterns
        self._scratch = scratch
        self._scores: Scores = np.zeros(scratch.peers.size, dtype=np.uint64)
        self._sample = sample
        self._utility = utility
        self._first_after_us = first_after_us
        self._on_suspect = on_suspect
        self._suspicion = suspicion or SuspicionMemory()

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``. In which slot the node is, it is told by ``turn_to``."""
        match event:
            case Received(sender, VictorRequest() as request):
                return self._answer(sender, request)
            case Received(sender, VictorAnswer() as answer):
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
        """Drop a peer that another layer, or the transport, found gone; the buckets of other slots keep
        it."""
        remove(self.peers, self.ages, peer)

    def turn_to(self, slot: int, cycle_number: int) -> None:
        """The node is in this slot of the so-manieth cycle of recurring behaviour.

        When a cycle is over, the consider sets of all slots are looked through, since the node may be off
        line in some of them (S4 §5.5.3).
        """
        if self.slot != slot:
            rules.change_slots(self.peers, self.ages, self.slot, slot, self._patterns.regular, *self.buckets)
            if self.slot >= 0 and self.round != cycle_number:
                self._consider_all(slot)
        self.slot, self.round = slot, cycle_number

    def regular_nodes(self, slot: int) -> NDArray[np.int32]:
        """The best of the peers that are regular in a slot, as far as the node knows (S4 §5.4)."""
        peers = self.peers if slot == self.slot else self.buckets.peers[slot]
        known = peers[peers != NOBODY]
        found: NDArray[np.int32] = known[self._patterns.regular[known, slot]]
        return found

    def _consider_all(self, present: int) -> None:
        for slot in range(self.buckets.peers.shape[0]):
            aside = self.buckets.aside_peers[slot], self.buckets.aside_ages[slot]
            if slot == present or (aside[0] == NOBODY).all():
                continue
            bucket = self.buckets.peers[slot], self.buckets.ages[slot]
            count = self._gather(begin_gathering(self._scratch), slot, *bucket)
            count = self._gather(count, slot, *aside)
            rules.clear_aside(self.buckets.aside_peers, slot)
            found = self._select(self.me, self.cycle + 1, count, self.config.view_size)
            keep(*bucket, self._scratch, found)

    def _gather(self, count: int, slot: int, peers: Peers, ages: Ages) -> int:
        """Append who is regular in a slot to the candidates: the filter that everything goes through."""
        return rules.gather_regular(self._scratch, count, peers, ages, slot, self._patterns.regular)

    def _gather_news(self, count: int, peers: Peers, ages: Ages) -> int:
        """… who is regular now, and not known to be silent."""
        suspicion, regular = self._suspicion, self._patterns.regular
        return rules.gather_news(
            self._scratch, count, peers, ages, self.slot, regular, suspicion.table, 0, suspicion.cycle
        )

    def _gather_me(self, count: int) -> int:
        if self._patterns.regular[self.me, self.slot]:
            count = gather_one(self._scratch, count, self.me, 0)
        return count

    def _select(self, target: int, cycle: int, count: int, most: int) -> int:
        self._utility(target, self._scratch.peers[:count], self._scores[:count])
        return rules.select_best(target, self.seed, cycle, count, most, self._scores, self._scratch)

    def _chosen(self, found: int) -> tuple[Peers, Ages]:
        peers, ages = np.empty(found, dtype=np.int32), np.empty(found, dtype=np.uint16)
        write_out(self._scratch, found, peers, ages)
        return peers, ages

    def _begin(self) -> list[Effect]:
        effects: list[Effect] = [SetTimer(TIMER, self.config.period_us)]
        if self.partner != NOBODY:
            effects.append(Count("victor.silent"))
            self._suspicion.note(self.partner)
            self._on_suspect(self.partner)
            self.partner = NOBODY
        self.cycle += 1
        if self.slot < 0:
            return effects
        count = self._gather(begin_gathering(self._scratch), self.slot, self.peers, self.ages)
        count = self._gather_news(count, *self._sample())
        aside = self.buckets.aside_peers[self.slot], self.buckets.aside_ages[self.slot]
        count = self._gather_news(count, *aside)
        rules.clear_aside(self.buckets.aside_peers, self.slot)
        found = self._select(self.me, self.cycle, count, self.config.view_size)
        keep(self.peers, self.ages, self._scratch, found)
        self.partner = take_oldest(self.peers, self.ages)
        if self.partner != NOBODY:
            count = self._gather_me(count)
            found = self._select(self.partner, self.cycle, count, self.config.gossip_size)
            effects.append(Send(self.partner, VictorRequest(self.cycle, *self._chosen(found))))
        return effects

    def _answer(self, sender: int, request: VictorRequest) -> list[Effect]:
        if self.slot < 0:
            return []
        scratch, most = self._scratch, self.config.gossip_size
        count = begin_gathering(scratch)
        leave_out(scratch, request.peers[:most])
        count = self._gather(count, self.slot, self.peers, self.ages)
        count = self._gather_me(self._gather_news(count, *self._sample()))
        found = self._select(sender, request.cycle, count, most)
        answer = VictorAnswer(request.cycle, *self._chosen(found))
        self._merge(sender, request.cycle, request.peers[:most], request.ages[:most])
        return [Send(sender, answer)]

    def _end(self, sender: int, answer: VictorAnswer) -> list[Effect]:
        if sender != self.partner or answer.cycle != self.cycle:
            return [Count("victor.late")]
        most = self.config.gossip_size
        self._merge(sender, self.cycle, answer.peers[:most], answer.ages[:most])
        self.partner = NOBODY
        return []

    def _merge(self, sender: int, cycle: int, peers: Peers, ages: Ages) -> None:
        scratch = self._scratch
        hear_from(self.peers, self.ages, sender)
        self._suspicion.forgive(sender)
        count = self._gather(begin_gathering(scratch), self.slot, self.peers, self.ages)
        if self._patterns.regular[sender, self.slot]:
            count = gather_one(scratch, count, sender, 0)
        count = self._gather_news(count, peers, ages)
        found = self._select(self.me, cycle, count, self.config.view_size)
        keep(self.peers, self.ages, scratch, found)
