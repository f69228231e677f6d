"""Sweeps: what is run, that each run is whole, and that nothing depends on who ran it."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.spark_tests import SPARK
from support.sweeps import CHURN, EVENT, sweep_table, write_scenario

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from vinecast.core.errors import InputError
from vinecast.pipeline import measure, runs, sweep
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.runs import FAILED, RunSpec, failed, finished, run_once
from vinecast.pipeline.runs_tables import KEPT, RUN_CYCLES, RUN_DELIVERIES, RUN_TIMINGS, RUNS
from vinecast.pipeline.sweep import _clear, run_sweep
from vinecast.pipeline.sweep_file import expand, lake_inputs, read_sweep, sweep_of
from vinecast.pipeline.tables import SAMPLE_EDGES, SESSIONS
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def specs_of(folder: Path, lake: Lake | None = None, **more: Any) -> list[RunSpec]:
    write_scenario(folder)
    return expand(sweep_of(sweep_table(**more), folder), lake or Lake(folder / "lake"), None)


def digests(folder: Path) -> dict[str, str]:
    """All data files below a folder, without what tells of time and place."""
    files = sorted(folder.rglob("*.parquet"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# --- what is run -----------------------------------------------------------------------------------------


def test_a_grid_is_expanded_in_order_with_seeds_innermost(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, seeds=2)
    told = [(spec.settings["poldercast.fanout"], spec.settings["churn"], spec.seed) for spec in specs]
    assert told == [
        (fanout, churn, seed) for fanout in ("1", "2") for churn in ('"none"', '"onoff"') for seed in (1, 2)
    ]
    assert len({spec.run_id for spec in specs}) == 8
    assert specs[-1].scenario["churn"]["mean_on_s"] == 900.0
    assert specs[-1].scenario["seed"] == 2


def test_run_ids_follow_what_is_run_and_nothing_else(tmp_path: Path) -> None:
    ids = [spec.run_id for spec in specs_of(tmp_path)]
    assert [spec.run_id for spec in specs_of(tmp_path)] == ids
    larger = specs_of(tmp_path, grid={"poldercast.fanout": [3, 1, 2]}, keep=["deliveries"])
    assert set(ids) < {spec.run_id for spec in larger}
    assert not set(ids) & {spec.run_id for spec in specs_of(tmp_path, set={"cycles": 6})}
    path = tmp_path / "tiny.toml"
    path.write_text(path.read_text().replace('"tiny"', '"another name"'))
    table = sweep_table()
    assert [s.run_id for s in expand(sweep_of(table, tmp_path), Lake(tmp_path), None)] == ids


def test_run_ids_follow_the_files_that_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"node": [0, 1, 29], "topic": [1, 2, 3]}), tmp_path / "who.parquet")
    workload = {"workload": {"kind": "file", "file": "who.parquet"}}
    first = specs_of(tmp_path, set=workload)[0].run_id
    assert specs_of(tmp_path, set=workload)[0].run_id == first
    pq.write_table(pa.table({"node": [0, 1, 29], "topic": [1, 2, 4]}), tmp_path / "who.parquet")
    assert specs_of(tmp_path, set=workload)[0].run_id != first


def test_run_ids_follow_the_versions_of_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = specs_of(tmp_path)[0].run_id
    newer = replace(RUN_DELIVERIES, version=RUN_DELIVERIES.version + 1)
    monkeypatch.setitem(KEPT, "deliveries", (newer,))
    assert specs_of(tmp_path)[0].run_id != first


def test_one_name_can_stand_for_a_sample_and_for_a_trace(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    for table in (SAMPLE_EDGES, SESSIONS):
        with lake.new_generation(table, "x") as generation:
            generation.commit({})
    named = {"workload": {"kind": "file", "file": "lake:x"}, "churn.kind": "trace", "churn.trace": "lake:x"}
    spec = specs_of(tmp_path, lake, variants={"churn": {"trace": named}})[0]
    placed = runs._placed(resolve(spec.scenario, tmp_path), spec.places).scenario
    assert placed.workload.file == str(lake.path(SAMPLE_EDGES, "x"))
    assert placed.churn.trace == str(lake.path(SESSIONS, "x"))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"sedes": 3}, "unknown key sedes"),
        ({"seeds": 0}, "seeds must be how many"),
        ({"seeds": [1, 1]}, "seeds must be how many"),
        ({"seeds": [True]}, "seeds must be how many"),
        ({"seeds": 100_000}, "more than 100,000"),
        ({"keep": ["everything"]}, "keep must be a list of deliveries and records"),
        ({"keep": ["records"]}, 'goes with engine = "event"'),
        ({"grid": {"poldercast.fanout": []}}, "must be a list of values"),
        ({"grid": {"poldercast.fanout": [1, 1]}}, "has a value twice"),
        ({"grid": {"poldercast.fanuot": [1]}}, "tiny.toml: unknown key poldercast.fanuot"),
        ({"grid": {"poldercast.fanout": [1], "seed": [1, 2]}}, "are the same run"),
        ({"variants": {"churn": {"none": 3}}}, "variants.churn.none must be a table"),
        ({"set": {"churn.trace": "lake:skype", "churn.kind": "trace"}}, "no dataset 'skype' of sessions"),
        ({"set": {"publish.matrix": "lake:pings"}}, "cannot be taken from the lake"),
        ({"set": {"workload": {"kind": "file", "file": "gone.parquet"}}}, "gone.parquet: no such file"),
        ({"set": {"workload": {"kind": "file"}}}, "file goes with kind"),
    ],
)
def test_bad_sweeps(tmp_path: Path, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        specs_of(tmp_path, **more)


def test_a_sweeps_file_is_named_in_the_sentence(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text('scenario = "tiny.toml"\nseeds = "many"\n')
    with pytest.raises(InputError, match=r"sweep\.toml: seeds must be"):
        read_sweep(path)
    with pytest.raises(InputError, match=r"nothing\.toml: no such file"):
        read_sweep(tmp_path / "nothing.toml")


def test_what_a_sweep_reads_from_the_lake(tmp_path: Path) -> None:
    write_scenario(tmp_path)
    trace = {"churn.kind": "trace", "churn.trace": "lake:skype"}
    table = sweep_table(variants={"churn": {"none": {}, "skype": trace}})
    table["set"] = {"workload": {"kind": "file", "file": "lake:slashdot"}}
    assert lake_inputs(sweep_of(table, tmp_path)) == [(SAMPLE_EDGES, "slashdot"), (SESSIONS, "skype")]


# --- one run ---------------------------------------------------------------------------------------------


def test_a_run_is_written_once_and_is_the_simulators(tmp_path: Path) -> None:
    spec = specs_of(tmp_path, keep=["deliveries"])[-1]
    told = run_once(spec, tmp_path)
    assert (told["status"], told["error"]) == ("ok", None)
    written = digests(tmp_path / spec.run_id)
    assert len(written) == 6
    assert told == finished(spec, tmp_path) == run_once(spec, tmp_path), "the second time it is only read"
    rows = pq.read_table(tmp_path / spec.run_id / "run_cycles.parquet").to_pylist()
    outcome = simulate(resolve(spec.scenario, tmp_path))
    assert [{**row, "run_id": spec.run_id} for row in outcome.rows] == rows
    assert told["rows"] == sum(
        pq.read_metadata(path).num_rows for path in (tmp_path / spec.run_id).glob("*.parquet")
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = run_once(spec, elsewhere)
    assert digests(elsewhere / spec.run_id) == written
    assert again["sha256"] == told["sha256"]


def test_a_run_that_kept_less_is_run_again(tmp_path: Path) -> None:
    spec = specs_of(tmp_path)[0]
    run_once(spec, tmp_path)
    more = replace(spec, keep=("deliveries",))
    assert finished(more, tmp_path) is None
    assert run_once(more, tmp_path)["status"] == "ok"
    assert finished(more, tmp_path) is not None
    assert finished(spec, tmp_path) is not None, "more than was asked for is enough"
    assert not list(tmp_path.glob(".*.partial")) + list(tmp_path.glob(".*.old"))


def test_what_a_run_tells_does_not_depend_on_what_else_it_kept_or_was_called(tmp_path: Path) -> None:
    spec = specs_of(tmp_path)[0]
    alone, others = tmp_path / "alone", tmp_path / "others"
    alone.mkdir()
    others.mkdir()
    run_once(spec, alone)
    renamed = {**spec.scenario, "name": "another"}
    run_once(replace(spec, keep=("deliveries",), scenario=renamed, settings={"a": "1"}), others)
    told = [finished(spec, store) for store in (alone, others)]
    assert told[0] is not None
    assert told[1] is not None
    assert {name: told[0][name] for name in RUNS.schema.fieldNames()} == {
        name: told[1][name] for name in RUNS.schema.fieldNames()
    }


def test_a_run_whose_process_dies_again_and_again_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Death(BaseException):
        """Nothing of ours runs after it."""

    def die(spec: RunSpec, folder: Path) -> float:
        raise Death

    spec = specs_of(tmp_path)[0]
    simulate_it = runs._run
    monkeypatch.setattr(runs, "_run", die)
    for _ in range(3):
        with pytest.raises(Death):
            run_once(spec, tmp_path)
    monkeypatch.setattr(runs, "_run", simulate_it)
    told = run_once(spec, tmp_path)
    assert (told["status"], told["error"][:23]) == ("failed", "its process died 3 time")
    assert failed(spec, tmp_path) == told
    _clear(tmp_path)
    assert run_once(spec, tmp_path)["status"] == "ok", "another sweep begins anew"
    assert failed(spec, tmp_path) is None


def test_a_run_that_fails_tells_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "short.avt").write_text("a 1 0 60\n")
    churn = {"churn": {"short": {"churn.kind": "trace", "churn.trace": "short.avt"}}}
    spec = specs_of(tmp_path, variants=churn)[0]
    told = run_once(spec, tmp_path)
    assert told["status"] == "failed"
    assert "has only 1 nodes, not 30" in told["error"]
    assert not (tmp_path / spec.run_id).exists()
    assert json.loads((tmp_path / f"{spec.run_id}{FAILED}").read_text())["error"] == told["error"]
    assert not list(tmp_path.glob(".*.partial"))


def test_a_task_whose_twin_was_faster_does_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = specs_of(tmp_path)[0]
    simulate_it = runs._run

    def slow(spec: RunSpec, folder: Path) -> float:
        monkeypatch.setattr(runs, "_run", simulate_it)
        assert run_once(spec, tmp_path)["status"] == "ok"
        shutil.rmtree(folder)  # as a sweep does that has all its runs
        return simulate_it(spec, folder)

    monkeypatch.setattr(runs, "_run", slow)
    assert run_once(spec, tmp_path) == finished(spec, tmp_path)
    assert not list(tmp_path.glob(f"*{FAILED}"))


def test_records_are_those_of_sim_run(tmp_path: Path) -> None:
    write_scenario(tmp_path)
    table = {"scenario": "tiny.toml", "keep": ["records"], "set": CHURN | EVENT}
    spec = expand(sweep_of(table, tmp_path), Lake(tmp_path), None)[0]
    run_once(spec, tmp_path)
    found = pq.read_table(tmp_path / spec.run_id / "run_records.parquet")
    records: list[Any] = []
    simulate(resolve(spec.scenario, tmp_path), trace=records.append)
    assert found.num_rows == len(records)
    assert found.column("time_us").to_pylist() == [record.time_us for record in records]
    assert set(found.column("run_id").to_pylist()) == {spec.run_id}
    assert len(pq.read_table(tmp_path / spec.run_id / "run_presence.parquet")) > 0


# --- with Spark ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lake]:
    folder = tmp_path_factory.mktemp("sweep")
    lake = Lake(folder / "lake")
    result = run_sweep(spark, lake, "tiny", specs_of(folder, lake, keep=["deliveries"]))
    assert (result.runs, result.done, result.reused, result.failed) == (4, 4, 0, {})
    assert result.simulate_s > 0
    return folder, lake


class TestSpark:
    pytestmark = SPARK

    def test_on_spark_or_alone_the_bytes_are_the_same(
        self, spark: "SparkSession", swept: tuple[Path, Lake], tmp_path: Path
    ) -> None:
        folder, lake = swept
        specs = specs_of(folder, lake, keep=["deliveries"])
        for spec in specs:
            run_once(spec, tmp_path)
        for table in (RUN_CYCLES, RUN_DELIVERIES):
            alone = {
                f"{s.run_id}.parquet": hashlib.sha256(
                    (tmp_path / s.run_id / f"{table.name}.parquet").read_bytes()
                ).hexdigest()
                for s in specs
            }
            assert digests(lake.path(table, "tiny")) == alone
        manifest = {row["run_id"]: row for row in lake.read(spark, RUNS, "tiny").collect()}
        for spec in specs:
            told = finished(spec, tmp_path)
            assert told is not None
            assert manifest[spec.run_id].asDict() == {name: told[name] for name in RUNS.schema.fieldNames()}
        timings = lake.read(spark, RUN_TIMINGS, "tiny")
        assert timings.where("task_s >= simulate_s AND simulate_s > 0").count() == 4
        assert timings.where(timings.process == os.getpid()).count() == 0, "workers ran it, not we"

    def test_again_runs_nothing_and_changes_nothing(
        self, spark: "SparkSession", swept: tuple[Path, Lake]
    ) -> None:
        folder, lake = swept
        before = digests(lake.path(RUN_CYCLES, "tiny"))
        result = run_sweep(spark, lake, "tiny", specs_of(folder, lake, keep=["deliveries"]))
        assert (result.done, result.reused, result.simulate_s) == (4, 4, 0)
        assert digests(lake.path(RUN_CYCLES, "tiny")) == before

    def test_a_larger_grid_adds_failures_are_kept_apart_and_repeated(
        self, spark: "SparkSession", swept: tuple[Path, Lake]
    ) -> None:
        folder, lake = swept
        (folder / "trace.avt").write_text("a 1 0 60\n")
        trace = {"churn.kind": "trace", "churn.trace": "trace.avt"}
        more = {"variants": {"churn": {"none": {}, "onoff": CHURN, "trace": trace}}, "keep": ["deliveries"]}
        seen: list[tuple[int, int, int]] = []
        specs = specs_of(folder, lake, **more)
        result = run_sweep(spark, lake, "tiny", specs, lambda *told: seen.append(told))
        assert (result.done, result.reused, len(result.failed)) == (4, 4, 2)
        assert seen[-1] == (4, 2, 0)
        failed = lake.read(spark, RUNS, "tiny").where("status = 'failed'").collect()
        assert {row["run_id"] for row in failed} == set(result.failed)
        assert all("has only 1 nodes" in row["error"] for row in failed)
        store = lake.folder / "sweeps" / "v1" / "tiny"
        assert len(list(store.glob(f"*{FAILED}"))) == 2
        (folder / "trace.avt").write_text("".join(f"{node} 1 0 600\n" for node in range(30)))
        result = run_sweep(spark, lake, "tiny", specs_of(folder, lake, **more))
        assert (result.done, result.reused, result.failed) == (6, 4, {})

    def test_a_run_that_kills_its_process_does_not_lose_the_others(
        self, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake = Lake(tmp_path / "lake")
        specs = specs_of(tmp_path, lake)
        doomed = specs[0].run_id

        def deadly(*given: Any) -> Any:
            def work(batches: Any) -> Any:
                from vinecast.pipeline import runs

                simulate_it = runs._run

                def run(spec: RunSpec, folder: Path) -> float:
                    return os._exit(137) if spec.run_id == doomed else simulate_it(spec, folder)

                runs._run = run
                try:
                    yield from runs.run_tasks(*given)(batches)
                finally:
                    runs._run = simulate_it

            return work

        monkeypatch.setattr(sweep, "run_tasks", deadly)
        result = run_sweep(spark, lake, "deadly", specs)
        assert list(result.failed) == [doomed]
        assert "its process died 3 times" in result.failed[doomed]
        assert result.done == 3
        monkeypatch.undo()
        result = run_sweep(spark, lake, "deadly", specs)
        assert (result.done, result.reused, result.failed) == (4, 3, {})

    def test_other_bytes_make_what_is_measured_stale(self, spark: "SparkSession", tmp_path: Path) -> None:
        lake = Lake(tmp_path / "lake")
        specs = specs_of(tmp_path, lake, grid={}, variants={})
        run_sweep(spark, lake, "it", specs)
        before = lake.current(RUNS, "it"), measure.made_from(lake, "it", "counts")
        run_sweep(spark, lake, "it", specs, again=True)
        assert measure.made_from(lake, "it", "counts") == before[1], "the same bytes"
        told = lake.folder / "sweeps" / "v1" / "it" / specs[0].run_id / "run.json"
        about = json.loads(told.read_text())
        about["tables"]["run_cycles"]["sha256"] = "another"
        told.write_text(json.dumps(about))
        run_sweep(spark, lake, "it", specs)
        assert lake.current(RUNS, "it").fingerprint == before[0].fingerprint
        assert measure.made_from(lake, "it", "counts") != before[1]

    def test_two_sweeps_of_one_name_do_not_meet(
        self, spark: "SparkSession", swept: tuple[Path, Lake], tmp_path: Path
    ) -> None:
        import fcntl

        folder, lake = swept
        with (lake.folder / "sweeps" / "v1" / "tiny" / ".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(InputError, match="another sweep of this name is running"):
                run_sweep(spark, lake, "tiny", specs_of(folder, lake))

    def test_a_sweep_without_topics(self, spark: "SparkSession", tmp_path: Path) -> None:
        (tmp_path / "plain.toml").write_text('name = "plain"\nseed = 1\nnodes = 20\ncycles = 3\n')
        lake = Lake(tmp_path / "lake")
        specs = expand(sweep_of({"scenario": "plain.toml"}, tmp_path), lake, None)
        assert run_sweep(spark, lake, "plain", specs).done == 1
        row = lake.read(spark, RUN_CYCLES, "plain").orderBy("cycle").tail(1)[0]
        assert (row["cycle"], row["online"], row["hit_ratio"]) == (2, 20, None)
        assert lake.read(spark, RUNS, "plain").count() == 1


def test_what_is_kept_is_about_topics(tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text('name = "plain"\nseed = 1\nnodes = 20\ncycles = 3\n')
    sweep = sweep_of({"scenario": "plain.toml", "keep": ["deliveries"]}, tmp_path)
    with pytest.raises(InputError, match="has topics"):
        expand(sweep, Lake(tmp_path), None)
