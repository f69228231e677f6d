"""What candidates are worth, held against S4's formula with exact integers; and how they are gathered."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.topic_overlap import (
    COVERED_MAX,
    TOPICS_MAX,
    WANTED_MAX,
    Scratch,
    begin_gathering,
    gather,
    gather_one,
    make_scratch,
    mark_lacks,
    tie_break,
    unmark,
    worth,
)
from vinecast.core.machine import NOBODY

TOPICS = 40


def topics_of(topics: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(sorted(topics), dtype=np.int32)


def worths(mine: dict[int, int], wanted: int, candidates: list[list[int]], topics: int) -> list[int]:
    """What each candidate is worth to a node with these topics and their coverage."""
    mark = np.zeros(topics, dtype=np.uint64)
    own = topics_of(list(mine))
    mark_lacks(mark, own, np.array([mine[t] for t in own.tolist()], dtype=np.uint8), wanted)
    found = [int(worth(mark, topics_of(candidate))) for candidate in candidates]
    unmark(mark, own)
    assert not mark.any()
    return found


def formula(mine: dict[int, int], wanted: int, candidate: list[int]) -> int:
    """S4 formula 2.1, as it is written."""
    return int(sum(len(mine) ** (wanted - mine[topic]) for topic in mine if topic in candidate))


def ranks(values: list[int]) -> list[int]:
    return [sorted(set(values)).index(value) for value in values]


Candidates = st.lists(st.lists(st.integers(0, TOPICS - 1), unique=True), min_size=2, max_size=8)


@settings(max_examples=300)
@given(st.integers(1, WANTED_MAX), st.data(), Candidates)
def test_candidates_are_ordered_as_by_the_formula(
    wanted: int, data: st.DataObject, candidates: list[list[int]]
) -> None:
    """A class has at most |T| topics, and |T| only when there is no other class: the order is the same."""
    coverage = st.integers(0, wanted)
    mine = data.draw(st.dictionaries(st.integers(0, TOPICS - 1), coverage, min_size=1, max_size=TOPICS))
    exact = [formula(mine, wanted, candidate) for candidate in candidates]
    assert ranks(worths(mine, wanted, candidates, TOPICS)) == ranks(exact)


@pytest.mark.parametrize("wanted", range(1, WANTED_MAX + 1))
def test_with_five_thousand_topics_nothing_overflows(wanted: int) -> None:
    """The powers reach 5,000⁴ × 5,000, which is past 64 bits; neighbours in the order differ by one topic."""
    size = 5000
    mine = {topic: min(topic * (wanted + 1) // 3000, wanted) for topic in range(size)}  # lacks, then none
    covered = [topic for topic in mine if mine[topic] == wanted]
    lacking = [topic for topic in mine if mine[topic] < wanted]
    assert len(covered) < COVERED_MAX
    candidates = [
        list(range(size)),
        list(range(1, size)),
        lacking,
        lacking[1:],
        lacking[:-1],
        covered,
        covered[1:],
        [lacking[0]],
        [lacking[-1]],
        [covered[0]],
        [],
    ]
    exact = [formula(mine, wanted, candidate) for candidate in candidates]
    assert ranks(worths(mine, wanted, candidates, size)) == ranks(exact)


def test_every_class_takes_as_many_topics_as_a_node_can_have() -> None:
    """All topics of one class are worth less than one topic of the next; the top class fills its word."""
    everything = list(range(TOPICS_MAX))
    totals = [
        worths(dict.fromkeys(everything, WANTED_MAX - lack), WANTED_MAX, [everything], TOPICS_MAX)[0]
        for lack in range(WANTED_MAX + 1)
    ]
    ones = [worths({0: WANTED_MAX - lack}, WANTED_MAX, [[0]], 1)[0] for lack in range(WANTED_MAX + 1)]
    assert all(total < one for total, one in zip(totals, ones[1:], strict=False))
    assert totals[1:] == [TOPICS_MAX * one for one in ones[1:]]
    assert totals[-1] < 2**64


def test_topics_that_lack_nothing_count_up_to_a_limit_and_never_spill_over() -> None:
    mine = {**dict.fromkeys(range(TOPICS_MAX - 1), 4), TOPICS_MAX - 1: 3}
    for count, counted in ((COVERED_MAX, COVERED_MAX), (COVERED_MAX + 1, COVERED_MAX), (8190, COVERED_MAX)):
        assert worths(mine, 4, [list(range(count))], TOPICS_MAX) == [counted]
    both = [*range(COVERED_MAX + 5), TOPICS_MAX - 1]
    assert worths(mine, 4, [both, [TOPICS_MAX - 1]], TOPICS_MAX) == [(1 << 12) + COVERED_MAX, 1 << 12]


def test_a_topic_with_more_than_is_wanted_lacks_nothing() -> None:
    assert worths({1: 4, 2: 2, 3: 0}, 2, [[1], [2]], 5) == worths({1: 2, 2: 2, 3: 0}, 2, [[1], [2]], 5)


def test_what_is_not_shared_is_worth_nothing() -> None:
    assert worths({1: 0, 2: 4}, 4, [[3, 4], []], 5) == [0, 0]


def test_one_topic_without_neighbours_outweighs_all_that_have_some() -> None:
    mine = {**dict.fromkeys(range(30), 1), 30: 0}
    lone, many = worths(mine, 4, [[30], list(range(30))], 31)
    assert lone > many


# Gathering.


def gathered(scratch: Scratch, count: int) -> list[tuple[int, int]]:
    return list(zip(scratch.peers[:count].tolist(), scratch.ages[:count].tolist(), strict=True))


def entries_of(
    entries: list[tuple[int, int]],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], np.ndarray[tuple[int], np.dtype[np.uint16]]]:
    peers = np.array([peer for peer, _ in entries], dtype=np.int32)
    return peers, np.array([age for _, age in entries], dtype=np.uint16)


Entries = st.lists(st.tuples(st.integers(NOBODY, 9), st.integers(0, 65535)), max_size=12)


@given(st.lists(st.lists(Entries, max_size=4), min_size=1, max_size=3))
def test_the_first_copy_of_a_peer_counts(rounds: list[list[list[tuple[int, int]]]]) -> None:
    scratch = make_scratch(peers=10, topics=1, topics_a_node=1, most=12)
    for views in rounds:  # a new gathering knows nothing of the last one
        count = begin_gathering(scratch)
        assert count == 0
        first: dict[int, int] = {}
        for view in views:
            count = gather(scratch, count, *entries_of(view))
            for peer, age in view:
                if peer != NOBODY:
                    first.setdefault(peer, age)
        assert gathered(scratch, count) == list(first.items())


def test_one_more_is_gathered_unless_it_is_there() -> None:
    scratch = make_scratch(peers=10, topics=1, topics_a_node=1, most=5)
    count = gather(scratch, begin_gathering(scratch), *entries_of([(3, 7), (4, 8)]))
    count = gather_one(scratch, gather_one(scratch, count, 3, 0), 5, 1)
    assert gathered(scratch, count) == [(3, 7), (4, 8), (5, 1)]


def test_equals_are_ordered_by_a_draw_that_no_two_peers_share() -> None:
    orders = {tuple(sorted(range(8), key=lambda peer: int(tie_break(key, peer)))) for key in range(50)}
    assert len(orders) > 40
    assert len({int(tie_break(7, peer)) for peer in range(1000)}) == 1000
