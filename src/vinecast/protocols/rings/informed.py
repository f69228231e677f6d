"""The informed exchange (ours): the same messages as S0's, spent on what the partner lacks.

A profile says for each topic how near its owner's nearest ring neighbours are, two bytes a side. From that
others see two things without asking:

- *whom to ask.* My nearest neighbour on a ring says how near its own nearest towards me is. If that is not
  me, one of us lacks somebody: either it knows a peer between us, or it does not know me. ``select_partner``
  asks the neighbour with which most rings disagree. Where all agree, and every few cycles anyway, it is the
  one that was heard from least recently, as in S0: dead neighbours must fall due.
- *what to say.* A candidate that is nearer to the partner than the partner's own nearest, on any ring, is
  something that the partner lacks. ``choose_for`` sends those that improve most rings: in an answer, out of
  all that the node knows and for all of the partner's topics; in a request, on the rings that both share. If
  there is room left, stand-bys follow: on a ring where the sender is next to the partner, the sender's next
  neighbour on the far side is who the partner would need if the sender went.
"""

from vinecast.core.arrays.index import Index, place_candidates
from vinecast.core.arrays.profiles import Table, row_of
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather_one, tie_break
from vinecast.core.arrays.view import View
from vinecast.core.draws import purpose, stream, substream
from vinecast.core.exchange import Turn
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.rings.rules import (
    Ages,
    Peers,
    Topics,
    around,
    clear_rows,
    down,
    number_rows,
    select_oldest,
    up,
)

OLDEST_EVERY = 4
"""Every so many cycles the least recently heard neighbour is asked, whatever the profiles say."""

_MANTISSA = 11
_ONES = (1 << _MANTISSA) - 1
_NOBODY_THERE = 0xFFFF
_TIES = purpose("rings.informed")


@inner_rule
def level(steps: int) -> int:
    """A distance in sixteen bits: the place of its highest bit and the eleven bits after it. In order."""
    highest = 0
    while steps >> (highest + 1):
        highest += 1
    return (highest << _MANTISSA) | (((steps << _MANTISSA) >> highest) & _ONES)


@inner_rule
def steps_of(said: int) -> int:
    """The shortest distance of a level; the level that stands for nobody is farther than all."""
    return ((_ONES + 1 + (said & _ONES)) << (said >> _MANTISSA)) >> _MANTISSA


@rule
def gaps_of(row: Peers, me: int, table: Table) -> int:
    """What a profile says about a ring: how near the nearest are, sixteen bits a side. row: [place]"""
    lower, higher = int(row[0]), int(row[row.size // 2])
    low = _NOBODY_THERE if lower == NOBODY else level(down(me, lower, table))
    high = _NOBODY_THERE if higher == NOBODY else level(up(me, higher, table))
    return (low << 16) | high


@inner_rule
def disagrees(me: int, peer: int, side: int, topic: int, table: Table) -> bool:
    """Whether my nearest on a side of a topic's ring says that its nearest towards me is not me.

    It does too when it does not subscribe any more: asking takes it off the ring.
    """
    row = row_of(table, peer, topic)
    if row < 0:
        return True
    said = int(table.gaps[row])
    steps = up(me, peer, table)
    return (said & 0xFFFF) != level(around(steps, table)) if side == 0 else (said >> 16) != level(steps)


@rule
def select_partner(me: int, cycle: int, peers: Peers, ages: Ages, table: Table, scratch: Scratch) -> int:
    """The neighbour with which most rings disagree, the oldest of equals; if all agree, the oldest of all."""
    if cycle % OLDEST_EVERY == 0:
        return select_oldest(peers, ages)
    half = peers.shape[1] // 2
    count = begin_gathering(scratch)
    for row in range(peers.shape[0]):
        topic = int(table.topics[table.beg[me] + row])
        for side in range(2):
            peer = int(peers[row, side * half])
            if peer != NOBODY and disagrees(me, peer, side, topic, table):
                count = _count_for(scratch, count, peer, int(ages[row, side * half]))
    best = -1
    for i in range(count):
        if (
            best < 0
            or scratch.weight[i] > scratch.weight[best]
            or (scratch.weight[i] == scratch.weight[best] and scratch.ages[i] > scratch.ages[best])
        ):
            best = i
    return select_oldest(peers, ages) if best < 0 else int(scratch.peers[best])


@inner_rule
def _count_for(scratch: Scratch, count: int, peer: int, age: int) -> int:
    """Let a peer weigh one more, as a new candidate if it is none yet; how many candidates there are."""
    if scratch.seen[peer] != scratch.stamp[0]:
        scratch.slot[peer] = count
        scratch.weight[count] = 0
        count = gather_one(scratch, count, peer, age)
    scratch.weight[scratch.slot[peer]] += 1
    return count


@rule
def choose_for(
    turn: Turn, count: int, table: Table, scratch: Scratch, rows: View, known: Peers, out: View
) -> int:
    """Write into a message what the target lacks, of the scratch's first ``count`` candidates; how many.

    Without candidates, it is of those who stand on the sender's rows for the topics that both have: enough
    for a request, whose sender came to learn, and much less work.
    rows: [topic of mine, place], the sender's own; known: what the target just sent.
    """
    me, target = turn.me, turn.target
    theirs = table.topics[table.beg[target] : table.beg[target] + table.cnt[target]]
    _read_gaps(target, me, table, scratch)
    if count:
        number_rows(scratch.row_of, theirs)
        for i in range(count):
            peer = int(scratch.peers[i])
            if peer != target and peer != me:
                offered = table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]]
                _improve(target, peer, int(scratch.ages[i]), offered, table, scratch)
        clear_rows(scratch.row_of, theirs)
    else:
        _improve_shared(target, me, rows, table, scratch)
    return _write_lacked(turn, table, scratch, rows, known, out)


