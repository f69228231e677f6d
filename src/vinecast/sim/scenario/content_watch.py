"""A content system in a scenario: what is published, and what is measured of it
(sim/scenario/content_run.py).

It fills those columns of a topic system's measurements that mean something here; the others are null.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import Bug
from vinecast.core.events import Deliver
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.sim.scenario.content_run import ContentPublisher
from vinecast.sim.scenario.scenario import Resolved
from vinecast.sim.scenario.watch import TOPIC_COLUMNS
from vinecast.sim.scenario.world import EventWorld, World
from vinecast.systems.vinifera.catalogue import ContentProfiles
from vinecast.systems.vinifera.events import ContentEvent


class ContentWatch:
    """Publishes, and measures, in the world that ``attach`` names."""

    def __init__(self, resolved: Resolved, profiles: ContentProfiles, data: Path | None = None) -> None:
        """data: the folder that holds what the scenario's content needs"""
        self.scenario = resolved.scenario
        workload = self.scenario.content.workload(self.scenario.seed, profiles.peers, data)
        self._publisher = ContentPublisher(workload, profiles, self.scenario.seed, resolved.config.period_us)
        self._age = np.full(profiles.peers, -1, dtype=np.int64)
        self._control = self._node_cycles = 0
        self._world: EventWorld | None = None

    def attach(self, world: World) -> None:
        """The world to watch."""
        if not isinstance(world, EventWorld):
            raise Bug("content systems run on the event engine")
        self._world = world

    def message(self, sender: int, receiver: int, message: Any) -> None:
        """For the event engine: a message is sent."""
        if isinstance(message, ContentEvent):
            self._publisher.meter.message(sender, receiver, message)
        else:
            self._control += 1

    def meter(self, record: TraceRecord) -> None:
        """For the event engine's trace."""
        if record.kind == TraceKind.DELIVERED:
            self._publisher.meter.deliver(record.node, Deliver(record.topic, record.event, record.hops))

    def before(self, cycle: int) -> None:
        """After those who come and go have done so, before the cycle: nodes are told what to publish."""
        assert self._world is not None
        online: NDArray[np.bool_] = self._world.online
        publish = self.scenario.publish
        first = publish.warm_up if cycle == 0 else 0
        self._age = np.where(online, np.where(self._age < 0, first, self._age + 1), -1)
        self._node_cycles += int(online.sum())
        if self.scenario.falls_due(cycle, publish.every):
            self._publisher.prepare(self._world, self.scenario.content.events, self._age >= publish.warm_up)

    def after(self, cycle: int) -> None:
        """A cycle that is not measured: what was published in it counts with the next that is."""

    def classes(self) -> list[dict[str, Any]]:
        """Filters have no classes."""
        return []

    def row(self, cycle: int) -> dict[str, float | None]:
        """What was measured since the last time."""
        stats = self._publisher.meter.take()
        control, self._control = self._control / max(self._node_cycles, 1), 0
        self._node_cycles = 0
        found: dict[str, float | None] = {"control_messages": control}
        if stats.events:
            wanted = float(stats.received[1].sum())
            found |= {
                "hit_ratio": stats.hit_ratio,
                "hops_mean": stats.hops_mean,
                "duplication": wanted / stats.hits if stats.hits else None,
                "traffic_overhead": stats.overhead,
            }
        return {name: found.get(name) for name in TOPIC_COLUMNS}
