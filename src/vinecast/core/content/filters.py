"""Filters: which events of a schema somebody wants (S2 §4.1).

A *filter* is a conjunction: a range for some of the attributes, anything for the others. A *filter
set* is a disjunction: an event is wanted if one of its filters matches. Filters are kept in one form: ranges
are cut to the attribute's own range, one that holds all of it is no constraint, and open ends of whole
numbers, numbers and times become closed ones at the next value. So two filters over these types match the
same events if and only if they are equal. A range that holds nothing is an ``InputError``; a filter without
constraints matches everything.

As arrays, a filter is a box: of every attribute the lowest and the highest key (``core/content/schemas``),
both included, and rules work on those. Boxes say exactly which events match, except where a string longer
than its key bounds a range: such a box is *rough*, never too small, and the filter itself decides.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.content.schemas import (
    KEY_BYTES,
    KEY_MAX,
    NUMBER,
    STRING,
    Attribute,
    Event,
    Keys,
    Schema,
    Value,
)
from vinecast.core.errors import InputError
from vinecast.core.rule import inner_rule, rule

_LEAST = "\x01"
"""The first letter that a string can have."""

End = tuple[Any, int]
"""An end of a range, comparable with others: a value, and −1 or 1 for just below or just above it."""


@dataclass(frozen=True, slots=True)
class Range:
    """Values from one to another; ``range_of`` makes it, in its one form."""

    low: Value
    high: Value
    low_open: bool = False
    """Whether ``low`` itself does not belong to it; of strings only."""
    high_open: bool = False
    """Whether ``high`` itself does not belong to it; of strings only."""

    @property
    def low_end(self) -> End:
        """Where it begins."""
        return self.low, int(self.low_open)

    @property
    def high_end(self) -> End:
        """Where it ends."""
        return self.high, -int(self.high_open)

    def holds(self, value: Value) -> bool:
        """Whether a value of the attribute lies in it."""
        return self.low_end <= (value, 0) <= self.high_end

    def covers(self, other: "Range") -> bool:
        """Whether it holds all that another holds."""
        return self.low_end <= other.low_end and other.high_end <= self.high_end


def range_of(
    attribute: Attribute,
    low: object = None,
    high: object = None,
    low_open: bool = False,
    high_open: bool = False,
) -> Range | None:
    """The values of an attribute between two ends, each of which may be missing; None if these are all.

    Ends beyond the attribute's range are cut to it. InputError if nothing is left.
    """
    first, last = (attribute.low, 0), (attribute.high, 0)
    if low is not None:
        first = max(first, _low_end(attribute, attribute.read(low), low_open))
    if high is not None:
        last = min(last, _high_end(attribute, attribute.read(high), high_open))
    if first > last:
        raise InputError(f"no {attribute.name} is in this range: it goes {attribute.range_text}")
    return _range(attribute, first, last)


def _range(attribute: Attribute, first: End, last: End) -> Range | None:
    if first == (attribute.low, 0) and last == (attribute.high, 0):
        return None
    return Range(first[0], last[0], first[1] > 0, last[1] < 0)


def _low_end(attribute: Attribute, value: Any, is_open: bool) -> End:
    if attribute.kind == STRING:
        return (value[:-1], 1) if value.endswith(_LEAST) and not is_open else (value, int(is_open))
    if not is_open:
        return value, 0
    return (math.nextafter(value, math.inf) if attribute.kind == NUMBER else value + 1), 0


def _high_end(attribute: Attribute, value: Any, is_open: bool) -> End:
    if attribute.kind == STRING:
        return (value[:-1], 0) if value.endswith(_LEAST) and is_open else (value, -int(is_open))
    if not is_open:
        return value, 0
    return (math.nextafter(value, -math.inf) if attribute.kind == NUMBER else value - 1), 0


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunction of ranges; ``make_filter`` and the text form make it."""

    schema: Schema
    ranges: tuple[Range | None, ...]
    """By attribute; None where anything will do."""

    def matches(self, event: Event) -> bool:
        """Whether an event of its schema is wanted."""
        pairs = zip(self.ranges, event, strict=True)
        return all(one is None or one.holds(value) for one, value in pairs)

    def covers(self, other: "Filter") -> bool:
        """Whether it matches all that another filter of its schema matches."""
        pairs = zip(self.ranges, other.ranges, strict=True)
        return all(one is None or (two is not None and one.covers(two)) for one, two in pairs)


def everything(schema: Schema) -> Filter:
    """The filter that matches every event."""
    return Filter(schema, (None,) * len(schema.attributes))


def make_filter(schema: Schema, ranges: Mapping[str, tuple[object, object]]) -> Filter:
    """A filter from the lowest and the highest value, both included, of some attributes; None for no end."""
    found: list[Range | None] = [None] * len(schema.attributes)
    for name, (low, high) in ranges.items():
        place = schema.place(name)
        found[place] = range_of(schema.attributes[place], low, high)
    return Filter(schema, tuple(found))


def overlap(attribute: Attribute, one: Range | None, two: Range | None) -> tuple[Range | None, ...]:
    """What two ranges of an attribute both hold: one range, or none."""
    if one is None or two is None:
        return (one or two,)
    first, last = max(one.low_end, two.low_end), min(one.high_end, two.high_end)
    return (_range(attribute, first, last),) if first <= last else ()


