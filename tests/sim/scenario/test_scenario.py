"""Scenarios: whatever is wrong with one is said in one sentence that names the key; a good one reads back."""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from support.paths import SCENARIOS
from vinecast.core.config import as_table, read
from vinecast.core.errors import InputError
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import Resolved, Scenario, read_scenario, resolve
from vinecast.sim.workload.sample import FILES
from vinecast.systems.registry import SYSTEMS

SHIPPED = sorted(SCENARIOS.glob("*.toml"))
BASE: Mapping[str, Any] = {"name": "t", "seed": 1, "nodes": 40, "cycles": 10}
EVENT: Mapping[str, Any] = {**BASE, "engine": "event"}
TOPICS: Mapping[str, Any] = {**BASE, "system": "poldercast"}


def reason(tables: Mapping[str, Any]) -> str:
    """Why a scenario is refused: one sentence."""
    with pytest.raises(InputError) as caught:
        resolve(tables, Path())
    return one_sentence(str(caught.value))


def one_sentence(text: str) -> str:
    assert text
    assert "\n" not in text
    assert not text.endswith(".")
    assert "Traceback" not in text
    return text


def fault(**table: Any) -> dict[str, Any]:
    return {**BASE, "faults": [table]}


def network(**table: Any) -> dict[str, Any]:
    return {**EVENT, "network": table}


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
    monkeypatch.setitem(SYSTEMS, "cyclon", dataclasses.replace(SYSTEMS["cyclon"], sweep=None))
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


# Files.


def reason_of(path: Path, overrides: Mapping[str, Any] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_scenario(path, overrides)
    text = one_sentence(str(caught.value))
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_a_missing_file(tmp_path: Path) -> None:
    assert reason_of(tmp_path / "nothing.toml") == "no such file"


def test_a_folder_is_no_scenario(tmp_path: Path) -> None:
    assert reason_of(tmp_path) == "cannot be read (Is a directory)"


@pytest.mark.parametrize("content", [b"\xff\xfe", b'name = "\xe9"', b"\x80"])
def test_not_utf_8(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.toml").write_bytes(content)
    assert reason_of(tmp_path / "s.toml") == "not UTF-8 text"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("name =", 1),
        ("a = 1\na = 2", 2),
        ("seed = 1\nnodes = 01", 2),
        ('name = "x', 1),
        ("[start\ncontacts = 1", 1),
        ("[[faults]]\n[faults]", 2),
        ("x = [1, 2", 1),
        ("\N{BYTE ORDER MARK}seed = 1", 1),
    ],
)
def test_not_toml(tmp_path: Path, content: str, line: int) -> None:
    (tmp_path / "s.toml").write_text(content, encoding="utf-8")
    text = reason_of(tmp_path / "s.toml")
    assert text.startswith("not valid TOML: ")
    assert f"line {line}," in text or "end of document" in text


@pytest.mark.parametrize(
    "content", ["seed = " + "1" * 5000, "seed = " + "[" * 5000], ids=["digits", "brackets"]
)
def test_toml_that_goes_on_and_on(tmp_path: Path, content: str) -> None:
    (tmp_path / "s.toml").write_text(content, encoding="utf-8")
    reason_of(tmp_path / "s.toml")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "s.toml").touch()
    assert reason_of(tmp_path / "s.toml") == "name is missing"


def test_a_wrong_key_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(tomli_w.dumps({**BASE, "nodse": 1}), encoding="utf-8")
    assert reason_of(tmp_path / "s.toml") == "unknown key nodse (did you mean nodes?)"


def test_overrides_replace_keys_and_are_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(tomli_w.dumps(BASE), encoding="utf-8")
    assert read_scenario(path, {"seed": 5}).scenario.seed == 5
    assert read_scenario(path, {}).scenario.seed == 1
    assert read_scenario(path).folder == tmp_path
    assert reason_of(path, {"seed": -1}) == "seed must be at least 0, not -1"


def test_dates_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('name = "t"\nseed = 2024-01-01\nnodes = 4\ncycles = 1\n', encoding="utf-8")
    assert reason_of(path).startswith("seed must be a whole number, not ")


# The resolved scenario is a scenario, and the same one.


def read_back(resolved: Resolved) -> Resolved:
    return resolve(tomllib.loads(tomli_w.dumps(resolved.table())), resolved.folder)


VALID: list[dict[str, Any]] = [
    {**BASE},
    {**EVENT},
    {**BASE, "name": 'ü "x" \\', "description": "two\nlines [and] a \t tab", "seed": 2**63 - 1},
    {**BASE, "sweep": {"setting": "synchronous"}, "cyclon": {"view_size": 1, "gossip_size": 1}},
    {**EVENT, "event": {"timers": "synchronised", "records": False, "clock_drift_ppm": 1e-7}},
    network(latency="sampled", latency_ms=1, latency_ms_max=2.5, loss=1, duplication=0.1, reordering=0.3),
    network(latency="matrix", matrix="m.txt", partitions=[{"from_s": 1, "to_s": 2}] * 2),
    {**BASE, "churn": {"kind": "onoff", "mean_on_s": 1e-3, "mean_off_s": 1e6, "keep_state": False}},
    {**BASE, "churn": {"kind": "trace", "trace": "x.avt.gz"}},
    {**TOPICS},
    {**TOPICS, "engine": "event", "workload": {"kind": "facebook"}, "publish": {"every": 7}},
    {**TOPICS, "sweep": {"setting": "synchronous"}, "poldercast": {"fanout": 3, "rings": {"gossip_size": 4}}},
    {
        **BASE,
        "faults": [
            {"at_cycle": 0, "kind": "crash", "share": 0},
            {"at_cycle": 1, "kind": "join", "count": 5},
            {"at_cycle": 9, "kind": "restart", "share": 1, "keep_state": False},
            {"at_cycle": 9, "kind": "leave", "count": 0},
        ],
        "measure": {"every": 3, "clustering_sample": 5, "path_sources": 2},
    },
]


