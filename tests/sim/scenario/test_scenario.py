"""Scenarios: whatever is wrong with one is said in one sentence that names the key."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.scenarios import BASE, EVENT, TOPICS, fault, network, reason
from vinecast.sim.scenario.scenario import resolve
from vinecast.systems.cyclon import row as cyclon_row
from vinecast.systems.registry import SYSTEMS


def test_the_smallest_scenario() -> None:
    scenario = resolve(BASE, Path()).scenario
    assert (scenario.name, scenario.seed, scenario.nodes, scenario.cycles) == ("t", 1, 40, 10)
    assert (scenario.system, scenario.engine) == ("cyclon", "sweep")
    assert scenario.population == 40


@pytest.mark.parametrize("key", BASE)
def test_a_missing_key(key: str) -> None:
    assert reason({k: v for k, v in BASE.items() if k != key}) == f"{key} is missing"


@pytest.mark.parametrize("key", ["at_cycle", "kind"])
def test_a_missing_key_of_a_fault(key: str) -> None:
    table = {"at_cycle": 1, "kind": "crash", "count": 1}
    del table[key]
    assert reason(fault(**table)) == f"faults[0].{key} is missing"


@pytest.mark.parametrize(
    ("tables", "key", "meant"),
    [
        ({**BASE, "node": 3}, "node", "nodes"),
        ({**BASE, "sytem": "cyclon"}, "sytem", "system"),
        ({**BASE, "fault": []}, "fault", "faults"),
        ({**BASE, "start": {"contact": 3}}, "start.contact", "contacts"),
        ({**BASE, "sweep": {"settings": "sequential"}}, "sweep.settings", "setting"),
        ({**BASE, "measure": {"evry": 3}}, "measure.evry", "every"),
        ({**BASE, "churn": {"keepstate": True}}, "churn.keepstate", "keep_state"),
        ({**BASE, "cyclon": {"viewsize": 3}}, "cyclon.viewsize", "view_size"),
        ({**EVENT, "event": {"timer": "spread"}}, "event.timer", "timers"),
        (fault(at_cycle=1, kind="crash", counts=3), "faults[0].counts", "count"),
        (network(latency_max=3), "network.latency_max", "latency_ms_max"),
        (network(partitions=[{"form_s": 3, "to_s": 4}]), "network.partitions[0].form_s", "from_s"),
    ],
)
def test_an_unknown_key_and_what_was_meant(tables: dict[str, Any], key: str, meant: str) -> None:
    assert reason(tables) == f"unknown key {key} (did you mean {meant}?)"


def test_an_unknown_key_like_no_other() -> None:
    text = reason({**BASE, "cyclon": {"xyzzy": 3}})
    assert text == "unknown key cyclon.xyzzy (known here: view_size, gossip_size, period_s)"


def test_a_system_can_be_misspelt() -> None:
    assert "did you mean cyclon?" in reason({**BASE, "cyclonn": {"view_size": 3}})


INTEGERS = ["seed", "nodes", "cycles", "start.contacts", "start.join_contacts", "measure.every"]
INTEGERS += ["measure.clustering_sample", "measure.path_sources", "cyclon.view_size", "cyclon.gossip_size"]
NUMBERS = ["churn.mean_on_s", "churn.mean_off_s", "cyclon.period_s"]
TEXTS = ["name", "system", "engine", "description", "sweep.setting", "churn.kind", "churn.trace"]
TABLES = ["start", "sweep", "churn", "measure", "cyclon"]


def with_value(path: str, value: object, base: Mapping[str, Any] = BASE) -> dict[str, Any]:
    table, _, key = path.rpartition(".")
    return {**base, table: {key: value}} if table else {**base, key: value}


WRONG_TYPES = [
    *((path, value, "a whole number") for path in INTEGERS for value in (1.5, "3", True, [3], {"a": 1})),
    *((path, value, "a number") for path in NUMBERS for value in ("3", False, [3], {"a": 1})),
    *((path, value, "a string") for path in TEXTS for value in (3, 1.5, True, ["a"], {"a": 1})),
    *((path, value, "a table") for path in TABLES for value in (3, "a", True, [3])),
    ("churn.keep_state", 1, "true or false"),
    ("churn.keep_state", "yes", "true or false"),
    ("faults", {"at_cycle": 1}, "a list"),
    ("faults", 3, "a list"),
]


@pytest.mark.parametrize(("path", "value", "wanted"), WRONG_TYPES)
def test_a_wrong_type(path: str, value: object, wanted: str) -> None:
    assert reason(with_value(path, value)).startswith(f"{path} must be {wanted}, not ")


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("event.timers", 3, "a string"),
        ("event.records", 1, "true or false"),
        ("event.clock_offset_ms", "1", "a number"),
        ("event.clock_drift_ppm", [], "a number"),
        ("network.latency", 1, "a string"),
        ("network.latency_ms", "1", "a number"),
        ("network.latency_ms_max", True, "a number"),
        ("network.matrix", 1, "a string"),
        ("network.loss", "0", "a number"),
        ("network.partitions", {"from_s": 1}, "a list"),
        ("network", [], "a table"),
        ("event", "spread", "a table"),
    ],
)
def test_a_wrong_type_for_the_event_engine(path: str, value: object, wanted: str) -> None:
    assert reason(with_value(path, value, EVENT)).startswith(f"{path} must be {wanted}, not ")


def test_a_wrong_type_in_a_list() -> None:
    assert reason({**BASE, "faults": [3]}) == "faults[0] must be a table, not a whole number"
    text = reason(network(partitions=[{"from_s": 1, "to_s": 2}, {"from_s": "1", "to_s": 2}]))
    assert text == "network.partitions[1].from_s must be a number, not a string"


@pytest.mark.parametrize(
    ("path", "value", "limit"),
    [
        ("seed", -1, "at least 0"),
        ("seed", 2**63, "at most 9223372036854775807"),
        ("nodes", 1, "at least 2"),
        ("nodes", 2**31, "at most 2147483646"),
        ("cycles", 0, "at least 1"),
        ("system", "gossip", 'one of "cyclon"'),
        ("engine", "warp", 'one of "sweep", "event"'),
        ("start.contacts", 0, "at least 1"),
        ("start.contacts", 1001, "at most 1000"),
        ("start.join_contacts", 0, "at least 1"),
        ("sweep.setting", "random", 'one of "sequential", "synchronous"'),
        ("churn.kind", "weibull", 'one of "none", "onoff", "trace"'),
        ("churn.mean_on_s", 0, "greater than 0"),
        ("churn.mean_off_s", -1.5, "greater than 0"),
        ("churn.mean_on_s", float("inf"), "a finite number"),
        ("churn.mean_on_s", float("nan"), "a finite number"),
        ("measure.every", 0, "at least 1"),
        ("measure.clustering_sample", -1, "at least 0"),
        ("measure.path_sources", -1, "at least 0"),
        ("cyclon.view_size", 0, "at least 1"),
        ("cyclon.view_size", 1001, "at most 1000"),
        ("cyclon.gossip_size", 0, "at least 1"),
        ("cyclon.period_s", 0, "at least 0.001"),
        ("cyclon.period_s", float("nan"), "a finite number"),
        ("cyclon.period_s", 90_000, "at most 86400"),
    ],
)
def test_an_impossible_value(path: str, value: object, limit: str) -> None:
    assert reason(with_value(path, value)).startswith(f"{path} must be {limit}")


@pytest.mark.parametrize(
    ("path", "value", "limit"),
    [
        ("event.timers", "free", 'one of "spread", "synchronised"'),
        ("event.clock_offset_ms", -1, "at least 0"),
        ("event.clock_drift_ppm", 100_001, "at most 100000"),
        ("network.latency", "normal", 'one of "constant", "sampled", "matrix"'),
        ("network.latency_ms", -1, "at least 0"),
        ("network.latency_ms_max", 1e9, "at most 3600000"),
        ("network.loss", 1.01, "at most 1"),
        ("network.duplication", -0.1, "at least 0"),
        ("network.reordering", 2, "at most 1"),
        ("network.reordering_ms", -2, "at least 0"),
    ],
)
def test_an_impossible_value_for_the_event_engine(path: str, value: object, limit: str) -> None:
    assert reason(with_value(path, value, EVENT)).startswith(f"{path} must be {limit}")


@pytest.mark.parametrize(
    ("table", "start"),
    [
        ({"at_cycle": -1, "kind": "crash", "count": 1}, "faults[0].at_cycle must be at least 0"),
        ({"at_cycle": 1, "kind": "explode", "count": 1}, "faults[0].kind must be one of "),
        ({"at_cycle": 1, "kind": "crash", "count": -1}, "faults[0].count must be at least 0"),
        ({"at_cycle": 1, "kind": "crash", "share": 1.5}, "faults[0].share must be at most 1"),
        ({"at_cycle": 1, "kind": "crash", "share": 1, "count": 1}, "faults[0]: give either share or count"),
        ({"at_cycle": 1, "kind": "crash"}, "faults[0]: give either share or count"),
        ({"at_cycle": 1, "kind": "join", "share": 0.5}, "faults[0]: a join needs count"),
        ({"at_cycle": 10, "kind": "crash", "count": 1}, "a fault at cycle 10 never happens in 10 cycles"),
    ],
)
def test_an_impossible_fault(table: dict[str, Any], start: str) -> None:
    assert reason(fault(**table)).startswith(start)


def test_the_fault_at_fault_is_numbered() -> None:
    good = {"at_cycle": 1, "kind": "crash", "count": 1}
    assert reason({**BASE, "faults": [good, {**good, "kind": "join", "count": "x"}]}).startswith(
        "faults[1].count must be a whole number"
    )


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (
            {**fault(at_cycle=1, kind="crash", count=1), "churn": {"kind": "onoff"}},
            ["faults", "churn", "cannot be combined"],
        ),
        ({**BASE, "network": {"loss": 0.1}}, ["network", 'engine = "event"']),
        ({**BASE, "network": {}}, ["network", 'engine = "event"']),
        ({**BASE, "event": {"records": False}}, ["event", 'engine = "event"']),
        ({**EVENT, "sweep": {"setting": "sequential"}}, ["sweep", 'engine = "sweep"']),
        (network(latency="sampled"), ["network", "latency_ms_max"]),
        (network(latency="sampled", latency_ms=9, latency_ms_max=8), ["network", "latency_ms_max"]),
        (network(latency="matrix"), ["network", "matrix"]),
        (network(matrix="m.txt"), ["network", "matrix"]),
        (network(partitions=[{"from_s": 2, "to_s": 2}]), ["network.partitions[0]", "to_s", "from_s"]),
        ({**BASE, "churn": {"kind": "trace"}}, ["churn", "trace"]),
        ({**BASE, "churn": {"kind": "onoff", "trace": "x.avt"}}, ["churn", "trace"]),
        (
            {**BASE, "cyclon": {"view_size": 5, "gossip_size": 6}},
            ["cyclon", "gossip_size (6)", "view_size (5)"],
        ),
        ({**BASE, "cyclon": {"view_size": 5}}, ["cyclon", "gossip_size (10)", "view_size (5)"]),
        ({**BASE, "name": ""}, ["name"]),
        ({**BASE, "name": ".."}, ["name"]),
        ({**BASE, "name": "a/b"}, ["name"]),
        ({**BASE, "name": ".hidden"}, ["name"]),
    ],
)
def test_what_does_not_go_together(tables: dict[str, Any], words: list[str]) -> None:
    text = reason(tables)
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("name", ["a\0b", "x" * 300], ids=["NUL", "long"])
def test_a_name_must_do_for_a_folder(name: str) -> None:
    assert "name" in reason({**BASE, "name": name})


def test_newcomers_count_as_nodes() -> None:
    assert "faults must not let more than" in reason(fault(at_cycle=1, kind="join", count=10**20))


def test_a_number_beyond_all_numbers() -> None:
    assert "cyclon.period_s" in reason({**BASE, "cyclon": {"period_s": 10**400}})


@pytest.mark.parametrize(
    "tables", [{**BASE, "a\nb": 1}, {**BASE, "engine": "a\nb"}, {**BASE, "start": {"a\nb": 1}}]
)
def test_a_line_break_does_not_break_the_sentence(tables: dict[str, Any]) -> None:
    reason(tables)


def test_a_sweep_is_only_for_systems_that_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cyclon_row, "ROW", dataclasses.replace(SYSTEMS["cyclon"], sweep_of=""))
    assert reason(BASE) == 'engine = "sweep" is not offered by cyclon; use engine = "event"'
    assert resolve(EVENT, Path()).scenario.engine == "event"


# Systems with topics.


@pytest.mark.parametrize("table", [{"workload": {"kind": "synthetic"}}, {"workload": {}}, {"publish": {}}])
@pytest.mark.parametrize("base", [BASE, EVENT], ids=["sweep", "event"])
def test_tables_of_topics_need_topics(base: Mapping[str, Any], table: dict[str, Any]) -> None:
    name = next(iter(table))
    expected = f"{name} goes with a system that has topics, and cyclon has none"
    assert reason({**base, **table}) == expected
    assert not set(resolve(base, Path()).table()) & {"workload", "publish"}


def test_the_setting_of_a_system_that_has_but_one() -> None:
    assert resolve(TOPICS, Path()).scenario.sweep.setting == "synchronous"
    assert resolve({**TOPICS, "sweep": {}}, Path()).table()["sweep"] == {"setting": "synchronous"}
    text = reason({**TOPICS, "sweep": {"setting": "sequential"}})
    assert text == 'sweep.setting = "sequential" is not offered by poldercast; use "synchronous"'


@pytest.mark.parametrize(
    ("table", "start"),
    [
        ({"workload": {"kind": "mspace"}}, 'workload.kind must be one of "facebook", '),
        ({"workload": {"kind": 3}}, "workload.kind must be a string"),
        ({"workload": "facebook"}, "workload must be a table"),
        ({"workload": {"nodes": 3}}, "unknown key workload.nodes"),
        ({"publish": {"every": 0}}, "publish.every must be at least 1"),
        ({"publish": {"evry": 1}}, "unknown key publish.evry (did you mean every?)"),
        ({"poldercast": {"fanout": 0}}, "poldercast.fanout must be at least 1"),
        ({"poldercast": {"rings": {"gossip": 3}}}, "unknown key poldercast.rings.gossip"),
        ({"sweep": 3}, "sweep must be a table"),
    ],
)
def test_what_is_wrong_with_topics(table: dict[str, Any], start: str) -> None:
    assert reason({**TOPICS, **table}).startswith(start)


def test_the_table_of_another_system() -> None:
    assert reason({**TOPICS, "cyclon": {"view_size": 3}}) == 'cyclon goes with system = "cyclon"'
    assert reason({**BASE, "poldercast": {}}) == 'poldercast goes with system = "poldercast"'
