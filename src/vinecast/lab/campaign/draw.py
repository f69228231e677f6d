"""Drawing plans: random networks, people and faults, all from one seed.

Every kind of fault and of lie comes in some runs only, so that what a run shows can be told from its plan;
and some plans have none of them, since most bugs were found with none.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from vinecast.core.draws import below, purpose, stream, unit
from vinecast.lab.campaign.plan import (
    FAULTS,
    SCHEMA_TOPIC,
    TOPICS,
    AnyStep,
    BeginStep,
    BreakLinkStep,
    CrashStep,
    CutOffStep,
    DiskFullStep,
    FlipStep,
    GoodbyeStep,
    HalfOpenStep,
    PauseStep,
    PeerPlan,
    Plan,
    PublishStep,
    ReadsFailStep,
    ReadStep,
    RefuseStep,
    SetClockStep,
)
from vinecast.sim.peers.hostile import LIES
from vinecast.systems.registry import LIVE_SYSTEMS

NODES_MIN, NODES_MAX = 3, 12
SETTLE_S, BUSY_S = 8.0, 24.0
"""Seconds before anything goes wrong, and in which it does (ours)."""
PATTERNS = ("news/#", "+/now", "#")
FILTERS = ("", "price < 30", 'price >= 50 and side = "buy"')

_PLAN, _READS, _PASSING = map(purpose, ("campaign.plan", "campaign.reads", "campaign.passing"))
T = TypeVar("T")


class Chance:
    """Draws of one plan, one after the other."""

    def __init__(self, seed: int, what: int = _PLAN) -> None:
        self._key, self._count = stream(seed, what, 0, 0), 0

    def below(self, n: int) -> int:
        """A whole number in [0, n)."""
        self._count += 1
        return below(self._key, self._count, n)

    def between(self, low: float, high: float) -> float:
        """A number between two, to a hundredth."""
        self._count += 1
        return round(low + (high - low) * unit(self._key, self._count), 2)

    def one_in(self, n: int) -> bool:
        """Whether something happens that happens once in n times."""
        return self.below(n) == 0

    def pick(self, of: Sequence[T]) -> T:
        """One of these."""
        return of[self.below(len(of))]

    def some(self, of: Sequence[T], most: int) -> list[T]:
        """Some of these, at least one, in their order."""
        count = 1 + self.below(min(most, len(of)))
        chosen: set[int] = set()
        while len(chosen) < count:
            chosen.add(self.below(len(of)))
        return [of[at] for at in sorted(chosen)]


def draw_plan(seed: int, system: str | None = None) -> Plan:
    """The plan of a seed."""
    chance = Chance(seed)
    count = NODES_MIN + chance.below(NODES_MAX - NODES_MIN + 1)
    chosen = system or chance.pick(("poldercast", *LIVE_SYSTEMS))
    nodes = _nodes(chance, count)
    drawer = _Drawer(chance, nodes, chance.some(TOPICS, len(TOPICS)))
    drawer.begin()
    drawer.read()
    drawer.publish()
    drawer.fail()
    drawer.fail_reads(Chance(seed, _READS))
    drawer.pass_by(Chance(seed, _PASSING))
    steps = tuple(sorted(drawer.steps, key=lambda step: step.at_s))
    return Plan(
        seed=seed,
        system=chosen,
        nodes=nodes,
        steps=steps,
        holders=1 + chance.below(2),
        kept_events=0 if chance.below(8) else 5 + chance.below(20),
    )


def _nodes(chance: Chance, count: int) -> tuple[PeerPlan, ...]:
    nodes = [PeerPlan() for _ in range(count)]
    if chance.one_in(6):
        for at in chance.some(range(count), count):
            nodes[at] = replace(nodes[at], memory=True)
    if chance.one_in(4):
        for at in chance.some(range(count), count):
            ahead_s = chance.pick((-3600.0, -2.0, 0.5, 30.0, 86_400.0))
            nodes[at] = replace(nodes[at], ahead_s=ahead_s, drift=chance.pick((0.0, 1e-4, -1e-4)))
    if chance.one_in(3) and count >= 4:
        for at in chance.some(range(count), count // 3):
            nodes[at] = replace(nodes[at], hostile=tuple(chance.some(tuple(LIES), 3)))
    return tuple(nodes)


class _Drawer:
    """Draws the steps of one plan."""

    def __init__(self, chance: Chance, nodes: Sequence[PeerPlan], topics: list[str]) -> None:
        self._chance, self._topics = chance, topics
        self._all = range(len(nodes))
        self._honest = [number for number in self._all if not nodes[number].hostile]
        self._late: set[int] = set()
        self.steps: list[AnyStep] = []
        self._end_s = SETTLE_S + BUSY_S
        self._has_schema = chance.one_in(4)
        self._is_steady = chance.one_in(3)
        """Whether nobody comes late."""

    def begin(self) -> None:
        """Nodes come up, most of them at once."""
        chance = self._chance
        for node in self._all:
            at_s = chance.between(0, 0.5)
            late = not self._is_steady and chance.one_in(6)
            if late and len(self._honest) > 2 and node != self._honest[0]:
                at_s = chance.between(SETTLE_S, self._end_s)
                self._late.add(node)
            others = [other for other in self._all if other != node and other not in self._late]
            known = chance.some(others, 3) if others else []
            if self._honest[0] not in (node, *known):
                known.append(self._honest[0])  # one honest address is enough (S4 of the security page)
            self.steps.append(BeginStep(at_s, node, tuple(known)))

    def read(self) -> None:
        """People read."""
        chance = self._chance
        for reader in range(1 + chance.below(2 * len(self._honest))):
            node = chance.pick(self._honest)
            early = self._is_steady or (node not in self._late and chance.below(3))
            at_s = chance.between(1, 4) if early else chance.between(SETTLE_S, self._end_s)
            begun_s = next(s.at_s for s in self.steps if isinstance(s, BeginStep) and s.node == node)
            at_s = max(at_s, round(begun_s + 0.5, 2))
            start = chance.pick(("now", "now", "earliest", "earliest", "earliest"))
            consumer = f"consumer/{reader}" if chance.one_in(4) else ""
            topic, wanted = chance.pick(self._topics), ""
            if self._has_schema and chance.one_in(3):
                topic, wanted = SCHEMA_TOPIC, chance.pick(FILTERS)
            elif chance.one_in(12):
                topic = chance.pick(PATTERNS)
            elif chance.one_in(12):
                start, consumer = "event", ""
            until_s = chance.between(at_s + 2, self._end_s + 6) if chance.one_in(6) else 0.0
            take_s = chance.pick((0.0, 0.0, 0.0, 0.05, 0.5))
            self.steps.append(ReadStep(at_s, node, reader, topic, start, consumer, take_s, wanted, until_s))

    def publish(self) -> None:
        """People publish: some often, some once in their lives."""
        chance = self._chance
        few = chance.some(self._honest, 4)
        topics = [*self._topics, *([SCHEMA_TOPIC] if self._has_schema else ())]
        begun_s = {step.node: step.at_s for step in self.steps if isinstance(step, BeginStep)}
        for number in range(6 + chance.below(30)):
            node = chance.pick(few) if chance.below(5) else chance.pick(self._honest)
            at_s = max(chance.between(4, self._end_s), round(begun_s[node] + 1.0, 2))
            events = chance.pick((1, 1, 1, 3, 20))
            size = chance.pick((16, 64, 64, 1000, 20_000))
            durable = bool(chance.below(4))
            self.steps.append(PublishStep(at_s, node, number, chance.pick(topics), events, durable, size))

    def fail(self) -> None:
        """Things go wrong, or not."""
        chance = self._chance
        kinds = [self._crash, self._goodbye, self._pause, self._cut, self._break, self._half_open]
        kinds += [self._refuse, self._disk_full, self._set_clock]
        if chance.one_in(20):
            kinds.append(self._flip)
        if chance.one_in(4):
            return
        chosen = chance.some(kinds, 3)
        for _ in range(1 + chance.below(6)):
            self.steps.append(chance.pick(chosen)(chance.between(SETTLE_S, self._end_s)))

    def fail_reads(self, chance: Chance) -> None:
        """In some runs with faults a disk cannot be read for a while; all other draws are as they were."""
        if chance.one_in(20) and any(isinstance(step, FAULTS) for step in self.steps):
            at_s, node = chance.between(SETTLE_S, self._end_s), chance.pick(self._honest)
            self.steps.append(ReadsFailStep(at_s, node, chance.between(0.5, 15)))

    def pass_by(self, chance: Chance) -> None:
        """In some runs whoever comes late publishes at once, as a command does that joins to publish; all
        other draws are as they were."""
        if not chance.one_in(4):
            return
        numbers = [step.number for step in self.steps if isinstance(step, PublishStep)]
        for step in [step for step in self.steps if isinstance(step, BeginStep)]:
            if step.node in self._late.intersection(self._honest):
                numbers.append(len(numbers))
                at_s = round(step.at_s + chance.pick((0.0, 0.1, 0.3)), 2)
                self.steps.append(PublishStep(at_s, step.node, numbers[-1], chance.pick(self._topics)))

    # Faults.

    def _crash(self, at_s: float) -> AnyStep:
        chance = self._chance
        node = chance.pick(self._all)
        down_s = chance.pick((0.1, 1.0, 5.0, chance.between(0.1, 25)))
        if chance.one_in(5) and node != self._honest[0]:  # whom all were told of comes back
            down_s = 0.0
        return CrashStep(at_s, node, down_s, chance.one_in(4))

    def _goodbye(self, at_s: float) -> AnyStep:
        return GoodbyeStep(at_s, self._chance.pick(self._all), self._chance.between(0.1, 10))

    def _pause(self, at_s: float) -> AnyStep:
        return PauseStep(at_s, self._chance.pick(self._all), self._chance.pick((0.5, 3.0, 15.0, 30.0)))

    def _cut(self, at_s: float) -> AnyStep:
        side = self._chance.some(self._all, max(1, len(self._all) // 2))
        return CutOffStep(at_s, tuple(side), self._chance.pick((1.0, 5.0, 15.0, 30.0)))

    def _break(self, at_s: float) -> AnyStep:
        return BreakLinkStep(at_s, self._chance.below(1000))

    def _half_open(self, at_s: float) -> AnyStep:
        return HalfOpenStep(at_s, self._chance.below(1000))

    def _refuse(self, at_s: float) -> AnyStep:
        return RefuseStep(at_s, self._chance.pick(self._all), self._chance.between(1, 20))

    def _disk_full(self, at_s: float) -> AnyStep:
        return DiskFullStep(at_s, self._chance.pick(self._honest), self._chance.between(0.5, 15))

    def _set_clock(self, at_s: float) -> AnyStep:
        by_s = self._chance.pick((-7200.0, -5.0, 5.0, 7200.0))
        return SetClockStep(at_s, self._chance.pick(self._honest), by_s)

    def _flip(self, at_s: float) -> AnyStep:
        return FlipStep(at_s, self._chance.pick(self._honest), self._chance.below(1000))
