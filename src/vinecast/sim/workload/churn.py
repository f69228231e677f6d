"""Churn: who is on line when.

PolderCast is evaluated under the measured comings and goings of Skype super-peers (S0 §6.1 and §6.6), and so
are Vitis, Vinifera and RingsRegular. ``read_avt`` reads such a measurement. ``on_off`` makes a synthetic one:
every node alternates between exponential on-line and off-line periods. The exponential distribution has no
memory, so a run that starts each node on line with probability mean_on / (mean_on + mean_off) starts in the
stationary state, and no warm-up has to be thrown away.

AVT is a text format, one line a node: ``id sessions start end start end …``, in seconds since the start of
the measurement. A session holds its start and not its end: a node whose session ends when the next one starts
is on line throughout, and a session of no length (a node met by a single probe) is kept and counted, yet the
node is on line at no instant of it.
"""

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import purpose, stream, substream_array, unit_array
from vinecast.core.errors import InputError
from vinecast.sim.workload.textfile import lines_of

_ON_OFF = purpose("churn.on_off")
_SECOND_US = 1_000_000
_SESSIONS_MAX = 10**8  # ours: 1.6 GB of sessions; beyond it the arguments are a slip, not a wish
TIME_S_MAX = 1e11
"""Three thousand years: a later time is a slip, and would not fit 64 bits of microseconds much longer."""
_COUNT = re.compile(r"[0-9]{1,18}")
_TIME = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")  # float() alone would take "nan", "1_0" and "-1"


@dataclass(frozen=True, eq=False)
class Availability:
    """The sessions of every node, in order and without overlap within a node."""

    start: NDArray[np.int64]
    """[node + 1] where the sessions of a node begin in ``on_s`` and ``off_s``."""
    on_s: NDArray[np.float64]
    """[session] seconds at which the node comes on line."""
    off_s: NDArray[np.float64]
    """[session] seconds at which it leaves."""
    horizon_s: float
    """Seconds at which the measurement ends: the latest session end of a trace."""

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.start.size - 1

    @property
    def sessions(self) -> int:
        """The number of sessions, all nodes together."""
        return self.on_s.size

    @cached_property
    def _owner(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.nodes), np.diff(self.start))

    def online_at(self, t_s: float) -> NDArray[np.bool_]:
        """Who is on line at an instant. [node]"""
        online = np.zeros(self.nodes, dtype=np.bool_)
        online[self._owner[(self.on_s <= t_s) & (t_s < self.off_s)]] = True
        return online

    def mean_online(self) -> float:
        """Nodes on line, averaged over the time from 0 to the horizon."""
        return float(np.sum(self.off_s - self.on_s)) / self.horizon_s if self.horizon_s > 0 else 0.0

    def at_cycles(self, period_s: float, cycles: int) -> Iterator[NDArray[np.bool_]]:
        """``online_at(c · period_s)`` for every cycle c in 0 … cycles − 1. [node], a fresh array each time"""
        if not (math.isfinite(period_s) and period_s > 0):
            raise InputError(f"the period of a cycle must be a positive number of seconds, not {period_s}")
        if cycles < 0:
            raise InputError(f"the number of cycles must not be negative, not {cycles}")
        instants = np.arange(cycles) * period_s
        join, leave = np.searchsorted(instants, self.on_s), np.searchsorted(instants, self.off_s)
        seen = join < leave  # the other sessions fall between two cycles
        # Leaving stands first: where two sessions meet in one cycle, the later one has the last word.
        cycle = np.concatenate([leave[seen], join[seen]])
        order = np.argsort(cycle, kind="stable")
        node = np.tile(self._owner[seen], 2)[order]
        state = np.repeat([False, True], np.count_nonzero(seen))[order]
        return self._sweep(node, state, np.searchsorted(cycle[order], np.arange(cycles + 1)))

    def _sweep(
        self, node: NDArray[np.int64], state: NDArray[np.bool_], start: NDArray[np.int64]
    ) -> Iterator[NDArray[np.bool_]]:
        """Apply the changes of state cycle by cycle. node, state: [change]; start: [cycle + 1]"""
        online = np.zeros(self.nodes, dtype=np.bool_)
        for low, high in pairwise(start.tolist()):
            online[node[low:high]] = state[low:high]  # of repeated nodes the last change counts
            yield online.copy()

    def take(self, count: int) -> "Availability":
        """The first ``count`` nodes of the same measurement."""
        if not 0 < count <= self.nodes:
            raise InputError(f"the trace has {self.nodes} nodes, so {count} cannot be taken from it")
        sessions = self.start[count]
        return Availability(
            self.start[: count + 1], self.on_s[:sessions], self.off_s[:sessions], self.horizon_s
        )


