"""Runs of Vitis, RVR and OPT for the claims of S2 §3.6, and of PolderCast beside them: networks that come to
rest, and one under churn.

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

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import as_table
from vinecast.core.dissemination import Dissemination
from vinecast.core.machine import NOBODY
from vinecast.core.traffic import Counts, unwanted_overall, unwanted_share
from vinecast.lab.bench.vitis import CONTACTS, population
from vinecast.lab.runs.run_cache import Arrays, digest_of
from vinecast.protocols.tman import TManConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.metrics import dissemination_stats
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.world import choose_contacts
from vinecast.sim.workload.churn import Availability, on_off, read_avt
from vinecast.sim.workload.rates import draw_events, power_law
from vinecast.sim.workload.sample import FILES, load_workload
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.opt.machine import OptConfig
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.sweep import PolderCastSweep
from vinecast.systems.rvr.machine import RvrConfig
from vinecast.systems.tman_sweep.events import TManPublication
from vinecast.systems.tman_sweep.sweep import Config, TManSweep
from vinecast.systems.vitis.machine import VitisConfig

TABLE = 15  # S2 §3.6.1
LONG_LINKS = 1  # S2 §3.6.2: "one predecessor, one successor, and one sw-neighbor"
UNBOUNDED = 1000
"""Entries of a table that nobody fills."""
EVERY = 20  # ours: cycles from one look at a network on its way to rest to the next
PERIOD_S = 60.0
"""A cycle, as in the other claims about the trace of Skype."""
HELD = 10  # S2 §3.6.6: "10 seconds after the node joins"; cycles here
COLUMNS = ("hit_ratio", "overhead", "hops")
"""What there is of every look."""


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
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
def subscriptions_of(crowd: SubscriptionPattern) -> Subscriptions:
    """A pattern of S2 §3.6.1, or a social graph."""
    return load_workload(
        crowd.workload, crowd.nodes, crowd.seed, crowd.data, crowd.topics, crowd.subscriptions
    )


def profiles_of(crowd: SubscriptionPattern) -> Profiles:
    """The profiles of a crowd."""
    found = subscriptions_of(crowd)
    return Profiles.simulated(crowd.seed, found.start, found.topics, found.topic_count)


def config_of(
    system: str, table_size: int | None = TABLE, long_links: int = LONG_LINKS
) -> Config | PolderCastConfig:
    """A system with a table of this size, or OPT without a bound. long_links: of Vitis"""
    table = TManConfig(table_size=table_size or UNBOUNDED)
    match system:
        case "poldercast":
            return PolderCastConfig()
        case "vitis":
            return VitisConfig(tman=table, long_links=long_links)
        case "rvr":
            return RvrConfig(tman=table)
        case _:
            return OptConfig(tman=table, bounded=table_size is not None)


class VitisNetwork:
    """A population on one thread: several processes make better use of more."""

    def __init__(
        self,
        config: Config | PolderCastConfig,
        crowd: SubscriptionPattern,
        online: NDArray[np.int64] | None = None,
    ) -> None:
        """online: who is there from the beginning; all unless given"""
        self.profiles = profiles_of(crowd)
        there = np.arange(self.profiles.peers) if online is None else online
        self.sweep: TManSweep | PolderCastSweep
        if isinstance(config, PolderCastConfig):
            self.sweep = PolderCastSweep(config, crowd.seed, self.profiles)
            views = random_views(crowd.seed, there.size, min(CONTACTS, there.size - 1))
            self.sweep.start(there, there[views].astype(np.int32))
            self.engine = SweepEngine(self.sweep, config.period_us, "synchronous")
        else:
            self.sweep, self.engine = population(config, self.profiles, crowd.seed, 1, there)

    def publish(
        self, epoch: int, events: NDArray[np.int64] | None = None, able: NDArray[np.bool_] | None = None
    ) -> tuple[Dissemination, Counts]:
        """One event a topic; what became of it, and what nodes received, unwanted and wanted.

        events: [topic], how many each stands for; able: [node], who may publish
        """
        if isinstance(self.sweep, TManSweep):
            publication = TManPublication(self.sweep, epoch, events, able)
            return publication.run(self.engine.divide), publication.received
        dissemination = self.sweep.publish(epoch, publishers=able).run(self.engine.divide)
        got = dissemination.hops > 0  # nobody but subscribers is handed an event (S0 §3)
        wanted = np.bincount(self.profiles.owners()[got], minlength=self.profiles.peers)
        return dissemination, np.stack([np.zeros_like(wanted), wanted])

    def degrees(self) -> NDArray[np.int64]:
        """How many others each node is linked to. [node]"""
        return self.sweep.degrees()


@dataclass(frozen=True, slots=True)
class VitisRestRun:
    """A network until it is at rest: a ``Job`` (lab/runs/run_cache.py)."""

    system: str
    crowd: SubscriptionPattern
    cycles: int
    table: int | None = TABLE
    """None: without a bound."""
    long_links: int = LONG_LINKS
    alpha: float | None = None
    """Of the rates, which nodes then estimate; None for one event a topic."""
    keep: Path | None = None

    @property
    def name(self) -> str:
        rates = "" if self.alpha is None else f", α = {self.alpha:g}"
        table = "no bound" if self.table is None else f"table of {self.table}"
        return f"{self.system}, {self.crowd.workload}, {table}{rates}"

    @property
    def work(self) -> float:
        """See ``Job``: cycles of a node with a table of S2's size, about."""
        slower = 10 if self.system == "opt" else 1
        return self.crowd.nodes * self.cycles * (self.table or 2 * TABLE) / TABLE * slower

    def decided_by(self) -> dict[str, Any]:
        config = as_table(config_of(self.system, self.table, self.long_links))
        return {
            "on_tman": self.system, "config": config, "crowd": self.crowd.decided_by(),
            "cycles": self.cycles, "alpha": self.alpha,
        }  # fmt: skip

    @property
    def alike(self) -> Hashable:
        """See ``Job``: what decides the overlay."""
        return replace(self, alpha=self.alpha if self.system == "vitis" else None)

    def run_with(self, others: "Sequence[VitisRestRun]") -> list[Arrays]:
        """See ``Job``: looks [look, cycle and COLUMNS], shares [node] and degrees [node]."""
        network = VitisNetwork(config_of(self.system, self.table, self.long_links), self.crowd)
        sweep, plays = network.sweep, (self, *others)
        looks: list[list[tuple[float, ...]]] = [[] for _ in plays]
        shares: list[NDArray[np.float64]] = []
        learns = self.alpha is not None and self.system == "vitis"
        for cycle in range(1, self.cycles + 1):
            left = min(-(-cycle // EVERY) * EVERY, self.cycles) - cycle  # until the next look
            if isinstance(sweep, TManSweep):
                sweep.looks_up = learns or left < 2
            network.engine.run(1)
            if learns and isinstance(sweep, TManSweep):
                events = self._events(network.profiles, cycle - 1)
                publication = TManPublication(sweep, cycle - 1)
                publication.dissemination.publisher[events == 0] = NOBODY
                sweep.note_events(publication.run(network.engine.divide), events)
            if left == 0:
                found = [_look(network, cycle, play._events(network.profiles, cycle)) for play in plays]
                for past, (look, _) in zip(looks, found, strict=True):
                    past.append((cycle, *look))
                shares = [share for _, share in found]
        degrees = network.degrees()
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
    network: VitisNetwork, epoch: int, events: NDArray[np.int64]
) -> tuple[tuple[float, float, float], NDArray[np.float64]]:
    """Publish; hit ratio, overhead and hops, and every node's share of what it did not want."""
    profiles = network.profiles
    dissemination, received = network.publish(epoch, events)
    stats = dissemination_stats(dissemination, profiles, network.sweep.online)
    weight = events[profiles.topics] * (dissemination.hops > 0)
    hops = float((dissemination.hops * weight).sum() / max(int(weight.sum()), 1))
    return (stats.hit_ratio, unwanted_overall(received), hops), unwanted_share(received)


@dataclass(frozen=True, slots=True)
class Churned:
    """A network whose nodes come and go: a ``Job``. One event a topic is published after every cycle, from
    and for those who have been there for long enough."""

    system: str
    crowd: SubscriptionPattern
    cycles: int
    trace: Path | None = None
    """None for synthetic churn: two hours on line, one off, on average."""
    keep: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.system}, churn, {self.cycles:,} cycles"

    @property
    def work(self) -> float:
        return float(self.crowd.nodes * self.cycles)

    def decided_by(self) -> dict[str, Any]:
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
        seed = self.crowd.seed
        masks: Iterator[NDArray[np.bool_]] = self._availability().at_cycles(PERIOD_S, self.cycles)
        old = next(masks)
        network = VitisNetwork(config_of(self.system), self.crowd, np.flatnonzero(old))
        sweep, age = network.sweep, np.where(old, HELD, -1)
        rows = []
        for cycle, mask in enumerate(itertools.chain([old], masks)):
            sweep.stop(np.flatnonzero(old & ~mask))
            coming = np.flatnonzero(mask & ~old)
            if coming.size:
                known = np.flatnonzero(old & mask)
                sweep.start(coming, choose_contacts(seed, cycle, coming, known, CONTACTS))
            age = np.where(mask, age + 1, -1)
            network.engine.run(1)
            held = age >= HELD
            dissemination, received = network.publish(cycle, able=held)
            stats = dissemination_stats(dissemination, network.profiles, held)
            rows.append((stats.hit_ratio, unwanted_overall(received), stats.hops_mean, mask.sum()))
            old = mask
        return dict(zip((*COLUMNS, "online"), np.array(rows, dtype=np.float64).T, strict=True))
