"""Cyclon on one node: the rules, driven by a timer and by messages.

As soon as it starts, and then once a period, the node begins an exchange with its oldest entry; whoever is
asked answers at once; the answer ends the exchange. There is no time-out: an exchange that is still open
when the next one begins is given up, and its silent partner is gone for good, since it left the view when
it was asked.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vinecast.core.config import limited
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerFound,
    PeerLost,
    Received,
    Send,
    SetTimer,
    Start,
    TimerFired,
)
from vinecast.core.gossip import ViewGossip
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import rules
from vinecast.protocols.cyclon.rules import SENT, SIZE, Ages, Entries, Peers

TIMER = "cyclon"


@dataclass(frozen=True, slots=True)
class CyclonConfig(ViewGossip):
    """How large a view, how much of it a message carries, how often."""

    view_size: int = limited(20, at_least=1, at_most=1000)
    """Entries in the view (S0 §6: ℓ_cyc = 20)."""
    gossip_size: int = limited(10, at_least=1, at_most=1000)
    """Entries in a message, the sender's own among them (S0 §6: g_cyc = 10)."""
    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds between two exchanges that a node begins (S0 §6.6: cycles of one minute)."""


@dataclass(frozen=True, slots=True)
class CyclonRequest:
    """The initiator's entries, its own first. ``cycle`` numbers the exchange; the answer repeats it."""

    kind: ClassVar[str] = "cyclon.request"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class CyclonAnswer:
    """The partner's entries."""

    kind: ClassVar[str] = "cyclon.answer"
    cycle: int
    peers: Peers
    ages: Ages


class Cyclon:
    """The machine. ``me`` is the node's own number, ``seed`` keys its draws."""

    def __init__(self, config: CyclonConfig, seed: int, me: int) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.cycle = 0
        self.partner = NOBODY
        self.peers: Peers = np.full(config.view_size, NOBODY, dtype=np.int32)
        self.ages: Ages = np.zeros(config.view_size, dtype=np.uint16)
        self.extent: rules.Extent = np.zeros(2, dtype=np.int16)
        self._row = self.peers, self.ages, self.extent
        self._every_period = SetTimer(TIMER, config.period_us)

    @property
    def view(self) -> Peers:
        """The peers it knows, in no particular order."""
        return self.peers[: self.extent[SIZE]]

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``. The time does not matter to Cyclon, only the order of events does."""
        match event:
            case Received(sender, CyclonRequest() as request):
                return self._answer(sender, request)
            case Received(sender, CyclonAnswer() as answer):
                return self._end(sender, answer)
            case TimerFired(name) if name == TIMER:
                return self._begin()
            case Start(contacts):
                return self._start(contacts)
            case PeerLost(peer):
                return self._forget(peer)
            case PeerFound(peer):
                rules.admit(self._row, self.me, peer)
                return []
            case _:
                return []

    def _start(self, contacts: tuple[int, ...]) -> list[Effect]:
        self.partner = NOBODY
        self.extent[SENT] = 0
        for contact in contacts:
            rules.meet(self._row, self.me, contact)
        return [SetTimer(TIMER, 0)]

    def _begin(self) -> list[Effect]:
        silent, size = self.partner, self.config.gossip_size
        out = np.empty(size, np.int32), np.empty(size, np.uint16)
        self.cycle += 1
        self.partner, count = rules.begin_exchange(self._row, self.seed, self.cycle, self.me, out)
        effects: list[Effect] = [self._every_period]
        if count:
            effects.append(Send(self.partner, CyclonRequest(self.cycle, *_first(out, count))))
        if silent != NOBODY:
            effects.append(Count("cyclon.silent"))
        return effects

    def _answer(self, sender: int, request: CyclonRequest) -> list[Effect]:
        size = self.config.gossip_size
        told = _first((request.peers, request.ages), size)
        out = np.empty(size, np.int32), np.empty(size, np.uint16)
        count = rules.answer_request(self._row, self.seed, request.cycle, self.me, sender, told, out)
        return [Send(sender, CyclonAnswer(request.cycle, *_first(out, count)))]

    def _end(self, sender: int, answer: CyclonAnswer) -> list[Effect]:
        if sender != self.partner or answer.cycle != self.cycle:
            return [Count("cyclon.late")]
        told = _first((answer.peers, answer.ages), self.config.gossip_size)
        rules.end_exchange(self._row, self.me, sender, told)
        self.partner = NOBODY
        return []

    def _forget(self, peer: int) -> list[Effect]:
        rules.forget(self._row, peer)
        return []


def _first(entries: Entries, most: int) -> Entries:
    """The first entries, as many as may be."""
    peers, ages = entries
    return entries if peers.size <= most else (peers[:most], ages[:most])
