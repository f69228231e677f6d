"""What to run: a scenario × a grid of settings × seeds, as a sweep's TOML file says it.

    scenario = "../scenarios/poldercast-churn.toml"
    seeds = 3                                # 1, 2 and 3; or a list
    keep = ["deliveries"]                    # besides counts: deliveries, records (event engine)

    [set]                                    # for all runs, as ``vinecast sim run --set`` has it
    nodes = 500

    [grid]                                   # an axis for each key
    "poldercast.fanout" = [1, 2, 4]

    [variants.churn]                         # an axis of named sets of settings
    none = { "churn.kind" = "none" }
    skype = { "churn.kind" = "trace", "churn.trace" = "lake:skype" }

Where a scenario names a file, ``lake:NAME`` stands for a dataset of the lake: for ``workload.file`` a sample,
for ``churn.trace`` sessions. A run's id is a digest of the scenario that is run, of the files that it reads
and of the versions of this package and of the tables: what has the same id has the same result.
"""

import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vinecast import __version__
from vinecast.core.draws import SEED_MAX
from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake, fingerprint_of, fingerprint_of_file
from vinecast.pipeline.runs import CODE, RunSpec
from vinecast.pipeline.runs_tables import ALWAYS, KEPT
from vinecast.pipeline.tables import SAMPLE_EDGES, SESSIONS, LakeTable
from vinecast.sim.scenario.scenario import FILE_KEYS, Resolved, find_file, read_scenario
from vinecast.sim.workload.sample import FILES
from vinecast.systems.registry import SYSTEMS

LAKE = "lake:"
LAKE_TABLES: dict[tuple[str, str], LakeTable] = {
    ("workload", "file"): SAMPLE_EDGES,
    ("churn", "trace"): SESSIONS,
}
"""What ``lake:NAME`` is a dataset of, by where it stands."""
RUNS_MAX = 100_000  # ours: a larger grid is a slip
_KEYS = ("scenario", "seeds", "keep", "set", "grid", "variants")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a grid: its values by label, each a set of settings."""

    name: str
    values: tuple[tuple[Any, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep as it was written."""

    scenario: Path
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    axes: tuple[Axis, ...]
    keep: tuple[str, ...] = ()


def read_sweep(path: Path) -> SweepFile:
    """Read and validate a sweep's file."""
    try:
        return sweep_of(read_toml(path), path.parent)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as tables."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def sweep_of(table: Mapping[str, Any], folder: Path) -> SweepFile:
    """Validate a sweep given as tables; its scenario's name starts from the folder."""
    for key in table:
        if key not in _KEYS:
            raise InputError(f"unknown key {key} (known here: {', '.join(_KEYS)})")
    scenario = table.get("scenario")
    if not isinstance(scenario, str):
        raise InputError("scenario must be the name of a scenario's file")
    keep = table.get("keep", [])
    if not isinstance(keep, list) or not all(name in KEPT for name in keep):
        raise InputError(f"keep must be a list of {' and '.join(KEPT)}")
    axes = [_axis_of_values(name, values) for name, values in _table(table, "grid").items()]
    axes += [_axis_of_variants(name, variants) for name, variants in _table(table, "variants").items()]
    seeds = _seeds(table.get("seeds", 1))
    return SweepFile(folder / scenario, seeds, _table(table, "set"), tuple(axes), tuple(dict.fromkeys(keep)))


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, Mapping):
        raise InputError(f"{key} must be a table")
    return found


def _seeds(given: object) -> tuple[int, ...]:
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= RUNS_MAX:
        return tuple(range(1, given + 1))
    listed = given if isinstance(given, list) else []
    different = 0 < len(listed) == len(set(map(repr, listed)))
    if different and all(type(seed) is int and 0 <= seed <= SEED_MAX for seed in listed):
        return tuple(listed)
    raise InputError("seeds must be how many, or a list of different whole numbers from 0 up")


def _axis_of_values(name: str, values: object) -> Axis:
    if not isinstance(values, list) or not values:
        raise InputError(f"grid.{name} must be a list of values")
    if len({json.dumps(value, sort_keys=True, default=str) for value in values}) < len(values):
        raise InputError(f"grid.{name} has a value twice")
    return Axis(name, tuple((value, {name: value}) for value in values))


def _axis_of_variants(name: str, variants: object) -> Axis:
    if not isinstance(variants, Mapping) or not variants:
        raise InputError(f"variants.{name} must be a table of named settings")
    for label, settings in variants.items():
        if not isinstance(settings, Mapping):
            raise InputError(
                f'variants.{name}.{label} must be a table, such as {{ "poldercast.fanout" = 2 }}'
            )
    return Axis(name, tuple(variants.items()))


