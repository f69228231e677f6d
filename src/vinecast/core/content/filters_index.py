"""An index of many filters: which of them match an event, without looking at each.

Every attribute's keys are divided into buckets at ends of the filters' own ranges, so that skew does not
matter. A bucket has a bit for every filter: whether its range reaches into the bucket. An event lies in one
bucket of every attribute; the filters whose bits are set in all of these are few more than those that match,
and their boxes decide. A hundred thousand filters are a row of 12.5 kB a bucket, and an event reads one row
an attribute. Attributes that no filter constrains have no rows.

Strings have other keys here than in ``core/content/filters``, where eight bytes count: all strings that bound
ranges are kept in order, and a string's key is its place among them, odd if it is one of them and even if it
lies between two. So boxes say exactly what matches, however long the strings and whatever they have in
common. A string that came after the order was made lies between two; a box that it bounds is rough, and the
filter itself decides.

Buckets and the order of strings are made anew when as many filters have come as there were. What is found is
exactly what a scan over all filters finds.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.content.filters import Filter, box_of, in_box, make_filter
from vinecast.core.content.schemas import KEY_MAX, STRING, Attribute, Event, Keys, Schema, Value
from vinecast.core.errors import InputError
from vinecast.core.rule import WORD_MASK, inner_rule, rule, word

BUCKETS_MAX = 256
"""Of one attribute (ours)."""
_ROOM = 64
"""For filters at the beginning: one word of bits. Until they are more there is one bucket."""

INDEXED_FROM = 64
"""Filters of a schema from which on a node has an index (ours)."""

WhenCompiled = Callable[[Callable[[], None]], None]
"""Calls something once the index's rules are compiled: at once, or later. Compiling takes seconds the first
time on a machine; a node has it done beside its loop, and until then filters are looked at one by one, which
finds the same."""

Bits = NDArray[np.uint64]
"""[attribute, bucket, word]"""

Scalar = TypeVar("Scalar", bound=np.generic)

_S58, _ONE, _NONE, _DE_BRUIJN = word(58), word(1), word(0), word(0x03F7_9D71_B4CB_0A89)
_PLACES = np.zeros(64, dtype=np.int64)
"""Where a word's only bit stands, by the upper six bits of its product with a de Bruijn number."""
for _place in range(64):
    _PLACES[(0x03F7_9D71_B4CB_0A89 << _place) % 2**64 >> 58] = _place


@inner_rule
def bucket_of(cuts: Keys, key: int) -> int:
    """In which bucket a key lies: how many cuts it reaches. cuts: [bucket − 1], ascending"""
    first, last = 0, cuts.size
    while first < last:
        middle = (first + last) >> 1
        if cuts[middle] <= key:
            first = middle + 1
        else:
            last = middle
    return first


@rule
def turn_bits(
    bits: Bits, cuts: NDArray[np.uint64], active: NDArray[np.int64], low: Keys, high: Keys, row: int
) -> None:
    """Set a filter's bits where they are not set, and clear them where they are.

    cuts: [attribute, bucket − 1]; active: attributes that have rows; low, high: the filter's box [attribute]
    """
    bit = np.uint64(1 << (row & 63))
    for i in range(active.size):
        at = active[i]
        for bucket in range(bucket_of(cuts[at], low[at]), bucket_of(cuts[at], high[at]) + 1):
            bits[at, bucket, row >> 6] ^= bit


@rule
def build_bits(
    bits: Bits,
    cuts: NDArray[np.uint64],
    active: NDArray[np.int64],
    low: NDArray[np.uint64],
    high: NDArray[np.uint64],
    rows: NDArray[np.int64],
) -> None:
    """Set the bits of these filters, where none are set yet. low, high: [filter, attribute]"""
    for i in range(rows.size):
        turn_bits(bits, cuts, active, low[rows[i]], high[rows[i]], rows[i])


