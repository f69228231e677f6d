"""Vicinity for a whole population: the same rules, applied to every node's row.

The other layers' views come in as plain arrays: a random sample of peers [node, slot], and the ring
neighbours of each subscription [pool, place]. Both stand still while Vicinity's phases run, and so do
profiles: what a peer of the view was worth when it was chosen, it still is when the next are merged, and in
the next cycle too unless the node's profile changed. So it is remembered: ``worths``, beside the view.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.index import INDEXED_FROM, Index, close_index, open_index
from vinecast.core.interest import Scratch, begin_gathering, gather, gather_one, gather_rows
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Table
from vinecast.core.rule import rule
from vinecast.core.silence import Silence, forgive, gather_believed, note
from vinecast.core.sweep import UNANSWERED
from vinecast.protocols.vicinity import rules
from vinecast.protocols.vicinity.rules import Ages, Peers, Worths

Online = NDArray[np.bool_]


@rule
def gather_views(
    p: int,
    peers: Peers,
    ages: Ages,
    sample_peers: Peers,
    sample_ages: Ages,
    ring_peers: Peers,
    ring_ages: Ages,
    silence: Silence,
    cycle: int,
    table: Table,
    scratch: Scratch,
) -> int:
    """The union of a node's views as candidates: its own layer's, the sample's, the rings'; how many."""
    count = gather(scratch, begin_gathering(scratch), peers[p], ages[p])
    count = gather_believed(scratch, count, sample_peers[p], sample_ages[p], silence, p, cycle)
    rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
    return gather_rows(scratch, count, ring_peers[rows], ring_ages[rows])


@rule
def keep(peers: Peers, ages: Ages, worths: Worths, scratch: Scratch, found: int) -> None:
    """Make the chosen candidates the view, and remember what each is worth. worths: [slot]"""
    rules.keep(peers, ages, scratch, found)
    for slot in range(found):
        worths[slot] = scratch.worth[slot]


@rule
def follow_the_last(peers: Peers, worths: Worths, scratch: Scratch, size: int) -> None:
    """One entry was taken out, and the last one put in its place: do the same to what they are worth."""
    for slot in range(size):
        if peers[slot] != scratch.peers[scratch.best[slot]]:
            worths[slot] = worths[size]


@rule
def prepare_requests(
    peers: Peers,
    ages: Ages,
    worths: Worths,
    changed: Online,
    sample_peers: Peers,
    sample_ages: Ages,
    ring_peers: Peers,
    ring_ages: Ages,
    silence: Silence,
    online: Online,
    cycles: NDArray[np.int32],
    seed: int,
    wanted: int,
    gossip_size: int,
    table: Table,
    scratch: Scratch,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    partner: Peers,
    silent: Peers,
    begin: int,
    end: int,
) -> None:
    """Phase 1: everyone looks through all of its views, keeps the best, and asks the oldest.

    changed: [node], whether what the peers of its view are worth must be asked anew
    """
    for p in range(begin, end):
        partner[p] = NOBODY
        if not online[p]:
            continue
        silent[p] = NOBODY
        cycle = int(cycles[p])
        count = gather_views(
            p, peers, ages, sample_peers, sample_ages, ring_peers, ring_ages, silence, cycle, table, scratch
        )
        known = 0 if changed[p] else rules.size_of(peers[p])
        changed[p] = False
        found = rules.select_best(
            p, seed, cycle, wanted, count, peers.shape[1], table, scratch, worths[p, :known]
        )
        keep(peers[p], ages[p], worths[p], scratch, found)
        q = rules.take_oldest(peers[p], ages[p])
        partner[p] = q
        if q != NOBODY:
            follow_the_last(peers[p], worths[p], scratch, found - 1)
            count = gather_one(scratch, count, p, 0)
            found = rules.select_best(
                q, seed, cycle, wanted, count, gossip_size, table, scratch, worths[p, :0]
            )
            rules.write_out(scratch, found, mail_peers[p], mail_ages[p])
            mail_count[p] = found


@rule
def merge_entries(
    p: int,
    sender: int,
    seed: int,
    cycle: int,
    wanted: int,
    peers: Peers,
    ages: Ages,
    worths: Worths,
    new_peers: Peers,
    new_ages: Ages,
    count: int,
    silence: Silence,
    now: int,
    table: Table,
    scratch: Scratch,
) -> None:
    """Keep the best of the view, of the one who was heard, and of what it sent."""
    rules.hear_from(peers[p], ages[p], sender)
    forgive(silence, p, sender)
    known = gather(scratch, begin_gathering(scratch), peers[p], ages[p])
    worth_known = worths[p, :known]
    known = gather_one(scratch, known, sender, 0)
    known = gather_believed(scratch, known, new_peers[:count], new_ages[:count], silence, p, now)
    found = rules.select_best(p, seed, cycle, wanted, known, peers.shape[1], table, scratch, worth_known)
    keep(peers[p], ages[p], worths[p], scratch, found)


@rule
def answer_requests(
    peers: Peers,
    ages: Ages,
    worths: Worths,
    sample_peers: Peers,
    sample_ages: Ages,
    ring_peers: Peers,
    ring_ages: Ages,
    silence: Silence,
    online: Online,
    cycles: NDArray[np.int32],
    seed: int,
    wanted: int,
    gossip_size: int,
    table: Table,
    scratch: Scratch,
    index: Index,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    start: NDArray[np.int32],
    initiator: NDArray[np.int32],
    begin: int,
    end: int,
) -> None:
    """Phase 2: everyone answers those who asked it, in ascending order of their numbers."""
    given_peers = np.empty(gossip_size, np.int32)
    given_ages = np.empty(gossip_size, np.uint16)
    for q in range(begin, end):
        many = start[q + 1] - start[q] >= INDEXED_FROM
        indexed = many and scratch.sets.tastes.shape[0] == 0  # sets answer sooner than an index is made
        for i in range(start[q], start[q + 1]):
            p = int(initiator[i])
            if not online[q]:
                mail_count[p] = UNANSWERED
                continue
            cycle = int(cycles[p])
            now = int(cycles[q])
            count = gather_views(
                q, peers, ages, sample_peers, sample_ages, ring_peers, ring_ages, silence, now, table, scratch
            )
            count = gather_one(scratch, count, q, 0)
            if indexed:
                if i == start[q]:
                    open_index(index, initiator[start[q] : start[q + 1]], count, table, scratch)
                given = rules.select_best_of(
                    index, p, seed, cycle, wanted, count, gossip_size, table, scratch
                )
            else:
                given = rules.select_best(
                    p, seed, cycle, wanted, count, gossip_size, table, scratch, worths[p, :0]
                )
            rules.write_out(scratch, given, given_peers, given_ages)
            merge_entries(
                q, p, seed, cycle, wanted, peers, ages, worths,
                mail_peers[p], mail_ages[p], int(mail_count[p]), silence, now, table, scratch,
            )  # fmt: skip
            for j in range(given):
                mail_peers[p, j] = given_peers[j]
                mail_ages[p, j] = given_ages[j]
            mail_count[p] = given
        if indexed and online[q]:
            close_index(index)


@rule
def merge_answers(
    peers: Peers,
    ages: Ages,
    worths: Worths,
    silence: Silence,
    cycles: NDArray[np.int32],
    seed: int,
    wanted: int,
    table: Table,
    scratch: Scratch,
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
        else:
            merge_entries(
                p, int(partner[p]), seed, int(cycles[p]), wanted, peers, ages, worths,
                mail_peers[p], mail_ages[p], int(mail_count[p]), silence, int(cycles[p]), table, scratch,
            )  # fmt: skip


@rule
def remove_silent(
    peers: Peers,
    ages: Ages,
    changed: Online,
    silent: Peers,
    silence: Silence,
    cycles: NDArray[np.int32],
    online: Online,
    begin: int,
    end: int,
) -> None:
    """Drop from the views, and remember, whom another layer found silent. silent: [node]"""
    for p in range(begin, end):
        if online[p] and silent[p] != NOBODY:
            rules.remove(peers[p], ages[p], int(silent[p]))
            changed[p] = True
            note(silence, p, int(silent[p]), int(cycles[p]))
