"""PolderCast's machines equal its sweep, bit for bit: all three layers, and dissemination."""

import dataclasses
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from vinecast.core.events import Publish
from vinecast.core.interest import make_scratch
from vinecast.core.profiles import Profiles
from vinecast.core.trace import TraceRecord
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.sim.engine import EventEngine
from vinecast.sim.metrics import spread_of
from vinecast.sim.network import Network, NetworkConfig
from vinecast.sim.overlay import random_views
from vinecast.sim.sweep import SweepEngine
from vinecast.sim.workload import Subscriptions, follower_graph, pattern
from vinecast.systems.poldercast import PolderCast, PolderCastConfig
from vinecast.systems.poldercast_sweep import PolderCastSweep, Spread


def config_of(**rest: object) -> PolderCastConfig:
    return PolderCastConfig(
        cyclon=CyclonConfig(view_size=8, gossip_size=4, period_s=3.0),
        vicinity=VicinityConfig(view_size=6, gossip_size=4, period_s=3.0),
        rings=RingsConfig(gossip_size=4, period_s=3.0),
        **rest,  # type: ignore[arg-type]
    )


class Twins:
    """The same population twice: as a sweep and as machines on the event engine."""

    def __init__(
        self, subscriptions: Subscriptions, seed: int, config: PolderCastConfig, threads: int = 1
    ) -> None:
        def profiles() -> Profiles:
            return Profiles.simulated(
                seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count
            )

        self.config = config
        self.nodes = subscriptions.nodes
        self.sweep = PolderCastSweep(config, seed, profiles())
        self.sweeper = SweepEngine(self.sweep, config.period_us, "synchronous", threads)
        self.profiles = profiles()
        most = int(self.profiles.cnt.max())
        scratch = make_scratch(self.nodes, subscriptions.topic_count, most, config.most)
        self.trace: list[TraceRecord] = []
        self.engine = EventEngine(
            lambda node: PolderCast(config, seed, node, self.profiles, scratch),
            self.nodes,
            seed,
            Network(NetworkConfig(latency_ms=20.0), seed, self.nodes),
            trace=self.trace.append,
        )

    @property
    def now_us(self) -> int:
        return self.sweeper.cycle * self.config.period_us

    def start(self, nodes: list[int], contacts: np.ndarray[tuple[int, int], np.dtype[np.int32]]) -> None:
        self.sweep.start(np.array(nodes, dtype=np.int64), contacts)
        for node, known in zip(nodes, contacts.tolist(), strict=True):
            self.engine.start(node, self.now_us, tuple(known))

    def stop(self, nodes: list[int]) -> None:
        self.sweep.stop(np.array(nodes, dtype=np.int64))
        for node in nodes:
            self.engine.crash(node, self.now_us)

    def cycle(self) -> None:
        self.sweeper.run(1)
        self.engine.run(self.now_us - 1)
        table = self.sweep.table
        assert np.array_equal(self.profiles.coverage, table.coverage)
        assert np.array_equal(self.profiles.gaps, table.gaps)
        for node, machine in enumerate(self.engine.machines):
            if isinstance(machine, PolderCast):
                rows = slice(table.beg[node], table.beg[node] + table.cnt[node])
                assert np.array_equal(machine.cyclon.peers, self.sweep.cyclon.peers[node])
                assert np.array_equal(machine.vicinity.peers, self.sweep.near_peers[node])
                assert np.array_equal(machine.vicinity.ages, self.sweep.near_ages[node])
                assert np.array_equal(machine.rings.peers, self.sweep.ring_peers[rows])
                assert np.array_equal(machine.rings.ages, self.sweep.ring_ages[rows])

    def publish(self, epoch: int) -> Spread:
        publication = self.sweep.publish(epoch)
        self.sweeper.divide(self.nodes, publication.draw)
        self.sweeper.divide(publication.topics, publication.disseminate)
        return publication.spread

    def digest(self) -> str:
        arrays = (self.sweep.near_peers, self.sweep.ring_peers, self.sweep.ring_ages, self.sweep.near_ages)
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def small_world(nodes: int, seed: int) -> Subscriptions:
    if nodes < 30:
        return pattern("random", seed, nodes, topics=20, subscriptions=5)
    return follower_graph(seed, nodes, mean=8.0, std_in=40.0, std_out=20.0, community=20)


