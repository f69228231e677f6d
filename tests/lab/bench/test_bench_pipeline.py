"""The pipeline's benchmark at toy sizes: it runs, and its numbers are numbers. How fast is not asked here."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from support.spark_tests import SPARK

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from vinecast.cli import main
from vinecast.core.errors import Bug, InputError
from vinecast.lab.bench.process_tree import CpuClock, Watched, memory_of, watch
from vinecast.lab.bench.result import Result
from vinecast.lab.bench.spark import pipeline
from vinecast.lab.bench.spark.pipeline import PARTS, PipelinePlan, bench_pipeline
from vinecast.lab.bench.spark.pipeline_inputs import QUICK, PipelineSizes, write_graph, write_trace
from vinecast.lab.bench.spark.pipeline_work import NAME, WorkOutcome, WorkTask, do
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.tables import SESSIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = replace(QUICK, runs=3, edges=2_000, users=300, sample=50, trace_nodes=300, deliveries=10_000)


class TestSpark:
    pytestmark = SPARK

    @pytest.mark.parametrize("part", ["sample", "regularity", "measure"])
    def test_duckdb_does_the_same_work(self, spark: "SparkSession", tmp_path: Path, part: str) -> None:
        pytest.importorskip("duckdb", reason="needs the extra 'bench'")
        task = WorkTask(tmp_path, TINY)
        made = do("prepare", part, task)
        assert made.rows > 0
        assert made.more["bytes"] > 0
        ours, theirs = do("spark", part, task), do("duckdb", part, task)
        assert ours.answer == theirs.answer
        assert len(set(ours.answer)) > 1
        assert min(ours.answer) > 0
        assert len(ours.seconds) == len(theirs.cpu) == 1

    def test_the_sweep_tells_where_time_went(self, spark: "SparkSession", tmp_path: Path) -> None:
        told = do("spark", "sweep", WorkTask(tmp_path, TINY))
        assert told.rows == TINY.runs
        assert 0 < told.more["simulate_s"] < told.more["task_s"]
        assert told.more["failed"] == 0
        assert told.more["processes"] >= 1


def test_what_runs_keep(tmp_path: Path) -> None:
    told = do("kept", "kept", WorkTask(tmp_path, TINY)).more
    rows = [figures["rows"] for figures in told.values()]
    assert rows == sorted(rows)
    assert rows[0] < rows[1] < rows[2]


# --- the figures -----------------------------------------------------------------------------------------


def told_by(answer: list[int]) -> dict[str, Any]:
    return asdict(
        WorkOutcome([3.0, 2.0], [4.0, 3.5], 1000, answer, {"start_s": 5.0, "ingest_s": 0.5, "bytes": 9})
    )


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Processes that are not started; what was asked of them."""
    asked: list[tuple[str, str]] = []

    def fake(arguments: list[str], environment: dict[str, str]) -> Watched:
        step, part, task = arguments[2:]
        asked.append((step, part))
        assert Path(json.loads(task)["folder"]).is_dir()
        errors = ""
        told = told_by([1, 2])
        if part == "sweep":
            assert "VINECAST_CACHE_DIR" in environment
            errors = "[cache] data saved to '/a.nbc'\nWARN\n[cache] data saved to '/b.nbc'\n"
            told["seconds"] = [10.0]
            more = {"simulate_s": 18.0, "task_s": 19.0, "cores": 2, "processes": 2}
            told["more"] = {**more, "failed": 0, "first_s": 9.0, "first_task_s": 8.0}
        elif part == "kept":
            told["more"] = {"counts only": {"rows": 3, "bytes": 4000}}
        return Watched(f"noise\n{json.dumps(told)}\n", errors, 9 * 10**9, 5 * 10**9)

    monkeypatch.setattr(pipeline, "watch", fake)
    return asked


def test_all_figures(watched: list[tuple[str, str]]) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'bench'")
    said: list[str] = []
    results = list(bench_pipeline(PipelinePlan(PipelineSizes()), said.append))
    steps = ("prepare", "spark", "duckdb")
    compared = [(step, part) for part in ("sample", "regularity", "measure") for step in steps]
    assert watched == [*compared, ("spark", "sweep"), ("kept", "kept")]
    assert said == [f"{part}: {step}" for step, part in watched]
    assert len({result.what for result in results}) == len(results)

    def one(part: str) -> Result:
        (found,) = [result for result in results if part in result.what]
        return found

    assert one("edges a second").value == 500
    assert one("deliveries, the first time").value == 3
    assert one("deliveries, peak memory").measured == "9.0 GB (Java 5.0, Python 4.0)"
    assert one("deliveries, peak memory").meets is False
    ratio = one("deliveries, against DuckDB's 2.0 s")
    assert (ratio.value, ratio.meets) == (1.0, True)
    assert one("cores' time in simulations").value == pytest.approx(0.9)
    assert one("cores' time in simulations").meets is True
    assert one("compiled before the first").measured == "2 functions, 1.00 times each, in 8 s"
    assert one("counts only").measured == "3 rows, 4,000 bytes"


