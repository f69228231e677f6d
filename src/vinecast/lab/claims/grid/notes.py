"""What is measured of a run of PolderCast for the claims of S4 ch. 6, cycle by cycle."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.machine import NOBODY
from vinecast.sim.measure.metrics import Tally, reach_of
from vinecast.systems.poldercast.sweep import PolderCastSweep
from vinecast.systems.poldercast_regular.sweep import PolderCastRegularSweep

DEGREES_EVERY_S = 6 * 3600
"""Seconds between two looks at degrees (ours)."""

Layer = tuple[NDArray[Any], NDArray[np.int32]]
"""Whose rows they are [row], and who stands on them [row, place]."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What was measured, cycle by cycle, from the tenth on."""

    hit_by_topic: NDArray[np.float64]
    """Hit ratio as S4 has it."""
    hit: NDArray[np.float64]
    """… and over subscriptions."""
    duplication: NDArray[np.float64]
    hops: NDArray[np.float64]
    online: NDArray[np.int64]
    regular: NDArray[np.int64]
    """Nodes on line that are regular now."""
    tally: Tally
    """All events together, by class (sim/measure/metrics.py)."""
    degrees: NDArray[np.float64]
    """[look, (hour, in-degree in PolderCast's layers, of regular nodes in all, of the others in all)]"""


class Notes:
    """A run while it is measured."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._owner = profiles.owners()
        self._rows: list[tuple[float, ...]] = []
        self._degrees: list[tuple[float, ...]] = []
        self._tally: Tally | None = None
        self._next_look_s = 0.0

    def take(
        self, now_s: float, dissemination: Dissemination, expected: NDArray[np.bool_], sweep: PolderCastSweep
    ) -> None:
        """What became of a cycle's events."""
        reach = reach_of(dissemination, self._profiles, expected)
        stats = reach.stats()
        self._tally = reach.tally if self._tally is None else self._tally + reach.tally
        regular = regular_now(sweep) & sweep.online
        row = (stats.hit_by_topic, stats.hit_ratio)
        counts = (int(sweep.online.sum()), int(regular.sum()))
        self._rows.append((*row, stats.duplication, stats.hops_mean, *counts))
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + DEGREES_EVERY_S
            self._degrees.append((now_s / 3600, *mean_in_degrees(sweep, self._owner, regular)))

    def run(self) -> Run:
        """All of it."""
        assert self._tally is not None
        by_topic, hit, duplication, hops, online, regular = np.array(self._rows).T
        counts = online.astype(np.int64), regular.astype(np.int64)
        return Run(by_topic, hit, duplication, hops, *counts, self._tally, np.array(self._degrees))


def regular_now(sweep: PolderCastSweep) -> NDArray[np.bool_]:
    """Who is regular in the present slot; nobody where there is no second ring. [node]"""
    if not isinstance(sweep, PolderCastRegularSweep):
        return np.zeros(sweep.nodes, dtype=np.bool_)
    regular: NDArray[np.bool_] = sweep.patterns.regular[:, sweep.regularity.slot]
    return regular


def mean_in_degrees(
    sweep: PolderCastSweep, owner: NDArray[np.int32], regular: NDArray[np.bool_]
) -> tuple[float, float, float]:
    """How many on-line nodes have a node in their views (S4 §6.6.4): on average in PolderCast's layers, and
    in all layers for those who are regular now and for the others; NaN where there are none."""
    everyone = np.arange(sweep.nodes)
    layers: list[Layer] = [
        (everyone, sweep.cyclon.peers),
        (everyone, sweep.near_peers),
        (owner, sweep.ring_peers),
    ]
    below = _in_degrees(layers, sweep.online)
    if isinstance(sweep, PolderCastRegularSweep):
        rows = np.where(regular[owner][:, None], sweep.regular_peers, NOBODY)
        layers += [(everyone, sweep.victor_peers), (owner, rows)]
    above = _in_degrees(layers, sweep.online)
    groups = (below[sweep.online], above[regular], above[sweep.online & ~regular])
    first, second, third = (float(group.mean()) if group.size else float("nan") for group in groups)
    return first, second, third


def _in_degrees(layers: list[Layer], online: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How often each node stands in the views of others that are on line. [node]"""
    nodes, links = online.size, []
    for owner, peers in layers:
        both = np.repeat(owner.astype(np.int64), peers.shape[1]), peers.ravel().astype(np.int64)
        there = (both[1] != NOBODY) & online[both[0]]
        links.append((both[0] * nodes + both[1])[there])
    return np.bincount(np.unique(np.concatenate(links)) % nodes, minlength=nodes)
