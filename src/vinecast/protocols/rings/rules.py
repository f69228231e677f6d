"""Rings' decisions, over one node's ring neighbours.

A node has a row for each of its topics: ``peers`` and ``ages`` [topic of mine, place], half of the places for
the nearest lower ids, nearest first, and half for the nearest higher ones, likewise. Peers are numbered in
the order of their ids, so that distances are counted in numbers, modulo the population. On a small ring one
peer can stand on both sides.

The age of an entry is what it was when the entry was handed on, plus the cycles since, and is zeroed by
direct contact only (S0 §5.4): a younger copy of an entry that is there already changes nothing. If copies
refreshed ages, well-known neighbours would never fall due, and the rings would not close.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import below, purpose, stream, substream
from vinecast.core.interest import Scratch, begin_gathering, gather, gather_one, tie_break
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Table
from vinecast.core.rule import rule

AGE_MAX = 65535
_CUT = purpose("rings.cut")

Peers = NDArray[np.int32]
Ages = NDArray[np.uint16]
Topics = NDArray[np.int32]


@rule
def up(a: int, b: int, population: int) -> int:
    """How far it is from a to b towards higher ids; the whole circle from a node to itself."""
    steps = b - a
    return steps if steps > 0 else steps + population


@rule
def offer(peers: Peers, ages: Ages, row: int, me: int, peer: int, age: int, population: int) -> None:
    """Let a subscriber of a row's topic take its place there, if it is near enough."""
    half = peers.shape[1] // 2
    steps = up(me, peer, population)
    last = int(peers[row, 2 * half - 1])
    if last == NOBODY or steps < up(me, last, population):
        _insert(peers, ages, row, half, 2 * half, me, peer, age, steps, population, True)
    last = int(peers[row, half - 1])
    if last == NOBODY or population - steps < population - up(me, last, population):
        _insert(peers, ages, row, 0, half, me, peer, age, population - steps, population, False)


@rule
def _insert(
    peers: Peers,
    ages: Ages,
    row: int,
    first: int,
    end: int,
    me: int,
    peer: int,
    age: int,
    steps: int,
    population: int,
    higher: bool,
) -> None:
    """One side of a row, nearest first: places first … end−1."""
    place = first
    while place < end and peers[row, place] != NOBODY:
        if peers[row, place] == peer:
            return
        there = up(me, int(peers[row, place]), population)
        if steps < (there if higher else population - there):
            break
        place += 1
    if place < end:
        for at in range(end - 1, place, -1):
            peers[row, at], ages[row, at] = peers[row, at - 1], ages[row, at - 1]
        peers[row, place], ages[row, place] = peer, age


@rule
def drop(peers: Peers, ages: Ages, peer: int) -> None:
    """Take a peer out of every row; who stands behind it moves up. peers, ages: [topic of mine, place]"""
    half = peers.shape[1] // 2
    for row in range(peers.shape[0]):
        for side in range(2):
            to = side * half
            for place in range(side * half, side * half + half):
                if peers[row, place] != peer:
                    peers[row, to], ages[row, to] = peers[row, place], ages[row, place]
                    to += 1
            while to < side * half + half:
                peers[row, to], ages[row, to] = NOBODY, 0
                to += 1


@rule
def grow_older(ages: Ages) -> None:
    """Once a cycle every entry's age grows by one. ages: [topic of mine, place]"""
    for row in range(ages.shape[0]):
        for place in range(ages.shape[1]):
            if ages[row, place] < AGE_MAX:
                ages[row, place] += 1


@rule
def select_oldest(peers: Peers, ages: Ages) -> int:
    """The peer that was least recently heard from, over all topics (S0 §5.1: LRU), or NOBODY."""
    oldest, age = NOBODY, -1
    for row in range(peers.shape[0]):
        for place in range(peers.shape[1]):
            if peers[row, place] != NOBODY and int(ages[row, place]) > age:
                oldest, age = int(peers[row, place]), int(ages[row, place])
    return oldest


@rule
def hear_from(peers: Peers, ages: Ages, peer: int) -> None:
    """Direct contact zeroes the age of a peer, in every row."""
    for row in range(peers.shape[0]):
        for place in range(peers.shape[1]):
            if peers[row, place] == peer:
                ages[row, place] = 0


