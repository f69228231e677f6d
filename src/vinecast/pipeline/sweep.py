"""Sweeps: scenario × grid × seeds, one Spark task a simulation run.

A task runs the compiled simulator on one thread and writes its own files into the sweep's *store*, a folder
beside the lake's tables (pipeline/runs.py); Spark carries only numbers of runs there and manifest rows back.
The files of the runs that are asked for then become new generations of the lake's tables, as links to the
same files, so nothing is copied. What the store holds is not run again: a sweep that was interrupted goes on,
one that had failures repeats those, and a larger grid adds what is new.
"""

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake, fingerprint_of
from vinecast.pipeline.runs import (
    CODE,
    FAILED,
    TRIES,
    RunSpec,
    arrow_row,
    as_told,
    failed,
    finished,
    lost,
    run_tasks,
)
from vinecast.pipeline.runs_tables import ALWAYS, KEPT, RUN_TIMINGS, RUNS
from vinecast.pipeline.tables import LakeTable

POLL_S = 0.3
"""Seconds between two looks at how far a sweep is."""

Progress = Callable[[int, int, int], object]
"""Told how many runs are done, failed and left."""

MANIFEST = StructType([*RUNS.schema, *(field for field in RUN_TIMINGS.schema if field.name != "run_id")])
"""What a task returns."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep came to."""

    dataset: str
    runs: int
    done: int
    """Runs that are there now."""
    reused: int
    """… which were there before."""
    failed: dict[str, str]
    """Run → why."""
    rows: int
    bytes: int
    wall_s: float
    """Seconds that Spark took."""
    simulate_s: float
    """Seconds inside the simulator, of the runs that were made now."""


def run_sweep(
    spark: SparkSession,
    lake: Lake,
    dataset: str,
    specs: list[RunSpec],
    progress: Progress | None = None,
    again: bool = False,
) -> SweepResult:
    """Run what is missing and publish everything. ``again``: whatever is there, run it anew."""
    with _store(lake, dataset) as store:
        if again:
            for spec in specs:
                shutil.rmtree(store / spec.run_id, ignore_errors=True)
        there = {spec.run_id: told for spec in specs if (told := finished(spec, store)) is not None}
        missing = [spec for spec in specs if spec.run_id not in there]
        for spec in missing:
            (store / f"{spec.run_id}{FAILED}").unlink(missing_ok=True)
        begun = time.perf_counter()
        made = _run_missing(spark, store, missing, len(there), progress) if missing else {}
        wall_s = time.perf_counter() - begun
        rows = [there.get(spec.run_id) or made[spec.run_id] for spec in specs]
        _publish(lake, dataset, specs, rows, store)
    return SweepResult(
        dataset=dataset,
        runs=len(specs),
        done=sum(row["status"] == "ok" for row in rows),
        reused=len(there),
        failed={row["run_id"]: row["error"] for row in rows if row["status"] != "ok"},
        rows=sum(row["rows"] for row in rows),
        bytes=sum(row["bytes"] for row in rows),
        wall_s=wall_s,
        simulate_s=sum(row["simulate_s"] for row in made.values()),
    )


def made_from(specs: list[RunSpec], without: list[str]) -> dict[str, Any]:
    """What the tables of a sweep were made from: which runs, in which place of the grid, and which are not
    there. With a failure it is not what was asked for, so that the sweep counts as stale."""
    runs = {spec.run_id: spec.settings for spec in specs}
    keep = sorted({name for spec in specs for name in spec.keep})
    told = {"stage": "sweep", "code": CODE, "runs": runs, "keep": keep}
    return told | ({"failed": sorted(without)} if without else {})


def results_of(lake: Lake, dataset: str, table: LakeTable = RUNS) -> dict[str, Any]:
    """Which runs a table of a sweep is of, and what they wrote: all that belongs together has the same."""
    found = lake.current(table, dataset)
    return {"runs": found.fingerprint, "results": found.notes.get("results")}


