"""Plans with one kind of faults each, for S3's claims about durability (SYSTEMS.md §5).

All nodes read some topics from the earliest on, some of them as named consumers, and publish on these; then
something befalls them. Who reads, publishes and dies, and when, is drawn from the seed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from vinecast.lab.campaign.draw import SETTLE_S, Chance
from vinecast.lab.campaign.plan import (
    AnyStep,
    BeginStep,
    CrashStep,
    CutOffStep,
    PeerPlan,
    Plan,
    PublishStep,
    ReadStep,
    StrikeStep,
)

HOLDERS = 3
"""Others that a receipt waits for: k of S3 §4.5, as many as there are replicas of a topic."""
LOSSY_WAIT_S = 40.0
"""How long publishers wait for receipts where frames are lost (ours): less than judges do."""
TOLD = HOLDERS + 1
"""Whom a newcomer is told of: one more than ``deaths`` kills."""
LIES = 4
"""Ways in which a hostile node lies in one run (ours): with all of them it would be shunned at once."""
FORGERIES = (
    "events in another's name",
    "stream events in another's name",
    "events under another topic",
    "parents that never existed",
    "chains that end nowhere",
    "wrong heights",
    "heights near the end",
    "old events again",
    "old stream events again",
    "heads that are none",
    "wrong bytes",
    "lists of nothing",
    "answers nobody asked for",
    "acknowledging what it does not keep",
)
"""What hostile nodes forge, or play again (sim/peers/lies)."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FaultSize:
    """How large a run is. All values are ours."""

    nodes: int = 8
    topics: int = 2
    events: int = 12
    """Events that are published, all in all."""
    busy_s: float = 6.0
    """Seconds in which they are."""
    loss: float = 0.3
    """Where frames are lost: the share."""

    @property
    def end_s(self) -> float:
        """When the last is published."""
        return SETTLE_S + self.busy_s


class _Maker:
    """Makes one plan."""

    def __init__(self, size: FaultSize, seed: int) -> None:
        self.size, self.chance = size, Chance(seed)
        self.steps: list[AnyStep] = []
        self.topics = [f"topic/{number}" for number in range(size.topics)]
        self.reads = [self._topics_of() for _ in range(size.nodes)]

    def sample(self, of: Sequence[T], count: int) -> list[T]:
        """So many of these, in their order."""
        left = list(of)
        while len(left) > count:
            del left[self.chance.below(len(left))]
        return left

    def _topics_of(self) -> list[str]:
        chosen = [topic for topic in self.topics if self.chance.below(10) < 7]
        return chosen or [self.chance.pick(self.topics)]

    def begin(self, nodes: Iterable[int], at_s: float = 0.0) -> None:
        """Let nodes come up, and people read there."""
        chance, all_nodes = self.chance, range(self.size.nodes)
        for node in nodes:
            from_s = round(at_s + chance.between(0, 0.5), 2)
            known = self.sample([other for other in all_nodes if other != node], TOLD)
            self.steps.append(BeginStep(from_s, node, tuple(known)))
            for topic in self.reads[node]:
                reader = len(self.steps)
                consumer = f"consumer/{reader}" if chance.one_in(2) else ""
                read_s = round(from_s + 1.0, 2)
                self.steps.append(ReadStep(read_s, node, reader, topic, "earliest", consumer))

    def readers(self, topic: str, at_s: float) -> list[int]:
        """Who reads a topic, of those that are up at a time."""
        away = set()
        for step in self.steps:
            match step:
                case BeginStep(from_s, node) if from_s > at_s:
                    away.add(node)
                case CrashStep(from_s, node, down_s) if from_s <= at_s and not 0 < down_s < at_s - from_s:
                    away.add(node)
        return [node for node, topics in enumerate(self.reads) if topic in topics and node not in away]

    def publish(self, from_s: float, to_s: float, may: Sequence[int] | None = None) -> None:
        """Have all events published between two moments, each by a reader that may and is up."""
        chance = self.chance
        for number in range(self.size.events):
            topic, at_s = chance.pick(self.topics), chance.between(from_s, to_s)
            readers = self.readers(topic, at_s)
            pool = [node for node in readers if may is None or node in may] or list(may or readers)
            if pool:
                self.steps.append(PublishStep(at_s, chance.pick(pool), number, topic))

    def crash(self, node: int, at_s: float, down_s: float) -> None:
        """Let a node die, some with their machine; and come back, unless it is for ever."""
        self.steps.append(CrashStep(round(at_s, 2), node, round(down_s, 2), self.chance.one_in(3)))

    def plan(self, system: str, seed: int) -> Plan:
        """All of it."""
        nodes = (PeerPlan(),) * self.size.nodes
        steps = tuple(sorted(self.steps, key=lambda step: step.at_s))
        return Plan(seed, system, nodes, steps, holders=HOLDERS)