@rule
def count_neighbours(peers: Peers) -> int:
    """How many different peers a row has. peers: [place]"""
    count = 0
    for place in range(peers.size):
        fresh = peers[place] != NOBODY
        for earlier in range(place):
            fresh &= peers[earlier] != peers[place]
        count += fresh
    return count


@rule
def offer_to_all(
    peers: Peers,
    ages: Ages,
    me: int,
    population: int,
    candidate: int,
    age: int,
    candidate_topics: Topics,
    row_of: NDArray[np.int32],
) -> None:
    """Offer a candidate to the rows of all topics it shares with the node. row_of: [topic], row + 1 or 0"""
    for i in range(candidate_topics.size):
        row = row_of[candidate_topics[i]]
        if row != 0:
            offer(peers, ages, row - 1, me, candidate, age, population)


@rule
def consider(
    me: int, count: int, peers: Peers, ages: Ages, population: int, table: Table, scratch: Scratch
) -> None:
    """Offer the first ``count`` candidates of the scratch to the node's rows."""
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    number_rows(scratch.row_of, mine)
    for i in range(count):
        peer = int(scratch.peers[i])
        if peer != me and peer != NOBODY:
            offered = table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]]
            offer_to_all(peers, ages, me, population, peer, int(scratch.ages[i]), offered, scratch.row_of)
    clear_rows(scratch.row_of, mine)


@rule
def list_heard(sender: int, new_peers: Peers, new_ages: Ages, scratch: Scratch) -> int:
    """Make the one who was heard, age 0, and what it sent the candidates; how many."""
    scratch.peers[0], scratch.ages[0] = sender, 0
    for i in range(new_peers.size):
        scratch.peers[i + 1], scratch.ages[i + 1] = new_peers[i], new_ages[i]
    return new_peers.size + 1


@rule
def number_rows(row_of: NDArray[np.int32], topics: Topics) -> None:
    """Let ``row_of`` say which row a topic has: row + 1."""
    for row in range(topics.size):
        row_of[topics[row]] = row + 1


@rule
def clear_rows(row_of: NDArray[np.int32], topics: Topics) -> None:
    """Undo ``number_rows``."""
    for row in range(topics.size):
        row_of[topics[row]] = 0


@rule
def number_common(
    row_of: NDArray[np.int32], mine: Topics, theirs: Topics, their_row: NDArray[np.int64]
) -> int:
    """Let ``row_of`` number the topics that two nodes share (both ascending), from 1; how many.

    ``their_row`` [topic in common] receives the place of each among theirs.
    """
    common = 0
    i = j = 0
    while i < mine.size and j < theirs.size and common < their_row.size:
        if mine[i] == theirs[j]:
            their_row[common] = j
            common += 1
            row_of[mine[i]] = common
            i += 1
            j += 1
        elif mine[i] < theirs[j]:
            i += 1
        else:
            j += 1
    return common


@rule
def select_for(
    target: int, me: int, count: int, population: int, all_topics: bool, table: Table, scratch: Scratch
) -> int:
    """For each topic in common with ``target``, the candidates nearest to it on either side (S0 §5.1).

    The candidates are the first ``count`` of the scratch; ``scratch.near`` [common topic, place] receives the
    nearest. Target and node are left out: they hear of each other anyway. Returns how many topics.
    With ``all_topics`` it is for each topic of the target, whether the node subscribes to it or not.
    """
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    theirs = table.topics[table.beg[target] : table.beg[target] + table.cnt[target]]
    if all_topics:
        mine = theirs
    common = number_common(scratch.row_of, mine, theirs, scratch.their_row)
    near, near_ages = scratch.near, scratch.near_ages
    for row in range(common):
        for place in range(near.shape[1]):
            near[row, place] = NOBODY
    if common:
        for i in range(count):
            peer = int(scratch.peers[i])
            if peer != target and peer != me:
                offered = table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]]
                offer_to_all(
                    near, near_ages, target, population, peer, int(scratch.ages[i]), offered, scratch.row_of
                )
        clear_rows(scratch.row_of, mine)
    return common