@contextmanager
def _store(lake: Lake, dataset: str) -> Iterator[Path]:
    """The folder of a sweep's runs, for one sweep at a time; leavings of a killed one are swept away."""
    lake.published(RUNS, dataset)  # refuses a bad name, and a lake that is newer than we are
    store = lake.folder.absolute() / "sweeps" / f"v{RUNS.version}" / dataset
    try:
        store.mkdir(parents=True, exist_ok=True)
        with (store / ".lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{store}: another sweep of this name is running") from None
            _clear(store)
            yield store
            _clear(store)
    except OSError as error:
        raise InputError(f"{store}: cannot be written ({error.strerror or error})") from None


def _clear(store: Path) -> None:
    """Remove what tasks that were killed have left; with it they are forgiven, and may be tried again."""
    for leaving in (*store.glob(".*.partial"), *store.glob(".*.old"), *store.glob(f"*{TRIES}")):
        if leaving.is_dir():
            shutil.rmtree(leaving, ignore_errors=True)
        else:
            leaving.unlink(missing_ok=True)


def _run_missing(
    spark: SparkSession, store: Path, specs: list[RunSpec], there: int, progress: Progress | None
) -> dict[str, dict[str, Any]]:
    """Run these, those that promise to be long first, lest one be left alone at the end; their manifest rows
    by run id."""
    specs = sorted(specs, key=lambda spec: -spec.scenario["nodes"] * spec.scenario["cycles"])
    schema = to_arrow_schema(MANIFEST)
    frame = spark.range(0, len(specs), 1, len(specs)).mapInArrow(  # a partition a run
        run_tasks(specs, str(store), schema), MANIFEST
    )
    returned: list[Any] = []

    def act() -> None:
        try:
            returned.append(frame.toArrow())
        except Exception as error:
            returned.append(error)

    thread = threading.Thread(target=act, name="sweep", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_S)
        if progress is not None:
            done, gone = _look(store, specs)
            progress(there + done, gone, len(specs) - done - gone)
    if isinstance(returned[0], pa.Table):
        return {row["run_id"]: as_told(row) for row in returned[0].to_pylist()}
    return _salvage(store, specs, returned[0])


def _look(store: Path, specs: list[RunSpec]) -> tuple[int, int]:
    """How many of these are done, and how many have failed."""
    names = {entry.name for entry in os.scandir(store)}
    return (
        sum(spec.run_id in names for spec in specs),
        sum(f"{spec.run_id}{FAILED}" in names for spec in specs),
    )


def _salvage(store: Path, specs: list[RunSpec], error: Exception) -> dict[str, dict[str, Any]]:
    """Spark gave up, after tasks were lost again and again: what came to an end counts all the same."""
    found = {spec.run_id: finished(spec, store) or failed(spec, store) for spec in specs}
    reason = f"its task was lost ({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})"
    if not any(found.values()):
        raise InputError(f"{store}: Spark gave up on every run: {reason}") from error
    return {spec.run_id: found[spec.run_id] or lost(spec, reason) for spec in specs}


def _publish(lake: Lake, dataset: str, specs: list[RunSpec], told: list[dict[str, Any]], store: Path) -> None:
    """New generations of all tables of the sweep; the manifest last, since whoever reads begins there."""
    source = made_from(specs, [row["run_id"] for row in told if row["status"] != "ok"])
    notes = {"results": fingerprint_of({row["run_id"]: row["sha256"] for row in told})}
    kept = [table for name in source["keep"] for table in KEPT[name]]
    for table in (*ALWAYS, *kept):
        with lake.new_generation(table, dataset) as generation:
            for row in told:
                if row["status"] == "ok":
                    file = store / row["run_id"] / f"{table.name}.parquet"
                    _link(file, generation.folder / f"{row['run_id']}.parquet")
            generation.commit(source, notes)
    for table in (RUN_TIMINGS, RUNS):
        with lake.new_generation(table, dataset) as generation:
            pq.write_table(_manifest(table, told), generation.folder / "all.parquet", compression="zstd")
            generation.commit(source, notes)


def _manifest(table: LakeTable, told: list[dict[str, Any]]) -> pa.Table:
    """The columns of one table out of manifest rows, in order of run."""
    names = [field.name for field in table.schema]
    rows = [{name: arrow_row(row)[name] for name in names} for row in told]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["run_id"]), to_arrow_schema(table.schema))


def _link(file: Path, place: Path) -> None:
    """The same file under another name, or a copy where the disk knows no links."""
    try:
        place.hardlink_to(file)
    except OSError:
        shutil.copyfile(file, place)
