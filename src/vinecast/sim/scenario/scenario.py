"""Scenarios: a TOML file with a seed says everything about a run.

``read_scenario`` is the edge at which a scenario is validated: an unknown key, a wrong type or an
impossible value is one sentence that names the key. Where and how fast it runs (threads, folders) is not
part of a scenario: those are options of the command, and never change the result.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.core.config import as_table, check, limited, read, unknown_key
from vinecast.core.draws import SEED_MAX
from vinecast.core.errors import InputError
from vinecast.sim.engine.network import NetworkConfig
from vinecast.sim.workload.content import FiltersConfig
from vinecast.sim.workload.rates import Rates, checked, power_law
from vinecast.sim.workload.sample import WORKLOADS
from vinecast.systems.registry import SYSTEMS

NODES_MAX = 2**31 - 2
FAULTS = ("crash", "leave", "join", "restart")
TOPIC_TABLES = ("workload", "publish")
CONTENT_TABLES = ("content", "publish")
FILE_KEYS = (("workload", "file"), ("churn", "trace"), ("network", "matrix"), ("publish", "matrix"))
"""Where a scenario names files."""


@dataclass(frozen=True, slots=True)
class StartConfig:
    """How nodes come up."""

    contacts: int = limited(20, at_least=1, at_most=1000)
    """Random peers that each node of the first population knows."""
    join_contacts: int = limited(1, at_least=1, at_most=1000)
    """Random on-line peers that a node knows when it comes up later."""


@dataclass(frozen=True, slots=True)
class EventConfig:
    """What only the event engine knows."""

    timers: str = limited("spread", one_of=("spread", "synchronised"))
    """Whether nodes start at random moments of a cycle, as live ones do, or all at its beginning."""
    clock_offset_ms: float = limited(0.0, at_least=0, at_most=1e12)
    """Clocks are off by up to this many milliseconds, either way."""
    clock_drift_ppm: float = limited(0.0, at_least=0, at_most=100_000)
    """Clocks run fast or slow by up to this many parts per million."""
    records: bool = True
    """Whether to write a trace record for every message."""


@dataclass(frozen=True, slots=True)
class SweepConfig:
    """What only the sweep engine knows."""

    setting: str = limited("sequential", one_of=("sequential", "synchronous"))
    """The order of exchanges within a cycle (docs/exchange.md); left out, the system's first choice."""


@dataclass(frozen=True, slots=True)
class WorkloadConfig:
    """Who subscribes to what, for systems with topics."""

    kind: str = limited("synthetic", one_of=(*WORKLOADS, "file"))
    """A sample of a social graph (in the data folder), or a synthetic one, or a pattern
    (sim/workload/sample.py), or whatever a file says."""
    file: str | None = None
    """A Parquet file of subscriptions (sim/workload/parquet.py), for the kind ``file``."""
    topics: int | None = limited(None, at_least=1)
    """How many topics there are, for a pattern; unless given, as many as suit the number of nodes."""
    subscriptions: int | None = limited(None, at_least=1)
    """Topics a node, for a pattern or, on average, for a synthetic graph; likewise."""

    def __post_init__(self) -> None:
        check(self)
        if (self.kind == "file") != (self.file is not None):
            raise InputError('file goes with kind = "file", and the other way round')
        if self.file is not None and (self.topics or self.subscriptions):
            raise InputError("topics and subscriptions are the file's, and cannot be chosen")


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """What is published, for systems with topics: one event a topic, by a random on-line subscriber.

    With rates a topic has some, one or no events. Those of one topic go the same way, so that one is
    published and stands for all: nodes estimate rates by it and traffic counts it as often, hit ratio and
    hops count it once.
    """

    every: int = limited(1, at_least=1)
    """Cycles from one publication to the next; the last cycle always has one."""
    warm_up: int = limited(0, at_least=0)
    """Cycles that a node must have been on line for before it publishes, and is held to events (S0 §6.6)."""
    matrix: str | None = None
    """A table of round-trip times that gives a sweep's events latencies; machines have a network."""
    alpha: float | None = limited(None, at_least=0, at_most=100)
    """Rates by a power law, one event a topic on average (sim/workload/rates.py; S2 §3.6.4: from 0.3 to
    3)."""
    rates: tuple[float, ...] | None = None
    """Events that topics 0, 1, … have at each publication, on average; after the last it begins anew."""

    def __post_init__(self) -> None:
        check(self)
        if self.alpha is not None and self.rates is not None:
            raise InputError("give either alpha or rates")
        if self.rates is not None:
            checked(np.array(self.rates, dtype=np.float64))

    def rates_of(self, seed: int, topics: int) -> Rates | None:
        """The rate of every topic, or None where each has one event. [topic]"""
        if self.rates is not None:
            return np.resize(np.array(self.rates, dtype=np.float64), topics)
        return None if self.alpha is None else power_law(seed, topics, self.alpha)


