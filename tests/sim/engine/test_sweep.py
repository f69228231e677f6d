"""The sweep engine: ranges, progress, memory, and what it refuses."""

import numpy as np
import pytest

from vinecast.core.errors import InputError
from vinecast.core.sweep import Phase
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.overlay import random_views


class Recorder(CyclonSweep):
    """A sweep whose phases only note which nodes they were given."""

    def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
        self.visits = np.zeros((2, self.nodes), dtype=np.int64)

        def visit(phase: int, begin: int, end: int) -> None:
            self.visits[phase, begin:end] += 1

        return (
            Phase("divisible", lambda begin, end, worker: visit(0, begin, end)),
            Phase("whole", lambda begin, end, worker: visit(1, begin, end), divisible=False),
        )


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("nodes", [1, 2, 3, 17, 100])
def test_every_node_is_visited_once_a_phase(threads: int, nodes: int) -> None:
    sweep = Recorder(CyclonConfig(), 1, nodes)
    engine = SweepEngine(sweep, 1, "synchronous", threads)
    engine.run(1)
    assert (sweep.visits == 1).all()
    engine.close()


def test_progress_is_told_every_cycle() -> None:
    told: list[int] = []
    engine = SweepEngine(CyclonSweep(CyclonConfig(), 1, 10), 60_000_000)
    engine.run(3, told.append)
    engine.run(2, told.append)
    assert told == [0, 1, 2, 3, 4]


def test_memory_is_reported_a_node() -> None:
    sweep = CyclonSweep(CyclonConfig(), 1, 1000)
    engine = SweepEngine(sweep, 1, "synchronous")
    state, scratch = engine.bytes_per_node
    assert state == 20 * (4 + 2) + 4 + 1 + 4  # peers and ages, extent, online, cycle
    assert scratch == 0
    engine.run(1)
    assert 10 * (4 + 2) < engine.bytes_per_node[1] < 80


def test_an_error_in_a_phase_comes_out() -> None:
    class Broken(CyclonSweep):
        def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
            def fail(begin: int, end: int, worker: int) -> None:
                raise ZeroDivisionError

            return (Phase("broken", fail),)

    with pytest.raises(ZeroDivisionError):
        SweepEngine(Broken(CyclonConfig(), 1, 10), 1, "synchronous", 2).run(1)


@pytest.mark.parametrize(
    ("setting", "threads", "words"),
    [
        ("backwards", 1, "setting must be one of"),
        ("synchronous", 0, "threads must be at least 1"),
        ("sequential", 2, "sequential setting runs on one thread"),
    ],
)
def test_impossible_settings_are_refused(setting: str, threads: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        SweepEngine(CyclonSweep(CyclonConfig(), 1, 10), 1, setting, threads)


@pytest.mark.parametrize("setting", ["sequential", "synchronous"])
def test_links_are_conserved_in_a_static_network(setting: str) -> None:
    """What one node hands out another takes in: views stay full, and nobody is forgotten."""
    nodes = 2000
    sweep = CyclonSweep(CyclonConfig(), 1, nodes)
    sweep.start(np.arange(nodes), random_views(1, nodes, 20))
    engine = SweepEngine(sweep, 1, setting)
    for _ in range(30):
        engine.run(1)
        assert sweep.extent[:, 0].mean() > 19.99
    assert np.bincount(sweep.peers[sweep.peers >= 0], minlength=nodes).min() > 5