def calm(size: FaultSize, seed: int, system: str) -> Plan:
    """Nothing goes wrong. A publisher may be one of the k replicas, so it waits for k − 1 others."""
    made = _Maker(size, seed)
    made.begin(range(size.nodes))
    made.publish(SETTLE_S, size.end_s)
    return replace(made.plan(system, seed), holders=HOLDERS - 1)


def loss_and_restarts(size: FaultSize, seed: int, system: str) -> Plan:
    """PU-1: frames are lost all the time, and nodes die and come back while events are published."""
    made = _Maker(size, seed)
    made.begin(range(size.nodes))
    for _ in range(max(2, size.nodes // 3)):
        node, at_s = made.chance.below(size.nodes), made.chance.between(SETTLE_S, size.end_s)
        made.crash(node, at_s, made.chance.between(0.2, 2.2))
    made.publish(SETTLE_S, size.end_s)
    return replace(made.plan(system, seed), loss=size.loss, wait_s=LOSSY_WAIT_S)


def blackout(size: FaultSize, seed: int, system: str) -> Plan:
    """PU-1, the worst restart: all nodes die at once while events are published, and come back."""
    made = _Maker(size, seed)
    made.begin(range(size.nodes))
    made.publish(SETTLE_S, size.end_s)
    at_s = SETTLE_S + size.busy_s * made.chance.between(0.3, 0.8)
    for node in range(size.nodes):
        made.crash(node, at_s, made.chance.between(0.5, 1.5))
    return made.plan(system, seed)


def deaths(size: FaultSize, seed: int, system: str) -> Plan:
    """PU-2: as soon as k others hold an event, its publisher and k − 1 of them die for good; frames are lost
    all the time; then somebody comes who reads it all."""
    made = _Maker(size, seed)
    newcomer = made.chance.below(size.nodes)
    made.reads[newcomer] = made.topics
    made.begin(node for node in range(size.nodes) if node != newcomer)
    made.begin([newcomer], size.end_s + 2.0)
    made.publish(SETTLE_S, size.end_s)
    made.steps.append(StrikeStep(SETTLE_S, HOLDERS))
    return replace(made.plan(system, seed), loss=size.loss, wait_s=LOSSY_WAIT_S)


def partition(size: FaultSize, seed: int, system: str) -> Plan:
    """PU-3: the network falls into halves, both publish, and it heals: before or after connections notice."""
    made = _Maker(size, seed)
    made.begin(range(size.nodes))
    half = made.sample(range(size.nodes), size.nodes // 2)
    made.steps.append(CutOffStep(SETTLE_S, tuple(half), made.chance.pick((size.busy_s, 30.0))))
    made.publish(SETTLE_S, size.end_s)
    return made.plan(system, seed)


def absence(size: FaultSize, seed: int, system: str) -> Plan:
    """PU-4: a node is off line while others publish; when it comes back, all who published are gone."""
    made = _Maker(size, seed)
    made.begin(range(size.nodes))
    absent = made.chance.below(size.nodes)
    others = [node for node in range(size.nodes) if node != absent]
    publishers = made.sample(others, max(1, size.nodes // 3))
    made.crash(absent, SETTLE_S, size.end_s + 4.0 - SETTLE_S)
    made.publish(SETTLE_S + 0.1, size.end_s, publishers)
    for node in sorted(publishers):
        made.crash(node, size.end_s + 3.0, 0.0)
    return made.plan(system, seed)


def hostile(size: FaultSize, seed: int, system: str) -> Plan:
    """PU-6: one node forges, and plays again what was."""
    made = _Maker(size, seed)
    enemy = seed % size.nodes
    made.begin(range(size.nodes))
    made.steps = [step for step in made.steps if not (isinstance(step, ReadStep) and step.node == enemy)]
    made.publish(SETTLE_S, size.end_s, [node for node in range(size.nodes) if node != enemy])
    lies = tuple(made.sample(FORGERIES, LIES))
    plan = made.plan(system, seed)
    nodes = tuple(PeerPlan(hostile=lies if node == enemy else ()) for node in range(size.nodes))
    return replace(plan, nodes=nodes)


FAULT_PLANS: dict[str, Callable[[FaultSize, int, str], Plan]] = {
    "calm": calm,
    "loss and restarts": loss_and_restarts,
    "blackout": blackout,
    "deaths": deaths,
    "partition": partition,
    "absence": absence,
    "hostile": hostile,
}
"""By the kind of faults."""
