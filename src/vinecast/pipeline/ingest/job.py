"""The job of ingest: stage the lines, make the tables, publish them, all or nothing."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from vinecast.core.errors import InputError
from vinecast.pipeline.ingest import frames, trace_frames
from vinecast.pipeline.ingest.graph import buckets_for, settle
from vinecast.pipeline.ingest.kinds import KINDS, InputFormat
from vinecast.pipeline.ingest.splits import Split, TextFile, scan
from vinecast.pipeline.ingest.stage import Destination, SplitTally, stage
from vinecast.pipeline.lake import Generation, Lake, check_name, fingerprint_of
from vinecast.pipeline.tables import QUARANTINE, TABLES, LakeTable

MAX_BAD = 0.01
"""The share of bad lines above which a file is refused."""

_CODE = 2  # raise it when the same file would give other rows

_TABLES: Mapping[str, Mapping[str, Callable[[DataFrame], DataFrame] | None]] = {
    "edges": {"edges": None, "users": None},  # made without frames, by ``settle``
    "avt": {"sessions": frames.sessions},
    "fta": {"sessions": frames.sessions_of_events},
    "matrix": {"latencies": frames.latencies},
    "pings": {"pings": frames.pings},
    "activity": {"activity": frames.activity},
    "reddit": {
        "topics": frames.topics,
        "subscriptions": frames.subscriptions,
        "publications": frames.publications,
    },
    "traces": {
        "traces": trace_frames.traces,
        "trace_nodes": trace_frames.nodes,
        "trace_topics": trace_frames.topics,
    },
}
_BAD_TOGETHER: Mapping[str, Callable[[DataFrame, str], DataFrame]] = {
    "avt": frames.repeated_nodes,
    "fta": frames.overlapping_events,
}
"""Lines that are bad only beside others."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a file: every line is good, bad or skipped."""

    kind: str
    dataset: str
    file: str
    lines: int
    good: int
    bad: int
    skipped: int
    """Blank lines, comments and headings."""
    loops: int
    """Self-loops of a graph, dropped."""
    duplicates: int = 0
    """Repeated edges of a graph, dropped."""
    first_bad: str | None = None
    """The first bad line and its reason."""
    rows: Mapping[str, int] | None = None
    """The rows of every table."""
    fresh: bool = False
    """Whether all was there already, made from the same."""


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """A file that was looked at once, and what shall become of it."""

    kind: InputFormat
    text: TextFile
    dataset: str
    directed: bool
    max_bad: float

    @property
    def made_from(self) -> dict[str, Any]:
        """What the tables depend on."""
        return ingest_made_from(self.kind, self.text, self.directed)


def ingest_made_from(kind: InputFormat, text: TextFile, directed: bool) -> dict[str, Any]:
    """What the tables of a file depend on."""
    settings = {"directed": directed} if kind.name == "edges" else {}
    return {
        "stage": "ingest",
        "code": _CODE,
        "kind": kind.name,
        "file": text.path.name,
        "sha256": text.sha256,
        **settings,
    }


def check_kind(name: str, directed: bool = True) -> InputFormat:
    """A format by its name."""
    if name not in KINDS:
        raise InputError(f"there is no format {name!r}: {', '.join(KINDS)}")
    if not directed and name != "edges":
        raise InputError(f"only edges can be undirected, not {name}")
    return KINDS[name]


def tables_of(kind: InputFormat) -> list[LakeTable]:
    """The tables that a format fills, its main one first."""
    return [TABLES[name] for name in _TABLES[kind.name]]


def plan_ingest(
    kind: str, path: Path | Sequence[Path], dataset: str, directed: bool = True, max_bad: float = MAX_BAD
) -> IngestPlan:
    """Check what was asked for and look at the files; needs no Spark."""
    checked = check_kind(kind, directed)
    if not 0 <= max_bad <= 1:
        raise InputError(f"the share of bad lines is between 0 and 1, not {max_bad}")
    check_name(dataset)
    paths = (path,) if isinstance(path, Path) else path
    return IngestPlan(checked, scan_all(checked, paths), dataset, directed, max_bad)


def scan_all(kind: InputFormat, paths: Sequence[Path]) -> TextFile:
    """Look at the files of a format: as if they were one, whose splits are those of all."""
    if not kind.suffix:
        if len(paths) > 1:
            raise InputError(f"{kind.name} is read from one file, not {len(paths)}")
        return scan(paths[0])
    files = {file.absolute(): file for path in paths for file in _files_of(kind, path)}
    texts = [scan(file) for _, file in sorted(files.items())]
    if len(texts) == 1:
        return texts[0]
    names = sorted((text.path.name, text.sha256) for text in texts)
    splits = [split for text in texts for split in text.splits]
    numbered = tuple(replace(split, number=number) for number, split in enumerate(splits))
    return TextFile(paths[0], fingerprint_of({"files": names}), numbered)


def _files_of(kind: InputFormat, path: Path) -> list[Path]:
    """The files that a path stands for. What was begun and never written to is nothing."""
    if not path.is_dir():
        return [path]
    names = (f"*{kind.suffix}", f"*{kind.suffix}.gz")
    try:
        found = [file for name in names for file in path.glob(name) if file.stat().st_size]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not found:
        raise InputError(f"{path}: there is no {kind.about} in it ({names[0]})")
    return found


