"""Pipelines: stages chained, and only what is stale is run."""

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.paths import PIPELINES
from support.spark_tests import SPARK
from support.sweeps import write_scenario

pytest.importorskip("pyspark", reason="needs the extra 'spark'")
pytest.importorskip("matplotlib", reason="needs the extra 'figures'")

from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.plan import dry_run, read_pipeline, run_pipeline
from vinecast.pipeline.runs_tables import MEASURES, RUN_CYCLES, RUNS
from vinecast.pipeline.tables import SAMPLE_EDGES
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import read_scenario
from vinecast.sim.workload.parquet import read_sessions, read_subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPED = sorted(PIPELINES.glob("*.toml"))

PIPELINE = """
name = "tiny"

[[stage]]
do = "ingest"
kind = "edges"
file = "graph.txt"
as = "graph"

[[stage]]
do = "ingest"
kind = "avt"
file = "trace.avt"
as = "trace"

[[stage]]
do = "sample"
from = "graph"
as = "people"
users = 30

[[stage]]
do = "sweep"
as = "tiny"
scenario = "tiny.toml"
set = { workload = { kind = "file", file = "lake:people" } }
grid = { "poldercast.fanout" = [1, 2] }
variants.churn.trace = { "churn.kind" = "trace", "churn.trace" = "lake:trace" }

[[stage]]
do = "measure"
from = "tiny"

[[stage]]
do = "report"
from = "tiny"
out = "OUT"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pipeline from a raw graph and a raw trace to a report."""
    write_scenario(tmp_path)
    edges = [(i, (i * 7 + k * k + 1) % 40) for i in range(40) for k in range(5)]
    (tmp_path / "graph.txt").write_text("".join(f"{a}\t{b}\n" for a, b in edges))
    sessions = [f"n{i} 2 0 {150 + 7 * i} {170 + 7 * i} 900\n" for i in range(30)]
    (tmp_path / "trace.avt").write_text("".join(sessions))
    (tmp_path / "tiny-pipeline.toml").write_text(PIPELINE.replace("OUT", str(tmp_path / "out")))
    return tmp_path


def stale(folder: Path) -> dict[str, str]:
    """What a dry run says: stage → why, of those that would run."""
    steps = dry_run(read_pipeline(folder / "tiny-pipeline.toml"), Lake(folder / "lake"))
    return {step.stage: step.why for step in steps if step.stale}