def expand(sweep: SweepFile, lake: Lake, data: Path | None) -> list[RunSpec]:
    """Every run of a sweep, validated, in the order of the grid with the seeds innermost."""
    inputs = _Inputs(lake, data)
    specs: dict[str, RunSpec] = {}
    for labels, resolved in _scenarios(sweep):
        spec = _specify(resolved, labels, sweep.keep, inputs)
        if twin := specs.get(spec.run_id):
            raise InputError(f"two points of the grid are the same run: {twin.settings} and {labels}")
        specs[spec.run_id] = spec
    return list(specs.values())


def _scenarios(sweep: SweepFile) -> Iterator[tuple[dict[str, str], Resolved]]:
    """Every scenario of a sweep with its place in the grid."""
    runs = len(sweep.seeds) * math.prod(len(axis.values) for axis in sweep.axes)
    if runs > RUNS_MAX:
        raise InputError(f"the grid has {runs:,} runs, more than {RUNS_MAX:,}")
    for point in itertools.product(*(axis.values for axis in sweep.axes)):
        labels = {axis.name: _json(value) for axis, (value, _) in zip(sweep.axes, point, strict=True)}
        settings = dict(sweep.settings)
        for _, chosen in point:
            settings |= chosen
        for seed in sweep.seeds:
            yield labels, read_scenario(sweep.scenario, settings | {"seed": seed})


def lake_inputs(sweep: SweepFile) -> list[tuple[LakeTable, str]]:
    """The datasets of the lake that a sweep reads."""
    found = {}
    for _, resolved in _scenarios(sweep):
        for where, table in LAKE_TABLES.items():
            name = getattr(getattr(resolved.scenario, where[0]), where[1])
            if name is not None and name.startswith(LAKE):
                found[name, where] = (table, name.removeprefix(LAKE))
    return list(found.values())


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


class _Inputs:
    """The files and datasets that runs read: where they lie, and digests of what is in them, taken once."""

    def __init__(self, lake: Lake, data: Path | None) -> None:
        self.lake = lake
        self.data = data.absolute() if data is not None else None
        self._known: dict[tuple[tuple[str, str], str], tuple[str, str]] = {}

    def find(self, where: tuple[str, str], name: str, folder: Path) -> tuple[str, str]:
        """Place and digest of what a scenario names."""
        if (where, name) not in self._known:
            self._known[where, name] = self._look(where, name, folder)
        return self._known[where, name]

    def _look(self, where: tuple[str, str], name: str, folder: Path) -> tuple[str, str]:
        if not name.startswith(LAKE):
            path = find_file(name, folder, self.data)
            files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
            return str(path.absolute()), fingerprint_of(
                {file.name: fingerprint_of_file(file) for file in files}
            )
        table = LAKE_TABLES.get(where)
        if table is None:
            raise InputError(f"{'.'.join(where)} cannot be taken from the lake ({name}); name a file")
        dataset = name.removeprefix(LAKE)
        return str(self.lake.path(table, dataset).absolute()), self.lake.current(table, dataset).fingerprint


def _specify(resolved: Resolved, labels: dict[str, str], keep: tuple[str, ...], inputs: _Inputs) -> RunSpec:
    scenario = resolved.scenario
    if "records" in keep and scenario.engine != "event":
        raise InputError('keep = ["records"] goes with engine = "event"; a sweep engine has no records')
    if keep and not SYSTEMS[scenario.system].has_topics:
        raise InputError(f"keep goes with a system that has topics, and {scenario.system} has none")
    places, digests = {}, {}
    for where in FILE_KEYS:
        name = getattr(getattr(scenario, where[0]), where[1])
        if name is not None:
            key = ".".join(where)
            places[key], digests[key] = inputs.find(where, name, resolved.folder)
    if SYSTEMS[scenario.system].has_topics and scenario.workload.kind in FILES and inputs.data is not None:
        graph = ("workload", "kind")
        digests["workload.kind"] = inputs.find(graph, FILES[scenario.workload.kind][0], inputs.data)[1]
    table = resolved.table()
    told = {key: value for key, value in table.items() if key not in ("name", "description")}
    run = {"scenario": told, "inputs": digests, "version": __version__, "code": CODE, "tables": _versions()}
    return RunSpec(
        run_id=fingerprint_of(run)[:16],
        seed=scenario.seed,
        settings=labels,
        scenario=table,
        folder=str(resolved.folder.absolute()),
        data=None if inputs.data is None else str(inputs.data),
        places=places,
        keep=keep,
    )


def _versions() -> dict[str, int]:
    """The version of every table that runs can write."""
    return {table.name: table.version for tables in (ALWAYS, *KEPT.values()) for table in tables}
