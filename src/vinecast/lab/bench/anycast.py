"""What anycast costs and finds: the filters that a node keeps, what it sends to keep them up, and how far a
search has to go for a topic with a single subscriber.

The nodes are Cyclon's with anycast above it, as in PolderCast, whose other views would only help; periods are
those of a live node. Messages are weighed as they travel.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.draws import below_array, purpose, stream
from vinecast.core.errors import InputError
from vinecast.core.events import Effect, Event, Message, Received, Start, TimerFired
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.lab.bench.result import Result, at_most
from vinecast.lab.bench.sim import SEED
from vinecast.peer.wire.messages import system_frame
from vinecast.protocols.cyclon import Cyclon, CyclonAnswer, CyclonConfig, CyclonRequest
from vinecast.protocols.cyclon.machine import TIMER
from vinecast.protocols.gravity import GravityConfig, GravityUpdate
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.workload.subscriptions import subscribe
from vinecast.systems.common.anycast import Anycast, AnycastConfig, AnycastSeek
from vinecast.systems.common.anycast_messages import Home

STATE_KB, UPKEEP_KB = 25.0, 5.0
"""Filters of a node, and what it sends a second (ours)."""
MANY = 20
"""Neighbours where they are many (ours)."""
LATENCY_MS = 20.0
WARM_S, MEASURED_S = 45, 30  # ours: filters have come as far as they go; three periods of gravity
CONTACTS = 5
APART_S = 0.1  # ours: from one search to the next

AROUND = 4 + 22
"""Bytes around every frame: its length and kind, and what TLS 1.3 adds to a record."""

_DRAWS = purpose("bench.anycast")


def upkeep_bytes(message: Message) -> int:
    """What a message costs that keeps filters up, frame and all; 0 for any other."""
    if not isinstance(message, GravityUpdate):
        return 0
    return AROUND + len(system_frame(Home(message.version, message.base, message.data)))


@dataclass(frozen=True, slots=True)
class AnycastSizes:
    """How much is measured."""

    nodes: int = 500
    topics: int = 5
    """Of each node, out of as many as there are nodes."""
    searches: int = 100
    """For topics with one subscriber each."""

    def __post_init__(self) -> None:
        if self.nodes <= MANY:
            raise InputError(f"filters for {MANY} neighbours need more than {MANY} nodes, not {self.nodes}")


QUICK = AnycastSizes(nodes=60, searches=10)


class Finder:
    """The machine: Cyclon, and anycast above it."""

    def __init__(self, config: AnycastConfig, node: int, profiles: Profiles) -> None:
        self.cyclon = Cyclon(CyclonConfig(period_s=1.0), SEED, node)
        self.anycast = Anycast(config, SEED, node, profiles, lambda: self.cyclon.view, self._knows)
        self._profiles = profiles

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(_, CyclonRequest() | CyclonAnswer()):
                return self.cyclon.handle(event, now_us)
            case TimerFired(name) if name == TIMER:
                return self.cyclon.handle(event, now_us) + self.anycast.begin_cycle((), now_us)
            case Start():
                return self.cyclon.handle(event, now_us) + self.anycast.handle(event, now_us)
        return self.anycast.handle(event, now_us)

    def _knows(self, item: int, avoided: set[int]) -> int:
        """A subscriber in Cyclon's view."""
        for peer in self.cyclon.view.tolist():
            topics = self._profiles.topic_ids[self._profiles.topics_of(peer)]
            if (topics == np.uint64(item)).any() and int(self._profiles.ids[peer]) not in avoided:
                return int(peer)
        return NOBODY


