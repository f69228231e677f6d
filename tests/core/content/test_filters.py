"""Schemas, filters and sets of them: exact, ordered, and clear about what is wrong."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.content import SCHEMA, events, filters, schemas
from vinecast.core.content.filters import (
    Filter,
    FilterSet,
    Range,
    boxes_of,
    everything,
    hull,
    make_filter,
    merge,
    overlap,
    range_of,
    scan,
    spans_of,
)
from vinecast.core.content.schemas import KEY_MAX, STRING_BYTES_MAX, Attribute, Event, Schema
from vinecast.core.errors import InputError

PRICE, COUNT, AT, ORDER = SCHEMA.attributes
GOOD = {"price": 9.5, "count": 3, "at": "2026-05-01T12:00:00Z", "order": "buy"}


# Schemas


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Attribute("1st", "number", 0, 1), "letters, digits and '_'"),
        (lambda: Attribute("between", "number", 0, 1), "filters use that word"),
        (lambda: Attribute("price", "money", 0, 1), "one of integer, number, time, string"),
        (lambda: Attribute("price", "number"), "needs a lowest and a highest number"),
        (lambda: Attribute("price", "number", 1, 0), "from 1 to 0: that range is empty"),
        (lambda: Attribute("price", "number", 0, math.nan), "a finite number, not nan"),
        (lambda: Attribute("price", "number", 0, math.inf), "a finite number, not inf"),
        (lambda: Attribute("price", "integer", 0, 1.5), "a whole number, not 1.5"),
        (lambda: Attribute("price", "integer", 0, 2**63), "2⁶³ − 1"),
        (lambda: Attribute("at", "time", "yesterday", "2030-01-01"), "a time such as"),
        (lambda: Schema("stocks", ()), "1 to 32 attributes"),
        (lambda: Schema("stocks", (PRICE, PRICE)), "the same name"),
        (lambda: Schema("a//b", (PRICE,)), "a schema's name is a topic"),
    ],
)
def test_bad_schemas_are_refused_by_name(make: Any, says: str) -> None:
    with pytest.raises(InputError) as refused:
        make()
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"price": math.nan}, "price must be a finite number, not nan"),
        ({"price": 10**400}, "price must be a finite number"),
        ({"price": 1001}, "price must be from 0 to 1000, not 1001"),
        ({"price": "9.5"}, "price must be a number, not '9.5'"),
        ({"price": True}, "price must be a number, not True"),
        ({"count": 3.0}, "count must be a whole number, not 3.0"),
        ({"count": [3]}, "count must be a whole number, not list"),
        ({"at": "noon"}, "at must be a time"),
        ({"at": 10**20}, "years 1 to 9999"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "years 1 to 9999"),
        ({"at": "9999-12-31T23:59:59-14:00"}, "years 1 to 9999"),
        (
            {"at": "0001-01-01"},
            "at must be from 2000-01-01T00:00:00Z to 2100-01-01T00:00:00Z, not 0001-01-01T",
        ),
        ({"order": "a\0b"}, "order must not contain NUL"),
        ({"order": "\ud800"}, "order must be valid Unicode"),
        ({"order": "x" * 257}, f"at most {STRING_BYTES_MAX} bytes, not 257"),
        ({"prize": 1}, "unknown key stocks.prize (did you mean price?)"),
    ],
)
def test_bad_events_are_refused_by_attribute(change: Mapping[str, object], says: str) -> None:
    with pytest.raises(InputError) as refused:
        SCHEMA.event({**GOOD, **change})
    assert says in str(refused.value)


def test_an_event_has_a_value_for_every_attribute_in_one_form() -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    event = SCHEMA.event(GOOD)
    assert event == (9.5, 3, int(noon.timestamp()) * 1_000_000, "buy")
    assert SCHEMA.event({**GOOD, "at": noon}) == event
    assert SCHEMA.event({**GOOD, "at": "2026-05-01T14:00:00+02:00"}) == event
    assert SCHEMA.event({**GOOD, "at": "2026-05-01T12:00:00"}) == event
    assert str(SCHEMA.event({**GOOD, "price": -0.0})[0]) == "0.0"
    with pytest.raises(InputError, match="an event of stocks lacks count, at"):
        SCHEMA.event({"price": 1, "order": "buy"})


# Words that preserve order


@given(st.data(), schemas())
def test_keys_and_points_preserve_order(data: st.DataObject, schema: Schema) -> None:
    one, two = data.draw(events(schema)), data.draw(events(schema))
    for attribute, a, b in zip(schema.attributes, one, two, strict=True):
        low, high = sorted((a, b), key=lambda value: (value,))
        assert attribute.key(low) <= attribute.key(high) <= KEY_MAX
        assert 0 <= attribute.point(low) <= attribute.point(high) <= KEY_MAX
        if attribute.kind != "string":
            assert (attribute.key(a) == attribute.key(b)) is (a == b)
        if attribute.kind in ("integer", "time"):
            assert (attribute.point(a) == attribute.point(b)) is (a == b)


@given(schemas())
def test_a_range_is_spread_over_the_whole_circle(schema: Schema) -> None:
    for attribute in schema.attributes:
        assert attribute.point(attribute.low) == 0
        whole = attribute.key(attribute.low) < attribute.key(attribute.high)
        assert attribute.point(attribute.high) == (KEY_MAX if whole else 0)


def test_points_are_spread_evenly() -> None:
    assert PRICE.point(500.0) == KEY_MAX // 2
    assert PRICE.point(-5.0) == 0
    assert PRICE.point(5000.0) == KEY_MAX
    letters = Attribute("letter", "string", "a", "c")
    assert letters.point("b") == KEY_MAX // 2
    assert letters.point("abcdefgh-1") == letters.point("abcdefgh-2")


# Ranges and filters


def test_ranges_have_one_form() -> None:
    assert range_of(COUNT, 3, 10, low_open=True, high_open=True) == range_of(COUNT, 4, 9)
    assert range_of(PRICE, None, 10, high_open=True) == range_of(PRICE, 0, math.nextafter(10, 0))
    assert range_of(PRICE, -5, 2000) is None
    assert range_of(PRICE, 0, None) is None
    assert range_of(ORDER, "a\x01", None) == range_of(ORDER, "a", None, low_open=True)
    assert range_of(ORDER, "a", "a\x01", high_open=True) == range_of(ORDER, "a", "a")


@pytest.mark.parametrize(
    ("attribute", "low", "high"),
    [
        (PRICE, 1000, None),
        (PRICE, 5, 4),
        (COUNT, 3, 4),
        (ORDER, "b", "b"),
        (PRICE, 2000, 3000),
        (PRICE, None, 0),
    ],
)
def test_empty_ranges_are_refused(attribute: Attribute, low: object, high: object) -> None:
    with pytest.raises(InputError, match=f"no {attribute.name} is in this range: it goes from "):
        range_of(attribute, low, high, low_open=True, high_open=True)


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ({"price": (math.nan, 1)}, "price must be a finite number, not nan"),
        ({"prise": (1, 2)}, "unknown key stocks.prise (did you mean price?)"),
        ({"order": (1, 2)}, "order must be a string, not 1"),
    ],
)
def test_bad_filters_are_refused(ranges: dict[str, tuple[object, object]], says: str) -> None:
    with pytest.raises(InputError) as refused:
        make_filter(SCHEMA, ranges)
    assert says in str(refused.value)


def test_a_filter_without_constraints_matches_everything() -> None:
    assert make_filter(SCHEMA, {"price": (0, 1000)}) == make_filter(SCHEMA, {}) == everything(SCHEMA)
    assert everything(SCHEMA).matches(SCHEMA.event(GOOD))


def test_filters_match_what_they_say() -> None:
    cheap = make_filter(SCHEMA, {"price": (None, 10), "order": ("buy", "buy")})
    assert cheap.matches(SCHEMA.event(GOOD))
    assert cheap.matches(SCHEMA.event({**GOOD, "price": 10}))
    assert not cheap.matches(SCHEMA.event({**GOOD, "price": math.nextafter(10, 11)}))
    assert not cheap.matches(SCHEMA.event({**GOOD, "order": "buys"}))


@st.composite
def two_filters(draw: st.DrawFn) -> tuple[Filter, Filter, list[Event]]:
    schema = draw(schemas())
    one, two = draw(filters(schema)), draw(filters(schema))
    return one, two, draw(st.lists(events(schema, (one, two)), min_size=1, max_size=12))


def intersection(a: Filter, b: Filter) -> Filter | None:
    """The filter that matches what both match; None if that is nothing."""
    ranges: list[Range | None] = []
    for attribute, one, two in zip(a.schema.attributes, a.ranges, b.ranges, strict=True):
        ranges.extend(overlap(attribute, one, two))
    return Filter(a.schema, tuple(ranges)) if len(ranges) == len(a.ranges) else None


@settings(max_examples=300)
@given(two_filters())
def test_relations_between_filters_agree_with_matching(given: tuple[Filter, Filter, list[Event]]) -> None:
    one, two, drawn = given
    both, either, exact = intersection(one, two), hull(one, two), merge(one, two)
    assert either.covers(one)
    assert either.covers(two)
    for event in drawn:
        a, b = one.matches(event), two.matches(event)
        assert (both is not None and both.matches(event)) is (a and b)
        assert either.matches(event) or not (a or b)
        assert exact is None or exact.matches(event) is (a or b)
        assert b <= a or not one.covers(two)
        spans = spans_of(one)
        points = one.schema.points(event)
        assert not a or bool(np.all((spans[:, 0] <= points) & (points <= spans[:, 1])))
    if both is not None:
        assert one.covers(both)
        assert two.covers(both)


@given(two_filters())
def test_boxes_hold_all_that_matches_and_no_more_unless_rough(
    given: tuple[Filter, Filter, list[Event]],
) -> None:
    one, two, drawn = given
    boxes = boxes_of(one.schema, (one, two))
    found = np.empty(2, dtype=np.int64)
    for event in drawn:
        count = scan(boxes.low, boxes.high, one.schema.keys(event), found)
        for row, each in enumerate((one, two)):
            inside = row in found[:count].tolist()
            assert inside is each.matches(event) or (inside and bool(boxes.rough[row]))


def test_touching_filters_merge_exactly() -> None:
    def prices(low: object, high: object, **others: tuple[object, object]) -> Filter:
        return make_filter(SCHEMA, {"price": (low, high), **others})

    assert merge(prices(1, 2), prices(2, 3)) == prices(1, 3)
    assert merge(prices(1, 2), prices(math.nextafter(2, 3), 3)) == prices(1, 3)
    assert merge(prices(1, 2), prices(2.5, 3)) is None
    assert merge(prices(1, 5), prices(2, 3)) == prices(1, 5)
    assert merge(prices(1, 5, count=(1, 2)), prices(2, 6)) is None
    assert merge(prices(1, 5, count=(1, 2)), prices(2, 6, count=(1, 2))) == prices(1, 6, count=(1, 2))
    assert merge(prices(1, 5, count=(1, 2)), prices(1, 5, count=(3, 4))) == prices(1, 5, count=(1, 4))


@st.composite
def a_filter_set(draw: st.DrawFn) -> tuple[FilterSet, list[Event]]:
    schema = draw(schemas())
    found = tuple(draw(st.lists(filters(schema), max_size=8)))
    return FilterSet(schema, found), draw(st.lists(events(schema, found), min_size=1, max_size=12))


@given(a_filter_set())
def test_filter_sets_get_simpler_without_losing_anything(given: tuple[FilterSet, list[Event]]) -> None:
    filter_set, drawn = given
    simple = filter_set.simplified()
    assert len(simple.filters) <= len(filter_set.filters)
    assert all(simple.covers(one) for one in filter_set.filters)
    for event in drawn:
        assert simple.matches(event) is filter_set.matches(event)
