"""Runs of PolderCast, alone and with regular rings, for the claims of S4 ch. 6.

How S4 is read here (docs/grid.md says more):

- the hit ratio of a cycle is the mean over topics of the share of a topic's subscribers that got its event
  (S4 §6.6.4: "the average of the hit-ratio of all the topics"); a run's is the mean over its cycles. Over
  subscriptions, as everywhere else in this project, it is measured beside it;
- nodes count from their tenth cycle on (§6.6.4), in runs with and without regular rings alike;
- PolderCast is S0's: its own exchange, and events go to two neighbours and no stand-by (§2.4.4);
- the window of a slot that is running counts (``refresh = "cycle"``): only then is there anybody regular by
  the week in the first week, as §6.7.1 reports.

Publishing leaves the overlay as it is, so that one run of PolderCast serves for both fan-outs.
"""

import functools
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.claims.claim import Setup
from vinecast.claims.grid_notes import Notes, Run
from vinecast.claims.kept import Arrays, digest_of, fetch
from vinecast.core.draws import purpose, shuffled, stream, substream, unit
from vinecast.core.errors import InputError
from vinecast.core.profiles import Profiles
from vinecast.core.regularity import CYCLES_S, DAY_S
from vinecast.sim.bench_regular import trace_patterns
from vinecast.sim.churn import Availability, read_avt
from vinecast.sim.director import Director
from vinecast.sim.run import build_world
from vinecast.sim.sample import FILES, load_workload
from vinecast.sim.scenario import Resolved, resolve
from vinecast.sim.workload import Subscriptions
from vinecast.sim.world import SweepWorld
from vinecast.systems.poldercast_regular_sweep import PolderCastRegularSweep
from vinecast.systems.poldercast_sweep import PolderCastSweep

TRACE = "skype.avt.gz"
SEEDS = {"small": 1, "paper": 4}
"""Seeds from the setup's on (S4 §6.6.5: four)."""
PERIODS_S = {"small": (600.0, 3000.0), "paper": (100.0, 200.0, 1000.0)}
"""Seconds of a cycle (S4 §6.6.3), from slow churn to high."""
NODES = {"small": 120, "paper": 1000}
DAYS = 5
"""Of the small scale's synthetic trace."""
FANOUT, FANOUT_BASE = 2, 4  # S4 §6.6.5: on each ring, and of the PolderCast that it is compared with
WARM_UP = 10  # S4 §6.6.4
CONTACTS = 20
"""Random peers that whoever comes knows, as in the claims about PolderCast."""
_HOURS = purpose("claims.grid.hours")
_OTHERS = purpose("claims.grid.others")


@dataclass(frozen=True, slots=True)
class Scene:
    """Who takes part, and how fast churn is played."""

    workload: str
    trace: Path
    nodes: int
    period_s: float
    cycles: int
    data: Path | None
    keep: Path | None

    @property
    def is_skype(self) -> bool:
        """Whether S4's values can be asked for."""
        return self.trace.name == TRACE

    @property
    def where(self) -> str:
        """In a few words."""
        return f"{self.workload}, {self.nodes:,} nodes, {'Skype' if self.is_skype else 'a synthetic trace'}"


@dataclass(frozen=True, slots=True)
class Second:
    """How a second ring is made: by which cycle of recurring behaviour and which threshold."""

    cycle: str
    threshold: int
    refresh: str = "cycle"
    patterns: str = "own"
    """Nodes find theirs while they run (``own``), are given the whole trace's (``trace``), or those of some
    other node (``others``)."""

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.cycle} {self.threshold} %"


@dataclass(frozen=True, slots=True)
class Play:
    """A run from beginning to end: a ``Job`` (claims/kept.py)."""

    scene: Scene
    seed: int
    second: Second | None = None
    exchange: str = "paper"

    @property
    def keep(self) -> Path | None:
        """See ``Job``."""
        return self.scene.keep

    @property
    def name(self) -> str:
        """See ``Job``."""
        second = self.second
        rings = "PolderCast" if second is None else f"{second.name}, patterns {second.patterns}"
        scene = f"{self.scene.workload}, {self.scene.period_s:g} s"
        return f"{scene}, {rings}, {self.exchange} exchange, seed {self.seed}"

    @property
    def work(self) -> float:
        """See ``Job``: cycles, of which those with a second ring take longer."""
        return self.scene.cycles * (1.0 if self.second is None else 1.6)

    def decided_by(self) -> dict[str, Any]:
        """See ``Job``: the scenario, the data, and whose patterns are used."""
        scene, table = self.scene, self.resolved().table()
        table["churn"]["trace"] = digest_of(scene.trace)
        graph = FILES.get(scene.workload)
        return {
            "scenario": table,
            "graph": digest_of(scene.data / graph[0]) if graph and scene.data else None,
            "patterns": self.second.patterns if self.second else None,
        }

    def resolved(self) -> Resolved:
        """The scenario."""
        return resolved_scene(self.scene, self.seed, self.second, self.exchange)

    def run(self) -> Arrays:
        """See ``Job``: what ``Run`` has, by fan-out."""
        runs = _play(self)
        return {
            f"{fanout}.{field.name}": getattr(run, field.name)
            for fanout, run in runs.items()
            for field in fields(Run)
        }


