"""What every topic system must do, whatever it is made of.

A system joins the suite with one entry of ``conformance_systems.SYSTEMS``: how to build its machines, how
long it takes to settle, and how to look at what it knows and remembers. A trial drives a population of it
and keeps the truth (who wants what) that deliveries are held against: ``Trial`` on the event engine, where
``make`` puts it, and ``conformance_live.LiveTrial`` with real nodes.
"""

import abc
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.events import Deliver, Publish, Subscribe, Unsubscribe
from vinecast.core.machine import SECOND_US, Machine
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.subscriptions import Subscriptions, subscribe

PERIOD_US = SECOND_US
"""Every system's cycle here: a second."""

CALM = NetworkConfig(latency_ms=10.0)
MEMORY = 4
"""Events that a system remembers where its memory is tested."""


@dataclass(frozen=True)
class TopicSystem:
    """All that the suite needs to know of a system."""

    build: Callable[[Any, int, Profiles], Callable[[int], Machine]]
    """(configuration, seed, profiles) -> what builds the machine of a node"""
    config: Any
    forgetful: Any
    """The same configuration, but only MEMORY events are remembered, and for a cycle at the least."""
    settle: int
    """Cycles until a static population has settled."""
    recover: int
    """Cycles until it has settled again after a fault."""
    heal: int
    """Cycles until it has, after a partition."""
    relay_free: bool
    """Whether subscribers alone carry a topic's events."""
    views: Callable[[Any], list[list[int]]]
    """Lists of peers in each of which nobody may stand twice, nor the node itself."""
    remembered: Callable[[Any], int]
    """How many events a machine remembers."""
    reason_alone: str
    """Why an event is dropped that nobody wants; empty where no node can tell that nobody does."""
    where: "type[AnyTrial] | None" = None
    """What kind of trial it is put to; None: a simulated one."""
    nodes: int = 30
    """A population that is no trouble to it."""


