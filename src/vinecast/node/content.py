"""Content on a live node: events of a schema, and which of them somebody wants.

An event of a schema is an event of the topic that has the schema's name. Its payload is a JSON object with a
value for every attribute, times in ISO 8601, and its header ``schema`` says which schema that is
(``core/schemas_text.schema_digest``). Whoever subscribes with a filter gets the events that match, and no
others: what has another schema, or values that the schema does not allow, is counted and left out.

Events reach every subscriber of the topic, and each node filters for its own readers. It looks at an event
once, however many readers there are: at each filter while they are few, and in an index (``core/
interests_index``) when they are many. The index is compiled beside the loop; until that is done the filters
are looked at one by one, which finds the same.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from vinecast.core.errors import InputError
from vinecast.core.interests import Filter, Interest, everything, make_filter
from vinecast.core.interests_index import FilterIndex
from vinecast.core.interests_text import parse_interest
from vinecast.core.rule import COMPILED
from vinecast.core.schemas import TIME, Attribute, Schema, time_text
from vinecast.core.schemas_text import schema_digest
from vinecast.core.seals import Sealed
from vinecast.node.reading import Start

if TYPE_CHECKING:
    from vinecast.node.readers import Readers
    from vinecast.node.subscription import Subscription

HEADER = "schema"
"""The header of an event that names its schema."""
INDEXED_FROM = 64
"""Filters of a schema from which on there is an index (ours)."""
FILTERS_MAX = 262_144
"""Filters of all subscriptions of a node to one schema (ours)."""
ANOTHER_SCHEMA = "content: event of another schema"
NOT_ALLOWED = "content: event that its schema does not allow"

Headers = Mapping[str, str | bytes]
Payload = bytes | str
Values = Mapping[str, Any]
"""What an application says: a value for every attribute."""
Wish = str | Filter | Interest | None
"""Which events of a schema: by a text form, or all."""

_decoder = msgspec.json.Decoder(dict[str, int | float | str])
_encode = msgspec.json.Encoder().encode
_digest = lru_cache(256)(schema_digest)


def as_plain(
    topic: str | Schema, events: Iterable[Payload | Values], headers: Headers | None
) -> tuple[Iterable[Payload], str, Headers | None]:
    """Events of a schema as those of a topic: their payloads, its name, their headers. What is said of a
    topic stays as it is."""
    if not isinstance(topic, Schema):
        return cast(Iterable[Payload], events), topic, headers
    payloads = (write_values(topic, values) for values in events)
    return payloads, topic.name, {**(headers or {}), HEADER: _digest(topic)}


def write_values(schema: Schema, values: object) -> bytes:
    """The payload of an event with these values. InputError when the schema refuses them."""
    if not isinstance(values, Mapping):
        raise InputError(
            f"an event of {schema.name} is a mapping of attributes to values, not {type(values).__name__}"
        )
    pairs = zip(schema.attributes, schema.event(values), strict=True)
    written = {
        attribute.name: time_text(int(value)) if attribute.kind == TIME else value
        for attribute, value in pairs
    }
    return _encode(written)


def read_values(payload: bytes) -> dict[str, int | float | str]:
    """The values in an event's payload, whatever its schema says to them. InputError if there are none."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InputError(
            "this is not an event of a schema: its payload is no JSON object of values"
        ) from None


def interest_of(schema: Schema, wish: Wish) -> Interest:
    """What somebody wants of a schema; everything if nothing is said."""
    if wish is None:
        return Interest(schema, (everything(schema),))
    if isinstance(wish, str):
        return parse_interest(schema, wish)
    found = Interest(schema, (wish,)) if isinstance(wish, Filter) else wish
    if not isinstance(found, Interest):
        raise InputError(f"a filter is a string, a Filter or an Interest, not {type(wish).__name__}")
    for other in (found.schema, *(one.schema for one in found.filters)):
        if other != schema:
            raise InputError(f"a filter over another schema ({other.name}) than {schema.name}")
    return found


class Wanted:
    """What one subscription wants; ``close`` it with the subscription."""

    def __init__(self, desk: "Desk", interest: Interest) -> None:
        self._desk, self.interest = desk, interest
        self.numbers: list[int] = []
        """Of its filters in the desk's index."""

    def has(self, sealed: Sealed) -> bool:
        """Whether an event of the topic is wanted."""
        return self in self._desk.who_wants(sealed)

    def close(self) -> None:
        """Want nothing any more."""
        self._desk.remove(self)


