"""Bloom filters: what they hold they never deny, and what they invent is as often as theory says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.arrays.bloom import (
    Filter,
    apply_difference,
    difference,
    fill_of,
    from_bytes,
    holds,
    insert,
    levels_with,
    new_filter,
    to_bytes,
    unite,
)
from vinecast.core.draws import draw_array
from vinecast.core.errors import RemoteError
from vinecast.core.rule import word

WORDS = st.lists(st.integers(0, 2**64 - 1), max_size=40)
SIZES = st.sampled_from([8, 64, 512])


def filter_with(items: list[int], filter_bytes: int = 64, hashes: int = 4) -> Filter:
    bits: Filter = new_filter(filter_bytes, 1)[0]
    for item in items:
        insert(bits, word(item), hashes)
    return bits


@given(WORDS, SIZES, st.integers(1, 8))
def test_nothing_that_was_inserted_is_denied(items: list[int], size: int, hashes: int) -> None:
    bits = filter_with(items, size, hashes)
    assert all(holds(bits, word(item), hashes) for item in items)


@given(WORDS, WORDS)
def test_a_union_is_the_filter_of_both(some: list[int], others: list[int]) -> None:
    bits = filter_with(some)
    unite(bits, filter_with(others))
    assert np.array_equal(bits, filter_with(some + others))


@given(WORDS)
def test_an_item_sets_as_many_bits_as_it_has_hashes(items: list[int]) -> None:
    for item in items:
        assert np.bitwise_count(filter_with([item], 512, 5)).sum() == 5


@pytest.mark.parametrize(
    ("items", "size", "hashes"), [(200, 512, 4), (700, 512, 4), (1500, 512, 2), (60, 64, 6)]
)
def test_false_positives_are_as_frequent_as_theory_says(items: int, size: int, hashes: int) -> None:
    asked, found = 4000, 0
    for seed in range(5):
        bits = filter_with(draw_array(seed, np.arange(items)).tolist(), size, hashes)
        strangers = draw_array(1000 + seed, np.arange(asked)).tolist()
        found += sum(bool(holds(bits, word(stranger), hashes)) for stranger in strangers)
    expected = (1 - np.exp(-hashes * items / (8 * size))) ** hashes
    error = np.sqrt(expected * (1 - expected) / (5 * asked))
    # The fill of five filters varies, too: a tenth of the rate on top of four standard errors.
    assert abs(found / (5 * asked) - expected) < 4 * error + 0.1 * expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2**64 - 1)), max_size=20))
def test_levels_are_told_apart(items: list[tuple[int, int]]) -> None:
    bits = new_filter(512, 3)
    for level, item in items:
        insert(bits[level], word(item), 4)
    for level, item in items:
        assert levels_with(bits, word(item), 4) >> level & 1
    assert levels_with(new_filter(512, 3), word(7), 4) == 0


@given(WORDS, WORDS)
def test_a_difference_makes_the_old_filter_the_new_one(some: list[int], others: list[int]) -> None:
    old, new = np.stack([filter_with(some)] * 2), np.stack([filter_with(others), filter_with(some)])
    changes = difference(old, new)
    assert np.array_equal(apply_difference(old, changes), new)
    assert difference(new, new) == b""
    assert len(changes) <= 3 * 4 * (len(some) + len(others))


def test_a_filter_travels_as_bytes() -> None:
    bits = np.stack([filter_with([1, 2, 3]), filter_with([4])])
    assert np.array_equal(from_bytes(to_bytes(bits), 64, 2), bits)
    assert fill_of(bits).tolist() == [12 / 512, 4 / 512]


@given(st.binary(max_size=300))
def test_what_is_no_filter_of_this_size_is_refused(data: bytes) -> None:
    bits = new_filter(64, 2)
    if len(data) != 128:
        with pytest.raises(RemoteError):
            from_bytes(data, 64, 2)
    places = [data[i] + 256 * data[i + 1] for i in range(0, len(data) - 2, 3)]
    if len(data) % 3 or any(place >= 128 for place in places):
        with pytest.raises(RemoteError):
            apply_difference(bits, data)
    else:
        apply_difference(bits, data)