class TestSpark:
    pytestmark = SPARK

    def test_from_raw_files_to_the_report_and_only_what_is_stale(
        self, spark: "SparkSession", folder: Path
    ) -> None:
        lake = Lake(folder / "lake")
        plan = folder / "tiny-pipeline.toml"
        assert stale(folder) == {
            "ingest graph": "never made",
            "ingest trace": "never made",
            "sample people": "ingest graph runs before it",
            "sweep tiny": "sample people runs before it",
            "measure tiny": "sweep tiny runs before it",
            "report tiny": "sweep tiny runs before it",
        }
        assert not (folder / "lake").exists(), "a dry run makes nothing"
        steps = list(run_pipeline(read_pipeline(plan), lake))
        assert all(step.stale and step.ok for step in steps)
        assert (folder / "out" / "index.html").is_file()
        assert stale(folder) == {}
        assert all("code" in stage.made_from(lake) for stage in read_pipeline(plan).stages)
        self.check_the_runs(spark, folder, lake)

        (folder / "graph.txt").touch()
        report = (folder / "out" / "index.html").read_bytes()
        assert not any(step.stale for step in run_pipeline(read_pipeline(plan), lake))

        plan.write_text(plan.read_text().replace("[1, 2]", "[1, 2, 3]"))
        assert stale(folder)["sweep tiny"] == "1 of 3 runs are new"
        plan.write_text(
            plan.read_text().replace("[1, 2, 3]", "[1, 2]").replace("out =", 'when = "last"\nout =')
        )
        assert stale(folder) == {"report tiny": "when changed"}
        plan.write_text(plan.read_text().replace('when = "last"\n', ""))

        with (folder / "trace.avt").open("a") as file:
            file.write("late 1 100 900\n")
        assert list(stale(folder)) == ["ingest trace", "sweep tiny", "measure tiny", "report tiny"]
        (folder / "trace.avt").write_text("".join((folder / "trace.avt").read_text().splitlines(True)[:-1]))
        assert stale(folder) == {}

        second = '[[stage]]\ndo = "report"\nfrom = "tiny"\nas = "end"\nwhen = "last"\nout = "OUT"\n'
        text = plan.read_text()
        plan.write_text(text + second.replace("OUT", str(folder / "end")))
        assert stale(folder) == {"report end": "never made"}
        list(run_pipeline(read_pipeline(plan), lake))
        assert stale(folder) == {}, "two reports of a sweep do not undo each other"
        plan.write_text(text)

        graph = (folder / "graph.txt").read_text()
        (folder / "graph.txt").write_text(graph + "x\n")
        plan.write_text(text.replace('file = "graph.txt"', 'file = "graph.txt"\nmax_bad = 0.1'))
        list(run_pipeline(read_pipeline(plan), lake))
        plan.write_text(text.replace('file = "graph.txt"', 'file = "graph.txt"\nmax_bad = 0.001'))
        assert stale(folder)["ingest graph"] == "1 bad lines are too many now"
        with pytest.raises(InputError, match="1 of 201 lines cannot be taken"):
            list(run_pipeline(read_pipeline(plan), lake))
        plan.write_text(text)

        (folder / "out" / "report.json").unlink()
        with pytest.raises(InputError, match="is not a report's folder"):
            read_pipeline(plan)
        assert (folder / "out" / "index.html").read_bytes() == report

    def check_the_runs(self, spark: "SparkSession", folder: Path, lake: Lake) -> None:
        """Runs on the lake's tables are those of the simulator on the same tables."""
        row = lake.read(spark, RUNS, "tiny").where("settings['poldercast.fanout'] = '2'").collect()[0]
        settings = {
            "workload": {"kind": "file", "file": str(lake.path(SAMPLE_EDGES, "people").absolute())},
            "churn": {"kind": "trace", "trace": str(folder / "trace.avt")},
        }
        outcome = simulate(read_scenario(folder / "tiny.toml", {"poldercast.fanout": 2, **settings}))
        rows = lake.read(spark, RUN_CYCLES, "tiny").where(f"run_id = '{row['run_id']}'").orderBy("cycle")
        assert [told.asDict() for told in rows.collect()] == [
            {"run_id": row["run_id"], **told} for told in outcome.rows
        ]
        assert any(told["came"] for told in outcome.rows[1:])
        measured = lake.read(spark, MEASURES, "tiny").where("by = 'all' AND when = 'last'")
        last = measured.where(f"run_id = '{row['run_id']}'").collect()[0]
        assert last["hit_ratio"] == outcome.rows[-1]["hit_ratio"]

    def test_the_commands(
        self, spark: "SparkSession", folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "sweep.toml").write_text(
            'scenario = "tiny.toml"\ngrid = { "poldercast.fanout" = [1, 2] }\n'
        )
        place = ["--lake", str(folder / "lake")]
        out = ["--out", str(folder / "report")]
        assert main(["pipeline", "sweep", str(folder / "sweep.toml"), "--as", "s", *place, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["done"] == 2
        assert main(["pipeline", "measure", "s", *place]) == 0
        assert "2 runs, measured from counts" in capsys.readouterr().out
        assert main(["pipeline", "report", "s", *place, *out, "--measures", "hit_ratio"]) == 0
        assert "index.html" in capsys.readouterr().out
        assert "hit ratio" in (folder / "report" / "report.md").read_text()


def test_commands_complain_before_spark_starts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for arguments, sentence in (
        (["measure", "nothing"], "there is no dataset 'nothing' of runs"),
        (["report", "nothing"], "there is no dataset 'nothing' of measures"),
        (["report", "nothing", "--measures", "luck"], "there is no measure 'luck'"),
        (["sweep", "nothing.toml", "--as", "x"], "nothing.toml: no such file"),
        (["run", "nothing.toml"], "nothing.toml: no such file"),
    ):
        assert main(["pipeline", *arguments]) == 2
        assert sentence in capsys.readouterr().err
    assert not (folder / "lake").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('do = "sample"', 'do = "smaple"', r"stage 3: do must be one of ingest.*, not \"smaple\""),
        ("users = 30", "users = 0", r"stage 3 \(sample\): a sample has at least one user"),
        ("users = 30", "user = 30", r"stage 3 \(sample\): unknown key user \(did you mean users\?\)"),
        ('kind = "avt"', 'kind = "avi"', r"stage 2 \(ingest\): there is no format 'avi'"),
        ('as = "people"', "", r"stage 3 \(sample\): as is missing"),
        ('name = "tiny"', "size = 3", "unknown key size"),
        ('from = "tiny"\nout', 'from = "tiny"\nwhen = "now"\nout', "when is run or last"),
        ('as = "people"', 'as = "a/b"', r"stage 3 \(sample\): a dataset's name .* is not 'a/b'"),
        ('file = "graph.txt"', 'file = "graph.txt"\nmax_bad = 7.0', "max_bad must be at most 1, not 7.0"),
        ("users = 30", "users = 30\nseed = -1", "seed must be at least 0, not -1"),
        ('from = "tiny"\n\n', 'from = "tiny"\nsource = "luck"\n\n', 'source must be one of "counts"'),
        ('from = "tiny"\nout', 'from = "tiny"\nx = "size"\nout', "x must be an axis of the sweep"),
        ("out = ", 'out = "tiny.toml" #', "tiny.toml is a file"),
        (
            'kind = "avt"',
            'kind = "fta"\nfile = "x"\nas = "trace"\n[[stage]]\ndo = "ingest"\nkind = "avt"',
            r"stage 3 \(ingest trace\): stage 2 makes sessions of 'trace' too",
        ),
    ],
)
def test_bad_pipelines(
    folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, sentence: str
) -> None:
    monkeypatch.chdir(folder)
    path = folder / "tiny-pipeline.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=rf"tiny-pipeline\.toml: .*{sentence}"):
        read_pipeline(path)


