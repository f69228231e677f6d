"""What publish/subscribe costs each node: messages, bytes, processor time, memory, disk; and what it covers.

S3 §5 asks for these of every node, with mean, median and percentiles. A population of machines runs on the
event engine: it settles, publishes a few events that are not measured, and then those of a workload, evenly
spaced. With churn, nodes come and go meanwhile; at the end everybody is back for some cycles. Systems that
run live are measured as whole peers (``peer_costs``); here are those that are compared with them.

messages, bytes   sent and received, control and events together, from the first event to the end; a message
                  counts as received whether it arrives or not; sizes as in ``sim.engine.wire``, and a payload
                  in every message that carries an event
cpu               process time that the node's machine took to handle all that, in microseconds: of the pure
                  machine in Python, without sockets, codecs or signatures
memory            the machine's state at the end (``sim.measure.footprint``), and the profile of each peer
                  that it knows
disk              bytes that it keeps for good: none
coverage          share of the events on its topics that a node was handed by the end, whether or not it was
                  on line when they were published
coverage on line  … of those that were published while it was on line
"""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.draws import purpose, stream, unit_array
from vinecast.core.events import Deliver, Effect, Event, Publish
from vinecast.core.machine import SECOND_US, Machine
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.engine.wire import entry_bytes, message_bytes, profile_topic_bytes
from vinecast.sim.measure.footprint import footprints
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.world import choose_contacts
from vinecast.sim.workload.churn import on_off
from vinecast.sim.workload.publications import Publications
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.registry import SYSTEMS

PAYLOAD = 256  # ours: bytes of an event, as in the benchmarks
PERIOD_US = 60 * SECOND_US
"""A cycle of every system."""
WARM_UP = 5  # ours
CONTACTS = 20
JOIN_CONTACTS = 3
MEAN_ON_S, MEAN_OFF_S = 1200.0, 600.0  # ours: two thirds are on line
NETWORK = NetworkConfig(latency="sampled", latency_ms=10.0, latency_ms_max=300.0)
METRICS = ("messages", "bytes", "cpu_us", "memory", "disk", "coverage", "coverage_online")

SPREAD = purpose("costs.spread")
"""When nodes come up."""

Costs = dict[str, NDArray[np.float64]]
"""By metric, [node]; nan where a node had nothing to be covered."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system that is compared, as machines."""

    label: str
    system: str
    """Its name in ``SYSTEMS``."""
    config: Any
    settle: int
    """Cycles until it has settled."""
    knows: Callable[[Any], Collection[int]]
    """The peers whose profiles a machine keeps."""


@dataclass(frozen=True, slots=True)
class CostPlan:
    """How long a run is, and whether nodes come and go."""

    cycles: int
    """Cycles over which the events are spaced."""
    after: int
    """Cycles after them."""
    churn: bool = False


class _Timed:
    """A machine and the process time that it took. spent_ns: [node]"""

    def __init__(self, machine: Machine, node: int, spent_ns: list[int]) -> None:
        self.machine = machine
        self._node = node
        self._spent_ns = spent_ns

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        began = time.process_time_ns()
        effects = self.machine.handle(event, now_us)
        self._spent_ns[self._node] += time.process_time_ns() - began
        return effects


class _Scale:
    """Weighs messages. messages, weight: [node]"""

    def __init__(self, candidate: Candidate, profiles: Profiles) -> None:
        self.messages, self.weight = [0] * profiles.peers, [0] * profiles.peers
        self.on = False
        self._cnt = profiles.cnt
        self._topic_bytes = profile_topic_bytes(candidate.config)
        self._entry_bytes = entry_bytes(candidate.config)
        self._events: dict[type, int] = {}
        """Those that carry one event are all alike."""

    def message(self, sender: int, receiver: int, message: Any) -> None:
        """For the engine: a message is sent."""
        if not self.on:
            return
        weight = self._events.get(type(message))
        if weight is None:
            weight = self._look(message)
        for node in (sender, receiver):
            self.messages[node] += 1
            self.weight[node] += weight

    def _look(self, message: Any) -> int:
        weight = message_bytes(message, self._cnt, self._topic_bytes, self._entry_bytes)
        if hasattr(message, "event"):
            weight = self._events[type(message)] = weight + PAYLOAD
        return weight

    def profile_bytes(self, peers: Collection[int]) -> int:
        """The profiles of these peers."""
        topics = int(self._cnt[list(peers)].sum()) if peers else 0
        return len(peers) * self._entry_bytes + topics * self._topic_bytes


