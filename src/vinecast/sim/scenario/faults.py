"""Durable streams under faults: small networks on the event engine, many seeds, and the checker at the end.

Each kind of run is a way to lose events. All are drawn from the seed: who subscribes, who publishes when, who
crashes. A run ends when all readers that are there have the same streams, or when its time is up; the checker
says what was broken.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.draws import below, purpose, stream, unit
from vinecast.core.events import Publish
from vinecast.core.log.checker import StreamChecker
from vinecast.core.machine import SECOND_US, Machine
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.streams import StreamsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig, Partition
from vinecast.sim.scenario.faults_hostile import HostileNode
from vinecast.sim.workload.subscriptions import subscribe
from vinecast.systems.durable.simulated import DurableConfig, DurableNodes, SimulatedDurable, topic_name
from vinecast.systems.poldercast.config import PolderCastConfig

SETTLE_S = 4.0
"""Seconds that a network has before anything happens (ours)."""
LOOK_S = 0.25
"""How often it is looked whether all streams are equal."""
STAYS_S = 1.0
"""Seconds for which they must stay so."""

_WORLD = purpose("faults.world")
_TOPICS = purpose("faults.topics")


@dataclass(frozen=True, slots=True)
class FaultConfig:
    """How large a run is. All values are ours."""

    nodes: int = 8
    topics: int = 2
    events: int = 12
    """Events that are published, all in all."""
    busy_s: float = 4.0
    """Seconds in which they are."""
    patience_s: float = 120.0
    """Seconds after the last fault in which all streams must become equal."""
    loss: float = 0.3
    """Where messages are lost: the share."""


@dataclass(slots=True)
class FaultOutcome:
    """What became of a run."""

    seed: int
    faults: list[str] = field(default_factory=list)
    """Promises that were broken."""
    converged_s: float = 0.0
    """Seconds from the last fault until all streams were equal."""
    published: int = 0
    acknowledged: int = 0
    """Events that as many nodes acknowledged as there are replicas."""
    counters: dict[str, int] = field(default_factory=dict)


class FaultRun:
    """One run. ``kind`` fills it with faults; see the end of this file."""

    def __init__(
        self,
        config: FaultConfig,
        seed: int,
        network: NetworkConfig,
        checker: StreamChecker | None = None,
        hostile: Iterable[int] = (),
    ) -> None:
        self.config, self.seed = config, seed
        self.hostile = frozenset(hostile)
        self.checker = checker or StreamChecker()
        self._drawn = 0
        pairs = [(node, topic) for node in range(config.nodes) for topic in self._topics_of(node)]
        who, what = np.array(pairs, dtype=np.int64).T
        wishes = subscribe(who, what, config.nodes, config.topics)
        profiles = Profiles.simulated(seed, wishes.start, wishes.topics, config.topics)
        self.nodes = DurableNodes(durable_config(), seed, profiles, self.checker, self.is_there)
        self.engine = EventEngine(self._make, config.nodes, seed, Network(network, seed, config.nodes))
        self.gone: set[int] = set()
        """Who never comes back."""
        self.quiet_s = 0.0
        """When the last fault is over."""

    def _make(self, node: int) -> Machine:
        return HostileNode(self.nodes, node) if node in self.hostile else self.nodes(node)

    def _topics_of(self, node: int) -> list[int]:
        key = stream(self.seed, _TOPICS, 0, node)
        chosen = [topic for topic in range(self.config.topics) if unit(key, topic) < 0.7]
        return chosen or [below(key, self.config.topics, self.config.topics)]

    def below(self, n: int) -> int:
        """The next number of the run, in [0, n)."""
        self._drawn += 1
        return below(stream(self.seed, _WORLD, self._drawn, 0), 0, n)

    def unit(self) -> float:
        """The next number of the run, in [0, 1)."""
        self._drawn += 1
        return unit(stream(self.seed, _WORLD, self._drawn, 0), 0)

    # What can be done.

    def is_there(self, node: int) -> bool:
        """Whether a node is on line, and honest as far as others can know."""
        return self.engine.online[node]

    def start(self, node: int, at_s: float, fresh: bool = False) -> None:
        """Bring a node up, knowing three others."""
        contacts = tuple((node + 1 + self.below(self.config.nodes - 1)) % self.config.nodes for _ in range(3))
        self.engine.start(node, _us(at_s), contacts, keep_state=not fresh)

    def start_all(self, but: Iterable[int] = ()) -> None:
        """Bring everybody up at once."""
        left_out = set(but)
        for node in range(self.config.nodes):
            if node not in left_out:
                self.start(node, 0.05 * self.unit())

    def crash(self, node: int, at_s: float, down_s: float) -> None:
        """Let a node die, and come back with what was safe on its disk."""
        self.engine.crash(node, _us(at_s))
        self.start(node, at_s + down_s, fresh=True)
        self.quiet_s = max(self.quiet_s, at_s + down_s)

    def kill(self, node: int, at_s: float) -> None:
        """Let a node die for good."""
        self.gone.add(node)
        self.engine.crash(node, _us(at_s))
        self.quiet_s = max(self.quiet_s, at_s)

    def subscribers(self, topic: int) -> list[int]:
        """Honest readers of a topic."""
        profiles = self.nodes.profiles
        return [
            node
            for node in range(self.config.nodes)
            if node not in self.hostile and topic in profiles.topics_of(node).tolist()
        ]

    def publish(self, from_s: float, to_s: float, may: Callable[[int], bool] = lambda node: True) -> None:
        """Publish all events between two moments, each by a random subscriber that may and is on line
        then."""
        for number in range(self.config.events):
            topic = self.below(self.config.topics)
            pool = [node for node in self.subscribers(topic) if may(node)]
            at_us = _us(from_s + (to_s - from_s) * self.unit())
            turn = self.below(1 << 20)
            self.engine.at(at_us, partial(self._publish, pool, topic, number + 1, turn))
        self.quiet_s = max(self.quiet_s, to_s)

    def _publish(self, pool: list[int], topic: int, number: int, turn: int) -> None:
        there = [node for node in pool if self.engine.online[node]]
        if there:
            self.engine.command(there[turn % len(there)], self.engine.now_us, Publish(topic, number))

    # What comes of it.

    def readers(self, topic: int) -> list[int]:
        """Honest readers that are there."""
        return [node for node in self.subscribers(topic) if self.engine.online[node]]

    def stream_of(self, node: int, topic: int) -> list[bytes]:
        """All that a node keeps of a topic, in the order that all share."""
        disk = self.nodes.disks[node]
        return [keeping.signed.cid for keeping in disk.in_order(topic_name(topic), (0, b""), 1 << 30)]

    def is_equal(self) -> bool:
        """Whether all readers have the same streams, and in them all that was acknowledged."""
        for topic in range(self.config.topics):
            streams = [self.stream_of(node, topic) for node in self.readers(topic)]
            if any(stream != streams[0] for stream in streams[1:]):
                return False
            if streams and not set(streams[0]).issuperset(self.acknowledged(topic)):
                return False
        return True

    def acknowledged(self, topic: int) -> list[bytes]:
        """Events of a topic that as many nodes hold as there are replicas, as their publishers were told."""
        enough, events = self.nodes.config.replicas, self.checker.events(topic_name(topic))
        return [event.cid for event in events if self.checker.holders(event.cid) >= enough]

    def is_idle(self) -> bool:
        """Whether nobody has anything to write or waits for anything."""
        machines = [self.engine.machines[node] for node in range(self.config.nodes) if self.is_there(node)]
        return all(machine.is_idle for machine in machines if isinstance(machine, SimulatedDurable))

    def finish(self) -> FaultOutcome:
        """Run until all is equal and stays so, and see what was broken."""
        outcome = FaultOutcome(self.seed)
        now_s, end_s = self.quiet_s, self.quiet_s + self.config.patience_s
        equal_s: float | None = None
        while True:
            self.engine.run(_us(now_s))
            if not self.is_equal():
                equal_s = None
            elif equal_s is None:
                equal_s = now_s
            if equal_s is not None and now_s >= equal_s + STAYS_S and self.is_idle():
                break
            if now_s >= end_s:
                outcome.faults.append("the streams did not become equal in time")
                break
            now_s += LOOK_S
        outcome.converged_s = (now_s if equal_s is None else equal_s) - self.quiet_s
        enough = self.nodes.config.replicas
        for topic in range(self.config.topics):
            ends = {node: self.stream_of(node, topic) for node in self.readers(topic)}
            self.checker.finish(topic_name(topic), ends, enough)
            outcome.published += len(self.checker.events(topic_name(topic)))
            outcome.acknowledged += len(self.acknowledged(topic))
        outcome.faults += self.checker.faults
        outcome.counters = {
            name: sum(n for node, n in enumerate(counts) if node not in self.hostile)
            for name, counts in sorted(self.engine.counters.items())
        }
        return outcome


def durable_config() -> DurableConfig:
    """Durable streams on PolderCast with cycles of two seconds: short, so that runs are."""
    return DurableConfig(
        streams=StreamsConfig(period_s=0.5, answer_s=0.25),
        poldercast=PolderCastConfig(
            cyclon=CyclonConfig(period_s=2.0),
            vicinity=VicinityConfig(period_s=2.0),
            rings=RingsConfig(period_s=2.0),
        ),
    )


def _us(seconds: float) -> int:
    return round(seconds * SECOND_US)


# The kinds of runs.


def _network(config: FaultConfig, **rest: Any) -> NetworkConfig:
    return NetworkConfig(latency="sampled", latency_ms=10.0, latency_ms_max=40.0, **rest)


def loss_and_restarts(config: FaultConfig, seed: int) -> FaultOutcome:
    """PU-1: messages are lost all the time, and nodes die and come back while events are published."""
    run = FaultRun(config, seed, _network(config, loss=config.loss))
    run.start_all()
    end_s = SETTLE_S + config.busy_s
    for _ in range(max(2, config.nodes // 3)):
        at_s = SETTLE_S + config.busy_s * run.unit()
        run.crash(run.below(config.nodes), at_s, 0.2 + 2.0 * run.unit())
    run.publish(SETTLE_S, end_s)
    return run.finish()


def blackout(config: FaultConfig, seed: int) -> FaultOutcome:
    """PU-1, the worst restart: all nodes die at once while events are published, and come back."""
    run = FaultRun(config, seed, _network(config))
    run.start_all()
    at_s = SETTLE_S + config.busy_s * (0.3 + 0.5 * run.unit())
    for node in range(config.nodes):
        run.crash(node, at_s, 0.5 + run.unit())
    run.publish(SETTLE_S, SETTLE_S + config.busy_s)
    return run.finish()


class _Deadly(StreamChecker):
    """Kills an event's publisher and all but one of those who acknowledged it, at the moment of the last
    ack."""

    def __init__(self) -> None:
        super().__init__()
        self.run: FaultRun
        self.enough = 0
        self.target: bytes | None = None

    def acknowledged(self, cid: bytes, holders: int) -> None:
        super().acknowledged(cid, holders)
        if self.target is None and holders >= self.enough:
            self.target = cid
            self._strike(cid)

    def _strike(self, cid: bytes) -> None:
        run = self.run
        now_s = run.engine.now_us / SECOND_US
        holders = [
            node
            for node, disk in run.nodes.disks.items()
            if disk.position_of(cid) and not isinstance(run.engine.machines[node], HostileNode)
        ]
        publisher = next(n for n in holders if _made(run, n, cid))
        others = [node for node in holders if node != publisher]
        run.kill(publisher, now_s)
        for _ in range(self.enough - 1):
            run.kill(others.pop(run.below(len(others))), now_s)


def _made(run: FaultRun, node: int, cid: bytes) -> bool:
    machine = run.engine.machines[node]
    return isinstance(machine, SimulatedDurable) and cid in machine.durable.repair.holders


def deaths(config: FaultConfig, seed: int) -> FaultOutcome:
    """PU-2: as soon as k nodes have acknowledged an event, its publisher and k − 1 holders die for good."""
    checker = _Deadly()
    run = FaultRun(config, seed, _network(config, loss=config.loss), checker)
    checker.run, checker.enough = run, run.nodes.config.replicas
    newcomer = run.below(config.nodes)
    run.start_all(but=[newcomer])
    end_s = SETTLE_S + config.busy_s
    run.publish(SETTLE_S, end_s)
    run.start(newcomer, end_s + 2.0)
    run.quiet_s = end_s + 2.5
    outcome = run.finish()
    if checker.target is None:
        outcome.faults.append("no event was acknowledged by as many nodes as there are replicas")
    return outcome


def partition(config: FaultConfig, seed: int) -> FaultOutcome:
    """PU-3: the network falls into halves, both publish, and it heals."""
    end_s = SETTLE_S + config.busy_s
    run = FaultRun(config, seed, _network(config, partitions=(Partition(SETTLE_S, end_s),)))
    run.start_all()
    run.publish(SETTLE_S, end_s)
    return run.finish()


def absence(config: FaultConfig, seed: int) -> FaultOutcome:
    """PU-4: a node is off line while others publish; when it comes back, all who published are gone."""
    run = FaultRun(config, seed, _network(config))
    run.start_all()
    topic = run.below(config.topics)
    readers = run.subscribers(topic)
    absent = readers[run.below(len(readers))]
    others = [node for node in range(config.nodes) if node != absent]
    publishers = {others[run.below(len(others))] for _ in range(max(1, config.nodes // 3))}
    end_s = SETTLE_S + config.busy_s
    run.engine.crash(absent, _us(SETTLE_S))
    run.publish(SETTLE_S + 0.1, end_s, lambda node: node in publishers)
    for node in sorted(publishers):
        run.kill(node, end_s + 3.0)
    run.start(absent, end_s + 4.0, fresh=True)
    run.quiet_s = end_s + 4.0
    return run.finish()


def hostile(config: FaultConfig, seed: int) -> FaultOutcome:
    """PU-6: one node sends what no honest node sends, in every way that we know."""
    enemy = seed % config.nodes
    run = FaultRun(config, seed, _network(config), hostile=[enemy])
    run.start_all()
    run.publish(SETTLE_S, SETTLE_S + config.busy_s)
    return run.finish()


KINDS: dict[str, Callable[[FaultConfig, int], FaultOutcome]] = {
    "loss and restarts": loss_and_restarts,
    "blackout": blackout,
    "deaths": deaths,
    "partition": partition,
    "absence": absence,
    "hostile": hostile,
}


def converged(outcomes: Iterable[FaultOutcome]) -> dict[str, float]:
    """Times to converge, in seconds."""
    times = np.array([outcome.converged_s for outcome in outcomes])
    return {
        "median_s": float(np.median(times)),
        "p95_s": float(np.quantile(times, 0.95)),
        "max_s": float(times.max()),
    }
