"""Content on a live node: events of a schema, and which of them somebody wants.

An event of a schema is an event of the topic that has the schema's name. Its payload is a JSON object with a
value for every attribute, times in ISO 8601, and its header ``schema`` says which schema that is
(``core/content/schemas_text.schema_digest``). Whoever subscribes with a filter gets the events that match,
and no others: what has another schema, or values that the schema does not allow, is counted and left out.

A node looks at an event once for all its readers: at each filter while they are few, and in an index
(``core/content/filters_index``) when they are many.

Where the node's system routes by content (``system = "vinifera"``), whoever wants what is published from now
on gets the events that match by that alone: the node tells the system what its readers want, and follows no
stream. Whoever begins earlier, or goes on as a consumer, reads the topic's stream, and filters what it reads;
so does everybody in other systems.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from vinecast.core.content.filters import Filter, FilterSet, everything
from vinecast.core.content.filters_index import INDEXED_FROM, FilterIndex
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.content.names import PLACES, SCHEMA, digest_of, names_of, write_places
from vinecast.core.content.schemas import TIME, Event, Schema, time_text
from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.node.runtime.capabilities import when_compiled
from vinecast.peer.streams.cursor import Start
from vinecast.protocols.streams import NOW

if TYPE_CHECKING:
    from vinecast.node.api.subscription import Subscription
    from vinecast.node.api.subscriptions import NodeSubscriptions

FILTERS_MAX = 262_144
"""Filters of all subscriptions of a node to one schema (ours)."""
ROUTED_MAX = 64
"""Filters of a schema that the network is told of (ours): what does not fit joins others, and more than is
wanted comes; it is left out here."""
ANOTHER_SCHEMA = "content: event of another schema"
NOT_ALLOWED = "content: event that its schema does not allow"

Headers = Mapping[str, str | bytes]
Payload = bytes | str
Values = Mapping[str, Any]
"""What an application says: a value for every attribute."""
FilterLike = str | Filter | FilterSet | None
"""Which events of a schema: by a text form, or all."""

Ask = Callable[[frozenset[str], frozenset[str]], set[str]]
"""(names that are wanted, names that are no longer) → those of the former for which there was room"""

_decoder = msgspec.json.Decoder(dict[str, int | float | str])
_encode = msgspec.json.Encoder().encode


def as_plain(
    topic: str | Schema, events: Iterable[Payload | Values], headers: Headers | None, by_content: bool = False
) -> tuple[str, Iterator[tuple[Payload, Headers | None]]]:
    """Events of a schema as those of a topic: its name, and their payloads and headers. What is said of a
    topic stays as it is. by_content: whether to say where each of them is on the circle"""
    if not isinstance(topic, Schema):
        return topic, ((cast(Payload, payload), headers) for payload in events)
    return topic.name, (_written(topic, values, headers or {}, by_content) for values in events)


def _written(schema: Schema, values: object, headers: Headers, by_content: bool) -> tuple[bytes, Headers]:
    event = _event_of(schema, values)
    said: dict[str, str | bytes] = {**headers, SCHEMA: digest_of(schema)}
    if by_content:
        said[PLACES] = write_places(schema, event)
    return _write_event(schema, event), said


def _event_of(schema: Schema, values: object) -> Event:
    if not isinstance(values, Mapping):
        raise InputError(
            f"an event of {schema.name} is a mapping of attributes to values, not {type(values).__name__}"
        )
    return schema.event(values)


def _write_event(schema: Schema, event: Event) -> bytes:
    written = {
        attribute.name: time_text(int(value)) if attribute.kind == TIME else value
        for attribute, value in zip(schema.attributes, event, strict=True)
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


def filter_set_of(schema: Schema, filter_like: FilterLike) -> FilterSet:
    """What somebody wants of a schema; everything if nothing is said."""
    if filter_like is None:
        return FilterSet(schema, (everything(schema),))
    if isinstance(filter_like, str):
        return parse_filter_set(schema, filter_like)
    found = FilterSet(schema, (filter_like,)) if isinstance(filter_like, Filter) else filter_like
    if not isinstance(found, FilterSet):
        raise InputError(f"a filter is a string, a Filter or a FilterSet, not {type(filter_like).__name__}")
    for other in (found.schema, *(one.schema for one in found.filters)):
        if other != schema:
            raise InputError(f"a filter over another schema ({other.name}) than {schema.name}")
    return found


class SubscriptionFilter:
    """What one subscription wants; ``close`` it with the subscription."""

    def __init__(self, desk: "SchemaDesk", filter_set: FilterSet) -> None:
        self._desk, self.filter_set = desk, filter_set
        self.is_routed = False
        """Whether events come because of it, rather than with the topic's others."""
        self.numbers: list[int] = []
        """Of its filters in the desk's index."""

    def has(self, signed: SignedEvent) -> bool:
        """Whether an event of the topic is wanted."""
        return self in self._desk.who_wants(signed)

    def close(self) -> None:
        """Want nothing any more."""
        if self._desk.remove(self) and self.is_routed:
            self._desk.tell()

    @property
    def names(self) -> frozenset[str]:
        """By what names the node asks for what it and others want of the schema."""
        return self._desk.names


