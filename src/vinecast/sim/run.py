"""Running a scenario: build the world, let things happen to it, measure, and write a folder.

A run's folder holds ``scenario.toml`` (what was run, every default spelt out), ``cycles.parquet`` (the
overlay, measured cycle by cycle), ``records.parquet`` (trace records, when the event engine makes them) and
``summary.json``. Same scenario, same bytes. The folder appears under its name only when it is complete.

Systems with topics publish: one event a topic, every so many cycles. On the sweep engine the topics' rings
and what became of the events are measured there and then (sim/metrics.py); on the event engine the trace
records tell.
"""

import dataclasses
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.core.draws import purpose, shuffled, stream
from vinecast.core.errors import Bug, InputError, MissingExtraError
from vinecast.core.profiles import Profiles
from vinecast.core.trace import TraceRecord
from vinecast.sim.churn import Availability, on_off, read_avt
from vinecast.sim.metrics import ring_state, ring_targets, topic_row
from vinecast.sim.network import Network, read_matrix
from vinecast.sim.overlay import OverlayStats, measure, random_views
from vinecast.sim.sample import load_workload
from vinecast.sim.scenario import Fault, Resolved, Scenario
from vinecast.sim.sweep import SweepEngine
from vinecast.sim.world import Contacts, EventWorld, Nodes, SweepWorld, World, choose_contacts
from vinecast.systems import SYSTEMS
from vinecast.systems.poldercast_sweep import PolderCastSweep

_VICTIMS = purpose("run.victims")
_TURNS = purpose("run.turns")

Progress = Callable[[int, OverlayStats | None], object]
"""Told the number of each cycle that is done, and what was measured after it, if anything was."""

CYCLE_COLUMNS: dict[str, str] = {
    "cycle": "int64",
    "time_s": "float64",
    "came": "int64",
    "went": "int64",
    **{field.name: "int64" if field.type is int else "float64" for field in dataclasses.fields(OverlayStats)},
}


TOPIC_COLUMNS: dict[str, str] = dict.fromkeys(
    ("missing_links", "incomplete_rings", "hit_ratio", "hops_mean", "hops_max", "duplication"), "float64"
)
"""What systems with topics are measured by besides, on the sweep engine; defined in sim/metrics.py.

Those that follow from a publication are null in a cycle without one.
"""


def columns_of(scenario: Scenario) -> dict[str, str]:
    """The columns of a run's measurements, with their types."""
    measured = scenario.engine == "sweep" and SYSTEMS[scenario.system].has_topics
    return CYCLE_COLUMNS | TOPIC_COLUMNS if measured else CYCLE_COLUMNS


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found."""

    rows: list[dict[str, Any]]
    """One measurement a row, with the columns of ``columns_of``."""
    summary: dict[str, Any]


def find_file(name: str, folder: Path, data: Path | None) -> Path:
    """A file that a scenario names: as it stands from the scenario's folder, or in the data folder."""
    places = [folder / name] + ([data / name] if data is not None else [])
    for place in places:
        if place.is_file():
            return place
    if data is None:
        raise InputError(f"{name}: no such file beside the scenario, and no data folder given (--data DIR)")
    raise InputError(f"{name}: no such file beside the scenario or in {data}")


def simulate(
    resolved: Resolved,
    *,
    threads: int = 1,
    data: Path | None = None,
    progress: Progress | None = None,
    trace: Callable[[TraceRecord], None] | None = None,
) -> Outcome:
    """Run a scenario from beginning to end."""
    scenario = resolved.scenario
    profiles = populate(scenario, data)
    world = build_world(resolved, profiles, threads=threads, data=data, trace=trace)
    director = _Director(resolved, world, data)
    rows: list[dict[str, Any]] = []
    try:
        for cycle in range(scenario.cycles):
            director.before(cycle)
            world.advance()
            stats = None
            if _falls_due(scenario, cycle, scenario.measure.every):
                stats = _look(scenario, world)
                time_s = (cycle + 1) * resolved.config.period_us / 1e6
                came, went = director.take_counts()
                row = {"cycle": cycle, "time_s": time_s, "came": came, "went": went}
                rows.append({**row, **dataclasses.asdict(stats), **_look_at_topics(scenario, world, cycle)})
            if progress is not None:
                progress(cycle, stats)
    finally:
        world.close()
    return Outcome(rows, summarise(resolved, world, profiles, rows))


