"""The passes of a cycle of Vitis, RVR or OPT over a population: the machines' rules, on everybody's rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Subscribers, Table
from vinecast.core.arrays.suspicion import Suspicion
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, gather_one
from vinecast.core.arrays.view import Ages, Peers, View
from vinecast.core.exchange import Turn, make_passes
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.gateway import Basis, Proposed, propose
from vinecast.protocols.small_world import LinkChoice, meet, next_hop
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


class TManLayer(NamedTuple):
    """Everybody's T-Man, and one thread's working memory."""

    tables: Tables
    choice: Choice
    suspicion: Suspicion
    online: Online
    cycles: Counts
    """[node]"""
    seed: int
    news_max: int
    table: Table
    scratch: Scratch


class Rates(NamedTuple):
    """How much everybody sees of its topics."""

    rate: NDArray[np.int64]
    """[pool], in parts of ``SCALE`` an event a cycle"""
    seen: NDArray[np.int64]
    """[pool], events of this cycle"""


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
def refresh(
    online: Online, mine: Proposed, said: Proposed, rates: Rates, weights: Weights, table: Table,
    begin: int, end: int,
) -> None:  # fmt: skip
    """Everyone says in its profile whom it proposes, and what its topics weigh."""
    for p in range(begin, end):
        if not online[p]:
            continue
        first, last = int(table.beg[p]), int(table.beg[p]) + int(table.cnt[p])
        for row in range(first, last):
            said.gateway[row], said.parent[row], said.hops[row] = (
                mine.gateway[row], mine.parent[row], mine.hops[row],
            )  # fmt: skip
        weights.total[p] = estimate_rates(rates.rate, rates.seen, weights.weight, first, last)


@rule
def gather_known(layer: TManLayer, p: int) -> int:
    """What a node knows, as candidates; how many."""
    tables, cycle = layer.tables, int(layer.cycles[p])
    near, sample = View(tables.peers[p], tables.ages[p]), View(tables.sample_peers[p], tables.sample_ages[p])
    met = View(tables.met[p], tables.met_ages[p])
    return tman.gather_known(p, near, sample, met, layer.suspicion, p, cycle, layer.scratch)


@inner_rule
def ask(layer: TManLayer, p: int, out: View) -> tuple[int, int]:
    """Ask a random neighbour, and tell it all that is known."""
    tables, cycle = layer.tables, int(layer.cycles[p])
    partner = tman.choose_partner(layer.seed, cycle, p, tables.peers[p], tables.sample_peers[p])
    if partner == NOBODY:
        return partner, 0
    count = gather_known(layer, p)
    return partner, tman.write_known(p, count, layer.news_max, layer.scratch, out.peers, out.ages)


@rule
def merge(layer: TManLayer, turn: Turn, told: View) -> None:
    """Choose a node's table anew from what it knows and was told."""
    p, sender, choice, scratch, suspicion = turn.me, turn.target, layer.choice, layer.scratch, layer.suspicion
    peers, ages, missed = layer.tables.peers[p], layer.tables.ages[p], layer.tables.missed[p]
    tman.hear_from(peers, ages, missed, sender, suspicion, p)
    count, cycle = gather_known(layer, p), int(layer.cycles[p])
    count = tman.gather_told(sender, told, layer.news_max, suspicion, p, cycle, count, scratch)
    if choice.coverage > 0:
        found = select_covering(p, choice.coverage, count, peers.size, layer.table, scratch)
    else:
        links = LinkChoice(p, layer.seed, choice.long_links)
        found = select_neighbours(links, count, peers.size, layer.table, choice.weights, scratch)
    tman.keep(peers, ages, missed, scratch, found)


@inner_rule
def answer(layer: TManLayer, turn: Turn, asking: Peers, told: View, out: View) -> int:
    """Tell the one who asks all that is known."""
    q = turn.me
    count = gather_known(layer, q)
    given = tman.write_known(q, count, layer.news_max, layer.scratch, out.peers, out.ages)
    merge(layer, turn, told)
    return given


PASSES = make_passes("tman", ask, answer, merge)


@rule
def drop_stale(layer: TManLayer, threshold: int, begin: int, end: int) -> None:
    """Everyone drops who was silent for too long, and sends its profile to the others."""
    tables, suspicion = layer.tables, layer.suspicion
    for p in range(begin, end):
        if layer.online[p]:
            peers, ages, missed = tables.peers[p], tables.ages[p], tables.missed[p]
            tman.drop_stale(peers, ages, missed, threshold, suspicion, p, int(layer.cycles[p]))
            for slot in range(tables.peers.shape[1]):
                tables.told_before[p, slot] = tables.told[p, slot]
                tables.told[p, slot] = tables.peers[p, slot]
            tman.offer(peers, ages, missed, tables.offered[p], tables.offered_ages[p])


@rule
def introduce(layer: TManLayer, introduces: bool, begin: int, end: int) -> None:
    """Everyone is introduced by its neighbours to the nearest on the ring that they know."""
    tables, online, table = layer.tables, layer.online, layer.table
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
def hear_profiles(layer: TManLayer, fans: Fans, begin: int, end: int) -> None:
    """Everyone hears from its fans, and from those in its table that are there to answer."""
    tables, online, suspicion = layer.tables, layer.online, layer.suspicion
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
    layer: TManLayer, basis: Basis, mine: Proposed, fans: Fans, came: Counts, begin: int, end: int
) -> None:
    """Everyone revises its proposals. fans: of the last cycle; came: [node], the cycle of its last start"""
    tables, scratch, table = layer.tables, layer.scratch, layer.table
    for p in range(begin, end):
        if not layer.online[p]:
            continue
        count = begin_gathering(scratch)
        scratch.seen[p] = scratch.stamp[0]
        count = gather(scratch, count, tables.peers[p], tables.ages[p])
        count = gather(scratch, count, tables.told_before[p], tables.ages[p])
        if came[p] <= fans.cycle:
            for i in range(fans.start[p], fans.start[p + 1]):
                count = gather_one(scratch, count, int(fans.node[i]), 0)
        propose(p, count, basis, table, scratch, mine, int(table.beg[p]))


@rule
def look_up(
    layer: TManLayer, gateway: Peers, all_ask: bool, subscribers: Subscribers, topic_place: Peers,
    asked_by: NDArray[np.int64], paths: Paths,
) -> bool:  # fmt: skip
    """The relay paths of all topics; whether there was room for them.

    gateway: [pool]; topic_place: [topic]; asked_by: [node], −1; left so again
    """
    online, used = layer.online, 0
    for topic in range(topic_place.size):
        paths.start[topic] = used
        for i in range(subscribers.start[topic], subscribers.start[topic + 1]):
            at = int(subscribers.node[i])
            if not online[at] or not (all_ask or gateway[subscribers.row[i]] == at):
                continue
            while asked_by[at] != topic:
                asked_by[at] = topic
                peer = next_hop(at, int(topic_place[topic]), layer.tables.peers[at], layer.table)
                if peer == NOBODY:
                    break
                if used == paths.node.size:
                    asked_by[:] = -1
                    return False
                paths.node[used], paths.asked[used] = at, peer
                used += 1
                if not online[peer]:
                    break
                at = peer
    paths.start[topic_place.size] = used
    asked_by[:] = -1
    return True
