"""Scenes of the experiments of S4 ch. 6: who takes part, how fast churn is played, and how a second ring is
made.

On paper's scale they are S4's, with the Skype trace; the small scale is a synthetic trace of nodes that keep
hours of their own.
"""

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.arrays.regularity import DAY_S
from vinecast.core.draws import purpose, stream, substream, unit
from vinecast.core.errors import InputError
from vinecast.lab.claims.claim import Setup
from vinecast.sim.workload.churn import Availability, read_avt

TRACE = "skype.avt.gz"
SEEDS = {"small": 1, "paper": 4}
"""Seeds from the setup's on (S4 §6.6.5: four)."""
PERIODS_S = {"small": (600.0, 3000.0), "paper": (100.0, 200.0, 1000.0)}
"""Seconds of a cycle (S4 §6.6.3), from slow churn to high."""
NODES = {"small": 120, "paper": 1000}
DAYS = 5
"""Of the small scale's synthetic trace."""
_HOURS = purpose("claims.grid.hours")


@dataclass(frozen=True, slots=True)
class Scene:
    """Who takes part, and how fast churn is played."""

    workload: str
    trace: Path
    nodes: int
    period_s: float
    cycles: int
    data: Path | None
    keep: Path | None

    @property
    def is_skype(self) -> bool:
        """Whether S4's values can be asked for."""
        return self.trace.name == TRACE

    @property
    def where(self) -> str:
        """In a few words."""
        return f"{self.workload}, {self.nodes:,} nodes, {'Skype' if self.is_skype else 'a synthetic trace'}"


@dataclass(frozen=True, slots=True)
class Second:
    """How a second ring is made: by which cycle of recurring behaviour and which threshold."""

    cycle: str
    threshold: int
    refresh: str = "cycle"
    patterns: str = "own"
    """Nodes find theirs while they run (``own``), are given the whole trace's (``trace``), or those of some
    other node (``others``)."""

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.cycle} {self.threshold} %"


def scenes_of(setup: Setup) -> tuple[Scene, ...]:
    """One for each speed of churn, or for those that are asked for."""
    periods, nodes = PERIODS_S[setup.scale], NODES[setup.scale]
    if setup.scale == "small":
        trace, name = _synthetic(setup.seed, nodes), setup.workload or "synthetic"
    else:
        if setup.data is None:
            raise InputError(
                f"the experiments of S4 need {TRACE}: give the folder that holds it with --data DIR"
            )
        trace, name = setup.data / TRACE, setup.workload or "slashdot"
        if not trace.is_file():
            raise InputError(f"the experiments of S4 need {TRACE}, which is not in {setup.data} (--data DIR)")
    longest = availability(trace, nodes).horizon_s // periods[-1]
    return tuple(
        Scene(
            name,
            trace,
            nodes,
            period,
            int(longest * periods[-1] // period),  # the same time at every speed
            setup.data,
            setup.keep,
        )
        for period in periods_of(setup)
    )


def periods_of(setup: Setup) -> tuple[float, ...]:
    """The seconds of a cycle that are asked for, from slow churn to high."""
    known = PERIODS_S[setup.scale]
    for asked in setup.periods_s or ():
        if asked not in known:
            offered = ", ".join(f"{period:g}" for period in known)
            raise InputError(
                f"at this scale the cycles of these claims last {offered} s, not {asked} (--periods)"
            )
    return tuple(period for period in known if setup.periods_s is None or period in setup.periods_s)


def seeds_of(setup: Setup) -> range:
    """The seeds over which results are averaged."""
    return range(setup.seed, setup.seed + (setup.seeds or SEEDS[setup.scale]))


def told_seeds(setup: Setup) -> str:
    """How many seeds, and of how many if those are fewer than S4's."""
    count, full = len(seeds_of(setup)), SEEDS[setup.scale]
    if count < full:
        return f"{count} of {full} seeds"
    return f"{count} seeds" if count > 1 else "one seed"


def told_periods(setup: Setup) -> str:
    """Which speeds of churn, and which are left out."""
    chosen = periods_of(setup)
    text = f"cycles of {' / '.join(f'{period:g}' for period in chosen)} s"
    without = [f"{period:g}" for period in PERIODS_S[setup.scale] if period not in chosen]
    return f"{text} ({' and '.join(without)} s left out)" if without else text


def synthetic_trace(seed: int, nodes: int, days: int) -> str:
    """An AVT trace: every node has hours of its own and keeps them on a share of days of its own."""
    lines = []
    for node in range(nodes):
        key = substream(stream(seed, _HOURS, 0, 0), node)
        begin, length = int(DAY_S * unit(key, 0)), int(DAY_S * (0.2 + 0.8 * unit(key, 1)))
        share = 0.5 + 0.5 * unit(key, 2)
        kept = [day for day in range(days) if unit(key, 3 + day) < share]
        times = [(day * DAY_S + begin, min(day * DAY_S + begin + length, days * DAY_S)) for day in kept]
        lines.append(f"n{node} {len(times)} {' '.join(f'{on} {off}' for on, off in times)}")
    return "\n".join(lines) + "\n"


@functools.lru_cache(maxsize=4)
def _synthetic(seed: int, nodes: int) -> Path:
    """A file with a synthetic trace; the folder lives as long as the process."""
    path = Path(_folder().name) / f"synthetic-{seed}-{nodes}.avt"
    path.write_text(synthetic_trace(seed, nodes, DAYS))
    return path


@functools.cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="vinecast-claims-")


@functools.lru_cache(maxsize=4)
def availability(path: Path, nodes: int) -> Availability:
    """Who is on line when: the first so many nodes of a trace."""
    return read_avt(path).take(nodes)
