"""Victor on one node.

The machine does not know the peer sampling layer nor what the application wants: the system hands it
``sample``, the sampled peers and their ages, and ``utility``, which says what candidates are worth to
somebody.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import begin_gathering, gather_one, leave_out
from vinecast.core.arrays.view import Ages, Peers, View, hear_from, keep, make_view, remove, take_oldest
from vinecast.core.config import limited
from vinecast.core.gossip import GossipLayer, Host, ViewGossip
from vinecast.core.machine import NOBODY
from vinecast.protocols.victor import rules
from vinecast.protocols.victor.rules import Scores, make_buckets

TIMER = "victor"

Utility = Callable[[int, NDArray[np.int32], Scores], object]
"""(target, candidates, scores): write what each candidate is worth to the target. candidates, scores:
[candidate]"""
Sample = Callable[[], View]
"""The peer sampling layer's view."""


@dataclass(frozen=True, slots=True)
class VictorConfig(ViewGossip):
    """How large a bucket, how much of it a message carries, how often."""

    view_size: int = limited(20, at_least=1, at_most=1000)
    """Entries in the bucket of a slot (S4 §6.6.3: l_Victor = 20)."""
    gossip_size: int = limited(10, at_least=1, at_most=1000)
    """Entries in a message (S4 §6.6.3: g_Victor = 10)."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two exchanges that a node begins."""


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


class Victor(GossipLayer):
    """The machine. ``slot`` is the slot of its view, −1 before the first; in which slot the node is, it is
    told by ``turn_to``."""

    request: ClassVar[type[Any]] = VictorRequest
    answer: ClassVar[type[Any]] = VictorAnswer
    timer = counter = TIMER

    def __init__(
        self, config: VictorConfig, host: Host, patterns: Patterns, sample: Sample, utility: Utility
    ) -> None:
        super().__init__(host, config.gossip_size, config.period_us)
        self.config = config
        self.slot = -1
        self.round = 0
        self.view = make_view(config.view_size)
        self.peers, self.ages = self.view
        self.buckets = make_buckets((patterns.regular.shape[1],), config.view_size)
        self._patterns = patterns
        self._scores: Scores = np.zeros(host.scratch.peers.size, dtype=np.uint64)
        self._sample = sample
        self._utility = utility

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
            rules.change_slots(self.view, self.slot, slot, self._patterns.regular, self.buckets)
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
            aside = View(self.buckets.aside_peers[slot], self.buckets.aside_ages[slot])
            if slot == present or (aside.peers == NOBODY).all():
                continue
            bucket = View(self.buckets.peers[slot], self.buckets.ages[slot])
            count = self._gather(begin_gathering(self._scratch), slot, bucket)
            count = self._gather(count, slot, aside)
            rules.clear_aside(self.buckets, slot)
            found = self._select(self.me, self.cycle + 1, count, self.config.view_size)
            keep(*bucket, self._scratch, found)

    def _gather(self, count: int, slot: int, entries: View) -> int:
        """Append who is regular in a slot to the candidates: the filter that everything goes through."""
        return rules.gather_regular(self._scratch, count, entries, slot, self._patterns.regular)

    def _gather_news(self, count: int, entries: View) -> int:
        """… who is regular now, and not known to be silent."""
        suspicion, regular = self._suspicion, self._patterns.regular
        return rules.gather_news(
            self._scratch, count, entries, self.slot, regular, suspicion.table, 0, suspicion.cycle
        )

    def _gather_one(self, count: int, peer: int) -> int:
        """Append a peer that was just heard of, if it is regular now."""
        return gather_one(self._scratch, count, peer, 0) if self._patterns.regular[peer, self.slot] else count

    def _select(self, target: int, cycle: int, count: int, most: int) -> int:
        self._utility(target, self._scratch.peers[:count], self._scores[:count])
        return rules.select_best(target, self.seed, cycle, count, most, self._scores, self._scratch)

    def _ask(self, now_us: int) -> View | None:
        if self.slot < 0:
            return None
        slot, buckets = self.slot, self.buckets
        count = self._gather(begin_gathering(self._scratch), slot, self.view)
        count = self._gather_news(count, self._sample())
        count = self._gather_news(count, View(buckets.aside_peers[slot], buckets.aside_ages[slot]))
        rules.clear_aside(buckets, slot)
        found = self._select(self.me, self.cycle, count, self.config.view_size)
        keep(self.peers, self.ages, self._scratch, found)
        self.partner = take_oldest(self.peers, self.ages)
        return None if self.partner == NOBODY else self._chosen_for(self.partner, self.cycle, count)

    def _give(self, sender: int, cycle: int, told: View) -> View | None:
        if self.slot < 0:
            return None
        count = begin_gathering(self._scratch)
        leave_out(self._scratch, told.peers)
        count = self._gather(count, self.slot, self.view)
        return self._chosen_for(sender, cycle, self._gather_news(count, self._sample()))

    def _chosen_for(self, target: int, cycle: int, count: int) -> View:
        found = self._select(target, cycle, self._gather_one(count, self.me), self.config.gossip_size)
        return self._written(found)

    def _merge(self, sender: int, cycle: int, told: View) -> None:
        hear_from(self.peers, self.ages, sender)
        self._suspicion.forgive(sender)
        count = self._gather(begin_gathering(self._scratch), self.slot, self.view)
        count = self._gather_news(self._gather_one(count, sender), told)
        found = self._select(self.me, cycle, count, self.config.view_size)
        keep(self.peers, self.ages, self._scratch, found)
