"""Rings for a whole population: the same rules, applied to every node's rows.

The rows of all nodes live in one pool beside their topics: peers and ages [pool, place]. The other layers'
views come in beside them [node, slot].
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.index import INDEXED_FROM, Index, close_index, open_index
from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.suspicion import Suspicion, forgive, gather_believed, note
from vinecast.core.arrays.topic_overlap import (
    Scratch,
    begin_gathering,
    gather,
    gather_one,
    gather_rows,
    leave_out,
)
from vinecast.core.arrays.view import View, front_of, rows_of, view_of
from vinecast.core.exchange import Turn, make_passes
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.rings import informed as lacks
from vinecast.protocols.rings import rules
from vinecast.protocols.rings.rules import Peers

Online = NDArray[np.bool_]


class RingsLayer(NamedTuple):
    """Everybody's Rings, what they see of the other layers, and one thread's working memory."""

    rings: View
    """[pool, place]"""
    near: View
    """[node, slot], Vicinity's"""
    sample: View
    """[node, slot], the peer sampling layer's"""
    considered: Peers
    """[node, slot], those of Vicinity that were considered last"""
    lost: Online
    """[node], whether everybody known is to be considered again"""
    suspicion: Suspicion
    silent: Peers
    """[node], a partner that did not answer in this cycle, or NOBODY"""
    online: Online
    cycles: NDArray[np.int32]
    seed: int
    gossip_size: int
    informed: bool
    table: Table
    scratch: Scratch
    lists: Index
    """For a node that answers many."""


@rule
def gather_others(layer: RingsLayer, p: int, count: int) -> int:
    """Add the views of a node's other layers to the candidates: Vicinity's, the sample's."""
    near, sample = view_of(layer.near, p), view_of(layer.sample, p)
    count = gather(layer.scratch, count, near.peers, near.ages)
    cycle = int(layer.cycles[p])
    return gather_believed(layer.scratch, count, sample.peers, sample.ages, layer.suspicion, p, cycle)


@rule
def gather_views(layer: RingsLayer, p: int) -> int:
    """The union of a node's views as candidates: the rings', and the other layers'; how many."""
    rows = rows_of(layer.rings, p, layer.table)
    count = gather_rows(layer.scratch, begin_gathering(layer.scratch), rows.peers, rows.ages)
    return gather_others(layer, p, count)


@inner_rule
def ask(layer: RingsLayer, p: int, out: View) -> tuple[int, int]:
    """Consider what the other layers know, and ask the oldest ring neighbour.

    A row always holds the nearest of all that was ever considered, so that only what is new must be, except
    after a partner stayed silent: then everybody known is considered again, for the places it left.
    """
    scratch, table, cycle = layer.scratch, layer.table, int(layer.cycles[p])
    rows = rows_of(layer.rings, p, table)
    layer.silent[p] = NOBODY
    if layer.lost[p]:
        layer.lost[p] = False
        count = gather_views(layer, p)
    else:
        count = begin_gathering(scratch)
        leave_out(scratch, layer.considered[p])
        count = gather_others(layer, p, count)
    for slot in range(layer.considered.shape[1]):
        layer.considered[p, slot] = layer.near.peers[p, slot]
    rules.consider(p, count, rows.peers, rows.ages, table, scratch)
    rules.grow_older(rows.ages)
    if layer.informed:
        q = lacks.select_partner(p, cycle, rows.peers, rows.ages, table, scratch)
    else:
        q = rules.select_oldest(rows.peers, rows.ages)
    if q == NOBODY:
        return q, 0
    rules.drop(rows.peers, rows.ages, q)
    turn, letter = Turn(layer.seed, cycle, p, q), front_of(out, layer.gossip_size)
    if layer.informed:
        return q, lacks.choose_for(turn, 0, table, scratch, rows, out.peers[:0], letter)
    common = rules.select_for(q, p, gather_views(layer, p), table, scratch)
    return q, rules.cut(turn, common, scratch, letter)


@rule
def merge(layer: RingsLayer, turn: Turn, told: View) -> None:
    """Consider the one who was heard, age 0, and what it sent."""
    p, sender, scratch = turn.me, turn.target, layer.scratch
    rows = rows_of(layer.rings, p, layer.table)
    rules.hear_from(rows.peers, rows.ages, sender)
    forgive(layer.suspicion, p, sender)
    heard = gather_one(scratch, begin_gathering(scratch), sender, 0)
    cycle = int(layer.cycles[p])
    heard = gather_believed(scratch, heard, told.peers, told.ages, layer.suspicion, p, cycle)
    rules.consider(p, heard, rows.peers, rows.ages, layer.table, scratch)


@inner_rule
def answer(layer: RingsLayer, turn: Turn, asking: Peers, told: View, out: View) -> int:
    """Send candidates for the rings of the one who asks. Many are answered by an index."""
    q, p, scratch, index, table = turn.me, turn.target, layer.scratch, layer.lists, layer.table
    letter, rows = front_of(out, layer.gossip_size), rows_of(layer.rings, q, table)
    count = gather_views(layer, q)
    if layer.informed and asking.size >= INDEXED_FROM:
        if p == asking[0]:
            open_index(index, asking, count, table, scratch)
        given = lacks.choose_from(index, turn, count, table, scratch, rows, told.peers, letter)
        if p == asking[asking.size - 1]:
            close_index(index)
    elif layer.informed:
        given = lacks.choose_for(turn, count, table, scratch, rows, told.peers, letter)
    else:
        common = rules.select_for(p, q, count, table, scratch)
        given = rules.cut(turn, common, scratch, letter)
    merge(layer, turn, told)
    return given


@rule
def miss(layer: RingsLayer, p: int, partner: int) -> None:
    """Note who was silent."""
    layer.lost[p] = True
    layer.silent[p] = partner


PASSES = make_passes("rings", ask, answer, merge, miss)


@rule
def publish_coverage(
    ring_peers: Peers, table: Table, online: Online, changed: Online, begin: int, end: int
) -> None:
    """Let everyone's profile say how many neighbours it has for each of its topics.

    changed: [node], set where that is not what it said before
    """
    for p in range(begin, end):
        if online[p]:
            for row in range(table.beg[p], table.beg[p] + table.cnt[p]):
                neighbours = rules.count_neighbours(ring_peers[row])
                changed[p] |= table.coverage[row] != neighbours
                table.coverage[row] = neighbours
                table.gaps[row] = lacks.gaps_of(ring_peers[row], p, table)


@rule
def drop_silent(layer: RingsLayer, silent: Peers, begin: int, end: int) -> None:
    """Drop from the rings, and remember, whom another layer found silent. silent: [node]"""
    for p in range(begin, end):
        if layer.online[p] and silent[p] != NOBODY:
            rows = rows_of(layer.rings, p, layer.table)
            rules.drop(rows.peers, rows.ages, int(silent[p]))
            note(layer.suspicion, p, int(silent[p]), int(layer.cycles[p]))
            layer.lost[p] = True
