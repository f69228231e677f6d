"""Schemas, filters and events, one for examples and random ones."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from vinecast.core.content.filters import Filter, Range, range_of
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.content.schemas import (
    INTEGER,
    KINDS,
    NUMBER,
    STRING,
    TIME,
    Attribute,
    Event,
    Schema,
    Value,
)
from vinecast.core.errors import InputError

SCHEMA = Schema(
    "stocks",
    (
        Attribute("price", "number", 0, 1000),
        Attribute("count", "integer", 0, 100),
        Attribute("at", "time", "2000-01-01", "2100-01-01"),
        Attribute("order", "string"),
    ),
)

_STRINGS = st.one_of(
    st.text(st.sampled_from("ab\x01é\U0010ffff"), max_size=3),
    st.text(st.sampled_from("ab"), min_size=1, max_size=4).map(lambda end: "abcdefg" + end),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    INTEGER: st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
    NUMBER: st.one_of(
        st.integers(-5, 5).map(float), st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
    ),
    TIME: st.one_of(st.integers(-5, 5), st.integers(-(10**15), 10**16)),
    STRING: _STRINGS,
}


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A schema of up to four attributes of any type, with ranges narrow and wide."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    attributes = []
    for place, kind in enumerate(kinds):
        ends = sorted(draw(st.tuples(_VALUES[kind], _VALUES[kind])))
        free = kind == STRING and draw(st.booleans())
        attributes.append(Attribute(f"a{place}", kind, *((None, None) if free else ends)))
    return Schema("drawn", tuple(attributes))


@st.composite
def ranges(draw: st.DrawFn, attribute: Attribute) -> Range | None:
    """Any range of an attribute, or none."""
    values = _VALUES[attribute.kind]
    if draw(st.integers(0, 3)) == 0:
        return None
    if draw(st.integers(0, 3)) == 0:
        low = high = draw(values)
    else:
        low, high = draw(st.one_of(st.none(), values)), draw(st.one_of(st.none(), values))
    try:
        return range_of(attribute, low, high, draw(st.booleans()), draw(st.booleans()))
    except InputError:
        return range_of(attribute, attribute.low, attribute.low)


@st.composite
def filters(draw: st.DrawFn, schema: Schema) -> Filter:
    """Any filter over a schema."""
    return Filter(schema, tuple(draw(ranges(attribute)) for attribute in schema.attributes))


@st.composite
def events(draw: st.DrawFn, schema: Schema, near: Sequence[Filter] = ()) -> Event:
    """Any event of a schema; its values are often the ends of the ranges of these filters."""
    values: list[Value] = []
    for place, attribute in enumerate(schema.attributes):
        ends: list[Value] = [attribute.low, attribute.high]
        for one in near:
            if (found := one.ranges[place]) is not None:
                ends += [found.low, found.high]
        value = draw(st.one_of(st.sampled_from(ends), _VALUES[attribute.kind]))
        values.append(min(max(value, attribute.low), attribute.high))
    return tuple(values)


def parse_filter(schema: Schema, text: str) -> Filter:
    """The one filter that a text describes."""
    (found,) = parse_filter_set(schema, text).filters
    return found
