"""The event engine's machines equal the sweeps, bit for bit (docs/exchange.md)."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.overlay import random_views

LATENCY_MS = {"sequential": 0.0, "synchronous": 70.0}


class Twins:
    """The same population twice: as a sweep and as machines on the event engine."""

    def __init__(self, setting: str, nodes: int, seed: int, threads: int = 1) -> None:
        self.config = CyclonConfig(view_size=8, gossip_size=4, period_s=1.0)
        self.sweep = CyclonSweep(self.config, seed, nodes)
        self.sweeper = SweepEngine(self.sweep, self.config.period_us, setting, threads)
        network = Network(NetworkConfig(latency_ms=LATENCY_MS[setting]), seed, nodes)
        self.engine = EventEngine(lambda node: Cyclon(self.config, seed, node), nodes, seed, network)

    @property
    def now_us(self) -> int:
        return self.sweeper.cycle * self.config.period_us

    def start(self, nodes: list[int], contacts: NDArray[np.int32], keep_state: bool = True) -> None:
        if not keep_state:
            self.sweep.forget_state(np.array(nodes, dtype=np.int64))
        self.sweep.start(np.array(nodes, dtype=np.int64), contacts)
        for node, known in zip(nodes, contacts.tolist(), strict=True):
            self.engine.start(node, self.now_us, tuple(known), keep_state=keep_state)

    def stop(self, nodes: list[int]) -> None:
        self.sweep.stop(np.array(nodes, dtype=np.int64))
        for node in nodes:
            self.engine.crash(node, self.now_us)

    def cycle(self) -> None:
        self.sweeper.run(1)
        self.engine.run(self.now_us - 1)
        for node, machine in enumerate(self.engine.machines):
            if isinstance(machine, Cyclon):
                assert np.array_equal(machine.peers, self.sweep.peers[node])
                assert np.array_equal(machine.ages, self.sweep.ages[node])
                assert np.array_equal(machine.extent, self.sweep.extent[node])
                assert machine.cycle == self.sweep.cycles[node]

    def digest(self) -> str:
        arrays = (self.sweep.peers, self.sweep.ages, self.sweep.extent)
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def live_through_it(setting: str, nodes: int, seed: int, threads: int = 1, cycles: int = 25) -> str:
    """Start, run, lose a third, get half of those back with and without their state, run on."""
    twins = Twins(setting, nodes, seed, threads)
    twins.start(list(range(nodes)), random_views(seed, nodes, min(6, nodes - 1)))
    third = list(range(0, nodes, 3))
    for cycle in range(cycles):
        if cycle == 6:
            twins.stop(third)
        if cycle == 12:
            twins.start(third[::4], np.full((len(third[::4]), 1), 1, dtype=np.int32))
        if cycle == 15:
            twins.start(third[1::4], np.full((len(third[1::4]), 1), 1, dtype=np.int32), keep_state=False)
        twins.cycle()
    return twins.digest()


@pytest.mark.parametrize("setting", ["sequential", "synchronous"])
@pytest.mark.parametrize(("nodes", "seed"), [(2, 1), (3, 2), (10, 3), (50, 4), (400, 5), (400, 6)])
def test_machines_equal_the_sweep(setting: str, nodes: int, seed: int) -> None:
    live_through_it(setting, nodes, seed)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    assert live_through_it("synchronous", 300, 8, threads) == live_through_it("synchronous", 300, 8)


def test_the_settings_differ_and_so_do_seeds() -> None:
    digests = {
        live_through_it("sequential", 60, 1),
        live_through_it("synchronous", 60, 1),
        live_through_it("sequential", 60, 2),
    }
    assert len(digests) == 3


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_cyclon_parity import live_through_it
print(live_through_it("sequential", 40, 9), live_through_it("synchronous", 40, 9))
"""


def test_the_bits_do_not_depend_on_compilation_process_or_hash_seed() -> None:
    here = os.path.dirname(__file__)  # noqa: PTH120 - a plain string for the child
    expected = f"{live_through_it('sequential', 40, 9)} {live_through_it('synchronous', 40, 9)}"
    for compiled, hash_seed in (("0", "1"), ("1", "2")):
        environment = {**os.environ, "VINECAST_COMPILE": compiled, "PYTHONHASHSEED": hash_seed}
        child = subprocess.run(
            [sys.executable, "-c", CHILD, here], env=environment, check=True, capture_output=True, text=True
        )
        assert child.stdout.strip() == expected