def make(
    system: TopicSystem,
    subscriptions: Subscriptions,
    seed: int,
    *,
    config: Any = None,
    network: NetworkConfig = CALM,
    contacts: int = 5,
    trace: Callable[[TraceRecord], None] | None = None,
    on_deliver: Callable[[int, Deliver], None] | None = None,
) -> EventEngine:
    """A population of the system on the event engine, all of it on line from the beginning."""
    nodes = subscriptions.nodes
    profiles = Profiles.simulated(seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    engine = EventEngine(
        system.build(config or system.config, seed, profiles),
        nodes,
        seed,
        Network(network, seed, nodes),
        trace=trace,
        on_deliver=on_deliver,
    )
    for node, known in enumerate(random_views(seed, nodes, min(contacts, nodes - 1)).tolist()):
        engine.start(node, 0, tuple(known))
    return engine


class Dropped(NamedTuple):
    """An event that went nowhere."""

    topic: int
    event: int
    reason: str


class AnyTrial(contextlib.AbstractContextManager["AnyTrial"], abc.ABC):
    """A population, the truth about it, and what became of every event."""

    def __init__(self, system: TopicSystem, subscriptions: Subscriptions, seed: int) -> None:
        self.system = system
        self.seed = seed
        self.topics = range(subscriptions.topic_count)
        self.wants = [set(subscriptions.of(node).tolist()) for node in range(subscriptions.nodes)]
        self.delivered: Counter[tuple[int, int, int]] = Counter()
        """(node, topic, event) -> how often"""
        self.dropped: list[Dropped] = []
        self.published: dict[int, tuple[int, list[int]]] = {}
        """event -> its topic and who should get it"""

    def __exit__(self, *failure: object) -> None:
        """Let go of everything."""

    # Driving.

    @abc.abstractmethod
    def run(self, cycles: int) -> None:
        """Let so many cycles pass, and all that was published arrive."""

    @abc.abstractmethod
    def settle(self) -> None:
        """Let the population settle."""

    @abc.abstractmethod
    def recover(self) -> None:
        """Let it settle again, after something changed."""

    @abc.abstractmethod
    def command(self, node: int, event: Publish | Subscribe | Unsubscribe) -> None:
        """Tell a node to do something, now."""

    def is_online(self, node: int) -> bool:
        """Whether a node is there."""
        return True

    def subscribe(self, node: int, topic: int) -> None:
        self.wants[node].add(topic)
        self.command(node, Subscribe(topic))

    def unsubscribe(self, node: int, topic: int) -> None:
        self.wants[node].discard(topic)
        self.command(node, Unsubscribe(topic))

    def subscribers(self, topic: int) -> list[int]:
        """Those on line who should get the topic's events."""
        return [n for n, wants in enumerate(self.wants) if topic in wants and self.is_online(n)]

    def publish(self, node: int, topic: int) -> int:
        event = len(self.published) + 1
        self.published[event] = topic, self.subscribers(topic)
        self.command(node, Publish(topic, event))
        return event

    def publish_everything(self) -> list[int]:
        """One event a topic, each from one of its subscribers, and a cycle to arrive in."""
        wanted = [(topic, self.subscribers(topic)) for topic in self.topics if self.subscribers(topic)]
        events = [self.publish(nodes[(topic + self.seed) % len(nodes)], topic) for topic, nodes in wanted]
        self.run(1)
        return events

    # Judging.

    def received(self, event: int) -> list[int]:
        """Who got an event, as often as they did."""
        topic = self.published[event][0]
        return sorted(n for (n, t, e) in self.delivered.elements() if (t, e) == (topic, event))

    def check(self, events: list[int]) -> None:
        """Everybody who should got every event, once; nobody else did."""
        assert events
        for event in events:
            assert self.received(event) == self.published[event][1], f"event {event}"

    @abc.abstractmethod
    def check_no_relays(self, events: list[int]) -> None:
        """No event message ever went to somebody who is not interested."""

    @abc.abstractmethod
    def check_views(self) -> None:
        """What no accident may break: nobody knows itself, anybody twice, or somebody who does not exist."""


class Trial(AnyTrial):
    """A population on the event engine."""

    def __init__(self, system: TopicSystem, subscriptions: Subscriptions, seed: int, **rest: Any) -> None:
        super().__init__(system, subscriptions, seed)
        self.carried: list[TraceRecord] = []
        """Event messages that were sent."""
        self.engine = make(system, subscriptions, seed, trace=self._note, on_deliver=self._deliver, **rest)

    def _note(self, record: TraceRecord) -> None:
        if record.event >= 0 and record.kind == TraceKind.SENT:
            self.carried.append(record)
        elif record.event >= 0 and record.kind == TraceKind.DROPPED:
            self.dropped.append(Dropped(record.topic, record.event, record.reason))

    def _deliver(self, node: int, deliver: Deliver) -> None:
        self.delivered[node, deliver.topic, deliver.event] += 1

    def run(self, cycles: int) -> None:
        """Up to the quiet moment at the end of so many cycles: a fifth of one before everybody's timers
        nothing is on its way but events."""
        quiet = PERIOD_US // 5
        self.engine.run(((self.engine.now_us + quiet) // PERIOD_US + cycles) * PERIOD_US - quiet)

    def settle(self) -> None:
        self.run(self.system.settle)

    def recover(self) -> None:
        self.run(self.system.recover)

    def command(self, node: int, event: Publish | Subscribe | Unsubscribe) -> None:
        self.engine.command(node, self.engine.now_us, event)

    def is_online(self, node: int) -> bool:
        return bool(self.engine.online[node])

    def check_no_relays(self, events: list[int]) -> None:
        strangers = [
            record for record in self.carried
            if record.event in events and record.topic not in self.wants[record.peer]
        ]  # fmt: skip
        assert strangers == []

    def check_views(self) -> None:
        for node, machine in enumerate(self.engine.machines):
            for view in self.system.views(machine):
                assert node not in view
                assert len(set(view)) == len(view)
                assert all(0 <= peer < self.engine.nodes for peer in view)


def filter_sets(lists: Mapping[int, list[int]] | list[list[int]], topic_count: int) -> Subscriptions:
    """Subscriptions written out: the topics of each node."""
    rows = [lists[node] for node in range(len(lists))]
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    topics = np.array([topic for row in rows for topic in row], dtype=np.int64)
    return subscribe(owner.astype(np.int64), topics, len(rows), topic_count)
