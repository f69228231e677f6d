"""PolderCast with regular rings, for a whole population: PolderCast's sweep, and the regular layers beside
it.

A synchronous cycle is PolderCast's; then everybody looks at its clock, log and pattern and turns to the slot
that it is in; then come Victor's phases and RingsRegular's. It equals machines on the event engine, bit for
bit, as PolderCast's does: the regular layers take nothing from PolderCast but Cyclon's views, and give it
nothing. The clock shows the cycle's number times the period.

Since PolderCast does not notice, one population of it can carry several of regular rings, each with its own
cycle and threshold: what many runs have in common is then done once.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles, Table
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.regularity_overlap import REGULAR_TOPICS_MAX
from vinecast.core.arrays.suspicion import make_suspicion
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.arrays.view import View
from vinecast.core.errors import Bug, InputError
from vinecast.core.exchange import exchange_phases
from vinecast.core.machine import NOBODY
from vinecast.core.sweep import Mailbox, Phase
from vinecast.protocols.regularity.sweep import RegularitySweep
from vinecast.protocols.ringcast.sweep import Again, Forwarding, RingLinks
from vinecast.protocols.rings import sweep as rings
from vinecast.protocols.rings_regular import sweep as slots
from vinecast.protocols.victor import sweep as victor
from vinecast.protocols.victor.rules import Scores, make_buckets
from vinecast.systems.grid.machine import MARKS_APART
from vinecast.systems.poldercast.sweep import Nodes, PolderCastSweep
from vinecast.systems.poldercast_regular.machine import PolderCastRegularConfig, slots_around
from vinecast.systems.poldercast_regular.rings import RegularProfiles, regular_seed


class PolderCastRegularSweep(PolderCastSweep):
    """A population. victor_peers: Victor's views [node, place]; regular_peers: the regular rings' rows [pool,
    place] of the present slot, stored: those of all slots [pool, slot, place]; slot_of: the slot a node was
    last in.

    below: the population that it shares PolderCast with, which is started, stopped and run a cycle first.
    """

    config: PolderCastRegularConfig

    def __init__(
        self,
        config: PolderCastRegularConfig,
        seed: int,
        profiles: Profiles,
        below: PolderCastSweep | None = None,
    ) -> None:
        super().__init__(config, seed, profiles)
        self.below = below
        if below is not None:
            self._take_over(below)
        if len({config.period_us, config.grid.victor.period_us, config.regular.period_us}) > 1:
            raise InputError("a sweep needs the same period_s for all layers")
        if profiles.cnt.max(initial=0) > REGULAR_TOPICS_MAX:
            raise InputError(
                f"with regularity a node can subscribe to {REGULAR_TOPICS_MAX:,} topics at the most"
            )
        nodes, pool = profiles.peers, profiles.topics.size
        size, places, count = config.grid.victor.view_size, config.regular.size, config.grid.regularity.slots
        self.patterns = Patterns(nodes, count)
        self.regularity = RegularitySweep(
            config.grid.regularity, self.patterns, MARKS_APART * config.period_us
        )
        self.now_us = 0
        self.victor_peers = np.full((nodes, size), NOBODY, dtype=np.int32)
        self.victor_ages = np.zeros((nodes, size), dtype=np.uint16)
        self.buckets = make_buckets((nodes, count), size)
        self.regular_peers = np.full((pool, places), NOBODY, dtype=np.int32)
        self.regular_ages = np.zeros((pool, places), dtype=np.uint16)
        self.stored = np.full((pool, count, places), NOBODY, dtype=np.int32)
        self.stored_ages = np.zeros((pool, count, places), dtype=np.uint16)
        self.slot_of = np.full(nodes, -1, dtype=np.int32)
        self.rounds = np.zeros(nodes, dtype=np.int32)
        self.used = np.zeros(nodes, dtype=np.bool_)
        self.regular_lost = np.zeros(nodes, dtype=np.bool_)
        self.victor_silent = np.full(nodes, NOBODY, dtype=np.int32)
        self.regular_silent = np.full(nodes, NOBODY, dtype=np.int32)
        self.grid_suspicion = make_suspicion(nodes)
        self.told = RegularProfiles(profiles, self.patterns)
        """What profiles say of the regular rings."""
        self._all_topics: Table = self.told.table
        self._cnt_now = np.zeros(nodes, dtype=np.int32)
        self._regular_topics: Table = self._all_topics._replace(cnt=self._cnt_now)
        self._sample = np.full_like(self.cyclon.peers, NOBODY)
        self._regular_considered = np.full_like(self.victor_peers, NOBODY)
        self._heard = np.zeros(nodes, dtype=np.bool_)
        self._regular_seed = regular_seed(seed)
        self._regular_mail = Mailbox(nodes, max(config.grid.victor.gossip_size, config.regular.gossip_size))
        self._scores: list[Scores] = []
        self._cycles = 0

    def _take_over(self, below: PolderCastSweep) -> None:
        """Have another population's PolderCast for one's own."""
        config = below.config
        ours = (self.seed, self.nodes, self.config.cyclon, self.config.vicinity, self.config.rings)
        if ours != (below.seed, below.nodes, config.cyclon, config.vicinity, config.rings):
            raise Bug("regular rings on a PolderCast of another configuration")
        self.cyclon, self.online = below.cyclon, below.online
        self.near_peers, self.near_ages = below.near_peers, below.near_ages
        self.ring_peers, self.ring_ages = below.ring_peers, below.ring_ages

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together, profiles included."""
        views = (self.victor_peers, self.victor_ages, self.regular_peers, self.regular_ages)
        stored = (self.stored, self.stored_ages, *self.buckets, self.told.coverage, self.told.gaps)
        flags = (self.slot_of, self.rounds, self.used, self.regular_lost, self.victor_silent)
        own = (*views, *stored, *flags, self.regular_silent, *self.grid_suspicion, self._regular_considered)
        return super().state_bytes + self.regularity.nbytes + sum(array.nbytes for array in own)

    @property
    def scratch_bytes(self) -> int:
        """Bytes needed besides while a cycle runs, without the working memory of each thread."""
        return super().scratch_bytes + self._regular_mail.nbytes + self._sample.nbytes

    def start(self, nodes: Nodes, contacts: NDArray[np.int32]) -> None:
        """See ``PolderCastSweep``; the log says ON."""
        if self.below is None:
            super().start(nodes, contacts)
        silent = (self.victor_silent[nodes] != NOBODY) | (self.regular_silent[nodes] != NOBODY)
        for p in nodes[silent].tolist():
            self._drop_silent_regular(self.victor_silent, p, p + 1)
            self._drop_silent_regular(self.regular_silent, p, p + 1)
            victor.remove_silent(self._victor(0), self.regular_silent, p, p + 1)
        self.victor_silent[nodes] = self.regular_silent[nodes] = NOBODY
        self.grid_suspicion.peers[nodes] = NOBODY
        self.regularity.start(nodes, self._cycles * self.config.period_us)

    def forget_state(self, nodes: Nodes) -> None:
        """Empty all views of nodes that will come back without their state, and their logs."""
        if self.below is None:
            super().forget_state(nodes)
        self.regularity.forget_state(nodes)
        self.victor_peers[nodes], self.victor_ages[nodes], self.slot_of[nodes] = NOBODY, 0, -1
        self.rounds[nodes], self.used[nodes], self.regular_lost[nodes] = 0, False, False
        self.victor_silent[nodes] = self.regular_silent[nodes] = self._regular_considered[nodes] = NOBODY
        buckets = self.buckets
        buckets.peers[nodes] = buckets.aside_peers[nodes] = NOBODY
        buckets.ages[nodes] = buckets.aside_ages[nodes] = buckets.next_place[nodes] = 0
        for node in nodes.tolist():
            rows = slice(self.table.beg[node], self.table.beg[node] + self.table.cnt[node])
            self.regular_peers[rows], self.regular_ages[rows] = NOBODY, 0
            self.stored[rows], self.stored_ages[rows] = NOBODY, 0

    def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
        """PolderCast's, unless another population sees to it; clocks, patterns, slots; regular layers'."""
        below = super().synchronous_phases(workers) if self.below is None else ()
        self.scratch_of(workers - 1)
        return (
            *below,
            Phase("look at the clock", self._look_at_the_clock, divisible=False),
            Phase("own regularity", self._find_patterns), Phase("turn to the slot", self._turn_to_slot),
            Phase("tell of regular rings", self._tell), *self._victor_phases(), *self._regular_phases(),
        )  # fmt: skip

    def scratch_of(self, worker: int) -> Scratch:
        scratch = super().scratch_of(worker)
        while len(self._scores) <= worker:
            self._scores.append(np.zeros(scratch.peers.size, dtype=np.uint64))
        return scratch

    # The clock, the log, the slots.

    def _look_at_the_clock(self, begin: int, end: int, worker: int) -> None:
        self.now_us = self._cycles * self.config.period_us
        self._cycles += 1
        self.regularity.begin_period(self.now_us)

    def _find_patterns(self, begin: int, end: int, worker: int) -> None:
        self.regularity.mark_still_on(self.online, self.now_us, begin, end)
        self.regularity.refresh(self.online, begin, end)

    def _turn_to_slot(self, begin: int, end: int, worker: int) -> None:
        slot, regular, some = self.regularity.slot, self.patterns.regular, slice(begin, end)
        self._cnt_now[some] = np.where(regular[some, slot], self.table.cnt[some], 0)
        sample = self.cyclon.peers[some]
        self._sample[some] = np.where(regular[sample, slot], sample, NOBODY)
        slots.enter_slot(self._slot_rows, self.slot_of, slot, begin, end)
        layer, cycle_number = self._victor(worker), self.regularity.round
        victor.enter_slot(layer, self.slot_of, self.rounds, cycle_number, begin, end)

    def _tell(self, begin: int, end: int, worker: int) -> None:
        rings.publish_coverage(self.regular_peers, self._regular_topics, self.online, self._heard, begin, end)

    # The layers.

    @property
    def _slot_rows(self) -> slots.RegularLayer:
        return slots.RegularLayer(
            View(self.regular_peers, self.regular_ages), View(self.stored, self.stored_ages), self.used,
            self.regular_lost, self.online, self._all_topics, self.patterns.regular,
        )  # fmt: skip

    def _victor(self, worker: int) -> victor.VictorLayer:
        config, scratch = self.config, self.scratch_of(worker)
        return victor.VictorLayer(
            View(self.victor_peers, self.victor_ages), self.buckets, self.cyclon.view, self.patterns.regular,
            self.patterns.packed, self.grid_suspicion, self.victor_silent, self.online, self.cyclon.cycles,
            self.regularity.slot, self.seed, config.vicinity.wanted, config.grid.victor.gossip_size,
            self._all_topics, scratch, self._scores[worker],
        )  # fmt: skip

    def _regular_rings(self, worker: int) -> rings.RingsLayer:
        config, scratch = self.config.regular, self.scratch_of(worker)
        return rings.RingsLayer(
            View(self.regular_peers, self.regular_ages), View(self.victor_peers, self.victor_ages),
            View(self._sample, self.cyclon.ages), self._regular_considered, self.regular_lost,
            self.grid_suspicion, self.regular_silent, self.online, self.cyclon.cycles, self._regular_seed,
            config.gossip_size, config.informed, self._regular_topics, scratch, self._indexes[worker],
        )  # fmt: skip

    def _drop_silent_regular(self, silent: NDArray[np.int32], begin: int, end: int, worker: int = 0) -> None:
        layer = self._regular_rings(worker)._replace(table=self._all_topics)
        rings.drop_silent(layer, silent, begin, end)

    def _victor_phases(self) -> tuple[Phase, ...]:
        def before(begin: int, end: int, worker: int) -> None:
            self._drop_silent_regular(self.victor_silent, begin, end, worker)

        return exchange_phases("victor: ", victor.PASSES, self._victor, self._regular_mail, before)

    def _regular_phases(self) -> tuple[Phase, ...]:
        mail = self._regular_mail

        def before(begin: int, end: int, worker: int) -> None:
            late_us = self.now_us + 2 * (self.config.period_us // 3)
            self.regularity.mark_still_on(self.online, late_us, begin, end)
            self._drop_silent_regular(self.regular_silent, begin, end, worker)
            victor.remove_silent(self._victor(worker), self.regular_silent, begin, end)

        def after(begin: int, end: int, worker: int) -> None:
            rows = View(self.regular_peers, self.regular_ages)
            slots.put_back(mail.partner, rows, self._regular_topics, begin, end)

        layer, passes = self._regular_rings, rings.PASSES
        return exchange_phases("regular rings: ", passes, layer, mail, before, after)

    # Dissemination.

    def second_ring(self, links: RingLinks, forwarding: Forwarding) -> Again:
        """The regular ring, as it is at five sixths of the cycle, when events are published
        (sim/scenario/world.py)."""
        config, slot = self.config.grid.regularity, max(self.regularity.slot, 0)
        at_us = self.now_us + self.config.period_us * 5 // 6
        others = slots_around(config.grid, at_us, config.clock_skew_us, slot)
        regular: NDArray[np.bool_] = np.any(self.patterns.regular[:, [slot, *others]], axis=1)
        ring = self.regular_peers
        if others:
            ring = self.regular_peers.copy()
            copies = self._slot_rows._replace(rows=View(ring, self.regular_ages.copy()))
            for other in others:
                slots.add_slot(copies, other)
        sample = np.where(regular[self.cyclon.peers], self.cyclon.peers, NOBODY).astype(np.int32)
        again = Forwarding(self._regular_seed, forwarding.fanout, False, forwarding.stand_by)
        return Again(RingLinks(ring, self.victor_peers, sample, links.online), again, regular)
