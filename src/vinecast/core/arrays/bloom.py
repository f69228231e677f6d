"""Bloom filters, plain and attenuated, over fixed arrays of words (S1 §3.1).

A filter of B bytes is a row of B / 8 words. An item, a 64-bit word (an id), sets ``hashes`` of its bits,
whose places come from one mixing of the item by double hashing (Kirsch and Mitzenmacher, ESA 2006): an odd
stride over a power of two of bits meets no bit twice. A lookup never misses what was inserted, and finds what
was not with a chance that grows with what the filter holds.

An attenuated filter of depth K is K filters of one size [level, word]: level n is about what is n hops away.
As bytes, words are little-endian. A ``difference`` tells which bytes of an attenuated filter have changed.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import mix
from vinecast.core.errors import RemoteError
from vinecast.core.rule import WORD_MASK, inner_rule, rule, word

Filter = NDArray[np.uint64]
"""[word]"""
Attenuated = NDArray[np.uint64]
"""[level, word]"""

LEVELS_MAX = 7
"""Levels fit the bits of a byte (``levels_with``), and one is left for those who remember them."""
DIFFERENCE_MAX = 1 << 16
"""Bytes of an attenuated filter whose differences can be told: places in it are two bytes."""

_S6, _S32, _S63, _ONE = word(6), word(32), word(63), word(1)
_CHANGE = np.dtype([("place", "<u2"), ("value", "u1")])


def new_filter(filter_bytes: int, depth: int) -> Attenuated:
    """An empty attenuated filter."""
    return np.zeros((depth, filter_bytes // 8), dtype=np.uint64)


def fill_of(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Which share of the bits is set, of each filter. bits: […, word]"""
    share: NDArray[np.float64] = np.bitwise_count(bits).sum(axis=-1, dtype=np.int64) / (bits.shape[-1] * 64)
    return share


@rule
def insert(bits: Filter, item: int, hashes: int) -> None:
    """Put an item into a filter."""
    mask = word(bits.size * 64 - 1)
    place = mix(item)
    stride = (place >> _S32) | _ONE
    for _ in range(hashes):
        at = place & mask
        bits[int(at >> _S6)] |= np.uint64(_ONE << (at & _S63))
        place = (place + stride) & WORD_MASK


@inner_rule
def _has(bits: Filter, place: int, hashes: int) -> bool:
    """Whether all bits of an item, whose first one is at ``place``, are set."""
    mask = word(bits.size * 64 - 1)
    stride = (word(place) >> _S32) | _ONE
    for _ in range(hashes):
        at = place & mask
        if not (word(bits[int(at >> _S6)]) >> (at & _S63)) & _ONE:
            return False
        place = (place + stride) & WORD_MASK
    return True


@inner_rule
def holds(bits: Filter, item: int, hashes: int) -> bool:
    """Whether a filter seems to hold an item."""
    return _has(bits, mix(item), hashes)


@rule
def levels_with(bits: Attenuated, item: int, hashes: int) -> int:
    """The levels that seem to hold an item: bit n for level n."""
    place = mix(item)
    found = 0
    for level in range(bits.shape[0]):
        if _has(bits[level], place, hashes):
            found |= 1 << level
    return found


@inner_rule
def unite(bits: Filter, other: Filter) -> None:
    """Let a filter hold what another holds, too."""
    for i in range(bits.size):
        bits[i] |= other[i]


def to_bytes(bits: Attenuated) -> bytes:
    """All levels, one after the other."""
    return bits.astype("<u8").tobytes()


def from_bytes(data: bytes, filter_bytes: int, depth: int) -> Attenuated:
    """The attenuated filter that a peer sent; RemoteError for one of another size."""
    if len(data) != filter_bytes * depth:
        raise RemoteError("a filter of another size")
    return np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(depth, filter_bytes // 8)


def difference(old: Attenuated, new: Attenuated) -> bytes:
    """The bytes of a filter that have changed: of each its place and its value, three bytes."""
    before, after = (np.frombuffer(to_bytes(bits), dtype=np.uint8) for bits in (old, new))
    places = np.flatnonzero(before != after)
    changes = np.empty(places.size, dtype=_CHANGE)
    changes["place"], changes["value"] = places, after[places]
    return changes.tobytes()


def apply_difference(bits: Attenuated, changes: bytes) -> Attenuated:
    """The filter after a peer's changes; RemoteError for changes that are none of a filter of this size."""
    if len(changes) % _CHANGE.itemsize:
        raise RemoteError("a difference cut short")
    told = np.frombuffer(changes, dtype=_CHANGE)
    data = np.frombuffer(to_bytes(bits), dtype=np.uint8).copy()
    if told.size and int(told["place"].max()) >= data.size:
        raise RemoteError("a difference of a filter of another size")
    data[told["place"]] = told["value"]
    return from_bytes(data.tobytes(), 8 * bits.shape[1], bits.shape[0])