class AnycastPopulation:
    """Nodes whose filters have settled."""

    def __init__(self, sizes: AnycastSizes, config: AnycastConfig) -> None:
        nodes, rare = sizes.nodes, sizes.searches
        self.sizes = sizes
        self.rare = np.arange(rare) % nodes  # numbers say nothing: ids are random
        everyday = below_array(_key(1), np.arange(nodes * sizes.topics), nodes) + rare
        node = np.concatenate([self.rare, np.repeat(np.arange(nodes), sizes.topics)])
        found = subscribe(node, np.concatenate([np.arange(rare), everyday]), nodes, rare + nodes)
        self.profiles = Profiles.simulated(SEED, found.start, found.topics, found.topic_count)
        self.bytes: NDArray[np.int64] = np.zeros(nodes, dtype=np.int64)
        self.walked = 0
        self.engine = EventEngine(
            lambda node: Finder(config, node, self.profiles), nodes, SEED,
            Network(NetworkConfig(latency_ms=LATENCY_MS), SEED, nodes), on_send=self._note,
        )  # fmt: skip
        contacts = below_array(_key(2), np.arange(nodes * CONTACTS), nodes).reshape(nodes, CONTACTS)
        begin_us = below_array(_key(3), np.arange(nodes), SECOND_US // 10)
        for n in range(nodes):
            self.engine.start(n, int(begin_us[n]), tuple(contacts[n].tolist()))
        self.run(WARM_S)

    def _note(self, sender: int, receiver: int, message: Message) -> None:
        if isinstance(message, AnycastSeek):
            self.walked += 1
        else:
            self.bytes[sender] += upkeep_bytes(message)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.engine.run(self.engine.now_us + round(seconds * SECOND_US))

    def machine(self, node: int) -> Finder:
        """The finder of a node."""
        found = self.engine.machines[node]
        assert isinstance(found, Finder)
        return found

    def upkeep(self, changing: int) -> NDArray[np.float64]:
        """What nodes send a second, in kB, while so many of them change a topic every second. [node]"""
        self.bytes[:] = 0
        nodes, rare = self.sizes.nodes, self.sizes.searches
        for second in range(MEASURED_S):
            chosen = below_array(stream(SEED, _DRAWS, 4, second), np.arange(2 * changing), nodes).tolist()
            for node, topic in zip(chosen[:changing], chosen[changing:], strict=True):
                own = self.profiles.topics_of(node)
                kept = np.union1d(own[own < rare], np.append(own[own >= rare][1:], rare + topic))
                self.profiles.set_topics(node, kept.astype(np.int32), np.zeros(kept.size, dtype=np.uint8))
                self.machine(node).anycast.renew_items()
            self.run(1)
        return np.asarray(self.bytes / MEASURED_S / 1000)

    def search(self) -> tuple[float, float]:
        """Search for every topic with a single subscriber, from a random node; which share is found, and how
        many walks' hops each takes."""
        config = self.machine(0).anycast.config
        before, self.walked = self._found(), 0
        asked = below_array(_key(5), np.arange(self.rare.size), self.sizes.nodes).tolist()
        for topic, node in enumerate(asked):
            for effect in self.machine(node).anycast.search(
                int(self.profiles.topic_ids[topic]), self.engine.now_us
            ):
                self.engine._apply(node, effect)
            self.run(APART_S)
        self.run(config.answer_s)
        searched = sum(node != subscriber for node, subscriber in zip(asked, self.rare, strict=True))
        return (self._found() - before) / (config.walk.branching * searched), self.walked / searched

    def _found(self) -> int:
        return sum(self.engine.counters["anycast.found"])


def _key(part: int) -> int:
    return stream(SEED, _DRAWS, part, 0)


def bench_anycast(sizes: AnycastSizes, tell: Callable[[str], None]) -> Iterator[Result]:
    """Measure the product's filters, those of twenty neighbours, and walks without any."""
    usual = AnycastConfig(on=True)
    wide = replace(usual, gravity=replace(usual.gravity, degree=MANY, depth=2))
    blind = replace(usual, gravity=replace(usual.gravity, calm=0.0, crowded=0.0))
    for name, config in ((_name(usual.gravity), usual), (_name(wide.gravity), wide), ("no filters", blind)):
        tell(name)
        population = AnycastPopulation(sizes, config)
        if config is not blind:
            yield at_most(
                f"{name}: filters that a node keeps", config.gravity.state_bytes / 1000, STATE_KB, "kB", ".1f"
            )
            for changing in (0, max(sizes.nodes // 100, 1)):
                sent = population.upkeep(changing)
                what = "one node in a hundred changes a topic each second" if changing else "at rest"
                yield at_most(f"{name}: sent a second, {what}", float(sent.mean()), UPKEEP_KB, "kB")
                yield at_most(f"{name}: … by the busiest node", float(sent.max()), UPKEEP_KB, "kB")
        share, hops = population.search()
        yield Result(f"{name}: walks that find the only subscriber", f"{share:.0%}", share)
        yield Result(f"{name}: hops of all walks of a search", f"{hops:.1f}", hops)


def _name(gravity: GravityConfig) -> str:
    return f"degree {gravity.degree}, {gravity.depth} levels of {gravity.filter_bytes} bytes"
