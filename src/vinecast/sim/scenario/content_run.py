"""A content system while it runs: what is published, and what is measured of it.

hit ratio   first deliveries / nodes on line whose filters match, the publisher left out
hops        of first deliveries, the publisher's own left out
overhead    the share of copies of events received by nodes that do not want them
load        the share of events that a node passed on, as a relay or as an owner; its own left out
owned       copies that came to a node as the owner of a value, and that it did not want: the load that S2
            §4.5 balances
wrong       deliveries to nodes that do not want the event, and second ones: there must be none
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.content.schemas import Event as Values
from vinecast.core.draws import below_array, purpose, stream
from vinecast.core.events import Deliver, Effect, Event, Publish, Received, Send
from vinecast.core.machine import Machine
from vinecast.core.traffic import unwanted_overall
from vinecast.protocols.content_table import ContentRequest
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.scenario import EventConfig
from vinecast.sim.scenario.world import EventWorld
from vinecast.sim.workload.content import ContentWorkload
from vinecast.systems.common.row import Machines, System
from vinecast.systems.registry import SYSTEMS
from vinecast.systems.vinifera.catalogue import ContentProfiles
from vinecast.systems.vinifera.events import ContentEvent

CONTACTS = 20
SPARE = 2  # ours: cycles more than requests last, since nodes begin theirs at different moments
CALM = NetworkConfig(latency_ms=50.0)
_PUBLISHERS = purpose("content.publishers")


@dataclass(frozen=True, slots=True, eq=False)
class ContentStats:
    """What became of some events."""

    events: int
    due: int
    hits: int
    hops: int
    """Of all hits together."""
    wrong: int
    received: NDArray[np.int64]
    """[wanted, node], copies"""
    passed: NDArray[np.int64]
    """[node], events that it passed on"""
    owned: NDArray[np.int64]
    """[node], see the module"""

    @property
    def hit_ratio(self) -> float:
        """See the module."""
        return self.hits / self.due if self.due else 1.0

    @property
    def hops_mean(self) -> float:
        """See the module."""
        return self.hops / self.hits if self.hits else 0.0

    @property
    def overhead(self) -> float:
        """See the module."""
        return unwanted_overall(self.received)

    @property
    def load(self) -> NDArray[np.float64]:
        """See the module. [node]"""
        share: NDArray[np.float64] = self.passed / max(self.events, 1)
        return share


class ContentMeter:
    """Counts what becomes of the events that it is told of."""

    def __init__(self, profiles: ContentProfiles) -> None:
        self._profiles = profiles
        self._reset()

    def _reset(self) -> None:
        self._wanting: dict[int, frozenset[int]] = {}
        self._publisher: dict[int, int] = {}
        self._due: dict[int, frozenset[int]] = {}
        self._got: dict[int, dict[int, int]] = {}
        self._passed: set[tuple[int, int]] = set()
        self._owner: dict[tuple[int, int], int] = {}
        """(event, attribute) -> who was the last to be sent it on its way up"""
        self._received = np.zeros((2, self._profiles.peers), dtype=np.int64)
        self._wrong = 0

    def begin(self, number: int, publisher: int, values: Values, held: NDArray[np.bool_]) -> None:
        """An event will be published. held: [node], who is held to it if it wants it"""
        content = self._profiles.catalogue.content(0, values)
        assert content is not None
        subscribers = self._profiles.subscribers()
        wanting = frozenset(
            node
            for one in content.matching
            for node in subscribers.node[subscribers.start[one] : subscribers.start[one + 1]].tolist()
        )
        self._wanting[number], self._publisher[number] = wanting, publisher
        self._due[number] = frozenset(node for node in wanting if held[node] and node != publisher)
        self._got[number] = {}

    def message(self, sender: int, receiver: int, message: Any) -> None:
        """For the event engine: a message is sent."""
        if isinstance(message, ContentEvent) and message.event in self._wanting:
            self._received[int(receiver in self._wanting[message.event]), receiver] += 1
            if message.up:
                self._owner[message.event, message.attribute] = receiver
            if sender != self._publisher[message.event]:
                self._passed.add((message.event, sender))

    def deliver(self, node: int, deliver: Deliver) -> None:
        """For the event engine: an event is delivered."""
        wanting, got = self._wanting.get(deliver.event), self._got.get(deliver.event)
        if wanting is None or got is None:
            return
        if node not in wanting or node in got:
            self._wrong += 1
            return
        got[node] = deliver.hops

    def missed(self) -> dict[int, list[int]]:
        """Who has missed which events."""
        found = {number: sorted(due - self._got[number].keys()) for number, due in self._due.items()}
        return {number: nodes for number, nodes in found.items() if nodes}

    def take(self) -> ContentStats:
        """All since the last time, counted; and forgotten."""
        hits = [got for number, due in self._due.items() for n, got in self._got[number].items() if n in due]
        unwanted = [node for (number, _), node in self._owner.items() if node not in self._wanting[number]]
        passed, owned = (
            np.bincount(np.array(nodes, dtype=np.int64), minlength=self._profiles.peers)
            for nodes in ([node for _, node in self._passed], unwanted)
        )
        stats = ContentStats(
            len(self._due), sum(map(len, self._due.values())), len(hits), sum(hits), self._wrong,
            self._received, passed, owned,
        )  # fmt: skip
        self._reset()
        return stats


class Bounded:
    """A machine that handles so many copies of events in a cycle, and drops the rest (S2 §4.6.5)."""

    def __init__(self, machine: Machine, most: int, period_us: int) -> None:
        self.machine = machine
        self._most, self._period_us = most, period_us
        self._cycle, self._count = -1, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, ContentEvent):
            cycle = now_us // self._period_us
            if cycle != self._cycle:
                self._cycle, self._count = cycle, 0
            self._count += 1
            if self._count > self._most:
                return []
        return self.machine.handle(event, now_us)


def bounded(system: System, most: int) -> System:
    """A system whose nodes can handle so many copies of events in a cycle."""

    def machines(config: Any, seed: int, profiles: Profiles) -> Machines:
        make = system.machines(config, seed, profiles)
        return lambda node: Bounded(make(node), most, config.period_us)

    return dataclasses.replace(system, machines=machines)


class Silent:
    """A machine that asks nobody for anything."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        return [
            effect
            for effect in self.machine.handle(event, now_us)
            if not (isinstance(effect, Send) and isinstance(effect.message, ContentRequest))
        ]


