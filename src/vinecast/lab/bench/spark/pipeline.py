"""Speed and memory of the pipeline, next to the targets we set ourselves.

Inputs are synthetic and as large as the real ones were. Every piece of work has a process of its own, which
is watched from outside: its memory is that of the whole tree, the JVM and the Python workers included. The
same work is then done by DuckDB on the same cores, and both must come to the same result. Times are without
the start of Spark, which is told, and the best of several where the work is repeated.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vinecast.core.errors import Bug, InputError
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.process_tree import Watched, watch
from vinecast.lab.bench.result import Result, at_most
from vinecast.lab.bench.spark.pipeline_inputs import PipelineSizes

PARTS = ("sample", "regularity", "measure", "sweep", "kept")
GB_MAX = 8
RATIO_MAX = 3
SHARE_MIN = 0.85
_SAVED = re.compile(r"\[cache\] data saved to '([^']+)'")

Tell = Callable[[str], object]
"""Told what is being done."""


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Which parts of the pipeline are measured, and on how much."""

    sizes: PipelineSizes
    parts: Sequence[str] = PARTS
    repeat: int = 1
    memory: str | None = None
    """The JVM's heap; None: as for every command."""

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise InputError(f"the benchmark has no part {part!r}: {', '.join(PARTS)}")


def bench_pipeline(plan: PipelinePlan, tell: Tell = lambda text: None) -> Iterator[Result]:
    """All figures, one after the other."""
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    for part in PARTS:
        if part in plan.parts:
            with _folder() as folder:
                yield from _FIGURES[part](_Bench(part, plan, folder, tell))


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="vinecast-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Bench:
    """One part of the benchmark, and what it takes to run it."""

    part: str
    plan: PipelinePlan
    folder: Path
    tell: Tell

    def do(self, step: str, **environment: str) -> tuple[dict[str, Any], Watched]:
        """A piece of work, in a process of its own."""
        self.tell(f"{self.part}: {step}")
        task = {
            "folder": str(self.folder),
            "sizes": asdict(self.plan.sizes),
            "memory": self.plan.memory,
            "repeat": self.plan.repeat,
        }
        module = "vinecast.lab.bench.spark.pipeline_work"
        watched = watch(["-m", module, step, self.part, json.dumps(task)], environment)
        return json.loads(watched.output.splitlines()[-1]), watched

    def compare(self, what: str, unit: str) -> Iterator[Result]:
        """A stage on Spark beside the same with DuckDB."""
        made, _ = self.do("prepare")
        spark, watched = self.do("spark")
        seconds, rows = min(spark["seconds"]), made["rows"]
        cpu = min(spark["cpu"])
        yield Result(what, f"{seconds:.1f} s ({cpu:.1f} s of processor time)", seconds)
        yield Result(f"{what}, {unit} a second", f"{rows / seconds:,.0f}", rows / seconds)
        if len(spark["seconds"]) > 1:
            first = spark["seconds"][0]
            yield Result(f"{what}, the first time, before Java is warm", f"{first:.1f} s", first)
        if "ingest_s" in spark["more"]:
            told = spark["more"]["ingest_s"]
            yield Result(f"{what}, of which ingest", f"{told:.1f} s", told)
        yield _memory(what, watched)
        rival = self._rival()
        if rival is None:
            yield Result(f"{what}, against DuckDB", "DuckDB is not installed (extra 'bench')", float("nan"))
            return
        if rival["answer"] != spark["answer"]:
            raise Bug(f"{what}: Spark has {spark['answer']}, DuckDB {rival['answer']}")
        other = min(rival["seconds"])
        figures = f"{other:.1f} s ({min(rival['cpu']):.1f} s of processor time, {rival['gb']:.1f} GB)"
        against = f"{what}, against DuckDB's {figures}"
        ratio = at_most(against, seconds / other, RATIO_MAX, "times as long", ".2f")
        yield ratio if self.plan.sizes == PipelineSizes() else replace(ratio, target="", meets=None)
        start = spark["more"]["start_s"]
        yield Result(f"{what}, the start of Spark before it", f"{start:.1f} s", start)

    def _rival(self) -> dict[str, Any] | None:
        try:
            import duckdb  # noqa: F401
        except ImportError:
            return None
        found, watched = self.do("duckdb")
        return {**found, "gb": watched.peak / 1e9}