class Desk:
    """All that a node's subscriptions want of one schema."""

    def __init__(self, schema: Schema, counters: Counter[str]) -> None:
        self.schema, self._counters, self._digest = schema, counters, schema_digest(schema)
        self._all: dict[Wanted, None] = {}
        self.filters = 0
        """Of all of them together."""
        self._index: FilterIndex | None = None
        self._is_awaited = False
        self._by_number: dict[int, Wanted] = {}
        self._last: tuple[bytes, frozenset[Wanted]] = (b"", frozenset())
        """The event looked at last, and who wants it."""

    def __len__(self) -> int:
        return len(self._all)

    @property
    def is_indexed(self) -> bool:
        """Whether there is an index by now."""
        return self._index is not None

    def add(self, interest: Interest) -> Wanted:
        """One more subscription."""
        if self.filters + len(interest.filters) > FILTERS_MAX:
            raise InputError(f"a node has at most {FILTERS_MAX} filters over {self.schema.name}")
        wanted = Wanted(self, interest)
        self._all[wanted] = None
        self.filters += len(interest.filters)
        self._last = (b"", frozenset())
        if self._index is not None:
            self._enter(wanted)
        elif self.filters >= INDEXED_FROM and not self._is_awaited:
            self._is_awaited = True
            when_compiled(self._make_index)
        return wanted

    def remove(self, wanted: Wanted) -> None:
        """A subscription is over; once is enough, twice does no harm."""
        if wanted not in self._all:
            return
        del self._all[wanted]
        self.filters -= len(wanted.interest.filters)
        self._last = (b"", frozenset())
        for number in wanted.numbers:
            assert self._index is not None
            self._index.remove(number)
            del self._by_number[number]

    def who_wants(self, sealed: Sealed) -> frozenset[Wanted]:
        """The subscriptions that want an event of the topic."""
        if self._last[0] != sealed.cid:
            self._last = (sealed.cid, self._look(sealed))
        return self._last[1]

    def _look(self, sealed: Sealed) -> frozenset[Wanted]:
        record = sealed.record
        if record.headers.get(HEADER) != self._digest:
            self._counters[ANOTHER_SCHEMA] += 1
            return frozenset()
        try:
            event = self.schema.event(read_values(record.payload))
        except InputError:
            self._counters[NOT_ALLOWED] += 1
            return frozenset()
        if self._index is not None:
            return frozenset(self._by_number[number] for number in self._index.match(event))
        return frozenset(wanted for wanted in self._all if wanted.interest.matches(event))

    def _make_index(self) -> None:
        self._index = FilterIndex(self.schema)
        for wanted in self._all:
            self._enter(wanted)

    def _enter(self, wanted: Wanted) -> None:
        assert self._index is not None
        wanted.numbers = [self._index.insert(one) for one in wanted.interest.filters]
        self._by_number.update(dict.fromkeys(wanted.numbers, wanted))


class Contents:
    """One node's subscriptions to schemas, a desk for each."""

    def __init__(self, readers: "Readers", counters: Counter[str]) -> None:
        self._readers, self._counters = readers, counters
        self._desks: dict[Schema, Desk] = {}

    def subscribe(self, schema: Schema, start: Start, consumer: str | None, wish: Wish) -> "Subscription":
        """See ``Node.subscribe``. InputError when the filter cannot be read."""
        interest = interest_of(schema, wish)
        self._desks = {known: desk for known, desk in self._desks.items() if len(desk)}
        wanted = self._desks.setdefault(schema, Desk(schema, self._counters)).add(interest)
        try:
            return self._readers.subscribe(schema.name, start, consumer, wanted)
        except BaseException:
            wanted.close()
            raise


_compiled = not COMPILED


def when_compiled(then: Callable[[], None]) -> None:
    """Do something once the index's rules are compiled; have that done beside the loop."""
    if _compiled:
        then()
        return
    work = asyncio.get_running_loop().run_in_executor(None, compile_index)
    work.add_done_callback(lambda done: None if done.cancelled() or done.exception() else then())


def compile_index() -> None:
    """Have the index's rules compiled, or loaded, by a use of all of them."""
    global _compiled
    schema = Schema("none", (Attribute("x", "number", 0, 1),))
    index = FilterIndex(schema)
    for number in range(INDEXED_FROM + 2):
        index.insert(make_filter(schema, {"x": (number / 1000, 1)}))
    index.remove(0)
    index.match((0.5,))
    _compiled = True
