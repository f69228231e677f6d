"""Filters by name: one form, a box that holds all that matches, and nothing that a stranger writes harms."""

import struct

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from support.content import SCHEMA, events, filters, schemas
from vinecast.core.arrays.profiles import PLACE_BITS, place_of
from vinecast.core.content.filters import Filter, everything, make_filter
from vinecast.core.content.names import (
    BOUNDS_MAX,
    PLACES,
    Bound,
    Box,
    digest_of,
    is_filter,
    name_of,
    names_of,
    read_name,
    read_places,
    write_places,
)
from vinecast.core.content.names import SCHEMA as HEADER
from vinecast.core.content.schemas import ATTRIBUTES_MAX, Attribute, Event, Schema
from vinecast.core.log.event_record import EventRecord
from vinecast.peer.topics import is_topic
from vinecast.systems.common.wire import TOPIC_CHARS

LAST = (1 << PLACE_BITS) - 1
DIGEST = digest_of(SCHEMA)


def written(box: Box) -> str:
    """The one form of a name."""
    return f"#{box.digest}" + "".join(f";{at}:{low:08x}-{high:08x}" for at, low, high in box.bounds)


def event_with(headers: dict[str, str | bytes]) -> EventRecord:
    return EventRecord("stocks", bytes(32), 1, 0, b"", headers)


@st.composite
def stories(draw: st.DrawFn) -> tuple[Filter, Event]:
    schema = draw(schemas())
    one = draw(filters(schema))
    return one, draw(events(schema, [one]))


# What a name says.


@given(stories())
def test_what_matches_lies_in_the_box(story: tuple[Filter, Event]) -> None:
    one, event = story
    assume(one.matches(event))
    digest, places = read_places(
        event_with({HEADER: digest_of(one.schema), PLACES: write_places(one.schema, event)})
    )
    assert (digest, len(places)) == (digest_of(one.schema), len(event))
    box = read_name(name_of(one))
    if box is None:
        assert name_of(one) == one.schema.name
    else:
        assert box.digest == digest
        assert all(low <= places[at] <= high for at, low, high in box.bounds)


@given(stories())
def test_a_name_is_read_as_it_was_written(story: tuple[Filter, Event]) -> None:
    one, _ = story
    name, box = name_of(one), read_name(name_of(one))
    assert len(name) <= TOPIC_CHARS
    if box is None:
        assert is_topic(name)
        assert not is_filter(name)
        return
    assert is_filter(name)
    assert not is_topic(name)
    assert written(box) == name
    constrained = {at for at, found in enumerate(one.ranges) if found is not None}
    assert {bound.attribute for bound in box.bounds} <= constrained


