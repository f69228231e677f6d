"""The folder of a run: the same bytes each time, and all of them or nothing."""

import json
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.runs import RUNS, SMALL, column, contents, run_in
from vinecast.core.errors import InputError
from vinecast.sim.measure import records
from vinecast.sim.measure.overlay import OverlayStats
from vinecast.sim.scenario.run import CYCLE_COLUMNS, run_to_folder, simulate
from vinecast.sim.scenario.scenario import read_scenario, resolve

SWEEP_FILES = ["cycles.parquet", "scenario.toml", "summary.json"]
EVENT_FILES = sorted([*SWEEP_FILES, "records.parquet"])


def strict_json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The bytes of each of RUNS."""
    folder = tmp_path_factory.mktemp("reference")
    for name, tables in RUNS.items():
        run_in(folder / name, tables)
    return {name: contents(folder / name) for name in RUNS}


# The folder.


@pytest.mark.parametrize(
    ("name", "files"), [("event", EVENT_FILES), ("sequential", SWEEP_FILES), ("synchronous", SWEEP_FILES)]
)
def test_the_files_of_a_run(
    reference: dict[str, dict[str, bytes]], name: str, files: list[str], tmp_path: Path
) -> None:
    assert list(reference[name]) == files
    outcome = run_in(tmp_path / "deep" / "er" / "run", RUNS[name])
    written = contents(tmp_path / "deep" / "er" / "run")
    assert written == reference[name]
    summary = strict_json(written["summary.json"].decode())
    assert summary == json.loads(json.dumps(outcome.summary))
    table = pq.read_table(tmp_path / "deep" / "er" / "run" / "cycles.parquet")
    assert {field.name: "int64" if field.type == "int64" else "float64" for field in table.schema} == {
        name: "int64" if kind == "int64" else "float64" for name, kind in CYCLE_COLUMNS.items()
    }
    assert table.to_pylist() == outcome.rows
    assert summary["final"] == outcome.rows[-1]
    assert summary["came"] == sum(column(outcome.rows, "came"))
    assert summary["went"] == sum(column(outcome.rows, "went"))
    assert tomllib.loads(written["scenario.toml"].decode()) == resolve(RUNS[name], Path()).table()
    assert column(outcome.rows, "cycle") == list(range(10))
    assert column(outcome.rows, "time_s") == [60.0 * (cycle + 1) for cycle in range(10)]


def test_no_records_when_none_are_wanted(tmp_path: Path) -> None:
    run_in(tmp_path / "run", {**SMALL, "engine": "event", "event": {"records": False}})
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_the_resolved_scenario_runs_again_to_the_same_bytes(
    reference: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    for name, files in reference.items():
        (tmp_path / f"{name}.toml").write_bytes(files["scenario.toml"])
        run_to_folder(read_scenario(tmp_path / f"{name}.toml"), tmp_path / name)
        assert contents(tmp_path / name) == files


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("threads", [1, 2, 3, 40])
def test_the_same_bytes_on_any_number_of_threads(
    reference: dict[str, dict[str, bytes]], tmp_path: Path, name: str, threads: int
) -> None:
    run_in(tmp_path / "run", RUNS[name], threads=threads)
    assert contents(tmp_path / "run") == reference[name]


CHILD = """
import json, sys
from pathlib import Path
from vinecast.core.rule import COMPILED
from vinecast.sim.scenario.run import run_to_folder
from vinecast.sim.scenario.scenario import resolve
for name, tables in json.loads(sys.argv[1]).items():
    run_to_folder(resolve(tables, Path()), Path(sys.argv[2]) / name, threads=2)
