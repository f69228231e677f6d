"""The filters that a live node of a content system knows, by number: its own, those on cards, and those that
it was asked for. Numbers are those of names (``peer/table/topic_numbers``).

A topic is a filter too: it wants what is at its own place, of attribute 0. The attributes of schemas have
numbers from 1 on, for as long as a filter constrains them.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from vinecast.core.content.filters import Filter, make_filter
from vinecast.core.content.filters_index import INDEXED_FROM, FilterIndex, WhenCompiled
from vinecast.core.content.names import LAST_PLACE, Bound, is_filter, read_name
from vinecast.core.content.schemas import ATTRIBUTES_MAX, INTEGER, Attribute, Event, Schema
from vinecast.systems.common.router import Names
from vinecast.systems.vinifera.catalogue import Content, Span

TOPIC = 0
"""The attribute of topics."""
UNKNOWN = -1
"""The attribute of an event that no filter here constrains."""
COVERED_MAX = 1024
"""With more filters of a schema, which of them cover others is not looked for (ours)."""
WIDER_MAX = 16
"""Filters that cover another, as far as they are looked for (ours): nobody can make a node look at many."""
AT_HAND = 256
"""Events whose filters are at hand (ours): copies of one come by each of its attributes."""


class _Corners:
    """Boxes as arrays, for a look at all of them at once."""

    def __init__(self) -> None:
        self._ends: NDArray[np.int32] = np.zeros((2, ATTRIBUTES_MAX, 1), dtype=np.int32)
        """[end, attribute, row]: the first place, counted downwards, and the last; −1 where nobody is. So a
        box holds another if it has none of its ends below the other's."""
        self._numbers: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        """[row]"""
        self._rows: dict[int, int] = {}
        self._free: list[int] = []
        self._width = 0
        """Attributes that any of them ever constrained."""

    def add(self, number: int, bounds: tuple[Bound, ...]) -> None:
        row = self._free.pop() if self._free else len(self._rows)
        if row == self._numbers.size:
            self._ends = np.concatenate((self._ends, np.zeros_like(self._ends)), axis=2)
            self._numbers = np.concatenate((self._numbers, np.zeros_like(self._numbers)))
        self._rows[number], self._numbers[row] = row, number
        self._ends[:, :, row] = LAST_PLACE
        for at, low, high in bounds:
            self._ends[:, at, row] = LAST_PLACE - low, high
        self._width = max(self._width, bounds[-1].attribute + 1)

    def remove(self, number: int) -> None:
        row = self._rows.pop(number)
        self._ends[:, :, row] = -1
        self._free.append(row)

    def cover(self, number: int, most: int) -> tuple[int, ...]:
        """So many other boxes that hold one, at the most."""
        row, rows = self._rows[number], len(self._rows) + len(self._free)
        ends = self._ends[:, : self._width, :rows]
        holding = np.asarray((ends >= ends[:, :, row : row + 1]).all(axis=(0, 1)))
        holding[row] = False
        return tuple(self._numbers[:rows][holding][:most].tolist())


class _Family:
    """The filters of one schema, by number, and an index of them when they are many."""

    def __init__(self, when_compiled: WhenCompiled) -> None:
        self._when_compiled = when_compiled
        self.boxes: dict[int, tuple[Bound, ...]] = {}
        self._corners = _Corners()
        self._wider: dict[int, tuple[int, ...]] = {}
        self._index: FilterIndex | None = None
        self._places: dict[int, int] = {}
        """Number → place in the index"""
        self._numbers: dict[int, int] = {}
        self._is_awaited = False

    def add(self, number: int, bounds: tuple[Bound, ...]) -> None:
        self.boxes[number] = bounds
        self._corners.add(number, bounds)
        self._wider.clear()
        if self._index is not None:
            self._enter(number)
        elif len(self.boxes) >= INDEXED_FROM and not self._is_awaited:
            self._is_awaited = True
            self._when_compiled(self._build)

    def remove(self, number: int) -> None:
        del self.boxes[number]
        self._corners.remove(number)
        self._wider.clear()
        if self._index is not None:
            place = self._places.pop(number)
            del self._numbers[place]
            self._index.remove(place)

    def match(self, places: tuple[int, ...]) -> list[int]:
        """The filters in whose boxes an event lies."""
        if self._index is not None:
            width = len(self._index.schema.attributes)
            event = (*places[:width], *([0] * (width - len(places))))
            found = [self._numbers[place] for place in self._index.match(event)]
            return [number for number in found if self.boxes[number][-1].attribute < len(places)]
        return [
            number
            for number, bounds in self.boxes.items()
            if bounds[-1].attribute < len(places)
            and all(low <= places[at] <= high for at, low, high in bounds)
        ]

    def cover(self, number: int) -> tuple[int, ...]:
        """Other filters that hold a filter's box."""
        if len(self.boxes) > COVERED_MAX:
            return ()
        if number not in self._wider:
            self._wider[number] = self._corners.cover(number, WIDER_MAX)
        return self._wider[number]

    def _build(self) -> None:
        """An index of as many attributes as there are; anew when there are more."""
        width = 1 + max((bounds[-1].attribute for bounds in self.boxes.values()), default=0)
        names = (Attribute(f"a{at}", INTEGER, 0, LAST_PLACE) for at in range(width))
        self._index = FilterIndex(Schema("places", tuple(names)))
        self._places, self._numbers = {}, {}
        for number in list(self.boxes):
            self._enter(number)

    def _enter(self, number: int) -> None:
        assert self._index is not None
        bounds = self.boxes[number]
        if bounds[-1].attribute >= len(self._index.schema.attributes):
            self._build()
            return
        place = self._index.insert(_as_filter(self._index.schema, bounds))
        self._places[number], self._numbers[place] = place, number


