"""Rings' decisions, over one node's ring neighbours.

A node has a row for each of its topics: ``peers`` and ``ages`` [topic of mine, place], half of the places for
the nearest lower ids, nearest first, and half for the nearest higher ones, likewise. How far peers are from
each other on the circle is told by their places in the table of profiles. On a small ring one peer can stand
on both sides.

The age of an entry is what it was when the entry was handed on, plus the cycles since, and is zeroed by
direct contact only (S0 §5.4): a younger copy of an entry that is there already changes nothing. If copies
refreshed ages, well-known neighbours would never fall due, and the rings would not close.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bitsets import lowest, take_above, take_below
from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.ring_places import Ages, Peers, around, down, offer, up
from vinecast.core.arrays.topic_overlap import (
    Scratch,
    add_candidate,
    begin_gathering,
    clear_candidates,
    gather_rows,
)
from vinecast.core.arrays.view import View
from vinecast.core.draws import below, purpose, stream, substream
from vinecast.core.exchange import Turn
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule, word

__all__ = [
    "AGE_MAX",
    "Ages",
    "Gaps",
    "Peers",
    "Topics",
    "around",
    "clear_rows",
    "consider",
    "count_neighbours",
    "cut",
    "down",
    "drop",
    "grow_older",
    "hear_from",
    "measure_gaps",
    "number_common",
    "number_rows",
    "offer",
    "offer_to_all",
    "select_for",
    "select_oldest",
    "up",
]

AGE_MAX = 65535
_CUT = purpose("rings.cut")
_ONE = word(1)

Topics = NDArray[np.int32]
Gaps = NDArray[np.int64]


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


@inner_rule
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
def measure_gaps(peers: Peers, rows: int, me: int, table: Table, gap: Gaps) -> None:
    """How near a peer must be to stand on each row. peers: [row, place]; gap: [row + 1, side]

    Row 0 of the gaps stands for topics that have no row: nobody is near enough for it.
    """
    gap[0, 0] = gap[0, 1] = 0
    for row in range(rows):
        _measure_gap(peers, row, me, table, gap)


@inner_rule
def _measure_gap(peers: Peers, row: int, me: int, table: Table, gap: Gaps) -> None:
    half = peers.shape[1] // 2
    lower, higher = int(peers[row, half - 1]), int(peers[row, 2 * half - 1])
    gap[row + 1, 0] = int(table.circle[0]) + 1 if lower == NOBODY else down(me, lower, table)
    gap[row + 1, 1] = int(table.circle[0]) + 1 if higher == NOBODY else up(me, higher, table)


@inner_rule
def offer_to_all(
    peers: Peers,
    ages: Ages,
    me: int,
    table: Table,
    candidate: int,
    age: int,
    candidate_topics: Topics,
    scratch: Scratch,
) -> None:
    """Offer a candidate to the rows of all topics it shares with the node, which scratch.row_of numbers.

    Whether it shares a topic is anybody's guess, but that it is too far is nearly sure: so that is asked.
    """
    above, gap = up(me, candidate, table), scratch.gap
    below = around(above, table)
    for i in range(candidate_topics.size):
        row = scratch.row_of[candidate_topics[i]]
        if below < gap[row, 0] or above < gap[row, 1]:
            offer(peers, ages, row - 1, me, candidate, age, table)
            _measure_gap(peers, row - 1, me, table, gap)


@rule
def consider(me: int, count: int, peers: Peers, ages: Ages, table: Table, scratch: Scratch) -> None:
    """Offer the first ``count`` candidates of the scratch to the node's rows."""
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    number_rows(scratch.row_of, mine)
    small = scratch.sets.tastes.shape[0] > 0
    for i in range(count):
        peer, age = int(scratch.peers[i]), int(scratch.ages[i])
        if peer == me or peer == NOBODY:
            continue
        if small:
            _offer_common(peers, ages, me, peer, age, table, scratch)
            continue
        # Candidates are few and rows may be many, so that no gaps are measured beforehand.
        for row in range(table.beg[peer], table.beg[peer] + table.cnt[peer]):
            place = int(scratch.row_of[table.topics[row]])
            if place != 0:
                offer(peers, ages, place - 1, me, peer, age, table)
    clear_rows(scratch.row_of, mine)


