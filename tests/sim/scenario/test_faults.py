"""Runs with faults: the same again from the same seed, and able to fail. Many seeds: claims PU-1 to PU-6."""

import pytest

from vinecast.core.events import Send
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.name_record import NameChecker
from vinecast.protocols.streams import StreamAck, StreamEffect, StreamsConfig
from vinecast.protocols.streams.intake import Intake
from vinecast.sim.scenario import faults
from vinecast.sim.scenario.faults import KINDS, FaultConfig, blackout
from vinecast.sim.scenario.faults_names import attacked_names
from vinecast.systems.durable.simulated import DurableConfig


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_and_the_same_happens_again(kind: str) -> None:
    first, second = (KINDS[kind](FaultConfig(), 3) for _ in range(2))
    assert first == second
    assert first.faults == []
    assert first.published == FaultConfig().events
    assert KINDS[kind](FaultConfig(), 4) != first


def test_a_hostile_node_is_refused_and_counted() -> None:
    counters = KINDS["hostile"](FaultConfig(), 1).counters
    for reason in (
        "durable.refused forged event",
        "durable.refused wrong bytes",
        "streams.refused wrong height",
        "streams.refused event that was not asked for",
        "streams.refused impossible heads",
        "durable.blamed",
    ):
        assert counters.get(reason, 0) > 0, reason


def test_an_owners_newest_record_is_found_whatever_others_store() -> None:
    outcome = attacked_names(2)
    assert outcome.faults == []
    assert outcome.looked_up == 8
    assert outcome.counters["kademlia.refused_values"] > 0
    assert outcome.counters["kademlia.refused_older"] > 0


def test_records_that_nobody_checks_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NameChecker, "check", lambda self, key, value, now_us: True)
    monkeypatch.setattr(NameChecker, "until_us", lambda self, value: 1 << 62)
    monkeypatch.setattr(NameChecker, "select", lambda self, values: len(values) - 1)
    assert any(attacked_names(seed).faults for seed in range(3))


def test_without_repair_streams_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    without = DurableConfig(
        streams=StreamsConfig(period_s=3600.0), poldercast=faults.durable_config().poldercast
    )
    monkeypatch.setattr(faults, "durable_config", lambda: without)
    outcome = KINDS["loss and restarts"](FaultConfig(patience_s=5.0), 3)
    assert "the streams did not become equal in time" in outcome.faults


def test_events_that_do_not_wait_for_their_parents_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Intake, "_missed", lambda self, waiting, unknown, topic: [])
    outcomes = [KINDS["loss and restarts"](FaultConfig(patience_s=5.0), seed) for seed in range(3)]
    assert any("before its parents" in fault for outcome in outcomes for fault in outcome.faults)


def test_acknowledging_what_is_not_safe_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Intake.take

    def hasty(
        self: Intake, signed: SignedEvent, sender: int, ack: bool, judged: bool = True
    ) -> list[StreamEffect]:
        told: list[StreamEffect] = [Send(sender, StreamAck((signed.cid,)))] if ack else []
        return told + take(self, signed, sender, False, judged)

    slow = DurableConfig(commit_s=1.5, poldercast=faults.durable_config().poldercast)
    monkeypatch.setattr(faults, "durable_config", lambda: slow)
    assert not any(blackout(FaultConfig(), seed).faults for seed in range(3))
    monkeypatch.setattr(Intake, "take", hasty)
    outcomes = [blackout(FaultConfig(patience_s=5.0), seed) for seed in range(3)]
    assert any("nodes acknowledged" in fault for outcome in outcomes for fault in outcome.faults)
