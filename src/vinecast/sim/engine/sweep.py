"""The sweep engine: whole populations, a cycle at a time, on any number of threads with the same bits out.

What a cycle is, in either setting, is defined in ``core.exchange``. Threads are plain Python threads over
compiled passes that hold no lock; each works on a range of nodes and writes only what those nodes own.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from vinecast.core.errors import InputError
from vinecast.core.sweep import Phase, Sweep

SETTINGS = ("sequential", "synchronous")
RANGES_PER_THREAD = 16  # ours: small enough to even out nodes that have more to do than others


class SweepEngine:
    """Runs a sweep. ``cycle`` is the number of the next cycle; cycle c stands for the instant c × period."""

    def __init__(self, sweep: Sweep, period_us: int, setting: str = "sequential", threads: int = 1) -> None:
        if setting not in SETTINGS:
            raise InputError(f'setting must be one of {", ".join(SETTINGS)}, not "{setting}"')
        if threads < 1:
            raise InputError(f"threads must be at least 1, not {threads}")
        if setting == "sequential" and threads > 1:
            raise InputError("the sequential setting runs on one thread; use the synchronous one for more")
        self.sweep = sweep
        self.period_us = period_us
        self.setting = setting
        self.threads = threads
        self.cycle = 0
        self.watch: Callable[[Phase], object] | None = None
        """Told of every pass that is done."""
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def run(self, cycles: int, progress: Callable[[int], object] | None = None) -> None:
        """Run so many cycles; ``progress`` is told the number of each cycle that is done."""
        for _ in range(cycles):
            if self.setting == "sequential":
                self.sweep.sequential_cycle(self.cycle * self.period_us)
            else:
                for phase in self.sweep.synchronous_phases(self.threads):
                    self._run_phase(phase)
            if progress is not None:
                progress(self.cycle)
            self.cycle += 1

    def _run_phase(self, phase: Phase) -> None:
        if phase.divisible:
            self.divide(self.sweep.nodes, phase.run)
        else:
            phase.run(0, self.sweep.nodes, 0)
        if self.watch is not None:
            self.watch(phase)

    def divide(self, count: int, run: Callable[[int, int, int], None]) -> None:
        """Run a pass over 0 … count−1 (nodes, topics), in ranges, on all threads."""
        if self._pool is None:
            run(0, count, 0)
            return
        parts = min(self.threads * RANGES_PER_THREAD, max(count, 1))
        ranges = iter([(count * part // parts, count * (part + 1) // parts) for part in range(parts)])

        def work(worker: int) -> None:
            for begin, end in ranges:  # shared: whoever is free takes the next one
                run(begin, end, worker)

        for _ in self._pool.map(work, range(self.threads)):
            pass

    @property
    def bytes_per_node(self) -> tuple[float, float]:
        """(state, scratch) in bytes a node."""
        nodes = max(self.sweep.nodes, 1)
        return self.sweep.state_bytes / nodes, self.sweep.scratch_bytes / nodes

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
