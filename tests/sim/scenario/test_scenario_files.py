"""Files of scenarios: what is wrong with one is said with its name, and a good one reads back."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from support.paths import SCENARIOS
from support.scenarios import BASE, EVENT, TOPICS, network, one_sentence
from vinecast.core.config import as_table, read
from vinecast.core.errors import InputError
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import Resolved, Scenario, read_scenario, resolve
from vinecast.sim.workload.sample import FILES
from vinecast.systems.registry import SYSTEMS

SHIPPED = sorted(SCENARIOS.glob("*.toml"))


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
