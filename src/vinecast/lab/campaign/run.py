"""A run: a plan, carried out in a world of whole peers, until nothing is left to come or time is up."""

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from vinecast.core.draws import below, purpose, shuffled, stream
from vinecast.core.log.retention import Retention
from vinecast.core.machine import SECOND_US
from vinecast.lab.campaign.history import History, ReceiptFacts
from vinecast.lab.campaign.judges import judge
from vinecast.lab.campaign.people import People
from vinecast.lab.campaign.plan import (
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
    Plan,
    PublishStep,
    ReadsFailStep,
    ReadStep,
    RefuseStep,
    SetClockStep,
    StrikeStep,
    told,
)
from vinecast.lab.campaign.promises import Judgement, Truth, are_answered, are_level, are_slow
from vinecast.peer.config import PeerConfig
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.world import PeerWorld


@dataclass(frozen=True, slots=True)
class Watch:
    """When it is looked whether all have what is due to them. All values are ours."""

    rest_s: float = 5.0
    """Seconds after the last step before that: nothing of what was sent is under way any more."""
    look_s: float = 1.0
    """How often."""
    stays_s: float = 3.0
    """Seconds for which they must have it."""
    patience_s: float = 90.0
    """Seconds after the last step within which all must have it: longer than any wait of a peer."""
    slow_s: float = 600.0
    """Seconds more for readers that take their time, as long as events wait for them."""


WATCH = Watch()
START_AGAIN_S = 1.0
"""When somebody starts a node again that did not come up (ours)."""

_WAYS, _STRIKE = purpose("campaign.ways"), purpose("campaign.strike")