@rule
def choose_from(
    index: Index, turn: Turn, count: int, table: Table, scratch: Scratch, rows: View, known: Peers, out: View
) -> int:
    """The same as ``choose_for``, with an index that lists the candidates by the target's topics."""
    me, target = turn.me, turn.target
    begin, end = int(table.beg[target]), int(table.beg[target]) + int(table.cnt[target])
    _read_gaps(target, me, table, scratch)
    strangers = place_candidates(index, count, scratch)
    here, circle = int(table.place[target]), int(table.circle[0])
    for row in range(begin, end):
        at = index.list_of[table.topics[row]] + 1
        for i in range(index.begin[at], index.begin[at + 1]):
            # That somebody is too far is nearly sure, so it is asked before whether it is a candidate still.
            above = int(index.at[index.member[i]]) - here
            above = above if above > 0 else above + circle
            below = circle - above
            if below < scratch.gap[row - begin + 1, 0] or above < scratch.gap[row - begin + 1, 1]:
                place = index.place[index.member[i]]
                peer = int(scratch.peers[place]) if place >= 0 else target
                if peer != target and peer != me:
                    _compare(scratch, row - begin + 1, below, above, peer, int(scratch.ages[place]))
    if strangers:
        number_rows(scratch.row_of, table.topics[begin:end])
        for i in range(count):
            peer = int(scratch.peers[i])
            if peer != target and peer != me and index.number[peer] < index.state[0]:
                offered = table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]]
                _improve(target, peer, int(scratch.ages[i]), offered, table, scratch)
        clear_rows(scratch.row_of, table.topics[begin:end])
    return _write_lacked(turn, table, scratch, rows, known, out)


@rule
def _write_lacked(turn: Turn, table: Table, scratch: Scratch, rows: View, known: Peers, out: View) -> int:
    """Write who took places on the target's rings into a message, then stand-bys; how many."""
    half, me, target = scratch.near.shape[1] // 2, turn.me, turn.target
    found = begin_gathering(scratch)
    for row in range(table.cnt[target]):
        for side in range(2):
            peer = int(scratch.near[row, side * half])
            if peer != NOBODY:
                found = _count_for(scratch, found, peer, int(scratch.near_ages[row, side * half]))
    for i in range(known.size):
        if known[i] != NOBODY and scratch.seen[known[i]] == scratch.stamp[0]:
            scratch.weight[scratch.slot[known[i]]] = 0
    key = substream(stream(turn.seed, _TIES, turn.cycle, me), target)
    chosen = _write_heaviest(0, found, key, scratch, out)
    if chosen < out.peers.size:
        end = _add_stand_bys(target, me, found, table, scratch, rows)
        chosen = _write_heaviest(chosen, end, key, scratch, out)
    return chosen


