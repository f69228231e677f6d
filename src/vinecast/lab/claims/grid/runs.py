"""Runs of PolderCast, alone and with regular rings, for the claims of S4 ch. 6.

How S4 is read here (docs/grid.md says more):

- the hit ratio of a cycle is the mean over topics of the share of a topic's subscribers that got its event
  (S4 §6.6.4: "the average of the hit-ratio of all the topics"); a run's is the mean over its cycles. Over
  subscriptions, as everywhere else in this project, it is measured beside it;
- nodes count from their tenth cycle on (§6.6.4), in runs with and without regular rings alike;
- PolderCast is S0's: its own exchange, and events go to two neighbours and no stand-by (§2.4.4);
- the window of a slot that is running counts (``refresh = "cycle"``): only then is there anybody regular by
  the week in the first week, as §6.7.1 reports.

Publishing leaves the overlay as it is, so that one run of PolderCast serves for both fan-outs; and it does
not notice a second ring, so that it serves for several of those, too.
"""

import functools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import CYCLES_S
from vinecast.core.draws import purpose, shuffled, stream
from vinecast.lab.bench.regular import trace_patterns
from vinecast.lab.claims.grid.notes import Notes, Run
from vinecast.lab.claims.grid.scenes import Scene, Second, availability
from vinecast.lab.runs.run_cache import Arrays, digest_of, fetch
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.scenario.fault_driver import FaultDriver
from vinecast.sim.scenario.run import build_world
from vinecast.sim.scenario.scenario import Resolved, resolve
from vinecast.sim.scenario.world import Contacts, Nodes, SweepWorld
from vinecast.sim.workload.sample import FILES, load_workload
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.poldercast.sweep import PolderCastSweep
from vinecast.systems.poldercast_regular.sweep import PolderCastRegularSweep

FANOUT, FANOUT_BASE = 2, 4  # S4 §6.6.5: on each ring, and of the PolderCast that it is compared with
WARM_UP = 10  # S4 §6.6.4
CONTACTS = 20
"""Random peers that whoever comes knows, as in the claims about PolderCast."""
_OTHERS = purpose("claims.grid.others")


@dataclass(frozen=True, slots=True)
class RingsRun:
    """A run from beginning to end: a ``Job`` (lab/runs/run_cache.py)."""

    scene: Scene
    seed: int
    second: Second | None = None
    exchange: str = "paper"

    @property
    def keep(self) -> Path | None:
        return self.scene.keep

    @property
    def name(self) -> str:
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

    @property
    def alike(self) -> Hashable:
        """See ``Job``: what PolderCast below the second ring is decided by."""
        return self.scene, self.seed, self.exchange

    def run_with(self, others: "Sequence[RingsRun]") -> list[Arrays]:
        """See ``Job``: what ``Run`` has, by fan-out."""
        return [
            {
                f"{fanout}.{field.name}": getattr(run, field.name)
                for fanout, run in runs.items()
                for field in fields(Run)
            }
            for runs in play_together([self, *others])
        ]


def alone(scene: Scene, seed: int, fanout: int, exchange: str = "paper") -> Run:
    """PolderCast without a second ring."""
    return _run_of(RingsRun(scene, seed, None, exchange), fanout)


def doubled(scene: Scene, seed: int, second: Second, exchange: str = "paper") -> Run:
    """PolderCast with a second ring."""
    return _run_of(RingsRun(scene, seed, second, exchange), FANOUT)


def _run_of(play: RingsRun, fanout: int) -> Run:
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


class _Together(SweepWorld):
    """A population of PolderCast, and those with second rings that share it."""

    def __init__(self, engine: SweepEngine) -> None:
        super().__init__(engine)
        self.above: list[SweepEngine] = []

    def start(self, nodes: Nodes, contacts: Contacts, keep_state: bool) -> None:
        super().start(nodes, contacts, keep_state)
        for engine in self.above:
            SweepWorld(engine).start(nodes, contacts, keep_state)

    def advance(self) -> None:
        super().advance()
        for engine in self.above:
            engine.run(1)


def play_together(plays: Sequence[RingsRun]) -> list[dict[int, Run]]:
    """What each gives, by fan-out. On one thread: several processes make better use of more."""
    scene, seed = plays[0].scene, plays[0].seed
    found = _subscriptions(scene.workload, scene.nodes, seed, scene.data)
    profiles = Profiles.simulated(seed, found.start, found.topics, found.topic_count)
    resolved = RingsRun(scene, seed, None, plays[0].exchange).resolved()
    base = build_world(resolved, profiles, data=scene.data)
    assert isinstance(base, SweepWorld)
    world = _Together(base.engine)
    fault_driver = FaultDriver(resolved, world, scene.data)
    measured = []
    for play in plays:
        sweep = base.engine.sweep
        assert isinstance(sweep, PolderCastSweep)
        if play.second is not None:
            sweep = _second_ring(play, play.second, profiles, sweep, fault_driver.turns)
            world.above.append(SweepEngine(sweep, sweep.config.period_us, "synchronous"))
        fanouts = (FANOUT, FANOUT_BASE) if play.second is None else (FANOUT,)
        measured.append((sweep, {fanout: Notes(profiles) for fanout in fanouts}))
    age = np.full(scene.nodes, -1)
    for cycle in range(scene.cycles):
        fault_driver.before(cycle)
        age = np.where(world.online, age + 1, -1)
        world.advance()
        expected = age >= WARM_UP
        if cycle < WARM_UP:
            continue
        for sweep, notes in measured:
            for fanout, note in notes.items():
                publication = sweep.publish(cycle, fanout=fanout, publishers=expected)
                note.take(cycle * scene.period_s, publication.run(world.engine.divide), expected, sweep)
    return [{fanout: note.run() for fanout, note in notes.items()} for _, notes in measured]


def _second_ring(
    play: RingsRun, second: Second, profiles: Profiles, below: PolderCastSweep, turns: NDArray[np.int64]
) -> PolderCastRegularSweep:
    """turns: who is the i-th of the trace"""
    scene = play.scene
    sweep = PolderCastRegularSweep(play.resolved().config, play.seed, profiles, below)
    if second.patterns == "own":
        return sweep
    found = trace_patterns(availability(scene.trace, scene.nodes), sweep.config.grid.regularity)
    if second.patterns == "others":
        found = found[shuffled(stream(play.seed, _OTHERS, 0, 0), scene.nodes)]
    turned = np.zeros_like(found)
    turned[turns] = found
    sweep.patterns.give(turned)
    return sweep


def by_hour(series: NDArray[np.float64], period_s: float) -> tuple[list[float], list[float]]:
    """Hours, and the mean of a series in each: what a figure needs of thousands of cycles."""
    each = max(round(3600 / period_s), 1)
    starts = range(0, series.size, each)
    values = [float(series[begin : begin + each].mean()) for begin in starts]
    return [(WARM_UP + begin) * period_s / 3600 for begin in starts], values


def listed(name: str, values: Iterable[float], form: str = "+.2f") -> str:
    """A name and its values, one for each speed of churn."""
    return f"{name} {' / '.join(f'{value:{form}}' for value in values)}"