class SchemaDesk:
    """All that a node's subscriptions want of one schema."""

    def __init__(
        self, schema: Schema, counters: Counter[str], ask: Ask = lambda names, others: set()
    ) -> None:
        self._ask = ask
        self.names: frozenset[str] = frozenset()
        """What the node's system was told, of those whose events are routed."""
        self.schema, self._counters, self._digest = schema, counters, digest_of(schema)
        self._all: dict[SubscriptionFilter, None] = {}
        self.filters = 0
        """Of all of them together."""
        self._index: FilterIndex | None = None
        self._is_awaited = False
        self._by_number: dict[int, SubscriptionFilter] = {}
        self._last: tuple[bytes, frozenset[SubscriptionFilter]] = (b"", frozenset())
        """The event looked at last, and who wants it."""

    def __len__(self) -> int:
        return len(self._all)

    def add(self, filter_set: FilterSet) -> SubscriptionFilter:
        """One more subscription."""
        if self.filters + len(filter_set.filters) > FILTERS_MAX:
            raise InputError(f"a node has at most {FILTERS_MAX} filters over {self.schema.name}")
        wanted = SubscriptionFilter(self, filter_set)
        self._all[wanted] = None
        self.filters += len(filter_set.filters)
        self._last = (b"", frozenset())
        if self._index is not None:
            self._enter(wanted)
        elif self.filters >= INDEXED_FROM and not self._is_awaited:
            self._is_awaited = True
            when_compiled(self._make_index)
        return wanted

    def tell(self) -> bool:
        """Tell the node's system what those want whose events are routed; whether there was room for it."""
        filters = [one for wanted in self._all if wanted.is_routed for one in wanted.filter_set.filters]
        names = names_of(self.schema, filters, ROUTED_MAX)
        had = self._ask(names - self.names, self.names - names)
        self.names = names & (self.names | had)
        return self.names == names

    def remove(self, wanted: SubscriptionFilter) -> bool:
        """A subscription is over; whether that is news."""
        if wanted not in self._all:
            return False
        del self._all[wanted]
        self.filters -= len(wanted.filter_set.filters)
        self._last = (b"", frozenset())
        for number in wanted.numbers:
            assert self._index is not None
            self._index.remove(number)
            del self._by_number[number]
        return True

    def who_wants(self, signed: SignedEvent) -> frozenset[SubscriptionFilter]:
        """The subscriptions that want an event of the topic."""
        if self._last[0] != signed.cid:
            self._last = (signed.cid, self._look(signed))
        return self._last[1]

    def _look(self, signed: SignedEvent) -> frozenset[SubscriptionFilter]:
        record = signed.record
        if record.headers.get(SCHEMA) != self._digest:
            self._counters[ANOTHER_SCHEMA] += 1
            return frozenset()
        try:
            event = self.schema.event(read_values(record.payload))
        except InputError:
            self._counters[NOT_ALLOWED] += 1
            return frozenset()
        if self._index is not None:
            return frozenset(self._by_number[number] for number in self._index.match(event))
        return frozenset(wanted for wanted in self._all if wanted.filter_set.matches(event))

    def _make_index(self) -> None:
        self._index = FilterIndex(self.schema)
        for wanted in self._all:
            self._enter(wanted)

    def _enter(self, wanted: SubscriptionFilter) -> None:
        assert self._index is not None
        wanted.numbers = [self._index.insert(one) for one in wanted.filter_set.filters]
        self._by_number.update(dict.fromkeys(wanted.numbers, wanted))


class ContentSubscriptions:
    """One node's subscriptions to schemas, a desk for each. ``routes``: whether its system routes by content;
    ``ask`` tells it of names that are wanted, and of others that are no longer."""

    def __init__(
        self, subscriptions: "NodeSubscriptions", counters: Counter[str], routes: bool, ask: Ask
    ) -> None:
        self._subscriptions, self._counters, self._routes, self._ask = subscriptions, counters, routes, ask
        self._desks: dict[Schema, SchemaDesk] = {}

    def subscribe(
        self, schema: Schema, start: Start, consumer: str | None, filter_like: FilterLike
    ) -> "Subscription":
        """See ``Node.subscribe``. InputError when the filter cannot be read."""
        filter_set = filter_set_of(schema, filter_like)
        self._desks = {known: desk for known, desk in self._desks.items() if len(desk)}
        desk = self._desks.setdefault(schema, SchemaDesk(schema, self._counters, self._ask))
        wanted = desk.add(filter_set)
        wanted.is_routed = self._routes and start == NOW and consumer is None
        try:
            if wanted.is_routed and not desk.tell():
                raise InputError(f"there is no room for one more filter over {schema.name}")
            return self._subscriptions.subscribe(schema.name, start, consumer, wanted)
        except BaseException:
            wanted.close()
            raise