@rule
def find(
    bits: Bits,
    cuts: NDArray[np.uint64],
    active: NDArray[np.int64],
    low: NDArray[np.uint64],
    high: NDArray[np.uint64],
    keys: Keys,
    common: NDArray[np.uint64],
    found: NDArray[np.int64],
) -> int:
    """Write down in which boxes an event's keys lie, ascending; how many.

    low, high: [filter, attribute]; common: [word], the filters that there are, and is used up
    """
    words = common.size
    for i in range(active.size):
        row = bits[active[i], bucket_of(cuts[active[i]], keys[active[i]])]
        for w in range(words):
            common[w] &= row[w]
    count = 0
    for w in range(words):
        rest = word(common[w])
        while rest != _NONE:
            lowest = rest & ((~rest + _ONE) & WORD_MASK)
            rest ^= lowest
            number = w * 64 + int(_PLACES[int(((lowest * _DE_BRUIJN) & WORD_MASK) >> _S58)])
            if in_box(low[number], high[number], keys):
                found[count] = number
                count += 1
    return count


class FilterIndex:
    """The filters of one schema, each by a number that stays its own until it is removed."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._filters: dict[int, Filter] = {}
        self._free: list[int] = []
        """Numbers below the highest given that are nobody's: a heap."""
        width = len(schema.attributes)
        self._low: NDArray[np.uint64] = np.zeros((_ROOM, width), dtype=np.uint64)
        self._high: NDArray[np.uint64] = np.zeros((_ROOM, width), dtype=np.uint64)
        self._rough: NDArray[np.bool_] = np.zeros(_ROOM, dtype=np.bool_)
        self._live: NDArray[np.uint64] = np.zeros(_ROOM // 64, dtype=np.uint64)
        self._common, self._found = np.empty_like(self._live), np.empty(_ROOM, dtype=np.int64)
        self._cuts = np.zeros((width, 0), dtype=np.uint64)
        self._active = np.zeros(0, dtype=np.int64)
        self._opened: set[int] = set()
        """The same attributes."""
        self._bits: Bits = np.zeros((width, 1, self._live.size), dtype=np.uint64)
        self._strings: dict[int, list[str]] = {
            at: [] for at, attribute in enumerate(schema.attributes) if attribute.kind == STRING
        }
        """Attribute → the strings that bound ranges, in order."""
        self._until_chosen = _ROOM

    def __len__(self) -> int:
        return len(self._filters)

    def insert(self, one: Filter) -> int:
        """Take a filter in; its number, the lowest that is free."""
        if one.schema != self.schema:
            raise InputError(f"a filter over {one.schema.name} is none over this schema {self.schema.name}")
        number = heapq.heappop(self._free) if self._free else len(self._filters)
        full = number >= self._low.shape[0]
        if full:
            self._low, self._high = _doubled(self._low), _doubled(self._high)
            self._rough, self._live = _doubled(self._rough), _doubled(self._live)
            self._common, self._found = np.empty_like(self._live), np.empty(2 * number, dtype=np.int64)
        self._low[number], self._high[number], _ = box_of(one)
        self._place_strings(number, one)
        self._filters[number] = one
        self._until_chosen -= 1
        if full or self._until_chosen == 0:
            self._turn_live(number)
            self._choose_buckets()
        else:
            self._open_attributes(one)
            self._turn_live(number)
            self._turn(number)
        return number

    def remove(self, number: int) -> None:
        """Forget a filter."""
        if number not in self._filters:
            raise InputError(f"no filter has the number {number}")
        self._turn(number)
        self._turn_live(number)
        del self._filters[number]
        heapq.heappush(self._free, number)

    def match(self, event: Event) -> list[int]:
        """The numbers of the filters that match an event of the schema, ascending."""
        self._common[:] = self._live
        keys, common, found = self._keys(event), self._common, self._found
        count = find(self._bits, self._cuts, self._active, self._low, self._high, keys, common, found)
        numbers = found[:count]
        doubtful = np.flatnonzero(self._rough[numbers])
        if doubtful.size:
            matching = np.ones(numbers.size, dtype=np.bool_)
            for place, number in zip(doubtful.tolist(), numbers[doubtful].tolist(), strict=True):
                matching[place] = self._filters[number].matches(event)
            numbers = numbers[matching]
        told: list[int] = numbers.tolist()
        return told

    def _keys(self, event: Event) -> Keys:
        """An event's keys in this index. [attribute]"""
        keys = self.schema.keys(event)
        for at in self._strings:
            keys[at] = self._place(at, event[at])
        return keys

    def _place(self, at: int, value: Value) -> int:
        """The key of a string in this index."""
        strings, text = self._strings[at], str(value)
        place = bisect_left(strings, text)
        return 2 * place + (place < len(strings) and strings[place] == text)

    def _place_strings(self, number: int, one: Filter) -> None:
        """Bound a filter's box by the places of its strings, and say whether it is rough."""
        self._rough[number] = False
        for at in self._strings:
            if (found := one.ranges[at]) is not None:
                low, high = self._place(at, found.low), self._place(at, found.high)
                self._rough[number] |= low & high & 1 == 0
                self._low[number, at] = low + (low & 1 and found.low_open)
                self._high[number, at] = high - (high & 1 and found.high_open)

    def _turn(self, number: int) -> None:
        turn_bits(self._bits, self._cuts, self._active, self._low[number], self._high[number], number)

    def _turn_live(self, number: int) -> None:
        self._live[number >> 6] ^= np.uint64(1 << (number & 63))

    def _open_attributes(self, one: Filter) -> None:
        """Give rows to the attributes that a filter is the first to constrain: all others reach through."""
        for at, found in enumerate(one.ranges):
            if found is not None and at not in self._opened:
                self._opened.add(at)
                self._active = np.append(self._active, at)
                self._bits[at] = self._live

    def _choose_buckets(self) -> None:
        rows = np.array(sorted(self._filters), dtype=np.int64)
        width, buckets = len(self.schema.attributes), min(max(rows.size, 1), BUCKETS_MAX)
        self._order_strings()
        low, high = self._low[rows], self._high[rows]
        self._cuts = np.full((width, buckets - 1), KEY_MAX, dtype=np.uint64)
        for at in range(width):
            cuts = _choose_cuts(low[:, at], high[:, at], buckets - 1)
            self._cuts[at, : cuts.size] = cuts
        self._active = np.flatnonzero(((low > 0) | (high < KEY_MAX)).any(axis=0))
        self._opened = set(self._active.tolist())
        self._bits = np.zeros((width, buckets, self._live.size), dtype=np.uint64)
        build_bits(self._bits, self._cuts, self._active, self._low, self._high, rows)
        self._until_chosen = max(rows.size, _ROOM)

    def _order_strings(self) -> None:
        for at in self._strings:
            ranges = [found for one in self._filters.values() if (found := one.ranges[at]) is not None]
            self._strings[at] = sorted({str(end) for found in ranges for end in (found.low, found.high)})
        if self._strings:
            for number, one in self._filters.items():
                self._place_strings(number, one)


def _doubled(array: NDArray[Scalar]) -> NDArray[Scalar]:
    return np.concatenate((array, np.zeros_like(array)))


def _choose_cuts(low: Keys, high: Keys, count: int) -> Keys:
    """Where to cut an attribute: at all ends of ranges, if they are few, or evenly among them. [cut]"""
    ends = np.concatenate((low[low > 0], high[high < KEY_MAX] + np.uint64(1)))
    cuts = np.unique(ends)
    if cuts.size > count:
        ends.sort()
        cuts = np.unique(ends[np.arange(1, count + 1) * ends.size // (count + 1)])
    return cuts


def compile_index() -> None:
    """Have the index's rules compiled, or loaded, by a use of all of them."""
    schema = Schema("none", (Attribute("x", "number", 0, 1),))
    index = FilterIndex(schema)
    for number in range(INDEXED_FROM + 2):
        index.insert(make_filter(schema, {"x": (number / 1000, 1)}))
    index.remove(0)
    index.match((0.5,))