class _Run:
    """A population under measurement."""

    def __init__(self, candidate: Candidate, subscriptions: Subscriptions, wrote: Publications, seed: int):
        self._seed = seed
        self._wrote = wrote
        self._readers = subscriptions.by_topic()
        self.nodes = nodes = subscriptions.nodes
        self.profiles = Profiles.simulated(
            seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count
        )
        self.spent_ns = [0] * nodes
        self.scale = _Scale(candidate, self.profiles)
        self.due, self.online, self.got = (np.zeros((wrote.count, nodes), dtype=np.bool_) for _ in range(3))
        """[event, node]: whether it should get it, was on line when it was published, and got it."""
        make = SYSTEMS[candidate.system].machines(candidate.config, seed, self.profiles)
        self.engine = EventEngine(
            lambda node: _Timed(make(node), node, self.spent_ns),
            nodes,
            seed,
            Network(NETWORK, seed, nodes),
            on_deliver=self._deliver,
            on_send=self.scale.message,
        )

    def _deliver(self, node: int, deliver: Deliver) -> None:
        if deliver.event < self._wrote.count:
            self.got[deliver.event, node] = True

    def start(self) -> None:
        """Everybody comes up, at a random moment of the first cycle."""
        waits = unit_array(stream(self._seed, SPREAD, 0, 0), np.arange(self.nodes)) * PERIOD_US
        views = random_views(self._seed, self.nodes, min(CONTACTS, self.nodes - 1))
        for node, (wait, known) in enumerate(zip(waits.tolist(), views.tolist(), strict=True)):
            self.engine.start(node, int(wait), tuple(known))

    def warm_up(self, at_us: int) -> None:
        """A few events that are not measured: compiling what they take is nobody's cost."""
        start, readers = self._readers
        for topic in np.flatnonzero(np.diff(start)).tolist()[:WARM_UP]:
            self.engine.command(int(readers[start[topic]]), at_us, Publish(topic, self._wrote.count + topic))

    def publish(self, begin_us: int, plan: CostPlan) -> None:
        """Have the workload's events published, evenly spaced."""
        long_us = plan.cycles * PERIOD_US
        for event in range(self._wrote.count):
            at_us = begin_us + event * long_us // self._wrote.count
            self.engine.at(at_us, partial(self._publish, event))

    def _publish(self, event: int) -> None:
        engine, topic = self.engine, int(self._wrote.topic[event])
        publisher = int(self._wrote.publisher[event])
        if not engine.online[publisher]:
            return
        start, readers = self._readers
        self.due[event, readers[start[topic] : start[topic + 1]]] = True
        self.online[event] = engine.online
        engine.command(publisher, engine.now_us, Publish(topic, event))

    def churn(self, begin_us: int, plan: CostPlan) -> None:
        """Nodes come and go while events are published; then all come back. They keep their state (S0 §2)."""
        for node, from_s, to_s in absences(self._seed, self.nodes, plan):
            off_us, on_us = (begin_us + round(moment_s * SECOND_US) for moment_s in (from_s, to_s))
            self.engine.crash(node, off_us)
            self.engine.at(on_us, partial(self._come_back, node))

    def _come_back(self, node: int) -> None:
        engine = self.engine
        known = np.flatnonzero(engine.online)
        contacts = choose_contacts(self._seed, engine.now_us, np.array([node]), known, JOIN_CONTACTS)
        engine.start(node, engine.now_us, tuple(contacts[0].tolist()))


def measure_costs(
    candidate: Candidate, subscriptions: Subscriptions, publications: Publications, plan: CostPlan, seed: int
) -> Costs:
    """Run a workload on a system, and count."""
    run = _Run(candidate, subscriptions, publications, seed)
    run.start()
    begin_us = (candidate.settle + 1) * PERIOD_US
    run.warm_up(begin_us - PERIOD_US)
    run.engine.run(begin_us - 1)
    run.spent_ns[:] = [0] * run.nodes
    run.scale.on = True
    if plan.churn:  # before: who leaves at the moment of the first event does not get it
        run.churn(begin_us, plan)
    run.publish(begin_us, plan)
    run.engine.run(begin_us + (plan.cycles + plan.after) * PERIOD_US)
    machines: list[Any] = [timed.machine for timed in run.engine.machines if isinstance(timed, _Timed)]
    profiles = [run.scale.profile_bytes(candidate.knows(machine)) for machine in machines]
    found: dict[str, Any] = {
        "messages": run.scale.messages,
        "bytes": run.scale.weight,
        "cpu_us": np.array(run.spent_ns) / 1000,
        "memory": np.array(footprints(machines)) + profiles,
        "disk": [0] * run.nodes,
        "coverage": share(run.due & run.got, run.due),
        "coverage_online": share(run.due & run.got & run.online, run.due & run.online),
    }
    return {name: np.asarray(found[name], dtype=np.float64) for name in METRICS}


def absences(seed: int, nodes: int, plan: CostPlan) -> Iterator[tuple[int, float, float]]:
    """Who is away, from when to when, in seconds since the first event; in the end nobody is."""
    horizon_s = plan.cycles * PERIOD_US / SECOND_US
    there = on_off(seed, nodes, horizon_s, MEAN_ON_S, MEAN_OFF_S)
    for node in range(nodes):
        rows = range(int(there.start[node]), int(there.start[node + 1]))
        comes = [*(float(there.on_s[row]) for row in rows), horizon_s]
        goes = [0.0, *(float(there.off_s[row]) for row in rows)]
        for from_s, to_s in zip(goes, comes, strict=True):
            if to_s > from_s:
                yield node, from_s, to_s


def share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> NDArray[np.float64]:
    """By node; nan where there is nothing to share. part, whole: [event, node]"""
    count = whole.sum(axis=0)
    found: NDArray[np.float64] = np.where(count > 0, part.sum(axis=0) / np.maximum(count, 1), np.nan)
    return found
