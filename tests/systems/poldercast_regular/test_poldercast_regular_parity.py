"""PolderCast's machines with regular rings equal their sweep, bit for bit: all layers, patterns,
dissemination."""

import dataclasses
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from support.disseminations import dissemination_of
from support.paths import TESTS
from support.systems.poldercast_world import small_world
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.draws import below_array
from vinecast.core.events import Publish
from vinecast.core.trace import TraceRecord
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.regularity import RegularityConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.protocols.victor import VictorConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.grid.machine import GridConfig
from vinecast.systems.poldercast_regular.machine import PolderCastRegular, PolderCastRegularConfig
from vinecast.systems.poldercast_regular.sweep import PolderCastRegularSweep
from vinecast.systems.registry import SYSTEMS

PERIOD_S = 12.0
QUIET_US = 900_000
"""Before the end of a cycle: all layers are done with it."""


def config_of(
    exchange: str = "informed", refresh: str = "slot", skew_s: float = 0.0, slot_s: int = 36, **rest: object
) -> PolderCastRegularConfig:
    """Slots of three cycles, or of so long, and four of them a cycle of recurring behaviour."""
    regularity = RegularityConfig(
        cycle_s=4 * slot_s, slot_s=slot_s, threshold=50, refresh=refresh, clock_skew_s=skew_s
    )
    return PolderCastRegularConfig(
        cyclon=CyclonConfig(view_size=8, gossip_size=4, period_s=PERIOD_S),
        vicinity=VicinityConfig(view_size=6, gossip_size=4, period_s=PERIOD_S),
        rings=RingsConfig(gossip_size=4, period_s=PERIOD_S, exchange=exchange),
        regular=RingsConfig(gossip_size=4, period_s=PERIOD_S, exchange=exchange),
        grid=GridConfig(regularity, VictorConfig(view_size=6, gossip_size=4, period_s=PERIOD_S)),
        **rest,  # type: ignore[arg-type]
    )


class Twins:
    """The same population twice: as a sweep and as machines on the event engine."""

    def __init__(
        self, subscriptions: Subscriptions, seed: int, config: PolderCastRegularConfig, threads: int = 1
    ) -> None:
        def profiles() -> Profiles:
            return Profiles.simulated(
                seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count
            )

        self.config = config
        self.nodes = subscriptions.nodes
        self.sweep = PolderCastRegularSweep(config, seed, profiles())
        self.sweeper = SweepEngine(self.sweep, config.period_us, "synchronous", threads)
        self.profiles = profiles()
        self.trace: list[TraceRecord] = []
        self.engine = EventEngine(
            SYSTEMS["poldercast_regular"].machines(config, seed, self.profiles),
            self.nodes,
            seed,
            Network(NetworkConfig(latency_ms=20.0), seed, self.nodes),
            trace=self.trace.append,
        )

    @property
    def now_us(self) -> int:
        return self.sweeper.cycle * self.config.period_us

    def start(self, nodes: list[int], contacts: NDArray[np.int32]) -> None:
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
        self.compare()

    def compare(self) -> None:
        sweep, table = self.sweep, self.sweep.table
        for node, machine in enumerate(self.engine.machines):
            if not isinstance(machine, PolderCastRegular):
                continue
            rows = slice(table.beg[node], table.beg[node] + table.cnt[node])
            found = machine.grid.victor
            pairs = {
                "cyclon": (machine.cyclon.peers, sweep.cyclon.peers[node]),
                "vicinity": (machine.vicinity.peers, sweep.near_peers[node]),
                "rings": (machine.rings.peers, sweep.ring_peers[rows]),
                "pattern": (machine.grid.own.pattern, sweep.patterns.regular[node]),
                "victor": (found.peers, sweep.victor_peers[node]),
                "victor's ages": (found.ages, sweep.victor_ages[node]),
                "buckets": (found.buckets.peers, sweep.buckets.peers[node]),
                "consider sets": (found.buckets.aside_peers, sweep.buckets.aside_peers[node]),
                "regular rings": (machine.regular.rows, sweep.regular_peers[rows]),
                "regular rings' ages": (machine.regular.row_ages, sweep.regular_ages[rows]),
                "stored": (machine.regular.stored, sweep.stored[rows]),
                "coverage": (machine._shared.coverage[rows], sweep.told.coverage[rows]),
                "gaps": (machine._shared.gaps[rows], sweep.told.gaps[rows]),
            }
            for name, (one, other) in pairs.items():
                assert np.array_equal(one, other), f"{name} of node {node} in cycle {self.sweeper.cycle}"

    def digest(self) -> str:
        sweep = self.sweep
        arrays = (
            sweep.victor_peers,
            sweep.regular_peers,
            sweep.stored,
            sweep.patterns.regular,
            *sweep.buckets,
        )
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def live_through_it(
    nodes: int, seed: int, threads: int = 1, config: PolderCastRegularConfig | None = None, cycles: int = 30
) -> Twins:
    """Over two cycles of recurring behaviour: some come and go by the slot, some leave for good."""
    twins = Twins(small_world(nodes, seed), seed, config or config_of(), threads)
    twins.start(list(range(nodes)), random_views(seed, nodes, min(6, nodes - 1)))
    shifts = list(range(0, nodes, 3))
    for cycle in range(cycles):
        if cycle % 12 == 4:
            twins.stop(shifts)
        if cycle % 12 == 9:
            twins.start(shifts, np.full((len(shifts), 1), 1, dtype=np.int32))
        if cycle == 14:
            twins.stop([node for node in range(1, nodes, 5) if node not in shifts])
        twins.cycle()
    return twins


