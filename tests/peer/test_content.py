"""Which events of a schema the subscriptions of a peer want: few filters or many, at one desk."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from support.content import SCHEMA, parse_filter
from vinecast.core.content.filters import FilterSet, everything
from vinecast.core.content.filters_index import INDEXED_FROM
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.content.names import SCHEMA as HEADER
from vinecast.core.content.names import digest_of
from vinecast.core.content.schemas import Schema
from vinecast.core.content.schemas_text import parse_schema
from vinecast.core.draws import below, stream
from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.event_record import EventRecord
from vinecast.node.api.content import as_plain
from vinecast.peer import content
from vinecast.peer.content import ANOTHER_SCHEMA, NOT_ALLOWED, Matching, SchemaDesk, read_values


def never(then: Callable[[], None]) -> None:
    """The index of filters is not compiled."""


def at_once(then: Callable[[], None]) -> None:
    """The index of filters is compiled already."""
    then()


def desk_of(
    schema: Schema, when_compiled: Callable[[Callable[[], None]], None], counters: Counter[str] | None = None
) -> SchemaDesk:
    """A desk of a peer whose system does not route by content."""
    return SchemaDesk(
        schema, Counter() if counters is None else counters, when_compiled, lambda names, others: set()
    )


def signed(number: int, payload: bytes, headers: dict[str, str | bytes]) -> SignedEvent:
    record = EventRecord("stocks", bytes(32), number, 0, payload, headers)
    return SignedEvent(record, b"", number.to_bytes(36, "big"), None)  # type: ignore[arg-type]


def events_of(schema: Schema, *values: dict[str, object]) -> Iterator[SignedEvent]:
    for number, (payload, headers) in enumerate(as_plain(schema, values, None)[1]):
        assert isinstance(payload, bytes)
        yield signed(number, payload, dict(headers or {}))


def wants(desk: SchemaDesk, events: list[SignedEvent], filter_sets: list[FilterSet]) -> list[list[int]]:
    """For each event, the places of those interests that want it."""
    wanted = [desk.add(filter_set) for filter_set in filter_sets]
    found = [[place for place, one in enumerate(wanted) if one.has(event)] for event in events]
    for one in wanted:
        one.close()
        one.close()
    assert (len(desk), desk.filters) == (0, 0)
    return found


def test_few_filters_and_many_find_the_same() -> None:
    schema = parse_schema("s", "x integer 0..99, word string")
    key = stream(1, 0, 0, 0)
    filter_sets = [
        parse_filter_set(
            schema, f'x between {low} and {low + below(key, n, 40)} and word >= "long-word-{n % 7}"'
        )
        for n in range(3 * INDEXED_FROM)
        for low in (below(key, n + 1000, 60),)
    ]
    events = list(
        events_of(schema, *({"x": below(key, n, 100), "word": f"long-word-{n % 9}"} for n in range(50)))
    )
    expected = [
        [
            place
            for place, one in enumerate(filter_sets)
            if one.matches(schema.event(read_values(event.record.payload)))
        ]
        for event in events
    ]
    slow = desk_of(schema, never)
    assert wants(slow, events, filter_sets) == expected
    assert slow._index is None
    fast = desk_of(schema, at_once)
    assert wants(fast, events, filter_sets) == expected
    assert fast._index is not None
    assert wants(fast, events, filter_sets[:5]) == [[n for n in row if n < 5] for row in expected]


def test_a_desk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "FILTERS_MAX", 3)
    desk = desk_of(SCHEMA, never)
    desk.add(parse_filter_set(SCHEMA, "count = 1 or count = 2"))
    with pytest.raises(InputError, match="at most 3 filters over stocks"):
        desk.add(parse_filter_set(SCHEMA, "count = 1 or count = 2"))
    desk.add(FilterSet(SCHEMA, (parse_filter(SCHEMA, "count = 5"),)))
    assert desk.filters == 3


def test_an_event_is_looked_at_once() -> None:
    counters: Counter[str] = Counter()
    desk = desk_of(SCHEMA, never, counters)
    wanted = [desk.add(FilterSet(SCHEMA, (everything(SCHEMA),))) for _ in range(5)]
    odd = signed(1, b"{}", {HEADER: "another"})
    assert not any(one.has(odd) for one in wanted)
    assert counters[ANOTHER_SCHEMA] == 1


def test_a_payload_is_looked_into_by_who_may_and_once_an_event() -> None:
    """What comes of it is all that the desk has of the payload: a record without payloads keeps that."""
    looked: list[bytes] = []

    def look(find: Callable[[bytes], Matching], payload: bytes) -> Matching:
        looked.append(payload)
        return (2,) if payload else find(payload)

    counters: Counter[str] = Counter()
    desk = SchemaDesk(SCHEMA, counters, never, lambda names, others: set(), look)
    first, second = (desk.add(FilterSet(SCHEMA, (everything(SCHEMA),))) for _ in range(2))
    headers: dict[str, str | bytes] = {HEADER: digest_of(SCHEMA)}
    event = signed(1, b"of no use here", headers)
    assert [one.has(event) for one in (first, second, first)] == [False, True, False]
    assert looked == [b"of no use here"]
    assert not first.has(signed(2, b"", headers))
    assert counters[NOT_ALLOWED] == 1
