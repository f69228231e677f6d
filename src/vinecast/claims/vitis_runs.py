"""Runs of Vitis, RVR and OPT for the claims of S2 §3.6: networks that come to rest, and one under churn.

All nodes start at once with random contacts, and after so many cycles one event a topic is published on the
overlay as it stands. Publishing leaves the overlay as it is unless Vitis's nodes estimate rates from it: RVR
does not know them, so that one run of it serves for all rates.
"""

import functools
import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.claims.kept import Arrays, digest_of
from vinecast.core.config import as_table
from vinecast.core.profiles import Profiles
from vinecast.core.traffic import unwanted_overall, unwanted_share
from vinecast.protocols.tman import TManConfig
from vinecast.sim.bench_vitis import CONTACTS, population
from vinecast.sim.churn import Availability, on_off, read_avt
from vinecast.sim.metrics import spread_stats
from vinecast.sim.rates import draw_events, power_law
from vinecast.sim.sample import FILES, load_workload
from vinecast.sim.sweep import SweepEngine
from vinecast.sim.workload import Subscriptions
from vinecast.sim.world import choose_contacts
from vinecast.systems.on_tman_events import Publication
from vinecast.systems.on_tman_sweep import Config, OnTManSweep
from vinecast.systems.opt import OptConfig
from vinecast.systems.rvr import RvrConfig
from vinecast.systems.vitis import VitisConfig

TABLE = 15  # S2 §3.6.1
LONG_LINKS = 1  # S2 §3.6.2: "one predecessor, one successor, and one sw-neighbor"
EVERY = 20  # ours: cycles from one look at a network on its way to rest to the next
PERIOD_S = 60.0
"""A cycle, as in the other claims about the trace of Skype."""
HELD = 10  # S2 §3.6.6: "10 seconds after the node joins"; cycles here
COLUMNS = ("hit_ratio", "overhead", "hops")
"""What there is of every look."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who subscribes to what."""

    workload: str
    nodes: int
    seed: int
    topics: int | None = None
    """Of a pattern."""
    subscriptions: int | None = None
    """Of a pattern."""
    data: Path | None = None
    """The folder with graphs."""

    def decided_by(self) -> dict[str, Any]:
        """All that decides it, as JSON has it."""
        file = FILES.get(self.workload)
        graph = digest_of(self.data / file[0]) if file and self.data else None
        return {**asdict(replace(self, data=None)), "graph": graph}


@functools.lru_cache(maxsize=4)
def subscriptions_of(crowd: Crowd) -> Subscriptions:
    """A pattern of S2 §3.6.1, or a social graph."""
    return load_workload(
        crowd.workload, crowd.nodes, crowd.seed, crowd.data, crowd.topics, crowd.subscriptions
    )


def profiles_of(crowd: Crowd) -> Profiles:
    """The profiles of a crowd."""
    found = subscriptions_of(crowd)
    return Profiles.simulated(crowd.seed, found.start, found.topics, found.topic_count)


def config_of(system: str, table_size: int = TABLE, long_links: int = LONG_LINKS) -> Config:
    """A system with a table of this size. long_links: of Vitis"""
    table = TManConfig(table_size=table_size)
    match system:
        case "vitis":
            return VitisConfig(tman=table, long_links=long_links)
        case "rvr":
            return RvrConfig(tman=table)
        case _:
            return OptConfig(tman=table)


