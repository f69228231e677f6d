"""Filters as nodes tell each other of them: names, as topics have.

What routing needs of a filter is which schema it is over, and for each attribute that it constrains the first
and the last place on the circle that match. That is what its name says, so that whoever handles it need not
know the schema. An event says where it is on the circle by each attribute, in a header that its publisher
signs. Places preserve order, so an event that matches a filter lies in its box; the few others that do are
left out by the subscriber, who has the filter itself.

    #0f3a…c2;0:00000000-0147ae14;3:55aa0000-55aa0000         (the schema's digest; attributes 0 and 3)

No topic has a ``#``, so that none looks like a filter.
"""

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from vinecast.core.arrays.profiles import PLACE_BITS, place_of
from vinecast.core.content.filters import Filter, FilterSet, spans_of
from vinecast.core.content.schemas import ATTRIBUTES_MAX, Event, Schema
from vinecast.core.content.schemas_text import schema_digest
from vinecast.core.log.event_record import EventRecord

SCHEMA, PLACES = "schema", "places"
"""Headers of an event: its schema's digest, and where it is by each attribute."""
MARK = "#"
BOUNDS_MAX = 8
"""Attributes that a name constrains at the most, those of which the filter wants the least (ours): a name is
as short as a topic's, and wanting more of the others loses nothing."""

digest_of = lru_cache(256)(schema_digest)

_NAME = re.compile(r"#([0-9a-f]{32})((?:;(?:0|[1-9][0-9]?):[0-7][0-9a-f]{7}-[0-7][0-9a-f]{7})+)")
LAST_PLACE = (1 << PLACE_BITS) - 1


class Bound(NamedTuple):
    """What a filter wants of an attribute of its schema: places from the first to the last."""

    attribute: int
    low: int
    high: int


class Box(NamedTuple):
    """What a name says."""

    digest: str
    bounds: tuple[Bound, ...]
    """By attribute, ascending."""


def name_of(one: Filter) -> str:
    """The name of a filter; that of the schema's topic if it wants everything."""
    return _written(one.schema, _bounds_of(one))


def names_of(schema: Schema, filters: Sequence[Filter], most: int) -> frozenset[str]:
    """At most so many names that ask for all that these filters want; if there are more filters, also for
    what lies between some of them.

    Of those that constrain the same attributes, some that are next to each other become one.
    """
    if len(filters) <= most:
        return frozenset(map(name_of, FilterSet(schema, tuple(filters)).simplified().filters))
    families: dict[tuple[int, ...], list[tuple[Bound, ...]]] = {}
    for bounds in sorted(set(map(_bounds_of, filters))):
        families.setdefault(tuple(bound.attribute for bound in bounds), []).append(bounds)
    if () in families or len(families) > most:
        return frozenset([schema.name])
    each = 1
    while sum(-(-len(family) // each) for family in families.values()) > most:
        each += each // 8 + 1
    parts = (family[at : at + each] for family in families.values() for at in range(0, len(family), each))
    names = frozenset(_written(schema, _hull(part)) for part in parts)
    return frozenset([schema.name]) if schema.name in names else names


def _bounds_of(one: Filter) -> tuple[Bound, ...]:
    spans = [[place_of(int(point)) for point in span] for span in spans_of(one)]
    bounds = [Bound(at, *span) for at, span in enumerate(spans) if span != [0, LAST_PLACE]]
    return tuple(sorted(sorted(bounds, key=lambda bound: bound.high - bound.low)[:BOUNDS_MAX]))


def _hull(part: Sequence[tuple[Bound, ...]]) -> tuple[Bound, ...]:
    """What holds all of these, which constrain the same attributes."""
    columns = zip(*part, strict=True)
    found = (Bound(c[0].attribute, min(b.low for b in c), max(b.high for b in c)) for c in columns)
    return tuple(bound for bound in found if (bound.low, bound.high) != (0, LAST_PLACE))


def _written(schema: Schema, bounds: tuple[Bound, ...]) -> str:
    if not bounds:
        return schema.name
    written = (f";{at}:{low:08x}-{high:08x}" for at, low, high in bounds)
    return MARK + digest_of(schema) + "".join(written)


def read_name(name: str) -> Box | None:
    """What a filter's name says; None if it is none, or not in its one form."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    bounds = []
    for part in found[2][1:].split(";"):
        at, span = part.split(":")
        low, high = span.split("-")
        bounds.append(Bound(int(at), int(low, 16), int(high, 16)))
    numbers = [bound.attribute for bound in bounds]
    sane = numbers == sorted(set(numbers)) and numbers[-1] < ATTRIBUTES_MAX and len(bounds) <= BOUNDS_MAX
    if not sane or any(low > high or (low, high) == (0, LAST_PLACE) for _, low, high in bounds):
        return None
    return Box(found[1], tuple(bounds))


def is_filter(name: str) -> bool:
    """Whether a name, of which it is known that it is one, is a filter's."""
    return name.startswith(MARK)


def write_places(schema: Schema, event: Event) -> bytes:
    """The header that says where an event is."""
    places = [place_of(int(point)) for point in schema.points(event)]
    return struct.pack(f">{len(places)}I", *places)


def read_places(record: EventRecord) -> tuple[str, tuple[int, ...]]:
    """The digest of an event's schema, and where it is by each attribute; nothing where it does not say."""
    digest, places = record.headers.get(SCHEMA), record.headers.get(PLACES)
    if not isinstance(digest, str) or not isinstance(places, bytes):
        return "", ()
    if not places or len(places) % 4 or len(places) > 4 * ATTRIBUTES_MAX:
        return "", ()
    found = struct.unpack(f">{len(places) // 4}I", places)
    return (digest, found) if max(found) <= LAST_PLACE else ("", ())
