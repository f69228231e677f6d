"""Dissemination to a whole population at once, on an overlay that stands still meanwhile.

One event a topic, all topics. First every node draws its shortcuts for each of its topics, then each topic's
event spreads from its publisher hop by hop: within a hop nodes forward in ascending order of their numbers,
and the first copy to arrive counts, exactly as on the event engine with one constant latency.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.interest import Scratch, begin_gathering, gather
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Table
from vinecast.core.rule import rule
from vinecast.protocols.ringcast import rules
from vinecast.protocols.ringcast.rules import Order, Peers

MISSED = -1
"""The hops of a subscriber that an event did not reach."""


@rule
def draw_shortcuts(
    ring_peers: Peers,
    near_peers: Peers,
    near_ages: NDArray[np.uint16],
    sample_peers: Peers,
    sample_ages: NDArray[np.uint16],
    use_near: bool,
    use_sample: bool,
    seed: int,
    first_event: int,
    table: Table,
    scratch: Scratch,
    shortcuts: Peers,
    order: Order,
    begin: int,
    end: int,
) -> None:
    """The shortcuts of nodes begin … end−1 for each of their topics; topic t has event first_event + t.

    shortcuts, order: [pool, choice]
    """
    half = ring_peers.shape[1] // 2
    for p in range(begin, end):
        first, last = table.beg[p], table.beg[p] + table.cnt[p]
        for row in range(first, last):
            scratch.row_of[table.topics[row]] = row - first + 1
            for i in range(shortcuts.shape[1]):
                shortcuts[row, i] = NOBODY
        count = begin_gathering(scratch)
        if use_near:
            count = gather(scratch, count, near_peers[p], near_ages[p])
        if use_sample:
            count = gather(scratch, count, sample_peers[p], sample_ages[p])
        for i in range(count):
            peer = int(scratch.peers[i])
            if peer == p:
                continue
            for j in range(table.beg[peer], table.beg[peer] + table.cnt[peer]):
                topic = table.topics[j]
                place = scratch.row_of[topic]
                if place != 0:
                    row = first + place - 1
                    if peer != ring_peers[row, 0] and peer != ring_peers[row, half]:
                        key = rules.shortcut_key(seed, first_event + topic, p)
                        rules.consider_shortcut(shortcuts[row], order[row], key, peer)
        for row in range(first, last):
            scratch.row_of[table.topics[row]] = 0


@rule
def disseminate(
    ring_peers: Peers,
    shortcuts: Peers,
    fanout: int,
    online: NDArray[np.bool_],
    publisher: Peers,
    topic_start: NDArray[np.int64],
    topic_nodes: Peers,
    topic_pool: NDArray[np.int64],
    where: NDArray[np.int64],
    sender: Peers,
    frontier: Peers,
    targets: Peers,
    hops: NDArray[np.int16],
    copies: NDArray[np.uint16],
    begin: int,
    end: int,
) -> None:
    """Publish one event on each of the topics begin … end−1 and let it spread.

    publisher: [topic], or NOBODY; the subscribers of topic t are topic_nodes[topic_start[t] : …], ascending,
    and topic_pool says where each keeps that topic. hops, copies: [pool]; the publisher has 0 hops.
    Working memory: where, sender: [node]; frontier: [2, node]; targets: [fanout + 2].
    """
    half = ring_peers.shape[1] // 2
    for topic in range(begin, end):
        for i in range(topic_start[topic], topic_start[topic + 1]):
            where[topic_nodes[i]] = topic_pool[i]
            hops[topic_pool[i]] = MISSED
            copies[topic_pool[i]] = 0
        if publisher[topic] == NOBODY:
            continue
        now, ahead, hop = 0, 1, 0
        frontier[now, 0] = publisher[topic]
        sender[publisher[topic]] = NOBODY
        hops[where[publisher[topic]]] = 0
        while ahead > 0:
            hop += 1
            found = 0
            for i in range(ahead):
                p = frontier[now, i]
                row = where[p]
                count = rules.choose_targets(
                    int(ring_peers[row, 0]), int(ring_peers[row, half]), int(sender[p]), fanout,
                    shortcuts[row], targets,
                )  # fmt: skip
                for j in range(count):
                    q = targets[j]
                    if not online[q]:
                        continue
                    there = where[q]
                    copies[there] += 1
                    if hops[there] == MISSED:
                        hops[there] = hop
                        sender[q] = p
                        frontier[1 - now, found] = q
                        found += 1
            now, ahead = 1 - now, found
            frontier[now, :ahead].sort()
