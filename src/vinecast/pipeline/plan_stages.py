"""The stages of a pipeline: what each needs, what it makes, what that depends on, and how it is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vinecast.core.config import limited, read
from vinecast.core.errors import InputError
from vinecast.pipeline import measure, regularity, report, sample, sweep
from vinecast.pipeline.ingest.job import (
    MAX_BAD,
    check_kind,
    ingest,
    ingest_made_from,
    scan_all,
    tables_of,
    too_many_bad,
)
from vinecast.pipeline.lake import Lake, check_name
from vinecast.pipeline.runs_tables import (
    ALWAYS,
    DISTRIBUTIONS,
    KEPT,
    MEASURES,
    POINTS,
    RUN_TIMINGS,
    RUNS,
    SERIES,
)
from vinecast.pipeline.sweep import Progress
from vinecast.pipeline.sweep_file import SweepFile, expand, lake_inputs, read_sweep, sweep_of
from vinecast.pipeline.tables import EDGES, SESSIONS, USERS, LakeTable
from vinecast.sim.scenario.scenario import find_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place = tuple[LakeTable, str]
"""A table and a dataset of it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the names of files start from."""

    folder: Path
    data: Path | None


@dataclass(frozen=True, slots=True)
class Done:
    """What a stage came to, in words; not ``ok`` where something is missing in it."""

    summary: str
    ok: bool = True


class Stage(Protocol):
    """One stage of a pipeline."""

    @property
    def name(self) -> str:
        """What to call it."""

    def needs(self) -> list[Place]:
        """What it reads from the lake."""

    def makes(self) -> list[Place]:
        """What it publishes."""

    def made_from(self, lake: Lake) -> dict[str, Any]:
        """All that its result depends on."""

    def missing(self, lake: Lake) -> str:
        """What is missing of its result outside the lake, in words."""

    def run(self, spark: "SparkSession", lake: Lake, progress: Progress | None) -> Done:
        """Make it."""


class _InTheLake:
    """A stage whose result is all in the lake."""

    def missing(self, lake: Lake) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """The settings of an ``ingest``."""

    kind: str
    file: str
    directed: bool = True
    max_bad: float = limited(MAX_BAD, at_least=0, at_most=1)


@dataclass(frozen=True, slots=True)
class Ingest:
    """A raw file into tables."""

    settings: IngestSettings
    dataset: str
    around: Surroundings

    @property
    def name(self) -> str:
        return f"ingest {self.dataset}"

    def needs(self) -> list[Place]:
        return []

    def makes(self) -> list[Place]:
        kind = check_kind(self.settings.kind, self.settings.directed)
        return [(table, self.dataset) for table in tables_of(kind)]

    def _path(self) -> Path:
        return find_file(self.settings.file, self.around.folder, self.around.data)

    def made_from(self, lake: Lake) -> dict[str, Any]:
        kind = check_kind(self.settings.kind, self.settings.directed)
        return ingest_made_from(kind, scan_all(kind, [self._path()]), self.settings.directed)

    def missing(self, lake: Lake) -> str:
        told = lake.current(*self.makes()[0]).notes
        if too_many_bad(told["good"], told["bad"], self.settings.max_bad):
            return f"{told['bad']:,} bad lines are too many now"
        return ""

    def run(self, spark: "SparkSession", lake: Lake, progress: Progress | None) -> Done:
        told = self.settings
        ingest(spark, lake, told.kind, self._path(), self.dataset, told.directed, told.max_bad)
        rows = lake.current(*self.makes()[0]).rows
        return Done(f"{rows:,} rows of {self.makes()[0][0].name}")


@dataclass(frozen=True, slots=True)
class Sample(_InTheLake):
    """A sample of a graph."""

    plan: sample.SamplePlan
    source: str
    dataset: str

    @property
    def name(self) -> str:
        return f"sample {self.dataset}"

    def needs(self) -> list[Place]:
        return [(EDGES, self.source), (USERS, self.source)]

    def makes(self) -> list[Place]:
        return [(table, self.dataset) for table in sample.MADE]

    def made_from(self, lake: Lake) -> dict[str, Any]:
        return sample.sample_made_from(lake, self.source, self.plan)

    def run(self, spark: "SparkSession", lake: Lake, progress: Progress | None) -> Done:
        result = sample.take_sample(spark, lake, self.source, self.dataset, self.plan)
        return Done(f"{result.users:,} users, {result.edges:,} edges")


@dataclass(frozen=True, slots=True)
class Regularity(_InTheLake):
    """The regular nodes of a trace."""

    plan: regularity.RegularityPlan
    dataset: str

    @property
    def name(self) -> str:
        return f"regularity {self.dataset}"

    def needs(self) -> list[Place]:
        return [(SESSIONS, self.dataset)]

    def makes(self) -> list[Place]:
        return [(table, self.dataset) for table in regularity.MADE]

    def made_from(self, lake: Lake) -> dict[str, Any]:
        return regularity.regularity_made_from(lake, self.dataset, self.plan)

    def run(self, spark: "SparkSession", lake: Lake, progress: Progress | None) -> Done:
        result = regularity.analyse(spark, lake, self.dataset, self.plan)
        return Done(f"{len(result.means):,} means")


@dataclass(frozen=True, slots=True)
class SweepStage(_InTheLake):
    """A sweep of simulations."""

    sweep: SweepFile
    dataset: str
    around: Surroundings

    @property
    def name(self) -> str:
        return f"sweep {self.dataset}"

    def needs(self) -> list[Place]:
        return lake_inputs(self.sweep)

    def makes(self) -> list[Place]:
        kept = [table for name in self.sweep.keep for table in KEPT[name]]
        return [(table, self.dataset) for table in (RUNS, RUN_TIMINGS, *ALWAYS, *kept)]

    def made_from(self, lake: Lake) -> dict[str, Any]:
        return sweep.made_from(expand(self.sweep, lake, self.around.data), [])

    def run(self, spark: "SparkSession", lake: Lake, progress: Progress | None) -> Done:
        specs = expand(self.sweep, lake, self.around.data)
        result = sweep.run_sweep(spark, lake, self.dataset, specs, progress)
        failed = (
            f", {len(result.failed)} failed: {next(iter(result.failed.values()))}" if result.failed else ""
        )
        return Done(f"{result.done} runs ({result.reused} were there){failed}", not result.failed)


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """The settings of a ``measure``."""

    source: str = limited("counts", one_of=measure.SOURCES)


@dataclass(frozen=True, slots=True)
class Measure(_InTheLake):
    """The measures of a sweep."""

    settings: MeasureSettings
    dataset: str

    @property
    def name(self) -> str:
        return f"measure {self.dataset}"

    def needs(self) -> list[Place]:
        return [(RUNS, self.dataset)]

    def makes(self) -> list[Place]:
        return [(table, self.dataset) for table in (MEASURES, SERIES, DISTRIBUTIONS)]

    def made_from(self, lake: Lake) -> dict[str, Any]:
        return measure.made_from(lake, self.dataset, self.settings.source)

    def run(self, spark: "SparkSession", lake: Lake, progress: Progress | None) -> Done:
        result = measure.measure_runs(spark, lake, self.dataset, self.settings.source)
        return Done(f"{result.deliveries:,} deliveries that were due, {result.measures:,} rows")


@dataclass(frozen=True, slots=True)
class ReportStage:
    """The report of a sweep."""

    config: report.ReportConfig
    dataset: str
    own_name: str
    out: Path

    @property
    def name(self) -> str:
        return f"report {self.own_name}"

    def needs(self) -> list[Place]:
        return [(RUNS, self.dataset), (MEASURES, self.dataset)]

    def makes(self) -> list[Place]:
        return [(POINTS, self.own_name)]

    def made_from(self, lake: Lake) -> dict[str, Any]:
        return report.made_from(lake, self.dataset, self.config)

    def missing(self, lake: Lake) -> str:
        there = report.is_fresh(lake, self.dataset, self.config, self.out)
        return "" if there else f"{self.out} does not hold it"

    def run(self, spark: "SparkSession", lake: Lake, progress: Progress | None) -> Done:
        result = report.write_report(spark, lake, self.dataset, self.out, self.config, self.own_name)
        return Done(f"{result.points} points of the grid, in {self.out}")


def _take(settings: dict[str, Any], key: str) -> str:
    found = settings.pop(key, None)
    if not isinstance(found, str) or not found:
        raise InputError(f"{key} is missing")
    return found


def _take_name(settings: dict[str, Any], key: str) -> str:
    """The name of a dataset."""
    found = _take(settings, key)
    check_name(found)
    return found


def _ingest(settings: dict[str, Any], around: Surroundings) -> Stage:
    dataset = _take_name(settings, "as")
    told = read(IngestSettings, settings)
    check_kind(told.kind, told.directed)
    return Ingest(told, dataset, around)


def _sample(settings: dict[str, Any], around: Surroundings) -> Stage:
    source, dataset = _take_name(settings, "from"), _take_name(settings, "as")
    return Sample(read(sample.SamplePlan, settings), source, dataset)


def _regularity(settings: dict[str, Any], around: Surroundings) -> Stage:
    dataset = _take_name(settings, "from")
    return Regularity(read(regularity.RegularityPlan, settings), dataset)


def _sweep(settings: dict[str, Any], around: Surroundings) -> Stage:
    dataset = _take_name(settings, "as")
    if "file" in settings:
        path = around.folder / _take(settings, "file")
        if settings:
            raise InputError(f"{next(iter(settings))} stands in the sweep's file, or file is left out")
        return SweepStage(read_sweep(path), dataset, around)
    return SweepStage(sweep_of(settings, around.folder), dataset, around)


def _measure(settings: dict[str, Any], around: Surroundings) -> Stage:
    dataset = _take_name(settings, "from")
    return Measure(read(MeasureSettings, settings), dataset)


def _report(settings: dict[str, Any], around: Surroundings) -> Stage:
    dataset = _take_name(settings, "from")
    name = _take_name(settings, "as") if "as" in settings else dataset
    out = Path(_take(settings, "out")) if "out" in settings else Path("out") / name
    report.check_folder(out)
    return ReportStage(read(report.ReportConfig, settings), dataset, name, out)


STAGES: Mapping[str, Callable[[dict[str, Any], Surroundings], Stage]] = {
    "ingest": _ingest,
    "sample": _sample,
    "regularity": _regularity,
    "sweep": _sweep,
    "measure": _measure,
    "report": _report,
}
"""By what a pipeline's file calls them."""
