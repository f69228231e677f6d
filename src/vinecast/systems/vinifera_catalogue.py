"""What content systems know about filters and events, by number.

A filter hangs off a number as a topic does, so that profiles, subscriptions and tables are the same arrays
and sets as in the other systems; equal filters have one number. An attribute has a number too, counted
through all schemas, and its values have places on the circle of profiles. In a simulation one catalogue
serves all.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import InputError
from vinecast.core.interests import Filter, boxes_of, spans_of
from vinecast.core.interests_index import FilterIndex
from vinecast.core.profiles import PLACE_BITS, Profiles, place_of
from vinecast.core.rule import rule
from vinecast.core.schemas import Event, Schema

CACHED = 4096  # ours: events whose matching filters are at hand
COVERED_MAX = 20_000  # ours: with more filters, which of them cover others is not looked for
RANGES_MAX = 8  # ours: separate ranges of an attribute that count in the choice of friends

CIRCLE = 1 << PLACE_BITS
VALUES = frozenset((int, float, str))
"""What values of events can be."""


class Content:
    """An event as a node handles it."""

    __slots__ = ("first", "matching", "places")

    def __init__(self, first: int, places: tuple[int, ...], matching: frozenset[int]) -> None:
        self.first = first
        """The number of its schema's first attribute."""
        self.places = places
        """Where it is on the circle, by each attribute of its schema."""
        self.matching = matching
        """The filters that match it."""