@inner_rule
def _offer_common(
    peers: Peers, ages: Ages, me: int, peer: int, age: int, table: Table, scratch: Scratch
) -> None:
    """Offer a peer to the rows of the topics that it shares with the node, which sets tell."""
    if table.cnt[me] == 0 or table.cnt[peer] == 0:  # sets do not know who takes part for the time being
        return
    mine, theirs = scratch.sets.tastes[me], scratch.sets.tastes[peer]
    for at in range(mine.size):
        left = word(mine[at]) & word(theirs[at])
        while left != 0:
            row = int(scratch.row_of[(at << 6) + lowest(left)]) - 1
            left &= left - _ONE
            offer(peers, ages, row, me, peer, age, table)


@rule
def number_rows(row_of: NDArray[np.int16], topics: Topics) -> None:
    """Let ``row_of`` say which row a topic has: row + 1."""
    for row in range(topics.size):
        row_of[topics[row]] = row + 1


@rule
def clear_rows(row_of: NDArray[np.int16], topics: Topics) -> None:
    """Undo ``number_rows``."""
    for row in range(topics.size):
        row_of[topics[row]] = 0


@rule
def number_common(row_of: NDArray[np.int16], mine: Topics, theirs: Topics) -> int:
    """Let ``row_of`` number the topics that two nodes share (both ascending), from 1; how many."""
    common = 0
    i = j = 0
    while i < mine.size and j < theirs.size:
        if mine[i] == theirs[j]:
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
def select_for(target: int, me: int, count: int, table: Table, scratch: Scratch) -> int:
    """For each topic in common with ``target``, the candidates nearest to it on either side (S0 §5.1).

    The candidates are the first ``count`` of the scratch; ``scratch.near`` [common topic, place] receives the
    nearest. Target and node are left out: they hear of each other anyway. Returns how many topics.
    """
    if scratch.sets.fans.shape[0] > 0:
        return _select_from_candidates(target, me, count, table, scratch)
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    theirs = table.topics[table.beg[target] : table.beg[target] + table.cnt[target]]
    common = number_common(scratch.row_of, mine, theirs)
    near, near_ages = scratch.near, scratch.near_ages
    for row in range(common):
        for place in range(near.shape[1]):
            near[row, place] = NOBODY
    if common:
        measure_gaps(near, common, target, table, scratch.gap)
        for i in range(count):
            peer, age = int(scratch.peers[i]), int(scratch.ages[i])
            if peer != target and peer != me:
                offered = table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]]
                offer_to_all(near, near_ages, target, table, peer, age, offered, scratch)
        clear_rows(scratch.row_of, mine)
    return common


@rule
def _select_from_candidates(target: int, me: int, count: int, table: Table, scratch: Scratch) -> int:
    """``select_for``, topic by topic: the nearest fans are found without a look at the others."""
    for i in range(count):
        peer = int(scratch.peers[i])
        if peer != target and peer != me and table.cnt[peer] > 0:
            add_candidate(scratch, i)
    near, near_ages, places = scratch.near, scratch.near_ages, scratch.near.shape[1]
    i, j = int(table.beg[me]), int(table.beg[target])
    mine, theirs = i + int(table.cnt[me]), j + int(table.cnt[target])
    common = 0
    while i < mine and j < theirs:
        topic, other = table.topics[i], table.topics[j]
        if topic == other:
            for place in range(places):
                near[common, place] = NOBODY
            take_below(scratch.sets.fans[topic], scratch.candidates, target, near[common], 0, places // 2)
            take_above(
                scratch.sets.fans[topic], scratch.candidates, target, near[common], places // 2, places
            )
            for place in range(places):
                peer = int(near[common, place])
                if peer != NOBODY:
                    near_ages[common, place] = scratch.ages[scratch.slot[peer]]
            common += 1
        i += int(topic <= other)
        j += int(other <= topic)
    clear_candidates(scratch, count)
    return common


@rule
def cut(turn: Turn, common: int, scratch: Scratch, out: View) -> int:
    """Write the selected into a message; random ones if there are more than fit (S0 §5.1). How many."""
    selected = begin_gathering(scratch)
    selected = gather_rows(scratch, selected, scratch.near[:common], scratch.near_ages[:common])
    key = substream(stream(turn.seed, _CUT, turn.cycle, turn.me), turn.target)
    most = out.peers.size
    chosen = min(most, selected)
    for i in range(chosen):
        if selected > most:
            j = i + below(key, i, selected - i)
            scratch.peers[i], scratch.peers[j] = scratch.peers[j], scratch.peers[i]
            scratch.ages[i], scratch.ages[j] = scratch.ages[j], scratch.ages[i]
        out.peers[i], out.ages[i] = scratch.peers[i], scratch.ages[i]
    return chosen