@pytest.mark.parametrize(("nodes", "seed"), [(3, 1), (12, 2), (60, 3)])
def test_machines_equal_the_sweep(nodes: int, seed: int) -> None:
    twins = live_through_it(nodes, seed)
    regular = twins.sweep.patterns.regular
    assert regular.any()
    assert not regular.all()


def test_machines_equal_the_sweep_with_exchanges_as_in_the_paper() -> None:
    live_through_it(50, 4, config=config_of("paper"))


def test_machines_equal_the_sweep_where_slots_begin_in_the_midst_of_cycles() -> None:
    twins = live_through_it(40, 5, config=config_of(slot_s=29, skew_s=3.0))
    assert 0 < twins.sweep.patterns.regular.mean() < 1


def test_machines_equal_the_sweep_that_looks_at_its_log_in_every_cycle() -> None:
    live_through_it(40, 5, config=config_of(refresh="cycle"), cycles=20)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    digests = {live_through_it(40, 6, threads, cycles=16).digest() for threads in (1, 3)}
    assert len(digests) == 1


def leave_suddenly(twins: Twins) -> None:
    """Every fourth node goes in the quiet end of the cycle, so that its neighbours still believe in it."""
    gone = list(range(1, twins.nodes, 4))
    twins.engine.run(twins.now_us - QUIET_US - 1)
    twins.sweep.stop(np.array(gone, dtype=np.int64))
    for node in gone:
        twins.engine.crash(node, twins.now_us - QUIET_US)


def check_events(twins: Twins, dissemination: Dissemination, epoch: int) -> None:
    topics, begin = twins.profiles.topic_ids.size, twins.now_us - QUIET_US
    twins.trace.clear()
    for topic, publisher in enumerate(dissemination.publisher.tolist()):
        if publisher >= 0:
            twins.engine.command(publisher, begin, Publish(topic, epoch * topics + topic))
    twins.engine.run(twins.now_us - 1)
    told = dissemination_of(twins.trace, twins.profiles, epoch * topics)
    assert np.array_equal(told.publisher, dissemination.publisher)
    assert np.array_equal(told.hops, dissemination.hops)
    assert np.array_equal(told.copies, dissemination.copies)