def already_ingested(lake: Lake, plan: IngestPlan) -> Ingested | None:
    """What is current, if it was made from exactly this; needs no Spark."""
    kind, dataset = plan.kind, plan.dataset
    places = [(table, dataset) for table in tables_of(kind)]
    places.append((QUARANTINE, quarantine_name(kind, dataset)))
    if not all(lake.is_fresh(table, name, plan.made_from) for table, name in places):
        return None
    found = replace(Ingested(**lake.current(TABLES[kind.table], dataset).notes), fresh=True)
    _check_bad(plan, found)
    return found


def ingest(
    spark: SparkSession,
    lake: Lake,
    kind: str,
    path: Path | Sequence[Path],
    dataset: str,
    directed: bool = True,
    max_bad: float = MAX_BAD,
) -> Ingested:
    """Make the tables of a raw file (or of several) current; what was there stays when it cannot be taken."""
    return run_ingest(spark, lake, plan_ingest(kind, path, dataset, directed, max_bad))


def run_ingest(spark: SparkSession, lake: Lake, plan: IngestPlan) -> Ingested:
    """``ingest`` for a file that was looked at already."""
    if (found := already_ingested(lake, plan)) is not None:
        return found
    kind, dataset = plan.kind, plan.dataset
    with ExitStack() as held:
        filled = {
            name: held.enter_context(lake.new_generation(TABLES[name], dataset))
            for name in _TABLES[kind.name]
        }
        aside = held.enter_context(lake.new_generation(QUARANTINE, quarantine_name(kind, dataset)))
        staging = aside.folder / "_staging"
        buckets = buckets_for(plan.text) if kind.name == "edges" else 0
        to = Destination(staging.absolute() / "rows", aside.folder.absolute(), buckets, plan.directed)
        result = _stage(spark, plan, to)
        _check_bad(plan, result)
        if buckets:
            settle(spark, to.good, buckets, *(filled[name].folder.absolute() for name in ("edges", "users")))
        else:
            staged = spark.read.parquet(str(to.good))
            result = _set_aside(staged, plan, aside, result)
            _check_bad(plan, result)
            for name, make in _TABLES[kind.name].items():
                if make is not None:
                    filled[name].write(make(staged))
        shutil.rmtree(staging)
        return _publish(filled, aside, result, plan.made_from)


def quarantine_name(kind: InputFormat, dataset: str) -> str:
    """The quarantine's dataset; a graph and a trace of the same name have one each."""
    return f"{dataset}.{kind.table}"


def _stage(spark: SparkSession, plan: IngestPlan, to: Destination) -> Ingested:
    kind, text, splits = plan.kind, plan.text, plan.text.splits
    if kind.one_task:
        splits = (replace(splits[0], end=splits[-1].end),)
    tallies = stage(spark, kind.name, splits, to)
    for tally in tallies:
        if tally.fault is not None:
            raise InputError(f"{text.path}: {tally.fault}")
    good, wrong, skipped, loops = (
        sum(getattr(tally, name) for tally in tallies) for name in ("good", "bad", "skipped", "loops")
    )
    return Ingested(
        kind=kind.name,
        dataset=plan.dataset,
        file=text.path.name,
        lines=good + wrong + skipped,
        good=good,
        bad=wrong,
        skipped=skipped,
        loops=loops,
        first_bad=next((_place(splits, tally) for tally in tallies if tally.first_bad), None),
    )


def _place(splits: Sequence[Split], tally: SplitTally) -> str | None:
    """The first bad line of a split; with its file, where there are several."""
    name = Path(splits[tally.split].path).name if len({split.path for split in splits}) > 1 else ""
    return f"{name}, {tally.first_bad}" if name else tally.first_bad


def _check_bad(plan: IngestPlan, result: Ingested) -> None:
    kind, path, max_bad = plan.kind, plan.text.path, plan.max_bad
    told = result.good + result.bad
    if not told:
        raise InputError(f"{path}: there is no {kind.holds} in it")
    if result.bad and kind.all_or_nothing:
        raise InputError(f"{path}: a {kind.about} must be whole, but {result.first_bad}")
    if too_many_bad(result.good, result.bad, max_bad):
        raise InputError(
            f"{path}: {result.bad:,} of {told:,} lines cannot be taken, which is more than {max_bad:.2%} "
            f"(--max-bad); the first is {result.first_bad}"
        )
    if not result.good:
        raise InputError(f"{path}: not one of {told:,} lines can be taken; the first is {result.first_bad}")


def too_many_bad(good: int, bad: int, max_bad: float) -> bool:
    """Whether the share of bad lines is above the limit."""
    return bad > max_bad * (good + bad)


def _set_aside(staged: DataFrame, plan: IngestPlan, aside: Generation, result: Ingested) -> Ingested:
    """Put lines that are bad only beside others into the quarantine too."""
    if plan.kind.name not in _BAD_TOGETHER:
        return result
    found = _BAD_TOGETHER[plan.kind.name](staged, result.file).sort("line").cache()
    try:
        count = found.count()
        if not count:
            return result
        aside.write(found)
        line, reason = found.select("line", "reason").first() or (0, "")
    finally:
        found.unpersist()
    return replace(
        result,
        good=result.good - count,
        bad=result.bad + count,
        first_bad=result.first_bad or f"line {line}: {reason}",
    )


def _publish(
    filled: Mapping[str, Generation], aside: Generation, result: Ingested, made_from: dict[str, Any]
) -> Ingested:
    rows = {name: generation.count_rows() for name, generation in filled.items()}
    if result.kind == "edges":
        edges = rows["edges"] if made_from["directed"] else rows["edges"] // 2
        result = replace(result, duplicates=result.good - result.loops - edges)
    result = replace(result, rows=rows)
    aside.commit(made_from)
    for generation in filled.values():
        generation.commit(made_from, notes=asdict(result))
    return result
