"""The passes of a cycle of Vitis, RVR or OPT over a population: the machines' rules, on everybody's rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Subscribers, Table
from vinecast.core.arrays.suspicion import Suspicion
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, gather_one
from vinecast.core.arrays.view import Ages, Peers
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.core.sweep import UNANSWERED
from vinecast.protocols.gateway import Proposed, propose
from vinecast.protocols.small_world import meet, next_hop
from vinecast.protocols.tman import rules as tman
from vinecast.systems.opt.rules import select_covering
from vinecast.systems.vitis.rules import Weights, estimate_rates, select_neighbours

Online = NDArray[np.bool_]
Counts = NDArray[np.int32]


class Tables(NamedTuple):
    """Everybody's table (``protocols.tman.rules``), and the sample below it."""

    peers: Peers
    """[node, slot]"""
    ages: Ages
    """[node, slot]"""
    missed: tman.Missed
    """[node, slot]"""
    sample_peers: Peers
    """[node, slot]"""
    sample_ages: Ages
    """[node, slot]"""
    told: Peers
    """[node, slot], whom it sent its last profile"""
    told_before: Peers
    """[node, slot], … and the one before"""
    met: Peers
    """[node, place], whom it was introduced to"""
    met_ages: Ages
    """[node, place]"""
    offered: Peers
    """[node, slot], to whom it can introduce others"""
    offered_ages: Ages
    """[node, slot]"""


class Choice(NamedTuple):
    """What makes a good neighbour."""

    coverage: int
    """Of OPT; 0 for the others."""
    long_links: int
    """Of Vitis and RVR."""
    weights: Weights
    """Of topics, for Vitis."""


class TManMail(NamedTuple):
    """The arrays of a ``core.sweep.Mailbox``."""

    peers: Peers
    ages: Ages
    told: NDArray[np.int16]
    partner: Peers
    start: NDArray[np.int32]
    initiator: NDArray[np.int32]


class Fans(NamedTuple):
    """Who told whom its profile in a cycle: those who told q are node[start[q] : start[q + 1]], ascending."""

    start: NDArray[np.int64]
    """[node + 2]; the last is working memory"""
    node: NDArray[np.int32]
    """[profile]"""
    cycle: int
    """Which cycle; whoever has come up since knows nothing of it."""


class Paths(NamedTuple):
    """The relay paths of a cycle: for topic t, node[start[t] : start[t + 1]] and whom each asked."""

    start: NDArray[np.int64]
    """[topic + 1]"""
    node: NDArray[np.int32]
    """[request]"""
    asked: NDArray[np.int32]
    """[request]"""
    cycle: int
    """Which cycle; whoever has come up since knows nothing of it."""


@rule
def select(choice: Choice, me: int, seed: int, count: int, most: int, table: Table, scratch: Scratch) -> int:
    """See the machines' ``_select``."""
    if choice.coverage > 0:
        return select_covering(me, choice.coverage, count, most, table, scratch)
    return select_neighbours(me, seed, choice.long_links, count, most, table, choice.weights, scratch)


@rule
def refresh(
    online: Online,
    mine: Proposed,
    said: Proposed,
    rate: NDArray[np.int64],
    seen: NDArray[np.int64],
    weights: Weights,
    table: Table,
    begin: int,
    end: int,
) -> None:
    """Everyone says in its profile whom it proposes, and what its topics weigh."""
    for p in range(begin, end):
        if not online[p]:
            continue
        first, last = int(table.beg[p]), int(table.beg[p]) + int(table.cnt[p])
        for row in range(first, last):
            said.gateway[row], said.parent[row], said.hops[row] = (
                mine.gateway[row], mine.parent[row], mine.hops[row],
            )  # fmt: skip
        weights.total[p] = estimate_rates(rate, seen, weights.weight, first, last)


@rule
def prepare_requests(
    tables: Tables,
    suspicion: Suspicion,
    online: Online,
    cycles: Counts,
    seed: int,
    news_max: int,
    scratch: Scratch,
    mail: TManMail,
    begin: int,
    end: int,
) -> None:
    """Everyone asks a random neighbour, and tells it all it knows."""
    for p in range(begin, end):
        mail.partner[p] = NOBODY
        if not online[p]:
            continue
        cycle = int(cycles[p])
        partner = tman.choose_partner(seed, cycle, p, tables.peers[p], tables.sample_peers[p])
        mail.partner[p] = partner
        if partner != NOBODY:
            count = gather_known(p, tables, suspicion, cycle, scratch)
            mail.told[p] = tman.write_known(p, count, news_max, scratch, mail.peers[p], mail.ages[p])


