"""T-Man on one node: exchanges of tables, and of profiles.

The machine knows neither the sampling service nor what makes a good neighbour: the system hands it
``sample()``, the sample's row, ``select(count)``, which lets the scratch's first ``count`` candidates compete
and leaves the places of the chosen in ``scratch.best``, and ``meet(who, peers, ages, met, met_ages)``, which
keeps, in the two places of ``met``, those whom ``who`` should meet of all that it is handed.
"""

from collections.abc import Callable

import numpy as np

from vinecast.core.arrays.view import Ages, Peers, View, make_view, size_of
from vinecast.core.events import Count, Effect, Event, PeerLost, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.tman import rules
from vinecast.protocols.tman.config import TManConfig
from vinecast.protocols.tman.messages import TManAnswer, TManEcho, TManProfile, TManRequest

TIMER = "tman"
PROFILE_TIMER = "tman.profile"
FANS_MAX = 4096  # ours: whoever holds a node in its table beyond that is not sent its events

Sample = Callable[[], View]
Select = Callable[[int], int]
Meet = Callable[[int, Peers, Ages, Peers, Ages], object]
MET = 2
"""How many each node is introduced to."""


class TMan:
    """The machine. Profiles are exchanged first as much later as the host lets the exchange of tables begin.
    ``told_max``: entries of a message, the sender's own besides."""

    def __init__(
        self,
        config: TManConfig,
        host: Host,
        sample: Sample,
        select: Select,
        told_max: int,
        meet: Meet | None = None,
    ) -> None:
        size = config.table_size
        self.config = config
        self.seed = host.seed
        self.me = host.me
        self.cycle = 0
        self.partner = NOBODY
        self._near, self._met = make_view(size), make_view(MET)
        self.peers, self.ages = self._near
        self.met, self.met_ages = self._met
        self.missed: rules.Missed = np.zeros(size, dtype=np.uint8)
        self._offered, self._offered_ages = make_view(size)
        self._sent: tuple[list[int], list[int]] = [], []
        self._fans: tuple[set[int], set[int]] = set(), set()
        self._meet = meet if config.introduces else None
        self._scratch = host.scratch
        self._suspicion = host.suspicion
        self._sample = sample
        self._select = select
        self._told_max = told_max + 1
        self._first_after_us = host.first_after_us

    @property
    def table(self) -> Peers:
        """The neighbours that it has chosen, in the order chosen."""
        return self.peers[: size_of(self.peers)]

    def neighbours(self) -> list[int]:
        """All that it is linked to: its table, whom it sent the last two profiles, and those who sent it
        theirs meanwhile. A link lasts as long at one end as at the other. The last are ascending."""
        near = dict.fromkeys([*self.table.tolist(), *self._sent[1], *self._sent[0]])
        return list(near | dict.fromkeys(sorted(self._fans[0] | self._fans[1])))

    def told_of(self) -> list[int]:
        """Whom it was introduced to, and would introduce others to; NOBODY among them."""
        return [*self.met.tolist(), *self._offered.tolist()]

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``. The time does not matter to T-Man, only the order of events does."""
        match event:
            case Received(sender, TManProfile() as profile):
                return self._echo(sender, profile)
            case Received(sender, TManEcho() as echo):
                self._hear(sender)
                if self._meet is not None:
                    told = slice(1, 1 + MET)
                    self._meet(self.me, echo.peers[told], echo.ages[told], self.met, self.met_ages)
                return []
            case Received(sender, TManRequest() as request):
                return self._answer(sender, request)
            case Received(sender, TManAnswer() as answer):
                return self._end(sender, answer)
            case TimerFired(name) if name == TIMER:
                return self._begin()
            case Start():
                self.partner = NOBODY
                self._fans, self._sent = (set(), set()), ([], [])
                self.met[:] = self._offered[:] = NOBODY
                after_us = self._first_after_us
                return [SetTimer(TIMER, after_us), SetTimer(PROFILE_TIMER, 2 * after_us)]
            case PeerLost(peer):
                self.forget(peer)
                return []
            case _:
                return []

    def forget(self, peer: int) -> None:
        """Drop a peer that is known to be gone."""
        rules.remove(self.peers, self.ages, self.missed, peer)
        self.met[self.met == peer] = self._offered[self._offered == peer] = NOBODY
        for fans, sent in zip(self._fans, self._sent, strict=True):
            fans.discard(peer)
            if peer in sent:
                sent.remove(peer)

    # The exchange of tables.

    def _known(self) -> int:
        suspicion = self._suspicion
        return rules.gather_known(
            self.me, self._near, self._sample(), self._met, suspicion.table, 0, suspicion.cycle, self._scratch
        )

    def _told(self, count: int) -> tuple[Peers, Ages]:
        peers, ages = np.empty(self._told_max, np.int32), np.empty(self._told_max, np.uint16)
        written = rules.write_known(self.me, count, self.config.news_max, self._scratch, peers, ages)
        return peers[:written], ages[:written]

    def _begin(self) -> list[Effect]:
        effects: list[Effect] = [SetTimer(TIMER, self.config.period_us)]
        if self.partner != NOBODY:
            effects.append(Count("tman.silent"))
        self.cycle += 1
        self.partner = rules.choose_partner(self.seed, self.cycle, self.me, self.peers, self._sample().peers)
        if self.partner != NOBODY:
            effects.append(Send(self.partner, TManRequest(self.cycle, *self._told(self._known()))))
        return effects

    def _answer(self, sender: int, request: TManRequest) -> list[Effect]:
        answer = TManAnswer(request.cycle, *self._told(self._known()))
        self._merge(sender, request.peers, request.ages)
        return [Send(sender, answer)]

    def _end(self, sender: int, answer: TManAnswer) -> list[Effect]:
        if sender != self.partner or answer.cycle != self.cycle:
            return [Count("tman.late")]
        self.partner = NOBODY
        self._merge(sender, answer.peers, answer.ages)
        return []

    def _merge(self, sender: int, peers: Peers, ages: Ages) -> None:
        self._hear(sender)
        suspicion, most = self._suspicion, self._told_max
        count = rules.gather_told(
            sender, View(peers[:most], ages[:most]), self.config.news_max, suspicion.table, 0,
            suspicion.cycle, self._known(), self._scratch,
        )  # fmt: skip
        found = self._select(count)
        rules.keep(self.peers, self.ages, self.missed, self._scratch, found)

    # The exchange of profiles.

    def exchange_profiles(self) -> list[Effect]:
        """Send the profile to the whole table, without those who were silent for too long (Algorithm 6)."""
        effects: list[Effect] = [SetTimer(PROFILE_TIMER, self.config.period_us)]
        suspicion = self._suspicion
        lost = rules.drop_stale(
            self.peers, self.ages, self.missed, self.config.threshold, suspicion.table, 0, suspicion.cycle
        )
        if lost:
            effects.append(Count("tman.stale", lost))
        rules.offer(self.peers, self.ages, self.missed, self._offered, self._offered_ages)
        self.met[:] = NOBODY
        self._fans, self._sent = (self._fans[1], set()), (self._sent[1], self.table.tolist())
        profile = TManProfile(self.cycle, *self._own())
        return effects + [Send(peer, profile) for peer in self._sent[1]]

    def _own(self) -> tuple[Peers, Ages]:
        return np.array([self.me], dtype=np.int32), np.zeros(1, dtype=np.uint16)

    def _echo(self, sender: int, profile: TManProfile) -> list[Effect]:
        self._hear(sender)
        if len(self._fans[1]) < FANS_MAX:
            self._fans[1].add(sender)
        peers, ages = np.full(1 + MET, NOBODY, dtype=np.int32), np.zeros(1 + MET, dtype=np.uint16)
        peers[0] = self.me
        if self._meet is not None:
            self._meet(sender, self._offered, self._offered_ages, peers[1:], ages[1:])
        named = peers != NOBODY
        return [Send(sender, TManEcho(profile.cycle, peers[named], ages[named]))]

    def _hear(self, sender: int) -> None:
        rules.hear_from(self.peers, self.ages, self.missed, sender, self._suspicion.table, 0)