def scenes_of(setup: Setup) -> tuple[Scene, ...]:
    """One for each speed of churn, or for those that are asked for."""
    periods, nodes = PERIODS_S[setup.scale], NODES[setup.scale]
    if setup.scale == "small":
        trace, name = _synthetic(setup.seed, nodes), setup.workload or "synthetic"
    else:
        if setup.data is None:
            raise InputError(
                f"the experiments of S4 need {TRACE}: give the folder that holds it with --data DIR"
            )
        trace, name = setup.data / TRACE, setup.workload or "slashdot"
        if not trace.is_file():
            raise InputError(f"the experiments of S4 need {TRACE}, which is not in {setup.data} (--data DIR)")
    longest = _availability(trace, nodes).horizon_s // periods[-1]
    return tuple(
        Scene(
            name,
            trace,
            nodes,
            period,
            int(longest * periods[-1] // period),  # the same time at every speed
            setup.data,
            setup.keep,
        )
        for period in periods_of(setup)
    )


def periods_of(setup: Setup) -> tuple[float, ...]:
    """The seconds of a cycle that are asked for, from slow churn to high."""
    known = PERIODS_S[setup.scale]
    for asked in setup.periods_s or ():
        if asked not in known:
            offered = ", ".join(f"{period:g}" for period in known)
            raise InputError(
                f"at this scale the cycles of these claims last {offered} s, not {asked} (--periods)"
            )
    return tuple(period for period in known if setup.periods_s is None or period in setup.periods_s)


def seeds_of(setup: Setup) -> range:
    """The seeds over which results are averaged."""
    return range(setup.seed, setup.seed + (setup.seeds or SEEDS[setup.scale]))


def told_seeds(setup: Setup) -> str:
    """How many seeds, and of how many if those are fewer than S4's."""
    count, full = len(seeds_of(setup)), SEEDS[setup.scale]
    if count < full:
        return f"{count} of {full} seeds"
    return f"{count} seeds" if count > 1 else "one seed"


def told_periods(setup: Setup) -> str:
    """Which speeds of churn, and which are left out."""
    chosen = periods_of(setup)
    text = f"cycles of {' / '.join(f'{period:g}' for period in chosen)} s"
    without = [f"{period:g}" for period in PERIODS_S[setup.scale] if period not in chosen]
    return f"{text} ({' and '.join(without)} s left out)" if without else text


def synthetic_trace(seed: int, nodes: int, days: int) -> str:
    """An AVT trace: every node has hours of its own and keeps them on a share of days of its own."""
    lines = []
    for node in range(nodes):
        key = substream(stream(seed, _HOURS, 0, 0), node)
        begin, length = int(DAY_S * unit(key, 0)), int(DAY_S * (0.2 + 0.8 * unit(key, 1)))
        share = 0.5 + 0.5 * unit(key, 2)
        kept = [day for day in range(days) if unit(key, 3 + day) < share]
        times = [(day * DAY_S + begin, min(day * DAY_S + begin + length, days * DAY_S)) for day in kept]
        lines.append(f"n{node} {len(times)} {' '.join(f'{on} {off}' for on, off in times)}")
    return "\n".join(lines) + "\n"


@functools.lru_cache(maxsize=4)
def _synthetic(seed: int, nodes: int) -> Path:
    """A file with a synthetic trace; the folder lives as long as the process."""
    path = Path(_folder().name) / f"synthetic-{seed}-{nodes}.avt"
    path.write_text(synthetic_trace(seed, nodes, DAYS))
    return path


@functools.cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="vinecast-claims-")


@functools.lru_cache(maxsize=4)
def _availability(path: Path, nodes: int) -> Availability:
    return read_avt(path).take(nodes)


