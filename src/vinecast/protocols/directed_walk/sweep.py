"""Directed walks of many copies at a time, hop by hop, over a whole population at rest.

It equals machines on the event engine with one constant latency: copies that arrive at the same time are
taken in the order of their senders' numbers, and one sender's in the order of sending.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bloom import levels_with
from vinecast.core.draws import draw
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.directed_walk.rules import (
    NO_LEVEL,
    Homes,
    Masks,
    Peers,
    Words,
    copy_key,
    first_place,
    step,
    take_in,
)

UNKNOWN = 255
"""The mask of a node whose home nobody has looked into yet."""

COUNTED = ("sent", "again", "expired", "drawn", "random", "misled", "false", "noticed")
"""Hops that copies took; copies that came to members that had the message, or ended for lack of hops; hops
that a level drew to, and those at random; hops that led nowhere; hops drawn by a level that held no such
thing, and those of them that did no harm beyond: the next node noticed, or happened to be a member."""
SENT, AGAIN, EXPIRED, DRAWN, RANDOM, MISLED, FALSE, NOTICED = range(len(COUNTED))

Tally = NDArray[np.int64]
"""[what is counted]"""


class Field(NamedTuple):
    """A population at rest."""

    homes: Homes
    """[node, level, word]"""
    links: Peers
    """[node, slot], ascending"""
    degree: NDArray[np.int32]
    """[node], how many slots of it count"""
    ids: Words
    """[node]"""


class Walking(NamedTuple):
    """How copies walk."""

    seed: int
    ttl: int
    branching: int
    hashes: int
    exact: bool
    """Whether to find out which hops are drawn by what is not there."""


class Copies(NamedTuple):
    """Copies on their way. Each has a number for life; ``ahead`` lists those that are about to arrive."""

    at: Peers
    """[copy], where it arrives"""
    sender: Peers
    ttl: NDArray[np.int32]
    level: NDArray[np.int8]
    false: NDArray[np.bool_]
    """[copy], whether what drew it is not there"""
    bears: NDArray[np.bool_]
    """[copy], of one that goes back to where it came from: whether it brings something"""
    walk: Words
    negative: Words
    """[copy, id]"""
    known: NDArray[np.int32]
    """[copy], how many of them there are"""
    ahead: NDArray[np.int64]
    """[2, place]"""
    keys: NDArray[np.int64]
    """[place]"""


class Sight(NamedTuple):
    """What is known of one group while its message travels."""

    item: int
    """The group's id, as homes have it"""
    member: NDArray[np.bool_]
    """[node]"""
    masks: Masks
    """[node], the levels of its home that hold the group, or UNKNOWN"""
    near: Masks
    """[slot], those of a node's neighbours"""


class Departure(NamedTuple):
    """Where copies that set out are written down."""

    first_copy: int
    """The number of the first of them."""
    now: int
    """Which row of ``Copies.ahead`` lists them …"""
    ahead: int
    """… and from which place on."""


def make_copies(count: int, negatives: int) -> Copies:
    """Room for so many copies in all."""

    def numbers() -> Peers:
        return np.zeros(count, dtype=np.int32)

    return Copies(
        numbers(), numbers(), numbers(), np.zeros(count, dtype=np.int8), np.zeros(count, dtype=np.bool_),
        np.zeros(count, dtype=np.bool_),
        np.zeros(count, dtype=np.uint64), np.zeros((count, negatives), dtype=np.uint64), numbers(),
        np.zeros((2, count), dtype=np.int64), np.zeros(count, dtype=np.int64),
    )  # fmt: skip


@rule
def in_order(copies: Copies, now: int, count: int) -> None:
    """Sort the copies that are about to arrive, ``ahead[now]``, into the order in which they do."""
    for i in range(count):
        copies.keys[i] = (int(copies.sender[copies.ahead[now, i]]) << 32) + i
    copies.keys[:count].sort()
    other = 1 - now
    for i in range(count):
        copies.ahead[other, i] = copies.ahead[now, copies.keys[i] & 0xFFFF_FFFF]
    for i in range(count):
        copies.ahead[now, i] = copies.ahead[other, i]


@inner_rule
def set_out(
    node: int,
    message: int,
    parent: int,
    wanted: int,
    field: Field,
    walking: Walking,
    copies: Copies,
    where: Departure,
) -> int:
    """Let a message's copies set out from a node; how many.

    They take over the negative ids of the copy ``parent``, if there is one, and the node's.
    """
    count = int(field.degree[node])
    sent = count if wanted == 0 else min(wanted, count)
    key = copy_key(walking.seed, message, node)
    first = first_place(key, max(count, 1))
    for i in range(sent):
        copy = where.first_copy + i
        known = 0
        if parent >= 0:
            known = int(copies.known[parent])
            for j in range(known):
                copies.negative[copy, j] = copies.negative[parent, j]
        copies.known[copy] = take_in(copies.negative[copy], known, field.ids[node])
        copies.at[copy] = field.links[node, (first + i) % count]
        copies.sender[copy], copies.ttl[copy], copies.level[copy] = node, walking.ttl, NO_LEVEL
        copies.walk[copy], copies.false[copy] = draw(key, i), False
        copies.ahead[where.now, where.ahead + i] = copy
    return sent


@inner_rule
def go_on(copy: int, field: Field, walking: Walking, sight: Sight, copies: Copies, tally: Tally) -> bool:
    """Let a copy go on from where it is; False if it was its last hop."""
    node = int(copies.at[copy])
    count = int(field.degree[node])
    ttl = int(copies.ttl[copy]) - 1
    if ttl <= 0 or count == 0:
        tally[EXPIRED] += 1
        return False
    for i in range(count):
        peer = field.links[node, i]
        if sight.masks[peer] == UNKNOWN:
            sight.masks[peer] = levels_with(field.homes[peer], sight.item, walking.hashes)
        sight.near[i] = sight.masks[peer]
    near = field.homes, field.links[node], sight.near, count, walking.hashes
    negative, known = copies.negative[copy], int(copies.known[copy])
    letter = copies.walk[copy], ttl, int(copies.level[copy]), negative, known
    place, level, misled = step(near, letter, walking.seed, node)
    if misled:
        tally[MISLED] += 1
        if copies.false[copy]:
            tally[NOTICED] += 1
        copies.known[copy] = take_in(negative, known, field.ids[node])
    to = int(field.links[node, place])
    copies.false[copy] = False
    if level == NO_LEVEL:
        tally[RANDOM] += 1
    else:
        tally[DRAWN] += 1
        if walking.exact and not is_there(to, level, field, sight.member):
            tally[FALSE] += 1
            copies.false[copy] = True
    copies.at[copy], copies.sender[copy], copies.ttl[copy], copies.level[copy] = to, node, ttl, level
    return True


@rule
def is_there(node: int, level: int, field: Field, member: NDArray[np.bool_]) -> bool:
    """Whether a member is as many hops from a node as the level says, up to two; beyond, nobody looks."""
    if level == 0:
        return bool(member[node])
    if level > 2:
        return True
    for i in range(field.degree[node]):
        peer = field.links[node, i]
        if level == 1:
            if member[peer]:
                return True
        else:
            for j in range(field.degree[peer]):
                if member[field.links[peer, j]]:
                    return True
    return False
