"""PolderCast on a live node: gossip over cards, events along rings."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vinecast.core.arrays.profiles import row_of
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, Scratch
from vinecast.core.events import Count, Effect, Received, Send, TimerFired, Unsubscribe
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.gravity import GravityRefuse, GravityUpdate
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.rings import machine as rings
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.systems.common.anycast import ANYCAST_MESSAGES, AnycastConfig
from vinecast.systems.common.anycast_messages import CONFIG as ANYCAST
from vinecast.systems.common.router import (
    ME,
    EventKnown,
    LiveParts,
    Publishing,
    RouterEvent,
    RouterPorts,
    Search,
)
from vinecast.systems.common.wire import PATIENCE_PERIODS
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast

GRAVITY_PERIODS = 10
"""Periods of a node between two updates of its filters (ours): with the default, ten seconds."""
REQUESTS_IN_HAND = 1024
"""Messages about filters and searches that a peer may send at once (ours): an honest one passes on dozens of
walks a cycle."""
OTHERS_MAX = 8
"""Subscribers beside the ring's that are taken for neighbours (ours)."""
_SEARCHES_ARE_OFF = Count("refused: searches are off here")


def layers_of(settings: Any) -> dict[str, Any]:
    """PolderCast's settings on such a node, by name."""
    return {
        "fanout": settings.fanout,
        "shortcuts": settings.shortcuts,
        "remembered": settings.remembered,
        "remember_s": settings.remember_s,
        "cyclon": CyclonConfig(period_s=settings.period_s),
        "vicinity": VicinityConfig(period_s=settings.period_s),
        "rings": RingsConfig(period_s=settings.period_s, answer_within=PATIENCE_PERIODS),
        "anycast": _anycast_config(settings.anycast, settings.period_s),
    }


def poldercast_config(settings: Any) -> PolderCastConfig:
    """The same as a record."""
    return PolderCastConfig(**layers_of(settings))


def scratch_for(config: PolderCastConfig, ports: RouterPorts) -> Scratch:
    """Working memory of such a machine."""
    most_topics = min(ports.topics_max, TOPICS_MAX)
    return ports.scratch(ports.peers_max, ports.topics_max, most_topics, config.most, config.rings.size)


def _anycast_config(on: bool, period_s: float) -> AnycastConfig:
    if not on:
        return AnycastConfig()
    return replace(ANYCAST, gravity=replace(ANYCAST.gravity, period_s=GRAVITY_PERIODS * period_s))


def make(settings: Any, ports: RouterPorts) -> LiveParts:
    """PolderCast for one node."""
    config = poldercast_config(settings)
    place_topics(config, ports)
    return parts_of(
        PolderCast(config, ports.seed, ME, ports.peers.profiles, scratch_for(config, ports)), ports
    )


def place_topics(config: PolderCastConfig, ports: RouterPorts) -> None:
    """Searches need to know where topics are."""
    if config.anycast.on:
        ports.peers.profiles.topic_ids = ports.peers.topics.place(ports.point_of)


def parts_of(machine: PolderCast, ports: RouterPorts) -> LiveParts:
    """What a node needs around a machine of PolderCast."""
    return LiveParts(PolderCastRouter(machine, ports), entries_max=machine.config.most)


def ring_neighbours(machine: PolderCast, topic: int, now_us: int) -> list[int]:
    """Neighbours in a topic are those on its ring, and some other subscribers that Vicinity and Cyclon know:
    anti-entropy must cross a ring quickly."""
    profiles, table = machine.profiles, machine.profiles.table
    own = profiles.topics_of(machine.me).tolist()
    found = machine.rings.carriers(own.index(topic), now_us).tolist() if topic in own else []
    others = [*machine.vicinity.peers.tolist(), *machine.cyclon.peers.tolist()]
    found += [p for p in others if p != NOBODY and row_of(table, p, topic) >= 0][:OTHERS_MAX]
    return [peer for peer in dict.fromkeys(found) if peer not in (NOBODY, machine.me)]


class PolderCastRouter:
    """PolderCast as the router of one live node."""

    def __init__(self, machine: PolderCast, ports: RouterPorts) -> None:
        self.machine = machine
        self._profiles = ports.peers.profiles
        self._reachable: set[int] = set()
        self.in_use, self.partner_of = machine.peers_in_use, machine.partner_of
        self.subscribes = self.carries = machine.subscribes
        self.is_alone = machine.is_alone

    def handle(self, event: RouterEvent, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, message):
                if self.machine.anycast is None and isinstance(message, ANYCAST_MESSAGES):
                    asks = isinstance(message, GravityUpdate)
                    return [_SEARCHES_ARE_OFF, *([Send(sender, GravityRefuse())] if asks else [])]
            case TimerFired(rings.TIMER):
                mine = self._profiles.topics_of(ME).tolist()
                self._reachable = {topic for topic in mine if self.machine.is_reachable(topic)}
            case Unsubscribe(topic):
                self._reachable.discard(topic)
            case Search(topic):
                return self.machine.search(topic, now_us)
            case EventKnown() | Publishing():
                return []
        return self.machine.handle(event, now_us)

    def leads_to(self, topic: int, peer: int) -> bool:
        """See ``Router``: to every subscriber."""
        return row_of(self._profiles.table, peer, topic) >= 0

    def is_ready(self, topic: int, now_us: int) -> bool:
        """Whether its ring neighbours take it for theirs too.

        While an exchange is under way its partner is out of the rings, so that what was so just before the
        last one began counts too.
        """
        return topic in self._reachable or self.machine.is_reachable(topic)

    def is_searching(self, topic: int, now_us: int) -> bool:
        return self.machine.is_searching(topic, now_us)

    def nearest(self, topic: int, now_us: int) -> tuple[int, int]:
        """Its ring neighbours, the lower and the higher."""
        row = int(np.searchsorted(self._profiles.topics_of(ME), topic))
        carriers = self.machine.rings.carriers(row, now_us)
        return int(carriers[0]), int(carriers[carriers.size // 2])

    def neighbours(self, topic: int, now_us: int) -> Sequence[int]:
        return ring_neighbours(self.machine, topic, now_us)

    def takes_any(self, form: int, event: int) -> bool:
        """See ``Router``: subscribers alone take events."""
        return False

    def has_seen(self, event: int, topic: int) -> bool:
        return self.machine.has_seen(event)
