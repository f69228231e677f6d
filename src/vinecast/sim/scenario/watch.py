"""A topic system while it runs: what is published, and what is measured of it, on either engine.

One event a topic every so many cycles, unless topics have rates. A sweep publishes on the overlay as a cycle
left it; machines publish late in the cycle, and what has arrived by its end is what counts. Every metric is
defined in sim/measure/metrics.py, control traffic in sim/engine/wire.py.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.errors import Bug, InputError
from vinecast.core.traffic import unwanted_overall
from vinecast.sim.engine.wire import SENT, ControlMeter
from vinecast.sim.measure.metrics import (
    LATENCIES,
    DisseminationMeter,
    Reach,
    Tally,
    class_means,
    class_rows,
    reach_of,
    ring_state,
    ring_targets,
)
from vinecast.sim.measure.traffic import Meter
from vinecast.sim.scenario.scenario import Resolved
from vinecast.sim.scenario.world import EventWorld, SweepWorld, World
from vinecast.sim.workload.rates import draw_events
from vinecast.systems.common.measures import Occasion, SweepMeasures
from vinecast.systems.poldercast.events import Delays
from vinecast.systems.registry import SYSTEMS

RING_COLUMNS = ("missing_links", "incomplete_rings")
EVENT_COLUMNS = (
    *("hit_ratio", "hops_mean", "hops_max", "duplication", "disconnected_topics", "nodes_missing"),
    "hit_by_topic",
    *LATENCIES,
)
CONTROL_COLUMNS = ("control_messages", "control_bytes")

TOPIC_COLUMNS: dict[str, str] = dict.fromkeys(
    (*RING_COLUMNS, *EVENT_COLUMNS, "traffic_overhead", *CONTROL_COLUMNS), "float64"
)
"""What systems with topics are measured by besides.

Rings are looked at in PolderCast's sweeps only, traffic overhead on the event engine and in the sweeps of
Vitis, RVR and OPT, which on their part do not count control messages. What follows from a publication is null
in a cycle without one; so are latencies on a sweep without a matrix. Control messages and bytes are those
sent, a node on line and a cycle, since the measurement before.
"""

CLASS_COLUMNS: dict[str, str] = {
    "when": "string",
    "by": "string",
    "from": "int64",
    "to": "int64",
    "due": "int64",
    **dict.fromkeys(
        ("hit_ratio", "hops_mean", "duplication", "missing_links", "control_messages", "degree"), "float64"
    ),
}
"""The classes of a run (sim/measure/metrics.py): all that was measured together (``run``), and the ``last``
of it.

