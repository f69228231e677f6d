"""Victor for a whole population: the same rules, applied to every node's row.

What peers are worth is S4's formula 6.1 (``core/arrays/regularity_overlap``), compiled in: the one utility
that experiments run for thousands of cycles. The peer sampling layer's views come in as plain arrays [node,
place]. Everybody is in the same slot.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.regularity_overlap import score_regular
from vinecast.core.arrays.suspicion import Suspicion, forgive, note
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather_one, leave_out
from vinecast.core.arrays.view import Peers, View, hear_from, keep, remove, take_oldest, view_of, write_out
from vinecast.core.exchange import Turn, make_passes
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.victor import rules
from vinecast.protocols.victor.rules import Regular, Scores, SlotBuckets

Online = NDArray[np.bool_]


class VictorLayer(NamedTuple):
    """Everybody's Victor, the sample below it, and one thread's working memory."""

    near: View
    """[node, place], its views"""
    buckets: SlotBuckets
    """[node, slot, place]"""
    sample: View
    """[node, slot], the peer sampling layer's"""
    regular: Regular
    """[node, slot]"""
    packed: NDArray[np.uint64]
    """[node, word], the same as sets of slots"""
    suspicion: Suspicion
    silent: Peers
    """[node], a partner that did not answer in this cycle, or NOBODY"""
    online: Online
    cycles: NDArray[np.int32]
    slot: int
    """Where everybody is."""
    seed: int
    wanted: int
    gossip_size: int
    table: Table
    scratch: Scratch
    scores: Scores
    """[candidate]"""


@inner_rule
def buckets_of(layer: VictorLayer, p: int) -> SlotBuckets:
    """One node's buckets."""
    all_of = layer.buckets
    return SlotBuckets(
        all_of.peers[p], all_of.ages[p], all_of.aside_peers[p], all_of.aside_ages[p], all_of.next_place[p]
    )


@rule
def select(layer: VictorLayer, target: int, cycle: int, count: int, most: int) -> int:
    """The candidates that are worth most to the target; how many there are."""
    scratch, scores = layer.scratch, layer.scores
    score_regular(target, layer.wanted, count, layer.table, layer.packed, scratch, scores)
    return rules.select_best(target, layer.seed, cycle, count, most, scores, scratch)


@rule
def gather_now(layer: VictorLayer, count: int, entries: View) -> int:
    """Append to the candidates who is regular now; the new length."""
    return rules.gather_regular(layer.scratch, count, entries, layer.slot, layer.regular)


@rule
def gather_news(layer: VictorLayer, p: int, count: int, entries: View) -> int:
    """… and not known to p to be silent."""
    suspicion, cycle = layer.suspicion, int(layer.cycles[p])
    return rules.gather_news(layer.scratch, count, entries, layer.slot, layer.regular, suspicion, p, cycle)


@inner_rule
def gather_if_regular(layer: VictorLayer, count: int, peer: int) -> int:
    """Append a peer that was just heard of, if it is regular now; the new length."""
    return gather_one(layer.scratch, count, peer, 0) if layer.regular[peer, layer.slot] else count


@rule
def consider_others(layer: VictorLayer, p: int) -> None:
    """Look through the consider sets of all slots but the present one."""
    buckets, scratch, regular = buckets_of(layer, p), layer.scratch, layer.regular
    for slot in range(regular.shape[1]):
        aside = View(buckets.aside_peers[slot], buckets.aside_ages[slot])
        if slot == layer.slot or rules.has_none(aside.peers):
            continue
        bucket = View(buckets.peers[slot], buckets.ages[slot])
        count = rules.gather_regular(scratch, begin_gathering(scratch), bucket, slot, regular)
        count = rules.gather_regular(scratch, count, aside, slot, regular)
        rules.clear_aside(buckets, slot)
        found = select(layer, p, int(layer.cycles[p]), count, bucket.peers.size)
        keep(bucket.peers, bucket.ages, scratch, found)


@rule
def enter_slot(
    layer: VictorLayer,
    before: NDArray[np.int32],
    rounds: NDArray[np.int32],
    cycle_number: int,
    begin: int,
    end: int,
) -> None:
    """``turn_to`` for whoever is on line. before: [node], its slot, or −1; rounds: [node], its cycle's
    number"""
    for p in range(begin, end):
        if not layer.online[p]:
            continue
        if before[p] != layer.slot:
            view, buckets = view_of(layer.near, p), buckets_of(layer, p)
            rules.change_slots(view, int(before[p]), layer.slot, layer.regular, buckets)
            if before[p] >= 0 and rounds[p] != cycle_number:
                consider_others(layer, p)
        before[p], rounds[p] = layer.slot, cycle_number


@inner_rule
def ask(layer: VictorLayer, p: int, out: View) -> tuple[int, int]:
    """Look through what is known of regular peers, keep the best, and ask the oldest."""
    view, buckets, cycle, slot = (
        view_of(layer.near, p),
        buckets_of(layer, p),
        int(layer.cycles[p]),
        layer.slot,
    )
    layer.silent[p] = NOBODY
    count = gather_now(layer, begin_gathering(layer.scratch), view)
    count = gather_news(layer, p, count, view_of(layer.sample, p))
    count = gather_news(layer, p, count, View(buckets.aside_peers[slot], buckets.aside_ages[slot]))
    rules.clear_aside(buckets, slot)
    found = select(layer, p, cycle, count, view.peers.size)
    keep(view.peers, view.ages, layer.scratch, found)
    q = take_oldest(view.peers, view.ages)
    if q == NOBODY:
        return q, 0
    found = select(layer, q, cycle, gather_if_regular(layer, count, p), layer.gossip_size)
    write_out(layer.scratch, found, out.peers, out.ages)
    return q, found


@rule
def merge(layer: VictorLayer, turn: Turn, told: View) -> None:
    """Keep the best of the view, of the one who was heard, and of what it sent."""
    p, sender = turn.me, turn.target
    view = view_of(layer.near, p)
    hear_from(view.peers, view.ages, sender)
    forgive(layer.suspicion, p, sender)
    count = gather_now(layer, begin_gathering(layer.scratch), view)
    count = gather_if_regular(layer, count, sender)
    count = gather_news(layer, p, count, told)
    found = select(layer, p, turn.cycle, count, view.peers.size)
    keep(view.peers, view.ages, layer.scratch, found)


@inner_rule
def answer(layer: VictorLayer, turn: Turn, asking: Peers, told: View, out: View) -> int:
    """Send what is worth most to the one who asks, without what it sent."""
    q = turn.me
    count = begin_gathering(layer.scratch)
    leave_out(layer.scratch, told.peers)
    count = gather_now(layer, count, view_of(layer.near, q))
    count = gather_news(layer, q, count, view_of(layer.sample, q))
    count = gather_if_regular(layer, count, q)
    given = select(layer, turn.target, turn.cycle, count, layer.gossip_size)
    write_out(layer.scratch, given, out.peers, out.ages)
    merge(layer, turn, told)
    return given


@rule
def miss(layer: VictorLayer, p: int, partner: int) -> None:
    """Note who was silent."""
    layer.silent[p] = partner


PASSES = make_passes("victor", ask, answer, merge, miss)


@rule
def remove_silent(layer: VictorLayer, silent: Peers, begin: int, end: int) -> None:
    """Drop from the views, and remember, whom another layer found silent. silent: [node]"""
    for p in range(begin, end):
        if layer.online[p] and silent[p] != NOBODY:
            view = view_of(layer.near, p)
            remove(view.peers, view.ages, int(silent[p]))
            note(layer.suspicion, p, int(silent[p]), int(layer.cycles[p]))