@dataclass(frozen=True, slots=True)
class ChurnConfig:
    """How nodes come and go."""

    kind: str = limited("none", one_of=("none", "onoff", "trace"))
    """Nobody leaves, alternating exponential times, or an availability trace."""
    mean_on_s: float = limited(3600.0, above=0)
    """Mean length of a session in seconds (onoff)."""
    mean_off_s: float = limited(3600.0, above=0)
    """Mean length of an absence in seconds (onoff)."""
    trace: str | None = None
    """An AVT file, or Parquet (sim/workload/parquet.py); node i of the run is the i-th of the file."""
    keep_state: bool = True
    """Whether a node that returns still has its view (S0 §2: it "can remember its prior state")."""

    def __post_init__(self) -> None:
        check(self)
        if (self.kind == "trace") != (self.trace is not None):
            raise InputError('trace goes with kind = "trace", and the other way round')


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to many nodes at once, at the beginning of a cycle."""

    at_cycle: int = limited(at_least=0)
    """When."""
    kind: str = limited(one_of=FAULTS)
    """``crash`` without a word, ``leave`` in good order, ``join`` of new nodes, ``restart`` of the absent."""
    share: float | None = limited(None, at_least=0, at_most=1)
    """How many of those on line (crash, leave) or absent (restart)."""
    count: int | None = limited(None, at_least=0)
    """How many, as a number."""
    keep_state: bool = True
    """Whether those that restart still have their views."""

    def __post_init__(self) -> None:
        check(self)
        if (self.share is None) == (self.count is None):
            raise InputError("give either share or count")
        if self.kind == "join" and self.count is None:
            raise InputError("a join needs count")


@dataclass(frozen=True, slots=True)
class MeasureConfig:
    """What is measured, and how often. Degrees, dead links and components are measured every time."""

    every: int = limited(1, at_least=1)
    """Cycles between two measurements; the last cycle is always measured."""
    clustering_sample: int = limited(0, at_least=0)
    """Nodes over which the clustering coefficient is averaged; 0 leaves it out."""
    path_sources: int = limited(0, at_least=0)
    """Nodes from which path lengths are measured; 0 leaves them out."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything about a run."""

    name: str
    """What to call it."""
    seed: int = limited(at_least=0, at_most=SEED_MAX)
    """The source of every random decision."""
    nodes: int = limited(at_least=2, at_most=NODES_MAX)
    """Nodes at the beginning, or, under churn, all that can ever be on line.

    A workload has as many users, and further ones for those who join.
    """
    cycles: int = limited(at_least=1, at_most=100_000_000)
    """How long it runs, in periods of the system."""
    system: str = limited("cyclon", one_of=tuple(SYSTEMS))
    """What the nodes run; its configuration is the table of the same name."""
    engine: str = limited("sweep", one_of=("sweep", "event"))
    """Who runs it."""
    description: str = ""
    """One sentence for whoever looks at the results."""
    start: StartConfig = field(default_factory=StartConfig)
    event: EventConfig = field(default_factory=EventConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    churn: ChurnConfig = field(default_factory=ChurnConfig)
    faults: tuple[Fault, ...] = ()
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    publish: PublishConfig = field(default_factory=PublishConfig)
    content: FiltersConfig = field(default_factory=FiltersConfig)

    def __post_init__(self) -> None:
        check(self)
        if not 0 < len(self.name) <= 100 or not self.name.isprintable():
            raise InputError("name must be 1 to 100 printable characters")
        if "/" in self.name or self.name.startswith("."):
            raise InputError("name must not begin with a dot or contain a slash")
        if self.faults and self.churn.kind != "none":
            raise InputError("faults and churn cannot be combined in one scenario")
        if self.population > NODES_MAX:
            raise InputError(f"faults must not let more than {NODES_MAX:,} nodes join")
        for fault in self.faults:
            if fault.at_cycle >= self.cycles:
                raise InputError(f"a fault at cycle {fault.at_cycle} never happens in {self.cycles} cycles")

    @property
    def population(self) -> int:
        """All nodes that the run can ever see."""
        return self.nodes + sum(fault.count or 0 for fault in self.faults if fault.kind == "join")

    def falls_due(self, cycle: int, every: int) -> bool:
        """Whether what is done every so many cycles is done in this one; in the last one, always."""
        return (cycle + 1) % every == 0 or cycle + 1 == self.cycles


@dataclass(frozen=True, slots=True)
class Resolved:
    """A validated scenario with its system's configuration, and the folder that its file names start from."""

    scenario: Scenario
    config: Any
    folder: Path

    def table(self) -> dict[str, Any]:
        """All of it as TOML tables, defaults included; without those that the engine or system knows not."""
        table = as_table(self.scenario)
        other = {"event", "network"} if self.scenario.engine == "sweep" else {"sweep"}
        other |= {*TOPIC_TABLES, *CONTENT_TABLES} - set(subscription_tables(self.scenario.system))
        for name in other:
            table.pop(name)
        table[self.scenario.system] = as_table(self.config)
        return table


def subscription_tables(system: str) -> tuple[str, ...]:
    """The tables that say what nodes subscribe to and publish, in this system."""
    if SYSTEMS[system].has_content:
        return CONTENT_TABLES
    return TOPIC_TABLES if SYSTEMS[system].has_topics else ()


def resolve(tables: Mapping[str, Any], folder: Path) -> Resolved:
    """Validate a scenario given as tables."""
    rest = dict(tables)
    system = rest.get("system", "cyclon")
    config_table = rest.pop(system, {}) if isinstance(system, str) and system in SYSTEMS else {}
    known = [field.name for field in dataclasses.fields(Scenario)]
    for key in rest:
        if key in SYSTEMS:
            raise InputError(f'{key} goes with system = "{key}"')
        if key not in known:
            raise unknown_key(key, [*known, *SYSTEMS])
    scenario = read(Scenario, rest)
    _check_tables(scenario, rest)
    if "setting" not in rest.get("sweep", {}):
        scenario = dataclasses.replace(scenario, sweep=SweepConfig(SYSTEMS[scenario.system].settings[0]))
    config = read(SYSTEMS[scenario.system].config, config_table, scenario.system)
    return Resolved(scenario, config, folder)


def _check_tables(scenario: Scenario, given: Mapping[str, Any]) -> None:
    """Refuse tables of an engine or a system that does not run, and what the system does not offer."""
    system = SYSTEMS[scenario.system]
    for table in (*TOPIC_TABLES, "content"):
        if table in given and table not in subscription_tables(scenario.system):
            what = "filters" if table == "content" else "topics"
            raise InputError(f"{table} goes with a system that has {what}, and {scenario.system} has none")
    if scenario.engine == "event":
        if "sweep" in given:
            raise InputError('sweep goes with engine = "sweep"')
        if scenario.publish.matrix is not None:
            raise InputError('publish.matrix goes with engine = "sweep"; machines use network.matrix')
        if scenario.publish.alpha is not None or scenario.publish.rates is not None:
            raise InputError('publish.alpha and publish.rates go with engine = "sweep"')
        return
    if system.sweep is None:
        raise InputError(f'engine = "sweep" is not offered by {scenario.system}; use engine = "event"')
    for table in ("network", "event"):
        if table in given:
            raise InputError(f'{table} goes with engine = "event"; a sweep has no network')
    setting = scenario.sweep.setting
    if "setting" in given.get("sweep", {}) and setting not in system.settings:
        offered = " or ".join(f'"{offered}"' for offered in system.settings)
        raise InputError(f'sweep.setting = "{setting}" is not offered by {scenario.system}; use {offered}')


def read_scenario(path: Path, overrides: Mapping[str, Any] | None = None) -> Resolved:
    """Read and validate a scenario file. ``overrides`` replace values by key, such as ``workload.kind``."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, or what Python itself refuses
        raise InputError(f"{path}: not valid TOML: {error}") from None
    try:
        for key, value in (overrides or {}).items():
            tables = _replaced(tables, key, value)
        return resolve(tables, path.parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _replaced(tables: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """The same tables but for one value, given by its path. What lies on the way is made if it must be."""
    first, dot, rest = key.partition(".")
    if not dot:
        return {**tables, first: value}
    inner = tables.get(first, {})
    if not isinstance(inner, Mapping):
        raise InputError(f"{key} cannot be set, since {first} is not a table")
    return {**tables, first: _replaced(inner, rest, value)}


def find_file(name: str, folder: Path, data: Path | None) -> Path:
    """A file that a scenario names: as it stands from the scenario's folder, or in the data folder."""
    places = [folder / name] + ([data / name] if data is not None else [])
    for place in places:
        if place.is_file() or any(place.glob("*.parquet")):  # a table in Parquet may be a folder of files
            return place
    if data is None:
        raise InputError(f"{name}: no such file beside the scenario, and no data folder given (--data DIR)")
    raise InputError(f"{name}: no such file beside the scenario or in {data}")
