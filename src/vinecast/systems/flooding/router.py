"""Flooding on a live node: every event goes over all links, whoever wants it (``relays``).

A node of which only some links subscribe to a topic could not tell whether the topic's subscribers are linked
to each other at all. So live nodes pass everything on: whoever is in somebody's view gets every event.
"""

from collections.abc import Sequence
from typing import Any

from vinecast.core.arrays.profiles import row_of
from vinecast.core.events import Effect, Message, TimerFired
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.systems.common.router import (
    ME,
    EventKnown,
    LiveParts,
    Peers,
    Publishing,
    RouterEvent,
    RouterPorts,
    Search,
)
from vinecast.systems.flooding.machine import Flooding, FloodingConfig, FloodingEvent

ROUNDS = 3
"""Exchanges after which others have the node in their views (ours)."""


def flooding_config(settings: Any) -> FloodingConfig:
    """Flooding's settings on such a node."""
    return FloodingConfig(
        remembered=settings.remembered,
        remember_s=settings.remember_s,
        relays=True,
        cyclon=CyclonConfig(period_s=settings.period_s),
    )


def make(settings: Any, ports: RouterPorts) -> LiveParts:
    """Flooding for one node."""
    machine = Flooding(flooding_config(settings), ports.seed, ME, ports.peers.profiles)
    return LiveParts(FloodingRouter(machine), FloodingEncoding(ports.peers))


class FloodingEncoding:
    """See ``EventEncoding``: who published an event is in its record."""

    count = 1

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def form_of(self, message: Message) -> int | None:
        return 0 if isinstance(message, FloodingEvent) else None

    def read(self, form: int, topic: int, signed: SignedEvent, hops: int) -> FloodingEvent:
        return FloodingEvent(topic, signed.number, hops, self._peers.number_of_key(signed.record.publisher))


class FloodingRouter:
    """Flooding as the router of one live node."""

    def __init__(self, machine: Flooding) -> None:
        self.machine = machine
        self.subscribes = self.carries = machine.topics.__contains__
        self._rounds = 0

    def handle(self, event: RouterEvent, now_us: int) -> list[Effect]:
        match event:
            case TimerFired(cyclon.TIMER):
                self._rounds = self._rounds + 1 if self._links() else 0
            case EventKnown() | Publishing() | Search():
                return []
        return self.machine.handle(event, now_us)

    def _links(self) -> list[int]:
        links: list[int] = self.machine.cyclon.view.tolist()
        return links

    def in_use(self) -> set[int]:
        return {*self._links(), self.machine.cyclon.partner} - {NOBODY}

    def partner_of(self, timer: str) -> int:
        return self.machine.cyclon.partner if timer == cyclon.TIMER else NOBODY

    def leads_to(self, topic: int, peer: int) -> bool:
        return peer in self._links()

    def is_ready(self, topic: int, now_us: int) -> bool:
        """Whether others had the time to take it into their views."""
        return self._rounds >= ROUNDS

    def is_alone(self, topic: int, now_us: int) -> bool:
        """Whether none of its links subscribes."""
        return not self.neighbours(topic, now_us)

    def is_searching(self, topic: int, now_us: int) -> bool:
        """See ``Router``: nobody is searched for."""
        return False

    def nearest(self, topic: int, now_us: int) -> tuple[int, int]:
        """Two of its links that subscribe."""
        found = [*self.neighbours(topic, now_us), NOBODY, NOBODY]
        return found[0], found[1]

    def neighbours(self, topic: int, now_us: int) -> Sequence[int]:
        """Its links that subscribe."""
        table = self.machine.profiles.table
        return [link for link in self._links() if row_of(table, link, topic) >= 0]

    def takes_any(self, form: int, event: int) -> bool:
        """See ``Router``: everybody passes everything on."""
        return True

    def has_seen(self, event: int, topic: int) -> bool:
        return event in self.machine.recent
