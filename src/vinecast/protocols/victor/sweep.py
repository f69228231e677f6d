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
from vinecast.core.arrays.view import Ages, Peers, hear_from, keep, remove, take_oldest, write_out
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.core.sweep import UNANSWERED
from vinecast.protocols.victor import rules
from vinecast.protocols.victor.rules import Regular, Scores, SlotBuckets

Online = NDArray[np.bool_]
Packed = NDArray[np.uint64]


class Views(NamedTuple):
    """What the passes read and write of everybody."""

    peers: Peers
    """[node, place], the views"""
    ages: Ages
    sample_peers: Peers
    """[node, place], the peer sampling layer's"""
    sample_ages: Ages
    regular: Regular
    """[node, slot]"""
    packed: Packed
    """[node, word], the same as sets of slots"""
    suspicion: Suspicion
    online: Online
    cycles: NDArray[np.int32]
    """[node]"""


class VictorMemory(NamedTuple):
    """Working memory of one thread."""

    scratch: Scratch
    scores: Scores
    """[candidate]"""


def make_room(scratch: Scratch) -> VictorMemory:
    """Beside a scratch."""
    return VictorMemory(scratch, np.zeros(scratch.peers.size, dtype=np.uint64))


@rule
def _select(
    target: int, seed: int, cycle: int, wanted: int, count: int, most: int, table: Table, packed: Packed,
    scratch: Scratch, scores: Scores,
) -> int:  # fmt: skip
    score_regular(target, wanted, count, table, packed, scratch, scores)
    return rules.select_best(target, seed, cycle, count, most, scores, scratch)


@rule
def enter_slot(
    views: Views,
    buckets: SlotBuckets,
    before: NDArray[np.int32],
    rounds: NDArray[np.int32],
    slot: int,
    cycle_number: int,
    seed: int,
    wanted: int,
    table: Table,
    room: VictorMemory,
    begin: int,
    end: int,
) -> None:
    """``turn_to`` for whoever is on line. before: [node], its slot, or −1; rounds: [node], its cycle's
    number"""
    scratch, scores = room.scratch, room.scores
    for p in range(begin, end):
        if not views.online[p]:
            continue
        if before[p] != slot:
            rules.change_slots(
                views.peers[p], views.ages[p], int(before[p]), slot, views.regular, buckets.peers[p],
                buckets.ages[p], buckets.aside_peers[p], buckets.aside_ages[p], buckets.next_place[p],
            )  # fmt: skip
            if before[p] >= 0 and rounds[p] != cycle_number:
                for other in range(views.regular.shape[1]):
                    aside = buckets.aside_peers[p, other]
                    if other == slot or rules.has_none(aside):
                        continue
                    peers, ages = buckets.peers[p, other], buckets.ages[p, other]
                    count = begin_gathering(scratch)
                    count = rules.gather_regular(scratch, count, peers, ages, other, views.regular)
                    count = rules.gather_regular(
                        scratch, count, aside, buckets.aside_ages[p, other], other, views.regular
                    )
                    rules.clear_aside(buckets.aside_peers[p], other)
                    found = _select(
                        p, seed, int(views.cycles[p]), wanted, count, peers.size, table, views.packed,
                        scratch, scores,
                    )  # fmt: skip
                    keep(peers, ages, scratch, found)
        before[p], rounds[p] = slot, cycle_number


@rule
def prepare_requests(
    views: Views,
    buckets: SlotBuckets,
    slot: int,
    seed: int,
    wanted: int,
    gossip_size: int,
    table: Table,
    room: VictorMemory,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    partner: Peers,
    silent: Peers,
    begin: int,
    end: int,
) -> None:
    """Phase 1: everyone looks through what it knows of regular peers, keeps the best, and asks the oldest."""
    scratch, scores, regular = room.scratch, room.scores, views.regular
    for p in range(begin, end):
        partner[p] = NOBODY
        if not views.online[p]:
            continue
        silent[p] = NOBODY
        peers, ages, cycle = views.peers[p], views.ages[p], int(views.cycles[p])
        count = rules.gather_regular(scratch, begin_gathering(scratch), peers, ages, slot, regular)
        count = rules.gather_news(
            scratch,
            count,
            views.sample_peers[p],
            views.sample_ages[p],
            slot,
            regular,
            views.suspicion,
            p,
            cycle,
        )
        count = rules.gather_news(
            scratch, count, buckets.aside_peers[p, slot], buckets.aside_ages[p, slot], slot, regular,
            views.suspicion, p, cycle,
        )  # fmt: skip
        rules.clear_aside(buckets.aside_peers[p], slot)
        found = _select(p, seed, cycle, wanted, count, peers.size, table, views.packed, scratch, scores)
        keep(peers, ages, scratch, found)
        q = take_oldest(peers, ages)
        partner[p] = q
        if q != NOBODY:
            if regular[p, slot]:
                count = gather_one(scratch, count, p, 0)
            found = _select(q, seed, cycle, wanted, count, gossip_size, table, views.packed, scratch, scores)
            write_out(scratch, found, mail_peers[p], mail_ages[p])
            mail_count[p] = found


