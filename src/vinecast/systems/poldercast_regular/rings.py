"""RingsRegular's layer (S4 §6.4.3): Rings among those who are regular in the present slot.

Everything that Rings decides, it decides by the table of profiles. So a table in which nobody has topics but
those who are regular now, and in which coverage and gaps are those of the regular rings, makes rings of
regular nodes: no other filter is needed, and none can be forgotten. A node that is not regular has no rows in
use itself, asks nobody, and is on nobody's rows.

S4 lets nodes that are not regular keep such rows too, for the day when they become so. They do not use them,
and it costs them an exchange a cycle and as many neighbours again (S4 §6.7.2); here they wait for that day.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import GAPS_UNKNOWN, Profiles, Table
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.ring_places import Ages, Peers
from vinecast.core.arrays.view import View
from vinecast.core.draws import SEED_MAX, purpose, substream
from vinecast.core.events import Effect
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings import Rings, RingsConfig
from vinecast.protocols.rings import rules as ring_rules
from vinecast.protocols.rings_regular import TIMER, RegularAnswer, RegularRequest, rules

_SEED = purpose("rings_regular")


def regular_seed(seed: int) -> int:
    """Draws of the regular rings have nothing to do with those of the others."""
    return int(substream(seed, _SEED)) & SEED_MAX


class RegularProfiles:
    """What profiles say of the regular rings: coverage and gaps beside the pool of topics. One a table of
    profiles."""

    def __init__(self, profiles: Profiles, patterns: Patterns) -> None:
        self.profiles = profiles
        self.patterns = patterns
        self.coverage: NDArray[np.uint8] = np.zeros(profiles.topics.size, dtype=np.uint8)
        self.gaps: NDArray[np.uint32] = np.full(profiles.topics.size, GAPS_UNKNOWN, dtype=np.uint32)
        self._of_slot: dict[int, NDArray[np.int32]] = {}
        self._as_of = -1, -1

    @property
    def table(self) -> Table:
        """Everybody's topics, with what is said of the regular rings."""
        more = self.profiles.topics.size - self.coverage.size
        if more > 0:
            self.coverage = np.concatenate([self.coverage, np.zeros(more, dtype=np.uint8)])
            self.gaps = np.concatenate([self.gaps, np.full(more, GAPS_UNKNOWN, dtype=np.uint32)])
        return self.profiles.table._replace(coverage=self.coverage, gaps=self.gaps)

    def table_of(self, slot: int) -> Table:
        """The topics of those who are regular in a slot; nobody else has any."""
        as_of = self.profiles.changes, self.patterns.changes
        if as_of != self._as_of:
            self._as_of = as_of
            self._of_slot.clear()
        if slot not in self._of_slot:
            self._of_slot[slot] = np.where(self.patterns.regular[:, slot], self.profiles.cnt, 0).astype(
                np.int32
            )
        return self.table._replace(cnt=self._of_slot[slot])

    def annotate(self, peer: int, coverage: NDArray[np.uint8], gaps: NDArray[np.uint32]) -> None:
        """Take over what a peer says about its regular rings, in the order of its topics."""
        table = self.table
        rows = slice(table.beg[peer], table.beg[peer] + coverage.size)
        self.coverage[rows], self.gaps[rows] = coverage, gaps


class _SlotProfiles:
    """The profiles as one node sees them in the slot that it is in: all that Rings asks of them."""

    def __init__(self, shared: RegularProfiles) -> None:
        self.slot = 0
        self._shared = shared

    @property
    def table(self) -> Table:
        return self._shared.table_of(self.slot)

    def topics_of(self, peer: int) -> NDArray[np.int32]:
        return self._shared.profiles.topics_of(peer)


