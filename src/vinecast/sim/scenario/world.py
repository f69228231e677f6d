"""Two engines, one world: what a scenario does to nodes, told to either engine in the same words.

A world advances a cycle at a time. Whatever comes or goes does so at the beginning of a cycle, before
anybody's turn, so that the same scenario means the same thing on both engines.

Events are published late in a cycle, when machines with synchronised timers are done with it; so a sweep,
which publishes on the overlay as a cycle left it, sees what they see.
"""

from typing import Any, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles, choose_publishers
from vinecast.core.draws import below_array, purpose, stream, substream_array, unit_array
from vinecast.core.events import Publish
from vinecast.core.machine import NOBODY
from vinecast.sim.engine.engine import EngineHooks, EventEngine, SkewedClock
from vinecast.sim.engine.network import MS_US, Network
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.scenario.scenario import EventConfig
from vinecast.systems.common.row import System

Nodes = NDArray[np.int64]
Contacts = NDArray[np.int32]

_SPREAD = purpose("world.spread")
_CLOCK = purpose("world.clock")
_CONTACTS = purpose("world.contacts")


class World(Protocol):
    """A population that can be started, stopped, advanced and looked at."""

    @property
    def cycle(self) -> int:
        """The cycle that comes next."""

    @property
    def online(self) -> NDArray[np.bool_]:
        """[node]"""

    def views(self) -> NDArray[np.int32]:
        """Whom everybody knows; empty slots hold NOBODY. [node, slot]"""

    def start(self, nodes: Nodes, contacts: Contacts, keep_state: bool) -> None:
        """Bring nodes up. contacts: [started node, contact]"""

    def stop(self, nodes: Nodes, graceful: bool) -> None:
        """Take nodes down."""

    def advance(self) -> None:
        """Run one cycle."""

    def close(self) -> None:
        """Free what the world holds."""


class SweepWorld:
    """A world on the sweep engine. A graceful leave is a crash here: no sweep so far says goodbye."""

    def __init__(self, engine: SweepEngine) -> None:
        self.engine = engine

    @property
    def cycle(self) -> int:
        """The cycle that comes next."""
        return self.engine.cycle

    @property
    def online(self) -> NDArray[np.bool_]:
        """[node]"""
        return self.engine.sweep.online

    def views(self) -> NDArray[np.int32]:
        """[node, slot]"""
        return self.engine.sweep.views

    def start(self, nodes: Nodes, contacts: Contacts, keep_state: bool) -> None:
        if not keep_state:
            self.engine.sweep.forget_state(nodes)
        self.engine.sweep.start(nodes, contacts)

    def stop(self, nodes: Nodes, graceful: bool) -> None:
        self.engine.sweep.stop(nodes)

    def advance(self) -> None:
        self.engine.run(1)

    def close(self) -> None:
        self.engine.close()


class EventWorld:
    """A world on the event engine. ``online`` is who will be on line when the cycle ends. [node]"""

    def __init__(
        self,
        system: System,
        config: Any,
        seed: int,
        profiles: Profiles,
        event: EventConfig,
        network: Network,
        **hooks: Unpack[EngineHooks],
    ) -> None:
        self.cycle = 0
        nodes, machines = profiles.peers, system.machines(config, seed, profiles)
        self._system = system
        self._profiles = profiles
        self._seed = seed
        self._event = event
        self._period_us: int = config.period_us
        self.online: NDArray[np.bool_] = np.zeros(nodes, dtype=np.bool_)
        self._changed_us = np.zeros(nodes, dtype=np.int64)
        skewed = event.clock_offset_ms or event.clock_drift_ppm
        self.engine = EventEngine(
            machines, nodes, seed, network, clocks=self._clock if skewed else None, **hooks
        )
        blank = system.view_of(machines(0))
        self._no_view = np.full_like(blank, NOBODY)

    def _clock(self, node: int) -> SkewedClock:
        ahead, fast = (2 * unit_array(stream(self._seed, _CLOCK, 0, node), np.arange(2)) - 1).tolist()
        offset_us = int(ahead * self._event.clock_offset_ms * MS_US)
        return SkewedClock(offset_us, fast * self._event.clock_drift_ppm * 1e-6)

    def views(self) -> NDArray[np.int32]:
        """[node, slot]"""
        return np.stack(
            [self._no_view if m is None else self._system.view_of(m) for m in self.engine.machines]
        )

    def start(self, nodes: Nodes, contacts: Contacts, keep_state: bool) -> None:
        """See ``World``. With spread timers a node comes up at a random moment of the cycle."""
        at_us = self._at(nodes)
        if self._event.timers == "spread":
            waits = unit_array(stream(self._seed, _SPREAD, self.cycle, 0), nodes) * self._period_us
            at_us = np.maximum(at_us, self.cycle * self._period_us + waits.astype(np.int64))
        for node, at, known in zip(nodes.tolist(), at_us.tolist(), contacts.tolist(), strict=True):
            self.engine.start(node, at, tuple(known), keep_state=keep_state)
        self.online[nodes] = True
        self._changed_us[nodes] = at_us

    def stop(self, nodes: Nodes, graceful: bool) -> None:
        stop = self.engine.leave if graceful else self.engine.crash
        at_us = self._at(nodes)
        for node, at in zip(nodes.tolist(), at_us.tolist(), strict=True):
            stop(node, at)
        self.online[nodes] = False
        self._changed_us[nodes] = at_us

    def publish(self, epoch: int, publishers: NDArray[np.bool_]) -> None:
        """Let one event be published on every topic after five sixths of the cycle, by a random subscriber.

        Topic t's event is epoch × topics + t. Whoever comes up only after that moment publishes nothing.
        publishers: [node], who may
        """
        at_us = self.cycle * self._period_us + self._period_us * 5 // 6
        chosen = choose_publishers(self._seed, epoch, self._profiles, self.online & publishers)
        for topic, node in enumerate(chosen.tolist()):
            if node != NOBODY:
                self.engine.command(node, at_us, Publish(topic, epoch * chosen.size + topic))

    def _at(self, nodes: Nodes) -> NDArray[np.int64]:
        """The beginning of the cycle, or when the node last came or went, if that is still to come."""
        return np.maximum(self._changed_us[nodes], self.cycle * self._period_us)

    def advance(self) -> None:
        self.cycle += 1
        self.engine.run(self.cycle * self._period_us - 1)

    def close(self) -> None:
        """See ``World``."""


def choose_contacts(seed: int, cycle: int, nodes: Nodes, known: Nodes, count: int) -> Contacts:
    """``count`` random peers out of ``known`` for each of ``nodes``; repeats and itself are left to the node
    to ignore. [node, contact]"""
    if known.size == 0:
        return np.full((nodes.size, count), NOBODY, dtype=np.int32)
    keys = substream_array(stream(seed, _CONTACTS, cycle, 0), nodes)
    picks = below_array(keys[:, None], np.arange(count)[None, :], known.size)
    return known[picks].astype(np.int32)