def test_small_inputs_have_no_ratio_to_meet(watched: list[tuple[str, str]]) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'bench'")
    results = list(bench_pipeline(PipelinePlan(QUICK, ["regularity"])))
    assert {part for _, part in watched} == {"regularity"}
    (ratio,) = [result for result in results if "DuckDB" in result.what]
    assert (ratio.target, ratio.meets) == ("", None)


def test_other_results_are_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="needs the extra 'bench'")

    def fake(arguments: list[str], environment: dict[str, str]) -> Watched:
        return Watched(json.dumps(told_by([1] if arguments[2] == "spark" else [2])), "", 1, 1)

    monkeypatch.setattr(pipeline, "watch", fake)
    with pytest.raises(Bug, match=r"Spark has \[1\], DuckDB \[2\]"):
        list(bench_pipeline(PipelinePlan(QUICK, ["sample"])))


def test_without_duckdb(watched: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    results = list(bench_pipeline(PipelinePlan(QUICK, ["sample"])))
    assert [step for step, _ in watched] == ["prepare", "spark"]
    assert "not installed" in results[-1].measured


# --- the command -----------------------------------------------------------------------------------------


def test_the_command(watched: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "pipeline", "--quick", "--only", "kept", "--repeat", "2", "--memory", "1g"]
    assert main([*command, "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "`vinecast bench pipeline --repeat 2 --only kept --memory 1g --quick`"
    assert "| 3 rows, 4,000 bytes |" in lines[-1]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["value"] == 4000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "everything"], "invalid choice: 'everything'"),
        (["--memory", "much"], "memory is a number with k, m, g or t"),
        (["--repeat", "0"], "'0' is not a whole number"),
    ],
)
def test_bad_options(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pipeline", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_parts_are_the_same_everywhere() -> None:
    from vinecast.cli.pipeline_bench import PARTS as TYPED

    assert TYPED == PARTS
    with pytest.raises(InputError, match="no part 'x'"):
        PipelinePlan(QUICK, ["x"])
    with pytest.raises(InputError, match="does not come from"):
        PipelineSizes(users=10, sample=11)


# --- inputs and processes --------------------------------------------------------------------------------


def test_inputs_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    texts = []
    for i in range(2):
        write_graph(tmp_path / f"{i}.txt", TINY)
        texts.append((tmp_path / f"{i}.txt").read_bytes())
    assert texts[0] == texts[1]
    assert texts[0].count(b"\n") == TINY.edges


def test_a_trace_has_sessions_in_order(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sessions = write_trace(lake, NAME, TINY)
    rows = pq.read_table(lake.path(SESSIONS, NAME)).to_pylist()
    assert len(rows) == TINY.trace_nodes
    assert sum(len(row["on_s"]) for row in rows) == sessions
    for row in rows:
        times = [time for session in zip(row["on_s"], row["off_s"], strict=True) for time in session]
        assert times == sorted(times)


def test_the_memory_of_a_tree_includes_what_it_started() -> None:
    if not Path("/proc/self/stat").is_file():
        pytest.skip("there is no /proc")
    code = "import time; hold = b'x' * 80_000_000; time.sleep(60)"
    alone, _ = memory_of(os.getpid())
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            until = time.monotonic() + 30
            while memory_of(process.pid)[0] < 80_000_000 and time.monotonic() < until:
                time.sleep(0.05)
            assert memory_of(os.getpid())[0] > alone + 60_000_000
        finally:
            process.kill()
    assert memory_of(process.pid) == (0, 0)


BUSY_S = 0.3
FORGETFUL = f"""
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as Spark's daemon: the kernel forgets children that end
told, tell = os.pipe()
if not os.fork():
    while time.process_time() < {BUSY_S}:
        pass
    print("busy", flush=True)
    os.read(told, 1)
    os._exit(0)
sys.stdin.readline()
os.write(tell, b"x")
try:
    os.wait()
except ChildProcessError:
    print("ended", flush=True)
sys.stdin.readline()
"""


def test_processor_time_stays_when_a_process_ends() -> None:
    if not Path("/proc/self/stat").is_file():
        pytest.skip("there is no /proc")
    pipe = subprocess.PIPE
    with (
        subprocess.Popen([sys.executable, "-c", FORGETFUL], stdin=pipe, stdout=pipe, text=True) as process,
        CpuClock(process.pid) as clock,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        before = clock.seconds()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        assert clock.seconds() >= before > BUSY_S * 0.9
        process.stdin.close()
    assert clock.seconds() >= before


def test_a_watched_process(tmp_path: Path) -> None:
    code = "import os, sys, time; hold = b'x' * 80_000_000; time.sleep(0.8); print(os.environ['A'])"
    found = watch(["-c", code], {"A": "told"})
    assert found.output == "told\n"
    if Path("/proc/self/stat").is_file():
        assert found.peak > 80_000_000
    with pytest.raises(InputError, match="failed: ValueError: why"):
        watch(["-c", "import sys; sys.stderr.write('ValueError: why\\nmore\\n'); sys.exit(1)"], {})
