"""The machines of Vitis, RVR and OPT equal their sweep, bit for bit: tables, gateways, rates, events."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.disseminations import dissemination_of
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.errors import Bug, InputError
from vinecast.core.events import Publish
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceRecord
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.tman import TManConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.measure.traffic import Meter
from vinecast.sim.workload.subscriptions import Subscriptions, follower_graph, pattern
from vinecast.systems.common.tman_base import TManBase
from vinecast.systems.opt.machine import OptConfig
from vinecast.systems.registry import SYSTEMS
from vinecast.systems.rvr.machine import RvrConfig
from vinecast.systems.tman_sweep.events import TManPublication
from vinecast.systems.tman_sweep.sweep import TManSweep
from vinecast.systems.vitis.machine import Vitis, VitisConfig

LAYERS: dict[str, Any] = {
    "cyclon": CyclonConfig(view_size=8, gossip_size=4, period_s=12.0),
    "tman": TManConfig(table_size=6, threshold=2, news_max=8, period_s=12.0),
    "remember_s": 2.0,
}
CONFIGS: dict[str, Any] = {
    "vitis": VitisConfig(**LAYERS, gateway_hops=3),
    "rvr": RvrConfig(**LAYERS),
    "opt": OptConfig(**LAYERS, coverage=2),
}
every_system = pytest.mark.parametrize("system", CONFIGS)


class Twins:
    """The same population twice: as a sweep and as machines on the event engine."""

    def __init__(self, system: str, subscriptions: Subscriptions, seed: int, threads: int = 1) -> None:
        def profiles() -> Profiles:
            return Profiles.simulated(
                seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count
            )

        self.config = CONFIGS[system]
        self.nodes = subscriptions.nodes
        self.sweep = TManSweep(self.config, seed, profiles())
        self.sweeper = SweepEngine(self.sweep, self.config.period_us, "synchronous", threads)
        self.profiles = profiles()
        self.trace: list[TraceRecord] = []
        self.meter = Meter(self.nodes, lambda node, topic: topic in self.profiles.topics_of(node))
        self.engine = EventEngine(
            SYSTEMS[system].machines(self.config, seed, self.profiles),
            self.nodes,
            seed,
            Network(NetworkConfig(latency_ms=5.0), seed, self.nodes),
            trace=self.trace.append,
            on_send=self.meter.message,
        )

    @property
    def now_us(self) -> int:
        now_us: int = self.sweeper.cycle * self.config.period_us
        return now_us

    def start(self, nodes: list[int], contacts: Any, keep_state: bool = True) -> None:
        if not keep_state:
            self.sweep.forget_state(np.array(nodes, dtype=np.int64))
        self.sweep.start(np.array(nodes, dtype=np.int64), contacts)
        for node, known in zip(nodes, contacts.tolist(), strict=True):
            self.engine.start(node, self.now_us, tuple(known), keep_state=keep_state)

    def stop(self, nodes: list[int]) -> None:
        self.sweep.stop(np.array(nodes, dtype=np.int64))
        for node in nodes:
            self.engine.crash(node, self.now_us)

    def cycle(self, published: int | None = None) -> None:
        """Run a cycle in both; with the number of a publication, publish an event a topic at its end."""
        self.sweeper.run(1)
        end_us = self.now_us
        if published is not None:
            publication = TManPublication(self.sweep, published)
            dissemination = publication.run(self.sweeper.divide)
            first = published * publication.topics
            late_us = end_us - self.config.period_us // 6
            for topic, node in enumerate(dissemination.publisher.tolist()):
                if node != NOBODY:
                    self.engine.command(node, late_us, Publish(topic, first + topic))
            self.meter.take()
        self.engine.run(end_us - 1)
        self.check_tables()
        if published is not None:
            told = dissemination_of(self.trace, self.profiles, first)
            assert np.array_equal(told.hops, dissemination.hops)
            assert np.array_equal(told.copies, dissemination.copies)
            assert np.array_equal(self.meter.take().events_received, publication.received)
            self.sweep.note_events(dissemination, np.ones(publication.topics, dtype=np.int64))
            self.trace.clear()

    def check_tables(self) -> None:
        sweep, table = self.sweep, self.sweep.table
        for node, machine in enumerate(self.engine.machines):
            if isinstance(machine, TManBase):
                assert np.array_equal(machine.tman.peers, sweep.tables.peers[node])
                assert np.array_equal(machine.tman.ages, sweep.tables.ages[node])
                assert np.array_equal(machine.tman.missed, sweep.tables.missed[node])
                assert np.array_equal(machine.tman.met, sweep.tables.met[node])
                assert np.array_equal(machine._suspicion.table.peers[0], sweep.suspicion.peers[node])
            if isinstance(machine, Vitis):
                rows = slice(table.beg[node], table.beg[node] + table.cnt[node])
                assert np.array_equal(machine.proposed.gateway, sweep.proposed.gateway[rows])
                assert np.array_equal(machine.proposed.parent, sweep.proposed.parent[rows])
                assert np.array_equal(machine.proposed.hops, sweep.proposed.hops[rows])
                assert np.array_equal(machine.shared.weights.weight[rows], sweep.shared.weights.weight[rows])

    def digest(self) -> str:
        arrays = (*self.sweep.tables, *self.sweep.proposed, self.sweep.paths[1].node)
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def some_subscriptions(nodes: int, seed: int) -> Subscriptions:
    if nodes < 30:
        return pattern("random", seed, nodes, topics=20, subscriptions=5)
    return follower_graph(seed, nodes, mean=8.0, std_in=40.0, std_out=20.0, community=20)


def next_to(nodes: list[int]) -> Any:
    """Each knows whoever has the next number."""
    return np.array(nodes, dtype=np.int32).reshape(-1, 1) + np.int32(1)


def live_through_it(system: str, nodes: int, seed: int, threads: int = 1, cycles: int = 14) -> Twins:
    """Start, run, lose a fifth, get some of them back with their state and some without, run on."""
    twins = Twins(system, some_subscriptions(nodes, seed), seed, threads)
    twins.start(list(range(nodes)), random_views(seed, nodes, min(6, nodes - 1)))
    fifth = list(range(0, nodes, 5))
    back, blank = fifth[1:4], fifth[4:6]
    for cycle in range(cycles):
        if cycle == 5:
            twins.stop(fifth)
        if cycle == 9:
            twins.start(back, next_to(back))
        if cycle == 10:
            twins.start(blank, next_to(blank), keep_state=False)
        twins.cycle(cycle if cycle % 2 or cycle == 10 else None)
    return twins


@every_system
@pytest.mark.parametrize(("nodes", "seed"), [(2, 1), (5, 2), (20, 3), (60, 4)])
def test_machines_equal_the_sweep(system: str, nodes: int, seed: int) -> None:
    live_through_it(system, nodes, seed)


@every_system
def test_threads_change_nothing(system: str) -> None:
    digests = set()
    for threads in (1, 3):
        subscriptions = some_subscriptions(80, 5)
        profiles = Profiles.simulated(5, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
        sweep = TManSweep(CONFIGS[system], 5, profiles)
        engine = SweepEngine(sweep, CONFIGS[system].period_us, "synchronous", threads)
        sweep.start(np.arange(80), random_views(5, 80, 6))
        engine.run(6)
        publication = TManPublication(sweep, 0)
        dissemination = publication.run(engine.divide)
        engine.close()
        arrays = (*sweep.tables, *sweep.proposed, dissemination.hops, publication.received)
        digests.add(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
    assert len(digests) == 1


def test_a_sweep_refuses_what_it_cannot_do() -> None:
    subscriptions = some_subscriptions(5, 1)
    profiles = Profiles.simulated(1, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    sweep = TManSweep(CONFIGS["vitis"], 1, profiles)
    with pytest.raises(InputError, match="sequential"):
        sweep.sequential_cycle(0)
    profiles.set_topics(0, np.array([1], dtype=np.int32), np.zeros(1, dtype=np.uint8))
    with pytest.raises(Bug, match="keep the topics"):
        sweep.synchronous_phases()


PLAIN = """
from test_vitis_parity import live_through_it
print(*(live_through_it(system, 14, 3, cycles=7).digest() for system in ("vitis", "rvr", "opt")))
"""


def test_plain_python_gives_the_same_bits() -> None:
    environment = {**os.environ, "VINECAST_COMPILE": "0", "PYTHONHASHSEED": "1"}
    here = str(Path(__file__).parent)
    environment["PYTHONPATH"] = os.pathsep.join([here, *sys.path])
    found = subprocess.run(
        [sys.executable, "-c", PLAIN], env=environment, capture_output=True, text=True, check=True
    )
    digests = [live_through_it(system, 14, 3, cycles=7).digest() for system in CONFIGS]
    assert found.stdout.split() == digests