def _falls_due(scenario: Scenario, cycle: int, every: int) -> bool:
    """Whether something that is done every so many cycles is done in this one; in the last one, always."""
    return (cycle + 1) % every == 0 or cycle + 1 == scenario.cycles


def populate(scenario: Scenario, data: Path | None) -> Profiles:
    """The profiles of a scenario's population, subscribed to what its workload says."""
    nodes = scenario.population
    if not SYSTEMS[scenario.system].has_topics:
        return Profiles.simulated(scenario.seed, np.zeros(nodes + 1, np.int64), np.zeros(0, np.int32), 0)
    found = load_workload(scenario.workload.kind, nodes, scenario.seed, data)
    return Profiles.simulated(scenario.seed, found.start, found.topics, found.topic_count)


def build_world(
    resolved: Resolved,
    profiles: Profiles,
    *,
    threads: int = 1,
    data: Path | None = None,
    trace: Callable[[TraceRecord], None] | None = None,
) -> World:
    """The world of a scenario, with nobody on line yet."""
    scenario, config = resolved.scenario, resolved.config
    system = SYSTEMS[scenario.system]
    if scenario.engine == "sweep":
        if system.sweep is None:
            raise InputError(f"{scenario.system} has no sweep")
        sweep = system.sweep(config, scenario.seed, profiles)
        if scenario.sweep.setting == "sequential":
            threads = 1
        return SweepWorld(SweepEngine(sweep, config.period_us, scenario.sweep.setting, threads))
    rtt_ms = None
    if scenario.network.matrix is not None:
        rtt_ms = read_matrix(find_file(scenario.network.matrix, resolved.folder, data))
    network = Network(scenario.network, scenario.seed, profiles.peers, rtt_ms)
    return EventWorld(system, config, scenario.seed, profiles, scenario.event, network, trace)


def _look(scenario: Scenario, world: World) -> OverlayStats:
    what = scenario.measure
    return measure(
        world.views(),
        world.online,
        seed=scenario.seed,
        clustering_sample=what.clustering_sample,
        path_sources=what.path_sources,
    )


def _look_at_topics(scenario: Scenario, world: World, cycle: int) -> dict[str, float | None]:
    """The topics' columns, where there are any."""
    if not isinstance(world, SweepWorld) or not SYSTEMS[scenario.system].has_topics:
        return {}
    sweep = world.engine.sweep
    if not isinstance(sweep, PolderCastSweep):
        raise Bug(f"nobody knows how to measure the topics of {scenario.system}")
    if _falls_due(scenario, cycle, scenario.publish.every):
        found = topic_row(world.engine, cycle, world.online)
    else:
        found = dataclasses.asdict(ring_state(sweep, ring_targets(sweep.profiles, world.online)))
    values = {name: found.get(name, math.nan) for name in TOPIC_COLUMNS}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


