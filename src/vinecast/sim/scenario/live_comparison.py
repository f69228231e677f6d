"""A live network's simulation, for comparison: the same ids, subscriptions and publications on the event
engine.

The machines are the live ones, so a live network and its simulation should agree: on who gets what exactly,
on hops and copies but for chance. What differs is what a simulation leaves out: sockets, processors that are
busy, timers that are late.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vinecast.core.arrays.profiles import GAPS_UNKNOWN, PLACE_BITS, Profiles, place_of
from vinecast.core.errors import InputError
from vinecast.core.events import Publish
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.metrics import ring_targets
from vinecast.sim.scenario.scenario import EventConfig
from vinecast.sim.scenario.world import EventWorld, choose_contacts
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.registry import SYSTEMS

SETTLE_CYCLES = 200  # ours: for the rings to be complete
REST_CYCLES = 3  # ours: for the last events to arrive


@dataclass(frozen=True, slots=True)
class Publication:
    """Who published what, and when."""

    at_s: float
    node: int
    topic: str


@dataclass(frozen=True, slots=True)
class SimulatedOutcome:
    """What became of the events; defined as for a live network (``lab/localnet/tally``)."""

    cycles: int
    """Cycles until all rings were complete."""
    expected: int
    got: int
    repeated: int
    strays: int
    hops_mean: float
    duplication: float


def run_comparison(
    points: Sequence[int],
    subscriptions: Sequence[Sequence[str]],
    publications: Sequence[Publication],
    config: PolderCastConfig,
    latency_ms: float,
    seed: int,
    contacts: int,
) -> SimulatedOutcome:
    """Let nodes at these points of the circle (64 bits) build their overlay, and publish on it.

    latency_ms: the median of what messages take; each takes a random time of up to twice that
    contacts: nodes that a new one is told of
    """
    if len(set(points)) < len(points):
        raise InputError("two nodes have the same id")
    names = sorted({topic for topics in subscriptions for topic in topics})
    number = {name: at for at, name in enumerate(names)}
    order = sorted(range(len(points)), key=lambda node: points[node])
    rank = {node: at for at, node in enumerate(order)}
    mine = [sorted(number[topic] for topic in subscriptions[node]) for node in order]
    profiles = _profiles([points[node] for node in order], mine, len(names))
    network = Network(
        NetworkConfig(latency="sampled", latency_ms=0, latency_ms_max=2 * latency_ms), seed, len(points)
    )
    count = _Count(mine)
    world = EventWorld(
        SYSTEMS["poldercast"], config, seed, profiles, EventConfig(records=False), network, trace=count
    )
    nodes = np.arange(len(points), dtype=np.int64)
    world.start(nodes, choose_contacts(seed, 0, nodes, nodes, contacts), keep_state=True)
    cycles = _settle(world, profiles)
    commands = [(one.at_s, rank[one.node], number[one.topic]) for one in publications]
    _publish(world, commands, config.period_us)
    world.close()
    popularity = Counter(topic for topics in mine for topic in topics)
    return count.outcome(cycles, sum(popularity[topic] for _, _, topic in commands))


class _Count:
    """Counts what trace records tell. mine: [node], its topics"""

    def __init__(self, mine: list[list[int]]) -> None:
        self._mine = [frozenset(topics) for topics in mine]
        self._have: set[tuple[int, int]] = set()
        self._published = self._first = self._again = self._hops = self._strays = self._repeated = 0

    def __call__(self, record: TraceRecord) -> None:
        match record.kind:
            case TraceKind.DELIVERED:
                self._strays += record.topic not in self._mine[record.node]
                self._repeated += (record.event, record.node) in self._have
                self._have.add((record.event, record.node))
            case TraceKind.PUBLISHED:
                self._published += 1
            case TraceKind.RECEIVED_FIRST if record.event >= 0:
                self._first += 1
                self._hops += record.hops
            case TraceKind.RECEIVED_AGAIN if record.event >= 0:
                self._again += 1

    def outcome(self, cycles: int, expected: int) -> SimulatedOutcome:
        """All of it."""
        return SimulatedOutcome(
            cycles=cycles,
            expected=expected,
            got=len(self._have),
            repeated=self._repeated,
            strays=self._strays,
            hops_mean=self._hops / max(self._first, 1),
            duplication=(self._first + self._again) / max(self._first + self._published, 1),
        )


def _publish(world: EventWorld, commands: list[tuple[float, int, int]], period_us: int) -> None:
    """Publish at these seconds from now, by these nodes and on these topics, and wait until it is over."""
    begin_us, last_us = world.cycle * period_us, 0
    for event, (at_s, node, topic) in enumerate(commands):
        after_us = round(at_s * 1e6)
        last_us = max(last_us, after_us)
        world.engine.command(node, begin_us + after_us, Publish(topic, event))
    for _ in range(-(-last_us // period_us) + REST_CYCLES):
        world.advance()


def _profiles(points: list[int], mine: list[list[int]], topics: int) -> Profiles:
    """A table of these nodes, with the places that they have in a live network."""
    found = Profiles(np.array(points, dtype=np.uint64), np.arange(topics, dtype=np.uint64))
    found.place = np.array([place_of(point) for point in points], dtype=np.int32)
    found.circle[0] = 1 << PLACE_BITS
    for node, own in enumerate(mine):
        found.set_topics(node, np.array(own, dtype=np.int32), np.zeros(len(own), dtype=np.uint8))
    found.gaps[:] = GAPS_UNKNOWN
    return found


def _settle(world: EventWorld, profiles: Profiles) -> int:
    """Advance until all rings are complete; how many cycles that took."""
    while world.cycle < SETTLE_CYCLES:
        world.advance()
        if _is_complete(world, profiles):
            return world.cycle
    raise InputError(f"the simulated rings are not complete after {SETTLE_CYCLES} cycles")


def _is_complete(world: EventWorld, profiles: Profiles) -> bool:
    """Whether everybody's events would go to the right neighbours, in all of its topics."""
    targets, now_us = ring_targets(profiles, world.online), world.engine.now_us
    machines: list[Any] = world.engine.machines
    for node, machine in enumerate(machines):
        if machine is None:
            return False
        begin = int(profiles.beg[node])
        for row in range(int(profiles.cnt[node])):
            ring = machine.rings.carriers(row, now_us)
            found = (ring[0], ring[ring.size // 2])
            if found != (targets.lower[begin + row], targets.higher[begin + row]):
                return False
    return True
