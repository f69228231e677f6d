"""Rings for a whole population: the same rules, applied to every node's rows.

The rows of all nodes live in one pool beside their topics: peers and ages [pool, place]. The other layers'
views come in as plain arrays [node, slot].
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.interest import Scratch, begin_gathering, gather
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Table
from vinecast.core.rule import rule
from vinecast.core.sweep import UNANSWERED
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
    table: Table,
    scratch: Scratch,
) -> int:
    """The union of a node's views as candidates: the rings', the interest layer's, the sample's; how many."""
    count = begin_gathering(scratch)
    for row in range(table.beg[p], table.beg[p] + table.cnt[p]):
        count = gather(scratch, count, ring_peers[row], ring_ages[row])
    count = gather(scratch, count, near_peers[p], near_ages[p])
    return gather(scratch, count, sample_peers[p], sample_ages[p])


@rule
def prepare_requests(
    ring_peers: Peers,
    ring_ages: Ages,
    near_peers: Peers,
    near_ages: Ages,
    sample_peers: Peers,
    sample_ages: Ages,
    online: Online,
    lost: Online,
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
    """
    for p in range(begin, end):
        partner[p] = NOBODY
        if not online[p]:
            continue
        rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
        silent[p] = NOBODY
        if lost[p]:
            lost[p] = False
            count = gather_views(
                p, ring_peers, ring_ages, near_peers, near_ages, sample_peers, sample_ages, table, scratch
            )
        else:
            count = gather(scratch, begin_gathering(scratch), near_peers[p], near_ages[p])
            count = gather(scratch, count, sample_peers[p], sample_ages[p])
        rules.consider(p, count, ring_peers[rows], ring_ages[rows], table.beg.size, table, scratch)
        rules.grow_older(ring_ages[rows])
        q = rules.select_oldest(ring_peers[rows], ring_ages[rows])
        partner[p] = q
        if q == NOBODY:
            continue
        rules.drop(ring_peers[rows], ring_ages[rows], q)
        count = gather_views(
            p, ring_peers, ring_ages, near_peers, near_ages, sample_peers, sample_ages, table, scratch
        )
        common = rules.select_for(q, p, count, table.beg.size, informed, table, scratch)
        if informed:
            mail_count[p] = rules.cut_informed(
                common, seed, int(cycles[p]), p, q, gossip_size, table.beg.size, table, scratch,
                mail_peers[p, :0], mail_peers[p], mail_ages[p],
            )  # fmt: skip
        else:
            mail_count[p] = rules.cut(
                common, seed, int(cycles[p]), p, q, gossip_size, scratch, mail_peers[p], mail_ages[p]
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
    table: Table,
    scratch: Scratch,
) -> None:
    """Consider the one who was heard, age 0, and what it sent."""
    rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
    rules.hear_from(ring_peers[rows], ring_ages[rows], sender)
    heard = rules.list_heard(sender, new_peers[:count], new_ages[:count], scratch)
    rules.consider(p, heard, ring_peers[rows], ring_ages[rows], table.beg.size, table, scratch)


@rule
def answer_requests(
    ring_peers: Peers,
    ring_ages: Ages,
    near_peers: Peers,
    near_ages: Ages,
    sample_peers: Peers,
    sample_ages: Ages,
    online: Online,
    cycles: NDArray[np.int32],
    seed: int,
    gossip_size: int,
    informed: bool,
    table: Table,
    scratch: Scratch,
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
        for i in range(start[q], start[q + 1]):
            p = int(initiator[i])
            if not online[q]:
                mail_count[p] = UNANSWERED
                continue
            count = gather_views(
                q, ring_peers, ring_ages, near_peers, near_ages, sample_peers, sample_ages, table, scratch
            )
            common = rules.select_for(p, q, count, table.beg.size, informed, table, scratch)
            if informed:
                given = rules.cut_informed(
                    common, seed, int(cycles[p]), q, p, gossip_size, table.beg.size, table, scratch,
                    mail_peers[p, : mail_count[p]], given_peers, given_ages,
                )  # fmt: skip
            else:
                given = rules.cut(
                    common, seed, int(cycles[p]), q, p, gossip_size, scratch, given_peers, given_ages
                )
            merge_entries(
                q, p, ring_peers, ring_ages, mail_peers[p], mail_ages[p], int(mail_count[p]), table, scratch
            )
            for j in range(given):
                mail_peers[p, j] = given_peers[j]
                mail_ages[p, j] = given_ages[j]
            mail_count[p] = given


@rule
def merge_answers(
    ring_peers: Peers,
    ring_ages: Ages,
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
            mail_peers[p], mail_ages[p], int(mail_count[p]), table, scratch,
        )  # fmt: skip


@rule
def publish_coverage(ring_peers: Peers, table: Table, online: Online, begin: int, end: int) -> None:
    """Let everyone's profile say how many neighbours it has for each of its topics."""
    for p in range(begin, end):
        if online[p]:
            for row in range(table.beg[p], table.beg[p] + table.cnt[p]):
                table.coverage[row] = rules.count_neighbours(ring_peers[row])
                table.gaps[row] = rules.gaps_of(ring_peers[row], p, table.beg.size)


@rule
def drop_silent(
    ring_peers: Peers,
    ring_ages: Ages,
    lost: Online,
    silent: Peers,
    online: Online,
    table: Table,
    begin: int,
    end: int,
) -> None:
    """Drop from the rings whom another layer found silent. silent: [node]"""
    for p in range(begin, end):
        if online[p] and silent[p] != NOBODY:
            rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
            rules.drop(ring_peers[rows], ring_ages[rows], int(silent[p]))
            lost[p] = True
