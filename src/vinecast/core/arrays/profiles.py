"""Profiles: what is known about peers, by number.

A profile is what a node tells others about itself (S0 §5): its id, the topics it subscribes to, and for each
of them how well it is covered, from which its priority follows. Profiles hang off peer numbers and live in
one pool of arrays, so that rules can read anybody's topics without copying them. In a simulation one table
serves the whole population; a live node has its own, with what it last heard of each peer.

Where a peer is on the circle, rules read from its ``place``, a number below ``circle``. A simulated
population is numbered in the order of its ids, and a peer's place is its number: distances are counted in
peers. A live node numbers peers as it meets them, and their places are the highest bits of their ids.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.circle import simulated_ids
from vinecast.core.draws import below, draw_array, purpose, stream, substream
from vinecast.core.errors import Bug
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule

GAPS_UNKNOWN = 0xFFFF_FFFF
"""Nobody on either side."""

PLACE_BITS = 31
"""Of a live peer's id, the highest so many are its place on the circle."""

_TOPIC_IDS = purpose("profiles.topic ids")
_PUBLISHER = purpose("profiles.publisher")


def place_of(point: int) -> int:
    """The place of a live peer, from its point on the circle of 64 bits."""
    return point >> (64 - PLACE_BITS)


class Table(NamedTuple):
    """The arrays of a table of profiles, as rules take them."""

    beg: NDArray[np.int64]
    """[peer], where its topics begin in the pool"""
    cnt: NDArray[np.int32]
    """[peer], how many it has"""
    topics: NDArray[np.int32]
    """[pool], ascending within a peer"""
    coverage: NDArray[np.uint8]
    """[pool], how many ring neighbours the peer said it has for the topic"""
    gaps: NDArray[np.uint32]
    """[pool], how near it said the nearest of them are: sixteen bits a side, see protocols.rings.informed"""
    place: NDArray[np.int32]
    """[peer], where it is on the circle"""
    circle: NDArray[np.int64]
    """[1], how many places there are"""


class Subscribers(NamedTuple):
    """The subscribers of every topic: those of topic t are node[start[t] : start[t + 1]], ascending."""

    start: NDArray[np.int64]
    """[topic + 1]"""
    node: NDArray[np.int32]
    """[subscription]"""
    row: NDArray[np.int32]
    """[subscription], where the node keeps the topic in the pool"""