def _memory(what: str, watched: Watched) -> Result:
    gb, java = watched.peak / 1e9, watched.java / 1e9
    told = f"{gb:.1f} GB (Java {java:.1f}, Python {gb - java:.1f})"
    return Result(f"{what}, peak memory", told, gb, f"≤ {GB_MAX} GB", gb <= GB_MAX)


def _sample(bench: _Bench) -> Iterator[Result]:
    sizes = bench.plan.sizes
    what = f"ingest of {sizes.edges:,} edges and a breadth-first sample of {sizes.sample:,} users"
    return bench.compare(what, "edges")


def _regularity(bench: _Bench) -> Iterator[Result]:
    sizes = bench.plan.sizes
    what = f"regularity of {sizes.trace_nodes:,} nodes over {sizes.trace_days} days, day and week by hours"
    return bench.compare(what, "sessions")


def _measure(bench: _Bench) -> Iterator[Result]:
    return bench.compare(f"measures from {bench.plan.sizes.deliveries:,} deliveries", "deliveries")


def _sweep(bench: _Bench) -> Iterator[Result]:
    sizes = bench.plan.sizes
    cache = {"VINECAST_CACHE_DIR": str(bench.folder / "cache"), "NUMBA_DEBUG_CACHE": "1"}
    found, watched = bench.do("spark", **cache)
    more, wall_s = found["more"], found["seconds"][0]
    if more["failed"]:
        raise Bug(f"{more['failed']} runs of the benchmark's sweep failed")
    run_s = more["simulate_s"] / sizes.runs
    what = f"sweep of {sizes.runs} runs, {sizes.run_nodes} nodes, {sizes.run_cycles} cycles"
    yield Result(what, f"{wall_s:.1f} s", wall_s)
    yield Result(f"{what}, a run's simulation", f"{run_s:.2f} s", run_s)
    share = more["simulate_s"] / (wall_s * more["cores"])
    told = f"{share:.1%}"
    target = f"≥ {SHARE_MIN:.0%}"
    yield Result(
        f"{what}, {more['cores']} cores' time in simulations", told, share, target, share >= SHARE_MIN
    )
    around = (more["task_s"] - more["simulate_s"]) / sizes.runs
    yield Result(f"{what}, a run's time around its simulation", f"{around * 1000:.0f} ms", around)
    idle = (wall_s * more["cores"] - more["task_s"]) / sizes.runs
    yield Result(f"{what}, a task's time around its run", f"{idle * 1000:.0f} ms", idle)
    yield _memory(what, watched)
    if COMPILED:
        yield _compiled(what, more, watched)


def _compiled(what: str, more: dict[str, Any], watched: Watched) -> Result:
    """Numba tells of every piece of machine code that it keeps; a second time would be waste."""
    saved = _SAVED.findall(watched.errors)
    times = len(saved) / max(len(set(saved)), 1)
    told = f"{len(set(saved))} functions, {times:.2f} times each, in {more['first_task_s']:.0f} s"
    return Result(
        f"{what} by {more['processes']} processes, compiled before the first", told, times, "once", times == 1
    )


def _kept(bench: _Bench) -> Iterator[Result]:
    sizes = bench.plan.sizes
    found, _ = bench.do("kept")
    for name, told in found["more"].items():
        what = f"a run of {sizes.run_nodes} nodes, {sizes.run_cycles} cycles, {name}"
        yield Result(what, f"{told['rows']:,} rows, {told['bytes']:,} bytes", told["bytes"])


_FIGURES: dict[str, Callable[[_Bench], Iterator[Result]]] = {
    "sample": _sample,
    "regularity": _regularity,
    "measure": _measure,
    "sweep": _sweep,
    "kept": _kept,
}
