"""Each judge sees what it is there for: a run in which nothing goes wrong is judged once more after something
in it was changed.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from vinecast.lab.campaign.history import LevelFacts, Opening, PublicationRecord, PublishedEvent, ReceiptFacts
from vinecast.lab.campaign.judges import judge
from vinecast.lab.campaign.plan import AnyStep, BeginStep, CrashStep, PeerPlan, Plan, PublishStep, ReadStep
from vinecast.lab.campaign.promises import Truth
from vinecast.lab.campaign.run import PlanRun

PLAN = Plan(
    1,
    "flooding",
    (PeerPlan(),) * 3,
    (
        BeginStep(0.1, 0, ()),
        BeginStep(0.2, 1, (0,)),
        BeginStep(0.3, 2, (0,)),
        ReadStep(1.0, 1, 0, "jobs", "earliest", "worker"),
        ReadStep(1.1, 2, 1, "jobs", "now"),
        PublishStep(18.0, 0, 0, "jobs", events=6),
        PublishStep(19.0, 0, 1, "jobs", durable=False),
    ),
)
Change = Callable[[Truth], object]


def made(plan: Plan) -> Truth:
    """How things stand after a run of a plan."""
    run = PlanRun(plan)
    run.run()
    return run.truth()


def reader(truth: Truth) -> Opening:
    return truth.history.openings[0]


def receipt(truth: Truth) -> ReceiptFacts:
    return truth.history.receipts[0]


def event(truth: Truth) -> PublishedEvent:
    return receipt(truth).event


def publication(truth: Truth) -> PublicationRecord:
    return truth.history.publications[0]


def put(what: Callable[[Truth], object], **values: object) -> Change:
    """Change these fields."""

    def change(truth: Truth) -> None:
        for name, value in values.items():
            setattr(what(truth), name, value)

    return change


def say_level(below: int, above: int) -> Change:
    return lambda truth: truth.history.level.append(LevelFacts(9.0, reader(truth), below, above, False))


def hand_nothing(number: int) -> Change:
    def change(truth: Truth) -> None:
        truth.history.openings[number].handed.clear()
        truth.history.openings[number].acknowledged.clear()

    return change


def acknowledge(truth: Truth) -> None:
    opening = reader(truth)
    opening.acknowledged[opening.handed[0][1].cid] = True
    again = replace(opening, life=opening.life + 1, handed=list(opening.handed), acknowledged={})
    truth.history.openings.append(again)


def swap(truth: Truth) -> None:
    handed = reader(truth).handed
    handed[2], handed[3] = handed[3], handed[2]


def hand_unsafe(truth: Truth) -> None:
    truth.history.unsafe.append((9.0, reader(truth), reader(truth).handed[0][1]))


CHANGES: dict[str, Change] = {
    "D1: acknowledged before it was safe here": put(receipt, own_is_safe=False),
    "D1: counts holders that do not hold": put(event, holders=3),
    "D1: counts holders without a disk": put(receipt, on_disk=0, in_memory=1),
    "D1: handed before it was safe here": hand_unsafe,
    "D2: too few holders where nothing is wrong": put(event, holders=0),
    "D3: said to be level and is not": say_level(0, 1),
    "D3: said to be level above a floor that nobody told": say_level(1, 0),
    "D4: an event that its node keeps is not handed over": hand_nothing(1),
    "D5: an event that its node keeps is not handed over": hand_nothing(0),
    "D5: acknowledged and handed again": acknowledge,
    "D5: handed twice to one reader": lambda truth: reader(truth).handed.append(reader(truth).handed[0]),
    "D6: handed before its parents": swap,
    "D7: a reader cannot go on": put(reader, failed="no"),
    "D13: a stream begins above all that was published": (
        lambda truth: truth.world.nodes[1].disk.set_floor("jobs", 99)
    ),
    "D13: handed what nobody published": lambda truth: truth.history.by_payload.clear(),
    "D13: publishing fails": put(publication, error="StreamError: no"),
    "L: publishing fails where nothing is wrong": put(publication, error="UnsafeError: no"),
    "L: a reader is never ready": put(reader, ready_s=None, opened_s=-99.0),
    "L: a reader is refused": put(reader, refused="StreamError: no"),
    "V: an event does not arrive": hand_nothing(1),
    "R: a peer raised": lambda truth: truth.history.raised.append((1.0, 1, "FrameCame: KeyError")),
    "S: an honest peer is shunned": lambda truth: truth.history.shunned.append((1.0, 1, 2)),
}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert judge(made(PLAN)).faults == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_judge_sees(name: str) -> None:
    truth = made(PLAN)
    CHANGES[name](truth)
    assert name in judge(truth).counts


def test_what_is_kept_and_acknowledged_is_not_gone() -> None:
    truth = made(replace(PLAN, kept_events=3))
    assert judge(truth).faults == []
    newest = truth.newest_acknowledged()["jobs"]
    assert len(newest) == 3
    truth.kept["jobs"].pop(newest[0].cid)
    assert set(judge(truth).counts) == {"D11: pushed out of a stream"}
    truth = made(PLAN)
    truth.kept["jobs"].pop(truth.history.receipts[0].event.cid)
    assert set(judge(truth).counts) == {"D1: acknowledged event is gone"}


@pytest.mark.parametrize(("at_s", "is_excused"), [(1.5, False), (17.0, True)])
def test_an_error_is_excused_by_what_goes_on(at_s: float, is_excused: bool) -> None:
    """A fault that was over long ago excuses no error of a publisher."""
    late = [replace(s, at_s=s.at_s + 60) if isinstance(s, PublishStep) else s for s in PLAN.steps]
    steps = sorted([*late, CrashStep(at_s + (60 if is_excused else 0), 2, 0.5)], key=lambda step: step.at_s)
    truth = made(replace(PLAN, steps=tuple(steps)))
    truth.history.publications[0].error = "OverloadedError: no room"
    assert ("L: publishing fails where nothing is wrong" in judge(truth).counts) is not is_excused


def test_what_retention_took_is_missed_by_nobody() -> None:
    """Nodes take it at moments of their own: who has taken it already lacks what another still has."""
    jobs = [(9.21, 2, 2, 1), (20.2, 0, 1, 1), (20.38, 2, 16, 3), (20.96, 2, 12, 20)]
    steps: tuple[AnyStep, ...] = (
        BeginStep(0.05, 2, (0,)),
        BeginStep(0.36, 0, (2,)),
        ReadStep(2.01, 2, 4, "jobs", "now"),
        BeginStep(15.34, 1, (2,)),
        *(PublishStep(at_s, node, number, "jobs", events, size=16) for at_s, node, number, events in jobs),
        ReadStep(22.31, 1, 0, "jobs", "earliest"),
    )
    plan = Plan(2981, "poldercast", (PeerPlan(),) * 3, steps, kept_events=24)
    truth = made(plan)
    assert judge(truth).faults == []
    assert max(facts.below + facts.above for facts in truth.history.level) == 0
