"""Making a plan smaller that still shows what it showed: fewer steps, fewer nodes, fewer events.

Steps are left out by halves, quarters, eighths … as long as the same fault is found (delta debugging), then
what is left is made simpler. Every try is a run, so there is a bound on how many.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from vinecast.lab.campaign.known import unexpected_in
from vinecast.lab.campaign.plan import AnyStep, BeginStep, PeerPlan, Plan, PublishStep, ReadStep
from vinecast.lab.campaign.run import run_plan

TRIES_MAX = 300
"""Runs that are made to find a smaller plan (ours)."""


def shrink(
    plan: Plan,
    fault: str,
    tries: int = TRIES_MAX,
    tell: Callable[[int, int], object] = lambda steps, tries: None,
) -> Plan:
    """The smallest plan that was found to show a fault of this name. ``tell`` is told how many steps are left
    and how many tries were made."""
    return _Shrinking(fault, tries, tell).shrink(plan)


class _Shrinking:
    def __init__(self, fault: str, tries: int, tell: Callable[[int, int], object]) -> None:
        self._fault, self._left, self._tell = fault, tries, tell
        self._tried = 0
        self._is_news = False

    def shrink(self, plan: Plan) -> Plan:
        """Leave out and simplify until neither helps. What was unexpected must stay so."""
        self._is_news = self._fault in unexpected_in(plan, run_plan(plan).judgement.faults)
        while True:
            smaller = self._simplify(self._leave_out(plan))
            if smaller == plan or self._tried >= self._left:
                return smaller
            plan = smaller

    def _shows(self, plan: Plan) -> bool:
        if self._tried >= self._left or not _hangs_together(plan):
            return False
        self._tried += 1
        faults = run_plan(plan).judgement.faults
        shows = self._fault in (
            unexpected_in(plan, faults) if self._is_news else {fault.name for fault in faults}
        )
        if shows:
            self._tell(len(plan.steps), self._tried)
        return shows

    def _leave_out(self, plan: Plan) -> Plan:
        size = max(1, len(plan.steps) // 2)
        while True:
            at = 0
            while at < len(plan.steps):
                fewer = replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
                if self._shows(fewer):
                    plan = fewer
                else:
                    at += size
            if size == 1:
                return plan
            size = max(1, size // 2)

    def _simplify(self, plan: Plan) -> Plan:
        for simpler in _simpler(plan):
            candidate = simpler(plan)
            if candidate != plan and self._shows(candidate):
                plan = candidate
        return plan


def _hangs_together(plan: Plan) -> bool:
    """Whether all nodes that come up were told of each other, at least by way of others: a network that fell
    apart before it began shows nothing."""
    begun = {step.node: step.join for step in plan.of(BeginStep)}
    together = set(list(begun)[:1])
    while True:
        more = {
            node
            for node, join in begun.items()
            if together.intersection(join) or any(node in begun[one] for one in together)
        }
        if more <= together:
            return len(together) == len(begun)
        together |= more


def _simpler(plan: Plan) -> Iterator[Callable[[Plan], Plan]]:
    """Ways to make a plan simpler, each of which can be tried alone."""
    yield lambda plan: replace(plan, kept_events=0)
    yield lambda plan: replace(plan, holders=1)
    for node in range(len(plan.nodes)):
        yield lambda plan, node=node: _with_node(plan, node, PeerPlan(hostile=plan.nodes[node].hostile))  # type: ignore[misc]
        yield lambda plan, node=node: _with_node(plan, node, PeerPlan())  # type: ignore[misc]
    for at, step in enumerate(plan.steps):
        for simple in _simpler_steps(step):
            yield lambda plan, at=at, simple=simple: _with_step(plan, at, simple)  # type: ignore[misc]


def _with_node(plan: Plan, node: int, simple: PeerPlan) -> Plan:
    return replace(plan, nodes=(*plan.nodes[:node], simple, *plan.nodes[node + 1 :]))


def _with_step(plan: Plan, at: int, simple: AnyStep) -> Plan:
    return replace(plan, steps=(*plan.steps[:at], simple, *plan.steps[at + 1 :]))


def _simpler_steps(step: AnyStep) -> list[AnyStep]:
    match step:
        case PublishStep():
            return [replace(step, events=1, size=16), replace(step, size=16)]
        case ReadStep():
            return [replace(step, take_s=0.0, until_s=0.0, consumer=""), replace(step, take_s=0.0)]
        case BeginStep(_, _, join) if len(join) > 1:
            return [replace(step, join=join[-1:])]
    return []
