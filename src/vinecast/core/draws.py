"""Keyed draws: every random decision has its own name, so that no order of work can change it.

A draw is a pure function of (seed, purpose, cycle, node, peer, i): nothing is consumed, nothing is shared.
Same seed, same run: on one thread or many, in one process or on a cluster, with or without Numba, whatever
``PYTHONHASHSEED``.

The generator is SplitMix64 in counter form (Steele, Lea and Flood, OOPSLA 2014, with Stafford's 13th
mixer). We chose it over Philox and Threefry because a draw costs one 64-bit mixing, it passes BigCrush as a
stream, and gossip needs statistical quality, not secrecy. A key is built by absorbing words one at a time,
each followed by the full mixer, so that neighbouring seeds, cycles or nodes give unrelated streams. Two
streams can only overlap when their keys differ by a small multiple of the golden gamma: a chance of about
2⁻⁶⁴ × (draws per key).

Live nodes take their *seed* from the operating system's entropy, once; what must be secret (keys, nonces)
never comes from here.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from vinecast.core.rule import WORD_MASK, rule_on_words, word

GOLDEN = word(0x9E37_79B9_7F4A_7C15)
_MIX_1 = word(0xBF58_476D_1CE4_E5B9)
_MIX_2 = word(0x94D0_49BB_1331_11EB)
_S27, _S30, _S31, _S32, _S11 = word(27), word(30), word(31), word(32), word(11)
_ONE = word(1)
_UNIT = 2.0**-53

SEED_MAX = 2**63 - 1
"""Seeds, node numbers and cycles are non-negative and fit a signed 64-bit integer."""


def purpose(name: str) -> int:
    """The key word of a purpose: unrelated decisions never share draws, whatever file they live in."""
    return word(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


@rule_on_words
def mix(x: int) -> int:
    """SplitMix64's finaliser: a bijection on 64-bit words in which every input bit moves every output bit."""
    a = word(x)
    b = ((a ^ (a >> _S30)) * _MIX_1) & WORD_MASK
    c = ((b ^ (b >> _S27)) * _MIX_2) & WORD_MASK
    return c ^ (c >> _S31)


@rule_on_words
def substream(key: int, number: int) -> int:
    """The key of a part of a stream: absorb one more word (a cycle, a node, a peer)."""
    return mix(((word(key) ^ word(number)) + GOLDEN) & WORD_MASK)


@rule_on_words
def stream(seed: int, purpose_word: int, cycle: int, node: int) -> int:
    """The key of one node's decisions of one purpose in one cycle."""
    return substream(substream(substream(mix(seed), purpose_word), cycle), node)


@rule_on_words
def draw(key: int, i: int) -> int:
    """The i-th 64-bit word of a stream."""
    return mix((word(key) + (word(i) + _ONE) * GOLDEN) & WORD_MASK)


@rule_on_words
def below(key: int, i: int, n: int) -> int:
    """A whole number in [0, n), n < 2³²; the bias of the multiply-shift is at most n / 2³²."""
    return int(((draw(key, i) >> _S32) * word(n)) >> _S32)


@rule_on_words
def unit(key: int, i: int) -> float:
    """A number in [0, 1) with 53 random bits."""
    return float(draw(key, i) >> _S11) * _UNIT


# The same draws for a whole array at once. Plain NumPy, so that a workload is built as fast without Numba.


def _mix_array(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ (x >> np.uint64(31))


def substream_array(key: int, numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    """``substream(key, n)`` for every n."""
    return _mix_array((np.uint64(key) ^ numbers.astype(np.uint64)) + np.uint64(0x9E37_79B9_7F4A_7C15))


def draw_array(key: int | NDArray[np.uint64], i: int | NDArray[np.integer]) -> NDArray[np.uint64]:
    """``draw(key, i)``, either or both of which may be arrays (they broadcast)."""
    counter = np.atleast_1d(np.asarray(i)).astype(np.uint64) + np.uint64(1)  # arrays wrap in silence
    return _mix_array(np.asarray(key, dtype=np.uint64) + counter * np.uint64(0x9E37_79B9_7F4A_7C15))


def unit_array(key: int | NDArray[np.uint64], i: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """``unit(key, i)``, broadcast."""
    return (draw_array(key, i) >> np.uint64(11)).astype(np.float64) * _UNIT


def below_array(
    key: int | NDArray[np.uint64], i: int | NDArray[np.integer], n: int | NDArray[np.integer]
) -> NDArray[np.int64]:
    """``below(key, i, n)``, broadcast."""
    high = draw_array(key, i) >> np.uint64(32)
    return ((high * np.asarray(n).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def shuffled(key: int, count: int) -> NDArray[np.int64]:
    """The numbers 0 … count−1 in keyed random order."""
    return np.argsort(draw_array(key, np.arange(count)), kind="stable")
