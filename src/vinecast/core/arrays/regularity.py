"""Regularity: who is on line at the same hour, day after day or week after week (S4 §2.3 and §4.3).

Time is cut into *cycles of recurring behaviour*, a day or a week, counted from t = 0, and a cycle into
*slots* of equal length. Over all cycles a slot has a number of windows; the last may be cut short, or be
missing, where the observation ends. A node's on-line time in the slot, over **all** the slot's time in the
observation, is its share, and the node is *regular* in the slot when its share is **greater** than a
threshold γ. (S4 §2.3 writes ≥, §4.3 writes >; only > gives its own tables.) The pattern of a node is one
truth value per slot.

Times are whole numbers of one unit, whichever the caller has (the pipeline counts microseconds, a live node
may count seconds), so that sums are exact and do not depend on their order; thresholds are whole per cents,
so that nothing is decided by rounding. The trace analysis applies these rules to every node of a trace, a
node's own regularity service to its own log.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bitsets import join, words_for
from vinecast.core.errors import InputError
from vinecast.core.rule import rule

DAY_S, WEEK_S = 86_400, 604_800
CYCLES_S = {"day": DAY_S, "week": WEEK_S}
"""The cycles of S4 §2.3, in seconds, by name."""
SLOTS_S = (300, 900, 1800, 3600)
"""The lengths of a slot that S4 §4.3–4.4 tries, in seconds."""
THRESHOLDS = (60, 65, 70, 75, 80, 85, 90, 95)
"""The thresholds γ of S4 §4.3, in per cent."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A cycle and how it is cut into slots, both in the caller's unit of time."""

    cycle: int
    slot: int

    def __post_init__(self) -> None:
        if not 0 < self.slot <= self.cycle or self.cycle % self.slot:
            raise InputError(f"slots of {self.slot} do not divide a cycle of {self.cycle} into equal parts")

    @property
    def slots(self) -> int:
        """How many slots a cycle has."""
        return self.cycle // self.slot

    def slot_at(self, now: int) -> int:
        """The slot of an instant."""
        return now % self.cycle // self.slot


def check_thresholds(thresholds: tuple[int, ...]) -> None:
    """Thresholds are whole per cents below 100, ascending: beyond 100 % nobody can be on line."""
    if not thresholds:
        raise InputError("regularity needs at least one threshold")
    for threshold in thresholds:
        if not 0 <= threshold < 100:
            raise InputError(f"a threshold is a whole per cent from 0 to 99, not {threshold}")
    if any(a >= b for a, b in pairwise(thresholds)):
        raise InputError(f"thresholds must ascend: {', '.join(map(str, thresholds))}")


