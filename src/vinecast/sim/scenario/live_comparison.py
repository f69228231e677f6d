"""A live network's simulation, for comparison: the same whole peers, with the same ids, subscriptions,
starts, contacts and publications, in a simulated world (sim/peers).

The machines are the live ones, and so are their traces, so a live network and its simulation should agree: on
who gets what exactly, event by event; on hops, copies and control traffic but for chance. What differs is
what a simulation leaves out: sockets, processors that are busy, timers that are late. How much chance does is
seen by simulating several times: ids and distances stay, what nodes draw does not.

An event is due at the nodes whose subscription was ready when it was published. That is a moment, and may
come a little before the publication on one side and a little after it on the other. Who got an event is
therefore compared without the nodes that it was due at on one side alone; how often that was is told.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from vinecast.core.errors import InputError
from vinecast.core.log.retention import Retention
from vinecast.core.machine import SECOND_US
from vinecast.peer import inputs as given
from vinecast.peer.config import PeerConfig
from vinecast.peer.outputs import PeerOutput, Traced
from vinecast.sim.measure.peer_runs import JudgedEvent, PeerRunMeter
from vinecast.sim.measure.reduction import TraceReducer
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.keys import KeyRing
from vinecast.sim.peers.links import LinkConfig, SimulatedLinks
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import BEGIN_US, PeerWorld, Unobserved

JITTER = 0.2
"""The jitter of a way, as a share of its latency (ours), where it is what sockets and processors take."""
DIFFERENT_MAX = 20
"""Events that not the same nodes got that are named (ours); all are counted."""


@dataclass(frozen=True, slots=True)
class ComparedNode:
    """A node of a live network."""

    public: bytes
    """Its public key."""
    topics: tuple[str, ...]
    begin_s: float
    """When it came up."""
    contacts: tuple[int, ...] = ()
    """The nodes that it was told of then."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Who published what, and when."""

    at_s: float
    node: int
    topic: str


@dataclass(frozen=True, slots=True)
class Recipients:
    """Who should have an event, and who got it."""

    due: frozenset[int]
    """The nodes that it was due at."""
    got: frozenset[int]
    """All that it was delivered to in time."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A live run, as far as it can be had once more. Times are in seconds since its beginning."""

    nodes: Sequence[ComparedNode]
    publications: Sequence[Publication]
    config: PeerConfig
    network: str
    latency_ms: float
    """The median of what messages take over a connection."""
    patience_s: float
    """How long after its publication an event was judged."""
    end_s: float
    payload: bytes = b""
    """Of every event."""
    jitter: float = JITTER
    """By how much a message may be late, as a share of the latency."""
    idle_s: float = LinkConfig().idle_s
    """How long a connection carries nothing until it is closed, in the mean."""


@dataclass(frozen=True, slots=True)
class SimulatedOutcome:
    """What became of the events, measured as in the live network (sim/measure/peer_runs.py)."""

    expected: int
    got: int
    repeated: int
    strays: int
    """Deliveries to nodes that do not subscribe to the topic."""
    measures: dict[str, Any]
    control: dict[str, tuple[int, int]]
    """Kind of message → control messages sent, and their bytes."""
    reached: tuple[Recipients | None, ...] = ()
    """What became of each publication, in their order; None: there it was not published."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An event that not the same nodes got."""

    number: int
    """Of the publication."""
    live: tuple[int, ...]
    """The nodes that got it live and not in the simulation."""
    simulated: tuple[int, ...]
    """The nodes that got it in the simulation and not live."""
    got_live: tuple[int, ...]
    got_simulated: tuple[int, ...] | None
    """None: it was not published there."""


@dataclass(frozen=True, slots=True)
class WhoGotWhat:
    """Events of a live network and its simulation, one by one."""

    events: int
    equal: int
    """Those that the same nodes got, of the nodes that are compared."""
    left_out: int
    """Pairs of event and node that are not compared: it was due there on one side alone."""
    different: tuple[Difference, ...]
    """The first of those that are not equal."""


def who_got_what(live: Sequence[Recipients], simulated: Sequence[Recipients | None]) -> WhoGotWhat:
    """Compare the same publications, live and simulated."""
    different, equal, left_out = list[Difference](), 0, 0
    for number, (here, there) in enumerate(zip(live, simulated, strict=True)):
        if there is None:
            got = tuple(sorted(here.got))
            different.append(Difference(number, got, (), got, None))
            continue
        odd = here.due ^ there.due
        left_out += len(odd)
        if here.got - odd == there.got - odd:
            equal += 1
            continue
        sets = here.got - there.got - odd, there.got - here.got - odd, here.got, there.got
        different.append(Difference(number, *(tuple(sorted(one)) for one in sets)))
    return WhoGotWhat(len(live), equal, left_out, tuple(different[:DIFFERENT_MAX]))