class _Director:
    """Lets come and go whom the scenario says, at the beginning of each cycle, and publish late in it.

    ``turns`` says who is the i-th of a trace, or the i-th to come: in systems with topics, where a node's
    number is its place on the circle, a random one; elsewhere node i.
    """

    def __init__(self, resolved: Resolved, world: World, data: Path | None) -> None:
        self.scenario = resolved.scenario
        self.world = world
        self.joined = self.scenario.nodes
        self.came = self.went = 0
        self.absent = np.zeros(self.scenario.population, dtype=np.bool_)
        self.has_topics = SYSTEMS[self.scenario.system].has_topics
        self.turns: Nodes = np.arange(self.scenario.population)
        if self.has_topics:
            self.turns = shuffled(stream(self.scenario.seed, _TURNS, 0, 0), self.scenario.population)
        self.masks: Iterator[Any] | None = None
        availability = self._availability(resolved, data)
        if availability is not None:
            period_s = resolved.config.period_us / 1e6
            self.masks = availability.at_cycles(period_s, self.scenario.cycles)

    def _availability(self, resolved: Resolved, data: Path | None) -> Availability | None:
        scenario, churn = self.scenario, self.scenario.churn
        if churn.kind == "trace" and churn.trace is not None:
            path = find_file(churn.trace, resolved.folder, data)
            trace = read_avt(path)
            if trace.nodes < scenario.nodes:
                raise InputError(f"nodes: {path} has only {trace.nodes:,} nodes, not {scenario.nodes:,}")
            return trace.take(scenario.nodes)
        if churn.kind == "onoff":
            horizon_s = scenario.cycles * resolved.config.period_us / 1e6
            try:
                return on_off(scenario.seed, scenario.nodes, horizon_s, churn.mean_on_s, churn.mean_off_s)
            except InputError as error:
                raise InputError(f"churn.mean_on_s and churn.mean_off_s: {error}") from None
        return None

    def before(self, cycle: int) -> None:
        """Everything that happens at the beginning of a cycle, and what is arranged for later in it."""
        self._let_come_and_go(cycle)
        due = self.has_topics and _falls_due(self.scenario, cycle, self.scenario.publish.every)
        if due and isinstance(self.world, EventWorld):
            self.world.publish(cycle)

    def _let_come_and_go(self, cycle: int) -> None:
        if self.masks is not None:
            mask = next(self.masks)
            turned = np.zeros_like(mask)
            turned[self.turns] = mask
            self._follow(cycle, turned)
            return
        if cycle == 0:
            self._start_first(np.sort(self.turns[: self.scenario.nodes]))
        for number, fault in enumerate(self.scenario.faults):
            if fault.at_cycle == cycle:
                self._inflict(cycle, number, fault)

    def _follow(self, cycle: int, mask: Any) -> None:
        online = self.world.online
        leaving = np.flatnonzero(online & ~mask)
        coming = np.flatnonzero(mask & ~online)
        if cycle == 0:
            self._start_first(coming)
            return
        if leaving.size:
            self._stop(leaving, graceful=False)
        if coming.size:
            self._start_later(cycle, coming, np.flatnonzero(online & mask), self.scenario.churn.keep_state)

    def _start_first(self, nodes: Nodes) -> None:
        degree = min(self.scenario.start.contacts, max(nodes.size - 1, 0))
        contacts = np.full((nodes.size, 1), -1, dtype=np.int32)
        if degree:
            contacts = nodes[random_views(self.scenario.seed, nodes.size, degree)].astype(np.int32)
        self._start(nodes, contacts, keep_state=True)

    def _start(self, nodes: Nodes, contacts: Contacts, keep_state: bool) -> None:
        self.came += nodes.size
        self.world.start(nodes, contacts, keep_state)

    def _stop(self, nodes: Nodes, graceful: bool) -> None:
        self.went += nodes.size
        self.world.stop(nodes, graceful)

    def take_counts(self) -> tuple[int, int]:
        """How many came and went since this was last asked."""
        counts = self.came, self.went
        self.came = self.went = 0
        return counts

    def _start_later(self, cycle: int, nodes: Nodes, known: Nodes, keep_state: bool) -> None:
        pool = known if known.size else nodes
        contacts = choose_contacts(self.scenario.seed, cycle, nodes, pool, self.scenario.start.join_contacts)
        self._start(nodes, contacts, keep_state)

    def _inflict(self, cycle: int, number: int, fault: Fault) -> None:
        online = self.world.online
        if fault.kind == "join":
            nodes = np.sort(self.turns[self.joined : self.joined + (fault.count or 0)])
            self.joined += nodes.size
            self._start_later(cycle, nodes, np.flatnonzero(online), keep_state=True)
            return
        pool = np.flatnonzero(self.absent if fault.kind == "restart" else online)
        count = fault.count if fault.count is not None else round((fault.share or 0.0) * pool.size)
        key = stream(self.scenario.seed, _VICTIMS, cycle, number)
        chosen = np.sort(pool[shuffled(key, pool.size)[:count]])
        self.absent[chosen] = fault.kind != "restart"
        if fault.kind == "restart":
            self._start_later(cycle, chosen, np.flatnonzero(online), fault.keep_state)
        else:
            self._stop(chosen, graceful=fault.kind == "leave")


