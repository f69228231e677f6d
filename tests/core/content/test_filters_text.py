"""The text forms of schemas, filters and values: what is written is read again, and errors show the place."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.content import SCHEMA, filters, parse_filter, schemas
from vinecast.core.content.filters import Filter, FilterSet, everything, make_filter
from vinecast.core.content.filters_text import FILTERS_MAX, filter_set_text, filter_text, parse_filter_set
from vinecast.core.content.schemas import Schema
from vinecast.core.content.schemas_text import TEXT_MAX, event_values, parse_schema, schema_text
from vinecast.core.errors import InputError


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("price <= 10", {"price": (None, 10)}),
        ("price < 10", {"price": (None, math.nextafter(10, 0))}),
        ("10 > price", {"price": (None, math.nextafter(10, 0))}),
        ("count > 3 AND count <= 7", {"count": (4, 7)}),
        ("3 < count <= 7", {"count": (4, 7)}),
        ("7 >= count > 3", {"count": (4, 7)}),
        ("count between 3 and 7 and price = 1e1", {"count": (3, 7), "price": (10, 10)}),
        ("count == 3", {"count": (3, 3)}),
        ("count in (3)", {"count": (3, 3)}),
        ('order = "buy"', {"order": ("buy", "buy")}),
        ("order='buy'", {"order": ("buy", "buy")}),
        (r'order = "a\"\u00e9\n"', {"order": ('a"é\n', 'a"é\n')}),
        ("at >= 2026-05-01", {"at": ("2026-05-01", None)}),
        ("at >= 2026-05-01T02:00+02:00", {"at": ("2026-05-01", None)}),
        ('at >= "2026-05-01T00:00:00.000000Z"', {"at": ("2026-05-01", None)}),
        ("everything", {}),
        ("price < 5000", {}),
        ("everything and count = 1", {"count": (1, 1)}),
    ],
)
def test_filters_are_read(text: str, ranges: dict[str, tuple[object, object]]) -> None:
    assert parse_filter(SCHEMA, text) == make_filter(SCHEMA, ranges)


def test_or_and_in_make_several_filters() -> None:
    found = parse_filter_set(SCHEMA, 'price < 5 and count in (1, 3) and order in ("a", "b") or count = 9')
    assert [filter_text(one) for one in found.filters] == [
        'price < 5 and count = 1 and order = "a"',
        'price < 5 and count = 1 and order = "b"',
        'price < 5 and count = 3 and order = "a"',
        'price < 5 and count = 3 and order = "b"',
        "count = 9",
    ]
    assert parse_filter_set(SCHEMA, "count in (1, 2, 3) and count > 1").simplified() == FilterSet(
        SCHEMA, (make_filter(SCHEMA, {"count": (2, 3)}),)
    )
    assert parse_filter_set(SCHEMA, "nothing") == FilterSet(SCHEMA, ())


@pytest.mark.parametrize(
    ("text", "says", "marked"),
    [
        ("", "an attribute is missing here", ""),
        ("price", "a comparison (<, <=, =, >=, >, between, in) is missing here", ""),
        ("price <", "a value of price (number) is missing here", ""),
        ("price < ten", 'a string stands in quotes: "ten"', "ten"),
        ("price < nan", "a value of price (number) is missing here", "nan"),
        ("price < 1e999", "price must be a finite number, not inf", "1e999"),
        (f"count < {'9' * 5000}", "count must be a whole number, not inf", "9" * 92),
        ("price < 10 and prise > 3", "unknown key stocks.prise (did you mean price?)", "prise"),
        ("count = 1.5", "count must be a whole number, not 1.5", "1.5"),
        ("order = buy", 'a string stands in quotes: "buy"', "buy"),
        ('order = "buy', "this string has no end", '"'),
        (r'order = "\x"', "Invalid \\escape", r'"\x"'),
        (r'order = "\ud800"', "order must be valid Unicode", r'"\ud800"'),
        ("price > 1000", "no price is in this range: it goes from 0 to 1000", "price > 1000"),
        ("count between 5 and 4", "no count is in this range", "count between 5 and 4"),
        ("price < 3 and price > 5", "no price fits both this and what stands before", "price > 5"),
        ("price != 3", "for '!=' write '<' or '>'", "!="),
        ("(price < 3)", "there are no parentheses", "("),
        ("not price < 3", "there is no 'not'", "not"),
        ("price < 3 count = 1", "'and', 'or' or nothing more is expected here", "count"),
        ("price < 3 and", "an attribute is missing here", ""),
        ("1 < price > 3", "'<' and '>' do not go together", ">"),
        ("count in 3", "'(' is missing here", "3"),
        ("count in (3", "')' is missing here", ""),
        ("count between 3 or 5", "'and' is missing here", "or"),
        ("price < 3 & count = 1", "nothing begins with '&' here", "&"),
        ("at < 2026-13-01", "at must be a time such as", "2026-13-01"),
        ("count = 1\nand price < 3\nand order < 3", "order must be a string, not 3", "3"),
        ("nothing or price < 3", "'and', 'or' or nothing more is expected here", "or"),
    ],
)
def test_what_cannot_be_read_is_shown(text: str, says: str, marked: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_filter_set(SCHEMA, text)
    fault, line, marks = str(refused.value).split("\n")
    assert says in fault
    begin, end = marks.index("^"), len(marks)
    assert marks == " " * begin + "^" * (end - begin)
    assert line[begin:end] == marked


def test_texts_are_bounded() -> None:
    with pytest.raises(InputError, match=f"at most {TEXT_MAX} characters"):
        parse_filter_set(SCHEMA, "price < 3 or " * TEXT_MAX)
    numbers = ", ".join(map(str, range(100)))
    with pytest.raises(InputError, match=f"more than {FILTERS_MAX} filters"):
        parse_filter_set(SCHEMA, f"count in ({numbers}) and price in ({numbers})")
    with pytest.raises(InputError, match=f"more than {FILTERS_MAX} filters"):
        parse_filter_set(SCHEMA, " or ".join(["price < 3"] * (FILTERS_MAX + 1)))
    with pytest.raises(InputError, match="a filter must be a string, not int"):
        parse_filter(SCHEMA, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "price < 10",
        "3 <= price < 10.5",
        "0.1 < price <= 0.3",
        'count = 3 and order < "m"',
        '"a" < order <= "b"',
        "at >= 2026-05-01T00:00:00Z",
        "everything",
        "nothing",
        "price < 3 or count <= 5",
    ],
)
def test_texts_of_people_stay_as_they_are(text: str) -> None:
    assert filter_set_text(parse_filter_set(SCHEMA, text)) == text


@st.composite
def filter_sets(draw: st.DrawFn) -> FilterSet:
    schema = draw(schemas())
    return FilterSet(schema, tuple(draw(st.lists(filters(schema), max_size=4))))


@settings(max_examples=300)
@given(filter_sets())
def test_filter_sets_are_read_as_they_were_written(filter_set: FilterSet) -> None:
    assert parse_filter_set(filter_set.schema, filter_set_text(filter_set)) == filter_set


@given(schemas())
def test_schemas_are_read_as_they_were_written(schema: Schema) -> None:
    assert parse_schema(schema.name, schema_text(schema)) == schema


@settings(max_examples=300)
@example("\x1f")  # white space to Python, not to the pattern
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                [
                    "price",
                    "count",
                    "order",
                    "at",
                    "<",
                    "<=",
                    "=",
                    "in",
                    "(",
                    ")",
                    ",",
                    "and",
                    "or",
                    "between",
                    "3",
                    '"x"',
                    "not",
                ]
            ),
            max_size=12,
        ).map(" ".join),
    )
)
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_filter_set, lambda _, text: parse_schema("s", text)):
        try:
            found = read(SCHEMA, text)
        except InputError:
            continue
        assert isinstance(found, Schema) or parse_filter_set(SCHEMA, filter_set_text(found)) == found


# Schemas and events


def test_schemas_are_read() -> None:
    text = "price number 0..1000, count integer 0..100, at time 2000-01-01..2100-01-01, order string"
    assert parse_schema("stocks", text) == SCHEMA
    letters = parse_schema("s", 'letter string "a".., other STRING .."m"').attributes
    assert (letters[0].low, letters[1].low, letters[1].high) == ("a", "", "m")


@pytest.mark.parametrize(
    ("text", "says", "marked"),
    [
        ("", "an attribute's name has up to 64 letters", ""),
        ("price", "price needs a type here: one of integer, number, time, string", ""),
        ("price money", "price needs a type here", "money"),
        ("price number", "price needs a lowest and a highest number", "price number"),
        ("price number 0..", "price needs a lowest and a highest number", "price number 0.."),
        ("price number 0 1000", "'..' is missing here", "1000"),
        ("price number 5..1", "price cannot go from 5 to 1: that range is empty", "price number 5..1"),
        ("price number 0..1 count integer 0..1", "a comma, or nothing more, is expected here", "count"),
        ("order string, in number 0..1", "filters use that word", "in"),
        ("count integer 0..1.5", "count must be a whole number, not 1.5", "1.5"),
    ],
)
def test_bad_schemas_are_shown(text: str, says: str, marked: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_schema("stocks", text)
    fault, line, marks = str(refused.value).split("\n")
    assert says in fault
    assert line[marks.index("^") : len(marks)] == marked


def test_events_are_read_from_pairs() -> None:
    values = event_values(SCHEMA, ["price=9.5", "count=3", "at=2026-05-01T12:00:00Z", "order=a=b"])
    assert SCHEMA.event(values)[0] == 9.5
    assert SCHEMA.event(values)[3] == "a=b"
    for pairs, says in (
        (["price"], "name=value, not 'price'"),
        (["prise=3"], "did you mean price"),
        (["count=1", "count=2"], "count is given twice"),
    ):
        with pytest.raises(InputError, match=says):
            event_values(SCHEMA, pairs)
    with pytest.raises(InputError, match="count must be a whole number, not 'x'"):
        SCHEMA.event({**values, **event_values(SCHEMA, ["count=x"])})


def test_everything_and_its_text() -> None:
    assert filter_text(everything(SCHEMA)) == "everything"
    assert isinstance(parse_filter(SCHEMA, "everything"), Filter)
