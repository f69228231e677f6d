"""The text form of filters and sets of them, for the command line and configuration.

    price < 10 and exchange = "LIS"
    10 <= price < 20 or order in ("buy", "sell") and at between 2026-05-01 and 2026-06-01

Conditions are joined by ``and``, filters by ``or``; there are no parentheses but those of ``in``. A condition
compares an attribute with a value (``<``, ``<=``, ``=``, ``>=``, ``>``, on either side, or on both as in
``10 <= price < 20``), puts it ``between`` two values, both included, or ``in`` a list, which makes a filter
for each. ``everything`` is the filter without conditions, ``nothing`` the set without filters. Values
are written as in schemas (``core/content/schemas_text``). What is written is read again as the same filter.
"""

import itertools
import math
from collections.abc import Iterator

from vinecast.core.content.filters import Filter, FilterSet, Range, everything, overlap, range_of
from vinecast.core.content.schemas import NUMBER, RESERVED, Attribute, Schema, Value
from vinecast.core.content.schemas_text import VALUES, Words
from vinecast.core.errors import InputError

FILTERS_MAX = 1024
"""Filters of one text (ours): lists of ``in`` multiply."""

_MIRRORED = {"<": ">", "<=": ">=", "=": "=", "==": "=", ">": "<", ">=": "<="}
Alternatives = list[Range | None]
"""Ranges of one attribute, of which one must hold a value."""
Ends = tuple[Value | None, Value | None, bool, bool]
"""Lowest and highest value, and whether each is excluded: as ``range_of`` takes them."""


def parse_filter_set(schema: Schema, text: str) -> FilterSet:
    """The filter set over a schema that a text describes. InputError that shows the place."""
    words = Words(text, "a filter")
    if words.accept("nothing"):
        found: list[Filter] = []
    else:
        found = list(_parse_filters(schema, words))
        while words.accept("or"):
            found += _parse_filters(schema, words)
            if len(found) > FILTERS_MAX:
                words.fail_here(f"these are more than {FILTERS_MAX} filters")
    if words.next.kind != "end":
        words.fail_here("'and', 'or' or nothing more is expected here")
    return FilterSet(schema, tuple(found))


def _parse_filters(schema: Schema, words: Words) -> Iterator[Filter]:
    """Conditions joined by ``and``: a filter for each choice among their alternatives."""
    by_place: dict[int, Alternatives] = {}
    more = True
    while more:
        begin = words.next.begin
        if not words.accept("everything"):
            place, ends = _parse_condition(schema, words)
            attribute, known = schema.attributes[place], by_place.get(place, [None])
            try:
                ranges = [range_of(attribute, *each) for each in ends]
            except InputError as error:
                words.fail(str(error), begin, words.last_end)
            met = [both for one in known for two in ranges for both in overlap(attribute, one, two)]
            if not met:
                words.fail(
                    f"no {attribute.name} fits both this and what stands before", begin, words.last_end
                )
            by_place[place] = met
            if math.prod(map(len, by_place.values())) > FILTERS_MAX:
                words.fail(f"with this there are more than {FILTERS_MAX} filters", begin, words.last_end)
        more = words.accept("and") != ""
    for chosen in itertools.product(*by_place.values()):
        found = list(everything(schema).ranges)
        for place, one in zip(by_place, chosen, strict=True):
            found[place] = one
        yield Filter(schema, tuple(found))


def _parse_condition(schema: Schema, words: Words) -> tuple[int, list[Ends]]:
    """An attribute's place, and the ends of ranges of which one must hold its value."""
    if words.next.kind in VALUES:
        return _parse_value_first(schema, words)
    place = _parse_name(schema, words)
    attribute = schema.attributes[place]
    if words.accept("between"):
        low = words.value(attribute)
        words.expect("and")
        return place, [(low, words.value(attribute), False, False)]
    if words.accept("in"):
        words.expect("(")
        values = [words.value(attribute)]
        while words.accept(","):
            values.append(words.value(attribute))
        words.expect(")")
        return place, [(value, value, False, False) for value in values]
    return place, [_ends(_parse_sign(words), words.value(attribute))]


def _parse_value_first(schema: Schema, words: Words) -> tuple[int, list[Ends]]:
    """As in ``10 <= price`` and ``10 <= price < 20``."""
    first = words.take()
    sign = _parse_sign(words)
    place = _parse_name(schema, words)
    attribute = schema.attributes[place]
    ends = _ends(_MIRRORED[sign], words.read(first, attribute))
    if words.next.text in _MIRRORED:
        begin = words.next.begin
        second = _parse_sign(words)
        if second[0] != sign[0] or sign[0] == "=":
            words.fail(f"{sign!r} and {second!r} do not go together", begin, words.last_end)
        other = _ends(second, words.value(attribute))
        low, high = (ends, other) if sign[0] == "<" else (other, ends)
        ends = (low[0], high[1], low[2], high[3])
    return place, [ends]


def _parse_name(schema: Schema, words: Words) -> int:
    token = words.take()
    if token.kind != "word" or token.text.lower() in RESERVED:
        hint = "; there are no parentheses: write 'or' at the top" if token.text == "(" else ""
        hint = "; there is no 'not': turn the comparison" if token.text.lower() == "not" else hint
        words.fail(f"an attribute is missing here{hint}", *token[2:])
    try:
        return schema.place(token.text)
    except InputError as error:
        words.fail(str(error), *token[2:])


def _parse_sign(words: Words) -> str:
    sign = words.accept(*_MIRRORED)
    if not sign:
        hint = "; for '!=' write '<' or '>'" if words.next.text == "!=" else ""
        words.fail_here(f"a comparison (<, <=, =, >=, >, between, in) is missing here{hint}")
    return sign


def _ends(sign: str, value: Value) -> Ends:
    low = value if sign[0] in ">=" else None
    high = value if sign[0] in "<=" else None
    return low, high, sign == ">", sign == "<"


def filter_set_text(filter_set: FilterSet) -> str:
    """A filter set as ``parse_filter_set`` reads it."""
    return " or ".join(map(filter_text, filter_set.filters)) or "nothing"


def filter_text(one: Filter) -> str:
    """A filter as ``parse_filter_set`` reads it."""
    pairs = zip(one.schema.attributes, one.ranges, strict=True)
    return " and ".join(_range_text(attribute, found) for attribute, found in pairs if found) or "everything"


def _range_text(attribute: Attribute, found: Range) -> str:
    name = attribute.name
    if found.low_end == found.high_end:
        return f"{name} = {attribute.show(found.low)}"
    low, low_sign = _shortest(attribute, found.low, -math.inf, "<" if found.low_open else "<=")
    high, high_sign = _shortest(attribute, found.high, math.inf, "<" if found.high_open else "<=")
    if found.low_end == (attribute.low, 0):
        return f"{name} {high_sign} {high}"
    if found.high_end == (attribute.high, 0):
        return f"{name} {_MIRRORED[low_sign]} {low}"
    return f"{low} {low_sign} {name} {high_sign} {high}"


def _shortest(attribute: Attribute, value: Value, outwards: float, sign: str) -> tuple[str, str]:
    """An end and its sign; a number's as an open one, where the number next to it is shorter to write."""
    shown = attribute.show(value)
    if attribute.kind == NUMBER:
        beyond = math.nextafter(float(value), outwards)
        if math.isfinite(beyond) and len(attribute.show(beyond + 0.0)) < len(shown):
            return attribute.show(beyond + 0.0), "<"
    return shown, sign
