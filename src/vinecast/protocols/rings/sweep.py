"""Rings for a whole population: the same rules, applied to every node's rows.

The rows of all nodes live in one pool beside their topics: peers and ages [pool, place]. The other layers'
views come in as plain arrays [node, slot].
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.index import INDEXED_FROM, Index, close_index, open_index
from vinecast.core.interest import Scratch, begin_gathering, gather, gather_one, gather_rows, leave_out
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Table
from vinecast.core.rule import rule
from vinecast.core.silence import Silence, forgive, gather_believed, note
from vinecast.core.sweep import UNANSWERED
from vinecast.protocols.rings import informed as lacks
from vinecast.protocols.rings import rules
from vinecast.protocols.rings.rules import Ages, Peers

Online = NDArray[np.bool_]


@rule
def gather_views(
    p: int,
    ring_peers: Peers,
    ring_ages: Ages,
    near_peers: Peers,
    near_ages: Ages,
    sample_peers: Peers,
    sample_ages: Ages,
    silence: Silence,
    cycle: int,
    table: Table,
    scratch: Scratch,
) -> int:
    """The union of a node's views as candidates: the rings', the interest layer's, the sample's; how many."""
    rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
    count = gather_rows(scratch, begin_gathering(scratch), ring_peers[rows], ring_ages[rows])
    count = gather(scratch, count, near_peers[p], near_ages[p])
    return gather_believed(scratch, count, sample_peers[p], sample_ages[p], silence, p, cycle)


@rule
def prepare_requests(
    ring_peers: Peers,
    ring_ages: Ages,
    near_peers: Peers,
    near_ages: Ages,
    sample_peers: Peers,
    sample_ages: Ages,
    silence: Silence,
    online: Online,
    lost: Online,
    considered: Peers,
    cycles: NDArray[np.int32],
    seed: int,
    gossip_size: int,
    informed: bool,
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
    """Phase 1: everyone considers what the other layers know, and asks its oldest ring neighbour.

    A row always holds the nearest of all that was ever considered, so that only what is new must be, except
    after a partner stayed silent: then everybody known is considered again, for the places it left.
    considered: [node, slot], those of the interest layer that were considered last.
    """
    for p in range(begin, end):
        partner[p] = NOBODY
        if not online[p]:
            continue
        rows, cycle = slice(table.beg[p], table.beg[p] + table.cnt[p]), int(cycles[p])
        silent[p] = NOBODY
        if lost[p]:
            lost[p] = False
            count = gather_views(
                p, ring_peers, ring_ages, near_peers, near_ages, sample_peers, sample_ages,
                silence, cycle, table, scratch,
            )  # fmt: skip
        else:
            count = begin_gathering(scratch)
            leave_out(scratch, considered[p])
            count = gather(scratch, count, near_peers[p], near_ages[p])
            count = gather_believed(scratch, count, sample_peers[p], sample_ages[p], silence, p, cycle)
        for slot in range(near_peers.shape[1]):
            considered[p, slot] = near_peers[p, slot]
        rules.consider(p, count, ring_peers[rows], ring_ages[rows], table, scratch)
        rules.grow_older(ring_ages[rows])
        if informed:
            q = lacks.select_partner(p, cycle, ring_peers[rows], ring_ages[rows], table, scratch)
        else:
            q = rules.select_oldest(ring_peers[rows], ring_ages[rows])
        partner[p] = q
        if q == NOBODY:
            continue
        rules.drop(ring_peers[rows], ring_ages[rows], q)
        if informed:
            mail_count[p] = lacks.choose_for(
                q, seed, cycle, p, 0, gossip_size, table, scratch,
                ring_peers[rows], ring_ages[rows], mail_peers[p, :0], mail_peers[p], mail_ages[p],
            )  # fmt: skip
        else:
            count = gather_views(
                p, ring_peers, ring_ages, near_peers, near_ages, sample_peers, sample_ages,
                silence, cycle, table, scratch,
            )  # fmt: skip
            common = rules.select_for(q, p, count, table, scratch)
            mail_count[p] = rules.cut(
                common, seed, cycle, p, q, gossip_size, scratch, mail_peers[p], mail_ages[p]
            )


@rule
def merge_entries(
    p: int,
    sender: int,
    ring_peers: Peers,
    ring_ages: Ages,
    new_peers: Peers,
    new_ages: Ages,
    count: int,
    silence: Silence,
    cycle: int,
    table: Table,
    scratch: Scratch,
) -> None:
    """Consider the one who was heard, age 0, and what it sent."""
    rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
    rules.hear_from(ring_peers[rows], ring_ages[rows], sender)
    forgive(silence, p, sender)
    heard = gather_one(scratch, begin_gathering(scratch), sender, 0)
    heard = gather_believed(scratch, heard, new_peers[:count], new_ages[:count], silence, p, cycle)
    rules.consider(p, heard, ring_peers[rows], ring_ages[rows], table, scratch)


@rule
def answer_requests(
    ring_peers: Peers,
    ring_ages: Ages,
    near_peers: Peers,
    near_ages: Ages,
    sample_peers: Peers,
    sample_ages: Ages,
    silence: Silence,
    online: Online,
    cycles: NDArray[np.int32],
    seed: int,
    gossip_size: int,
    informed: bool,
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
        indexed = informed and start[q + 1] - start[q] >= INDEXED_FROM
        for i in range(start[q], start[q + 1]):
            p = int(initiator[i])
            if not online[q]:
                mail_count[p] = UNANSWERED
                continue
            count = gather_views(
                q, ring_peers, ring_ages, near_peers, near_ages, sample_peers, sample_ages,
                silence, int(cycles[q]), table, scratch,
            )  # fmt: skip
            rows = slice(table.beg[q], table.beg[q] + table.cnt[q])
            if indexed:
                if i == start[q]:
                    open_index(index, initiator[start[q] : start[q + 1]], count, table, scratch)
                given = lacks.choose_from(
                    index, p, seed, int(cycles[p]), q, count, gossip_size, table, scratch,
                    ring_peers[rows], ring_ages[rows], mail_peers[p, : mail_count[p]],
                    given_peers, given_ages,
                )  # fmt: skip
            elif informed:
                given = lacks.choose_for(
                    p, seed, int(cycles[p]), q, count, gossip_size, table, scratch,
                    ring_peers[rows], ring_ages[rows], mail_peers[p, : mail_count[p]],
                    given_peers, given_ages,
                )  # fmt: skip
            else:
                common = rules.select_for(p, q, count, table, scratch)
                given = rules.cut(
                    common, seed, int(cycles[p]), q, p, gossip_size, scratch, given_peers, given_ages
                )
            merge_entries(
                q, p, ring_peers, ring_ages, mail_peers[p], mail_ages[p], int(mail_count[p]),
                silence, int(cycles[q]), table, scratch,
            )  # fmt: skip
            for j in range(given):
                mail_peers[p, j] = given_peers[j]
                mail_ages[p, j] = given_ages[j]
            mail_count[p] = given
        if indexed and online[q]:
            close_index(index)


@rule
def merge_answers(
    ring_peers: Peers,
    ring_ages: Ages,
    silence: Silence,
    cycles: NDArray[np.int32],
    lost: Online,
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
    """Phase 3: everyone merges the answer it got, or notes that its partner was silent. silent: [node]"""
    for p in range(begin, end):
        if partner[p] == NOBODY:
            continue
        if mail_count[p] == UNANSWERED:
            lost[p] = True
            silent[p] = partner[p]
            continue
        merge_entries(
            p, int(partner[p]), ring_peers, ring_ages,
            mail_peers[p], mail_ages[p], int(mail_count[p]), silence, int(cycles[p]), table, scratch,
        )  # fmt: skip


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
def drop_silent(
    ring_peers: Peers,
    ring_ages: Ages,
    lost: Online,
    silent: Peers,
    silence: Silence,
    cycles: NDArray[np.int32],
    online: Online,
    table: Table,
    begin: int,
    end: int,
) -> None:
    """Drop from the rings, and remember, whom another layer found silent. silent: [node]"""
    for p in range(begin, end):
        if online[p] and silent[p] != NOBODY:
            rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
            rules.drop(ring_peers[rows], ring_ages[rows], int(silent[p]))
            note(silence, p, int(silent[p]), int(cycles[p]))
            lost[p] = True