@pytest.mark.parametrize(("fanout", "stand_by"), [(1, True), (2, False), (2, True), (4, True)])
def test_dissemination_over_both_rings_equals_the_event_engine(fanout: int, stand_by: bool) -> None:
    """Hops and copies of every subscriber, for one event a topic."""
    twins = live_through_it(80, 7, config=config_of(fanout=fanout, stand_by=stand_by), cycles=26)
    twins.sweeper.run(1)
    leave_suddenly(twins)
    dissemination = twins.sweep.publish(3).run(twins.sweeper.divide)
    before = twins.sweep.patterns.regular.copy()
    twins.sweep.patterns.regular[:] = False
    alone = twins.sweep.publish(3).run(twins.sweeper.divide)
    twins.sweep.patterns.regular[:] = before
    assert dissemination.copies.sum() > alone.copies.sum()
    check_events(twins, dissemination, epoch=3)


def test_events_in_time_over_both_rings_equal_the_event_engine() -> None:
    twins = live_through_it(80, 7, config=config_of(fanout=3), cycles=26)
    twins.sweeper.run(1)
    leave_suddenly(twins)
    rtt_ms = 2.0 * np.array((0, 1, 4, 9))[below_array(3, np.arange(121), 4).reshape(11, 11)]
    config = NetworkConfig(latency="matrix", matrix="unread")
    twins.engine.network = Network(config, 7, twins.nodes, rtt_ms)
    dissemination = twins.sweep.publish(3, delays=twins.engine.network.delays()).run(twins.sweeper.divide)
    check_events(twins, dissemination, epoch=3)


@pytest.mark.parametrize("cycles", [26, 27])
def test_around_a_change_of_slots_both_slots_neighbours_serve(cycles: int) -> None:
    """After 27 cycles a slot begins; events are published in the cycle before or after that moment."""
    config = config_of(skew_s=11.5)
    twins = live_through_it(80, 8, config=config, cycles=cycles)
    twins.sweeper.run(1)
    leave_suddenly(twins)
    dissemination = twins.sweep.publish(3).run(twins.sweeper.divide)
    sharp = dataclasses.replace(
        config,
        grid=dataclasses.replace(
            config.grid, regularity=dataclasses.replace(config.grid.regularity, clock_skew_s=0.0)
        ),
    )
    twins.sweep.config = sharp
    assert not np.array_equal(twins.sweep.publish(3).run(twins.sweeper.divide).copies, dissemination.copies)
    check_events(twins, dissemination, epoch=3)


def test_poldercast_below_is_what_it_is_without_regular_rings() -> None:
    from vinecast.systems.poldercast.config import PolderCastConfig
    from vinecast.systems.poldercast.sweep import PolderCastSweep

    twins = live_through_it(60, 9, cycles=20)
    config = twins.config
    plain = PolderCastConfig(cyclon=config.cyclon, vicinity=config.vicinity, rings=config.rings)
    subscriptions = small_world(60, 9)
    profiles = Profiles.simulated(9, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    alone = PolderCastSweep(plain, 9, profiles)
    engine = SweepEngine(alone, plain.period_us, "synchronous")
    alone.start(np.arange(60), random_views(9, 60, 6))
    shifts = np.arange(0, 60, 3)
    for cycle in range(20):
        if cycle % 12 == 4:
            alone.stop(shifts)
        if cycle % 12 == 9:
            alone.start(shifts, np.full((shifts.size, 1), 1, dtype=np.int32))
        if cycle == 14:
            alone.stop(np.array([node for node in range(1, 60, 5) if node % 3]))
        engine.run(1)
    assert np.array_equal(alone.ring_peers, twins.sweep.ring_peers)
    assert np.array_equal(alone.near_peers, twins.sweep.near_peers)
    assert np.array_equal(alone.cyclon.peers, twins.sweep.cyclon.peers)


CHILD = """
import sys
sys.path[:0] = sys.argv[1:]
from test_poldercast_regular_parity import live_through_it
print(live_through_it(12, 9, cycles=14).digest())
"""


def test_the_bits_do_not_depend_on_compilation_process_or_hash_seed() -> None:
    here = os.path.dirname(__file__)  # noqa: PTH120 - a plain string for the child
    expected = live_through_it(12, 9, cycles=14).digest()
    environment = {**os.environ, "VINECAST_COMPILE": "0", "PYTHONHASHSEED": "1"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, here, str(TESTS)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert child.stdout.strip() == expected