@rule
def add_session(on: int, off: int, cycle: int, slot: int, online: NDArray[np.int64]) -> None:
    """Add one session, [on, off), to a node's on-line time. online: [slot]

    Whole cycles come first, so that a session of a year costs no more than one of a day. Sessions of one node
    must not overlap; where they did, a share could exceed one.
    """
    whole = (off - on) // cycle
    if whole > 0:
        for i in range(online.size):
            online[i] += whole * slot
    now = on + whole * cycle
    while now < off:
        until = min((now // slot + 1) * slot, off)
        online[now % cycle // slot] += until - now
        now = until


def observed_time(grid: Grid, horizon: int) -> NDArray[np.int64]:
    """All of each slot's time from 0 to the horizon: what an on-line time is a share of. [slot]"""
    observed = np.zeros(grid.slots, dtype=np.int64)
    add_session(0, horizon, grid.cycle, grid.slot, observed)
    return observed


@rule
def is_regular(online: int, observed: int, threshold: int) -> bool:
    """Whether a share is greater than a threshold in per cent; in a slot never observed nobody is regular."""
    return int(online) * 100 > int(observed) * threshold


@rule
def count_regular(
    online: NDArray[np.int64],
    observed: NDArray[np.int64],
    thresholds: NDArray[np.int64],
    regular: NDArray[np.int64],
    retained: NDArray[np.int64],
) -> None:
    """Count one node in: where it is regular, and where it stays so in the slot that follows.

    The slot after the last is the first of the next cycle. Thresholds ascend, so that a node which is nowhere
    regular at one is nowhere at the next. online, observed: [slot]; regular, retained: [threshold, slot]
    """
    for g in range(thresholds.size):
        anywhere = False
        after = is_regular(online[0], observed[0], thresholds[g])
        for i in range(online.size - 1, -1, -1):
            now = is_regular(online[i], observed[i], thresholds[g])
            if now:
                anywhere = True
                regular[g, i] += 1
                if after:
                    retained[g, i] += 1
            after = now
        if not anywhere:
            return


class OnlineTimes(NamedTuple):
    """When nodes were on line."""

    start: NDArray[np.int64]
    """[node + 1], where a node's sessions begin"""
    on: NDArray[np.int64]
    """[session]"""
    off: NDArray[np.int64]
    """[session]"""


@rule
def count_nodes(
    sessions: OnlineTimes,
    cycle: int,
    slot: int,
    observed: NDArray[np.int64],
    thresholds: NDArray[np.int64],
    online: NDArray[np.int64],
    regular: NDArray[np.int64],
    retained: NDArray[np.int64],
) -> None:
    """``add_session`` and ``count_regular`` for many nodes, of which only the counts are kept.

    online: [slot], for use in here
    """
    for node in range(sessions.start.size - 1):
        online[:] = 0
        for i in range(sessions.start[node], sessions.start[node + 1]):
            add_session(sessions.on[i], sessions.off[i], cycle, slot, online)
        count_regular(online, observed, thresholds, regular, retained)


@rule
def sum_online(sessions: OnlineTimes, cycle: int, slot: int, online: NDArray[np.int64]) -> None:
    """``add_session`` for many nodes. online: [node, slot]"""
    for node in range(sessions.start.size - 1):
        for i in range(sessions.start[node], sessions.start[node + 1]):
            add_session(sessions.on[i], sessions.off[i], cycle, slot, online[node])


@rule
def set_pattern(
    online: NDArray[np.int64], observed: NDArray[np.int64], threshold: int, pattern: NDArray[np.bool_]
) -> None:
    """Say in which slots a node is regular. online, observed, pattern: [slot]"""
    for i in range(online.size):
        pattern[i] = is_regular(online[i], observed[i], threshold)


@rule
def pack(pattern: NDArray[np.bool_], packed: NDArray[np.uint64]) -> None:
    """Write a pattern as a set. pattern: [slot]; packed: [word]"""
    for at in range(packed.size):
        packed[at] = 0
    for slot in range(pattern.size):
        if pattern[slot]:
            join(packed, slot)


class Patterns:
    """Who says that it is regular when: a part of everybody's profile.

    regular: [peer, slot], and packed: [peer, word], a bit a slot. In a simulation one table serves the whole
    population; a live node has its own, with what it last heard of each peer.
    """

    def __init__(self, peers: int, slots: int) -> None:
        self.regular: NDArray[np.bool_] = np.zeros((peers, slots), dtype=np.bool_)
        self.packed: NDArray[np.uint64] = np.zeros((peers, words_for(slots)), dtype=np.uint64)
        self.changes = 0
        """How often somebody's pattern was replaced."""
        self.given = False
        """Whether patterns were given from outside, so that nodes need not find out their own."""

    def replace(self, peer: int, pattern: NDArray[np.bool_]) -> None:
        """A peer says when it is regular. pattern: [slot]"""
        self.regular[peer] = pattern
        pack(self.regular[peer], self.packed[peer])
        self.changes += 1

    def give(self, regular: NDArray[np.bool_]) -> None:
        """Fix everybody's pattern, for experiments that want to know what perfect knowledge is worth."""
        if regular.shape != self.regular.shape:
            raise InputError(f"patterns must have the shape {self.regular.shape}, not {regular.shape}")
        self.regular[:] = regular
        for pattern, packed in zip(self.regular, self.packed, strict=True):
            pack(pattern, packed)
        self.given = True
        self.changes += 1
