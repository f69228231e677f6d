"""Vicinity's decisions, over one node's view and whatever candidates it has.

A view is a row of ``peers`` and ``ages`` [slot], entries packed at the front, empty slots NOBODY. Candidates
come as flat arrays; where they come from (the other layers' views, a message) is the system's business.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import purpose, stream
from vinecast.core.index import Index
from vinecast.core.interest import COVERED_MAX, Scratch, mark_lacks, tie_break, unmark, worth, worth_of_one
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Table
from vinecast.core.rule import rule

AGE_MAX = 65535
_TIES = purpose("vicinity.ties")

Peers = NDArray[np.int32]
Ages = NDArray[np.uint16]
Worths = NDArray[np.uint64]

NOTHING_KNOWN: Worths = np.zeros(0, dtype=np.uint64)


@rule
def select_best(
    target: int,
    seed: int,
    cycle: int,
    wanted: int,
    count: int,
    most: int,
    table: Table,
    scratch: Scratch,
    known: Worths,
) -> int:
    """The ``most`` candidates that are worth most to ``target``, best first (S0 §5.2); how many there are.

    The candidates are the first ``count`` of the scratch; ``scratch.best`` receives the places of the chosen
    among them. The target itself is left out. Equal worth is ordered by a keyed draw.
    known: [place], what the first of the candidates are worth, as far as somebody has asked already
    """
    own = table.topics[table.beg[target] : table.beg[target] + table.cnt[target]]
    mark_lacks(
        scratch.mark, own, table.coverage[table.beg[target] : table.beg[target] + table.cnt[target]], wanted
    )
    key = stream(seed, _TIES, cycle, target)
    found = 0
    for place in range(count):
        peer = int(scratch.peers[place])
        if peer == target:
            continue
        if place < known.size:
            value = known[place]
        else:
            value = worth(scratch.mark, table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]])
        if found < most or value >= scratch.worth[most - 1]:
            found = _place(scratch, found, most, place, value, key)
    unmark(scratch.mark, own)
    return found


@rule
def select_best_of(
    index: Index,
    target: int,
    seed: int,
    cycle: int,
    wanted: int,
    count: int,
    most: int,
    table: Table,
    scratch: Scratch,
) -> int:
    """The same as ``select_best``, with an index that lists the candidates by the target's topics."""
    if table.cnt[target] > COVERED_MAX:  # sums could spill from class to class
        return select_best(target, seed, cycle, wanted, count, most, table, scratch, index.worth[:0])
    begin, end = int(table.beg[target]), int(table.beg[target]) + int(table.cnt[target])
    own, base = table.topics[begin:end], int(index.state[0])
    for number in range(index.state[1]):
        index.worth[number] = 0
    for row in range(begin, end):
        value = worth_of_one(wanted - int(table.coverage[row]))
        at = index.list_of[table.topics[row]] + 1
        for i in range(index.begin[at], index.begin[at + 1]):
            index.worth[index.member[i]] += value
    mark_lacks(scratch.mark, own, table.coverage[begin:end], wanted)
    key = stream(seed, _TIES, cycle, target)
    found = 0
    for place in range(count):
        peer = int(scratch.peers[place])
        if peer == target:
            continue
        number = int(index.number[peer]) - base
        if number >= 0:
            value = index.worth[number]
        else:
            value = worth(scratch.mark, table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]])
        if found < most or value >= scratch.worth[most - 1]:
            found = _place(scratch, found, most, place, value, key)
    unmark(scratch.mark, own)
    return found


@rule
def _place(scratch: Scratch, found: int, most: int, place: int, value: int, key: int) -> int:
    """Insert a candidate into the list of the best, which is kept in order; the list's new length."""
    best, best_worth = scratch.best, scratch.worth
    peer = int(scratch.peers[place])
    at = found
    while at > 0 and value >= best_worth[at - 1]:
        above = int(scratch.peers[best[at - 1]])
        if value == best_worth[at - 1] and tie_break(key, peer) > tie_break(key, above):
            break
        if at < most:
            best[at], best_worth[at] = best[at - 1], best_worth[at - 1]
        at -= 1
    if at == most:
        return found
    best[at], best_worth[at] = place, value
    return found + 1 if found < most else most


@rule
def size_of(peers: Peers) -> int:
    """How many entries a view has."""
    size = 0
    while size < peers.size and peers[size] != NOBODY:
        size += 1
    return size


@rule
def take_oldest(peers: Peers, ages: Ages) -> int:
    """Age every entry by one, take the oldest out of the view; NOBODY when it is empty."""
    size = size_of(peers)
    if size == 0:
        return NOBODY
    oldest = 0
    for slot in range(size):
        if ages[slot] < AGE_MAX:
            ages[slot] += 1
        if ages[slot] > ages[oldest]:
            oldest = slot
    partner = int(peers[oldest])
    size -= 1
    peers[oldest], ages[oldest] = peers[size], ages[size]
    peers[size], ages[size] = NOBODY, 0
    return partner


@rule
def hear_from(peers: Peers, ages: Ages, peer: int) -> None:
    """A peer's age is zeroed when a gossip message is received from it (S0 §5.4)."""
    for slot in range(peers.size):
        if peers[slot] == peer:
            ages[slot] = 0


@rule
def keep(peers: Peers, ages: Ages, scratch: Scratch, found: int) -> None:
    """Make the chosen candidates the view."""
    for slot in range(peers.size):
        if slot < found:
            peers[slot], ages[slot] = scratch.peers[scratch.best[slot]], scratch.ages[scratch.best[slot]]
        else:
            peers[slot], ages[slot] = NOBODY, 0


@rule
def write_out(scratch: Scratch, found: int, out_peers: Peers, out_ages: Ages) -> None:
    """Write the chosen candidates into a message."""
    for i in range(found):
        out_peers[i], out_ages[i] = scratch.peers[scratch.best[i]], scratch.ages[scratch.best[i]]


@rule
def remove(peers: Peers, ages: Ages, peer: int) -> None:
    """Drop the entry of a peer that is known to be gone."""
    size = size_of(peers)
    for slot in range(size):
        if peers[slot] == peer:
            peers[slot], ages[slot] = peers[size - 1], ages[size - 1]
            peers[size - 1], ages[size - 1] = NOBODY, 0
            return
