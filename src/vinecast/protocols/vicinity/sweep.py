"""Vicinity for a whole population: the same rules, applied to every node's row.

The other layers' views come in beside its own: a random sample of peers [node, slot], and the ring
neighbours of each subscription [pool, place]. Both stand still while Vicinity's phases run, and so do
profiles: what a peer of the view was worth when it was chosen, it still is when the next are merged, and in
the next cycle too unless the node's profile changed. So it is remembered: ``worths``, beside the view.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.index import INDEXED_FROM, Index, close_index, open_index
from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.suspicion import Suspicion, forgive, gather_believed, note
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, gather_one, gather_rows
from vinecast.core.arrays.view import View, rows_of, view_of
from vinecast.core.exchange import Turn, make_passes
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.vicinity import rules
from vinecast.protocols.vicinity.rules import Peers, Worths

Online = NDArray[np.bool_]


class VicinityLayer(NamedTuple):
    """Everybody's Vicinity, what it sees of the other layers, and one thread's working memory."""

    near: View
    """[node, slot], its views"""
    worths: Worths
    """[node, slot], what each peer of the view is worth"""
    changed: Online
    """[node], whether that must be asked anew"""
    sample: View
    """[node, slot], the peer sampling layer's"""
    rings: View
    """[pool, place]"""
    suspicion: Suspicion
    silent: Peers
    """[node], a partner that did not answer in this cycle, or NOBODY"""
    online: Online
    cycles: NDArray[np.int32]
    seed: int
    wanted: int
    gossip_size: int
    table: Table
    scratch: Scratch
    lists: Index
    """For a node that answers many."""


@rule
def gather_views(layer: VicinityLayer, p: int) -> int:
    """The union of a node's views as candidates: its own layer's, the sample's, the rings'; how many."""
    scratch, sample = layer.scratch, view_of(layer.sample, p)
    count = gather(scratch, begin_gathering(scratch), layer.near.peers[p], layer.near.ages[p])
    cycle = int(layer.cycles[p])
    count = gather_believed(scratch, count, sample.peers, sample.ages, layer.suspicion, p, cycle)
    rows = rows_of(layer.rings, p, layer.table)
    return gather_rows(scratch, count, rows.peers, rows.ages)


@rule
def keep(view: View, worths: Worths, scratch: Scratch, found: int) -> None:
    """Make the chosen candidates the view, and remember what each is worth. worths: [slot]"""
    rules.keep(view.peers, view.ages, scratch, found)
    for slot in range(found):
        worths[slot] = scratch.worth[slot]


@rule
def follow_the_last(peers: Peers, worths: Worths, scratch: Scratch, size: int) -> None:
    """One entry was taken out, and the last one put in its place: do the same to what they are worth."""
    for slot in range(size):
        if peers[slot] != scratch.peers[scratch.best[slot]]:
            worths[slot] = worths[size]


@inner_rule
def ask(layer: VicinityLayer, p: int, out: View) -> tuple[int, int]:
    """Look through all views, keep the best, and ask the oldest."""
    view, worths, scratch, cycle = (
        view_of(layer.near, p),
        layer.worths[p],
        layer.scratch,
        int(layer.cycles[p]),
    )
    layer.silent[p] = NOBODY
    count = gather_views(layer, p)
    known = worths[: 0 if layer.changed[p] else rules.size_of(view.peers)]
    layer.changed[p] = False
    me, wanted, table = Turn(layer.seed, cycle, p, p), layer.wanted, layer.table
    found = rules.select_best(me, wanted, count, view.peers.size, table, scratch, known)
    keep(view, worths, scratch, found)
    q = rules.take_oldest(view.peers, view.ages)
    if q == NOBODY:
        return q, 0
    follow_the_last(view.peers, worths, scratch, found - 1)
    count = gather_one(scratch, count, p, 0)
    turn = Turn(layer.seed, cycle, p, q)
    found = rules.select_best(turn, wanted, count, layer.gossip_size, table, scratch, worths[:0])
    rules.write_out(scratch, found, out.peers, out.ages)
    return q, found


@rule
def merge(layer: VicinityLayer, turn: Turn, told: View) -> None:
    """Keep the best of the view, of the one who was heard, and of what it sent."""
    p, sender, scratch, suspicion = turn.me, turn.target, layer.scratch, layer.suspicion
    view, worths = view_of(layer.near, p), layer.worths[p]
    rules.hear_from(view.peers, view.ages, sender)
    forgive(suspicion, p, sender)
    count = gather(scratch, begin_gathering(scratch), view.peers, view.ages)
    known = worths[:count]
    count = gather_one(scratch, count, sender, 0)
    count = gather_believed(scratch, count, told.peers, told.ages, suspicion, p, int(layer.cycles[p]))
    me = Turn(turn.seed, turn.cycle, p, p)
    found = rules.select_best(me, layer.wanted, count, view.peers.size, layer.table, scratch, known)
    keep(view, worths, scratch, found)


@inner_rule
def answer(layer: VicinityLayer, turn: Turn, asking: Peers, told: View, out: View) -> int:
    """Send what is worth most to the one who asks, of all that is known. Many are answered by an index."""
    q, p, scratch, index, table = turn.me, turn.target, layer.scratch, layer.lists, layer.table
    wanted, most = layer.wanted, layer.gossip_size
    count = gather_one(scratch, gather_views(layer, q), q, 0)
    # Sets answer sooner than an index is made.
    if asking.size >= INDEXED_FROM and scratch.sets.tastes.shape[0] == 0:
        if p == asking[0]:
            open_index(index, asking, count, table, scratch)
        given = rules.select_best_of(index, turn, wanted, count, most, table, scratch)
        if p == asking[asking.size - 1]:
            close_index(index)
    else:
        given = rules.select_best(turn, wanted, count, most, table, scratch, layer.worths[p, :0])
    rules.write_out(scratch, given, out.peers, out.ages)
    merge(layer, turn, told)
    return given


@rule
def miss(layer: VicinityLayer, p: int, partner: int) -> None:
    """Note who was silent."""
    layer.silent[p] = partner


PASSES = make_passes("vicinity", ask, answer, merge, miss)


@rule
def remove_silent(layer: VicinityLayer, silent: Peers, begin: int, end: int) -> None:
    """Drop from the views, and remember, whom another layer found silent. silent: [node]"""
    for p in range(begin, end):
        if layer.online[p] and silent[p] != NOBODY:
            rules.remove(layer.near.peers[p], layer.near.ages[p], int(silent[p]))
            layer.changed[p] = True
            note(layer.suspicion, p, int(silent[p]), int(layer.cycles[p]))
