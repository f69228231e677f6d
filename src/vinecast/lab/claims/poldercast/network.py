"""Networks of PolderCast for its claims: whose subscriptions, how many nodes, and how they come together.

``paper`` scale is the paper's: 10,000 users of a social graph, one event for each topic. ``small`` is a
synthetic network that fits a test. Where the paper's own graphs cannot be had, the nearest real ones stand in
(docs/poldercast.md says which), and every result names its workload.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.machine import NOBODY
from vinecast.lab.claims.claim import Setup
from vinecast.protocols.rings import RingsConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.engine.wire import ControlMeter
from vinecast.sim.measure.metrics import publish_and_measure, ring_state, ring_targets
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.sample import load_workload
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.sweep import PolderCastSweep

CONTACTS = 20
MOST_CYCLES = 250
"""When to stop waiting for rings to close."""
CONTROL = "control messages"
"""The panel of S0 Fig. 9."""

PAPER = PolderCastConfig(rings=RingsConfig(exchange="paper"))
INFORMED = PolderCastConfig(rings=RingsConfig(exchange="informed"))
WITHOUT_VICINITY = PolderCastConfig(with_vicinity=False, rings=RingsConfig(exchange="paper"))


def workload_of(setup: Setup) -> str:
    """Whose subscriptions."""
    if setup.workload:
        return setup.workload
    return "facebook" if setup.scale == "paper" and setup.data is not None else "synthetic"


def nodes_of(setup: Setup) -> int:
    """How many nodes."""
    return 10_000 if setup.scale == "paper" else 600


def subscriptions_of(setup: Setup) -> Subscriptions:
    """The workload itself."""
    return _subscriptions(workload_of(setup), nodes_of(setup), setup.seed, setup.data)


@functools.lru_cache(maxsize=4)
def _subscriptions(name: str, nodes: int, seed: int, data: Path | None) -> Subscriptions:
    return load_workload(name, nodes, seed, data)


def where(setup: Setup) -> str:
    """The workload in a few words."""
    subscriptions = subscriptions_of(setup)
    mean = subscriptions.count / subscriptions.nodes
    return f"{workload_of(setup)}, {nodes_of(setup):,} nodes, {mean:.0f} subscriptions a node"


def population(
    subscriptions: Subscriptions, config: PolderCastConfig, seed: int, threads: int, online: NDArray[np.int64]
) -> SweepEngine:
    """Nodes that run Cyclon already and nothing else yet, as S0 §6.2 starts them."""
    profiles = Profiles.simulated(seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    sweep = PolderCastSweep(config, seed, profiles)
    degree = min(CONTACTS, online.size - 1)
    sweep.start(online, online[random_views(seed, online.size, degree)].astype(np.int32))
    return SweepEngine(sweep, config.period_us, "synchronous", threads)


def sweep_of(engine: SweepEngine) -> PolderCastSweep:
    """The population that an engine runs."""
    sweep = engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    return sweep


@dataclass(frozen=True, slots=True)
class Convergence:
    """A network coming together, cycle by cycle."""

    incomplete: list[float]
    """Share of rings that are not complete after each cycle."""
    missing: list[float]
    """Share of ring links that are not in place."""
    missed: list[float]
    """Miss ratio of one event a topic."""
    disconnected: list[float]
    """Share of topics whose event did not reach everybody."""
    settled: NDArray[np.int64]
    """[node], the cycle after which all of its links stayed in place"""
    closed: NDArray[np.int64]
    """[topic], the cycle after which its ring stayed complete"""
    control: NDArray[np.int64]
    """[node], control messages that it sent and received, all cycles together"""
    engine: SweepEngine
    """The network at the end."""

    def first(self, series: list[float], at_most: float) -> int | None:
        """The first cycle after which a series is low enough."""
        return next((i + 1 for i, value in enumerate(series) if value <= at_most), None)


def converge(
    setup: Setup, config: PolderCastConfig, most: int = MOST_CYCLES, enough: float = 0.0
) -> Convergence:
    """Run until no more than so many rings are incomplete, publishing on every topic after each cycle."""
    name, nodes, data = workload_of(setup), nodes_of(setup), setup.data
    return _converge(name, nodes, setup.seed, setup.threads, data, config, most, enough)


@functools.lru_cache(maxsize=6)
def _converge(
    name: str,
    nodes: int,
    seed: int,
    threads: int,
    data: Path | None,
    config: PolderCastConfig,
    most: int,
    enough: float,
) -> Convergence:
    subscriptions = _subscriptions(name, nodes, seed, data)
    engine = population(subscriptions, config, seed, threads, np.arange(nodes))
    sweep = sweep_of(engine)
    everyone = np.ones(nodes, dtype=np.bool_)
    targets, owner = ring_targets(sweep.profiles, everyone), sweep.profiles.owners()
    half = config.rings.size // 2
    settled, closed = np.zeros(nodes, np.int64), np.zeros(subscriptions.topic_count, np.int64)
    meter = ControlMeter(sweep.profiles, config)
    engine.watch = meter.phase
    control = np.zeros(nodes, np.int64)
    found = Convergence([], [], [], [], settled, closed, control, engine)
    for cycle in range(most):
        engine.run(1)
        state = ring_state(sweep, targets)
        found.incomplete.append(state.incomplete_rings)
        found.missing.append(state.missing_links)
        _, stats = publish_and_measure(engine, cycle, everyone)
        found.missed.append(1 - stats.hit_ratio)
        found.disconnected.append(stats.disconnected_topics)
        wrong = (sweep.ring_peers[:, 0] != targets.lower) | (sweep.ring_peers[:, half] != targets.higher)
        wrong &= targets.higher != NOBODY
        settled[owner[wrong]] = cycle + 2
        closed[sweep.profiles.topics[wrong]] = cycle + 2
        if state.incomplete_rings <= enough:
            break
    engine.watch = None
    control += meter.messages.sum(axis=0)
    return found
