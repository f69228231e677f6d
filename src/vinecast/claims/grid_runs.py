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
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.claims.claim import Setup
from vinecast.core.draws import purpose, shuffled, stream, substream, unit
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles
from vinecast.core.regularity import CYCLES_S, DAY_S
from vinecast.core.spread import MISSED, Spread
from vinecast.sim.bench_regular import trace_patterns
from vinecast.sim.churn import Availability, read_avt
from vinecast.sim.director import Director
from vinecast.sim.metrics import Tally, reach_of
from vinecast.sim.run import build_world, populate
from vinecast.sim.scenario import Resolved, resolve
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
DEGREES_EVERY_S = 6 * 3600
"""Seconds between two looks at degrees (ours)."""
_HOURS = purpose("claims.grid.hours")
_OTHERS = purpose("claims.grid.others")


Layer = tuple[NDArray[Any], NDArray[np.int32]]
"""Whose rows they are [row], and who stands on them [row, place]."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Who takes part, and how fast churn is played."""

    workload: str
    trace: Path
    nodes: int
    period_s: float
    cycles: int
    data: Path | None
    threads: int

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


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What was measured, cycle by cycle, from the tenth on."""

    hit_by_topic: NDArray[np.float64]
    """Hit ratio as S4 has it."""
    hit: NDArray[np.float64]
    """… and over subscriptions."""
    duplication: NDArray[np.float64]
    hops: NDArray[np.float64]
    online: NDArray[np.int64]
    regular: NDArray[np.int64]
    """Nodes on line that are regular now."""
    tally: Tally
    """All events together, by class (sim/metrics.py)."""
    degrees: NDArray[np.float64]
    """[look, (hour, in-degree in PolderCast's layers, of regular nodes in all, of the others in all)]"""


def scenes_of(setup: Setup) -> tuple[Scene, ...]:
    """One for each speed of churn."""
    periods, nodes, threads = PERIODS_S[setup.scale], NODES[setup.scale], setup.threads
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
    cycles = [int(longest * periods[-1] // period) for period in periods]  # the same time at every speed
    return tuple(
        Scene(name, trace, nodes, period, count, setup.data, threads)
        for period, count in zip(periods, cycles, strict=True)
    )


def seeds_of(setup: Setup) -> range:
    """The seeds over which results are averaged."""
    return range(setup.seed, setup.seed + SEEDS[setup.scale])


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
    return _runs(scene, seed, None, exchange)[fanout]


def doubled(scene: Scene, seed: int, second: Second, exchange: str = "paper") -> Run:
    """PolderCast with a second ring."""
    return _runs(scene, seed, second, exchange)[FANOUT]


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


@functools.lru_cache(maxsize=512)
def _runs(scene: Scene, seed: int, second: Second | None, exchange: str) -> dict[int, Run]:
    """A run from beginning to end, by fan-out."""
    resolved = resolved_scene(scene, seed, second, exchange)
    profiles = populate(resolved.scenario, scene.data)
    world = build_world(resolved, profiles, threads=scene.threads, data=scene.data)
    assert isinstance(world, SweepWorld)
    sweep = world.engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    director = Director(resolved, world, scene.data)
    if second is not None and second.patterns != "own":
        _give_patterns(scene, seed, second, sweep, director.turns)
    name = "PolderCast" if second is None else f"{second.name}, patterns {second.patterns}"
    fanouts = (FANOUT, FANOUT_BASE) if second is None else (FANOUT,)
    notes = {fanout: _Notes(profiles) for fanout in fanouts}
    age = np.full(scene.nodes, -1)
    try:
        for cycle in range(scene.cycles):
            _tell(scene, f"{name}, {exchange} exchange, seed {seed}", cycle)
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


def _tell(scene: Scene, what: str, cycle: int) -> None:
    """A line on standard error at every quarter of a long run."""
    if scene.is_skype and cycle % max(scene.cycles // 4, 1) == 0:
        told = f"{scene.workload}, {scene.period_s:g} s, {what}: {cycle:,} of {scene.cycles:,} cycles"
        sys.stderr.write(told + "\n")
        sys.stderr.flush()


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


class _Notes:
    """A run while it is measured."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._owner = profiles.owners()
        self._rows: list[tuple[float, ...]] = []
        self._degrees: list[tuple[float, ...]] = []
        self._tally: Tally | None = None
        self._next_look_s = 0.0

    def take(self, now_s: float, spread: Spread, expected: NDArray[np.bool_], sweep: PolderCastSweep) -> None:
        """What became of a cycle's events."""
        reach = reach_of(spread, self._profiles, expected)
        stats = reach.stats()
        self._tally = reach.tally if self._tally is None else self._tally + reach.tally
        regular = regular_now(sweep) & sweep.online
        row = (hit_by_topic(spread, self._profiles, self._owner, expected), stats.hit_ratio)
        counts = (int(sweep.online.sum()), int(regular.sum()))
        self._rows.append((*row, stats.duplication, stats.hops_mean, *counts))
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + DEGREES_EVERY_S
            self._degrees.append((now_s / 3600, *mean_in_degrees(sweep, self._owner, regular)))

    def run(self) -> Run:
        """All of it."""
        assert self._tally is not None
        by_topic, hit, duplication, hops, online, regular = np.array(self._rows).T
        counts = online.astype(np.int64), regular.astype(np.int64)
        return Run(by_topic, hit, duplication, hops, *counts, self._tally, np.array(self._degrees))


def hit_by_topic(
    spread: Spread, profiles: Profiles, owner: NDArray[np.int32], expected: NDArray[np.bool_]
) -> float:
    """The mean over topics of the share of those held to a topic's event that got it."""
    due = expected[owner] & (spread.publisher[profiles.topics] != NOBODY)
    topics = profiles.topic_ids.size
    count = np.bincount(profiles.topics[due], minlength=topics)
    hits = np.bincount(profiles.topics[due & (spread.hops != MISSED)], minlength=topics)
    there = count > 0
    return float((hits[there] / count[there]).mean()) if there.any() else 1.0


def regular_now(sweep: PolderCastSweep) -> NDArray[np.bool_]:
    """Who is regular in the present slot; nobody where there is no second ring. [node]"""
    if not isinstance(sweep, PolderCastRegularSweep):
        return np.zeros(sweep.nodes, dtype=np.bool_)
    regular: NDArray[np.bool_] = sweep.patterns.regular[:, sweep.regularity.slot]
    return regular


def mean_in_degrees(
    sweep: PolderCastSweep, owner: NDArray[np.int32], regular: NDArray[np.bool_]
) -> tuple[float, float, float]:
    """How many on-line nodes have a node in their views (S4 §6.6.4): on average in PolderCast's layers, and
    in all layers for those who are regular now and for the others; NaN where there are none."""
    everyone = np.arange(sweep.nodes)
    layers: list[Layer] = [
        (everyone, sweep.cyclon.peers),
        (everyone, sweep.near_peers),
        (owner, sweep.ring_peers),
    ]
    below = _in_degrees(layers, sweep.online)
    if isinstance(sweep, PolderCastRegularSweep):
        rows = np.where(regular[owner][:, None], sweep.regular_peers, NOBODY)
        layers += [(everyone, sweep.victor_peers), (owner, rows)]
    above = _in_degrees(layers, sweep.online)
    groups = (below[sweep.online], above[regular], above[sweep.online & ~regular])
    first, second, third = (float(group.mean()) if group.size else float("nan") for group in groups)
    return first, second, third


def _in_degrees(layers: list[Layer], online: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[node]"""
    nodes, links = online.size, []
    for owner, peers in layers:
        both = np.repeat(owner.astype(np.int64), peers.shape[1]), peers.ravel().astype(np.int64)
        there = (both[1] != NOBODY) & online[both[0]]
        links.append((both[0] * nodes + both[1])[there])
    return np.bincount(np.unique(np.concatenate(links)) % nodes, minlength=nodes)


def by_hour(series: NDArray[np.float64], period_s: float) -> tuple[list[float], list[float]]:
    """Hours, and the mean of a series in each: what a figure needs of thousands of cycles."""
    each = max(round(3600 / period_s), 1)
    starts = range(0, series.size, each)
    values = [float(series[begin : begin + each].mean()) for begin in starts]
    return [(WARM_UP + begin) * period_s / 3600 for begin in starts], values


def listed(name: str, values: Iterable[float], form: str = "+.2f") -> str:
    """A name and its values, one for each speed of churn."""
    return f"{name} {' / '.join(f'{value:{form}}' for value in values)}"
