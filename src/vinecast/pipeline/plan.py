"""A pipeline: stages in a TOML file, of which only what is stale is run.

    name = "slashdot-skype"

    [[stage]]
    do = "sample"
    from = "slashdot"
    as = "slashdot-1k"
    users = 1000

Every dataset of the lake remembers what it was made from: the settings, and the fingerprints of its inputs or
the digest of the raw file. A stage is fresh when all that it makes was made from exactly what it would be
made from now. A stage that runs again and comes from the same leaves the stages after it fresh.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake, fingerprint_of
from vinecast.pipeline.plan_stages import STAGES, ReportStage, Stage, Surroundings, SweepStage
from vinecast.pipeline.session import SessionConfig, open_session
from vinecast.pipeline.sweep import Progress
from vinecast.pipeline.sweep_file import Axis, read_toml

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline as it was written."""

    name: str
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """What a stage would do, or did."""

    stage: str
    stale: bool
    why: str
    """Why it is stale."""
    result: str = ""
    seconds: float = 0.0
    ok: bool = True
    """False where something is missing in what was made."""


def read_pipeline(path: Path, data: Path | None = None) -> Pipeline:
    """Read and validate a pipeline's file. Names of files start from its folder, or from the data folder."""
    tables = read_toml(path)
    try:
        name = tables.pop("name", path.stem)
        listed = tables.pop("stage", [])
        if tables:
            raise InputError(f"unknown key {next(iter(tables))} (known here: name, stage)")
        if not isinstance(listed, list) or not listed:
            raise InputError("a pipeline needs at least one [[stage]]")
        around = Surroundings(path.parent, data)
        stages = tuple(_stage(number, table, around) for number, table in enumerate(listed, 1))
        _check_together(stages)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(str(path)) else f"{path}: {text}") from None
    return Pipeline(str(name), stages)


def _stage(number: int, table: object, around: Surroundings) -> Stage:
    if not isinstance(table, Mapping):
        raise InputError(f"stage {number} must be a table")
    settings = dict(table)
    do = settings.pop("do", None)
    if do not in STAGES:
        raise InputError(f'stage {number}: do must be one of {", ".join(STAGES)}, not "{do}"')
    try:
        return STAGES[do](settings, around)
    except InputError as error:
        raise InputError(f"stage {number} ({do}): {error}") from None


def _check_together(stages: Sequence[Stage]) -> None:
    """Stages that undo each other would never be fresh; and a report knows the axes of a sweep before it."""
    made: dict[object, int] = {}
    axes: dict[str, tuple[Axis, ...]] = {}
    for number, stage in enumerate(stages, 1):
        places: list[object] = [(table.name, dataset) for table, dataset in stage.makes()]
        if isinstance(stage, ReportStage):
            places.append(stage.out.absolute())
            if stage.dataset in axes:
                _check_x(stage, axes[stage.dataset])
        if isinstance(stage, SweepStage):
            axes[stage.dataset] = stage.sweep.axes
        for place in places:
            if place in made:
                what = f"{place[0]} of {place[1]!r}" if isinstance(place, tuple) else str(place)
                raise InputError(f"stage {number} ({stage.name}): stage {made[place]} makes {what} too")
            made[place] = number


def _check_x(stage: ReportStage, axes: Sequence[Axis]) -> None:
    known = {axis.name for axis in axes}
    if stage.config.x is not None and stage.config.x not in known:
        told = ", ".join(sorted(known)) or "none"
        raise InputError(f"{stage.name}: x must be an axis of the sweep ({told}), not {stage.config.x!r}")


def dry_run(pipeline: Pipeline, lake: Lake) -> list[PlanStep]:
    """What would run, and why."""
    steps: list[PlanStep] = []
    remade: dict[tuple[str, str], str] = {}
    for stage in pipeline.stages:
        again = [remade[key] for table, dataset in stage.needs() if (key := (table.name, dataset)) in remade]
        why = f"{again[0]} runs before it" if again else why_stale(stage, lake)
        if why:
            remade |= {(table.name, dataset): stage.name for table, dataset in stage.makes()}
        steps.append(PlanStep(stage.name, bool(why), why))
    return steps


def run_pipeline(
    pipeline: Pipeline,
    lake: Lake,
    session: SessionConfig | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], object] | None = None,
) -> Iterator[PlanStep]:
    """Run what is stale, stage by stage; Spark is started only when there is something to do."""
    with ExitStack() as held:
        spark: SparkSession | None = None
        for stage in pipeline.stages:
            why = why_stale(stage, lake)
            if not why:
                yield PlanStep(stage.name, False, "")
                continue
            if tell is not None:
                tell(stage.name)
            if spark is None:
                spark = held.enter_context(open_session(session))
            begun = time.perf_counter()
            done = stage.run(spark, lake, progress)
            yield PlanStep(stage.name, True, why, done.summary, time.perf_counter() - begun, done.ok)


def why_stale(stage: Stage, lake: Lake) -> str:
    """Why a stage has to run; empty when it has not."""
    wanted = stage.made_from(lake)
    for table, dataset in stage.makes():
        found = lake.published(table, dataset)
        if found is None:
            return "never made" if table is stage.makes()[0][0] else f"{table.name} was never made"
        if found.fingerprint != fingerprint_of(wanted):
            return _difference(found.made_from, wanted)
    return stage.missing(lake)


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What has changed, in words."""
    told = []
    now = json.loads(json.dumps(now))  # as it stands in the lake
    for key in dict.fromkeys((*before, *now)):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if isinstance(new, Mapping) and isinstance(old, Mapping | None):
            fresh = sum(1 for name in new if name not in (old or {}))
            told.append(f"{fresh} of {len(new)} {key} are new" if fresh else f"{key} changed")
        elif all(isinstance(value, int | float | bool) for value in (old, new)):
            told.append(f"{key} was {old} and is {new}")
        elif key == "failed":
            told.append(f"{len(old or [])} runs had failed")
        else:
            told.append(f"{key} changed")
    return ", ".join(told) or "changed"
