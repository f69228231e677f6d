"""One run of a sweep, from a specification to files: what a Spark task does, with no Spark in it.

A run's files appear in the store under the run's id in one step, when all of them are written. Whoever finds
them there does not run it again, so a task that is repeated, or run twice at a time, does no harm: same run,
same bytes. What differs from one time to the next (seconds, host, process) is told beside the files, in
``run.json``, and never in them. A run that fails leaves its reason in ``<run id>.failed``. One that takes its
process with it (for want of memory, mostly) cannot; so every start leaves a mark in ``<run id>.tries``, and
after a few without an end it counts as failed, before Spark loses its patience with all runs.
"""

import fcntl
import gc
import hashlib
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.errors import InputError, VinecastError
from vinecast.core.rule import cache_folder
from vinecast.pipeline.runs_tables import (
    ALWAYS,
    KEPT,
    PRESENCE_COLUMNS,
    RUN_CLASSES,
    RUN_COUNTS,
    RUN_CYCLE_COLUMNS,
    RUN_CYCLES,
    RUN_DELIVERIES,
    RUN_HISTOGRAMS,
    RUN_PRESENCE,
    RUN_PUBLICATIONS,
    RUN_RECORDS,
    RUN_SUBSCRIPTIONS,
    SUBSCRIPTION_COLUMNS,
)
from vinecast.pipeline.tables import LakeTable
from vinecast.sim.measure.deliveries import (
    COUNT_COLUMNS,
    HISTOGRAM_COLUMNS,
    PUBLICATION_COLUMNS,
    Counter,
    DeliveryWriter,
    schema_of,
)
from vinecast.sim.measure.metrics import Reach
from vinecast.sim.measure.records import TraceWriter
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import FILE_KEYS, Resolved, Scenario, resolve
from vinecast.sim.scenario.watch import CLASS_COLUMNS, OnDissemination

TOLD = "run.json"
FAILED = ".failed"
TRIES = ".tries"
TRIES_MAX = 3
"""Starts without an end after which a run is given up; Spark gives up all runs at a fourth failure."""
CODE = 1
"""Raise it when the same scenario would give other rows."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """All that a task has to know."""

    run_id: str
    seed: int
    settings: dict[str, str]
    """Axis → value, as JSON."""
    scenario: dict[str, Any]
    """The resolved scenario, as tables."""
    folder: str
    """Where the names of the scenario's files start from."""
    data: str | None
    """The data folder."""
    places: dict[str, str]
    """Where the scenario names a file (``section.key``) → where that lies."""
    keep: tuple[str, ...]
    """What to write besides (``runs_tables.KEPT``)."""

    @property
    def tables(self) -> tuple[LakeTable, ...]:
        """What the run writes."""
        return (*ALWAYS, *(table for name in self.keep for table in KEPT[name]))


def run_once(spec: RunSpec, store: Path) -> dict[str, Any]:
    """Do a run, unless its files are there; what there is to tell of it, failed or not."""
    told = finished(spec, store)
    if told is not None:
        return told
    begun = time.perf_counter()
    partial: Path | None = None
    try:
        _count_start(store / f"{spec.run_id}{TRIES}")
        partial = Path(tempfile.mkdtemp(prefix=f".{spec.run_id}.", suffix=".partial", dir=store))
        simulate_s = _run(spec, partial)
        about = {
            "tables": {table.name: _weigh(_file(partial, table)) for table in spec.tables},
            "timing": {"simulate_s": simulate_s, "task_s": time.perf_counter() - begun, **_here()},
        }
        (partial / TOLD).write_text(json.dumps(about, sort_keys=True), encoding="utf-8")
        _move_in(spec, partial, store)
        told = _tell(spec, about)
    except Exception as error:
        if (
            told := finished(spec, store)
        ) is not None:  # a twin was faster, and took our folder for a leaving
            return told
        told = lost(spec, _sentence(error)) | {"task_s": time.perf_counter() - begun}
        with suppress(OSError):  # where the disk is full, the row that is returned says so
            _write_whole(store / f"{spec.run_id}{FAILED}", json.dumps(told, sort_keys=True))
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
    return told


