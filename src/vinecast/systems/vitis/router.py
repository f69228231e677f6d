"""Vitis on a live node: one table of neighbours for all topics, clusters of those who share them, and relay
paths between clusters.

A topic's place on the circle is the highest bits of the key that its replicas are found by. Nodes relay
topics that they do not subscribe to, so that word of events is taken for every topic with links here, and for
any topic while an event is seeking a node that has some.
"""

from functools import partial
from typing import Any

import numpy as np

from vinecast.core.events import Effect
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.tman import TManConfig
from vinecast.systems.common.router import ME, EventKnown, LiveParts, RouterEvent, RouterPorts
from vinecast.systems.common.tman_router import FIRST_TIMER, TManRouter, scratch_for, topic_place
from vinecast.systems.common.wire import PATIENCE_PERIODS
from vinecast.systems.vitis.machine import Vitis, VitisConfig, VitisProfiles
from vinecast.systems.vitis.words import UnmetPeers, VitisWords


def vitis_config(settings: Any) -> VitisConfig:
    """Vitis' settings on such a node."""
    own = settings.vitis
    return VitisConfig(
        remembered=settings.remembered,
        remember_s=settings.remember_s,
        pull_timeout_s=own.pull_timeout_s,
        cyclon=CyclonConfig(period_s=settings.period_s),
        tman=TManConfig(table_size=own.table_size, threshold=PATIENCE_PERIODS, period_s=settings.period_s),
        long_links=own.long_links,
        gateway_hops=own.gateway_hops,
    )


def make(settings: Any, ports: RouterPorts) -> LiveParts:
    """Vitis for one node."""
    router = VitisRouter(vitis_config(settings), ports)
    return LiveParts(router, status=router.words)


class VitisRouter(TManRouter):
    """Vitis as the router of one live node."""

    def __init__(self, config: VitisConfig, ports: RouterPorts) -> None:
        profiles = ports.peers.profiles
        places = ports.peers.topics.place(partial(topic_place, ports), np.int32)
        shared = VitisProfiles(profiles, places)
        self.machine = machine = Vitis(config, ports.seed, ME, profiles, scratch_for(config, ports), shared)
        super().__init__(ports, machine)
        self._unmet = UnmetPeers(ports.peers, ports.peers_max)
        self.words = VitisWords(ports.peers, shared, self._unmet, machine.subscribes, ports.counters)

    def handle(self, event: RouterEvent, now_us: int) -> list[Effect]:
        if isinstance(event, EventKnown):
            self.machine.notices.note(event.event, now_us)
            return []
        return super().handle(event, now_us)

    def _begin(self, timer: str) -> None:
        super()._begin(timer)
        if timer == FIRST_TIMER and self._unmet.is_crowded:
            self.words.forget_unmet(self.machine.neighbours(), self.machine.proposed_peers())

    def leads_to(self, topic: int, peer: int) -> bool:
        return peer in self.machine.ways(topic)

    def is_ready(self, topic: int, now_us: int) -> bool:
        """… and whether it has links in the topic."""
        return super().is_ready(topic, now_us) and bool(self.machine.links(topic))

    def is_alone(self, topic: int, now_us: int) -> bool:
        return self.machine.is_alone(topic)

    def nearest(self, topic: int, now_us: int) -> tuple[int, int]:
        """Two of those whom its events go to, the one of whom it has its gateway last."""
        links, parent = self.machine.links(topic), self.machine.parent_of(topic)
        others = [peer for peer in links if peer != parent]
        return next(iter(others), NOBODY), parent

    def carries(self, topic: int) -> bool:
        """Whether it subscribes to a topic, or has links in it."""
        return self.subscribes(topic) or bool(self.machine.links(topic))

    def takes_any(self, form: int, event: int) -> bool:
        """Whether it asked for the event."""
        return self.machine.notices.waits_for(event)

    def has_seen(self, event: int, topic: int) -> bool:
        return self.machine.has_seen(event)