def live_through_it(
    nodes: int, seed: int, threads: int = 1, config: PolderCastConfig | None = None, cycles: int = 14
) -> Twins:
    """Start, run, lose a fifth, get some of them back, run on."""
    twins = Twins(small_world(nodes, seed), seed, config or config_of(), threads)
    twins.start(list(range(nodes)), random_views(seed, nodes, min(6, nodes - 1)))
    fifth = list(range(0, nodes, 5))
    for cycle in range(cycles):
        if cycle == 5:
            twins.stop(fifth)
        if cycle == 9:
            twins.start(fifth[::2], np.full((len(fifth[::2]), 1), 1, dtype=np.int32))
        twins.cycle()
    return twins


@pytest.mark.parametrize(("nodes", "seed"), [(3, 1), (12, 2), (60, 3), (150, 4)])
def test_machines_equal_the_sweep(nodes: int, seed: int) -> None:
    live_through_it(nodes, seed)


def test_machines_equal_the_sweep_without_vicinity() -> None:
    live_through_it(60, 5, config=config_of(with_vicinity=False))


@pytest.mark.parametrize(("nodes", "seed"), [(12, 2), (80, 3)])
def test_machines_equal_the_sweep_with_informed_exchanges(nodes: int, seed: int) -> None:
    informed = RingsConfig(gossip_size=4, period_s=3.0, exchange="informed")
    live_through_it(nodes, seed, config=dataclasses.replace(config_of(), rings=informed))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    digests = {live_through_it(60, 6, threads).digest() for threads in (1, 2, 5)}
    assert len(digests) == 1


@pytest.mark.parametrize("fanout", [1, 2, 4])
@pytest.mark.parametrize("shortcuts", ["both", "cyclon", "vicinity"])
def test_dissemination_equals_the_event_engine(fanout: int, shortcuts: str) -> None:
    """Hops and copies of every subscriber, for one event a topic."""
    twins = live_through_it(80, 7, config=config_of(fanout=fanout, shortcuts=shortcuts), cycles=12)
    twins.sweeper.run(1)
    spread = twins.publish(epoch=3)
    topics = twins.sweep.profiles.topic_ids.size
    begin = twins.now_us - 900_000  # all three layers are done with this cycle, so that nothing moves
    twins.engine.run(begin - 1)
    twins.trace.clear()
    for topic, publisher in enumerate(spread.publisher.tolist()):
        if publisher >= 0:
            twins.engine.command(publisher, begin, Publish(topic, 3 * topics + topic))
    twins.engine.run(twins.now_us - 1)
    told = spread_of(twins.trace, twins.profiles, 3 * topics)
    assert np.array_equal(told.publisher, spread.publisher)
    assert np.array_equal(told.hops, spread.hops)
    assert np.array_equal(told.copies, spread.copies)


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_poldercast_parity import live_through_it
print(live_through_it(20, 9, cycles=6).digest())
"""


def test_the_bits_do_not_depend_on_compilation_process_or_hash_seed() -> None:
    here = os.path.dirname(__file__)  # noqa: PTH120 - a plain string for the child
    expected = live_through_it(20, 9, cycles=6).digest()
    for compiled, hash_seed in (("0", "1"), ("1", "2")):
        environment = {**os.environ, "VINECAST_COMPILE": compiled, "PYTHONHASHSEED": hash_seed}
        child = subprocess.run(
            [sys.executable, "-c", CHILD, here], env=environment, check=True, capture_output=True, text=True
        )
        assert child.stdout.strip() == expected
