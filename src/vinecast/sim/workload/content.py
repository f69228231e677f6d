"""Workloads of content systems: who wants what, and what is published (S2 §4.6.1).

A filter of ``random`` is a box at a random place that holds one in 32 of all points, whatever the number of
attributes: the more there are, the wider its range of each. Those of ``skewed`` and ``zipf`` are drawn from
32 boxes of that size, the same for all and spread evenly over every attribute, of which some are more popular
than others. S2 gives its Zipf
distribution a size of 32 and a skew of e⁻¹ and leaves open what that means: as an exponent (``zipf``,
P(rank) ∝ rank^−1/e) it is nearly uniform; as a factor from rank to rank (``skewed``, P(rank) ∝ e^−rank) it
makes some events interesting to most, which is what S2 reports.

``stocks`` is a schema as people have them: a symbol by Zipf, a price range, buy or sell. ``higgs`` is what
people did on Twitter in one week (sim/workload/higgs.py), and needs a file.

Whoever publishes draws an event from one of its own filters, so that events are where filters are; of
``higgs``, an act of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.config import check, limited
from vinecast.core.content.filters import Filter, Range, make_filter
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.content.schemas import ATTRIBUTES_MAX, Attribute, Event, Schema, Value
from vinecast.core.content.schemas_text import parse_schema
from vinecast.core.draws import below_array, purpose, shuffled, stream, unit_array
from vinecast.core.errors import InputError
from vinecast.sim.workload.higgs import Acts, population, read_acts
from vinecast.systems.vinifera.catalogue import Catalogue, ContentProfiles

KINDS = ("random", "skewed", "zipf", "stocks")
GIVEN, HIGGS = "given", "higgs"
SIZE = 32  # S2 §4.6.1: the size of the Zipf distribution
SKEW = math.exp(-1)  # S2 §4.6.1
SPACE = 2**15  # S2 §4.6.1: the size of the identifier space, here of an attribute's range
SYMBOLS = 200  # ours, as are all numbers of the stocks
PRICE_MAX = 1000.0
VOLUME_MAX = 1_000_000

_PLACES = purpose("content.places")
_RANKS = purpose("content.ranks")
_STOCKS = purpose("content.stocks")
_EVENTS = purpose("content.events")

Units = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FiltersConfig:
    """Who wants what, for systems with filters, and how much is published: a scenario's table ``content``."""

    kind: str = limited("random", one_of=(*KINDS, HIGGS, GIVEN))
    """One of the workloads of this module, or what ``schema`` and ``where`` say."""
    attributes: int = limited(1, at_least=1, at_most=ATTRIBUTES_MAX)
    """Of the schema, for ``random``, ``skewed`` and ``zipf``."""
    filters: int = limited(1, at_least=1, at_most=1000)
    """Of each node; those of ``given`` are what they are."""
    one_in: int = limited(SIZE, at_least=2, at_most=1_000_000)
    """A filter of ``random``, ``skewed`` or ``zipf`` matches one of so many points of the space."""
    events: int = limited(20, at_least=1, at_most=1_000_000)
    """Published each time, by random nodes."""
    capacity: int | None = limited(None, at_least=1, at_most=1_000_000)
    """Copies of events that a node can handle in a cycle; the rest is dropped. None: all of them."""
    schema: str | None = None
    """Of ``given``, as in ``price number 0..1000, order string`` (docs/content.md)."""
    where: tuple[str, ...] = ()
    """Of ``given``: sets of filters, as in ``price < 10 and order = "buy"``; nodes have them in turn."""

    def __post_init__(self) -> None:
        check(self)
        if (self.kind == GIVEN) != (self.schema is not None and bool(self.where)):
            raise InputError('schema and where go with kind = "given", and the other way round')
        if self.kind == GIVEN:
            self.given()

    def given(self) -> tuple[Schema, list[tuple[Filter, ...]]]:
        """The schema, and the filters of each set."""
        try:
            schema = parse_schema("given", self.schema or "")
        except InputError as error:
            raise InputError(f"schema: {error}") from None
        found = []
        for i, text in enumerate(self.where):
            try:
                found.append(parse_filter_set(schema, text).filters)
            except InputError as error:
                raise InputError(f"where[{i}]: {error}") from None
        return schema, found

    def workload(self, seed: int, nodes: int, data: Path | None = None) -> "ContentWorkload":
        """For so many nodes. data: the folder that holds the file of ``higgs``"""
        if self.kind == HIGGS:
            return activity_workload(read_acts(data), seed, nodes, self.filters)
        if self.kind != GIVEN:
            return content_workload(self.kind, seed, nodes, self.attributes, self.filters, self.one_in)
        schema, found = self.given()
        return ContentWorkload(schema, tuple(found[node % len(found)] for node in range(nodes)))