class Profiles:
    """A table of profiles.

    ids: [peer], ascending; topic_ids: [topic]; the topics of peer p are topics[beg[p] : beg[p] + cnt[p]],
    ascending, and ``coverage`` beside them says how many ring neighbours p had for each when it last said.
    """

    def __init__(self, ids: NDArray[np.uint64], topic_ids: NDArray[np.uint64]) -> None:
        if (ids[1:] <= ids[:-1]).any():
            raise Bug("ids must ascend with the peers' numbers")
        self.ids = ids
        self.topic_ids = topic_ids
        self.beg: NDArray[np.int64] = np.zeros(ids.size, dtype=np.int64)
        self.cnt: NDArray[np.int32] = np.zeros(ids.size, dtype=np.int32)
        self.topics: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self.coverage: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self.gaps: NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)
        self.place: NDArray[np.int32] = np.arange(ids.size, dtype=np.int32)
        self.circle: NDArray[np.int64] = np.array([ids.size], dtype=np.int64)
        self.changes = 0
        """How often somebody's topics were replaced."""
        self._subscribers: Subscribers | None = None
        self._free: dict[int, list[int]] = {}
        self._room: dict[int, int] = {}
        self._end = 0

    @classmethod
    def simulated(
        cls, seed: int, start: NDArray[np.int64], topics: NDArray[np.int32], topic_count: int
    ) -> "Profiles":
        """The table of a simulated population. start: [node + 1]; topics: [subscription], ascending a node"""
        nodes = start.size - 1
        ids = np.sort(simulated_ids(seed, nodes))
        topic_ids = draw_array(stream(seed, _TOPIC_IDS, 0, 0), np.arange(topic_count))
        table = cls(ids, topic_ids)
        table.beg = start[:-1].copy()
        table.cnt = np.diff(start).astype(np.int32)
        table.topics = topics.astype(np.int32)
        table.coverage = np.zeros(topics.size, dtype=np.uint8)
        table.gaps = np.full(topics.size, GAPS_UNKNOWN, dtype=np.uint32)
        table._end = topics.size
        return table

    @classmethod
    def live(cls, peers: int, topics: int) -> "Profiles":
        """An empty table of a live node, with room for so many peers and topics; whoever takes a number says
        where that is on the circle (``place_of``)."""
        no_ids = np.broadcast_to(np.uint64(0), topics)  # a live node's topics have names instead
        table = cls(np.arange(peers, dtype=np.uint64), no_ids)
        table.circle[0] = 1 << PLACE_BITS
        return table

    @property
    def table(self) -> Table:
        """The arrays, for rules; taken anew after ``set_topics``."""
        return Table(self.beg, self.cnt, self.topics, self.coverage, self.gaps, self.place, self.circle)

    @property
    def peers(self) -> int:
        """How many peers the table has."""
        return int(self.ids.size)

    def owners(self) -> NDArray[np.int32]:
        """Whose each place of the pool is, or NOBODY's. [pool]"""
        owner = np.full(self.topics.size, NOBODY, dtype=np.int32)
        _own(self.beg, self.cnt, owner)
        return owner

    def subscribers(self) -> Subscribers:
        """Who subscribes to each topic; kept until somebody's topics change."""
        if self._subscribers is None:
            count = int(self.cnt.sum())
            start = np.zeros(self.topic_ids.size + 2, dtype=np.int64)
            found = Subscribers(start[:-1], np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32))
            _group_by_topic(self.beg, self.cnt, self.topics, start, found.node, found.row)
            self._subscribers = found
        return self._subscribers

    def topics_of(self, peer: int) -> NDArray[np.int32]:
        """A peer's topics, ascending."""
        return self.topics[self.beg[peer] : self.beg[peer] + self.cnt[peer]]

    def coverage_of(self, peer: int) -> NDArray[np.uint8]:
        """How well a peer's topics are covered, in the order of its topics."""
        return self.coverage[self.beg[peer] : self.beg[peer] + self.cnt[peer]]

    def annotate(self, peer: int, coverage: NDArray[np.uint8], gaps: NDArray[np.uint32]) -> None:
        """Take over what a peer says about its topics, in their order."""
        rows = slice(self.beg[peer], self.beg[peer] + self.cnt[peer])
        self.coverage[rows], self.gaps[rows] = coverage, gaps

    def set_topics(self, peer: int, topics: NDArray[np.int32], coverage: NDArray[np.uint8]) -> None:
        """Replace a peer's topics (ascending).

        They stay where they are while there is room; else they move to a free place of twice the size or
        less, and leave theirs to others. Nobody else's move: what others keep beside the pool stays right.
        """
        room = self._room.get(peer, int(self.cnt[peer]))
        if topics.size > room:
            if room:
                self._free.setdefault(room.bit_length() - 1, []).append(int(self.beg[peer]))
            self.beg[peer], self._room[peer] = self._take_place(topics.size)
        elif topics.size < room:
            self._room[peer] = room
        rows = slice(int(self.beg[peer]), int(self.beg[peer]) + topics.size)
        self.topics[rows], self.coverage[rows], self.gaps[rows] = topics, coverage, GAPS_UNKNOWN
        self.cnt[peer] = topics.size
        self.changes += 1
        self._subscribers = None

    def vacate(self, peer: int) -> None:
        """Take all topics from a peer, and leave its place to others."""
        room = self._room.get(peer, int(self.cnt[peer]))
        if room:
            self._free.setdefault(room.bit_length() - 1, []).append(int(self.beg[peer]))
        self.beg[peer] = self.cnt[peer] = self._room[peer] = 0
        self.changes += 1
        self._subscribers = None

    def _take_place(self, size: int) -> tuple[int, int]:
        """Where in the pool so many topics fit, and how many do: a power of two."""
        power = (size - 1).bit_length()
        if self._free.get(power):
            return self._free[power].pop(), 1 << power
        begin, self._end = self._end, self._end + (1 << power)
        if self._end > self.topics.size:
            more = max(self._end - self.topics.size, self.topics.size // 4)
            self.topics = np.concatenate([self.topics, np.zeros(more, dtype=np.int32)])
            self.coverage = np.concatenate([self.coverage, np.zeros(more, dtype=np.uint8)])
            self.gaps = np.concatenate([self.gaps, np.full(more, GAPS_UNKNOWN, dtype=np.uint32)])
        return begin, 1 << power


@inner_rule
def row_of(table: Table, peer: int, topic: int) -> int:
    """Where a peer's topic stands in the pool, or −1 if its profile does not have it (binary search)."""
    low, end = int(table.beg[peer]), int(table.beg[peer]) + int(table.cnt[peer])
    high = end
    while low < high:
        middle = (low + high) // 2
        if table.topics[middle] < topic:
            low = middle + 1
        else:
            high = middle
    return low if low < end and table.topics[low] == topic else -1


@rule
def _own(beg: NDArray[np.int64], cnt: NDArray[np.int32], owner: NDArray[np.int32]) -> None:
    for peer in range(beg.size):
        for row in range(beg[peer], beg[peer] + cnt[peer]):
            owner[row] = peer


@rule
def _group_by_topic(
    beg: NDArray[np.int64],
    cnt: NDArray[np.int32],
    topics: NDArray[np.int32],
    start: NDArray[np.int64],
    node: NDArray[np.int32],
    row: NDArray[np.int32],
) -> None:
    """A counting sort. start: [topic + 2], zeros; when it is done, start[t] is where topic t begins."""
    for peer in range(beg.size):
        for i in range(beg[peer], beg[peer] + cnt[peer]):
            start[topics[i] + 2] += 1
    for topic in range(2, start.size):
        start[topic] += start[topic - 1]
    for peer in range(beg.size):
        for i in range(beg[peer], beg[peer] + cnt[peer]):
            place = start[topics[i] + 1]
            node[place], row[place] = peer, i
            start[topics[i] + 1] = place + 1


def choose_publishers(
    seed: int, epoch: int, profiles: Profiles, online: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """A random on-line subscriber of each topic, or NOBODY (S0 §6.1). [topic]

    ``epoch`` numbers the occasion: every one has its own draws.
    """
    chosen = np.full(profiles.topic_ids.size, NOBODY, dtype=np.int32)
    subscribers = profiles.subscribers()
    _choose_publishers(seed, epoch, subscribers.start, subscribers.node, online, chosen)
    return chosen


@rule
def _choose_publishers(
    seed: int,
    epoch: int,
    start: NDArray[np.int64],
    node: NDArray[np.int32],
    online: NDArray[np.bool_],
    chosen: NDArray[np.int32],
) -> None:
    key = stream(seed, _PUBLISHER, epoch, 0)
    for topic in range(chosen.size):
        count = 0
        for i in range(start[topic], start[topic + 1]):
            count += 1 if online[node[i]] else 0
        if count == 0:
            continue
        left = below(substream(key, topic), 0, count)
        for i in range(start[topic], start[topic + 1]):
            if online[node[i]]:
                if left == 0:
                    chosen[topic] = node[i]
                    break
                left -= 1