def read_avt(path: Path) -> Availability:
    """Read an AVT trace, plain or gzipped. Nodes are numbered in the order of the file."""
    start, times = array("q", [0]), array("d")
    line_of: dict[str, int] = {}
    for number, line in lines_of(path):
        name, *fields = line.split()
        if name in line_of:
            raise InputError(f"{path}:{number}: node {name} stands in line {line_of[name]} already")
        line_of[name] = number
        try:
            times.extend(session_times(fields))
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        start.append(len(times) // 2)
    if not line_of:
        raise InputError(f"{path}: the trace names no node")
    sessions = np.array(times, dtype=np.float64).reshape(-1, 2)
    on_s, off_s = sessions[:, 0].copy(), sessions[:, 1].copy()
    return Availability(np.array(start, dtype=np.int64), on_s, off_s, float(off_s.max(initial=0.0)))


def session_times(fields: list[str]) -> list[float]:
    """The times of one line: as many as it says, never going back. ValueError says what is wrong."""
    if not fields:
        raise ValueError("the number of sessions is missing")
    count, *words = fields
    if not _COUNT.fullmatch(count):
        raise ValueError(f"the number of sessions must be a whole number, not {count!r}")
    if len(words) != 2 * int(count):
        raise ValueError(f"{int(count)} sessions need {2 * int(count)} times, not {len(words)}")
    times: list[float] = []
    for i, text in enumerate(words):
        time = float(text) if _TIME.fullmatch(text) else math.nan
        if not math.isfinite(time):
            raise ValueError(f"a time must be a finite number of seconds, not negative, but here is {text!r}")
        if time > TIME_S_MAX:
            raise ValueError(f"a time must be at most {TIME_S_MAX:.0e} seconds, not {text}")
        if times and time < times[-1]:
            session, before = i // 2 + 1, words[i - 1]
            if i % 2:
                raise ValueError(f"session {session} ends ({text}) before it starts ({before})")
            raise ValueError(f"session {session} starts ({text}) before its predecessor ends ({before})")
        times.append(time)
    return times


def on_off(seed: int, nodes: int, horizon_s: float, mean_on_s: float, mean_off_s: float) -> Availability:
    """Synthetic churn: alternating exponential periods from 0 to the horizon, in the stationary state.

    Periods are whole microseconds, at least one: sums stay exact, and the last bits in which mathematical
    libraries differ do not show.
    """
    _check_on_off(nodes, horizon_s, mean_on_s, mean_off_s)
    keys = substream_array(stream(seed, _ON_OFF, 0, 0), np.arange(nodes))
    online = unit_array(keys, 0) < mean_on_s / (mean_on_s + mean_off_s)
    horizon = round(horizon_s * _SECOND_US)
    node, now = np.arange(nodes), np.zeros(nodes, dtype=np.int64)
    owners, ons, offs = [node[:0]], [now[:0]], [now[:0]]
    i = 0
    while node.size:
        i += 1
        mean_us = np.where(online, mean_on_s, mean_off_s) * _SECOND_US
        length = -np.log1p(-unit_array(keys[node], np.array([i]))) * mean_us
        until = now + np.clip(np.rint(length), 1, horizon).astype(np.int64)
        owners.append(node[online])
        ons.append(now[online])
        offs.append(np.minimum(until[online], horizon))
        alive = until < horizon
        node, now, online = node[alive], until[alive], ~online[alive]
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")  # a node's sessions were made in order of time
    on_s, off_s = np.concatenate(ons)[order] / _SECOND_US, np.concatenate(offs)[order] / _SECOND_US
    start = np.searchsorted(owner[order], np.arange(nodes + 1))
    return Availability(start, on_s, off_s, horizon / _SECOND_US)


def _check_on_off(nodes: int, horizon_s: float, mean_on_s: float, mean_off_s: float) -> None:
    if nodes < 1:
        raise InputError(f"churn needs at least one node, not {nodes}")
    named = {"horizon": horizon_s, "mean on-line time": mean_on_s, "mean off-line time": mean_off_s}
    for name, value in named.items():
        if not 1 / _SECOND_US <= value < 2**63 / _SECOND_US / 2:
            raise InputError(f"the {name} must be a positive number of seconds, not {value}")
    sessions = nodes * (1 + horizon_s / (mean_on_s + mean_off_s))
    if sessions > _SESSIONS_MAX:
        raise InputError(
            f"about {sessions:.2g} sessions are too many (at most {_SESSIONS_MAX:.0e}): take longer periods"
        )
