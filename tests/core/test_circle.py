"""The circle: arithmetic against plain integers, arcs that cover it once, ids that never change."""

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from vinecast.core import circle
from vinecast.core.circle import BITS, between, clockwise, distance, id_of, simulated_ids
from vinecast.core.draws import SEED_MAX, draw_array

POINTS = 2**64
HALF = 2**63
TOP = POINTS - 1

points = st.sampled_from((0, 1, HALF - 1, HALF, HALF + 1, TOP - 1, TOP)) | st.integers(0, TOP)
steps = st.integers(-3, 3)
near = st.tuples(points, steps).map(lambda pair: sum(pair) % POINTS)


# Arithmetic


@settings(max_examples=200, deadline=None)
@given(near, near)
def test_ways_round(a: int, b: int) -> None:
    assert clockwise(a, b) == (b - a) % POINTS
    assert distance(a, b) == min((b - a) % POINTS, (a - b) % POINTS) == distance(b, a)
    assert 0 <= distance(a, b) <= HALF
    assert (clockwise(a, b) + clockwise(b, a)) % POINTS == 0


@settings(max_examples=200, deadline=None)
@given(near, near, near)
def test_between_is_walking_up_from_a_and_meeting_x_no_later_than_b(x: int, a: int, b: int) -> None:
    inside = x > a and x <= b if a < b else x > a or x <= b
    assert between(x, a, b) is inside or a == b
    assert between(x, a, b) is (a == b or 0 < (x - a) % POINTS <= (b - a) % POINTS)


@settings(max_examples=200, deadline=None)
@given(near, near, near, points)
def test_turning_the_circle_changes_nothing(x: int, a: int, b: int, turn: int) -> None:
    turned_x, turned_a, turned_b = ((point + turn) % POINTS for point in (x, a, b))
    assert between(turned_x, turned_a, turned_b) is between(x, a, b)
    assert clockwise(turned_a, turned_b) == clockwise(a, b)
    assert distance(turned_a, turned_b) == distance(a, b)


@pytest.mark.parametrize(
    ("a", "b", "up", "shorter"),
    [
        (0, 0, 0, 0),
        (5, 5, 0, 0),
        (3, 10, 7, 7),
        (10, 3, POINTS - 7, 7),
        (TOP, 0, 1, 1),
        (0, TOP, TOP, 1),
        (0, HALF, HALF, HALF),
        (HALF, 0, HALF, HALF),
        (TOP, HALF - 1, HALF, HALF),
        (1, HALF + 2, HALF + 1, HALF - 1),
    ],
)
def test_known_ways(a: int, b: int, up: int, shorter: int) -> None:
    assert (clockwise(a, b), distance(a, b)) == (up, shorter)


@pytest.mark.parametrize(
    ("x", "a", "b", "inside"),
    [
        (5, 3, 10, True),
        (3, 3, 10, False),  # open at the start,
        (10, 3, 10, True),  # closed at the end
        (11, 3, 10, False),
        (2, 3, 10, False),
        (0, TOP, 1, True),  # over the top
        (TOP, TOP, 1, False),
        (1, TOP, 1, True),
        (HALF, TOP, 1, False),
        (HALF, 1, TOP, True),
        (7, 7, 7, True),  # one point alone is responsible for everything
        (HALF, 7, 7, True),
    ],
)
def test_known_arcs(x: int, a: int, b: int, inside: bool) -> None:
    assert between(x, a, b) is inside


@settings(max_examples=200, deadline=None)
@given(st.sets(near, min_size=1, max_size=12), near)
def test_arcs_between_neighbours_cover_the_circle_once(ids: set[int], x: int) -> None:
    ring = sorted(ids)
    responsible = [b for a, b in pairwise([ring[-1], *ring]) if between(x, a, b)]
    assert responsible == [min(ids, key=lambda owner: (owner - x) % POINTS)]
    for owner in ids:
        assert [b for a, b in pairwise([ring[-1], *ring]) if between(owner, a, b)] == [owner]


def test_high_words_before_and_after_low_ones() -> None:
    for low_first in (False, True):
        for a, b in ((TOP, 1), (1, TOP), (1, 2), (HALF, HALF + 1), (3, 4)):
            a, b = (b, a) if low_first else (a, b)
            assert clockwise(a, b) == (b - a) % POINTS
            assert distance(a, b) == min((b - a) % POINTS, (a - b) % POINTS)
            assert between(b, a, b) is True


def test_machine_words_are_accepted() -> None:
    kinds: tuple[Callable[[int], Any], ...] = (int, np.uint64)
    for kind in kinds:
        assert clockwise(kind(TOP), kind(1)) == clockwise(TOP, kind(1)) == 2
        assert distance(kind(1), kind(TOP)) == 2
        assert between(kind(0), kind(TOP), kind(1)) is True


# Ids


def test_known_ids_never_change() -> None:
    assert BITS == 64
    assert id_of(b"") == 0xE3B0_C442_98FC_1C14  # the beginning of the best-known of all SHA-256 digests
    assert simulated_ids(1, 3).tolist() == [4799729406737745499, 630332410854782437, 13295440657919197676]


@settings(max_examples=50, deadline=None)
@given(st.binary())
def test_ids_are_the_first_bits_of_a_digest(data: bytes) -> None:
    assert f"{id_of(data):016x}" == hashlib.sha256(data).hexdigest()[:16]


@pytest.mark.parametrize("seed", [0, 1, 2, SEED_MAX])
def test_simulated_ids_are_distinct_and_uniform(seed: int) -> None:
    ids = simulated_ids(seed, 100_000)
    assert ids.dtype == np.uint64
    assert np.unique(ids).size == ids.size
    arcs = np.bincount((ids >> np.uint64(56)).astype(np.int64), minlength=256)
    assert 1e-6 < float(stats.chisquare(arcs).pvalue) < 1 - 1e-6


def test_simulated_ids_depend_on_the_seed_and_not_on_the_size_of_the_population() -> None:
    assert not set(simulated_ids(1, 1000).tolist()) & set(simulated_ids(2, 1000).tolist())
    assert simulated_ids(1, 1000)[:10].tolist() == simulated_ids(1, 10).tolist()
    assert simulated_ids(1, 0).shape == (0,)


def crowd(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """Make ids collide: leave only a few bits of each draw. Whoever draws without end is stopped."""
    calls = 0

    def few_bits(key: int, i: NDArray[np.integer]) -> NDArray[np.uint64]:
        nonlocal calls
        calls += 1
        if calls > 1000:
            pytest.fail("ids are drawn again and again")
        return draw_array(key, i) >> np.uint64(64 - bits)

    monkeypatch.setattr(circle, "draw_array", few_bits)


def test_ids_that_collide_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    once = simulated_ids(0, 20) >> np.uint64(64 - 10)
    assert np.unique(once).size < 20
    crowd(monkeypatch, 10)
    ids = simulated_ids(0, 20)
    assert np.unique(ids).size == 20
    _, first = np.unique(once, return_index=True)
    assert ids[first].tolist() == once[first].tolist()  # those that came first keep theirs


def test_ids_that_collide_twice_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(monkeypatch, 5)
    for seed in range(5):
        assert np.unique(simulated_ids(seed, 16)).size == 16
