"""Events of Vitis, RVR or OPT in a sweep: one for every topic, on an overlay that stands still meanwhile.

Every hop takes as long as any other, so the first notice to arrive has come the shortest way, and an event is
pulled once by each node that it reaches, subscriber or relay: hops and traffic follow from a search through
the links.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Subscribers, choose_publishers
from vinecast.core.dissemination import MISSED, Dissemination
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.core.traffic import Counts
from vinecast.systems.opt.machine import OptConfig
from vinecast.systems.tman_sweep.passes import Fans, Online, Paths
from vinecast.systems.tman_sweep.sweep import TManSweep

Divide = Callable[[int, Callable[[int, int, int], None]], object]
"""Runs a pass over 0 … count−1, in ranges, on all threads (``SweepEngine.divide``)."""


class TManLinks(NamedTuple):
    """Whom events can go to."""

    peers: NDArray[np.int32]
    """[node, slot], tables"""
    told_before: NDArray[np.int32]
    """[node, slot], as they were a cycle ago"""
    fans: tuple[Fans, Fans]
    paths: tuple[Paths, Paths]
    came: NDArray[np.int32]
    """[node], the cycle of its last start"""
    online: Online
    floods: bool
    """Whether neighbours that subscribe get events too, not only those on relay paths."""


class TManMemory(NamedTuple):
    """Working memory of one thread."""

    wants: NDArray[np.int64]
    """[node], the last topic, so far, that it was found to want, plus one"""
    has: NDArray[np.int64]
    """[node], the last topic whose event it has, plus one"""
    hops: NDArray[np.int32]
    """[node], of that event"""
    queue: NDArray[np.int32]
    """[node]"""
    first: NDArray[np.int64]
    """[node], its first link on paths of the topic, or −1"""
    next: NDArray[np.int64]
    """[link], the next one of the same node"""
    to: NDArray[np.int32]
    """[link]"""
    received: Counts
    """[wanted, node], events received, weighed"""


def make_memory(nodes: int, links: int) -> TManMemory:
    """Room for paths of so many links, of any topic."""
    return TManMemory(
        np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int32),
        np.zeros(nodes, dtype=np.int32), np.full(nodes, -1, dtype=np.int64),
        np.zeros(links, dtype=np.int64), np.zeros(links, dtype=np.int32),
        np.zeros((2, nodes), dtype=np.int64),
    )  # fmt: skip


@rule
def list_bounded(
    links: TManLinks, most: int, seen: NDArray[np.int32], start: NDArray[np.int64], node: NDArray[np.int32]
) -> None:
    """The first so many neighbours of everybody, in the order of ``TMan.neighbours``: its tables, then its
    fans, ascending. seen: [node], −1; start: [node + 1]; node: [link]"""
    older, newer = links.fans
    used = 0
    for p in range(links.peers.shape[0]):
        start[p], full = used, used + most
        for row in (links.peers[p], links.told_before[p]):
            for slot in range(row.size):
                peer = row[slot]
                if peer != NOBODY and seen[peer] != p and used < full:
                    seen[peer], node[used] = p, peer
                    used += 1
        i, i_end = older.start[p], older.start[p + 1] if links.came[p] <= older.cycle else older.start[p]
        j, j_end = newer.start[p], newer.start[p + 1] if links.came[p] <= newer.cycle else newer.start[p]
        while used < full and (i < i_end or j < j_end):
            if j == j_end or (i < i_end and older.node[i] <= newer.node[j]):
                peer = older.node[i]
                i += 1
            else:
                peer = newer.node[j]
                j += 1
            if seen[peer] != p:
                seen[peer], node[used] = p, peer
                used += 1
    start[links.peers.shape[0]] = used


@rule
def add_paths(paths: Paths, topic: int, came: NDArray[np.int32], used: int, memory: TManMemory) -> int:
    """Hang a topic's relay links of a cycle on their nodes, as far as those remember them; links so far."""
    for i in range(paths.start[topic], paths.start[topic + 1]):
        one, other = int(paths.node[i]), int(paths.asked[i])
        for _ in range(2):
            if came[one] <= paths.cycle:
                memory.to[used], memory.next[used] = other, memory.first[one]
                memory.first[one] = used
                used += 1
            one, other = other, one
    return used


@rule
def clear_paths(paths: Paths, topic: int, memory: TManMemory) -> None:
    """Undo ``add_paths``."""
    for i in range(paths.start[topic], paths.start[topic + 1]):
        memory.first[paths.node[i]] = memory.first[paths.asked[i]] = -1


@rule
def tell(peer: int, hops: int, mark: int, online: Online, memory: TManMemory, waiting: int) -> int:
    """Let a node have the event unless it has it; how many have it now."""
    if not online[peer] or memory.has[peer] == mark:
        return waiting
    memory.has[peer], memory.hops[peer] = mark, hops
    memory.queue[waiting] = peer
    return waiting + 1