@rule
def gather_known(p: int, tables: Tables, suspicion: Suspicion, cycle: int, scratch: Scratch) -> int:
    """What a node knows, as candidates; how many."""
    return tman.gather_known(
        p, tables.peers[p], tables.ages[p], tables.sample_peers[p], tables.sample_ages[p], tables.met[p],
        tables.met_ages[p], suspicion, p, cycle, scratch,
    )  # fmt: skip


@rule
def merge(
    p: int,
    sender: int,
    new_peers: Peers,
    new_ages: Ages,
    choice: Choice,
    tables: Tables,
    suspicion: Suspicion,
    cycle: int,
    seed: int,
    news_max: int,
    table: Table,
    scratch: Scratch,
) -> None:
    """Choose a node's table anew from what it knows and was told."""
    peers, ages, missed = tables.peers[p], tables.ages[p], tables.missed[p]
    tman.hear_from(peers, ages, missed, sender, suspicion, p)
    count = gather_known(p, tables, suspicion, cycle, scratch)
    count = tman.gather_told(sender, new_peers, new_ages, news_max, suspicion, p, cycle, count, scratch)
    found = select(choice, p, seed, count, peers.size, table, scratch)
    tman.keep(peers, ages, missed, scratch, found)


@rule
def answer_requests(
    choice: Choice,
    tables: Tables,
    suspicion: Suspicion,
    online: Online,
    cycles: Counts,
    seed: int,
    news_max: int,
    table: Table,
    scratch: Scratch,
    mail: TManMail,
    begin: int,
    end: int,
) -> None:
    """Everyone answers those who asked it, in ascending order of their numbers."""
    given_peers = np.empty(mail.peers.shape[1], np.int32)
    given_ages = np.empty(mail.peers.shape[1], np.uint16)
    for q in range(begin, end):
        for i in range(mail.start[q], mail.start[q + 1]):
            p = int(mail.initiator[i])
            if not online[q]:
                mail.told[p] = UNANSWERED
                continue
            cycle, told = int(cycles[q]), int(mail.told[p])
            count = gather_known(q, tables, suspicion, cycle, scratch)
            given = tman.write_known(q, count, news_max, scratch, given_peers, given_ages)
            merge(
                q, p, mail.peers[p, :told], mail.ages[p, :told], choice, tables, suspicion, cycle, seed,
                news_max, table, scratch,
            )  # fmt: skip
            for j in range(given):
                mail.peers[p, j], mail.ages[p, j] = given_peers[j], given_ages[j]
            mail.told[p] = given


@rule
def merge_answers(
    choice: Choice,
    tables: Tables,
    suspicion: Suspicion,
    cycles: Counts,
    seed: int,
    news_max: int,
    table: Table,
    scratch: Scratch,
    mail: TManMail,
    begin: int,
    end: int,
) -> None:
    """Everyone merges the answer it got."""
    for p in range(begin, end):
        told = int(mail.told[p])
        if mail.partner[p] != NOBODY and told != UNANSWERED:
            merge(
                p, int(mail.partner[p]), mail.peers[p, :told], mail.ages[p, :told], choice, tables, suspicion,
                int(cycles[p]), seed, news_max, table, scratch,
            )  # fmt: skip


@rule
def drop_stale(
    tables: Tables, suspicion: Suspicion, online: Online, cycles: Counts, threshold: int, begin: int, end: int
) -> None:
    """Everyone drops who was silent for too long, and sends its profile to the others."""
    for p in range(begin, end):
        if online[p]:
            tman.drop_stale(
                tables.peers[p], tables.ages[p], tables.missed[p], threshold, suspicion, p, int(cycles[p])
            )
            for slot in range(tables.peers.shape[1]):
                tables.told_before[p, slot] = tables.told[p, slot]
                tables.told[p, slot] = tables.peers[p, slot]
            tman.offer(
                tables.peers[p], tables.ages[p], tables.missed[p], tables.offered[p], tables.offered_ages[p]
            )


