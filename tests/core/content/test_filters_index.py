"""The index of filters finds exactly what a scan finds, whatever comes and goes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.content import SCHEMA, events, filters, parse_filter, schemas
from vinecast.core.content.filters import Filter, everything, make_filter
from vinecast.core.content.filters_index import BUCKETS_MAX, FilterIndex
from vinecast.core.content.schemas import Attribute, Event, Schema
from vinecast.core.content.schemas_text import parse_schema
from vinecast.core.draws import draw_array, stream
from vinecast.core.errors import InputError


@st.composite
def stories(draw: st.DrawFn) -> tuple[Schema, list[Filter], list[Event]]:
    schema = draw(schemas())
    kinds = draw(st.lists(filters(schema), min_size=1, max_size=12))
    return schema, kinds, draw(st.lists(events(schema, kinds), min_size=1, max_size=6))


@settings(max_examples=100)
@given(stories(), st.lists(st.integers(0, 2**16), max_size=40))
def test_the_index_finds_what_a_scan_finds(
    story: tuple[Schema, list[Filter], list[Event]], steps: list[int]
) -> None:
    schema, kinds, drawn = story
    index, known = FilterIndex(schema), dict[int, Filter]()
    for step in steps:
        if step % 3 == 0 and known:
            number = sorted(known)[step // 3 % len(known)]
            index.remove(number)
            del known[number]
        else:
            one = kinds[step // 3 % len(kinds)]
            number = index.insert(one)
            assert number not in known
            known[number] = one
        event = drawn[step % len(drawn)]
        assert index.match(event) == [at for at in sorted(known) if known[at].matches(event)]
    assert len(index) == len(known)


def numbers(seed: int, count: int) -> list[float]:
    return [int(one >> np.uint64(43)) / 2**21 for one in draw_array(stream(seed, 0, 0, 0), np.arange(count))]


@pytest.mark.parametrize("skew", [1, 4])
def test_many_filters_come_and_go(skew: int) -> None:
    schema = Schema("s", tuple(Attribute(name, "number", 0, 1) for name in "xyz"))
    drawn = iter(numbers(skew, 40_000))

    def random_filter() -> Filter:
        ranges: dict[str, tuple[object, object]] = {}
        for name in "xyz":
            low = next(drawn) ** skew
            if next(drawn) < 0.7:
                ranges[name] = (low, low + next(drawn) * 0.3)
        return make_filter(schema, ranges)

    index, known = FilterIndex(schema), dict[int, Filter]()
    for round_ in range(4):
        for _ in range(3 * BUCKETS_MAX):
            one = random_filter()
            known[index.insert(one)] = one
        for number in sorted(known)[:: 2 + round_]:
            index.remove(number)
            del known[number]
        for _ in range(20):
            event = schema.event({name: next(drawn) ** skew for name in "xyz"})
            assert index.match(event) == [at for at in sorted(known) if known[at].matches(event)]


def test_numbers_are_given_again_lowest_first() -> None:
    index = FilterIndex(SCHEMA)
    assert [index.insert(everything(SCHEMA)) for _ in range(4)] == [0, 1, 2, 3]
    index.remove(2)
    index.remove(1)
    assert [index.insert(everything(SCHEMA)) for _ in range(3)] == [1, 2, 4]


def test_what_is_wrong_is_refused() -> None:
    index = FilterIndex(SCHEMA)
    with pytest.raises(InputError, match="no filter has the number 0"):
        index.remove(0)
    with pytest.raises(InputError, match="a filter over other is none over this schema stocks"):
        index.insert(everything(Schema("other", SCHEMA.attributes)))
    assert index.match(SCHEMA.event({"price": 1, "count": 1, "at": 10**15, "order": ""})) == []


def test_strings_with_much_in_common_come_and_go() -> None:
    schema = parse_schema("s", "word string, x number 0..1")
    drawn = iter(numbers(7, 20_000))

    def word() -> str:
        return (
            "longer than a key "
            + "abc"[int(next(drawn) * 3)] * int(next(drawn) * 4)
            + chr(97 + int(next(drawn) * 20))
        )

    def random_filter() -> Filter:
        low, high = sorted((word(), word()))
        signs = [("<", "<="), ("<=", "<"), ("<=", "<="), ("<", "<")][int(next(drawn) * 4)]
        text = f'"{low}" {signs[0]} word {signs[1]} "{high}"' if low < high else f'word = "{low}"'
        return parse_filter(schema, text + (" and x < 0.5" if next(drawn) < 0.3 else ""))

    index, known = FilterIndex(schema), dict[int, Filter]()
    for _ in range(5):
        for _ in range(100):
            one = random_filter()
            known[index.insert(one)] = one
            event = schema.event({"word": word(), "x": next(drawn)})
            assert index.match(event) == [at for at in sorted(known) if known[at].matches(event)]
        for number in sorted(known)[::3]:
            index.remove(number)
            del known[number]


def test_long_strings_are_told_apart() -> None:
    index = FilterIndex(SCHEMA)
    for order in ("abcdefgh", "abcdefgh-1", "abcdefgh-2", "abcdefg"):
        index.insert(make_filter(SCHEMA, {"order": (order, order)}))
    for number, order in enumerate(("abcdefgh", "abcdefgh-1", "abcdefgh-2", "abcdefg")):
        event = SCHEMA.event({"price": 1, "count": 1, "at": 10**15, "order": order})
        assert index.match(event) == [number]