@rule
def search(topic: int, publisher: int, links: TManLinks, memory: TManMemory) -> int:
    """Let a topic's event spread from its publisher; how many have it in the end, in ``memory.queue``."""
    mark, online = topic + 1, links.online
    waiting = tell(publisher, 0, mark, online, memory, 0)
    done = 0
    while done < waiting:
        at = int(memory.queue[done])
        hops = int(memory.hops[at]) + 1
        done += 1
        if links.floods:
            for slot in range(links.peers.shape[1]):
                peer = int(links.peers[at, slot])
                if peer == NOBODY:
                    break
                if memory.wants[peer] == mark:
                    waiting = tell(peer, hops, mark, online, memory, waiting)
            for slot in range(links.told_before.shape[1]):
                peer = int(links.told_before[at, slot])
                if peer == NOBODY:
                    break
                if memory.wants[peer] == mark:
                    waiting = tell(peer, hops, mark, online, memory, waiting)
            for fans in links.fans:
                if links.came[at] <= fans.cycle:
                    for i in range(fans.start[at], fans.start[at + 1]):
                        if memory.wants[fans.node[i]] == mark:
                            waiting = tell(int(fans.node[i]), hops, mark, online, memory, waiting)
        link = memory.first[at]
        while link >= 0:
            waiting = tell(int(memory.to[link]), hops, mark, online, memory, waiting)
            link = memory.next[link]
    return waiting


@rule
def disseminate_events(
    links: TManLinks,
    subscribers: Subscribers,
    events: NDArray[np.int64],
    memory: TManMemory,
    dissemination: Dissemination,
    begin: int,
    end: int,
) -> None:
    """One event for each of topics begin … end−1. events: [topic], how many it stands for in the traffic"""
    publisher, hops, copies = dissemination.publisher, dissemination.hops, dissemination.copies
    for topic in range(begin, end):
        if publisher[topic] == NOBODY:
            continue
        first, last = subscribers.start[topic], subscribers.start[topic + 1]
        for i in range(first, last):
            memory.wants[subscribers.node[i]] = topic + 1
        used = add_paths(links.paths[0], topic, links.came, 0, memory)
        add_paths(links.paths[1], topic, links.came, used, memory)
        reached = search(topic, int(publisher[topic]), links, memory)
        clear_paths(links.paths[0], topic, memory)
        clear_paths(links.paths[1], topic, memory)
        for i in range(1, reached):
            peer = memory.queue[i]
            memory.received[int(memory.wants[peer] == topic + 1), peer] += events[topic]
        for i in range(first, last):
            peer, row = subscribers.node[i], subscribers.row[i]
            if memory.has[peer] == topic + 1:
                hops[row] = memory.hops[peer]
                copies[row] = 1 if memory.hops[peer] > 0 else 0


def _bounded(links: TManLinks, most: int, cycle: int) -> TManLinks:
    """The same links, but no more of a node's than so many."""
    nodes, none = links.peers.shape[0], links.fans[0]._replace(cycle=-1)
    start, node = np.zeros(nodes + 1, dtype=np.int64), np.empty(nodes * most, dtype=np.int32)
    list_bounded(links, most, np.full(nodes, -1, dtype=np.int32), start, node)
    nobody = links.peers[:, :0]
    return links._replace(peers=nobody, told_before=nobody, fans=(none, Fans(start, node, cycle)))


class TManPublication:
    """One event a topic, about to spread."""

    def __init__(
        self,
        sweep: TManSweep,
        epoch: int,
        events: NDArray[np.int64] | None = None,
        publishers: NDArray[np.bool_] | None = None,
    ) -> None:
        """epoch: numbers the occasion; events: [topic], how many each stands for, one unless given;
        publishers: [node], who may publish, all unless given"""
        topics, pool = sweep.profiles.topic_ids.size, sweep.profiles.topics.size
        able = sweep.online if publishers is None else sweep.online & publishers
        peers, told_before = sweep.tables.peers, sweep.tables.told_before
        self._links = TManLinks(
            peers, told_before, sweep.fans, sweep.paths, sweep.came, sweep.online, sweep.floods
        )
        if isinstance(sweep.config, OptConfig) and sweep.config.bounded:
            self._links = _bounded(self._links, sweep.config.tman.table_size, sweep.cycle)
        self._subscribers = sweep.profiles.subscribers()
        self._events = np.ones(topics, dtype=np.int64) if events is None else events
        self._nodes = sweep.nodes
        self._room = 2 * sum(int(np.diff(paths.start).max(initial=0)) for paths in sweep.paths)
        self._memory: dict[int, TManMemory] = {}
        self.topics = topics
        self.dissemination = Dissemination(
            choose_publishers(sweep.seed, epoch, sweep.profiles, able),
            np.full(pool, MISSED, dtype=np.int16),
            np.zeros(pool, dtype=np.uint16),
        )

    def run(self, divide: Divide) -> Dissemination:
        """Let every event spread."""
        dissemination = self.dissemination

        def work(begin: int, end: int, worker: int) -> None:
            if worker not in self._memory:
                self._memory[worker] = make_memory(self._nodes, self._room)
            memory = self._memory[worker]
            disseminate_events(
                self._links, self._subscribers, self._events, memory, dissemination, begin, end
            )

        divide(self.topics, work)
        return dissemination

    @property
    def received(self) -> Counts:
        """Events that nodes received, unwanted and wanted (``core.traffic``). [wanted, node]"""
        total = np.zeros((2, self._nodes), dtype=np.int64)
        for memory in self._memory.values():
            total += memory.received
        return total
