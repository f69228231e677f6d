"""PolderCast with a second ring for every topic, of those who are regular now (S4 ch. 6).

    RingsRegular   per topic, the regular subscribers just before and after on the circle
    Victor         the regular peers that share most, most of all where those rings lack neighbours
    regularity     the node's own pattern
    …              and PolderCast below, which does not notice

GRID (systems/grid) is Victor and the regularity service above PolderCast's Cyclon; S4 §6.6.3 shares it
too. The regular layers' turns coincide with those of PolderCast's, Victor's with Vicinity's and
RingsRegular's with Rings'. They have a memory of their own of who was silent, so that PolderCast behaves as
without them, to the bit: what the second ring is worth can be told from the same run twice.

An event travels along both rings, with a fan-out of f on each: a node that is regular now forwards it on the
first ring as always, and then to its neighbours on the regular one and to random regular subscribers, none of
whom it has sent it to already, f of them if it knows as many.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import GAPS_UNKNOWN, Profiles
from vinecast.core.arrays.regularity import Grid, Patterns
from vinecast.core.arrays.regularity_overlap import REGULAR_TOPICS_MAX, score_regular
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, leave_out
from vinecast.core.arrays.view import View
from vinecast.core.config import check
from vinecast.core.draws import SEED_MAX
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, Event, PeerLost, Received, Send, Start, Stop, TimerFired
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.ringcast import rules as ringcast
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.rings_regular import TIMER, RegularAnswer, RegularRequest
from vinecast.protocols.victor import VictorAnswer, VictorRequest
from vinecast.protocols.victor import machine as victor
from vinecast.systems.grid import machine as grid
from vinecast.systems.grid.machine import GridConfig, GridService
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast, PolderCastEvent
from vinecast.systems.poldercast_regular.rings import RegularProfiles, RingsRegular

Peers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PolderCastRegularConfig(PolderCastConfig):
    """PolderCast, GRID and the regular rings."""

    grid: GridConfig = field(default_factory=GridConfig)
    regular: RingsConfig = field(default_factory=RingsConfig)
    """The rings of regular nodes (S4 §6.6.3: k = 4, g_RingsRegular = 10, as in Rings)."""

    def __post_init__(self) -> None:
        PolderCastConfig.__post_init__(self)
        check(self)
        if self.regular.size != self.rings.size:
            raise InputError(f"regular.size ({self.regular.size}) must be that of rings ({self.rings.size})")

    @property
    def most(self) -> int:
        """The longest list that any layer ever chooses."""
        sizes = (self.cyclon.view_size, self.vicinity.view_size, self.rings.gossip_size, self.fanout)
        return max(*sizes, self.grid.victor.view_size, self.regular.gossip_size)


def slots_around(time: Grid, now_us: int, skew_us: int, slot: int) -> tuple[int, ...]:
    """The slots whose neighbours serve besides those of ``slot``: what others may take for the present
    one."""
    around = {time.slot_at(now_us - skew_us), time.slot_at(now_us + skew_us)}
    return tuple(sorted(around - {slot}))


class PolderCastRegular(PolderCast):
    """The machine. ``shared`` says of everybody what profiles say of the regular rings, and when it is
    regular."""

    config: PolderCastRegularConfig

    def __init__(
        self,
        config: PolderCastRegularConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        scratch: Scratch,
        shared: RegularProfiles,
    ) -> None:
        super().__init__(config, seed, me, profiles, scratch)
        self._check_topics(int(profiles.cnt[me]))
        self.patterns: Patterns = shared.patterns
        self._shared = shared
        self._time = config.grid.regularity.grid
        self._more = np.empty(2 * config.fanout + 4, dtype=np.int32)
        self._candidates = np.empty(scratch.peers.size, dtype=np.int32)
        self.grid = GridService(
            config.grid,
            Host(seed, me, scratch, on_suspect=lambda peer: self.regular.forget(peer)),
            shared.patterns,
            lambda: View(self.cyclon.peers, self.cyclon.ages),
            self._utility,
        )
        after_us, forget = 2 * (config.period_us // 3), self.grid.victor.forget
        host = Host(seed, me, scratch, self.grid.suspicion, after_us, forget)
        self.regular = RingsRegular(config.regular, host, shared, self._beside_regular)

    @staticmethod
    def _check_topics(topics: int) -> None:
        if topics > REGULAR_TOPICS_MAX:
            raise InputError(
                f"with regularity a node can subscribe to {REGULAR_TOPICS_MAX:,} topics at the most"
            )

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(_, VictorRequest() | VictorAnswer()):
                return self.grid.handle(event, now_us)
            case Received(_, RegularRequest() | RegularAnswer()):
                return self.regular.handle(event, now_us)
            case TimerFired(name) if name == cyclon.TIMER:
                self.grid.begin_period(now_us)
            case TimerFired(name) if name == grid.TIMER:
                effects = self.grid.handle(event, now_us)
                if self.grid.slot >= 0:
                    self.regular.turn_to(self.grid.slot, self.grid.own.is_regular)
                return effects
            case TimerFired(name) if name == victor.TIMER:
                return self.grid.handle(event, now_us)
            case TimerFired(name) if name == TIMER:
                self.grid.own.mark_still_on(now_us)
                return self.regular.handle(event, now_us)
            case Start() | Stop() | PeerLost():
                below = super().handle(event, now_us)
                return [*below, *self.grid.handle(event, now_us), *self.regular.handle(event, now_us)]
        return super().handle(event, now_us)

    def partner_of(self, timer: str) -> int:
        """Whom the layer of a timer has asked and not heard from yet, or NOBODY."""
        if timer == victor.TIMER:
            return self.grid.victor.partner
        return self.regular.partner if timer == TIMER else super().partner_of(timer)

    def partners(self) -> set[int]:
        """Whom its layers have asked."""
        return (super().partners() | {self.grid.victor.partner, self.regular.partner}) - {NOBODY}

    def peers_in_use(self) -> set[int]:
        """Everybody in a view, asked or remembered as silent: whose numbers must stay theirs."""
        found = self.grid.victor
        arrays = (found.peers, found.buckets.peers.ravel(), found.buckets.aside_peers.ravel())
        regular = set(np.concatenate(arrays).tolist()) | {found.partner} | self.regular.peers_in_use()
        silent = set(self.grid.suspicion.table.peers[0].tolist())
        return (super().peers_in_use() | regular | silent) - {NOBODY}

    def _utility(self, target: int, candidates: Peers, scores: NDArray[np.uint64]) -> None:
        """S4 formula 6.1, for the scratch's candidates."""
        score_regular(
            target,
            self.config.vicinity.wanted,
            candidates.size,
            self._shared.table,
            self.patterns.packed,
            self._scratch,
            scores,
        )

    def _beside_regular(self, count: int) -> int:
        found = self.grid.victor
        count = gather(self._scratch, count, found.peers, found.ages)
        sample = self._regular_sample((self.regular.slot,))
        return self.grid.suspicion.gather(self._scratch, count, sample, self.cyclon.ages)

    def _regular_sample(self, slots: tuple[int, ...]) -> Peers:
        """Cyclon's view, with only those left who are regular in any of these slots."""
        peers = self.cyclon.peers
        regular = self.patterns.regular[peers][:, list(slots)].any(axis=1)
        return np.where(regular, peers, NOBODY).astype(np.int32)

    def _resubscribe(self, topics: Peers) -> list[Effect]:
        if topics.size > REGULAR_TOPICS_MAX:
            return [Count("poldercast.refused subscription")]
        before = self._topics.copy()
        effects = super()._resubscribe(topics)
        after = self._topics
        if not np.array_equal(before, after):
            self.regular.resubscribe(before, after)
            unknown = np.full(after.size, GAPS_UNKNOWN, dtype=np.uint32)
            self._shared.annotate(self.me, np.zeros(after.size, dtype=np.uint8), unknown)
        return effects

    # Dissemination.

    def _forward(self, row: int, topic: int, event: int, hops: int, sender: int, now_us: int) -> list[Effect]:
        sends = super()._forward(row, topic, event, hops, sender, now_us)
        slot = self.regular.slot
        if slot < 0:
            return sends
        others = slots_around(self._time, now_us, self.config.grid.regularity.clock_skew_us, slot)
        slots = (slot, *others)
        if not self.patterns.regular[self.me, list(slots)].any():
            return sends
        ring = self.regular.carriers_in(row, others)
        told = [effect.to for effect in sends if isinstance(effect, Send)]
        more = self._choose_regular(ring, slots, topic, event, sender, told)
        message = PolderCastEvent(topic, event, hops + 1)
        if not self.config.stand_by:
            return [*sends, *(Send(peer, message) for peer in more)]
        return [*sends, *(Send(peer, message, ringcast.stand_by(ring, peer, sender)) for peer in more)]

    def _choose_regular(
        self, ring: Peers, slots: tuple[int, ...], topic: int, event: int, sender: int, told: list[int]
    ) -> list[int]:
        """Whom to forward an event to on the regular ring, other than those who are told already."""
        lower, higher = int(ring[0]), int(ring[ring.size // 2])
        count = ringcast.choose_ring(lower, higher, sender, self._more)
        neighbours = self._more[:count].tolist()
        chosen = [peer for peer in neighbours if peer not in told]
        wanted = ringcast.shortcuts_wanted(lower, higher, sender, self.config.fanout)
        wanted += len(neighbours) - len(chosen)
        if wanted:
            scratch, found = self._scratch, begin_gathering(self._scratch)
            leave_out(scratch, np.array(told, dtype=np.int32))
            found = gather(scratch, found, self.grid.victor.peers, self.grid.victor.ages)
            found = gather(scratch, found, self._regular_sample(slots), self.cyclon.ages)
            kept = ringcast.list_subscribers(topic, self.me, found, self.profiles.table, scratch)
            kept = ringcast.leave_out(scratch.peers[:kept], lower, higher, sender, self._candidates)
            end = ringcast.pick_shortcuts(
                self.regular.seed, event & SEED_MAX, self.me, self._candidates, kept, wanted, self._more, 0
            )
            chosen += self._more[:end].tolist()
        return chosen