def hull(a: Filter, b: Filter) -> Filter:
    """The smallest filter that matches all that either matches; it may match more."""
    ranges: list[Range | None] = []
    for attribute, one, two in zip(a.schema.attributes, a.ranges, b.ranges, strict=True):
        if one is None or two is None:
            ranges.append(None)
        else:
            first, last = min(one.low_end, two.low_end), max(one.high_end, two.high_end)
            ranges.append(_range(attribute, first, last))
    return Filter(a.schema, tuple(ranges))


def merge(a: Filter, b: Filter) -> Filter | None:
    """The filter that matches exactly what either matches; None where there is none that we see.

    There is one if one covers the other, or if they differ in one attribute only and their ranges of it
    overlap or touch.
    """
    if a.covers(b):
        return a
    if b.covers(a):
        return b
    unlike = [place for place, (one, two) in enumerate(zip(a.ranges, b.ranges, strict=True)) if one != two]
    if len(unlike) > 1:
        return None
    one, two = a.ranges[unlike[0]], b.ranges[unlike[0]]
    if one is None or two is None:  # then one of the two covers the other
        return None
    if two.low_end < one.low_end:
        one, two = two, one
    return hull(a, b) if _meet(a.schema.attributes[unlike[0]], one.high_end, two.low_end) else None


def _meet(attribute: Attribute, last: End, first: End) -> bool:
    """Whether no value lies between the end of a range and the beginning of a later one."""
    if first <= last:
        return True
    if attribute.kind == STRING:
        return first[0] == last[0] and first[1] - last[1] == 1
    return attribute.key(last[0]) + 1 == attribute.key(first[0])


@dataclass(frozen=True, slots=True)
class FilterSet:
    """A disjunction of filters. With none, nothing is wanted."""

    schema: Schema
    filters: tuple[Filter, ...]

    def matches(self, event: Event) -> bool:
        """Whether an event of its schema is wanted."""
        return any(one.matches(event) for one in self.filters)

    def covers(self, other: Filter) -> bool:
        """Whether one of its filters alone covers another; where none does, all together still may."""
        return any(one.covers(other) for one in self.filters)

    def simplified(self) -> "FilterSet":
        """The same filter set with fewer filters: what others cover is gone, what can be merged exactly
        is."""
        kept: list[Filter] = []
        for one in self.filters:
            place = 0
            while place < len(kept):
                merged = merge(kept[place], one)
                if merged is None:
                    place += 1
                else:  # and may now merge with what did not before
                    del kept[place]
                    one, place = merged, 0
            kept.append(one)
        return FilterSet(self.schema, tuple(kept))


def spans_of(one: Filter) -> NDArray[np.uint64]:
    """The first and the last point of the circle of every attribute's range. [attribute, 2]

    The whole circle where anything will do. No event that matches has a point outside its span.
    """
    spans = np.empty((len(one.ranges), 2), dtype=np.uint64)
    for place, (attribute, found) in enumerate(zip(one.schema.attributes, one.ranges, strict=True)):
        spans[place] = (
            (0, KEY_MAX) if found is None else (attribute.point(found.low), attribute.point(found.high))
        )
    return spans


class Boxes(NamedTuple):
    """Filters of one schema as arrays."""

    low: NDArray[np.uint64]
    """[filter, attribute], the lowest key that matches; 0 where anything will do"""
    high: NDArray[np.uint64]
    """[filter, attribute], the highest key that matches; 2⁶⁴ − 1 where anything will do"""
    rough: NDArray[np.bool_]
    """[filter], whether an event inside the box need not match"""


def boxes_of(schema: Schema, filters: Iterable[Filter]) -> Boxes:
    """The filters' boxes, in their order."""
    found = [box_of(one) for one in filters]
    low = np.zeros((len(found), len(schema.attributes)), dtype=np.uint64)
    high, rough = low.copy(), np.zeros(len(found), dtype=np.bool_)
    for row, (lows, highs, is_rough) in enumerate(found):
        low[row], high[row], rough[row] = lows, highs, is_rough
    return Boxes(low, high, rough)


def box_of(one: Filter) -> tuple[list[int], list[int], bool]:
    """A filter's lowest keys and highest keys [attribute], and whether its box is rough."""
    lows, highs, rough = [], [], False
    for attribute, found in zip(one.schema.attributes, one.ranges, strict=True):
        if found is None:
            low, high = 0, KEY_MAX
        else:
            low, high = attribute.key(found.low), attribute.key(found.high)
            if isinstance(found.low, str) and isinstance(found.high, str):
                # A string shorter than a key has that key for itself; one as long shares it with longer ones.
                first, last = len(found.low.encode()), len(found.high.encode())
                low += found.low_open and first < KEY_BYTES
                high -= found.high_open and last <= KEY_BYTES
                rough = rough or first + found.low_open > KEY_BYTES or last - found.high_open >= KEY_BYTES
        lows.append(low)
        highs.append(high)
    return lows, highs, rough


@inner_rule
def in_box(low: Keys, high: Keys, keys: Keys) -> bool:
    """Whether an event's keys lie in a box. low, high, keys: [attribute]"""
    at = 0
    while at < keys.size and low[at] <= keys[at] and keys[at] <= high[at]:
        at += 1
    return at == keys.size


@rule
def scan(low: NDArray[np.uint64], high: NDArray[np.uint64], keys: Keys, found: NDArray[np.int64]) -> int:
    """Write down which boxes an event lies in, ascending; how many. low, high: [filter, attribute]"""
    count = 0
    for row in range(low.shape[0]):
        if in_box(low[row], high[row], keys):
            found[count] = row
            count += 1
    return count
