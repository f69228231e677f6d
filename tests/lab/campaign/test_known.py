"""Known failures are shown by their seeds as long as they are listed, and expected nowhere else."""

from dataclasses import replace

import pytest

from vinecast.lab.campaign.campaign import result_of
from vinecast.lab.campaign.draw import draw_plan
from vinecast.lab.campaign.known import (
    ABSENT,
    KNOWN,
    Condition,
    KnownFailure,
    consumer_may_die,
    has_damage,
    has_it_in_part,
    has_memory,
    lies,
    reads_back_after_crash,
    reads_now_by_wrong_clocks,
    shares_a_stream,
    unexpected_in,
)
from vinecast.lab.campaign.plan import CrashStep, FlipStep, PeerPlan, Plan, ReadStep
from vinecast.lab.campaign.promises import BrokenPromise


@pytest.mark.parametrize("failure", KNOWN, ids=lambda one: one.name)
def test_a_seed_shows_what_is_known_to_be_broken(failure: KnownFailure) -> None:
    assert failure.seeds, "what no seed shows is not known"
    result = result_of(failure.seeds[0])
    assert failure.name in result.counts, "mended? then take it off the list: it only gets shorter"
    assert failure.name not in result.unexpected, "its condition must hold where it shows"


@pytest.mark.parametrize("seed", [1069, 1182, 1343, 2981, 4867, 5209, 5381, 5804, 6083, 6419, 6687])
def test_a_seed_that_was_looked_into_shows_nothing_new(seed: int) -> None:
    """Campaigns found them: a lie that breaks more than was known, faults of the judges, a known cause."""
    assert result_of(seed).unexpected == []


def test_what_is_not_listed_is_unexpected() -> None:
    raised = BrokenPromise("R", "a peer raised", "node 1", node=1)
    assert unexpected_in(draw_plan(1), [raised]) == ["R: a peer raised"]
    names = [failure.name for failure in KNOWN]
    assert len(set(names)) == len(names)
    promises = {f"D{number}" for number in range(1, 14)}
    assert {name.partition(": ")[0] for name in names} <= promises | {"V", "L", "R", "S"}
    assert set(ABSENT) <= promises


SHARED = Plan(
    1,
    "poldercast",
    (PeerPlan(), PeerPlan()),
    (
        ReadStep(1.0, 0, 0, "jobs", "now", "worker"),
        ReadStep(1.0, 0, 1, "jobs", "earliest"),
        ReadStep(1.0, 1, 2, "jobs", "now"),
        ReadStep(1.0, 1, 3, "news/now", "earliest"),
        CrashStep(9.0, 1, 1.0),
        FlipStep(9.0, 1, 0),
    ),
)


@pytest.mark.parametrize(
    ("condition", "readers"),
    [
        (shares_a_stream, {0}),
        (consumer_may_die, set()),
        (reads_back_after_crash, {3}),
        (has_damage, {2, 3}),
        (reads_now_by_wrong_clocks, set()),
        (has_memory, set()),
        (has_it_in_part, {1}),
    ],
)
def test_what_is_known_of_one_reader_is_not_of_another(condition: Condition, readers: set[int]) -> None:
    reads: list[ReadStep] = SHARED.of(ReadStep)
    faults = [BrokenPromise("D4", "lost", "", read.node, read.topic, read.reader) for read in reads]
    assert {fault.reader for fault in faults if condition(SHARED, fault)} == readers


def test_conditions_hold_where_their_cause_is() -> None:
    fault = BrokenPromise("D5", "lost", "", 0, "jobs", 0)
    dies = replace(SHARED, steps=(*SHARED.steps, CrashStep(9.0, 0, 1.0)))
    assert consumer_may_die(dies, fault)
    late = replace(SHARED, nodes=(PeerPlan(), PeerPlan(ahead_s=30.0)))
    assert reads_now_by_wrong_clocks(late, fault)
    assert not reads_now_by_wrong_clocks(late, replace(fault, reader=1))
    assert has_memory(replace(SHARED, nodes=(PeerPlan(memory=True), PeerPlan())), fault)
    lying = replace(SHARED, nodes=(PeerPlan(), PeerPlan(hostile=("heads that are none",))))
    assert lies("D3")(lying, fault)
    assert not lies("D1")(lying, fault)
