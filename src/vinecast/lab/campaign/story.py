"""The story of a run: what happened, told so that a person can follow it."""

from collections.abc import Iterator

from vinecast.lab.campaign.plan import BeginStep, Plan
from vinecast.lab.campaign.promises import name_of
from vinecast.lab.campaign.run import Outcome, PlanRun


def tell_story(plan: Plan) -> str:
    """Carry out a plan once more, and tell what happens and what was broken."""
    run = PlanRun(plan, tells=True)
    return "\n".join(_lines(run, run.run()))


def _lines(run: PlanRun, outcome: Outcome) -> Iterator[str]:
    plan = outcome.plan
    begun = {step.node for step in plan.of(BeginStep)}
    yield f"Seed {plan.seed}, {plan.system}, {len(begun)} nodes, receipts wait for {plan.holders} others" + (
        f", streams keep {plan.kept_events} events" if plan.kept_events else ""
    )
    for number, node in enumerate(plan.nodes):
        if number in begun:
            said = [
                *(["has no disk"] if node.memory else []),
                *([f"has a clock {node.ahead_s:+g} s"] if node.ahead_s else []),
                *([f"is hostile: {', '.join(node.hostile)}"] if node.hostile else []),
            ]
            if said:
                yield f"Node {number} {', and '.join(said)}."
    yield ""
    yield from outcome.story
    yield ""
    yield from _ends(run, outcome)
    for fault in outcome.judgement.faults:
        yield f"BROKEN  {fault.name}: {fault.text}"
    if not outcome.judgement.faults:
        yield "Nothing was broken."


def _ends(run: PlanRun, outcome: Outcome) -> Iterator[str]:
    """How things stand in the end, as far as something is missing."""
    truth = run.truth()
    for opening in truth.openings():
        missing = truth.missing(opening)
        read = opening.read
        if missing:
            who = f"Reader {read.reader} of {read.topic} on node {read.node}"
            yield f"{who} was handed {len(opening.handed)} events."
        for cid in sorted(missing)[:4]:
            event = truth.event_of.get(cid)
            keep = [node.number for node in truth.there if node.disk.position_of(cid)]
            by = "" if event is None else f", publication {event.publication.step.number}"
            yield f"    It lacks {name_of(cid)}{by}; nodes {keep} keep it."
    if outcome.history.raised:
        yield f"{len(outcome.history.raised)} exceptions came out of peers."