def alone(scene: Scene, seed: int, fanout: int, exchange: str = "paper") -> Run:
    """PolderCast without a second ring."""
    return _run_of(Play(scene, seed, None, exchange), fanout)


def doubled(scene: Scene, seed: int, second: Second, exchange: str = "paper") -> Run:
    """PolderCast with a second ring."""
    return _run_of(Play(scene, seed, second, exchange), FANOUT)


def _run_of(play: Play, fanout: int) -> Run:
    arrays = fetch(play)
    return Run(*(arrays[f"{fanout}.{field.name}"] for field in fields(Run)))


def resolved_scene(scene: Scene, seed: int, second: Second | None, exchange: str) -> Resolved:
    """The scenario of a run, as ``vinecast sim run`` and a Spark sweep would have it."""
    layer = {"period_s": scene.period_s}
    rings = {**layer, "exchange": exchange}
    config: dict[str, Any] = {"fanout": FANOUT, "stand_by": exchange == "informed"}
    config |= {"cyclon": layer, "vicinity": layer, "rings": rings}
    if second is not None:
        regularity = {
            "cycle_s": CYCLES_S[second.cycle], "threshold": second.threshold, "refresh": second.refresh,
        }  # fmt: skip
        config |= {"regular": rings, "grid": {"victor": layer, "regularity": regularity}}
    system = "poldercast" if second is None else "poldercast_regular"
    return resolve(
        {
            "name": "regularity",
            "seed": seed,
            "nodes": scene.nodes,
            "cycles": scene.cycles,
            "system": system,
            system: config,
            "workload": {"kind": scene.workload},
            "churn": {"kind": "trace", "trace": str(scene.trace.resolve())},
            "start": {"contacts": CONTACTS, "join_contacts": CONTACTS},
            "publish": {"warm_up": WARM_UP},
        },
        Path(),
    )


@functools.lru_cache(maxsize=4)
def _subscriptions(workload: str, nodes: int, seed: int, data: Path | None) -> Subscriptions:
    return load_workload(workload, nodes, seed, data)


def _play(play: Play) -> dict[int, Run]:
    """By fan-out. On one thread: several runs at a time make better use of more."""
    scene, second, resolved = play.scene, play.second, play.resolved()
    found = _subscriptions(scene.workload, scene.nodes, play.seed, scene.data)
    profiles = Profiles.simulated(play.seed, found.start, found.topics, found.topic_count)
    world = build_world(resolved, profiles, data=scene.data)
    assert isinstance(world, SweepWorld)
    sweep = world.engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    director = Director(resolved, world, scene.data)
    if second is not None and second.patterns != "own":
        _give_patterns(scene, play.seed, second, sweep, director.turns)
    fanouts = (FANOUT, FANOUT_BASE) if second is None else (FANOUT,)
    notes = {fanout: Notes(profiles) for fanout in fanouts}
    age = np.full(scene.nodes, -1)
    try:
        for cycle in range(scene.cycles):
            director.before(cycle)
            age = np.where(world.online, age + 1, -1)
            world.advance()
            expected = age >= WARM_UP
            if cycle < WARM_UP:
                continue
            for fanout, note in notes.items():
                publication = sweep.publish(cycle, fanout=fanout, publishers=expected)
                note.take(cycle * scene.period_s, publication.run(world.engine.divide), expected, sweep)
    finally:
        world.close()
    return {fanout: note.run() for fanout, note in notes.items()}


def _give_patterns(
    scene: Scene, seed: int, second: Second, sweep: PolderCastSweep, turns: NDArray[np.int64]
) -> None:
    assert isinstance(sweep, PolderCastRegularSweep)
    config = sweep.config.grid.regularity
    found = trace_patterns(_availability(scene.trace, scene.nodes), config)
    if second.patterns == "others":
        found = found[shuffled(stream(seed, _OTHERS, 0, 0), scene.nodes)]
    turned = np.zeros_like(found)
    turned[turns] = found
    sweep.patterns.give(turned)


def by_hour(series: NDArray[np.float64], period_s: float) -> tuple[list[float], list[float]]:
    """Hours, and the mean of a series in each: what a figure needs of thousands of cycles."""
    each = max(round(3600 / period_s), 1)
    starts = range(0, series.size, each)
    values = [float(series[begin : begin + each].mean()) for begin in starts]
    return [(WARM_UP + begin) * period_s / 3600 for begin in starts], values


def listed(name: str, values: Iterable[float], form: str = "+.2f") -> str:
    """A name and its values, one for each speed of churn."""
    return f"{name} {' / '.join(f'{value:{form}}' for value in values)}"
