"""An index of a node's candidates by topic, for a node that answers several others in one cycle.

Each answer asks which candidates share which topics with the one that asked. Walking over all topics of all
candidates for each of them is what makes hubs dear. So the walk is made once: for every topic of anybody who
asks, the index lists the candidates that have it, and an answer reads the lists of its own topics only.

The index never says who *is* a candidate. Between two answers candidates come and go, so that each answer
gathers them as always and lets the index ``place`` them; whoever came after the index was made, or did not
fit into it, is looked through as without one. Answers are therefore the same, bit for bit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.rule import rule

INDEXED_FROM = 2
"""Requests from which on an index pays."""

PAIRS_MAX = 1 << 20  # ours: pairs of a topic and a candidate that one index can hold


class Index(NamedTuple):
    """One thread's; ``open_index`` fills it, ``close_index`` leaves it as it was."""

    list_of: NDArray[np.int32]
    """[topic], the number of its list, from 1; 0 where there is none"""
    topic: NDArray[np.int32]
    """[list], whose topic it is"""
    begin: NDArray[np.int32]
    """[list + 2], where it begins among ``member``"""
    member: NDArray[np.int32]
    """[pair], the number of a candidate in this index"""
    pair_list: NDArray[np.int32]
    """[pair], while the index is made"""
    pair_member: NDArray[np.int32]
    """[pair], while the index is made"""
    number: NDArray[np.int64]
    """[peer], base + its number in this index; less than base if it has none"""
    at: NDArray[np.int32]
    """[number], its place on the circle"""
    place: NDArray[np.int32]
    """[number], where it stands among the candidates of the answer in hand, or −1"""
    worth: NDArray[np.uint64]
    """[number], for whoever adds something up"""
    state: NDArray[np.int64]
    """base, members, lists"""


def make_index(peers: int, topics: int, candidates: int, pairs: int) -> Index:
    """Room for an index of so many candidates and of so many pairs, but no more than PAIRS_MAX."""
    pairs = min(pairs, PAIRS_MAX)
    return Index(
        list_of=np.zeros(topics, dtype=np.int32),
        topic=np.zeros(topics + 1, dtype=np.int32),
        begin=np.zeros(topics + 3, dtype=np.int32),
        member=np.zeros(pairs, dtype=np.int32),
        pair_list=np.zeros(pairs, dtype=np.int32),
        pair_member=np.zeros(pairs, dtype=np.int32),
        number=np.full(peers, -1, dtype=np.int64),
        at=np.zeros(candidates, dtype=np.int32),
        place=np.zeros(candidates, dtype=np.int32),
        worth=np.zeros(candidates, dtype=np.uint64),
        state=np.zeros(3, dtype=np.int64),
    )


@rule
def open_index(index: Index, asking: NDArray[np.int32], count: int, table: Table, scratch: Scratch) -> None:
    """Index the scratch's first ``count`` candidates by the topics of those who ask. asking: [request]"""
    lists = 0
    for i in range(asking.size):
        p = asking[i]
        for row in range(table.beg[p], table.beg[p] + table.cnt[p]):
            topic = table.topics[row]
            if index.list_of[topic] == 0:
                lists += 1
                index.list_of[topic] = lists
                index.topic[lists] = topic
                index.begin[lists + 1] = 0
    base, members, pairs = index.state[0] + index.state[1], 0, 0
    for i in range(count):
        peer = int(scratch.peers[i])
        topics = table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]]
        if pairs + topics.size > index.member.size:
            continue
        for j in range(topics.size):
            found = index.list_of[topics[j]]
            if found != 0:
                index.pair_list[pairs] = found
                index.pair_member[pairs] = members
                pairs += 1
        index.number[peer] = base + members
        index.at[members] = table.place[peer]
        members += 1
    index.begin[1] = 0
    for i in range(pairs):
        index.begin[index.pair_list[i] + 1] += 1
    for at in range(1, lists + 1):
        index.begin[at + 1] += index.begin[at]
    for i in range(pairs - 1, -1, -1):
        at = index.pair_list[i] + 1
        index.begin[at] -= 1
        index.member[index.begin[at]] = index.pair_member[i]
    # begin[l + 1] is where list l begins now, and begin[lists + 2] where the last one ends.
    index.begin[lists + 2] = pairs
    index.state[0], index.state[1], index.state[2] = base, members, lists


@rule
def close_index(index: Index) -> None:
    """Forget the lists; the numbers of peers go stale by themselves."""
    for at in range(1, index.state[2] + 1):
        index.list_of[index.topic[at]] = 0
    index.state[2] = 0


@rule
def place_candidates(index: Index, count: int, scratch: Scratch) -> int:
    """Say where the index's members stand among the candidates; how many candidates are none of its."""
    base = index.state[0]
    for number in range(index.state[1]):
        index.place[number] = -1
    strangers = 0
    for i in range(count):
        number = index.number[scratch.peers[i]] - base
        if number >= 0:
            index.place[number] = i
        else:
            strangers += 1
    return strangers