@dataclass(frozen=True, eq=False)
class ContentWorkload:
    """A schema, and everybody's filters over it."""

    schema: Schema
    filters: tuple[tuple[Filter, ...], ...]
    """[node]"""
    events: tuple[tuple[Event, ...], ...] | None = None
    """[node], what it publishes, each again and again; None: whatever its filters match"""

    def profiles(self, seed: int) -> ContentProfiles:
        """The table of a population with these filters."""
        catalogue = Catalogue([self.schema], (one for found in self.filters for one in found))
        own = [[catalogue.numbers[one] for one in found] for found in self.filters]
        return ContentProfiles.populate(seed, catalogue, own)

    def event(self, seed: int, number: int, publisher: int) -> Event:
        """What a node publishes as event ``number``: one of its events, or a point in one of its own filters,
        or anywhere if it has none."""
        units = unit_array(stream(seed, _EVENTS, number, publisher), np.arange(self.width + 1))
        if self.events is not None:
            given = self.events[publisher]
            return given[int(units[0] * len(given))]
        own = self.filters[publisher]
        ranges = own[int(units[0] * len(own))].ranges if own else (None,) * self.width
        return tuple(
            _draw(attribute if one is None else one, unit)
            for attribute, one, unit in zip(self.schema.attributes, ranges, units[1:].tolist(), strict=True)
        )

    @property
    def width(self) -> int:
        """The number of attributes."""
        return len(self.schema.attributes)


def _draw(among: Attribute | Range, unit: float) -> Value:
    """A value between the lowest and the highest, both included; of strings, one at an end."""
    low, high = among.low, among.high
    if isinstance(low, str) and isinstance(high, str):
        if isinstance(among, Attribute):
            return low
        ends = (low, high) if unit < 0.5 else (high, low)
        return next((end for end in (*ends, low + "a") if among.holds(end)), low)
    if isinstance(low, int) and isinstance(high, int):
        return low + int(unit * (high - low + 1))
    return min(float(low) + unit * (float(high) - float(low)), float(high))


def activity_workload(acts: Acts, seed: int, nodes: int, each: int = 1) -> ContentWorkload:
    """People who want the like of what they did, and publish what they did; up to ``each`` filters a node."""
    return ContentWorkload(*population(acts, seed, nodes, each))


def content_workload(
    kind: str, seed: int, nodes: int, attributes: int = 1, each: int = 1, one_in: int = SIZE
) -> ContentWorkload:
    """One of ``KINDS``, ``each`` filters a node; the stocks' attributes and filters are what they are.

    one_in: a filter matches one of so many points
    """
    if kind not in KINDS:
        raise InputError(f"the content workload must be one of {', '.join(KINDS)}, not {kind!r}")
    if min(nodes, attributes, each) < 1:
        raise InputError("a content workload needs at least a node, an attribute and a filter each")
    if kind == "stocks":
        return _stocks(seed, nodes, each)
    schema = Schema("plain", tuple(Attribute(f"a{i + 1}", "number", 0, SPACE) for i in range(attributes)))
    width = one_in ** (-1 / attributes)
    if kind == "random":
        corners = unit_array(stream(seed, _PLACES, 0, 0), np.arange(nodes * each * attributes))
        found = _boxes(schema, corners.reshape(-1, attributes), width)
    else:
        orders = [shuffled(stream(seed, _PLACES, 1, attribute), SIZE) for attribute in range(attributes)]
        boxes = _boxes(schema, np.stack(orders, axis=1) / (SIZE - 1), width)
        units = unit_array(stream(seed, _RANKS, 0, 0), np.arange(nodes * each))
        found = [boxes[rank] for rank in _ranks(kind, units).tolist()]
    own = tuple(tuple(dict.fromkeys(found[node * each : (node + 1) * each])) for node in range(nodes))
    return ContentWorkload(schema, own)


def _ranks(kind: str, units: Units) -> NDArray[np.int64]:
    rank = np.arange(SIZE)
    weight = SKEW**rank if kind == "skewed" else (rank + 1.0) ** -SKEW
    reach = np.cumsum(weight)
    return np.asarray(np.searchsorted(reach[:-1], units * reach[-1], side="right"))


def _boxes(schema: Schema, corners: Units, width: float) -> list[Filter]:
    """Filters of the same width of every attribute. corners: [filter, attribute], in units"""
    names = [attribute.name for attribute in schema.attributes]
    lows = corners * (1 - width) * SPACE
    return [
        make_filter(schema, {name: (low, low + width * SPACE) for name, low in zip(names, row, strict=True)})
        for row in lows.tolist()
    ]


def _stocks(seed: int, nodes: int, each: int) -> ContentWorkload:
    schema = Schema(
        "stocks",
        (
            Attribute("symbol", "string"),
            Attribute("price", "number", 0, PRICE_MAX),
            Attribute("volume", "integer", 1, VOLUME_MAX),
            Attribute("order", "string"),
        ),
    )
    weight = 1.0 / np.arange(1, SYMBOLS + 1)
    reach = np.cumsum(weight)
    count = nodes * each
    units = unit_array(stream(seed, _STOCKS, 0, 0), np.arange(4 * count)).reshape(count, 4)
    symbols = np.searchsorted(reach[:-1], units[:, 0] * reach[-1], side="right")
    sides = below_array(stream(seed, _STOCKS, 1, 0), np.arange(count), 2)
    found = [
        make_filter(
            schema,
            {
                "symbol": (_symbol(symbol), _symbol(symbol)),
                "price": (a * PRICE_MAX / 2, (0.5 + b / 2) * PRICE_MAX),
                "order": (("buy", "sell")[side],) * 2,
            },
        )
        for symbol, (_, a, b, _), side in zip(symbols.tolist(), units.tolist(), sides.tolist(), strict=True)
    ]
    own = tuple(tuple(dict.fromkeys(found[node * each : (node + 1) * each])) for node in range(nodes))
    return ContentWorkload(schema, own)


def _symbol(number: int) -> str:
    """A short name, letters spread over the alphabet."""
    letters: Sequence[str] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    number = number * 7919 % 26**3
    return letters[number // 676] + letters[number // 26 % 26] + letters[number % 26]
