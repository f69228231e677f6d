"""PolderCast's machines equal its sweep, bit for bit: all three layers, and dissemination."""

import dataclasses
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from support.disseminations import dissemination_of
from support.paths import TESTS
from support.systems.poldercast_world import small_world
from vinecast.core.arrays import bitsets
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.draws import below_array
from vinecast.core.errors import Bug
from vinecast.core.events import Publish
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.events import Delays
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.poldercast.sweep import PolderCastSweep
from vinecast.systems.registry import SYSTEMS


def config_of(**rest: object) -> PolderCastConfig:
    return PolderCastConfig(
        cyclon=CyclonConfig(view_size=8, gossip_size=4, period_s=12.0),
        vicinity=VicinityConfig(view_size=6, gossip_size=4, period_s=12.0),
        rings=RingsConfig(gossip_size=4, period_s=12.0, exchange="paper"),
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
        self.trace: list[TraceRecord] = []
        self.engine = EventEngine(
            SYSTEMS["poldercast"].machines(config, seed, self.profiles),
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

    def publish(self, epoch: int) -> Dissemination:
        return self.sweep.publish(epoch).run(self.sweeper.divide)

    def digest(self) -> str:
        arrays = (self.sweep.near_peers, self.sweep.ring_peers, self.sweep.ring_ages, self.sweep.near_ages)
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


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
    assert live_through_it(nodes, seed).sweep.scratch_of(0).sets.tastes.size > 0


def test_machines_equal_the_sweep_without_vicinity() -> None:
    live_through_it(60, 5, config=config_of(with_vicinity=False))


@pytest.mark.parametrize(("nodes", "seed"), [(12, 2), (80, 3)])
def test_machines_equal_the_sweep_with_informed_exchanges(nodes: int, seed: int) -> None:
    informed = RingsConfig(gossip_size=4, period_s=12.0, exchange="informed")
    live_through_it(nodes, seed, config=dataclasses.replace(config_of(), rings=informed))


@pytest.mark.parametrize("exchange", ["paper", "informed"])
def test_machines_equal_the_sweep_of_a_large_population(
    exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large ones have lists and an index where small ones have sets."""
    monkeypatch.setattr(bitsets, "PEERS_MAX", 0)
    rings = RingsConfig(gossip_size=4, period_s=12.0, exchange=exchange)
    twins = live_through_it(80, 3, config=dataclasses.replace(config_of(), rings=rings))
    assert twins.sweep.scratch_of(0).sets.tastes.size == 0


@pytest.mark.parametrize("exchange", ["paper", "informed"])
def test_machines_equal_the_sweep_with_one_neighbour_a_side(exchange: str) -> None:
    narrow = RingsConfig(size=2, gossip_size=2, period_s=12.0, exchange=exchange)
    live_through_it(50, 4, config=dataclasses.replace(config_of(), rings=narrow))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    digests = {live_through_it(60, 6, threads).digest() for threads in (1, 2, 5)}
    assert len(digests) == 1


def leave_suddenly(twins: Twins) -> None:
    """Every third node goes in the quiet end of the cycle, so that its neighbours still believe in it."""
    gone = list(range(1, twins.nodes, 3))
    twins.engine.run(twins.now_us - 900_000 - 1)
    twins.sweep.stop(np.array(gone, dtype=np.int64))
    for node in gone:
        twins.engine.crash(node, twins.now_us - 900_000)


def events_at(twins: Twins, changed: dict[str, object], delays: Delays | None = None) -> Dissemination:
    """What would become of the same events under another configuration, on the overlay as it is."""
    before = twins.sweep.config
    twins.sweep.config = dataclasses.replace(before, **changed)  # type: ignore[arg-type]
    dissemination = twins.sweep.publish(3, delays=delays).run(twins.sweeper.divide)
    twins.sweep.config = before
    return dissemination


@pytest.mark.parametrize("fanout", [1, 2, 4])
@pytest.mark.parametrize(
    ("shortcuts", "stand_by"),
    [("both", True), ("both", False), ("mixed", True), ("cyclon", True), ("vicinity", True)],
)
def test_dissemination_equals_the_event_engine(fanout: int, shortcuts: str, stand_by: bool) -> None:
    """Hops and copies of every subscriber, for one event a topic."""
    config = config_of(fanout=fanout, shortcuts=shortcuts, stand_by=stand_by)
    twins = live_through_it(80, 7, config=config, cycles=12)
    twins.sweeper.run(1)
    leave_suddenly(twins)
    dissemination = twins.publish(epoch=3)
    turned = events_at(twins, {"stand_by": not stand_by})
    better, worse = (dissemination, turned) if stand_by else (turned, dissemination)
    assert np.count_nonzero(better.hops >= 0) > np.count_nonzero(worse.hops >= 0)
    if fanout > 1:
        for other in {"both", "mixed", "cyclon", "vicinity"} - {shortcuts}:
            assert not np.array_equal(events_at(twins, {"shortcuts": other}).copies, dissemination.copies)
    check_events(twins, dissemination, epoch=3)


def test_stand_bys_change_nothing_while_everybody_is_on_line() -> None:
    twins = Twins(small_world(80, 7), 7, config_of(fanout=3))
    twins.start(list(range(80)), random_views(7, 80, 6))
    twins.sweeper.run(12)
    delays = twins.engine.network.delays()
    for given in (None, delays):
        with_them, without = (events_at(twins, {"stand_by": on}, given) for on in (True, False))
        assert np.array_equal(with_them.hops, without.hops)
        assert np.array_equal(with_them.copies, without.copies)


def check_events(twins: Twins, dissemination: Dissemination, epoch: int) -> None:
    """Let the machines publish too, late in the cycle: all layers are done with it, so that nothing moves."""
    topics, begin = twins.sweep.profiles.topic_ids.size, twins.now_us - 900_000
    twins.trace.clear()
    for topic, publisher in enumerate(dissemination.publisher.tolist()):
        if publisher >= 0:
            twins.engine.command(publisher, begin, Publish(topic, epoch * topics + topic))
    twins.engine.run(twins.now_us - 1)
    told = dissemination_of(twins.trace, twins.profiles, epoch * topics)
    assert np.array_equal(told.publisher, dissemination.publisher)
    assert np.array_equal(told.hops, dissemination.hops)
    assert np.array_equal(told.copies, dissemination.copies)
    if dissemination.latency_us is not None:
        delivered = [record for record in twins.trace if record.kind == TraceKind.DELIVERED]
        at_us = {(record.node, record.topic): record.time_us - begin for record in delivered}
        owner, topic_of = twins.profiles.owners().tolist(), twins.profiles.topics.tolist()
        told_us = [at_us.get(key, -1) for key in zip(owner, topic_of, strict=True)]
        assert told_us == dissemination.latency_us.tolist()


@pytest.mark.parametrize("fanout", [1, 2, 5])
@pytest.mark.parametrize("one_way_ms", [(0, 1), (1, 2, 3), (0, 1, 4, 9, 16)])
def test_dissemination_in_time_equals_the_event_engine(fanout: int, one_way_ms: tuple[int, ...]) -> None:
    """… and the latency of every subscriber, on a network where many copies arrive at the same time."""
    shortcuts = "mixed" if fanout == 5 else "both"
    twins = live_through_it(80, 7, config=config_of(fanout=fanout, shortcuts=shortcuts), cycles=12)
    twins.sweeper.run(1)
    leave_suddenly(twins)
    choices = below_array(fanout, np.arange(121), len(one_way_ms)).reshape(11, 11)
    rtt_ms = 2.0 * np.array(one_way_ms)[choices]
    config = NetworkConfig(latency="matrix", matrix="unread")
    twins.engine.network = Network(config, 7, twins.nodes, rtt_ms)
    dissemination = twins.sweep.publish(3, delays=twins.engine.network.delays()).run(twins.sweeper.divide)
    assert dissemination.latency_us is not None
    assert len(set(dissemination.latency_us.tolist())) > 3
    alone = events_at(twins, {"stand_by": False}, twins.engine.network.delays())
    assert np.count_nonzero(dissemination.hops >= 0) > np.count_nonzero(alone.hops >= 0)
    check_events(twins, dissemination, epoch=3)


@pytest.mark.parametrize("fanout", [1, 2, 5])
def test_events_in_time_go_hop_by_hop_where_all_links_are_alike(fanout: int) -> None:
    twins = live_through_it(150, 4, config=config_of(fanout=fanout), cycles=8)
    evenly = twins.sweep.publish(1).run(twins.sweeper.divide)
    in_time = twins.sweep.publish(1, delays=twins.engine.network.delays()).run(twins.sweeper.divide)
    assert in_time.latency_us is not None
    assert np.array_equal(in_time.hops, evenly.hops)
    assert np.array_equal(in_time.copies, evenly.copies)
    arrived = evenly.hops >= 0
    assert np.array_equal(in_time.latency_us[arrived], 20_000 * evenly.hops[arrived].astype(np.int64))
    assert set(in_time.latency_us[~arrived].tolist()) <= {-1}


CHILD = """
import sys
sys.path[:0] = sys.argv[1:]
from test_poldercast_parity import live_through_it
print(live_through_it(20, 9, cycles=6).digest())
"""


def test_the_bits_do_not_depend_on_compilation_process_or_hash_seed() -> None:
    here = os.path.dirname(__file__)  # noqa: PTH120 - a plain string for the child
    expected = live_through_it(20, 9, cycles=6).digest()
    for compiled, hash_seed in (("0", "1"), ("1", "2")):
        environment = {**os.environ, "VINECAST_COMPILE": compiled, "PYTHONHASHSEED": hash_seed}
        child = subprocess.run(
            [sys.executable, "-c", CHILD, here, str(TESTS)],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert child.stdout.strip() == expected


def test_a_sweep_whose_nodes_changed_their_topics_says_so() -> None:
    twins = Twins(small_world(20, 1), 1, config_of())
    profiles = twins.sweep.profiles
    profiles.set_topics(0, np.array([1], np.int32), np.zeros(1, np.uint8))
    with pytest.raises(Bug, match="keep the topics"):
        twins.sweeper.run(1)
