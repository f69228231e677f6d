"""Reports: the measures of a sweep over the axes of its grid, with mean and spread over the seeds.

A report is a folder: ``index.html`` stands alone (its pictures are inside it, and it asks no network for
anything), ``report.md`` and ``points.csv`` hold the same tables, and the figures are there as PNG and SVG.
Same measures, same bytes.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake, fingerprint_of
from vinecast.pipeline.report_pages import Page, check_axis, write_pages
from vinecast.pipeline.runs_tables import DISTRIBUTIONS, MEASURES, POINTS, RUNS, SERIES, conform
from vinecast.pipeline.sweep import results_of
from vinecast.sim.measure.figures import check_drawing
from vinecast.systems.registry import SYSTEMS

OVERLAY_MEASURES = ("online", "in_degree_mean", "in_degree_std", "in_degree_max", "dead_links")
TOPIC_MEASURES = (
    *("hit_ratio", "miss_ratio", "hops_mean", "hops_p99", "duplication", "latency_ms_p50", "latency_ms_p99"),
    *("traffic_overhead", "missing_links", "control_messages", "control_bytes"),
)
"""What is reported unless measures are named; what was not measured is left out."""
WHENS = ("run", "last")
MARK = "report.json"
_CODE = 1  # raise it when the same measures would give another report
LINES_MAX = 12  # ours: more curves in one picture tell nothing


@dataclass(frozen=True, slots=True)
class ReportConfig:
    """Which measures a report shows, and how."""

    title: str = ""
    """At the top; the sweep's name unless given."""
    measures: tuple[str, ...] = ()
    """Columns of the table of measures; none: the usual ones."""
    when: str = "run"
    """All publications together, or the last."""
    x: str | None = None
    """The axis from left to right; none: the first whose values are numbers."""

    def __post_init__(self) -> None:
        known = [field.name for field in MEASURES.schema if field.dataType.simpleString() == "double"]
        for name in self.measures:
            if name not in known:
                raise InputError(f"there is no measure {name!r} (there: {', '.join(known)})")
        if self.when not in WHENS:
            raise InputError(f"when is {' or '.join(WHENS)}, not {self.when!r}")


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What was written."""

    folder: Path
    points: int
    measures: tuple[str, ...]
    files: tuple[str, ...]


# --- transforms ------------------------------------------------------------------------------------------


def point_of() -> Column:
    """A run's place in the grid, as JSON."""
    return F.to_json("settings")


def points_of(runs: DataFrame, measures: DataFrame, names: tuple[str, ...], when: str) -> DataFrame:
    """Measures at every point of the grid over its seeds.

    Values are sorted before they are added, so that the last bit does not depend on who came first.
    """
    there = runs.where(F.col("status") == "ok").select("run_id", point_of().alias("point"))
    chosen = measures.where((F.col("by") == "all") & (F.col("when") == when))
    each = F.explode(
        F.array(*(F.struct(F.lit(name).alias("measure"), F.col(name).alias("value")) for name in names))
    )
    values = (
        chosen.join(there, "run_id", "inner")
        .select("point", each.alias("told"))
        .select("point", "told.measure", "told.value")
        .where(F.col("value").isNotNull())
        .groupBy("point", "measure")
        .agg(F.array_sort(F.collect_list("value")).alias("values"))
    )
    count = F.size("values")
    mean = _sum(F.col("values")) / count
    squares = _sum(F.transform("values", lambda value: (value - F.col("mean")) ** 2))
    found = values.withColumn("mean", mean).select(
        *("point", "measure", "mean"),
        count.alias("runs"),
        F.sqrt(squares / F.greatest(count - 1, F.lit(1))).alias("std"),
        F.array_min("values").alias("low"),
        F.array_max("values").alias("high"),
    )  # fmt: skip
    return conform(found, POINTS)


def _sum(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + value)


def shares_of(runs: DataFrame, distributions: DataFrame, what: str, when: str) -> DataFrame:
    """The distribution at every point of the grid, all seeds together: ``point``, ``value``, ``count``."""
    there = runs.where(F.col("status") == "ok").select("run_id", point_of().alias("point"))
    chosen = distributions.where((F.col("what") == what) & (F.col("when") == when))
    return (
        chosen.join(there, "run_id", "inner")
        .groupBy("point", "value")
        .agg(F.sum("count").alias("count"))
        .orderBy("point", "value")
    )


def curves_of(runs: DataFrame, series: DataFrame) -> DataFrame:
    """The miss ratio of every publication, all seeds together: ``point``, ``cycle``, ``miss_ratio``."""
    there = runs.where(F.col("status") == "ok").select("run_id", point_of().alias("point"))
    added = series.join(there, "run_id", "inner").groupBy("point", "cycle").agg(
        F.sum("due").alias("due"), F.sum("hits").alias("hits")
    )  # fmt: skip
    missed = (F.col("due") - F.col("hits")) / F.greatest("due", F.lit(1))
    return added.select("point", "cycle", missed.alias("miss_ratio")).orderBy("point", "cycle")