@pytest.mark.parametrize("tables", VALID)
def test_the_resolved_scenario_reads_back(tables: dict[str, Any]) -> None:
    resolved = resolve(tables, Path("somewhere"))
    again = read_back(resolved)
    assert again == resolved
    assert tomli_w.dumps(again.table()) == tomli_w.dumps(resolved.table())


small = st.integers(1, 1000)
share = st.floats(0, 1)
positive = st.floats(0.001, 1e6)


@given(
    seed=st.integers(0, 2**63 - 1),
    nodes=st.integers(2, 2**31 - 2),
    text=st.text(),
    contacts=small,
    latencies=st.tuples(positive, positive).map(sorted),
    loss=share,
    on_s=positive,
    keep_state=st.booleans(),
    sizes=st.tuples(small, small).map(sorted),
)
def test_any_resolved_scenario_reads_back(
    seed: int,
    nodes: int,
    text: str,
    contacts: int,
    latencies: list[float],
    loss: float,
    on_s: float,
    keep_state: bool,
    sizes: list[int],
) -> None:
    tables: dict[str, Any] = {
        **EVENT,
        "seed": seed,
        "nodes": nodes,
        "description": text,
        "start": {"contacts": contacts},
        "network": {
            "latency": "sampled",
            "latency_ms": latencies[0],
            "latency_ms_max": latencies[1],
            "loss": loss,
        },
        "churn": {"kind": "onoff", "mean_on_s": on_s, "keep_state": keep_state},
        "cyclon": {"gossip_size": sizes[0], "view_size": sizes[1]},
    }
    resolved = resolve(tables, Path())
    assert read_back(resolved) == resolved


def test_the_resolved_scenario_spells_out_every_default() -> None:
    table = resolve(BASE, Path()).table()
    assert table["start"] == {"contacts": 20, "join_contacts": 1}
    assert table["cyclon"] == {"view_size": 20, "gossip_size": 10, "period_s": 60.0}
    assert table["sweep"] == {"setting": "sequential"}
    assert not {"event", "network"} & set(table)
    assert "sweep" not in resolve(EVENT, Path()).table()


def test_a_configuration_reads_from_its_own_table() -> None:
    scenario = resolve(VALID[-1], Path()).scenario
    assert read(Scenario, as_table(scenario)) == scenario


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_scenarios_that_we_ship(path: Path) -> None:
    resolved = read_scenario(path)
    assert resolved.scenario.name == path.stem
    assert resolved.scenario.description
    assert read_back(resolved) == resolved


def test_there_are_scenarios() -> None:
    stems = [path.stem for path in SHIPPED]
    assert "cyclon-churn" in stems
    for figure in range(5, 12):  # one for every figure of S0 §6.2–6.6
        assert any(stem.startswith(f"poldercast-fig{figure}-") for stem in stems), figure


def cut_down(path: Path) -> Resolved:
    """A scenario that we ship, small and without data."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    tables |= {"nodes": 40, "cycles": 5}
    if tables.get("workload", {}).get("kind") in (*FILES, "reddit"):
        tables["workload"] |= {"kind": "synthetic"}
    if tables.get("churn", {}).get("kind") == "trace":
        tables["churn"] = {"kind": "onoff"}
    for fault in tables.get("faults", []):
        fault |= {"at_cycle": 2, **({"count": 20} if "count" in fault else {})}
    return resolve(tables, path.parent)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_scenarios_that_we_ship_run(path: Path) -> None:
    outcome = simulate(cut_down(path))
    assert outcome.rows[-1]["cycle"] == 4
    assert outcome.rows[-1]["online"] > 0
    if SYSTEMS[outcome.summary["system"]].has_topics:
        assert outcome.rows[-1]["hit_ratio"] > 0
        assert outcome.classes


# What is set on the command line.


def written(folder: Path) -> Path:
    path = folder / "s.toml"
    path.write_text(tomli_w.dumps({**TOPICS, "poldercast": {"fanout": 3}}), encoding="utf-8")
    return path


def test_values_are_replaced_by_their_path(tmp_path: Path) -> None:
    overrides = {
        "workload.kind": "low",
        "poldercast.rings.exchange": "informed",
        "poldercast.with_vicinity": False,
        "churn": {"kind": "onoff"},
        "nodes": 50,
    }
    resolved = read_scenario(written(tmp_path), overrides)
    assert (resolved.scenario.workload.kind, resolved.scenario.nodes) == ("low", 50)
    assert resolved.scenario.churn.kind == "onoff"
    assert (resolved.config.fanout, resolved.config.with_vicinity) == (3, False)
    assert resolved.config.rings.exchange == "informed"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("workload.kind", "nonsense", 'workload.kind must be one of "facebook"'),
        ("workload.kin", "low", "unknown key workload.kin (did you mean kind?)"),
        ("nodes.x", 3, "nodes.x cannot be set, since nodes is not a table"),
        ("poldercast.rings.size.x", 3, "poldercast.rings.size must be a whole number, not a table"),
        ("publish.warm_up", -1, "publish.warm_up must be at least 0, not -1"),
        ("", 3, "unknown key "),
    ],
)
def test_what_cannot_be_replaced(tmp_path: Path, key: str, value: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_scenario(written(tmp_path), {key: value})
    assert words in one_sentence(str(caught.value))
