"""Networks of Vitis, RVR and OPT for their claims: whose subscriptions, how large, and what is measured.

``paper`` scale is S2's: 10,000 nodes, 5,000 topics, 50 subscriptions each. ``small`` is a network that fits a
test, with a pattern of the same kind. Every run is a sweep: all nodes start at once with random contacts, and
after so many cycles one event a topic is published on the overlay as it stands.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.claims.claim import Setup
from vinecast.core.profiles import Profiles
from vinecast.core.traffic import unwanted_overall, unwanted_share
from vinecast.protocols.tman import TManConfig
from vinecast.sim.bench_vitis import population
from vinecast.sim.metrics import spread_stats
from vinecast.sim.rates import draw_events, power_law
from vinecast.sim.sample import load_workload
from vinecast.sim.workload import Subscriptions, pattern
from vinecast.systems.on_tman_events import Publication
from vinecast.systems.on_tman_sweep import Config
from vinecast.systems.opt import OptConfig
from vinecast.systems.rvr import RvrConfig
from vinecast.systems.vitis import VitisConfig

PATTERNS = ("random", "low", "high")
TABLE = 15  # S2 §3.6.1
LONG_LINKS = 1  # S2 §3.6.2: "one predecessor, one successor, and one sw-neighbor"


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What was found in a network at rest."""

    hit_ratio: float
    hops: float
    overhead: float
    """The unwanted share of all events received."""
    shares: NDArray[np.float64]
    """[node], the unwanted share of what it received"""
    degrees: NDArray[np.int64]
    """[node], how many others it is linked to"""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scale is."""

    nodes: int
    topics: int
    subscriptions: int
    cycles: int
    """Until it is measured (ours)."""
    graph_nodes: int
    """Nodes of a social graph."""
    friends: tuple[int, ...]
    """How many of a table of 15 are friends, in S2 Fig. 3.2."""
    tables: tuple[int, ...]
    """Sizes of routing tables, in S2 Fig. 3.4 and 3.8 (§3.6.3: "from 15 to 35")."""
    alphas: tuple[float, ...]
    """Of the rates, in S2 Fig. 3.5 (§3.6.4: from 0.3 to 3)."""


SIZES = {
    "paper": Size(10_000, 5_000, 50, 100, 10_000, (0, 6, 12), (15, 25, 35), (0.3, 1.0, 3.0)),
    "small": Size(300, 500, 10, 25, 200, (0, 12), (15, 35), (0.3, 3.0)),
}


def size_of(setup: Setup) -> Size:
    """How large."""
    return SIZES[setup.scale]


def config_of(system: str, table_size: int = TABLE, long_links: int = LONG_LINKS) -> Config:
    """A system with a table of this size."""
    table = TManConfig(table_size=table_size)
    match system:
        case "vitis":
            return VitisConfig(tman=table, long_links=long_links)
        case "rvr":
            return RvrConfig(tman=table)
        case _:
            return OptConfig(tman=table)


def measure(setup: Setup, config: Config, workload: str, alpha: float | None = None) -> Found:
    """Let a network come to rest, and publish. alpha: of the rates, which nodes then estimate; or uniform"""
    return _measure(setup.scale, setup.seed, setup.threads, setup.data, config, workload, alpha)


def subscriptions_of(scale: str, seed: int, data: Path | None, workload: str) -> Subscriptions:
    """A pattern of S2 §3.6.1, or a social graph."""
    size = SIZES[scale]
    if workload in PATTERNS:
        return pattern(workload, seed, size.nodes, size.topics, size.subscriptions)
    return load_workload(workload, size.graph_nodes, seed, data)


@functools.lru_cache(maxsize=64)
def _measure(
    scale: str, seed: int, threads: int, data: Path | None, config: Config, workload: str, alpha: float | None
) -> Found:
    found = subscriptions_of(scale, seed, data, workload)
    profiles = Profiles.simulated(seed, found.start, found.topics, found.topic_count)
    sweep, engine = population(config, profiles, seed, threads, np.arange(profiles.peers))
    events = np.ones(found.topic_count, dtype=np.int64)
    rates = None if alpha is None else power_law(seed, found.topic_count, alpha)
    for cycle in range(SIZES[scale].cycles):
        engine.run(1)
        if rates is not None:
            events = draw_events(seed, cycle, rates)
            sweep.note_events(Publication(sweep, cycle).run(engine.divide), events)
    publication = Publication(sweep, SIZES[scale].cycles, events)
    spread = publication.run(engine.divide)
    engine.close()
    stats = spread_stats(spread, profiles, sweep.online)
    received, weight = publication.received, events[profiles.topics] * (spread.hops > 0)
    hops = float((spread.hops * weight).sum() / max(int(weight.sum()), 1))
    return Found(stats.hit_ratio, hops, unwanted_overall(received), unwanted_share(received), sweep.degrees())


def where(setup: Setup, workload: str) -> str:
    """The network in a few words."""
    size = size_of(setup)
    if workload in PATTERNS:
        return (
            f"{size.nodes:,} nodes, {size.subscriptions} of {size.topics:,} topics each, "
            f"after {size.cycles} cycles"
        )
    return f"{workload}, {size.graph_nodes:,} nodes, after {size.cycles} cycles"