@rule
def merge_entries(
    p: int,
    sender: int,
    views: Views,
    slot: int,
    seed: int,
    cycle: int,
    wanted: int,
    new_peers: Peers,
    new_ages: Ages,
    table: Table,
    room: VictorMemory,
) -> None:
    """Keep the best of the view, of the one who was heard, and of what it sent."""
    scratch, scores, regular = room.scratch, room.scores, views.regular
    peers, ages = views.peers[p], views.ages[p]
    hear_from(peers, ages, sender)
    forgive(views.suspicion, p, sender)
    count = rules.gather_regular(scratch, begin_gathering(scratch), peers, ages, slot, regular)
    if regular[sender, slot]:
        count = gather_one(scratch, count, sender, 0)
    now = int(views.cycles[p])
    count = rules.gather_news(scratch, count, new_peers, new_ages, slot, regular, views.suspicion, p, now)
    found = _select(p, seed, cycle, wanted, count, peers.size, table, views.packed, scratch, scores)
    keep(peers, ages, scratch, found)


@rule
def answer_requests(
    views: Views,
    slot: int,
    seed: int,
    wanted: int,
    gossip_size: int,
    table: Table,
    room: VictorMemory,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    start: NDArray[np.int32],
    initiator: NDArray[np.int32],
    begin: int,
    end: int,
) -> None:
    """Phase 2: everyone answers those who asked it, in ascending order of their numbers."""
    scratch, scores, regular = room.scratch, room.scores, views.regular
    given_peers = np.empty(gossip_size, np.int32)
    given_ages = np.empty(gossip_size, np.uint16)
    for q in range(begin, end):
        for i in range(start[q], start[q + 1]):
            p = int(initiator[i])
            if not views.online[q]:
                mail_count[p] = UNANSWERED
                continue
            cycle, asked = int(views.cycles[p]), int(mail_count[p])
            count = begin_gathering(scratch)
            leave_out(scratch, mail_peers[p, :asked])
            count = rules.gather_regular(scratch, count, views.peers[q], views.ages[q], slot, regular)
            count = rules.gather_news(
                scratch, count, views.sample_peers[q], views.sample_ages[q], slot, regular, views.suspicion,
                q, int(views.cycles[q]),
            )  # fmt: skip
            if regular[q, slot]:
                count = gather_one(scratch, count, q, 0)
            given = _select(p, seed, cycle, wanted, count, gossip_size, table, views.packed, scratch, scores)
            write_out(scratch, given, given_peers, given_ages)
            merge_entries(
                q,
                p,
                views,
                slot,
                seed,
                cycle,
                wanted,
                mail_peers[p, :asked],
                mail_ages[p, :asked],
                table,
                room,
            )
            for j in range(given):
                mail_peers[p, j] = given_peers[j]
                mail_ages[p, j] = given_ages[j]
            mail_count[p] = given


@rule
def merge_answers(
    views: Views,
    slot: int,
    seed: int,
    wanted: int,
    table: Table,
    room: VictorMemory,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    partner: Peers,
    silent: Peers,
    begin: int,
    end: int,
) -> None:
    """Phase 3: everyone merges the answer it got, or notes who was silent. silent: [node]"""
    for p in range(begin, end):
        if partner[p] == NOBODY:
            continue
        if mail_count[p] == UNANSWERED:
            silent[p] = partner[p]
            continue
        given = int(mail_count[p])
        merge_entries(
            p, int(partner[p]), views, slot, seed, int(views.cycles[p]), wanted, mail_peers[p, :given],
            mail_ages[p, :given], table, room,
        )  # fmt: skip


@rule
def remove_silent(views: Views, silent: Peers, begin: int, end: int) -> None:
    """Drop from the views, and remember, whom another layer found silent. silent: [node]"""
    for p in range(begin, end):
        if views.online[p] and silent[p] != NOBODY:
            remove(views.peers[p], views.ages[p], int(silent[p]))
            note(views.suspicion, p, int(silent[p]), int(views.cycles[p]))