@given(st.data())
def test_a_filter_that_covers_another_has_the_larger_box(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    wide, narrow = data.draw(filters(schema)), data.draw(filters(schema))
    assume(wide.covers(narrow))
    outer, inner = read_name(name_of(wide)), read_name(name_of(narrow))
    if outer is None:
        return
    assert inner is not None
    own = {at: (low, high) for at, low, high in inner.bounds}
    assert all(at in own and low <= own[at][0] and own[at][1] <= high for at, low, high in outer.bounds)


def test_everything_is_the_topic() -> None:
    assert name_of(everything(SCHEMA)) == "stocks"
    assert name_of(make_filter(SCHEMA, {"price": (0, 1000)})) == "stocks"


def test_equal_filters_of_different_schemas_have_different_names() -> None:
    others = [Schema("stocks/2", SCHEMA.attributes), Schema("stocks", SCHEMA.attributes[:3])]
    names = {name_of(make_filter(schema, {"price": (1, 2)})) for schema in (SCHEMA, *others)}
    assert len(names) == 3


def test_the_narrowest_bounds_of_many_are_named() -> None:
    """The longest name there can be is a name still."""
    schema = Schema("wide", tuple(Attribute(f"a{n}", "integer", 0, 1000) for n in range(ATTRIBUTES_MAX)))
    one = make_filter(schema, {f"a{n}": (10, 500 - n) for n in range(ATTRIBUTES_MAX)})
    name, box = name_of(one), read_name(name_of(one))
    assert box is not None
    assert [bound.attribute for bound in box.bounds] == [*range(ATTRIBUTES_MAX - BOUNDS_MAX, ATTRIBUTES_MAX)]
    assert len(name) <= TOPIC_CHARS
    event = tuple(range(10, 10 + ATTRIBUTES_MAX))
    assert one.matches(event)
    places = struct.unpack(f">{ATTRIBUTES_MAX}I", write_places(schema, event))
    assert all(low <= places[at] <= high for at, low, high in box.bounds)


def test_where_an_event_is_keeps_the_order_of_values() -> None:
    schema = Schema("s", (Attribute("x", "number", 0, 1),))
    places = [struct.unpack(">I", write_places(schema, (n / 100,)))[0] for n in range(101)]
    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (0, LAST)
    assert place_of(2**64 - 1) == LAST


# Names of many.


def wants(name: str, schema: Schema, event: Event) -> bool:
    """Whether an event comes to who asks for a name."""
    box, places = read_name(name), struct.unpack(f">{len(event)}I", write_places(schema, event))
    return (
        name == schema.name if box is None else all(low <= places[at] <= high for at, low, high in box.bounds)
    )


@given(st.data(), st.integers(1, 6))
def test_a_few_names_ask_for_all_that_many_filters_want(data: st.DataObject, most: int) -> None:
    schema = data.draw(schemas())
    many = data.draw(st.lists(filters(schema), max_size=12))
    names = names_of(schema, many, most)
    assert len(names) <= most
    assert bool(names) == bool(many)
    assert all(name == schema.name or read_name(name) is not None for name in names)
    for one in many:
        event = data.draw(events(schema, [one]))
        assert not one.matches(event) or any(wants(name, schema, event) for name in names)


def test_filters_that_fit_have_a_name_each() -> None:
    many = [make_filter(SCHEMA, {"count": (2 * n, 2 * n)}) for n in range(8)]
    assert names_of(SCHEMA, many, 8) == {name_of(one) for one in many}
    assert names_of(SCHEMA, [*many, *many], 8) == {name_of(one) for one in many}
    next_to = [make_filter(SCHEMA, {"count": (n, n)}) for n in range(8)]
    assert names_of(SCHEMA, next_to, 8) == {name_of(make_filter(SCHEMA, {"count": (0, 7)}))}
    assert names_of(SCHEMA, [*many, everything(SCHEMA)], 9) == {"stocks"}
    assert names_of(SCHEMA, [*many, everything(SCHEMA)], 8) == {"stocks"}
    assert names_of(SCHEMA, [], 8) == frozenset()


def test_very_many_filters_are_joined_with_their_neighbours() -> None:
    """In a time that grows with their number, not with its square; those of other attributes are left out of
    it."""
    schema = Schema("s", (Attribute("x", "integer", 0, 10**6), Attribute("y", "integer", 0, 10**6)))
    of_x = [make_filter(schema, {"x": (100 * n, 100 * n)}) for n in range(5000)]
    of_y = [make_filter(schema, {"y": (7, 8)}), make_filter(schema, {"y": (900, 901)})]
    names = names_of(schema, [*of_x, *of_y], 64)
    assert 32 <= len(names) <= 64
    boxes = [box for box in map(read_name, names) if box is not None]
    assert len(boxes) == len(names)
    by_x = [box.bounds[0] for box in boxes if box.bounds[0].attribute == 0]
    assert sum(bound.high - bound.low for bound in by_x) < LAST / 2  # they go up to half of the range
    assert max(bound.high for bound in by_x) < 0.51 * LAST


# What is no name.

near_bounds = st.builds(
    "{}:{}-{}".format,
    st.sampled_from(["0", "1", "7", "31", "32", "99", "00", "01", "007", "-1", "", "٣", "１", " 1", "1_0"]),
    *[
        st.sampled_from(
            ["00000000", "00000001", "7fffffff", "7FFFFFFF", "80000000", "7ffffff", "000000001", "0000000x"]
        )
        for _ in range(2)
    ],
)
near_names = st.builds(
    lambda mark, digest, bounds, end: mark + digest + "".join(";" + bound for bound in bounds) + end,
    st.sampled_from(["#", "#", "#", "", "##", "＃"]),
    st.sampled_from([DIGEST, DIGEST, DIGEST.upper(), DIGEST[:-1], DIGEST + "0", ""]),
    st.lists(near_bounds, max_size=BOUNDS_MAX + 2),
    st.sampled_from(["", "", "", "\n", ";", " ", "\0"]),
)


@settings(max_examples=400)
@given(near_names | st.text(max_size=TOPIC_CHARS))
@example(f"#{DIGEST};٣:00000001-00000002")
@example(f"#{DIGEST};0:00000000-7fffffff")
@example(f"#{DIGEST};1:00000002-00000001")
@example(f"#{DIGEST};1:00000001-00000002;0:00000001-00000002")
@example(f"#{DIGEST};1:00000001-00000002;1:00000001-00000002")
@example(f"#{DIGEST};32:00000001-00000002")
@example(f"#{DIGEST};01:00000001-00000002")
@example(f"#{DIGEST};1:80000000-80000001")
@example(f"#{DIGEST};1:00000001-00000002\n")
@example(f"#{DIGEST}" + "".join(f";{at}:00000001-00000002" for at in range(BOUNDS_MAX + 1)))
def test_a_name_has_one_form(name: str) -> None:
    box = read_name(name)
    if box is None:
        return
    assert written(box) == name
    numbers = [bound.attribute for bound in box.bounds]
    assert numbers == sorted(set(numbers))
    assert 1 <= len(numbers) <= BOUNDS_MAX
    assert numbers[0] >= 0
    assert numbers[-1] < ATTRIBUTES_MAX
    assert all(0 <= low <= high <= LAST for _, low, high in box.bounds)
    assert all((low, high) != (0, LAST) for _, low, high in box.bounds), "that says nothing"
    assert not is_topic(name)


def test_a_good_name_is_read() -> None:
    name = f"#{DIGEST};0:00000000-0147ae14;31:55aa0000-55aa0000"
    assert read_name(name) == Box(DIGEST, (Bound(0, 0, 0x0147AE14), Bound(31, 0x55AA0000, 0x55AA0000)))


# What an event says of itself.


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {HEADER: DIGEST},
        {PLACES: bytes(16)},
        {HEADER: DIGEST.encode(), PLACES: bytes(16)},
        {HEADER: DIGEST, PLACES: "0000"},
        {HEADER: DIGEST, PLACES: b""},
        {HEADER: DIGEST, PLACES: bytes(15)},
        {HEADER: DIGEST, PLACES: bytes(4 * ATTRIBUTES_MAX + 4)},
        {HEADER: DIGEST, PLACES: bytes(4) + (LAST + 1).to_bytes(4, "big")},
        {HEADER: DIGEST, PLACES: b"\xff" * 4},
    ],
)
def test_who_does_not_say_where_an_event_is_says_nothing(headers: dict[str, str | bytes]) -> None:
    assert read_places(event_with(headers)) == ("", ())


@given(
    st.one_of(st.text(max_size=40), st.binary(max_size=160)), st.one_of(st.text(), st.binary(max_size=200))
)
def test_whatever_headers_say_is_taken(digest: str | bytes, places: str | bytes) -> None:
    found, where = read_places(event_with({HEADER: digest, PLACES: places}))
    assert not where or (isinstance(digest, str) and isinstance(places, bytes))
    assert found == (digest if where else "")
    assert len(where) <= ATTRIBUTES_MAX
    assert all(0 <= place <= LAST for place in where)