@dataclass(frozen=True, slots=True)
class Rest:
    """A network until it is at rest: a ``Job`` (claims/kept.py)."""

    system: str
    crowd: Crowd
    cycles: int
    table: int = TABLE
    long_links: int = LONG_LINKS
    alpha: float | None = None
    """Of the rates, which nodes then estimate; None for one event a topic."""
    keep: Path | None = None

    @property
    def name(self) -> str:
        """See ``Job``."""
        rates = "" if self.alpha is None else f", α = {self.alpha:g}"
        return f"{self.system}, {self.crowd.workload}, table of {self.table}{rates}"

    @property
    def work(self) -> float:
        """See ``Job``: cycles of a node with a table of S2's size, about."""
        return self.crowd.nodes * self.cycles * min(self.table, 50) / TABLE

    def decided_by(self) -> dict[str, Any]:
        """See ``Job``."""
        config = as_table(config_of(self.system, self.table, self.long_links))
        return {
            "on_tman": self.system, "config": config, "crowd": self.crowd.decided_by(),
            "cycles": self.cycles, "alpha": self.alpha,
        }  # fmt: skip

    @property
    def alike(self) -> Hashable:
        """See ``Job``: what decides the overlay."""
        return replace(self, alpha=self.alpha if self.system == "vitis" else None)

    def run_with(self, others: "Sequence[Rest]") -> list[Arrays]:
        """See ``Job``: looks [look, cycle and COLUMNS], shares [node] and degrees [node]. On one thread:
        several processes make better use of more."""
        profiles, seed = profiles_of(self.crowd), self.crowd.seed
        config = config_of(self.system, self.table, self.long_links)
        sweep, engine = population(config, profiles, seed, 1, np.arange(profiles.peers))
        plays = (self, *others)
        looks: list[list[tuple[float, ...]]] = [[] for _ in plays]
        shares: list[NDArray[np.float64]] = []
        learns = self.alpha is not None and self.system == "vitis"
        for cycle in range(1, self.cycles + 1):
            left = min(-(-cycle // EVERY) * EVERY, self.cycles) - cycle  # until the next look
            sweep.looks_up = learns or left < 2
            engine.run(1)
            if learns:
                spread = Publication(sweep, cycle - 1).run(engine.divide)
                sweep.note_events(spread, self._events(profiles, cycle - 1))
            if left == 0:
                found = [_look(sweep, engine, cycle, play._events(profiles, cycle)) for play in plays]
                for past, (look, _) in zip(looks, found, strict=True):
                    past.append((cycle, *look))
                shares = [share for _, share in found]
        degrees = sweep.degrees()
        return [
            {"looks": np.array(past), "shares": share, "degrees": degrees}
            for past, share in zip(looks, shares, strict=True)
        ]

    def _events(self, profiles: Profiles, cycle: int) -> NDArray[np.int64]:
        """How many each topic has in a cycle. [topic]"""
        topics, seed = profiles.topic_ids.size, self.crowd.seed
        if self.alpha is None:
            return np.ones(topics, dtype=np.int64)
        return draw_events(seed, cycle, power_law(seed, topics, self.alpha))


def _look(
    sweep: OnTManSweep, engine: SweepEngine, epoch: int, events: NDArray[np.int64]
) -> tuple[tuple[float, float, float], NDArray[np.float64]]:
    """Publish; hit ratio, overhead and hops, and every node's share of what it did not want."""
    profiles = sweep.profiles
    publication = Publication(sweep, epoch, events)
    spread = publication.run(engine.divide)
    stats = spread_stats(spread, profiles, sweep.online)
    received, weight = publication.received, events[profiles.topics] * (spread.hops > 0)
    hops = float((spread.hops * weight).sum() / max(int(weight.sum()), 1))
    return (stats.hit_ratio, unwanted_overall(received), hops), unwanted_share(received)


@dataclass(frozen=True, slots=True)
class Churned:
    """A network whose nodes come and go: a ``Job``. One event a topic is published after every cycle, from
    and for those who have been there for long enough."""

    system: str
    crowd: Crowd
    cycles: int
    trace: Path | None = None
    """None for synthetic churn: two hours on line, one off, on average."""
    keep: Path | None = None

    @property
    def name(self) -> str:
        """See ``Job``."""
        return f"{self.system}, churn, {self.cycles:,} cycles"

    @property
    def work(self) -> float:
        """See ``Job``."""
        return float(self.crowd.nodes * self.cycles)

    def decided_by(self) -> dict[str, Any]:
        """See ``Job``."""
        trace = None if self.trace is None else digest_of(self.trace)
        return {
            "on_tman": self.system, "config": as_table(config_of(self.system)),
            "crowd": self.crowd.decided_by(), "cycles": self.cycles, "trace": trace, "held": HELD,
        }  # fmt: skip

    @property
    def alike(self) -> Hashable:
        """See ``Job``: none is."""
        return self

    def run_with(self, others: "Sequence[Churned]") -> list[Arrays]:
        """See ``Job``: COLUMNS and who is on line, each [cycle]."""
        return [play._run() for play in (self, *others)]

    def _availability(self) -> Availability:
        if self.trace is not None:
            return read_avt(self.trace).take(self.crowd.nodes)
        return on_off(self.crowd.seed, self.crowd.nodes, self.cycles * PERIOD_S, 7200.0, 3600.0)

    def _run(self) -> Arrays:
        profiles, seed = profiles_of(self.crowd), self.crowd.seed
        masks: Iterator[NDArray[np.bool_]] = self._availability().at_cycles(PERIOD_S, self.cycles)
        old = next(masks)
        sweep, engine = population(config_of(self.system), profiles, seed, 1, np.flatnonzero(old))
        age = np.where(old, HELD, -1)
        rows = []
        for cycle, mask in enumerate(itertools.chain([old], masks)):
            sweep.stop(np.flatnonzero(old & ~mask))
            coming = np.flatnonzero(mask & ~old)
            if coming.size:
                known = np.flatnonzero(old & mask)
                sweep.start(coming, choose_contacts(seed, cycle, coming, known, CONTACTS))
            age = np.where(mask, age + 1, -1)
            engine.run(1)
            held = age >= HELD
            publication = Publication(sweep, cycle, publishers=held)
            stats = spread_stats(publication.run(engine.divide), profiles, held)
            overhead = unwanted_overall(publication.received)
            rows.append((stats.hit_ratio, overhead, stats.hops_mean, mask.sum()))
            old = mask
        return dict(zip((*COLUMNS, "online"), np.array(rows, dtype=np.float64).T, strict=True))
