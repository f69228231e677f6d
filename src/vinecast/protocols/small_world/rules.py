"""Which links make a small world, and where a lookup goes next.

Everybody and every topic has a place on the circle (``core.arrays.profiles``). Symphony draws the length of a
long link from the harmonic distribution, between the mean distance of neighbours and the whole circle. Here a
link draws an octave of lengths uniformly and a length within it uniformly, in whole numbers: the same
distribution to within the bend of 1/x over an octave, and the same bits on every machine. The mean distance
of neighbours is estimated from a node's own two. A link leads up or down by the toss of a coin, because
lookups come from both sides (Symphony's lead up, and are used from both ends). A node draws once for each of
its links, for good, and then wants the peer that is nearest to that point, so that tables come to rest (S2
leaves open when to draw).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.draws import below, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule

_LONG = purpose("small_world.long")

Peers = NDArray[np.int32]


class LinkChoice(NamedTuple):
    """Whose links are chosen, by which draws, and how many of them are long."""

    me: int
    seed: int
    long_links: int


@inner_rule
def far_from(place: int, target: int, circle: int) -> int:
    """How far a place is from a point; of two as far away on either side, the higher counts as nearer."""
    up = (place - target) % circle
    down = circle - up
    return 2 * up if up <= down else 2 * down + 1


@rule
def long_distance(seed: int, me: int, link: int, gap: int, circle: int) -> int:
    """Where a node's long link leads: how far up, or, if negative, down. gap: between neighbours"""
    key = stream(seed, _LONG, 0, me)
    octaves = 1
    while (gap << (octaves + 1)) < circle:
        octaves += 1
    shortest = gap << below(key, 3 * link, octaves)
    length = shortest + below(key, 3 * link + 1, shortest)
    return length if below(key, 3 * link + 2, 2) == 1 else -length


@rule
def select_links(choice: LinkChoice, count: int, table: Table, scratch: Scratch) -> int:
    """Choose successor, predecessor and long links (S2 Algorithm 4, lines 2 to 10) among candidates.

    The chosen one's ``scratch.weight`` is its number among them, from 1; everybody else's is 0. Returns how
    many there are.
    """
    circle, here = int(table.circle[0]), int(table.place[choice.me])
    higher, lower = NOBODY, NOBODY
    up_least, down_least = circle, circle
    for place in range(count):
        scratch.weight[place] = 0
        up = (int(table.place[scratch.peers[place]]) - here) % circle
        if up < up_least:
            higher, up_least = place, up
    if higher == NOBODY:
        return 0
    scratch.weight[higher] = 1
    for place in range(count):
        down = (here - int(table.place[scratch.peers[place]])) % circle
        if down < down_least and scratch.weight[place] == 0:
            lower, down_least = place, down
    if lower == NOBODY:
        return 1
    scratch.weight[lower] = 2
    chosen = 2
    gap = max((up_least + down_least) // 2, 1)
    for link in range(choice.long_links):
        target = (here + long_distance(choice.seed, choice.me, link, gap, circle)) % circle
        nearest, least = NOBODY, 2 * circle
        for place in range(count):
            far = far_from(int(table.place[scratch.peers[place]]), target, circle)
            if far < least and scratch.weight[place] == 0:
                nearest, least = place, far
        if nearest == NOBODY:
            return chosen
        chosen += 1
        scratch.weight[nearest] = chosen
    return chosen


@rule
def put_links_first(scratch: Scratch, links: int, found: int, count: int) -> int:
    """Let the links stand before the others that were found, in ``scratch.best``; how many there are."""
    for slot in range(found - 1, -1, -1):
        scratch.best[slot + links] = scratch.best[slot]
    for place in range(count):
        if scratch.weight[place] > 0:
            scratch.best[scratch.weight[place] - 1] = place
    return links + found


@rule
def meet(
    me: int, peers: Peers, ages: NDArray[np.uint16], table: Table, met: Peers, met_ages: NDArray[np.uint16]
) -> None:
    """Keep the nearest going up and the nearest going down of all that a node is told of. met: [side]"""
    circle, here = int(table.circle[0]), int(table.place[me])
    for i in range(peers.size):
        peer, age = int(peers[i]), int(ages[i])
        if peer == NOBODY or peer == me:
            continue
        for side in range(2):
            known = int(met[side])
            far = (int(table.place[peer]) - here) % circle
            least = (int(table.place[known]) - here) % circle if known != NOBODY else 0
            if side == 1:
                far, least = (circle - far) % circle, (circle - least) % circle
            if known == NOBODY or far < least or (peer == known and age < met_ages[side]):
                met[side], met_ages[side] = peer, age


@rule
def next_hop(me: int, target: int, peers: Peers, table: Table) -> int:
    """The neighbour that is nearest to a point, if it is nearer than oneself, or NOBODY. peers: packed"""
    circle = int(table.circle[0])
    least = far_from(int(table.place[me]), target, circle)
    found = NOBODY
    for slot in range(peers.size):
        if peers[slot] == NOBODY:
            break
        far = far_from(int(table.place[peers[slot]]), target, circle)
        if far < least:
            least, found = far, int(peers[slot])
    return found