@rule
def introduce(tables: Tables, online: Online, table: Table, introduces: bool, begin: int, end: int) -> None:
    """Everyone is introduced by its neighbours to the nearest on the ring that they know."""
    for p in range(begin, end):
        if not online[p]:
            continue
        tables.met[p, :] = NOBODY
        for slot in range(tables.peers.shape[1]):
            q = int(tables.peers[p, slot])
            if introduces and q != NOBODY and online[q]:
                meet(p, tables.offered[q], tables.offered_ages[q], table, tables.met[p], tables.met_ages[p])


@rule
def list_fans(peers: Peers, online: Online, start: NDArray[np.int64], node: NDArray[np.int32]) -> None:
    """Sort profiles that arrive by whom they are sent to. start: [node + 2]; node: [profile]"""
    start[:] = 0
    for p in range(peers.shape[0]):
        if not online[p]:
            continue
        for slot in range(peers.shape[1]):
            q = peers[p, slot]
            if q == NOBODY:
                break
            if online[q]:
                start[q + 2] += 1
    for q in range(2, start.size):
        start[q] += start[q - 1]
    for p in range(peers.shape[0]):
        if not online[p]:
            continue
        for slot in range(peers.shape[1]):
            q = peers[p, slot]
            if q == NOBODY:
                break
            if online[q]:
                node[start[q + 1]] = p
                start[q + 1] += 1


@rule
def hear_profiles(
    tables: Tables, suspicion: Suspicion, online: Online, fans: Fans, begin: int, end: int
) -> None:
    """Everyone hears from its fans, and from those in its table that are there to answer."""
    for p in range(begin, end):
        if not online[p]:
            continue
        peers, ages, missed = tables.peers[p], tables.ages[p], tables.missed[p]
        for i in range(fans.start[p], fans.start[p + 1]):
            tman.hear_from(peers, ages, missed, int(fans.node[i]), suspicion, p)
        for slot in range(peers.size):
            if peers[slot] != NOBODY and online[peers[slot]]:
                tman.hear_from(peers, ages, missed, int(peers[slot]), suspicion, p)


@rule
def propose_gateways(
    tables: Tables,
    fans: Fans,
    online: Online,
    came: Counts,
    hops_max: int,
    table: Table,
    topic_place: NDArray[np.int32],
    said: Proposed,
    scratch: Scratch,
    mine: Proposed,
    begin: int,
    end: int,
) -> None:
    """Everyone revises its proposals. fans: of the last cycle; came: [node], the cycle of its last start"""
    for p in range(begin, end):
        if not online[p]:
            continue
        count = begin_gathering(scratch)
        scratch.seen[p] = scratch.stamp[0]
        count = gather(scratch, count, tables.peers[p], tables.ages[p])
        count = gather(scratch, count, tables.told_before[p], tables.ages[p])
        if came[p] <= fans.cycle:
            for i in range(fans.start[p], fans.start[p + 1]):
                count = gather_one(scratch, count, int(fans.node[i]), 0)
        propose(p, count, hops_max, table, topic_place, said, scratch, mine, int(table.beg[p]))


@rule
def look_up(
    tables: Tables,
    online: Online,
    gateway: Peers,
    all_ask: bool,
    subscribers: Subscribers,
    table: Table,
    topic_place: NDArray[np.int32],
    asked_by: NDArray[np.int64],
    start: NDArray[np.int64],
    node: NDArray[np.int32],
    asked: NDArray[np.int32],
) -> bool:
    """The relay paths of all topics; whether there was room for them.

    gateway: [pool]; asked_by: [node], −1; left so again
    """
    used = 0
    for topic in range(topic_place.size):
        start[topic] = used
        for i in range(subscribers.start[topic], subscribers.start[topic + 1]):
            at = int(subscribers.node[i])
            if not online[at] or not (all_ask or gateway[subscribers.row[i]] == at):
                continue
            while asked_by[at] != topic:
                asked_by[at] = topic
                peer = next_hop(at, int(topic_place[topic]), tables.peers[at], table)
                if peer == NOBODY:
                    break
                if used == node.size:
                    asked_by[:] = -1
                    return False
                node[used], asked[used] = at, peer
                used += 1
                if not online[peer]:
                    break
                at = peer
    start[topic_place.size] = used
    asked_by[:] = -1
    return True
