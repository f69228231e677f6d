"""A system on a table of neighbours that T-Man builds: what all systems of S2 have in common (§3.6, §4.2).

Cyclon samples, T-Man chooses from the sample and from what neighbours tell, profiles keep the table fresh.
A cycle has three moments: at its beginning profiles are refreshed and Cyclon asks; after a third of it tables
are exchanged; after two thirds profiles, and whatever the system builds from them. How events travel, a
system says (``systems/common/notices_base``, ``systems/vinifera/events``).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles, row_of
from vinecast.core.arrays.suspicion import SuspicionMemory
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, Scratch, make_scratch
from vinecast.core.arrays.view import Ages, Peers, View
from vinecast.core.config import check
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerFound,
    PeerLost,
    Publish,
    Received,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.tman import TMan, TManAnswer, TManConfig, TManEcho, TManProfile, TManRequest
from vinecast.protocols.tman import machine as tman
from vinecast.systems.common.plain import OwnTopics
from vinecast.systems.common.recent import RecentEvents, Remembering

Topics = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TManBaseConfig(Remembering):
    """The two layers below, and how events are remembered."""

    cyclon: CyclonConfig = field(default_factory=CyclonConfig)
    """The peer sampling service (S2 §3.6 has Newscast; any will do, §3.2)."""
    tman: TManConfig = field(default_factory=TManConfig)
    """The routing table."""

    def __post_init__(self) -> None:
        check(self)
        if self.cyclon.period_us != self.tman.period_us:
            raise InputError("cyclon.period_s and tman.period_s must be the same")

    @property
    def period_us(self) -> int:
        """The length of a cycle in microseconds."""
        return self.tman.period_us

    @property
    def told_max(self) -> int:
        """Entries that a message of T-Man can have, the sender's own besides."""
        return self.tman.table_size + self.cyclon.view_size + tman.MET

    @property
    def candidates_max(self) -> int:
        """The longest list that is ever chosen, and a quarter of the longest that is chosen from: all
        neighbours."""
        return max(self.told_max + 1, (3 * self.tman.table_size + 2 * tman.FANS_MAX) // 4 + 1)

    def make_scratch(self, profiles: Profiles) -> Scratch:
        """Working memory that machines of one population share."""
        return make_scratch(profiles.peers, profiles.topic_ids.size, 0, self.candidates_max)


class TManBase:
    """The machine, but for the choice of neighbours and the ways of events."""

    def __init__(
        self, name: str, config: TManBaseConfig, seed: int, me: int, profiles: Profiles, scratch: Scratch
    ) -> None:
        if not 0 <= me < profiles.peers:
            raise InputError(f"node {me} has no profile")
        if profiles.cnt[me] > TOPICS_MAX:
            raise InputError(f"a node can subscribe to {TOPICS_MAX:,} topics at the most")
        self.seed = seed
        self.me = me
        self.profiles = profiles
        self.cyclon = Cyclon(config.cyclon, seed, me)
        self._name = name
        self._scratch = scratch
        self._suspicion = SuspicionMemory()
        self._topics = OwnTopics(profiles, me, name)
        self.recent = RecentEvents(config.remembered, config.remember_us, name)
        """Which events came by lately."""
        host = Host(seed, me, scratch, self._suspicion, config.period_us // 3)
        self.tman = TMan(config.tman, host, self._sample, self._select, config.told_max, self._meet)

    # What a system decides.

    def _select(self, count: int) -> int:
        """Choose the table among the scratch's first ``count`` candidates (S2 Algorithm 4)."""
        raise NotImplementedError

    def _meet(self, who: int, peers: Peers, ages: Ages, met: Peers, met_ages: Ages) -> None:
        """Keep those of the peers that ``who`` should meet."""

    def _refresh(self) -> None:
        """A cycle begins: say in the profile what there is to say."""

    def _build(self) -> list[Effect]:
        """Profiles have been sent: build on what those of the neighbours said."""
        return []

    def _change_topics(self, before: Topics, after: Topics) -> None:
        """Its topics are others now."""

    def _start(self) -> None:
        """The node comes up, for the first time or again."""

    # What all of them do.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(_, TManRequest() | TManAnswer() | TManProfile() | TManEcho()):
                return self.tman.handle(event, now_us)
            case Received() | PeerFound():
                return self.cyclon.handle(event, now_us)
            case TimerFired(cyclon.TIMER):
                self._suspicion.cycle += 1
                self._refresh()
                return self.cyclon.handle(event, now_us)
            case TimerFired(tman.PROFILE_TIMER):
                return self.tman.exchange_profiles() + self._build()
            case Subscribe(topic):
                return self._resubscribe(self._topics.add, topic)
            case Unsubscribe(topic):
                return self._resubscribe(self._topics.remove, topic)
            case PeerLost(peer):
                self._suspicion.note(peer)
                return self.cyclon.handle(event, now_us) + self.tman.handle(event, now_us)
            case Start():
                self._suspicion.clear()  # who was silent before a restart may be back
                self._start()
                return self.cyclon.handle(event, now_us) + self.tman.handle(event, now_us)
            case Publish():
                return [Count(f"{self._name}.unexpected")]
            case TimerFired() | Stop():
                return self.cyclon.handle(event, now_us) + self.tman.handle(event, now_us)

    def has_seen(self, event: int) -> bool:
        """Whether an event came by lately."""
        return event in self.recent

    def subscribes(self, topic: int) -> bool:
        """Whether a topic is one of its own."""
        return topic in self._topics

    def neighbours(self) -> list[int]:
        """All that it is linked to."""
        return self.tman.neighbours()

    def ring(self) -> list[int]:
        """The next on the circle, going up and going down, as far as it knows: in systems that have a ring,
        they stand first in the table."""
        return self.tman.table[:2].tolist()  # type: ignore[no-any-return]

    def peers_in_use(self) -> set[int]:
        """Everybody in a view, linked, asked or remembered as silent: whose numbers must stay theirs."""
        silent = self._suspicion.table.peers[0].tolist()
        known = {*self.cyclon.peers.tolist(), *silent, *self.tman.neighbours(), *self.tman.told_of()}
        return (known | {self.cyclon.partner, self.tman.partner}) - {NOBODY}

    def interested(self, topic: int) -> list[int]:
        """The neighbours that subscribe to a topic."""
        table = self.profiles.table
        return [peer for peer in self.neighbours() if row_of(table, peer, topic) >= 0]

    def _sample(self) -> View:
        return View(self.cyclon.peers, self.cyclon.ages)

    def _resubscribe(self, change: Callable[[int], list[Effect]], topic: int) -> list[Effect]:
        before = self.profiles.topics_of(self.me).copy()
        effects = change(topic)
        after = self.profiles.topics_of(self.me)
        if not np.array_equal(before, after):
            self._change_topics(before, after)
        return effects
