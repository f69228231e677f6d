"""Name records under attack, on whole peers."""

import pytest

from vinecast.core.log.name_record import NameChecker
from vinecast.lab.campaign.name_runs import run_names


def test_an_owners_newest_record_is_found_whatever_others_store() -> None:
    outcome = run_names(2)
    assert outcome.faults == []
    assert outcome.looked_up == 8
    assert outcome.counters["kademlia.refused_values"] > 0
    assert outcome.counters["kademlia.refused_older"] > 0
    assert run_names(2) == outcome


def test_records_that_nobody_checks_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NameChecker, "check", lambda self, key, value, now_us: True)
    monkeypatch.setattr(NameChecker, "until_us", lambda self, value: 1 << 62)
    monkeypatch.setattr(NameChecker, "select", lambda self, values: len(values) - 1)
    assert any("found another record" in fault for seed in range(3) for fault in run_names(seed).faults)
