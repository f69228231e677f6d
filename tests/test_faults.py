"""Runs with faults: the same again from the same seed, and able to fail. Many seeds: claims PU-1 to PU-6."""

import pytest

from vinecast.protocols.streams import StreamsConfig
from vinecast.protocols.streams.intake import Intake
from vinecast.sim import faults
from vinecast.sim.faults import KINDS, FaultConfig
from vinecast.systems.durable_simulated import DurableConfig


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
