"""What the benchmark's processes do: a stage on Spark, or the same with DuckDB, and how long that took.

``python -m vinecast.lab.bench.spark.pipeline_work`` does one such piece and prints what there is to tell as
JSON.
Each has a process of its own, so that its memory is its own; the input lies in the folder already.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from vinecast.core.errors import Bug
from vinecast.lab.bench.process_tree import CpuClock
from vinecast.lab.bench.spark.pipeline_inputs import (
    SEED,
    PipelineSizes,
    scenario,
    write_graph,
    write_matrix,
    write_trace,
)
from vinecast.pipeline.ingest.job import ingest
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.measure import measure_runs
from vinecast.pipeline.regularity import RegularityPlan, analyse
from vinecast.pipeline.runs import TOLD, RunSpec, run_once
from vinecast.pipeline.runs_tables import DISTRIBUTIONS, RUN_DELIVERIES, RUN_TIMINGS, RUNS, SERIES
from vinecast.pipeline.sample import SamplePlan, take_sample
from vinecast.pipeline.session import SessionConfig, cores, open_session
from vinecast.pipeline.sweep import run_sweep
from vinecast.pipeline.sweep_file import expand, sweep_of
from vinecast.pipeline.tables import CCDF, EDGES, PRESENCE, REGULARITY, SAMPLE_EDGES, SAMPLES, SESSIONS, USERS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAME = "bench"
GRAPH, MATRIX = "graph.txt", "rtt.txt"
SLOT_S = 3600
MEASURED_SUBSCRIPTIONS = 50
SHORT_SUBSCRIPTIONS = 10


@dataclass(slots=True)
class WorkOutcome:
    """What a piece of work came to."""

    seconds: list[float] = field(default_factory=list)
    """Of every time that it was done."""
    cpu: list[float] = field(default_factory=list)
    """Processor time of each, of all processes together."""
    rows: int = 0
    """Rows that went in."""
    answer: list[int] = field(default_factory=list)
    """Numbers that depend on all of the result: who did the same work has the same."""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkTask:
    """How a piece of work is to be done."""

    folder: Path
    sizes: PipelineSizes
    memory: str | None = None
    repeat: int = 1

    @property
    def lake(self) -> Lake:
        """Where the inputs are that do not come from text."""
        return Lake(self.folder / "lake")

    def attempts(self, told: WorkOutcome, work: Callable[[Path], object]) -> Path:
        """Do it so many times, each in a new folder; the last folder stays."""
        out = self.folder
        with CpuClock(os.getpid()) as clock:
            for number in range(self.repeat):
                out = Path(tempfile.mkdtemp(dir=self.folder))
                begin, cpu = time.perf_counter(), clock.seconds()
                work(out)
                told.seconds.append(time.perf_counter() - begin)
                told.cpu.append(clock.seconds() - cpu)
                if number + 1 < self.repeat:
                    shutil.rmtree(out)
        return out


# --- inputs ----------------------------------------------------------------------------------------------


def prepare_sample(task: WorkTask) -> WorkOutcome:
    write_graph(task.folder / GRAPH, task.sizes)
    return WorkOutcome(rows=task.sizes.edges, more={"bytes": (task.folder / GRAPH).stat().st_size})


def prepare_regularity(task: WorkTask) -> WorkOutcome:
    sessions = write_trace(task.lake, NAME, task.sizes)
    return WorkOutcome(rows=sessions, more={"bytes": task.lake.current(SESSIONS, NAME).bytes})


def prepare_measure(task: WorkTask) -> WorkOutcome:
    """One run is simulated; the others are its copies under other ids."""
    write_matrix(task.folder / MATRIX)
    store = store_of(task)
    one = measured_specs(task, 1)[0]
    told = run_once(one, store)
    if told["error"] is not None:
        raise Bug(f"the run to be measured failed: {told['error']}")
    path = store / one.run_id / f"{RUN_DELIVERIES.name}.parquet"
    rows = pq.read_metadata(path).num_rows
    runs = -(-task.sizes.deliveries // rows)
    for other in measured_specs(task, runs)[1:]:
        _copy(one, other, store)
    return WorkOutcome(rows=rows * runs, more={"runs": runs, "bytes": path.stat().st_size * runs})


def measured_specs(task: WorkTask, runs: int) -> list[RunSpec]:
    """Runs that keep their deliveries, with an event for every topic in each cycle."""
    nodes, cycles = task.sizes.measured_nodes, task.sizes.publications
    table = scenario(nodes, cycles, 1, MEASURED_SUBSCRIPTIONS, publish={"matrix": MATRIX})
    return specs_of(task, table, seeds=runs, keep=["deliveries"])


def _copy(one: RunSpec, other: RunSpec, store: Path) -> None:
    folder = store / other.run_id
    folder.mkdir()
    for spec_table in one.tables:
        name = f"{spec_table.name}.parquet"
        table = pq.read_table(store / one.run_id / name)
        ids = pa.array([other.run_id] * table.num_rows, pa.string())
        pq.write_table(table.set_column(0, "run_id", ids), folder / name, compression="zstd")
    shutil.copyfile(store / one.run_id / TOLD, folder / TOLD)


def store_of(task: WorkTask) -> Path:
    """Where a sweep keeps its runs."""
    store = task.lake.folder.absolute() / "sweeps" / f"v{RUNS.version}" / NAME
    store.mkdir(parents=True, exist_ok=True)
    return store


def specs_of(task: WorkTask, table: dict[str, Any], **more: Any) -> list[RunSpec]:
    """The runs of a scenario."""
    (task.folder / "scenario.toml").write_text(tomli_w.dumps({"seed": SEED, **table}), encoding="utf-8")
    return expand(sweep_of({"scenario": "scenario.toml", **more}, task.folder), task.lake, None)


# --- on Spark --------------------------------------------------------------------------------------------


def spark_sample(spark: SparkSession, task: WorkTask, told: WorkOutcome) -> None:
    plan = SamplePlan(task.sizes.sample, SEED)

    def work(out: Path) -> None:
        begin = time.perf_counter()
        ingest(spark, Lake(out), "edges", task.folder / GRAPH, NAME)
        told.more["ingest_s"] = time.perf_counter() - begin
        take_sample(spark, Lake(out), NAME, "sample", plan)

    lake = Lake(task.attempts(told, work))
    told.answer = [
        _total(lake.read(spark, table, name), value)
        for table, name, value in (
            (EDGES, NAME, "1"),
            (USERS, NAME, "1"),
            (SAMPLES, "sample", "user * (rank + 1)"),
            (SAMPLE_EDGES, "sample", "node * 7 + topic"),
            (CCDF, "sample", "degree * degree * users"),
        )
    ]


def spark_regularity(spark: SparkSession, task: WorkTask, told: WorkOutcome) -> None:
    plan = RegularityPlan(slots_s=(SLOT_S,))
    source = task.lake.path(SESSIONS, NAME)

    def work(out: Path) -> None:
        lake = Lake(out)
        with lake.new_generation(SESSIONS, NAME) as generation:
            for file in source.glob("*.parquet"):
                (generation.folder / file.name).hardlink_to(file)
            generation.commit({})
        analyse(spark, lake, NAME, plan)

    lake = Lake(task.attempts(told, work))
    online = lake.read(spark, PRESENCE, NAME).groupBy("cycle")
    microseconds = F.expr("sum(aggregate(online_s, 0L, (a, s) -> a + cast(round(s * 1000000) AS long)))")
    counts = lake.read(spark, REGULARITY, NAME)
    told.answer = [
        *(row["online"] for row in online.agg(microseconds.alias("online")).orderBy("cycle").collect()),
        _total(counts, "regular * (slot + 1)"),
        _total(counts, "retained * (slot + 1)"),
    ]


def spark_measure(spark: SparkSession, task: WorkTask, told: WorkOutcome) -> None:
    runs = sum(path.is_dir() for path in store_of(task).iterdir())
    if run_sweep(spark, task.lake, NAME, measured_specs(task, runs)).reused < runs:
        raise Bug("the runs to be measured were not all there")
    task.attempts(told, lambda out: measure_runs(spark, task.lake, NAME, "deliveries"))
    series = task.lake.read(spark, SERIES, NAME)
    whole = task.lake.read(spark, DISTRIBUTIONS, NAME).where("when = 'run'")
    told.answer = [
        *(_total(series, name) for name in ("due", "hits", "hops", "copies")),
        *(
            _total(whole.where(F.col("what") == what), "value * count")
            for what in ("hops", "copies", "latency_us")
        ),
        _total(series, "cast(round(disconnected_topics * greatest(published, 1)) AS long)"),
    ]


def spark_sweep(spark: SparkSession, task: WorkTask, told: WorkOutcome) -> None:
    """Short runs; before them one a core, which finds nothing compiled."""
    sizes = task.sizes
    table = scenario(sizes.run_nodes, sizes.run_cycles, 5, SHORT_SUBSCRIPTIONS)
    specs = specs_of(task, table, seeds=sizes.runs + cores())
    first = run_sweep(spark, task.lake, "first", specs[sizes.runs :])
    result = run_sweep(spark, task.lake, NAME, specs[: sizes.runs])
    told.seconds, told.rows = [result.wall_s], result.done
    timings = task.lake.read(spark, RUN_TIMINGS, NAME)
    waited = [row["task_s"] for row in task.lake.read(spark, RUN_TIMINGS, "first").collect()]
    told.more = {
        "simulate_s": result.simulate_s,
        "task_s": _total(timings, "task_s"),
        "cores": cores(),
        "processes": timings.select("process").distinct().count(),
        "failed": len(result.failed) + len(first.failed),
        "first_s": first.wall_s,
        "first_task_s": max(waited),
    }


def _total(frame: DataFrame, value: str) -> Any:
    return frame.agg(F.sum(F.expr(value))).collect()[0][0]


SPARK: dict[str, Callable[[SparkSession, WorkTask, WorkOutcome], None]] = {
    "sample": spark_sample,
    "regularity": spark_regularity,
    "measure": spark_measure,
    "sweep": spark_sweep,
}


def on_spark(part: str, task: WorkTask) -> WorkOutcome:
    """A stage on Spark; how long that took to start is told too."""
    told = WorkOutcome()
    begin = time.perf_counter()
    with open_session(SessionConfig(memory=task.memory)) as spark:
        start_s = time.perf_counter() - begin
        SPARK[part](spark, task, told)
    told.more["start_s"] = start_s
    return told


# --- with DuckDB -----------------------------------------------------------------------------------------


def with_duckdb(part: str, task: WorkTask) -> WorkOutcome:
    """The same, on as many cores."""
    from vinecast.lab.bench.spark import pipeline_duckdb as rival

    told = WorkOutcome()
    kept: list[DuckDBPyConnection] = []

    def work(out: Path) -> None:
        base = rival.connect(out)
        kept[:] = [base]
        if part == "sample":
            rival.sample(base, task.folder / GRAPH, task.sizes.sample, SEED, out)
        elif part == "regularity":
            rival.regularity(base, task.lake.path(SESSIONS, NAME), SLOT_S, out)
        else:
            rival.measure(base, task.lake.path(RUN_DELIVERIES, NAME), out)

    out = task.attempts(told, work)
    answer = {
        "sample": rival.sample_answer,
        "regularity": rival.regularity_answer,
        "measure": rival.measure_answer,
    }[part]
    told.answer = answer(kept[0], out)
    return told


# --- without either --------------------------------------------------------------------------------------


def kept_by_runs(task: WorkTask) -> WorkOutcome:
    """What one and the same run writes, by what it is told to keep."""
    sizes = task.sizes
    table = scenario(sizes.run_nodes, sizes.run_cycles, 5, SHORT_SUBSCRIPTIONS)
    engines: dict[str, tuple[str, list[str]]] = {
        "counts only": ("sweep", []),
        "with deliveries": ("sweep", ["deliveries"]),
        "event engine, with deliveries and records": ("event", ["deliveries", "records"]),
    }
    told = WorkOutcome()
    for name, (engine, keep) in engines.items():
        spec = specs_of(task, {**table, "engine": engine}, keep=keep)[0]
        store = task.folder / spec.run_id
        store.mkdir(exist_ok=True)
        found = run_once(spec, store)
        if found["error"] is not None:
            raise Bug(f"a run that keeps {name} failed: {found['error']}")
        told.more[name] = {key: found[key] for key in ("rows", "bytes")}
    return told


PREPARE: dict[str, Callable[[WorkTask], WorkOutcome]] = {
    "sample": prepare_sample,
    "regularity": prepare_regularity,
    "measure": prepare_measure,
}


def do(step: str, part: str, task: WorkTask) -> WorkOutcome:
    """One piece of work, by its names."""
    if step == "prepare":
        return PREPARE[part](task)
    if step == "spark":
        return on_spark(part, task)
    return with_duckdb(part, task) if step == "duckdb" else kept_by_runs(task)


def main(step: str, part: str, task: str) -> None:
    """Do it and print it."""
    given = json.loads(task)
    told = do(
        step,
        part,
        WorkTask(**{**given, "folder": Path(given["folder"]), "sizes": PipelineSizes(**given["sizes"])}),
    )
    print(json.dumps(asdict(told)))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
