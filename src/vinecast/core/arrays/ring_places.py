"""Places on a ring: the nearest subscribers of a topic on either side of a node (S0 §5.1).

A row has half of its places for the nearest lower ids, nearest first, and half for the nearest higher ones,
likewise. How far peers are from each other on the circle is told by their places in the table of profiles. On
a small ring one peer can stand on both sides.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule

Peers = NDArray[np.int32]
Ages = NDArray[np.uint16]


class Newcomer(NamedTuple):
    """Who may take a place."""

    peer: int
    age: int
    steps: int
    """How far it is, on the side in question."""


@inner_rule
def up(a: int, b: int, table: Table) -> int:
    """How far it is from a to b towards higher ids; the whole circle from a node to itself."""
    steps = int(table.place[b]) - int(table.place[a])
    return steps if steps > 0 else steps + int(table.circle[0])


@inner_rule
def around(steps: int, table: Table) -> int:
    """How far it is the other way round."""
    return int(table.circle[0]) - steps


@inner_rule
def down(a: int, b: int, table: Table) -> int:
    """How far it is from a to b towards lower ids; nothing from a node to itself."""
    return around(up(a, b, table), table)


@inner_rule
def offer(peers: Peers, ages: Ages, row: int, me: int, peer: int, age: int, table: Table) -> None:
    """Let a subscriber of a row's topic take its place there, if it is near enough."""
    half = peers.shape[1] // 2
    steps = up(me, peer, table)
    last = int(peers[row, 2 * half - 1])
    if last == NOBODY or steps < up(me, last, table):
        _insert(peers, ages, row, me, Newcomer(peer, age, steps), True, table)
    last = int(peers[row, half - 1])
    if last == NOBODY or around(steps, table) < down(me, last, table):
        _insert(peers, ages, row, me, Newcomer(peer, age, around(steps, table)), False, table)


@inner_rule
def _insert(peers: Peers, ages: Ages, row: int, me: int, who: Newcomer, higher: bool, table: Table) -> None:
    """One side of a row, nearest first."""
    half = peers.shape[1] // 2
    place = half if higher else 0
    end = place + half
    while place < end and peers[row, place] != NOBODY:
        if peers[row, place] == who.peer:
            return
        there = up(me, int(peers[row, place]), table)
        if who.steps < (there if higher else around(there, table)):
            break
        place += 1
    if place < end:
        for at in range(end - 1, place, -1):
            peers[row, at], ages[row, at] = peers[row, at - 1], ages[row, at - 1]
        peers[row, place], ages[row, place] = who.peer, who.age
