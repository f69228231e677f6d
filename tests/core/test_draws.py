"""Draws: the published generator, the same bits in every form, and no relation between keys."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import vinecast
from vinecast.core.draws import (
    GOLDEN,
    SEED_MAX,
    below,
    below_array,
    draw,
    draw_array,
    mix,
    purpose,
    shuffled,
    stream,
    substream,
    substream_array,
    unit,
    unit_array,
)

Words = NDArray[np.uint64]

WORD = 2**64
GAMMA = 0x9E37_79B9_7F4A_7C15
EDGES = (0, 1, 2**31, 2**32 - 1, 2**32, SEED_MAX, SEED_MAX + 1, WORD - GAMMA, WORD - 1)
LUCK = 1e-6
"""Keys are fixed, so a test passes always or never: a sound generator fails with one key in a million."""
SIGMAS = 6.0
"""The same for means and correlations, with room for the many cells that one test looks at."""

words = st.sampled_from(EDGES) | st.integers(0, WORD - 1)
sizes = st.sampled_from((1, 2, 3, 2**31, 2**32 - 1)) | st.integers(1, 2**32 - 1)
arrays = st.lists(words, min_size=1, max_size=5)


def to_words(numbers: list[int]) -> Words:
    return np.array(numbers, dtype=np.uint64)


# The generator


@pytest.mark.parametrize(
    ("seed", "published"),
    [
        # Vigna's splitmix64.c; the first row is the one that Rosetta Code prints.
        (
            1234567,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423,
                4593380528125082431,
                16408922859458223821,
            ],
        ),
        (0, [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]),
    ],
)
def test_published_words(seed: int, published: list[int]) -> None:
    assert [draw(seed, i) for i in range(len(published))] == published
    assert draw_array(seed, np.arange(len(published))).tolist() == published


def splitmix64(seed: int, count: int) -> list[int]:
    """The generator as its authors wrote it: a state that grows by the golden gamma, and a finaliser."""
    drawn, state = [], seed
    for _ in range(count):
        state = (state + GAMMA) % WORD
        z = state
        z = (z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB % WORD
        drawn.append(z ^ (z >> 31))
    return drawn


@settings(max_examples=50, deadline=None)
@given(words)
def test_a_stream_is_the_stateful_generator(key: int) -> None:
    assert [draw(key, i) for i in range(20)] == splitmix64(key, 20)


def unmix(x: int) -> int:
    """The way back through the finaliser."""
    for shift, factor in ((31, 0x94D0_49BB_1331_11EB), (27, 0xBF58_476D_1CE4_E5B9), (30, 1)):
        x = x ^ (x >> shift) ^ (x >> (2 * shift))
        x = x * pow(factor, -1, WORD) % WORD
    return x


@settings(max_examples=100, deadline=None)
@given(words)
def test_mixing_loses_nothing(x: int) -> None:
    assert unmix(mix(x)) == x


def test_known_keys_never_change() -> None:
    ids = purpose("circle.ids")
    assert int(GOLDEN) == GAMMA
    assert int(ids) == 7796093670466290968
    assert stream(1, ids, 2, 3) == 7675968314301932021
    assert (mix(0), mix(1)) == (0, 6238072747940578789)
    assert (unit(0, 0), below(0, 0, 1000)) == (0.8833108082136426, 883)


@settings(max_examples=50, deadline=None)
@given(words, words, words, words)
def test_a_key_absorbs_one_word_at_a_time(seed: int, purpose_word: int, cycle: int, node: int) -> None:
    key = mix(seed)
    for number in (purpose_word, cycle, node):
        key = substream(key, number)
    assert stream(seed, purpose_word, cycle, node) == key
    assert substream(key, node) == mix(((key ^ node) + GAMMA) % WORD)


@settings(max_examples=100, deadline=None)
@given(words, words, sizes)
def test_numbers_from_words(key: int, i: int, n: int) -> None:
    drawn = draw(key, i)
    assert 0 <= drawn < WORD
    assert below(key, i, n) == (drawn // 2**32) * n // 2**32
    assert 0 <= below(key, i, n) < n
    assert unit(key, i) == (drawn // 2**11) / 2**53
    assert 0 <= unit(key, i) < 1


def test_the_largest_word_gives_a_unit_below_one() -> None:
    key = (unmix(WORD - 1) - GAMMA) % WORD
    assert draw(key, 0) == WORD - 1
    assert unit(key, 0) == unit_array(key, 0)[0] == 1 - 2.0**-53
    assert below(key, 0, 2**32 - 1) == below_array(key, 0, 2**32 - 1)[0] == 2**32 - 2


def test_results_are_plain_numbers() -> None:
    assert type(draw(1, 2)) is type(below(1, 2, 3)) is type(stream(1, 2, 3, 4)) is int
    assert type(unit(1, 2)) is float


# Arrays equal scalars


@settings(max_examples=60, deadline=None)
@given(arrays, arrays)
def test_draw_array_in_every_form(keys: list[int], numbers: list[int]) -> None:
    table = [[draw(key, i) for i in numbers] for key in keys]
    k, i = to_words(keys), to_words(numbers)
    assert draw_array(k[:, None], i).tolist() == table
    assert draw_array(keys[0], i).tolist() == table[0]
    assert draw_array(keys[0], i.reshape(1, -1, 1)).shape == (1, i.size, 1)
    assert draw_array(k, numbers[0]).tolist() == [row[0] for row in table]
    assert draw_array(k, i[:1]).tolist() == [row[0] for row in table]
    assert draw_array(keys[0], numbers[0]).tolist() == table[0][:1]
    both = min(k.size, i.size)
    assert draw_array(k[:both], i[:both]).tolist() == [table[at][at] for at in range(both)]
    assert draw_array(k[:, None], i).dtype == np.uint64


@settings(max_examples=60, deadline=None)
@given(arrays, arrays)
def test_unit_array_in_every_form(keys: list[int], numbers: list[int]) -> None:
    table = [[unit(key, i) for i in numbers] for key in keys]
    k, i = to_words(keys), to_words(numbers)
    assert unit_array(k[:, None], i).tolist() == table
    assert unit_array(keys[0], i).tolist() == table[0]
    assert unit_array(k, numbers[0]).tolist() == [row[0] for row in table]
    assert unit_array(keys[0], numbers[0]).tolist() == table[0][:1]


@settings(max_examples=60, deadline=None)
@given(arrays, arrays, st.lists(sizes, min_size=5, max_size=5))
def test_below_array_in_every_form(keys: list[int], numbers: list[int], limits: list[int]) -> None:
    k, i = to_words(keys), to_words(numbers)
    n = np.array(limits, dtype=np.int64)
    table = [[below(key, i, n) for i, n in zip(numbers, limits, strict=False)] for key in keys]
    assert below_array(k[:, None], i, n[: i.size]).tolist() == table
    assert below_array(keys[0], i, n[: i.size]).tolist() == table[0]
    assert below_array(k, numbers[0], limits[0]).tolist() == [row[0] for row in table]
    assert below_array(keys[0], numbers[0], n).tolist() == [below(keys[0], numbers[0], m) for m in limits]
    assert below_array(keys[0], numbers[0], limits[0]).tolist() == table[0][:1]
    assert below_array(keys[0], i, limits[0]).dtype == np.int64


@settings(max_examples=60, deadline=None)
@given(words, arrays)
def test_substream_array(key: int, numbers: list[int]) -> None:
    assert substream_array(key, to_words(numbers)).tolist() == [substream(key, number) for number in numbers]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_any_kind_of_whole_number_counts(dtype: type[np.integer]) -> None:
    numbers = np.arange(100).astype(dtype)
    assert draw_array(5, numbers).tolist() == [draw(5, i) for i in range(100)]
    assert below_array(5, 0, numbers + dtype(1)).tolist() == [below(5, 0, n + 1) for n in range(100)]
    assert substream_array(5, numbers).tolist() == [substream(5, n) for n in range(100)]
    assert [draw(5, number) for number in numbers] == [draw(5, i) for i in range(100)]


def test_a_key_may_be_a_machine_word_and_an_array_may_be_empty() -> None:
    key = purpose("test.draws")
    assert draw_array(key, 3).tolist() == [draw(key, 3)] == [draw(int(key), 3)]
    nothing = np.arange(0)
    for empty in (draw_array(key, nothing), unit_array(key, nothing), below_array(key, nothing, 7)):
        assert empty.shape == (0,)


# Uniformity


def assert_uniform(counts: NDArray[np.int64]) -> None:
    """Neither too far from even nor too close to it."""
    p = float(stats.chisquare(counts).pvalue)
    assert LUCK < p < 1 - LUCK


SOME_KEYS = (0, 1, 1234567, WORD - 1, stream(1, purpose("test.uniform"), 2, 3))


@pytest.mark.parametrize("key", SOME_KEYS)
@pytest.mark.parametrize("n", [2, 3, 7, 64, 1000, 4099])
def test_below_is_uniform(key: int, n: int) -> None:
    drawn = below_array(key, np.arange(200_000), n)
    assert_uniform(np.bincount(drawn, minlength=n))


@pytest.mark.parametrize("key", SOME_KEYS)
def test_below_is_uniform_up_to_large_limits(key: int) -> None:
    n, bins = 3 * 2**30, 768  # single numbers are biased by up to n / 2³², as documented; bins are not
    drawn = below_array(key, np.arange(200_000), n)
    assert_uniform(np.bincount(drawn // (n // bins), minlength=bins))


@pytest.mark.parametrize("key", SOME_KEYS)
def test_unit_is_uniform(key: int) -> None:
    drawn = unit_array(key, np.arange(200_000))
    assert_uniform(np.bincount((drawn * 1000).astype(np.int64), minlength=1000))
    assert float(stats.kstest(drawn, "uniform").pvalue) > LUCK
    assert abs(drawn.mean() - 0.5) < SIGMAS * (1 / 12 / drawn.size) ** 0.5


@pytest.mark.parametrize("key", SOME_KEYS)
def test_every_bit_is_a_coin(key: int) -> None:
    bits = bits_of(draw_array(key, np.arange(50_000)))
    assert np.abs(bits.mean(axis=0) - 0.5).max() < SIGMAS * 0.5 / 50_000**0.5


# Independence


def bits_of(drawn: Words) -> NDArray[np.uint8]:
    """[draw, bit]"""
    return np.unpackbits(drawn.astype("<u8").view(np.uint8).reshape(drawn.size, 8), axis=1, bitorder="little")


P = purpose("test.independence")
AXES: dict[str, Callable[[int], int]] = {
    "seeds": lambda j: stream(j, P, 3, 4),
    "large seeds": lambda j: stream(SEED_MAX - j, P, 3, 4),
    "purpose words": lambda j: stream(7, j, 3, 4),
    "purposes": lambda j: stream(7, purpose(f"purpose {j}"), 3, 4),
    "cycles": lambda j: stream(7, P, j, 4),
    "nodes": lambda j: stream(7, P, 3, j),
    "peers": lambda j: substream(stream(7, P, 3, 4), j),
    "cycles and nodes together": lambda j: stream(7, P, j, j),
}


@pytest.fixture(scope="module", params=list(AXES))
def neighbours(request: pytest.FixtureRequest) -> Words:
    """Keys that differ by one step along one axis. [step]"""
    key_of = AXES[request.param]
    return to_words([key_of(j) for j in range(8192)])


def assert_independent(a: Words, b: Words) -> None:
    """Pairs fill a 16 × 16 board evenly, by their highest bits and by their lowest; no linear relation."""
    for shift in (60, 30, 0):
        high = (a >> np.uint64(shift)) & np.uint64(15)
        low = (b >> np.uint64(shift)) & np.uint64(15)
        assert_uniform(np.bincount((high * np.uint64(16) + low).astype(np.int64), minlength=256))
    assert abs(np.corrcoef(a.astype(np.float64), b.astype(np.float64))[0, 1]) < SIGMAS / a.size**0.5


def test_neighbouring_keys_are_distinct(neighbours: Words) -> None:
    assert np.unique(neighbours).size == neighbours.size


def test_the_same_draw_under_neighbouring_keys(neighbours: Words) -> None:
    first, second = draw_array(neighbours, 0), draw_array(neighbours, 1)
    assert_independent(first[0::2], first[1::2])
    assert_independent(first, second)
    assert_independent(first[:-1:2], second[1::2])
    assert_independent(neighbours, first)


def test_whole_streams_under_neighbouring_keys(neighbours: Words) -> None:
    streams = unit_array(neighbours[:48, None], np.arange(4096))
    related = np.corrcoef(streams) - np.eye(48)
    assert np.abs(related).max() < SIGMAS / 4096**0.5


def test_neighbouring_draws_of_one_stream() -> None:
    drawn = draw_array(stream(7, P, 3, 4), np.arange(100_000))
    for lag in (1, 2, 3, 64):
        ends = drawn.size // (2 * lag) * 2 * lag
        blocks = drawn[:ends].reshape(-1, 2, lag)
        assert_independent(blocks[:, 0].ravel(), blocks[:, 1].ravel())


INPUTS = ("seed", "purpose", "cycle", "node", "peer", "i")


def decide(inputs: list[int]) -> int:
    seed, purpose_word, cycle, node, peer, i = inputs
    return draw(substream(stream(seed, purpose_word, cycle, node), peer), i)


@pytest.mark.parametrize("name", INPUTS)
def test_flipping_one_input_bit_flips_half_of_the_draw(name: str) -> None:
    samples, at = 200, INPUTS.index(name)
    table = draw_array(stream(11, P, 0, 0), np.arange(samples * len(INPUTS))).reshape(samples, -1)
    rows = [[int(x) if i == 1 else int(x) >> 40 for i, x in enumerate(row)] for row in table]
    before = bits_of(to_words([decide(row) for row in rows]))
    for bit in range(64 if name == "purpose" else 63):
        moved = [[x ^ (1 << bit) if i == at else x for i, x in enumerate(row)] for row in rows]
        flips = before ^ bits_of(to_words([decide(row) for row in moved]))
        assert abs(flips.mean() - 0.5) < SIGMAS * 0.5 / flips.size**0.5, bit
        assert np.abs(flips.mean(axis=0) - 0.5).max() < SIGMAS * 0.5 / samples**0.5, bit


# No overlap


def test_streams_of_different_purposes_never_meet() -> None:
    keys = to_words([stream(1, purpose(f"room.decision-{j}"), 0, 0) for j in range(100)])
    assert np.unique(draw_array(keys[:, None], np.arange(2000))).size == 200_000


def test_streams_along_every_axis_never_meet(neighbours: Words) -> None:
    assert np.unique(draw_array(neighbours[:1000, None], np.arange(100))).size == 100_000


def test_order_of_the_words_matters() -> None:
    keys = {
        stream(*order) for order in ((1, 2, 3, 4), (2, 1, 3, 4), (1, 3, 2, 4), (1, 2, 4, 3), (4, 3, 2, 1))
    }
    assert len(keys) == 5


def test_every_purpose_in_the_package_has_a_name_of_its_own() -> None:
    sources = sorted(Path(vinecast.__file__).parent.rglob("*.py"))
    names = [
        name for path in sources for name in re.findall(r'purpose\("([^"]+)"\)', path.read_text("utf-8"))
    ]
    assert "circle.ids" in names
    assert len(names) == len(set(names)) == len({int(purpose(name)) for name in names})


# Shuffling


@settings(max_examples=50, deadline=None)
@given(words, st.integers(0, 200))
def test_shuffled_is_a_permutation_in_the_order_of_the_draws(key: int, count: int) -> None:
    order = shuffled(key, count)
    assert order.dtype == np.int64
    assert order.tolist() == sorted(range(count), key=lambda i: draw(key, i))


def test_all_permutations_are_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for node in range(4800):
        order = tuple(shuffled(stream(1, P, 0, node), 4).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert_uniform(np.array(list(counts.values())))


# The same bits in every process

DIGEST = """
import hashlib
import numpy as np
from vinecast.core import draws
from vinecast.core.rule import COMPILED
digest = hashlib.sha256()
for name in ("a", "b", "cyclon.request"):
    for node in range(500):
        key = draws.stream(2**63 - 1, draws.purpose(name), 3, node)
        peer = draws.substream(key, 2**64 - 1 - node)
        row = (key, peer, draws.draw(peer, node), draws.below(key, 1, node + 1), draws.unit(key, 2))
        digest.update(repr(row).encode())
    digest.update(draws.shuffled(key, 1000).tobytes())
    digest.update(draws.unit_array(draws.draw_array(key, np.arange(1000)), np.arange(1000)).tobytes())
    digest.update(draws.below_array(key, np.arange(1000), 77).tobytes())
    digest.update(draws.substream_array(key, np.arange(1000)).tobytes())
print(int(COMPILED), digest.hexdigest())
"""
KNOWN = "6ee49e76e1d3ba9506a58d07fb2f306f8afa649d4afee67390847959e0c657a8"


def test_same_bits_in_every_process() -> None:
    pytest.importorskip("numba")
    ways = [(compile_, seed) for compile_ in ("0", "1") for seed in ("0", "1", "random")]
    children = []
    for compile_, seed in ways:
        env = {**os.environ, "PYTHONHASHSEED": seed, "VINECAST_COMPILE": compile_, "NUMBA_DISABLE_JIT": "0"}
        command = [sys.executable, "-W", "error", "-c", DIGEST]
        children.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    answers = [child.communicate(timeout=120)[0].split() for child in children]
    assert answers == [[compile_, KNOWN] for compile_, _ in ways]
