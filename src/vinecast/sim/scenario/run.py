"""Running a scenario: build the world, let things happen to it, measure, and write a folder.

A run's folder holds ``scenario.toml`` (what was run, every default spelt out), ``cycles.parquet`` (the
overlay, measured cycle by cycle), ``classes.parquet`` (what became of events, by class of topics and of
nodes), ``records.parquet`` (trace records, when the event engine makes them) and ``summary.json``. Same
scenario, same bytes. The folder appears under its name only when it is complete.
"""

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.errors import InputError, MissingExtraError
from vinecast.core.trace import TraceRecord
from vinecast.sim.engine.network import Network, NetworkConfig, read_matrix
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.overlay import OverlayStats, measure
from vinecast.sim.scenario.content_run import bounded
from vinecast.sim.scenario.content_watch import ContentWatch
from vinecast.sim.scenario.fault_driver import FaultDriver
from vinecast.sim.scenario.folder import new_folder
from vinecast.sim.scenario.scenario import FILE_KEYS, Resolved, Scenario, find_file
from vinecast.sim.scenario.watch import CLASS_COLUMNS, TOPIC_COLUMNS, OnDissemination, TopicWatch
from vinecast.sim.scenario.world import EventWorld, SweepWorld, World
from vinecast.sim.workload.sample import load_workload
from vinecast.systems.poldercast.events import Delays
from vinecast.systems.registry import SYSTEMS
from vinecast.systems.vinifera.catalogue import ContentProfiles

Progress = Callable[[int, OverlayStats | None], object]
"""Told the number of each cycle that is done, and what was measured after it, if anything was."""

CYCLE_COLUMNS: dict[str, str] = {
    "cycle": "int64",
    "time_s": "float64",
    "came": "int64",
    "went": "int64",
    **{field.name: "int64" if field.type is int else "float64" for field in dataclasses.fields(OverlayStats)},
}


def columns_of(scenario: Scenario) -> dict[str, str]:
    """The columns of a run's measurements, with their types."""
    system = SYSTEMS[scenario.system]
    return CYCLE_COLUMNS | TOPIC_COLUMNS if system.has_topics or system.has_content else CYCLE_COLUMNS


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run found."""

    rows: list[dict[str, Any]]
    """One measurement a row, with the columns of ``columns_of``."""
    summary: dict[str, Any]
    classes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """By class of topics and of nodes, with the columns of ``CLASS_COLUMNS``; systems with topics only."""


def simulate(
    resolved: Resolved,
    *,
    threads: int = 1,
    data: Path | None = None,
    progress: Progress | None = None,
    trace: Callable[[TraceRecord], None] | None = None,
    on_dissemination: OnDissemination | None = None,
) -> RunOutcome:
    """Run a scenario from beginning to end."""
    scenario = resolved.scenario
    profiles = populate(scenario, data, resolved.folder)
    watch: TopicWatch | ContentWatch | None = None
    if isinstance(profiles, ContentProfiles):
        watch = ContentWatch(resolved, profiles, data)
    elif SYSTEMS[scenario.system].has_topics:
        watch = TopicWatch(resolved, profiles, _delays(resolved, profiles.peers, data), on_dissemination)
    world = build_world(resolved, profiles, threads=threads, data=data, trace=trace, watch=watch)
    fault_driver = FaultDriver(resolved, world, data)
    rows: list[dict[str, Any]] = []
    try:
        for cycle in range(scenario.cycles):
            fault_driver.before(cycle)
            if watch is not None:
                watch.before(cycle)
            world.advance()
            stats = None
            if scenario.falls_due(cycle, scenario.measure.every):
                stats = _look(scenario, world)
                time_s = (cycle + 1) * resolved.config.period_us / 1e6
                came, went = fault_driver.take_counts()
                row = {"cycle": cycle, "time_s": time_s, "came": came, "went": went}
                topics = {} if watch is None else watch.row(cycle)
                rows.append({**row, **dataclasses.asdict(stats), **topics})
            elif watch is not None:
                watch.after(cycle)
            if progress is not None:
                progress(cycle, stats)
    finally:
        world.close()
    classes = [] if watch is None else watch.classes()
    return RunOutcome(rows, summarise(resolved, world, profiles, rows), classes)


def _delays(resolved: Resolved, nodes: int, data: Path | None) -> Delays | None:
    """How long a sweep's events take from node to node, if the scenario says so."""
    name = resolved.scenario.publish.matrix
    if name is None:
        return None
    rtt_ms = read_matrix(find_file(name, resolved.folder, data))
    return Network(NetworkConfig("matrix", matrix=name), resolved.scenario.seed, nodes, rtt_ms).delays()