@rule
def _read_gaps(target: int, me: int, table: Table, scratch: Scratch) -> None:
    """How near a candidate must be to be lacked: nearer than the target's nearest, and than the sender."""
    begin, count = int(table.beg[target]), int(table.cnt[target])
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    half = scratch.near.shape[1] // 2
    above = up(target, me, table)
    scratch.gap[0, 0] = scratch.gap[0, 1] = 0
    i = 0
    for row in range(count):
        said = int(table.gaps[begin + row])
        low, high = steps_of(said >> 16), steps_of(said & 0xFFFF)
        while i < mine.size and mine[i] < table.topics[begin + row]:
            i += 1
        if i < mine.size and mine[i] == table.topics[begin + row]:
            low, high = min(low, around(above, table)), min(high, above)
        scratch.gap[row + 1, 0], scratch.gap[row + 1, 1] = low, high
        scratch.near[row, 0] = scratch.near[row, half] = NOBODY


@inner_rule
def _improve(target: int, peer: int, age: int, offered: Topics, table: Table, scratch: Scratch) -> None:
    """Let a candidate take the places of the target's rings that it is near enough for."""
    above = up(target, peer, table)
    below = around(above, table)
    for i in range(offered.size):
        row = scratch.row_of[offered[i]]
        if row != 0:
            _compare(scratch, row, below, above, peer, age)


@inner_rule
def _improve_shared(target: int, me: int, rows: View, table: Table, scratch: Scratch) -> None:
    """Let those who stand on the sender's rows take their places on the same rings of the target."""
    theirs = table.topics[table.beg[target] : table.beg[target] + table.cnt[target]]
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    i = 0
    for row in range(theirs.size):
        while i < mine.size and mine[i] < theirs[row]:
            i += 1
        if i < mine.size and mine[i] == theirs[row]:
            for place in range(rows.peers.shape[1]):
                peer = int(rows.peers[i, place])
                if peer != NOBODY and peer != target:
                    above = up(target, peer, table)
                    _compare(scratch, row + 1, around(above, table), above, peer, int(rows.ages[i, place]))


@inner_rule
def _compare(scratch: Scratch, row: int, below: int, above: int, peer: int, age: int) -> None:
    """Let a peer take the places on a ring that it is near enough for. row: counted from 1"""
    if below < scratch.gap[row, 0]:
        _take(scratch, row, 0, below, peer, age)
    if above < scratch.gap[row, 1]:
        _take(scratch, row, 1, above, peer, age)


@inner_rule
def _take(scratch: Scratch, row: int, side: int, steps: int, peer: int, age: int) -> None:
    place = side * (scratch.near.shape[1] // 2)
    scratch.gap[row, side] = steps
    scratch.near[row - 1, place], scratch.near_ages[row - 1, place] = peer, age


@rule
def _add_stand_bys(target: int, me: int, found: int, table: Table, scratch: Scratch, rows: View) -> int:
    """Add, for each ring on which the sender is next to the target, who is next beyond; the new length."""
    half = rows.peers.shape[1] // 2
    theirs = table.topics[table.beg[target] : table.beg[target] + table.cnt[target]]
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    above = up(target, me, table)
    i = 0
    for row in range(theirs.size):
        while i < mine.size and mine[i] < theirs[row]:
            i += 1
        if i == mine.size:
            break
        if mine[i] != theirs[row]:
            continue
        for side in range(2):
            beyond = int(rows.peers[i, side * half])
            next_to_it = scratch.gap[row + 1, side] == (around(above, table) if side == 0 else above)
            fresh = beyond != NOBODY and beyond != target and scratch.seen[beyond] != scratch.stamp[0]
            if next_to_it and fresh:
                scratch.weight[found] = 1
                found = gather_one(scratch, found, beyond, int(rows.ages[i, side * half]))
    return found


@rule
def _write_heaviest(chosen: int, found: int, key: int, scratch: Scratch, out: View) -> int:
    """Write the candidates of greatest weight into a message, equal ones in a keyed order; how many."""
    while chosen < out.peers.size:
        best = -1
        for i in range(found):
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
        out.peers[chosen], out.ages[chosen] = scratch.peers[best], scratch.ages[best]
        scratch.weight[best] = 0
        chosen += 1
    return chosen