def test_a_raw_file_that_is_not_there(folder: Path) -> None:
    (folder / "graph.txt").unlink()
    with pytest.raises(InputError, match=r"graph\.txt: no such file"):
        stale(folder)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_pipelines_that_we_ship_can_be_read(path: Path) -> None:
    pipeline = read_pipeline(path)
    assert pipeline.name == path.stem
    assert [stage.name.split()[0] for stage in pipeline.stages][-3:] == ["sweep", "measure", "report"]
    assert "stage" in tomllib.loads(path.read_text())


# --- what the simulator reads from Parquet ---------------------------------------------------------------


def test_subscriptions_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "who.parquet"
    pq.write_table(pa.table({"node": [2, 0, 0, 2], "topic": [1, 1, 2, 1], "more": [0, 0, 0, 0]}), path)
    found = read_subscriptions(path, 3)
    assert (found.of(0).tolist(), found.of(1).tolist(), found.of(2).tolist()) == ([1, 2], [], [1])
    for nodes, sentence in (
        (2, "has a node 2, but the run has only 2"),
        (10, "has only about 3 nodes, not 10"),
    ):
        with pytest.raises(InputError, match=sentence):
            read_subscriptions(path, nodes)
    pq.write_table(pa.table({"node": [-1], "topic": [0]}), path)
    with pytest.raises(InputError, match="must not be negative"):
        read_subscriptions(path, 1)
    pq.write_table(pa.table({"node": ["a"], "topic": [0]}), path)
    with pytest.raises(InputError, match="whole numbers"):
        read_subscriptions(path, 1)
    path.write_text("node,topic\n")
    with pytest.raises(InputError, match=r"who\.parquet: not a Parquet table"):
        read_subscriptions(path, 1)


def test_sessions_from_a_table_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "when.parquet"
    table = {"node": [1, 0], "on_s": [[], [0.0, 20.0]], "off_s": [[], [10.0, 30.0]]}
    lists = pa.list_(pa.float64())
    schema = pa.schema([("node", pa.int64()), ("on_s", lists), ("off_s", lists)])
    pq.write_table(pa.table(table, schema), path)
    found = read_sessions(path)
    assert (found.nodes, found.sessions, found.horizon_s) == (2, 2, 30.0)
    assert found.online_at(25).tolist() == [True, False]
    for wrong, sentence in (
        ({"off_s": [[], [10.0]]}, "as many ends"),
        ({"off_s": [[], [25.0, 30.0]]}, "must not overlap"),
        ({"node": [1, 1]}, "numbered from 0, each once"),
    ):
        pq.write_table(pa.table({**table, **wrong}, schema), path)
        with pytest.raises(InputError, match=sentence):
            read_sessions(path)
