"""What live systems on T-Man have in common: when a node has its place on the circle.

A node has its place once the next on either side were the same for a cycle and answered its profile. What it
subscribes to is known to others after some exchanges of profiles.
"""

from collections.abc import Sequence
from typing import Any

from vinecast.core.arrays.profiles import place_of, row_of
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.events import Effect, Received, TimerFired, Unsubscribe
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.tman import TManAnswer, TManEcho, TManRequest
from vinecast.protocols.tman import machine as tman
from vinecast.systems.common.router import ME, EventKnown, Publishing, RouterEvent, RouterPorts, Search
from vinecast.systems.common.tman_base import TManBase, TManBaseConfig

ROUNDS = 2
"""Exchanges of profiles after which neighbours know of a new topic, and what it needs has been asked for
(ours)."""
OTHERS_MAX = 8
"""Subscribers beside the linked ones that are taken for neighbours (ours)."""
FIRST_TIMER, LAST_TIMER = cyclon.TIMER, tman.PROFILE_TIMER

EXCHANGES: tuple[type[Any], ...] = (CyclonRequest, CyclonAnswer, TManRequest, TManAnswer)
"""The messages of an exchange: each travels as its place here."""


def topic_place(ports: RouterPorts, topic: str) -> int:
    """Where a topic is on the circle: the highest bits of the key that its replicas are found by."""
    return place_of(ports.point_of(topic))


def scratch_for(config: TManBaseConfig, ports: RouterPorts) -> Scratch:
    """Working memory of such machines."""
    profiles = ports.peers.profiles
    return ports.scratch(profiles.peers, profiles.topic_ids.size, 0, config.candidates_max)


def near_neighbours(machine: TManBase, topic: int) -> list[int]:
    """Neighbours in a topic are those who subscribe to it, and some more whom Cyclon knows."""
    table, others = machine.profiles.table, machine.cyclon.view.tolist()
    found = [peer for peer in others if row_of(table, peer, topic) >= 0][:OTHERS_MAX]
    return list(dict.fromkeys([*machine.interested(topic), *found]))


class TManRouter:
    """See ``Router``; what differs between these systems is theirs."""

    def __init__(self, ports: RouterPorts, machine: TManBase) -> None:
        self._ports, self._on_tman = ports, machine
        self.subscribes, self.in_use = machine.subscribes, machine.peers_in_use
        self._rounds: dict[int, int] = {}
        """Own topic → exchanges of profiles since it is one"""
        self._ring: list[int] = []
        self._is_in_ring = False
        """Whether the next on the circle were the same for a cycle, and answered."""
        self._echoed: set[int] = set()
        """Who answered the last profile."""

    def handle(self, event: RouterEvent, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, TManEcho()):
                effects = self._on_tman.handle(event, now_us)
                self._echoed.add(sender)
                return effects
            case TimerFired(name):
                self._begin(name)
            case Unsubscribe(topic):
                self._rounds.pop(topic, None)
            case Search() | EventKnown() | Publishing():
                return []
        return self._on_tman.handle(event, now_us)

    def _begin(self, timer: str) -> None:
        """A timer is about to fire."""
        if timer == LAST_TIMER:
            before, self._ring = self._ring, self._on_tman.ring()
            self._is_in_ring = bool(before) and before == self._ring and self._echoed.issuperset(before)
            self._echoed.clear()
            mine = self._ports.peers.profiles.topics_of(ME).tolist()
            self._rounds = {topic: self._rounds.get(topic, 0) + 1 for topic in mine}

    def partner_of(self, timer: str) -> int:
        partners = {cyclon.TIMER: self._on_tman.cyclon.partner, tman.TIMER: self._on_tman.tman.partner}
        return partners.get(timer, NOBODY)

    def is_ready(self, topic: int, now_us: int) -> bool:
        """Whether others know that a topic is its own, and it has its place on the circle, so that ways lead
        where those of others do."""
        return self._rounds.get(topic, 0) >= ROUNDS and self._is_in_ring

    def is_searching(self, topic: int, now_us: int) -> bool:
        """See ``Router``: the way is always known."""
        return False

    def neighbours(self, topic: int, now_us: int) -> Sequence[int]:
        return near_neighbours(self._on_tman, topic)
