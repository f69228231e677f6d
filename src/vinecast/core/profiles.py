"""Profiles: what is known about peers, by number.

A profile is what a node tells others about itself (S0 §5): its id, the topics it subscribes to, and for each
of them how well it is covered, from which its priority follows. Profiles hang off peer numbers and live in
one pool of arrays, so that rules can read anybody's topics without copying them. In a simulation one table
serves the whole population; a live node has its own, with what it last heard of each peer.

Peers are numbered so that nobody has to compare ids to know the order on the circle: ``ids`` ascends with the
number. Rules compare numbers modulo the population where a paper compares ids modulo the circle.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.circle import simulated_ids
from vinecast.core.draws import below_array, draw_array, purpose, stream, substream_array
from vinecast.core.errors import Bug
from vinecast.core.machine import NOBODY

GAPS_UNKNOWN = 0xFFFF
"""Nobody on either side."""

_TOPIC_IDS = purpose("profiles.topic ids")
_PUBLISHER = purpose("profiles.publisher")


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
    gaps: NDArray[np.uint16]
    """[pool], how near it said the nearest of them are: eight bits a side, see protocols.rings"""


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
        self.gaps: NDArray[np.uint16] = np.zeros(0, dtype=np.uint16)

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
        table.gaps = np.full(topics.size, GAPS_UNKNOWN, dtype=np.uint16)
        return table

    @property
    def table(self) -> Table:
        """The arrays, for rules; taken anew after ``set_topics``."""
        return Table(self.beg, self.cnt, self.topics, self.coverage, self.gaps)

    @property
    def peers(self) -> int:
        """How many peers the table has."""
        return int(self.ids.size)

    def owners(self) -> NDArray[np.int32]:
        """Whose each place of the pool is, or NOBODY's. [pool]"""
        owner = np.full(self.topics.size, NOBODY, dtype=np.int32)
        rows = np.repeat(self.beg - np.concatenate([[0], np.cumsum(self.cnt)[:-1]]), self.cnt)
        owner[rows + np.arange(rows.size)] = np.repeat(np.arange(self.peers, dtype=np.int32), self.cnt)
        return owner

    def topics_of(self, peer: int) -> NDArray[np.int32]:
        """A peer's topics, ascending."""
        return self.topics[self.beg[peer] : self.beg[peer] + self.cnt[peer]]

    def coverage_of(self, peer: int) -> NDArray[np.uint8]:
        """How well a peer's topics are covered, in the order of its topics."""
        return self.coverage[self.beg[peer] : self.beg[peer] + self.cnt[peer]]

    def annotate(self, peer: int, coverage: NDArray[np.uint8], gaps: NDArray[np.uint16]) -> None:
        """Take over what a peer says about its topics, in their order."""
        rows = slice(self.beg[peer], self.beg[peer] + self.cnt[peer])
        self.coverage[rows], self.gaps[rows] = coverage, gaps

    def set_topics(self, peer: int, topics: NDArray[np.int32], coverage: NDArray[np.uint8]) -> None:
        """Replace a peer's topics (ascending). The old ones stay in the pool, unused."""
        if topics.size <= self.cnt[peer]:
            begin = int(self.beg[peer])
        else:
            begin = self.topics.size
            self.topics = np.concatenate([self.topics, topics])
            self.coverage = np.concatenate([self.coverage, coverage])
            self.gaps = np.concatenate([self.gaps, np.full(topics.size, GAPS_UNKNOWN, dtype=np.uint16)])
        self.topics[begin : begin + topics.size] = topics
        self.coverage[begin : begin + topics.size] = coverage
        self.gaps[begin : begin + topics.size] = GAPS_UNKNOWN
        self.beg[peer], self.cnt[peer] = begin, topics.size


def choose_publishers(
    seed: int, epoch: int, profiles: Profiles, online: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """A random on-line subscriber of each topic, or NOBODY (S0 §6.1). [topic]

    ``epoch`` numbers the occasion: every one has its own draws.
    """
    topics, owner = profiles.topic_ids.size, profiles.owners()
    pool = np.flatnonzero((owner != NOBODY) & online[owner])
    pool = pool[np.lexsort((owner[pool], profiles.topics[pool]))]
    count = np.bincount(profiles.topics[pool], minlength=topics)
    keys = substream_array(stream(seed, _PUBLISHER, epoch, 0), np.arange(topics))
    pick = np.cumsum(count) - count + below_array(keys, 0, np.maximum(count, 1))
    chosen = np.full(topics, NOBODY, dtype=np.int32)
    chosen[count > 0] = owner[pool[pick[count > 0]]]
    return chosen
