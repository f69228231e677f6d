"""Speed of matching events against many filters: the index next to a scan over all of them.

Both are compiled and run on one core, on the same filters and events, and must find the same. A *check* is
one filter about which it is known whether it matches, however that was found out. Times are those of the
core, so that others who use it at the same time do not count.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vinecast.core.content.filters import Filter, boxes_of, make_filter, scan
from vinecast.core.content.filters_index import FilterIndex
from vinecast.core.content.schemas import ATTRIBUTES_MAX, Attribute, Event, Schema
from vinecast.core.draws import purpose, stream, unit_array
from vinecast.core.errors import Bug, InputError
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.result import Result
from vinecast.lab.bench.sim import SEED

CHECKS_TARGET = 1_000_000
WORDS = 100  # ours: distinct ones of the mixed workload
_FILTERS, _EVENTS = purpose("bench.matching.filters"), purpose("bench.matching.events")

Numbers = NDArray[np.float64]
"""[attribute, 2], from 0 to 1: all that a filter or an event is made of."""


@dataclass(frozen=True, slots=True)
class MatchingSizes:
    """How much is measured."""

    filters: int = 100_000
    attributes: int = 3
    events: int = 300
    repeat: int = 3


QUICK = MatchingSizes(filters=2_000, events=50, repeat=1)


@dataclass(frozen=True, slots=True)
class Workload:
    """Filters and events of a kind."""

    name: str
    schema: Schema
    make_filter: Callable[[Schema, Numbers], Filter]
    make_event: Callable[[Schema, Numbers], Event]


def workloads(attributes: int) -> list[Workload]:
    """Ranges narrow and wide over numbers, and a mix of equalities, half-open ranges and free attributes."""
    if not 1 <= attributes <= ATTRIBUTES_MAX:
        raise InputError(f"a schema has 1 to {ATTRIBUTES_MAX} attributes, not {attributes}")
    plain = Schema("numbers", tuple(Attribute(f"a{i}", "number", 0, 1) for i in range(attributes)))

    def mixed(word: str) -> Schema:
        kinds = (("string", word, word + "~"), ("number", 0, 1), ("integer", 0, 1000))
        return Schema("mixed", tuple(Attribute(f"a{i}", *kinds[i % 3]) for i in range(attributes)))

    def ranges(width: float) -> Callable[[Schema, Numbers], Filter]:
        def make(schema: Schema, drawn: Numbers) -> Filter:
            spans = drawn[:, 1] * width
            lows = drawn[:, 0] * (1 - spans)
            pairs = zip(schema.attributes, lows.tolist(), (lows + spans).tolist(), strict=True)
            return make_filter(schema, {attribute.name: (low, high) for attribute, low, high in pairs})

        return make

    return [
        Workload("ranges of up to 2 %", plain, ranges(0.02), _plain_event),
        Workload("ranges of up to 10 %", plain, ranges(0.1), _plain_event),
        Workload("ranges of any width", plain, ranges(1.0), _plain_event),
        Workload("a word, a price or less, a whole number", mixed("word"), _mixed_filter, _mixed_event),
        Workload("… with words longer than keys", mixed("long-word-"), _mixed_filter, _mixed_event),
    ]


def _plain_event(schema: Schema, drawn: Numbers) -> Event:
    return schema.event({attribute.name: float(drawn[i, 0]) for i, attribute in enumerate(schema.attributes)})


def _mixed_value(attribute: Attribute, at: float) -> object:
    if attribute.kind == "string":
        return f"{attribute.low}{int(at * WORDS):02}"
    return at if attribute.kind == "number" else int(at * 1000)


def _mixed_filter(schema: Schema, drawn: Numbers) -> Filter:
    found: dict[str, tuple[object, object]] = {}
    for attribute, (at, other) in zip(schema.attributes, drawn.tolist(), strict=True):
        value = _mixed_value(attribute, at)
        if other < 0.8:  # ours: a fifth of all attributes is free
            found[attribute.name] = (None if attribute.kind == "number" else value, value)
    return make_filter(schema, found)


def _mixed_event(schema: Schema, drawn: Numbers) -> Event:
    pairs = zip(schema.attributes, drawn[:, 0].tolist(), strict=True)
    return schema.event({attribute.name: _mixed_value(attribute, at) for attribute, at in pairs})


def bench_matching(sizes: MatchingSizes, tell: Callable[[str], None] = lambda _: None) -> Iterator[Result]:
    """All figures, one workload after the other."""
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    for workload in workloads(sizes.attributes):
        tell(workload.name)
        yield from _measure(workload, sizes)


def _drawn(purpose_: int, count: int, attributes: int) -> NDArray[np.float64]:
    numbers = unit_array(stream(SEED, purpose_, 0, 0), np.arange(count * attributes * 2))
    return numbers.reshape(count, attributes, 2)


def _measure(workload: Workload, sizes: MatchingSizes) -> Iterator[Result]:
    schema, width = workload.schema, sizes.attributes
    filters = [workload.make_filter(schema, one) for one in _drawn(_FILTERS, sizes.filters, width)]
    events = [workload.make_event(schema, one) for one in _drawn(_EVENTS, sizes.events, width)]
    index = FilterIndex(schema)
    index.insert(filters[0])
    index.remove(0)
    index.match(events[0])
    begin = time.process_time()
    for one in filters:
        index.insert(one)
    inserted = (time.process_time() - begin) / sizes.filters

    boxes, found = boxes_of(schema, filters), np.empty(sizes.filters, dtype=np.int64)
    any_rough = bool(boxes.rough.any())

    def scan_all(event: Event) -> list[int]:
        numbers: list[int] = found[: scan(boxes.low, boxes.high, schema.keys(event), found)].tolist()
        if not any_rough:
            return numbers
        return [at for at in numbers if not boxes.rough[at] or filters[at].matches(event)]

    results = [scan_all(event) for event in events]
    if any(index.match(event) != expected for event, expected in zip(events, results, strict=True)):
        raise Bug("the index and the scan do not find the same filters")
    matching = sum(map(len, results)) / sizes.events
    best = [float("inf"), float("inf")]
    for _ in range(sizes.repeat):
        for i, match in enumerate((index.match, scan_all)):
            begin = time.process_time()
            for event in events:
                match(event)
            best[i] = min(best[i], (time.process_time() - begin) / sizes.events)
    what = f"{workload.name}; {sizes.filters:,} filters × {width}"
    yield Result(f"{what}, of which match an event", f"{matching:,.1f}", matching)
    for name, seconds, is_ours in (("index", best[0], True), ("scan", best[1], False)):
        rate = sizes.filters / seconds
        target = f"≥ {CHECKS_TARGET:,}" if is_ours else ""
        meets = rate >= CHECKS_TARGET if is_ours else None
        yield Result(f"… {name}, an event", f"{seconds * 1e6:,.1f} µs", seconds)
        yield Result(f"… {name}, checks a second", f"{rate:,.0f}", rate, target, meets)
    yield Result("… index against scan", f"{best[1] / best[0]:,.1f} × as fast", best[1] / best[0])
    yield Result("… a filter inserted", f"{inserted * 1e6:,.1f} µs", inserted)