@rule
def cut(
    common: int,
    seed: int,
    cycle: int,
    me: int,
    target: int,
    most: int,
    scratch: Scratch,
    out_peers: Peers,
    out_ages: Ages,
) -> int:
    """Write the selected into a message; ``most`` random ones if there are more (S0 §5.1). How many."""
    selected = begin_gathering(scratch)
    for row in range(common):
        selected = gather(scratch, selected, scratch.near[row], scratch.near_ages[row])
    key = substream(stream(seed, _CUT, cycle, me), target)
    chosen = min(most, selected)
    for i in range(chosen):
        if selected > most:
            j = i + below(key, i, selected - i)
            scratch.peers[i], scratch.peers[j] = scratch.peers[j], scratch.peers[i]
            scratch.ages[i], scratch.ages[j] = scratch.ages[j], scratch.ages[i]
        out_peers[i], out_ages[i] = scratch.peers[i], scratch.ages[i]
    return chosen


@rule
def level(steps: int) -> int:
    """How near, in eight bits: the place of the highest bit and the three bits after it. Lower is nearer."""
    highest = 0
    while steps >> (highest + 1):
        highest += 1
    rest = (steps << 3) >> highest
    return highest * 8 + (rest & 7)


@rule
def gaps_of(row: Peers, me: int, population: int) -> int:
    """What a profile says about a ring: how near the nearest are, eight bits a side, 255 for nobody."""
    lower, higher = int(row[0]), int(row[row.size // 2])
    low = 255 if lower == NOBODY else level(population - up(me, lower, population))
    high = 255 if higher == NOBODY else level(up(me, higher, population))
    return low * 256 + high


SURE, MAYBE = 16, 1


@rule
def cut_informed(
    common: int,
    seed: int,
    cycle: int,
    me: int,
    target: int,
    most: int,
    population: int,
    table: Table,
    scratch: Scratch,
    known: Peers,
    out_peers: Peers,
    out_ages: Ages,
) -> int:
    """Write into a message what the target most likely lacks; how many.

    Its profile says how near its neighbours are. A candidate that is nearer than that, it surely lacks;
    one that is about as near, maybe. A candidate counts for every ring in which it would be the nearest,
    unless the sender itself is nearer. What the target just sent (``known``) it has.
    """
    half = scratch.near.shape[1] // 2
    selected = begin_gathering(scratch)
    for row in range(common):
        published = int(table.gaps[table.beg[target] + scratch.their_row[row]])
        for side in range(2):
            peer = int(scratch.near[row, side * half])
            if peer == NOBODY:
                continue
            steps, mine = up(target, peer, population), up(target, me, population)
            if side == 0:
                steps, mine = population - steps, population - mine
            if mine < steps:
                continue
            said = published // 256 if side == 0 else published % 256
            here = level(steps)
            gain = SURE if here < said else (MAYBE if here == said else 0)
            if gain:
                if scratch.seen[peer] != scratch.stamp[0]:
                    scratch.slot[peer] = selected
                    scratch.weight[selected] = 0
                    selected = gather_one(scratch, selected, peer, int(scratch.near_ages[row, side * half]))
                scratch.weight[scratch.slot[peer]] += gain
    for i in range(known.size):
        if known[i] != NOBODY and scratch.seen[known[i]] == scratch.stamp[0]:
            scratch.weight[scratch.slot[known[i]]] = 0
    return _write_heaviest(selected, stream(seed, _CUT, cycle, me), most, scratch, out_peers, out_ages)


@rule
def _write_heaviest(
    selected: int, key: int, most: int, scratch: Scratch, out_peers: Peers, out_ages: Ages
) -> int:
    """Write the candidates of greatest weight into a message, equal ones in a keyed order; how many."""
    chosen = 0
    while chosen < most:
        best = -1
        for i in range(selected):
            if scratch.weight[i] > 0 and (
                best < 0
                or scratch.weight[i] > scratch.weight[best]
                or (
                    scratch.weight[i] == scratch.weight[best]
                    and tie_break(key, scratch.peers[i]) < tie_break(key, scratch.peers[best])
                )
            ):
                best = i
        if best < 0:
            break
        out_peers[chosen], out_ages[chosen] = scratch.peers[best], scratch.ages[best]
        scratch.weight[best] = 0
        chosen += 1
    return chosen