def summarise(
    resolved: Resolved, world: World, profiles: Profiles, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """The run in a few numbers."""
    scenario = resolved.scenario
    summary: dict[str, Any] = {
        "name": scenario.name,
        "description": scenario.description,
        "system": scenario.system,
        "engine": scenario.engine,
        "seed": scenario.seed,
        "nodes": scenario.population,
        "cycles": scenario.cycles,
        "period_s": resolved.config.period_us / 1e6,
        "came": sum(row["came"] for row in rows),
        "went": sum(row["went"] for row in rows),
        "connected_throughout": all(row["components"] <= 1 for row in rows),
        "final": rows[-1],
    }
    if SYSTEMS[scenario.system].has_topics:
        summary["workload"] = scenario.workload.kind
        summary["topics"] = profiles.topic_ids.size
        summary["subscriptions_mean"] = profiles.topics.size / profiles.peers
    if isinstance(world, SweepWorld):
        summary["setting"] = scenario.sweep.setting
        summary["state_bytes_per_node"], summary["scratch_bytes_per_node"] = world.engine.bytes_per_node
    if isinstance(world, EventWorld):
        summary["machine_events"] = world.engine.handled
        summary["counters"] = {name: sum(per) for name, per in sorted(world.engine.counters.items())}
    return summary


def run_to_folder(
    resolved: Resolved,
    folder: Path,
    *,
    threads: int = 1,
    data: Path | None = None,
    progress: Progress | None = None,
    replace: bool = False,
) -> Outcome:
    """Run a scenario and write its folder, all of it or nothing."""
    try:
        import tomli_w

        from vinecast.sim.records import TraceWriter, write_rows
    except ImportError as error:
        raise MissingExtraError("running a scenario", "sim", error.name or "a package") from None
    try:
        with new_folder(folder, replace) as partial:
            wants_records = resolved.scenario.engine == "event" and resolved.scenario.event.records
            writer = TraceWriter(partial / "records.parquet") if wants_records else None
            try:
                outcome = simulate(resolved, threads=threads, data=data, progress=progress, trace=writer)
            finally:
                if writer is not None:
                    writer.close()
            if writer is not None:
                outcome.summary["records"] = writer.rows
            write_rows(partial / "cycles.parquet", outcome.rows, columns_of(resolved.scenario))
            toml = tomli_w.dumps(_portable(resolved, folder))
            (partial / "scenario.toml").write_text(toml, encoding="utf-8")
            text = json.dumps(outcome.summary, indent=2, sort_keys=True, ensure_ascii=False)
            (partial / "summary.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return outcome


def _portable(resolved: Resolved, folder: Path) -> dict[str, Any]:
    """The resolved scenario as it will stand in the run's folder, from which its files are found again."""
    table = resolved.table()
    for section, key in (("churn", "trace"), ("network", "matrix")):
        name = table.get(section, {}).get(key)
        if name is not None and (resolved.folder / name).is_file():
            table[section][key] = os.path.relpath((resolved.folder / name).resolve(), folder.resolve())
    return table


RUN_FILES = {"scenario.toml", "summary.json", "cycles.parquet", "records.parquet"}


@contextmanager
def new_folder(folder: Path, replace: bool) -> Iterator[Path]:
    """A folder to fill, which takes its name only when all is well; an earlier run stays until then."""
    _check_place(folder, replace)
    place = folder.absolute()
    made = [parent for parent in place.parents if not parent.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".partial", dir=place.parent))
    try:
        partial.chmod(0o755)
        yield partial
        _check_place(folder, replace)
        old = place.rename(partial.with_suffix(".old")) if place.exists() else None
        try:
            partial.rename(place)
        except OSError:
            if old is not None:
                old.rename(place)
            raise
        if old is not None:
            shutil.rmtree(old)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if not place.exists():
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()


def _check_place(folder: Path, replace: bool) -> None:
    """Refuse a place that a run must not take."""
    if folder.is_symlink() or folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise InputError(f"{folder} is not a place for a run: choose a folder of its own with --out")
    if not folder.exists():
        return
    if not replace:
        raise InputError(f"{folder} exists already: choose another --out, or --force to replace it")
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not found <= RUN_FILES or "summary.json" not in found:
        raise InputError(f"{folder} is not a run's folder, so it is not replaced: choose another --out")