def populate(scenario: Scenario, data: Path | None, folder: Path = Path()) -> Profiles:
    """The profiles of a scenario's population, subscribed to what its workload says.

    folder: where the names of a scenario's files start from
    """
    nodes = scenario.population
    if SYSTEMS[scenario.system].has_content:
        return scenario.content.workload(scenario.seed, nodes, data).profiles(scenario.seed)
    if not SYSTEMS[scenario.system].has_topics:
        return Profiles.simulated(scenario.seed, np.zeros(nodes + 1, np.int64), np.zeros(0, np.int32), 0)
    workload = scenario.workload
    if workload.file is not None:
        from vinecast.sim.workload.parquet import read_subscriptions

        found = read_subscriptions(find_file(workload.file, folder, data), nodes)
    else:
        found = load_workload(
            workload.kind, nodes, scenario.seed, data, workload.topics, workload.subscriptions
        )
    return Profiles.simulated(scenario.seed, found.start, found.topics, found.topic_count)


def build_world(
    resolved: Resolved,
    profiles: Profiles,
    *,
    threads: int = 1,
    data: Path | None = None,
    trace: Callable[[TraceRecord], None] | None = None,
    watch: TopicWatch | ContentWatch | None = None,
) -> World:
    """The world of a scenario, with nobody on line yet; ``watch`` is told what happens in it."""
    world = _build_world(resolved, profiles, threads, data, trace, watch)
    if watch is not None:
        watch.attach(world)
    return world


def _build_world(
    resolved: Resolved,
    profiles: Profiles,
    threads: int,
    data: Path | None,
    trace: Callable[[TraceRecord], None] | None,
    watch: TopicWatch | ContentWatch | None,
) -> World:
    scenario, config = resolved.scenario, resolved.config
    system = SYSTEMS[scenario.system]
    if system.has_content and scenario.content.capacity is not None:
        system = bounded(system, scenario.content.capacity)
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
    on_send = None if watch is None else watch.message
    told = trace if watch is None else _both(watch.meter, trace)
    return EventWorld(
        system, config, scenario.seed, profiles, scenario.event, network, trace=told, on_send=on_send
    )


def _both(
    meter: Callable[[TraceRecord], None], trace: Callable[[TraceRecord], None] | None
) -> Callable[[TraceRecord], None]:
    """Tell the meter and, if there is one, whoever else wants to know."""
    if trace is None:
        return meter

    def tell(record: TraceRecord) -> None:
        meter(record)
        trace(record)

    return tell


def _look(scenario: Scenario, world: World) -> OverlayStats:
    what = scenario.measure
    return measure(
        world.views(),
        world.online,
        seed=scenario.seed,
        clustering_sample=what.clustering_sample,
        path_sources=what.path_sources,
    )


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
        summary["subscriptions_mean"] = int(profiles.cnt.sum()) / profiles.peers
    if SYSTEMS[scenario.system].has_content:
        summary["content"] = scenario.content.kind
        summary["filters"] = profiles.topic_ids.size
        summary["subscriptions_mean"] = int(profiles.cnt.sum()) / profiles.peers
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
) -> RunOutcome:
    """Run a scenario and write its folder, all of it or nothing."""
    try:
        import tomli_w

        from vinecast.sim.measure.records import TraceWriter, write_rows
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
            if outcome.classes:
                write_rows(partial / "classes.parquet", outcome.classes, CLASS_COLUMNS)
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
    for section, key in FILE_KEYS:
        name = table.get(section, {}).get(key)
        if name is not None and (resolved.folder / name).exists():
            table[section][key] = os.path.relpath((resolved.folder / name).resolve(), folder.resolve())
    return table
