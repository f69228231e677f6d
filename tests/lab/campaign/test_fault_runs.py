"""Runs under one kind of faults: the same again from the same seed, and able to fail.

Many seeds: claims PU-1 to PU-6.
"""

from dataclasses import replace
from typing import Any

import pytest

from vinecast.core.events import Send
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.lab.campaign import fault_plans, fault_runs, run
from vinecast.lab.campaign.fault_plans import FAULT_PLANS, HOLDERS, FaultSize
from vinecast.lab.campaign.fault_runs import BESIDES, run_faults
from vinecast.lab.campaign.judges import judge
from vinecast.lab.campaign.plan import FAULTS, StrikeStep
from vinecast.lab.campaign.promises import Judgement, Truth
from vinecast.lab.campaign.run import PlanRun
from vinecast.lab.claims.pulsarcast.claims import NAMES_REFUSED, REFUSED
from vinecast.lab.claims.pulsarcast.runs import CARRIERS
from vinecast.protocols.streams import StreamAck, StreamEffect
from vinecast.protocols.streams.intake import Intake
from vinecast.protocols.streams.seeking import Seeking

SIZE = FaultSize()


def of_seed(kind: str, seed: int) -> fault_runs.FaultOutcome:
    return run_faults(kind, SIZE, seed, CARRIERS[seed % len(CARRIERS)])


@pytest.mark.parametrize("kind", FAULT_PLANS)
def test_nothing_is_lost_and_the_same_happens_again(kind: str) -> None:
    first, second, other = of_seed(kind, 3), of_seed(kind, 3), of_seed(kind, 4)
    assert first == second
    assert first != other
    assert first.faults == other.faults == []
    assert first.published > SIZE.events / 2


@pytest.mark.parametrize("kind", FAULT_PLANS)
def test_plans_are_of_their_kind(kind: str) -> None:
    plan = FAULT_PLANS[kind](SIZE, 1, "poldercast")
    assert plan == FAULT_PLANS[kind](SIZE, 1, "poldercast")
    assert list(plan.steps) == sorted(plan.steps, key=lambda step: step.at_s)
    wrong = bool(plan.of(*FAULTS)) or plan.loss > 0 or plan.honest != list(range(SIZE.nodes))
    assert wrong == (kind != "calm")


def test_the_publisher_and_all_holders_but_one_die_at_the_receipt() -> None:
    plan = FAULT_PLANS["deaths"](SIZE, 3, "poldercast")
    struck_run = PlanRun(plan, watch=fault_runs.WATCH)
    outcome = struck_run.run()
    gone = {node.number for node in struck_run.world.nodes if not node.is_up}
    struck = next(facts for facts in outcome.history.receipts if facts.event.holders >= HOLDERS)
    publisher = struck.event.publication.step.node
    assert publisher in gone
    assert len(gone) == HOLDERS
    assert gone < {publisher, *struck.who}
    assert outcome.judgement.faults == []


def test_a_run_in_which_nobody_could_be_struck_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_reach(size: FaultSize, seed: int, system: str) -> Any:
        plan = FAULT_PLANS["calm"](size, seed, system)
        return replace(plan, steps=(*plan.steps, StrikeStep(SIZE.end_s, SIZE.nodes)))

    monkeypatch.setitem(FAULT_PLANS, "too many", out_of_reach)
    assert of_seed("too many", 3).faults == [
        "no event was acknowledged by as many nodes as there are replicas"
    ]


def test_hostile_nodes_are_refused_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    forging = (
        "stream events in another's name",
        "events under another topic",
        "parents that never existed",
        "wrong heights",
        "heads that are none",
        "answers nobody asked for",
    )
    monkeypatch.setattr(fault_plans, "FORGERIES", forging)
    monkeypatch.setattr(fault_plans, "LIES", len(forging))
    outcome = of_seed("hostile", 1)
    assert outcome.faults == []
    for reason in {*REFUSED} - {*NAMES_REFUSED}:
        assert outcome.counters.get(reason, 0) > 0, reason


def test_what_is_known_is_told_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    def finding(truth: Truth) -> Judgement:
        found = judge(truth)
        for name in (*BESIDES, *BESIDES, "L: something else"):
            promise, kind = name.split(": ")
            found.note(promise, kind, "somewhere")
        return found

    monkeypatch.setattr(run, "judge", finding)
    outcome = of_seed("calm", 1)
    assert outcome.faults == ["L: something else: somewhere"]
    assert outcome.besides == dict.fromkeys(BESIDES, 2)


# Runs that must fail.


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_runs, "WATCH", replace(fault_runs.WATCH, patience_s=20.0))


@pytest.mark.usefixtures("impatient")
def test_where_nobody_asks_for_what_it_lacks_streams_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seeking, "ask", lambda self, now_us: [])
    faults = [fault for seed in range(2) for fault in of_seed("absence", seed).faults]
    assert any(" lacks " in fault for fault in faults)
    assert any("differ in" in fault for fault in faults)


@pytest.mark.usefixtures("impatient")
def test_events_that_do_not_wait_for_their_parents_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Intake, "_missed", lambda self, waiting, unknown, topic: [])
    faults = [fault for seed in range(3) for fault in of_seed("loss and restarts", seed).faults]
    assert any("handed before its parents" in fault for fault in faults)


@pytest.mark.usefixtures("impatient")
def test_acknowledging_what_is_not_safe_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Intake.take

    def hasty(
        self: Intake, signed: SignedEvent, sender: int, ack: bool, judged: bool = True
    ) -> list[StreamEffect]:
        told: list[StreamEffect] = [Send(sender, StreamAck((signed.cid,)))] if ack else []
        return told + take(self, signed, sender, False, judged)

    monkeypatch.setattr(Intake, "take", hasty)
    faults = [fault for seed in range(3) for fault in of_seed("blackout", seed).faults]
    assert any(fault.startswith("D1: counts holders that do not hold") for fault in faults)
