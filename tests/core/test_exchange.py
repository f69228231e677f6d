"""The exchange: turns in a fair keyed order, and requests grouped by partner, against obvious twins."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from vinecast.core.draws import SEED_MAX, draw, purpose, stream
from vinecast.core.exchange import group_requests, turn_order, turn_word, turn_words
from vinecast.core.machine import NOBODY

numbers = st.sampled_from((0, 1, 2**32, SEED_MAX)) | st.integers(0, SEED_MAX)


def assert_uniform(counts: NDArray[np.int64]) -> None:
    """Seeds are fixed: a fair order fails with one seed in a million, and then always."""
    assert 1e-6 < float(stats.chisquare(counts).pvalue) < 1 - 1e-6


# Turns


@settings(max_examples=60, deadline=None)
@given(numbers, numbers, st.integers(0, 80))
def test_turn_order_is_the_order_of_the_turn_words(seed: int, instant: int, nodes: int) -> None:
    order = turn_order(seed, instant, nodes)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(nodes))
    assert order.tolist() == sorted(range(nodes), key=lambda node: turn_word(seed, instant, node))


@settings(max_examples=60, deadline=None)
@given(numbers, numbers, st.integers(0, 80))
def test_turn_words_are_the_turn_word_of_each(seed: int, instant: int, nodes: int) -> None:
    words = np.zeros(nodes, dtype=np.uint64)
    turn_words(seed, instant, words)
    assert words.tolist() == [turn_word(seed, instant, node) for node in range(nodes)]


@settings(max_examples=60, deadline=None)
@given(numbers, numbers, st.sampled_from((0, 1, 2**31 - 2, 2**32 - 1)) | st.integers(0, 2**32 - 1))
def test_a_turn_word_is_half_luck_and_half_name(seed: int, instant: int, node: int) -> None:
    drawn = draw(stream(seed, purpose("exchange.turn"), instant, 0), node)
    assert divmod(turn_word(seed, instant, node), 2**32) == (drawn >> 32, node)


def test_known_turns_never_change() -> None:
    assert turn_order(1, 2, 8).tolist() == [7, 6, 1, 2, 5, 4, 0, 3]
    assert turn_word(1, 2, 3) == 15864120895061622787


def test_turns_are_new_at_every_instant_and_with_every_seed() -> None:
    by_instant = {tuple(turn_order(1, instant, 20).tolist()) for instant in range(200)}
    by_second = {tuple(turn_order(1, instant * 10**6, 20).tolist()) for instant in range(1, 200)}
    by_seed = {tuple(turn_order(seed, 0, 20).tolist()) for seed in range(2, 200)}
    assert len(by_instant | by_second | by_seed) == 200 + 199 + 198


@pytest.mark.parametrize("step", [1, 1_000_000])
def test_turns_are_fair(step: int) -> None:
    nodes, instants = 10, 3000
    orders = np.array([turn_order(7, instant * step, nodes) for instant in range(instants)])
    for node in range(nodes):
        assert_uniform(np.bincount(np.nonzero(orders == node)[1], minlength=nodes))
    pairs = orders[:, 0] * nodes + orders[:, 1]
    counts = np.bincount(pairs, minlength=nodes * nodes)
    assert (counts[:: nodes + 1] == 0).all()
    assert_uniform(counts[counts > 0])
    assert (counts > 0).sum() == nodes * (nodes - 1)


def test_a_turn_says_nothing_about_the_next_one() -> None:
    nodes = 2000
    places = [np.argsort(turn_order(7, instant, nodes)) for instant in range(20)]
    for earlier, later in pairwise(places):
        assert abs(np.corrcoef(earlier, later)[0, 1]) < 6 / nodes**0.5
    for place in places:
        assert abs(np.corrcoef(place, np.arange(nodes))[0, 1]) < 6 / nodes**0.5


def test_many_nodes_all_get_a_turn() -> None:
    order = turn_order(3, 4, 100_000)
    assert np.array_equal(np.sort(order), np.arange(100_000))


# Requests


def grouped(partners: list[int]) -> list[list[int]]:
    """Run the rule on arrays full of rubbish. [node] -> its initiators"""
    nodes = len(partners)
    start = np.full(nodes + 2, 77, dtype=np.int32)
    initiator = np.full(nodes, -77, dtype=np.int32)
    group_requests(np.array(partners, dtype=np.int32), start, initiator)
    requests = sum(partner != NOBODY for partner in partners)
    assert start[0] == 0
    assert start[nodes] == start[nodes + 1] == requests
    assert (initiator[requests:] == -77).all()
    return [initiator[start[node] : start[node + 1]].tolist() for node in range(nodes)]


def obvious(partners: list[int]) -> list[list[int]]:
    asked: dict[int, list[int]] = {node: [] for node in range(len(partners))}
    for node, partner in enumerate(partners):
        if partner != NOBODY:
            asked[partner].append(node)
    return list(asked.values())


def some_partners(nodes: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(NOBODY, nodes - 1), min_size=nodes, max_size=nodes)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 30).flatmap(some_partners))
def test_requests_are_grouped_by_partner_in_ascending_order(partners: list[int]) -> None:
    assert grouped(partners) == obvious(partners)


@pytest.mark.parametrize(
    "partners",
    [
        [],
        [NOBODY],
        [0],
        [NOBODY] * 9,
        [0] * 9,
        [8] * 9,
        [4] * 9,
        list(range(9)),
        list(reversed(range(9))),
        [1, 2, 3, 4, 5, 6, 7, 8, 0],
        [NOBODY, 0, NOBODY, 0, NOBODY, 8, NOBODY, 8, NOBODY],
    ],
)
def test_known_requests(partners: list[int]) -> None:
    assert grouped(partners) == obvious(partners)


def test_a_crowd_of_requests() -> None:
    nodes = 2000
    partners = (turn_order(5, 6, nodes) // 7).tolist()
    partners[::3] = [NOBODY] * len(partners[::3])
    assert grouped(partners) == obvious(partners)