@dataclass(slots=True)
class Outcome:
    """What became of a run."""

    plan: Plan
    judgement: Judgement
    history: History
    story: list[str] = field(default_factory=list)
    """What happened, for a person; only when it was asked for."""
    took_s: float = 0.0
    """Seconds of the run, until all was as it should be."""
    level_s: float | None = None
    """Since when all readers had what was due to them; None: in the end they had not."""


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage more rarely: a run makes many small things, and nearly all of them die young."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class PlanRun:
    """One run of a plan. ``tells``: whether to write down what happens."""

    def __init__(self, plan: Plan, tells: bool = False, watch: Watch = WATCH) -> None:
        self.plan, self._tells, self._watch = plan, tells, watch
        self.people = People(frozenset(plan.honest), plan.of(CutOffStep, RefuseStep))
        self.world = PeerWorld(plan.seed, _links(plan), self.people)
        self.people.enter(self.world)
        self.story: list[str] = []
        if tells:
            self.people.watchers.append(self._note)
        config = PeerConfig(
            system=plan.system, period_s=plan.period_s, publish_wait_s=plan.wait_s, holders=plan.holders,
            peers=64, topics=256,
        )  # fmt: skip
        retention = Retention(events=plan.kept_events or None)
        for node in plan.nodes:
            made = self.world.add(
                config, network="campaign", disk=DiskConfig(is_memory=node.memory), retention=retention,
                lies=node.hostile,
            )  # fmt: skip
            made.clock.set(round(node.ahead_s * SECOND_US))
            made.clock.drift = node.drift
        self.struck = False
        """Whether a publisher died at its receipt."""
        self._cuts = 0
        for step in plan.steps:
            self.world.at_s(step.at_s, self._do, step)

    def run(self) -> Outcome:
        """Carry it out."""
        with rare_collections():
            return self._run()

    def _run(self) -> Outcome:
        world, quiet_s, watch = self.world, self.plan.quiet_s, self._watch
        world.run(quiet_s + watch.rest_s)
        level_s: float | None = None
        settled_s: float | None = None
        while True:
            truth = self.truth()
            level_s = _since(level_s, are_level(truth), world.now_s)
            settled_s = _since(settled_s, level_s is not None and are_answered(truth), world.now_s)
            if settled_s is not None and world.now_s >= settled_s + watch.stays_s:
                break
            late_s = world.now_s - quiet_s - watch.patience_s
            if late_s >= (watch.slow_s if are_slow(truth) else 0):
                break
            world.run(world.now_s + watch.look_s)
        judgement = judge(self.truth())
        return Outcome(self.plan, judgement, self.people.history, self.story, world.now_s, level_s)

    def truth(self) -> Truth:
        """How things stand."""
        return Truth(self.plan, self.people.history, self.world)

    def _note(self, at_s: float, node: int, what: str) -> None:
        self.story.append(f"{at_s:7.2f} s    node {node} {what}")

    # Steps.

    def _do(self, step: AnyStep) -> None:
        if self._tells:
            self.story.append(told(step))
        world = self.world
        match step:
            case BeginStep(_, node, join):
                self._start(node, join)
            case ReadStep():
                self.people.read(step)
                if step.until_s:
                    world.at_s(step.until_s, self.people.stop_reading, step)
            case PublishStep():
                self.people.publish(step)
            case CrashStep(_, node, down_s, power):
                self._end(node, lambda: world.nodes[node].crash(power=power), down_s)
            case GoodbyeStep(_, node, down_s):
                self._end(node, world.nodes[node].leave, down_s)
            case PauseStep(_, node, for_s):
                world.nodes[node].pause()
                self._later(for_s, world.nodes[node].resume)
            case CutOffStep(_, side, for_s):
                self._cuts += 1
                number = self._cuts
                world.links.cut(number, side)
                self._later(for_s, lambda: world.links.heal(number))
            case RefuseStep(_, node, for_s):
                world.links.refusing.add(node)
                self._later(for_s, lambda: world.links.refusing.discard(node))
            case DiskFullStep(_, node, for_s):
                self._fill(node, True)
                self._later(for_s, lambda: self._fill(node, False))
            case ReadsFailStep(_, node, for_s):
                self._fail_reads(node, True)
                self._later(for_s, lambda: self._fail_reads(node, False))
            case SetClockStep(_, node, by_s):
                world.nodes[node].clock.set(round(by_s * SECOND_US))
            case StrikeStep(_, holders):
                self.people.on_receipt = partial(self._strike, holders)
            case BreakLinkStep() | HalfOpenStep() | FlipStep():
                self._damage(step)
            case _:
                assert_never(step)

    def _later(self, after_s: float, action: Callable[[], object]) -> None:
        self.world.at_s(self.world.now_s + after_s, action)

    def _fill(self, node: int, fails: bool) -> None:
        self.world.nodes[node].disk.fails = fails

    def _fail_reads(self, node: int, fails: bool) -> None:
        self.world.nodes[node].disk.reads_fail = fails and not self.plan.nodes[node].memory

    def _damage(self, step: BreakLinkStep | HalfOpenStep | FlipStep) -> None:
        links = self.world.links.links()
        match step:
            case BreakLinkStep(_, pick) if links:
                self.world.links.break_link(*links[pick % len(links)])
            case HalfOpenStep(_, pick) if links:
                self.world.links.half_open(*links[pick % len(links)])
            case FlipStep(_, node, pick):
                disk = self.world.nodes[node].disk
                kept = disk.readable()
                if kept:
                    disk.flip(kept[pick % len(kept)].cid)

    def _strike(self, holders: int, facts: ReceiptFacts) -> None:
        """Let a publisher die at the moment of its receipt, and all but one of so many who hold its event."""
        if facts.event.holders < holders:
            return
        self.people.on_receipt, self.struck = lambda facts: None, True
        publisher = facts.event.publication.step.node
        others = [node for node in facts.who if node != publisher]
        turn = shuffled(stream(self.plan.seed, _STRIKE, 0, publisher), len(others))
        for node in (publisher, *(others[at] for at in turn[: holders - 1].tolist())):
            self._later(0, partial(self._end, node, self.world.nodes[node].crash, 0))

    def _start(self, node: int, join: tuple[int, ...]) -> None:
        """A node comes up, and those who read on it before go on."""
        world = self.world
        if world.nodes[node].is_up:
            return
        if world.nodes[node].disk.reads_fail:  # no live node comes up: it is started again a little later
            self._later(START_AGAIN_S, lambda: self._start(node, join))
            return
        world.start(node, join)
        for read in self.plan.of(ReadStep):
            if read.node == node and read.at_s < world.now_s:
                self.people.read(read)

    def _end(self, node: int, end: Callable[[], object], down_s: float) -> None:
        if not self.world.nodes[node].is_up:
            return
        end()
        self.people.node_is_gone(self.world.nodes[node])
        if down_s:
            join = next((step.join for step in self.plan.of(BeginStep) if step.node == node), ())
            self._later(down_s, lambda: self._start(node, join))


def _links(plan: Plan) -> LinkConfig:
    """The ways of a run: of one room, of one country, or round the world."""
    latency_ms = (0.5, 10.0, 80.0)[below(stream(plan.seed, _WAYS, 0, 0), 0, 3)]
    return LinkConfig(latency_ms=latency_ms, jitter_ms=latency_ms / 5, loss=plan.loss)


def _since(before: float | None, is_so: bool, now_s: float) -> float | None:
    """Since when something is so without a break."""
    if not is_so:
        return None
    return now_s if before is None else before


def run_plan(plan: Plan, tells: bool = False) -> Outcome:
    """Carry out a plan, and judge what became of it."""
    return PlanRun(plan, tells).run()