def finished(spec: RunSpec, store: Path) -> dict[str, Any] | None:
    """What a run that is complete in the store tells of itself; None where there is none."""
    folder = store / spec.run_id
    if not all((folder / f"{table.name}.parquet").is_file() for table in spec.tables):
        return None
    try:
        return _tell(spec, json.loads((folder / TOLD).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError):
        return None


def failed(spec: RunSpec, store: Path) -> dict[str, Any] | None:
    """What a run that failed in this sweep told of itself; None where there is nothing."""
    try:
        told: dict[str, Any] = json.loads((store / f"{spec.run_id}{FAILED}").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return told


def _tell(spec: RunSpec, about: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest row of a complete run. It speaks of what was asked for, whatever else the run wrote, and
    by the names of today's grid: an earlier sweep may have had others for the same scenario."""
    weights = [about["tables"][table.name] for table in spec.tables]
    digests = "".join(weight["sha256"] for weight in weights)
    return {
        **_row(spec),
        "rows": sum(weight["rows"] for weight in weights),
        "bytes": sum(weight["bytes"] for weight in weights),
        "sha256": hashlib.sha256(digests.encode()).hexdigest(),
        **about["timing"],
    }


def _count_start(path: Path) -> None:
    """Leave a mark; InputError when there are too many of starts that came to no end."""
    with path.open("ab") as file:
        before = file.tell()
        file.write(b".")
    if before >= TRIES_MAX:
        raise InputError(f"its process died {before} times; was there enough memory?")


def lost(spec: RunSpec, reason: str) -> dict[str, Any]:
    """What to tell of a run that came to nothing."""
    return {**_row(spec, "failed", reason), "simulate_s": 0.0, "task_s": 0.0, **_here()}


def _run(spec: RunSpec, folder: Path) -> float:
    """Simulate and write all tables into a folder; the seconds inside the simulator."""
    resolved = _placed(resolve(spec.scenario, Path(spec.folder)), spec.places)
    _compile_once(resolved)
    data = Path(spec.data) if spec.data is not None else None
    counter = Counter(resolved.config.period_us)
    listeners: list[OnDissemination] = [counter]
    trace: TraceWriter | None = None
    with ExitStack() as closing:
        if "deliveries" in spec.keep:
            writer = DeliveryWriter(_file(folder, RUN_DELIVERIES), spec.run_id)
            closing.callback(writer.close)
            listeners.append(writer)
        witness = _Witness()
        if "records" in spec.keep:
            trace = TraceWriter(_file(folder, RUN_RECORDS), spec.run_id)
            closing.callback(trace.close)
            listeners.append(witness)
        begun = time.perf_counter()
        outcome = simulate(resolved, data=data, trace=trace, on_dissemination=_all(listeners))
        simulate_s = time.perf_counter() - begun
    _write(folder, spec.run_id, RUN_CYCLES, outcome.rows, RUN_CYCLE_COLUMNS)
    _write(folder, spec.run_id, RUN_CLASSES, outcome.classes, CLASS_COLUMNS)
    _write(folder, spec.run_id, RUN_PUBLICATIONS, counter.publications, PUBLICATION_COLUMNS)
    _write(folder, spec.run_id, RUN_COUNTS, counter.counts, COUNT_COLUMNS)
    _write(folder, spec.run_id, RUN_HISTOGRAMS, counter.histograms(), HISTOGRAM_COLUMNS)
    if "records" in spec.keep:
        _write(folder, spec.run_id, RUN_SUBSCRIPTIONS, witness.subscriptions, SUBSCRIPTION_COLUMNS)
        _write(folder, spec.run_id, RUN_PRESENCE, witness.presence, PRESENCE_COLUMNS)
    return simulate_s


def _compile_once(resolved: Resolved) -> None:
    """Let one process of a machine compile the simulator while the others wait, instead of all at once.

    A tiny run does it. Whatever that leaves uncompiled is compiled by whoever meets it first.
    """
    folder = cache_folder()
    scenario = resolved.scenario
    if folder is None or scenario.engine != "sweep":
        return
    done = folder / f"compiled-{scenario.system}-{scenario.sweep.setting}"
    if done.exists():
        return
    with suppress(OSError), (folder / "compiling").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            little = Scenario(
                name="compile", seed=1, nodes=40, cycles=2, system=scenario.system, sweep=scenario.sweep
            )
            with suppress(VinecastError):
                simulate(replace(resolved, scenario=little))
            done.touch()


class _Witness:
    """Remembers who subscribes to what and who was held to which publication, for those who read records."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, NDArray[Any]] = {
            name: np.zeros(0, np.int32) for name in SUBSCRIPTION_COLUMNS
        }
        self._cycles: list[NDArray[np.int32]] = []
        self._nodes: list[NDArray[np.int32]] = []

    def __call__(
        self,
        cycle: int,
        profiles: Profiles,
        dissemination: Dissemination,
        expected: NDArray[np.bool_],
        reach: Reach,
    ) -> None:
        if not self._cycles:
            node = np.repeat(np.arange(profiles.peers, dtype=np.int32), profiles.cnt)
            topics = [profiles.topics_of(peer) for peer in range(profiles.peers)]
            self.subscriptions = {"node": node, "topic": np.concatenate(topics)}
        present = np.flatnonzero(expected).astype(np.int32)
        self._nodes.append(present)
        self._cycles.append(np.full(present.size, cycle, dtype=np.int32))

    @property
    def presence(self) -> dict[str, NDArray[Any]]:
        """Columns of ``PRESENCE_COLUMNS``."""
        empty = [np.zeros(0, np.int32)]
        return {"cycle": np.concatenate(self._cycles or empty), "node": np.concatenate(self._nodes or empty)}


def _all(listeners: list[OnDissemination]) -> OnDissemination:
    def tell(*what: Any) -> None:
        for listener in listeners:
            listener(*what)

    return tell


def _placed(resolved: Resolved, places: Mapping[str, str]) -> Resolved:
    """The same scenario with the lake's folders in the place of its datasets' names."""
    scenario = resolved.scenario
    for section, key in FILE_KEYS:
        table = getattr(scenario, section)
        place = places.get(f"{section}.{key}")
        if place is not None:
            scenario = replace(scenario, **{section: replace(table, **{key: place})})
    return replace(resolved, scenario=scenario)


def _file(folder: Path, table: LakeTable) -> Path:
    return folder / f"{table.name}.parquet"


def _write(
    folder: Path,
    run_id: str,
    table: LakeTable,
    content: list[dict[str, Any]] | dict[str, NDArray[Any]],
    columns: Mapping[str, str],
) -> None:
    """Write one of the run's tables, given by rows or by columns."""
    schema = schema_of(dict(columns))
    if isinstance(content, dict):
        found = pa.table(content).cast(schema)
    else:
        found = pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in content], schema)
    ids = pa.array([run_id] * found.num_rows, pa.string())
    pq.write_table(found.add_column(0, "run_id", ids), _file(folder, table), compression="zstd")


def _row(spec: RunSpec, status: str = "ok", error: str | None = None) -> dict[str, Any]:
    """What the manifest says of a run whatever becomes of it."""
    scenario = spec.scenario
    return {
        "run_id": spec.run_id,
        "seed": spec.seed,
        "settings": spec.settings,
        "scenario": json.dumps(scenario, sort_keys=True, ensure_ascii=False),
        "system": scenario["system"],
        "engine": scenario["engine"],
        "nodes": scenario["nodes"],
        "cycles": scenario["cycles"],
        "period_us": resolve(scenario, Path()).config.period_us,
        "status": status,
        "error": error,
        "rows": 0,
        "bytes": 0,
        "sha256": None,
    }


def _weigh(path: Path) -> dict[str, Any]:
    """Rows, bytes and digest of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"rows": pq.read_metadata(path).num_rows, "bytes": path.stat().st_size, "sha256": digest}


def _here() -> dict[str, Any]:
    return {"host": socket.gethostname(), "process": os.getpid()}


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, VinecastError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
    )


def _move_in(spec: RunSpec, partial: Path, store: Path) -> None:
    """Give a complete run its name; if a twin of this task was faster, its files are as good as ours."""
    place = store / spec.run_id
    partial.chmod(0o755)
    try:
        partial.rename(place)
    except OSError:
        if finished(spec, store) is not None:
            return
        place.rename(partial.with_suffix(".old"))  # an earlier run, which kept less
        partial.rename(place)
        shutil.rmtree(partial.with_suffix(".old"), ignore_errors=True)
    for mark in (FAILED, TRIES):
        (store / f"{spec.run_id}{mark}").unlink(missing_ok=True)


def _write_whole(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def run_tasks(
    specs: list[RunSpec], store: str, schema: "pa.Schema"
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over the numbers of runs, one a partition: does them, and returns manifest rows."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                told = run_once(specs[number], Path(store))
                _spare_the_collector()
                yield pa.RecordBatch.from_pylist([arrow_row(told)], schema=schema)

    return work


@cache
def _spare_the_collector() -> None:
    """After a worker's first run: leave the compiled simulator out of garbage collections from now on.

    Spark's workers collect garbage after every task, and Numba's objects are so many that it would take as
    long as a short run.
    """
    gc.collect()
    gc.freeze()


def arrow_row(told: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest row as Arrow takes it: a map is a list of pairs."""
    return {**told, "settings": list(told["settings"].items())}


def as_told(row: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest row as it comes back from Arrow."""
    return {**row, "settings": dict(row["settings"])}
