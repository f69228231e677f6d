"""The index of a hub's candidates: answers with it are those without it, whoever came or went meanwhile."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.index import Index, close_index, make_index, open_index
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, make_scratch
from vinecast.core.arrays.view import View
from vinecast.core.exchange import Turn
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings import informed
from vinecast.protocols.vicinity import rules

PEERS, TOPICS, MOST = 14, 6, 5
ME = 0

Peer = st.integers(0, PEERS - 1)
Candidates = st.lists(Peer, max_size=PEERS, unique=True)
Subscriptions = st.lists(
    st.lists(st.integers(0, TOPICS - 1), max_size=TOPICS, unique=True), min_size=PEERS, max_size=PEERS
)


def profiles_of(topics: list[list[int]], seed: int) -> Profiles:
    start = np.cumsum([0, *map(len, topics)])
    flat = np.array([topic for mine in topics for topic in sorted(mine)], dtype=np.int32)
    found = Profiles.simulated(1, start, flat, TOPICS)
    draws = np.random.default_rng(seed)
    found.coverage[:] = draws.integers(0, 5, flat.size)
    for peer in range(PEERS):
        rows = slice(found.beg[peer], found.beg[peer] + found.cnt[peer])
        near = draws.integers(NOBODY, PEERS, (found.cnt[peer], 4)).astype(np.int32)
        near[near == peer] = NOBODY
        found.gaps[rows] = [informed.gaps_of(row, peer, found.table) for row in near]
    return found


def gather_all(scratch: Scratch, peers: list[int]) -> int:
    ages = np.array([peer * 3 for peer in peers], dtype=np.uint16)
    return gather(scratch, begin_gathering(scratch), np.array(peers, dtype=np.int32), ages)


def near_best(index: Index | None, target: int, count: int, found: Profiles, scratch: Scratch) -> list[int]:
    turn, known = Turn(1, 2, ME, target), rules.NOTHING_KNOWN
    if index is None:
        chosen = rules.select_best(turn, 4, count, MOST, found.table, scratch, known)
    else:
        chosen = rules.select_best_of(index, turn, 4, count, MOST, found.table, scratch)
    return [int(scratch.peers[place]) for place in scratch.best[:chosen]]


def lacked(
    index: Index | None, target: int, count: int, found: Profiles, scratch: Scratch
) -> list[tuple[int, int]]:
    rows = np.full((found.cnt[ME], 4), NOBODY, np.int32)
    out, ages = np.full(MOST, NOBODY, np.int32), np.zeros(MOST, np.uint16)
    own, known = View(rows, np.zeros(rows.shape, np.uint16)), np.array([3], dtype=np.int32)
    turn, rest = Turn(1, 2, ME, target), (count, found.table, scratch, own, known, View(out, ages))
    chosen = informed.choose_for(turn, *rest) if index is None else informed.choose_from(index, turn, *rest)
    return list(zip(out[:chosen].tolist(), ages[:chosen].tolist(), strict=True))


@settings(max_examples=150)
@given(
    Subscriptions,
    st.lists(Peer, min_size=1, max_size=4, unique=True),
    Candidates,
    st.lists(Candidates.filter(bool), min_size=4, max_size=4),
    st.integers(1, 40),
    st.integers(0, 99),
)
def test_answers_with_an_index_are_those_without(
    topics: list[list[int]],
    asking: list[int],
    first: list[int],
    later: list[list[int]],
    pairs: int,
    seed: int,
) -> None:
    found = profiles_of(topics, seed)
    scratch = make_scratch(PEERS, TOPICS, TOPICS, 40)
    index = make_index(PEERS, TOPICS, scratch.peers.size, pairs)
    for _ in range(2):  # an index is used again and again
        open_index(index, np.array(asking, np.int32), gather_all(scratch, first), found.table, scratch)
        for target, candidates in zip(asking, later, strict=False):
            for answer in (near_best, lacked):
                plain = answer(None, target, gather_all(scratch, candidates), found, scratch)
                assert answer(index, target, gather_all(scratch, candidates), found, scratch) == plain
        close_index(index)
        assert not index.list_of.any()


def test_an_index_lists_candidates_by_the_topics_of_those_who_ask_and_no_others() -> None:
    topics: list[list[int]] = [[] for _ in range(PEERS)]
    topics[1], topics[2], topics[3], topics[4] = [0, 1], [1, 2, 5], [1], [0, 2]
    found = profiles_of(topics, 0)
    scratch = make_scratch(PEERS, TOPICS, TOPICS, 40)
    index = make_index(PEERS, TOPICS, scratch.peers.size, 100)
    open_index(index, np.array([1], np.int32), gather_all(scratch, [2, 3, 4]), found.table, scratch)
    lists = {
        topic: index.member[index.begin[at + 1] : index.begin[at + 2]].tolist()
        for topic, at in enumerate(index.list_of.tolist())
        if at
    }
    assert lists == {0: [2], 1: [0, 1]}  # 4 is candidate number 2, and so on