print(COMPILED)
"""


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "77", "VINECAST_COMPILE": "0"}],
    ids=["hashes", "plain Python"],
)
def test_the_same_bytes_in_another_process(
    reference: dict[str, dict[str, bytes]], tmp_path: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, json.dumps(RUNS), str(tmp_path)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    if "VINECAST_COMPILE" in environment:
        assert done.stdout == "False\n"
    assert {name: contents(tmp_path / name) for name in RUNS} == reference


@pytest.mark.parametrize("name", RUNS)
def test_another_seed_is_another_run(
    reference: dict[str, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    run_in(tmp_path / "run", {**RUNS[name], "seed": 2})
    assert contents(tmp_path / "run")["cycles.parquet"] != reference[name]["cycles.parquet"]


@pytest.mark.parametrize("what", ["a run", "a folder", "a file"])
@pytest.mark.parametrize("replace", [False, True])
def test_what_is_there_already(tmp_path: Path, what: str, replace: bool) -> None:
    target = tmp_path / "run"
    if what == "a run":
        run_in(target, {**SMALL, "seed": 2})
    elif what == "a folder":
        target.mkdir()
        (target / "thesis.tex").write_text("years of work", encoding="utf-8")
    else:
        target.write_text("years of work", encoding="utf-8")
    before = contents(target) if target.is_dir() else target.read_bytes()
    if what == "a run" and replace:
        run_in(target, SMALL, replace=True)
        assert contents(target) != before
        assert strict_json((target / "summary.json").read_text(encoding="utf-8"))["seed"] == 1
    else:
        with pytest.raises(InputError, match="run") as caught:
            run_in(target, SMALL, replace=replace)
        assert str(target) in str(caught.value)
        assert (contents(target) if target.is_dir() else target.read_bytes()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_link_to_a_folder_is_there_already(tmp_path: Path) -> None:
    run_in(tmp_path / "run", SMALL)
    (tmp_path / "link").symlink_to("run")
    with pytest.raises(InputError, match="not a place for a run"):
        run_in(tmp_path / "link", SMALL)


def test_what_a_killed_run_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".run.abc.partial").mkdir()
    run_in(tmp_path / "run", SMALL)
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written") as caught:
        run_in(tmp_path / "file" / "run", SMALL)
    assert str(tmp_path / "file" / "run") in str(caught.value)


def stop_at(cycle: int, error: BaseException) -> Callable[[int, OverlayStats | None], None]:
    def watch(done: int, stats: OverlayStats | None) -> None:
        if done == cycle:
            raise error

    return watch


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt(), InputError("no")], ids=repr)
def test_a_run_that_stops_half_way_leaves_nothing(tmp_path: Path, name: str, error: BaseException) -> None:
    threads_before = threading.active_count()
    with pytest.raises(type(error)):
        run_in(tmp_path / "run", RUNS[name], threads=2, progress=stop_at(4, error))
    assert list(tmp_path.iterdir()) == []
    run_in(tmp_path / "run", SMALL)
    before = contents(tmp_path / "run")
    with pytest.raises(type(error)):
        run_in(tmp_path / "run", RUNS[name], threads=2, replace=True, progress=stop_at(9, error))
    assert contents(tmp_path / "run") == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert threading.active_count() == threads_before


@pytest.mark.parametrize("step", ["write_rows", "dumps"])
def test_a_run_that_fails_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    run_in(tmp_path / "run", SMALL)
    before = contents(tmp_path / "run")
    if step == "write_rows":
        monkeypatch.setattr(records, "write_rows", fail)
    else:
        monkeypatch.setattr("tomli_w.dumps", fail)
    with pytest.raises(ZeroDivisionError):
        run_in(tmp_path / "run", RUNS["event"], replace=True)
    assert contents(tmp_path / "run") == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_progress_is_told_every_cycle_and_what_was_measured() -> None:
    told: list[tuple[int, int | None]] = []
    outcome = simulate(
        resolve({**SMALL, "measure": {"every": 4}}, Path()),
        progress=lambda cycle, stats: told.append((cycle, stats.online if stats else None)),
    )
    assert told == [(cycle, 40 if cycle in (3, 7, 9) else None) for cycle in range(10)]
    assert column(outcome.rows, "cycle") == [3, 7, 9]


def test_a_folder_that_appears_during_the_run_is_left_alone(tmp_path: Path) -> None:
    def appear(cycle: int, stats: OverlayStats | None) -> None:
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "thesis.tex").touch()

    with pytest.raises(InputError, match="exists already"):
        run_in(tmp_path / "run", SMALL, progress=appear)
    assert list(contents(tmp_path / "run")) == ["thesis.tex"]


def test_the_earlier_run_survives_until_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in(tmp_path / "run", {**SMALL, "seed": 2})

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupted)
    monkeypatch.setattr(Path, "replace", interrupted)
    monkeypatch.setattr(os, "rename", interrupted)
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "run", SMALL, replace=True)
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_two_runs_into_one_folder_do_not_mix(tmp_path: Path) -> None:
    under_way, go_on = threading.Event(), threading.Event()

    def linger(cycle: int, stats: OverlayStats | None) -> None:
        under_way.set()
        go_on.wait(20)

    def run_other() -> None:
        try:
            run_in(tmp_path / "run", {**RUNS["event"], "seed": 2}, progress=linger)
        except (InputError, OSError):
            under_way.set()

    other = threading.Thread(target=run_other)

    def let_in(cycle: int, stats: OverlayStats | None) -> None:
        if cycle == 4:
            other.start()
            under_way.wait(20)

    try:
        run_in(tmp_path / "run", RUNS["event"], progress=let_in)
    finally:
        go_on.set()
        other.join()
    summary = strict_json((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    run_in(tmp_path / "clean", {**RUNS["event"], "seed": summary["seed"]})
    assert contents(tmp_path / "run") == contents(tmp_path / "clean")


def test_bad_input_leaves_no_folders(tmp_path: Path) -> None:
    tables = {**SMALL, "churn": {"kind": "trace", "trace": "missing.avt"}}
    with pytest.raises(InputError, match=r"missing\.avt"):
        run_in(tmp_path / "out" / "run", tables)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_summary_of_its_own_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "summary.json").write_text("{}", encoding="utf-8")
    (tmp_path / "work" / "thesis.tex").touch()
    with pytest.raises(InputError, match="not a run"):
        run_in(tmp_path / "work", SMALL, replace=True)
    assert list(contents(tmp_path / "work")) == ["summary.json", "thesis.tex"]


def may_refuse(target: Path, replace: bool) -> None:
    """Run into a folder: it works, or there is a sentence about it."""
    try:
        run_to_folder(resolve(SMALL, Path()), target, replace=replace)
    except InputError:
        return
    assert list(contents(target)) == SWEEP_FILES


def test_replacing_through_a_link(tmp_path: Path) -> None:
    run_in(tmp_path / "run", SMALL)
    (tmp_path / "link").symlink_to("run")
    may_refuse(tmp_path / "link", replace=True)
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    may_refuse(tmp_path / "link", replace=False)


@pytest.mark.parametrize("name", [".", ".."])
def test_the_folder_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    run_in(tmp_path / "run", SMALL)
    (tmp_path / "run" / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "run" / ("inner" if name == ".." else ""))
    may_refuse(Path(name), replace=True)
    assert set(SWEEP_FILES) <= {path.name for path in (tmp_path / "run").iterdir()}


def test_a_folder_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        run_in(tmp_path / ("x" * 300), SMALL)