class RingsRegular(Rings):
    """The machine. ``slot`` is the slot of the rows, −1 before the first.

    rows, row_ages: [topic of mine, place], of the present slot; ``peers`` and ``ages`` are all of these while
    the node is regular, and none of them while it is not. stored, stored_ages: [topic of mine, slot, place].
    """

    request, answer, timer = RegularRequest, RegularAnswer, TIMER

    def __init__(
        self, config: RingsConfig, host: Host, shared: RegularProfiles, others: Callable[[int], int]
    ) -> None:
        self._view = _SlotProfiles(shared)
        self._shared = shared
        super().__init__(config, replace(host, seed=regular_seed(host.seed)), self._view, others)
        self.slot = -1
        self.rows, self.row_ages = self.peers, self.ages
        shape = self.rows.shape[0], shared.patterns.regular.shape[1], config.size
        self.stored: Peers = np.full(shape, NOBODY, dtype=np.int32)
        self.stored_ages: Ages = np.zeros(shape, dtype=np.uint16)
        self._use(False)

    def turn_to(self, slot: int, is_regular: bool) -> None:
        """The node is in this slot, and regular in it or not; it says how its rings stand."""
        shared = self._shared
        if slot != self.slot:
            rows, stored = View(self.rows, self.row_ages), View(self.stored, self.stored_ages)
            table, regular = shared.table, shared.patterns.regular
            rules.change_slots(self.me, rows, stored, self.slot, slot, table, regular)
        if slot != self.slot or is_regular != self._is_regular:
            self.lost = True
        self.slot = self._view.slot = slot
        self._use(is_regular)
        if is_regular:
            shared.annotate(self.me, self.coverage(), self.gaps())

    def carriers_in(self, row: int, others: tuple[int, ...]) -> Peers:
        """Who carries the events of a topic: its row, together with the rows of other slots. [place]"""
        if not others:
            own: Peers = self.rows[row]
            return own
        rows = View(self.rows[row][None].copy(), self.row_ages[row][None].copy())
        table, regular = self._shared.table, self._shared.patterns.regular
        for slot in others:
            rules.add_slot(self.me, rows, self.stored[row][None], slot, table, regular)
        both: Peers = rows.peers[0]
        return both

    def forget(self, peer: int) -> None:
        """Drop a peer that was found gone from the rows of the present slot."""
        ring_rules.drop(self.rows, self.row_ages, peer)
        self.lost = True

    def resubscribe(self, before: NDArray[np.int32], after: NDArray[np.int32]) -> None:
        """Move the rows to where the profile's new topics are; new topics begin empty."""
        self.peers, self.ages = self.rows, self.row_ages
        super().resubscribe(before, after)
        self.rows, self.row_ages = self.peers, self.ages
        _, old, new = np.intersect1d(before, after, assume_unique=True, return_indices=True)
        shape = after.size, *self.stored.shape[1:]
        stored, stored_ages = np.full(shape, NOBODY, dtype=np.int32), np.zeros(shape, dtype=np.uint16)
        stored[new], stored_ages[new] = self.stored[old], self.stored_ages[old]
        self.stored, self.stored_ages = stored, stored_ages
        self._use(self._is_regular)

    def peers_in_use(self) -> set[int]:
        """Everybody on any row of any slot, and whoever is asked."""
        return set(self.rows.ravel().tolist()) | set(self.stored.ravel().tolist()) | {self.partner}

    def _use(self, is_regular: bool) -> None:
        self._is_regular = is_regular
        used = self.rows.shape[0] if is_regular else 0
        self.peers, self.ages = self.rows[:used], self.row_ages[:used]

    def _give_up(self) -> None:
        """Whoever was asked stayed silent for a whole cycle: now it leaves the rows (S4 Algorithm 8)."""
        if self.partner != NOBODY:
            self.forget(self.partner)
        super()._give_up()

    def _begin(self, now_us: int) -> list[Effect]:
        effects = super()._begin(now_us)
        if self.partner != NOBODY:
            rules.put_back(self.me, self.partner, self.peers, self.ages, self.profiles.table)
        return effects