``due`` counts subscriptions that should have got an event. Classes of nodes also have control messages (sent,
a node on line and a cycle, over the whole run) and, on the sweep engine, the degree at the end: how many
others a node is linked to, on rings or by routing tables.
"""


OnDissemination = Callable[[int, Profiles, Dissemination, NDArray[np.bool_], Reach], object]
"""Told of every publication that is measured: the cycle, who subscribes to what, what became of the events,
who is held to them, and the counts."""


class TopicWatch:
    """Publishes, and measures, in the world that ``attach`` names."""

    def __init__(
        self,
        resolved: Resolved,
        profiles: Profiles,
        delays: Delays | None = None,
        on_dissemination: OnDissemination | None = None,
    ) -> None:
        self.scenario = resolved.scenario
        self.profiles = profiles
        self._delays = delays
        self._on_dissemination = on_dissemination
        self.meter = DisseminationMeter(profiles)
        """For the event engine's trace."""
        self.control = ControlMeter(profiles, resolved.config)
        """For what either engine sends."""
        self._traffic = Meter(profiles.peers, self._wants)
        self._age = np.full(profiles.peers, -1, dtype=np.int64)
        self._cycles_on_line = np.zeros(profiles.peers, dtype=np.int64)
        self._node_cycles = 0
        self._events: dict[str, Tally] = {}
        self._rings: dict[str, Tally] = {}
        self._rates = self.scenario.publish.rates_of(self.scenario.seed, profiles.topic_ids.size)
        self._world: World | None = None
        self._measures: SweepMeasures | None = None

    def message(self, sender: int, receiver: int, message: Any) -> None:
        """For the event engine: a message is sent."""
        self.control.message(sender, receiver, message)
        self._traffic.message(sender, receiver, message)

    def attach(self, world: World) -> None:
        """The world to watch."""
        if isinstance(world, SweepWorld):
            self._measures = measures = SYSTEMS[self.scenario.system].measures
            if measures is None:
                raise Bug(f"nobody knows how to measure the topics of {self.scenario.system}")
            if measures.counts_messages:
                world.engine.watch = self.control.phase
            if self._delays is not None and not measures.takes_delays:
                raise InputError(f"publish.matrix is not offered by {self.scenario.system}")
        self._world = world

    def before(self, cycle: int) -> None:
        """After those who come and go have done so, before the cycle: machines are told what to publish."""
        assert self._world is not None
        online = self._world.online
        first = self.scenario.publish.warm_up if cycle == 0 else 0
        self._age = np.where(online, np.where(self._age < 0, first, self._age + 1), -1)
        self._cycles_on_line += online
        self._node_cycles += int(online.sum())
        if isinstance(self._world, EventWorld) and self._is_due(cycle):
            self.meter.begin(cycle * self.profiles.topic_ids.size)
            self._world.publish(cycle, self._expected())

    def row(self, cycle: int) -> dict[str, float | None]:
        """The topics' columns after a cycle."""
        found: dict[str, float | None] = {}
        sweep, measures = self._sweep, self._measures
        if measures is not None and measures.has_rings:
            state = ring_state(sweep, ring_targets(self.profiles, sweep.online))
            _add(self._rings, state.tally)
            found |= {name: getattr(state, name) for name in RING_COLUMNS}
        if self._is_due(cycle):
            dissemination, expected = self._disseminate(cycle), self._expected()
            reach = reach_of(dissemination, self.profiles, expected)
            if self._on_dissemination is not None:
                self._on_dissemination(cycle, self.profiles, dissemination, expected, reach)
            _add(self._events, reach.tally)
            found |= dataclasses.asdict(reach.stats())
        events = self._traffic.take().events_received
        if events.any():
            found["traffic_overhead"] = unwanted_overall(events)
        if measures is None or measures.counts_messages:
            messages, weight = self.control.take()
            found["control_messages"] = messages / max(self._node_cycles, 1)
            found["control_bytes"] = weight / max(self._node_cycles, 1)
        self._node_cycles = 0
        values = {name: found.get(name) for name in TOPIC_COLUMNS}
        return {name: None if value is None else float(value) for name, value in values.items()}

    def after(self, cycle: int) -> None:
        """A cycle that is not measured: nodes that learn from events have them all the same."""
        if self._measures is not None and self._measures.learns and self._is_due(cycle):
            self._disseminate(cycle)

    def classes(self) -> list[dict[str, Any]]:
        """The classes of the whole run, and of its last measurement."""
        counts = self.profiles.cnt
        control = class_means(counts, self.control.messages[SENT], self._cycles_on_line)
        degree: dict[int, float] = {}
        if self._measures is not None:
            degree = class_means(counts, self._sweep.degrees())
            control = control if self._measures.counts_messages else {}
        rows = []
        for when, tally in self._events.items():
            for row in class_rows(tally, self._rings.get(when)):
                size = row["from"] if row["by"] == "subscriptions" else 0
                more = {"control_messages": control.get(size), "degree": degree.get(size)}
                rows.append({"when": when, **row, **more})
        return rows

    def _wants(self, node: int, topic: int) -> bool:
        own = self.profiles.topics_of(node)
        place = int(np.searchsorted(own, topic))
        return place < own.size and bool(own[place] == topic)

    def _is_due(self, cycle: int) -> bool:
        return self.scenario.falls_due(cycle, self.scenario.publish.every)

    def _expected(self) -> NDArray[np.bool_]:
        """Who is on line and has been for long enough; the first population always has. [node]"""
        return self._age >= self.scenario.publish.warm_up

    @property
    def _sweep(self) -> Any:
        """The sweep of a system whose ``SweepMeasures`` are known, or None."""
        return self._world.engine.sweep if isinstance(self._world, SweepWorld) else None

    def _disseminate(self, cycle: int) -> Dissemination:
        if not isinstance(self._world, SweepWorld):
            return self.meter.dissemination
        events = np.ones(self.profiles.topic_ids.size, dtype=np.int64)
        if self._rates is not None:
            events = draw_events(self.scenario.seed, cycle, self._rates)
        assert self._measures is not None
        occasion = Occasion(cycle, events, self._expected(), self._delays, self._world.engine.divide)
        dissemination, received = self._measures.publish(self._sweep, occasion)
        if received is not None:
            self._traffic.add_received(received)
        return dissemination


def _add(tallies: dict[str, Tally], tally: Tally) -> None:
    """To all that was measured so far, and as the last of it."""
    tallies["run"] = tallies["run"] + tally if "run" in tallies else tally
    tallies["last"] = tally