class Catalogue:
    """Schemas by number, and the filters over them."""

    def __init__(self, schemas: Sequence[Schema], filters: Iterable[Filter] = ()) -> None:
        if not schemas:
            raise InputError("a catalogue needs a schema")
        self.schemas = tuple(schemas)
        counts = [len(schema.attributes) for schema in self.schemas]
        self.first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64).tolist()
        """[schema + 1], the number of its first attribute"""
        self.numbers: dict[Filter, int] = {}
        for one in filters:
            self.numbers.setdefault(one, len(self.numbers))
        self.filters = tuple(self.numbers)
        numbers = {schema: number for number, schema in enumerate(self.schemas)}
        if unknown := next((one for one in self.filters if one.schema not in numbers), None):
            raise InputError(f"the catalogue has no schema {unknown.schema.name} like the filter's")
        self.schema_of = np.array([numbers[one.schema] for one in self.filters], dtype=np.int64)
        """[filter]"""
        self.low = np.ones((len(self.filters), self.attributes), dtype=np.int64)
        self.high = np.zeros_like(self.low)
        """[filter, attribute], the first and the last place that match; 1 and 0 in other schemas"""
        self.constrained = np.zeros(self.low.shape, dtype=np.bool_)
        """[filter, attribute]"""
        for number, one in enumerate(self.filters):
            own = slice(self.first[self.schema_of[number]], self.first[self.schema_of[number] + 1])
            spans = spans_of(one) >> np.uint64(64 - PLACE_BITS)
            self.low[number, own], self.high[number, own] = spans.T
            self.constrained[number, own] = [found is not None for found in one.ranges]
        self._rows = [np.flatnonzero(self.schema_of == number) for number in range(len(self.schemas))]
        self._index = [FilterIndex(schema) for schema in self.schemas]
        for index, rows in zip(self._index, self._rows, strict=True):
            for row in rows.tolist():
                index.insert(self.filters[row])
        self._wider: dict[int, tuple[int, ...]] | None = None
        self._found = lru_cache(CACHED)(self._find)

    @property
    def attributes(self) -> int:
        """Of all schemas together."""
        return int(self.first[-1])

    def content(self, schema: int, event: Event) -> Content | None:
        """What a node needs to know of an event; None if it is none of the schema's, in its one form."""
        kinds = tuple(map(type, event))
        if not 0 <= schema < len(self.schemas) or not VALUES.issuperset(kinds):
            return None
        return self._found(schema, event, kinds)

    def _find(self, schema: int, event: Event, kinds: tuple[type, ...]) -> Content | None:
        """kinds: of the values, since 1, 1.0 and True are all the same to a cache"""
        found = self.schemas[schema]
        try:
            names = [attribute.name for attribute in found.attributes]
            inside = found.event(dict(zip(names, event, strict=True)))
        except (InputError, ValueError):  # a value that it cannot have, or not as many as it has attributes
            return None
        if tuple(map(type, inside)) != kinds:
            return None
        numbers = self._rows[schema][self._index[schema].match(event)].tolist()
        places = tuple(place_of(int(point)) for point in found.points(event))
        return Content(self.first[schema], places, frozenset(numbers))

    def wider(self, number: int) -> tuple[int, ...]:
        """The other filters that match all that a filter matches."""
        if self._wider is None:
            self._wider = self._cover()
        return self._wider.get(number, ())

    def _cover(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        if len(self.filters) <= COVERED_MAX:
            for schema, rows in zip(self.schemas, self._rows, strict=True):
                boxes = boxes_of(schema, (self.filters[row] for row in rows.tolist()))
                for inner, outer in _covering(boxes.low, boxes.high):
                    if self.filters[rows[outer]].covers(self.filters[rows[inner]]):
                        found.setdefault(int(rows[inner]), []).append(int(rows[outer]))
        return {number: tuple(others) for number, others in found.items()}


def _covering(low: NDArray[np.uint64], high: NDArray[np.uint64]) -> list[tuple[int, int]]:
    """Pairs of boxes of which the second holds the first. low, high: [box, attribute]"""
    pairs: list[tuple[int, int]] = []
    outer = np.empty(low.shape[0], dtype=np.int64)
    for inner in range(low.shape[0]):
        count = _holding(low, high, inner, outer)
        pairs += [(inner, other) for other in outer[:count].tolist()]
    return pairs


@rule
def _holding(low: NDArray[np.uint64], high: NDArray[np.uint64], inner: int, outer: NDArray[np.int64]) -> int:
    count = 0
    for row in range(low.shape[0]):
        holds = row != inner
        for at in range(low.shape[1]):
            holds = holds and low[row, at] <= low[inner, at] and high[inner, at] <= high[row, at]
        if holds:
            outer[count] = row
            count += 1
    return count


class ContentProfiles(Profiles):
    """Profiles whose topics are filters; what they say besides, and what is published."""

    catalogue: Catalogue
    load: NDArray[np.int64]
    """[peer], what it has to do as an owner of values, when it last said"""
    range_low: NDArray[np.int64]
    range_high: NDArray[np.int64]
    """[peer, attribute, range], what all its filters together want of an attribute, ascending"""
    ranges: NDArray[np.int32]
    """[peer, attribute], how many there are"""
    constrained: NDArray[np.bool_]
    """[peer, attribute], whether a filter of its says anything about the attribute"""
    contents: dict[int, Event]
    """What is in the events that the application publishes, by number."""

    @classmethod
    def populate(cls, seed: int, catalogue: Catalogue, own: Sequence[Sequence[int]]) -> "ContentProfiles":
        """The table of a simulated population, from the numbers of everybody's filters."""
        numbers = [sorted(set(found)) for found in own]
        start = np.concatenate([[0], np.cumsum([len(found) for found in numbers])]).astype(np.int64)
        flat = np.array([number for found in numbers for number in found], dtype=np.int32)
        table = cls.simulated(seed, start, flat, len(catalogue.filters))
        assert isinstance(table, ContentProfiles)
        table.place = _spread_out(table.ids >> np.uint64(64 - PLACE_BITS))
        table.circle[0] = CIRCLE
        table.catalogue = catalogue
        table.load = np.zeros(table.peers, dtype=np.int64)
        shape = table.peers, catalogue.attributes
        table.range_low = np.zeros((*shape, RANGES_MAX), dtype=np.int64)
        table.range_high = np.zeros((*shape, RANGES_MAX), dtype=np.int64)
        table.ranges = np.zeros(shape, dtype=np.int32)
        table.constrained = np.zeros(shape, dtype=np.bool_)
        table.contents = {}
        for peer in range(table.peers):
            table.describe(peer)
        return table

    def describe(self, peer: int) -> None:
        """Bring up to date what is known of a peer's ranges after its filters have changed."""
        rows = self.topics_of(peer)
        self.constrained[peer] = self.catalogue.constrained[rows].any(axis=0)
        for attribute in range(self.catalogue.attributes):
            low, high = self.catalogue.low[rows, attribute], self.catalogue.high[rows, attribute]
            found = _joined(low, high)
            self.ranges[peer, attribute] = len(found)
            for place, (first, last) in enumerate(found):
                self.range_low[peer, attribute, place] = first
                self.range_high[peer, attribute, place] = last


def _joined(low: NDArray[np.int64], high: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges without overlaps, ascending; of too many, those with the smallest gaps are joined."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(zip(low.tolist(), high.tolist(), strict=True)):
        if last < first:
            continue
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    while len(found) > RANGES_MAX:
        gaps = [after[0] - before[1] for before, after in pairwise(found)]
        at = gaps.index(min(gaps))
        found[at : at + 2] = [(found[at][0], found[at + 1][1])]
    return found


def _spread_out(places: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The same places, ascending, but no two alike."""
    found = places.astype(np.int64) - np.arange(places.size)
    found = np.minimum(np.maximum.accumulate(found), CIRCLE - places.size) + np.arange(places.size)
    return np.asarray(found, dtype=np.int32)