class ContentPublisher:
    """Lets events be published, and tells the meter."""

    def __init__(
        self, workload: ContentWorkload, profiles: ContentProfiles, seed: int, period_us: int
    ) -> None:
        self.meter = ContentMeter(profiles)
        self._workload, self._profiles = workload, profiles
        self._seed, self._period_us = seed, period_us
        self._published = 0

    def prepare(self, world: EventWorld, count: int, held: NDArray[np.bool_]) -> None:
        """Let so many events be published in the middle third of the next cycle, by random nodes of those who
        are held to them. held: [node]"""
        nodes = np.flatnonzero(held)
        self._profiles.contents.clear()
        if not nodes.size:
            return
        period_us = self._period_us
        key = stream(self._seed, _PUBLISHERS, world.cycle, 0)
        publishers = nodes[below_array(key, np.arange(count), nodes.size)].tolist()
        begin_us = world.cycle * period_us + period_us // 3
        for i, publisher in enumerate(publishers):
            number = self._published
            values = self._workload.event(self._seed, number, publisher)
            self._profiles.contents[number] = values
            self.meter.begin(number, publisher, values, held)
            world.engine.command(publisher, begin_us + i * period_us // (3 * count), Publish(0, number))
            self._published += 1

    def skip(self, count: int) -> None:
        """Go on as if so many events had been published."""
        self._published += count


class ContentRun:
    """A population of a content system on the event engine, with a meter."""

    def __init__(
        self,
        system: str,
        config: Any,
        workload: ContentWorkload,
        seed: int,
        *,
        most: int | None = None,
        timers: str = "spread",
        network: NetworkConfig = CALM,
    ) -> None:
        """most: copies of events that a node can handle in a cycle"""
        self.seed = seed
        self._kept: int = config.kept
        self.profiles = workload.profiles(seed)
        self.publisher = ContentPublisher(workload, self.profiles, seed, config.period_us)
        self.meter = self.publisher.meter
        found = SYSTEMS[system] if most is None else bounded(SYSTEMS[system], most)
        self.world = EventWorld(
            found, config, seed, self.profiles, EventConfig(timers=timers),
            Network(network, seed, self.profiles.peers), on_send=self.meter.message,
            on_deliver=self.meter.deliver,
        )  # fmt: skip

    def start(self, nodes: Sequence[int] | None = None) -> None:
        """Bring nodes up, all unless some are named, each knowing some others of these."""
        chosen = np.arange(self.profiles.peers) if nodes is None else np.asarray(nodes)
        degree = min(CONTACTS, chosen.size - 1)
        contacts = chosen[random_views(self.seed, chosen.size, degree)].astype(np.int32)
        self.world.start(chosen, contacts, keep_state=True)

    def advance(self, cycles: int) -> None:
        """Let cycles pass."""
        for _ in range(cycles):
            self.world.advance()

    def settle(self, cycles: int) -> None:
        """Let cycles pass without events.

        What is asked for is forgotten after a few cycles and changes nothing but where events go. So only in
        the last ones does anybody ask, which makes no difference afterwards and spares most of the work.
        """
        silent = max(cycles - 1 - self._kept - SPARE, 0)
        self.advance(1)
        machines = self.world.engine.machines
        own = list(machines)
        machines[:] = [None if machine is None else Silent(machine) for machine in own]
        self.advance(silent)
        machines[:] = own
        self.advance(cycles - 1 - silent)

    def publish(self, count: int, held: NDArray[np.bool_] | None = None) -> None:
        """Let so many events be published in the next cycle, and let it pass."""
        self.publisher.prepare(self.world, count, self.world.online if held is None else held)
        self.advance(1)

    def skip(self, count: int) -> None:
        """Let a cycle pass as if so many events had been published, and spare them."""
        self.publisher.skip(count)
        self.advance(1)