def _as_filter(schema: Schema, bounds: tuple[Bound, ...]) -> Filter:
    return make_filter(schema, {f"a{at}": (low, high) for at, low, high in bounds})


class FilterTable:
    """One node's (see ``Filters``). ``place_of``: where a topic is on the circle."""

    attributes = 1 + ATTRIBUTES_MAX

    def __init__(self, topics: Names, place_of: Callable[[str], int], when_compiled: WhenCompiled) -> None:
        self._names, self._place_of, self._when_compiled = topics.names, place_of, when_compiled
        self._families: dict[str, _Family] = {}
        self._digests: dict[int, str] = {}
        self._spans: dict[int, tuple[Span, ...]] = {}
        self._attributes: dict[tuple[str, int], list[int]] = {}
        """Schema and attribute → its number, and how many filters constrain it"""
        self._free = [1]
        """Numbers of attributes that are nobody's: a heap; all above its last one are free, too."""
        self._at_hand: OrderedDict[tuple[int, Event], Content] = OrderedDict()
        topics.watch(self._take, self._leave)

    # As names come and go.

    def _take(self, number: int, name: str) -> None:
        self._at_hand.clear()
        if not is_filter(name):
            place = self._place_of(name)
            self._spans[number] = (Span(TOPIC, place, place, True),)
            return
        box = read_name(name)
        assert box is not None, "names are checked where they come in"
        self._digests[number] = box.digest
        self._families.setdefault(box.digest, _Family(self._when_compiled)).add(number, box.bounds)
        self._spans[number] = tuple(
            Span(self._use(box.digest, at), low, high, True) for at, low, high in box.bounds
        )

    def _leave(self, number: int) -> None:
        self._at_hand.clear()
        del self._spans[number]
        digest = self._digests.pop(number, None)
        if digest is None:
            return
        family = self._families[digest]
        for bound in family.boxes[number]:
            self._let_go(digest, bound.attribute)
        family.remove(number)
        if not family.boxes:
            del self._families[digest]

    def _use(self, digest: str, at: int) -> int:
        known = self._attributes.get((digest, at))
        if known is None:
            number = heapq.heappop(self._free)
            if not self._free:
                self._free.append(number + 1)
            known = self._attributes[digest, at] = [number, 0]
        known[1] += 1
        return known[0]

    def _let_go(self, digest: str, at: int) -> None:
        known = self._attributes[digest, at]
        known[1] -= 1
        if not known[1]:
            heapq.heappush(self._free, known[0])
            del self._attributes[digest, at]

    # What the machine asks.

    def spans(self, number: int) -> Sequence[Span]:
        return self._spans.get(number, ())

    def wider(self, number: int) -> Sequence[int]:
        digest = self._digests.get(number)
        return () if digest is None else self._families[digest].cover(number)

    def content(self, topic: int, event: Event) -> Content | None:
        """See ``Filters``. An event is the digest of its schema, and where it is by each attribute; both are
        empty for an event that has none."""
        known = self._at_hand.get((topic, event))
        if known is None:
            name = self._names[topic] if 0 <= topic < len(self._names) else None
            if name is None or is_filter(name):
                return None
            known = self._find(topic, event)
            self._at_hand[topic, event] = known
            if len(self._at_hand) > AT_HAND:
                self._at_hand.popitem(last=False)
        return known

    def _find(self, topic: int, event: Event) -> Content:
        digest, places = str(event[0]), tuple(map(int, event[1:]))
        family = self._families.get(digest)
        matching = frozenset([topic, *(family.match(places) if family is not None else ())])
        known = [self._attributes.get((digest, at)) for at in range(len(places))]
        attributes = [TOPIC, *(UNKNOWN if found is None else found[0] for found in known)]
        return Content(attributes, (self._spans[topic][0].low, *places), matching)

    # For the wire.

    def index_of(self, number: int, attribute: int) -> int:
        """Which of a filter's own attributes that is: 0 for the topic, else one more than in its schema."""
        if attribute == TOPIC:
            return TOPIC
        digest = self._digests[number]
        bounds = self._families[digest].boxes[number]
        return 1 + next(b.attribute for b in bounds if self._attributes[digest, b.attribute][0] == attribute)

    def attribute_of(self, number: int, index: int) -> int:
        """The other way round; UNKNOWN if a filter says nothing about that one."""
        digest = self._digests.get(number)
        if digest is None:
            return TOPIC if index == TOPIC else UNKNOWN
        named = any(bound.attribute == index - 1 for bound in self._families[digest].boxes[number])
        return self._attributes[digest, index - 1][0] if named else UNKNOWN