class _Measured(Unobserved):
    """Reduces what peers leave in their traces."""

    def __init__(self) -> None:
        self.reducer = TraceReducer()

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[PeerOutput]) -> None:
        if outputs and isinstance(outputs[-1], Traced):
            self.reducer.take(node.number, outputs[-1].records)


class _Distances:
    """The world as its links see it: nodes are as far apart as live, whatever else is drawn."""

    def __init__(self, world: PeerWorld, seed: int) -> None:
        self._world, self.seed = world, seed
        self.at, self.feed, self.life = world.at, world.feed, world.life

    @property
    def now_us(self) -> int:
        """The world's time."""
        return self._world.now_us

    @now_us.setter
    def now_us(self, now_us: int) -> None:
        raise NotImplementedError("time passes in the world")


def run_comparison(run: ComparedRun, seed: int, draws: int | None = None) -> SimulatedOutcome:
    """Let the same nodes come up, build their overlay and publish on it. ``seed``: the live network's, which
    says how far apart nodes are; ``draws``: the seed of all that they draw, if it is another one."""
    if len({node.public for node in run.nodes}) < len(run.nodes):
        raise InputError("two nodes have the same id")
    measured = _Measured()
    world = _world_of(run, seed, seed if draws is None else draws, measured)
    period_us = round(run.config.period_s * SECOND_US)
    meter = PeerRunMeter(round(run.patience_s * SECOND_US), period_us)
    for node in world.nodes:
        meter.know(node.setup.identity.id, node.number)
    judged, now_s = list[JudgedEvent](), 0.0
    while now_s < run.end_s:
        now_s = min(now_s + run.patience_s, run.end_s)
        world.run(now_s)
        meter.add(measured.reducer.facts(world.now_us))
        judged.extend(meter.judge(world.now_us) if now_s < run.end_s else meter.finish())
    strays = sum(one.topic not in run.nodes[node].topics for one in judged for node in one.got_by)
    found, reached = meter.measures(), _in_order(run.publications, judged)
    return SimulatedOutcome(
        found["due"], found["hits"], meter.repeated, strays, found, meter.control(), reached
    )


def _in_order(
    publications: Sequence[Publication], judged: Sequence[JudgedEvent]
) -> tuple[Recipients | None, ...]:
    """What became of each publication. It is the next event of its publisher on its topic: at once, or later
    where the publisher waited until it knew a subscriber."""
    events: defaultdict[tuple[int, str], deque[JudgedEvent]] = defaultdict(deque)
    for event in sorted(judged, key=lambda one: one.at_us):
        events[event.publisher, event.topic].append(event)
    reached: list[Recipients | None] = []
    for one in publications:
        after = events[one.node, one.topic]
        came = bool(after) and after[0].at_us >= _at_us(one.at_s)
        reached.append(Recipients(after[0].due_at, after.popleft().got_by) if came else None)
    return tuple(reached)


def _at_us(at_s: float) -> int:
    """A time of the run, as the world's clocks have it."""
    return BEGIN_US + round(at_s * SECOND_US)


def _world_of(run: ComparedRun, seed: int, draws: int, measured: _Measured) -> PeerWorld:
    """The world in which all that is to happen is told."""
    links = LinkConfig(run.latency_ms, run.latency_ms * run.jitter, idle_s=run.idle_s, by_id=True)
    world = PeerWorld(draws, links, measured)
    world.links = SimulatedLinks(links, _Distances(world, seed))
    world.keys = KeyRing(seed, [node.public for node in run.nodes])
    world.verify = world.keys.verify
    for _ in run.nodes:
        world.add(run.config, network=run.network, disk=DiskConfig(is_memory=True), retention=Retention())
    for number, node in enumerate(run.nodes):
        world.at_s(node.begin_s, _begin, world, number, node.contacts, node.topics)
    for one in run.publications:
        world.at(_at_us(one.at_s), _publish, world.nodes[one.node], one.topic, run.payload)
    return world


def _begin(world: PeerWorld, number: int, join: Sequence[int], topics: Sequence[str]) -> None:
    world.start(number, join)
    for subscription, topic in enumerate(topics, start=1):
        world.nodes[number].ask(
            partial(given.OpenSubscription, subscription=subscription, topic=topic, start="now")
        )


def _publish(node: SimulatedNode, topic: str, payload: bytes) -> None:
    drafts = (node.draft(payload),)
    node.publish(partial(given.PublishDrafts, topic=topic, drafts=drafts, durable=False))
