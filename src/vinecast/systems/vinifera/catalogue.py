"""What content systems know about filters and events, by number.

A filter hangs off a number as a topic does, so that profiles, subscriptions and tables are the same arrays
and sets as in the other systems; equal filters have one number. An attribute has a number too, counted
through all schemas, and its values have places on the circle of profiles. In a simulation one catalogue
serves all.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import PLACE_BITS, Profiles, place_of
from vinecast.core.content.filters import Filter, boxes_of, spans_of
from vinecast.core.content.filters_index import FilterIndex
from vinecast.core.content.schemas import Event, Schema
from vinecast.core.errors import InputError
from vinecast.core.rule import rule
from vinecast.systems.vinifera.rules import Ranges

CACHED = 4096  # ours: events whose matching filters are at hand
COVERED_MAX = 20_000  # ours: with more filters, which of them cover others is not looked for
RANGES_MAX = 8  # ours: separate ranges of an attribute that count in the choice of friends

CIRCLE = 1 << PLACE_BITS
VALUES = frozenset((int, float, str))
"""What values of events can be."""


class Span(NamedTuple):
    """What a filter wants of an attribute: places from the first to the last."""

    attribute: int
    low: int
    high: int
    constrained: bool
    """Whether it says anything about the attribute; if not, the span is the whole circle."""


class Content:
    """An event by its attributes' places, and the filters that it matches."""

    __slots__ = ("attributes", "matching", "places")

    def __init__(self, attributes: Sequence[int], places: tuple[int, ...], matching: frozenset[int]) -> None:
        self.attributes = attributes
        """The attributes that it has, by number."""
        self.places = places
        """Where it is on the circle, by each of them."""
        self.matching = matching
        """The filters that match it."""


class Filters(Protocol):
    """What a machine must know about filters and events, by number."""

    @property
    def attributes(self) -> int:
        """Attributes have numbers below this one."""

    def spans(self, number: int) -> Sequence[Span]:
        """What a filter wants; nothing if there is no such filter."""

    def wider(self, number: int) -> Sequence[int]:
        """The other filters that match all that a filter matches."""

    def content(self, topic: int, event: Event) -> Content | None:
        """What a node needs to know of an event; None if it makes no sense."""


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
        self._spans = [self._spans_of(number) for number in range(len(self.filters))]
        self._wider: dict[int, tuple[int, ...]] | None = None
        self._found = lru_cache(CACHED)(self._find)

    @property
    def attributes(self) -> int:
        """Of all schemas together."""
        return int(self.first[-1])

    def spans(self, number: int) -> Sequence[Span]:
        """See ``Filters``: all attributes of a filter's schema."""
        return self._spans[number] if 0 <= number < len(self._spans) else ()

    def _spans_of(self, number: int) -> tuple[Span, ...]:
        first, end = (self.first[int(self.schema_of[number]) + i] for i in range(2))
        columns = (of[number, first:end].tolist() for of in (self.low, self.high, self.constrained))
        return tuple(map(Span, range(first, end), *columns))

    def content(self, topic: int, event: Event) -> Content | None:
        """See ``Filters``: of a schema's event, in its one form. topic: the schema's number"""
        kinds = tuple(map(type, event))
        if not 0 <= topic < len(self.schemas) or not VALUES.issuperset(kinds):
            return None
        return self._found(topic, event, kinds)

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
        return Content(range(self.first[schema], self.first[schema + 1]), places, frozenset(numbers))

    def wider(self, number: int) -> Sequence[int]:
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


class ContentShared:
    """What profiles say besides filters, and what is published: one a table of profiles."""

    def __init__(self, profiles: Profiles, filters: Filters, attributes: int) -> None:
        """attributes: those with lower numbers count in the choice of friends"""
        self._profiles, self.filters = profiles, filters
        self.load: NDArray[np.int64] = np.zeros(profiles.peers, dtype=np.int64)
        """[peer], what it has to do as an owner of values, when it last said"""
        shape = profiles.peers, attributes
        self.ranges = Ranges(
            np.zeros((*shape, RANGES_MAX), dtype=np.int64),
            np.zeros((*shape, RANGES_MAX), dtype=np.int64),
            np.zeros(shape, dtype=np.int32),
            np.zeros(shape, dtype=np.bool_),
        )
        """What all filters of a peer together want."""
        self.contents: dict[int, Event] = {}
        """What is in the events that the application publishes, by number."""

    def describe(self, peer: int) -> None:
        """Bring up to date what is known of a peer's ranges after its filters have changed."""
        low, high, number, constrained = self.ranges
        found: dict[int, list[tuple[int, int]]] = {}
        constrained[peer] = False
        for one in self._profiles.topics_of(peer).tolist():
            for span in self.filters.spans(one):
                if span.attribute < number.shape[1]:
                    found.setdefault(span.attribute, []).append((span.low, span.high))
                    constrained[peer, span.attribute] |= span.constrained
        number[peer] = 0
        for attribute, spans in found.items():
            for place, (first, last) in enumerate(_joined(spans)):
                low[peer, attribute, place], high[peer, attribute, place] = first, last
                number[peer, attribute] = place + 1


class ContentProfiles(Profiles):
    """The profiles of a simulated population, whose topics are filters."""

    catalogue: Catalogue
    shared: ContentShared

    @property
    def contents(self) -> dict[int, Event]:
        """What is in the events that the application publishes, by number."""
        return self.shared.contents

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
        table.shared = ContentShared(table, catalogue, catalogue.attributes)
        for peer in range(table.peers):
            table.shared.describe(peer)
        return table


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges without overlaps, ascending; of too many, those with the smallest gaps are joined."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
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