# --- the job ---------------------------------------------------------------------------------------------


def made_from(lake: Lake, dataset: str, config: ReportConfig) -> dict[str, Any]:
    """What a report is made from."""
    tables = {table.name: lake.current(table, dataset).fingerprint for table in (RUNS, MEASURES)}
    settings = json.loads(json.dumps(asdict(config)))
    return {"stage": "report", "code": _CODE, "dataset": dataset, **tables, **settings}


def check_measured(lake: Lake, dataset: str) -> None:
    """InputError unless measures, series and distributions belong together, and are of the runs there are."""
    measures = lake.current(MEASURES, dataset)
    told = [lake.current(table, dataset).fingerprint for table in (SERIES, DISTRIBUTIONS)]
    runs = results_of(lake, dataset)
    if any(one != measures.fingerprint for one in told) or not runs.items() <= measures.made_from.items():
        raise InputError(f"{lake.folder}: the measures of {dataset!r} are not of its runs: measure it again")


def check_folder(folder: Path) -> None:
    """InputError unless a report can be put there: nothing else is ever replaced."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, so no report can be put there: choose another folder")
    if folder.is_dir() and not (folder / MARK).is_file() and any(folder.iterdir()):
        raise InputError(f"{folder} is not a report's folder, so it is not replaced: choose another one")


def is_fresh(lake: Lake, dataset: str, config: ReportConfig, folder: Path) -> bool:
    """Whether this very report stands in the folder."""
    try:
        told = json.loads((folder / MARK).read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(told == fingerprint_of(made_from(lake, dataset, config)))


def write_report(
    spark: SparkSession,
    lake: Lake,
    dataset: str,
    folder: Path,
    config: ReportConfig | None = None,
    name: str | None = None,
) -> ReportResult:
    """Report a sweep that was measured; the folder is replaced as a whole, if it is a report.

    name: the report's own in the lake, where a sweep has several; the sweep's unless given
    """
    check_drawing()
    check_measured(lake, dataset)
    check_folder(folder)
    config = config or ReportConfig()
    origin = made_from(lake, dataset, config)
    runs, measures = lake.read(spark, RUNS, dataset), lake.read(spark, MEASURES, dataset)
    order = [row[0] for row in _in_grid_order(runs).collect()]
    if not order:
        raise InputError(
            f"{lake.folder}: no run of {dataset!r} came to an end, so there is nothing to report"
        )
    check_axis(order, config.x)
    names = config.measures or _usual(runs)
    frame = (
        points_of(runs, measures, names, config.when).repartition(1).sortWithinPartitions("point", "measure")
    )
    with lake.new_generation(POINTS, name or dataset) as generation:
        generation.write(frame)
        if not generation.count_rows():
            raise InputError(f"{lake.folder}: nothing of {', '.join(names)} was measured of {dataset!r}")
        told = generation.commit(origin)
    points = [row.asDict() for row in lake.read_published(spark, POINTS, told).collect()]
    few = len({row["point"] for row in points}) <= LINES_MAX
    page = Page(
        title=config.title or dataset,
        points=points,
        order=order,
        measures=tuple(name for name in names if any(row["measure"] == name for row in points)),
        x=config.x,
        hops=_rows(shares_of(runs, lake.read(spark, DISTRIBUTIONS, dataset), "hops", config.when), few),
        curves=_rows(curves_of(runs, lake.read(spark, SERIES, dataset)), few),
        failed=[(row[0], row[1]) for row in runs.where("status != 'ok'").select("run_id", "error").collect()],
        runs=lake.current(RUNS, dataset).rows,
    )
    with _replaced(folder) as partial:
        write_pages(page, partial)
        (partial / MARK).write_text(
            json.dumps({"dataset": dataset, "fingerprint": fingerprint_of(origin)}, indent=2) + "\n"
        )
        files = tuple(sorted(path.name for path in partial.iterdir()))
    return ReportResult(folder, len(page.order), page.measures, files)


def _rows(frame: DataFrame, wanted: bool) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()] if wanted else []


def _usual(runs: DataFrame) -> tuple[str, ...]:
    """The usual measures of the systems that ran."""
    systems = [row[0] for row in runs.select("system").distinct().collect()]
    if any(SYSTEMS[system].has_topics for system in systems):
        return TOPIC_MEASURES
    return OVERLAY_MEASURES


def _in_grid_order(runs: DataFrame) -> DataFrame:
    """The points of the grid that have a result; numbers are sorted as numbers by whoever draws."""
    ok = runs.where(F.col("status") == "ok")
    return ok.select(point_of().alias("point")).distinct().orderBy("point")


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the report's place when it is complete."""
    check_folder(folder)
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
        partial.chmod(0o755)
        try:
            yield partial
            if folder.exists():
                old = folder.rename(partial.with_name(f"{partial.name}.old"))
                partial.rename(folder)
                shutil.rmtree(old)
            else:
                partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror or error})") from None
