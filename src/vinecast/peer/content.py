"""Content on a peer: which events of a schema its subscriptions want.

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
from collections.abc import Callable

import msgspec

from vinecast.core.content.filters import FilterSet
from vinecast.core.content.filters_index import INDEXED_FROM, FilterIndex, WhenCompiled
from vinecast.core.content.names import SCHEMA, digest_of, names_of
from vinecast.core.content.schemas import Schema
from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent

FILTERS_MAX = 262_144
"""Filters of all subscriptions of a node to one schema (ours)."""
ROUTED_MAX = 64
"""Filters of a schema that the network is told of (ours): what does not fit joins others, and more than is
wanted comes; it is left out here."""
ANOTHER_SCHEMA = "content: event of another schema"
NOT_ALLOWED = "content: event that its schema does not allow"

Ask = Callable[[frozenset[str], frozenset[str]], set[str]]
"""(names that are wanted, names that are no longer) → those of the former for which there was room"""
Matching = tuple[int, ...] | None
"""Which subscriptions of a desk a payload matches, by their numbers; None: its schema does not allow it."""
Look = Callable[[Callable[[bytes], Matching], bytes], Matching]
"""Looks into a payload, with what finds the subscriptions that it matches. Nothing else in a peer does so: a
record without payloads keeps what came of it (``peer/record``)."""


def look_inside(find: Callable[[bytes], Matching], payload: bytes) -> Matching:
    """Where the payload is at hand."""
    return find(payload)


_decoder = msgspec.json.Decoder(dict[str, int | float | str])


def read_values(payload: bytes) -> dict[str, int | float | str]:
    """The values in an event's payload, whatever its schema says to them. InputError if there are none."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InputError(
            "this is not an event of a schema: its payload is no JSON object of values"
        ) from None


class SubscriptionFilter:
    """What one subscription wants; ``close`` it with the subscription."""

    def __init__(self, desk: "SchemaDesk", number: int, filter_set: FilterSet) -> None:
        self._desk, self.number, self.filter_set = desk, number, filter_set
        self.is_routed = False
        """Whether events come because of it, rather than with the topic's others."""
        self.numbers: list[int] = []
        """Of its filters in the desk's index."""

    def has(self, signed: SignedEvent) -> bool:
        """Whether an event of the topic is wanted."""
        return self.number in self._desk.who_wants(signed)

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
        self,
        schema: Schema,
        counters: Counter[str],
        when_compiled: WhenCompiled,
        ask: Ask,
        look: Look = look_inside,
    ) -> None:
        self._ask, self._when_compiled, self._look_inside = ask, when_compiled, look
        self.names: frozenset[str] = frozenset()
        """What the node's system was told, of those whose events are routed."""
        self.schema, self._counters, self._digest = schema, counters, digest_of(schema)
        self._all: dict[int, SubscriptionFilter] = {}
        """Number → what that subscription wants."""
        self._made = 0
        self.filters = 0
        """Of all of them together."""
        self._index: FilterIndex | None = None
        self._is_awaited = False
        self._of: dict[int, int] = {}
        """Filter in the index → the number of its subscription."""
        self._last: tuple[bytes, frozenset[int]] = (b"", frozenset())
        """The event looked at last, and which subscriptions want it."""

    def __len__(self) -> int:
        return len(self._all)

    def add(self, filter_set: FilterSet) -> SubscriptionFilter:
        """One more subscription."""
        if self.filters + len(filter_set.filters) > FILTERS_MAX:
            raise InputError(f"a node has at most {FILTERS_MAX} filters over {self.schema.name}")
        self._made += 1
        wanted = self._all[self._made] = SubscriptionFilter(self, self._made, filter_set)
        self.filters += len(filter_set.filters)
        self._last = (b"", frozenset())
        if self._index is not None:
            self._enter(wanted)
        elif self.filters >= INDEXED_FROM and not self._is_awaited:
            self._is_awaited = True
            self._when_compiled(self._make_index)
        return wanted

    def tell(self) -> bool:
        """Tell the node's system what those want whose events are routed; whether there was room for it."""
        routed = [wanted for wanted in self._all.values() if wanted.is_routed]
        filters = [one for wanted in routed for one in wanted.filter_set.filters]
        names = names_of(self.schema, filters, ROUTED_MAX)
        had = self._ask(names - self.names, self.names - names)
        self.names = names & (self.names | had)
        return self.names == names

    def remove(self, wanted: SubscriptionFilter) -> bool:
        """A subscription is over; whether that is news."""
        if self._all.pop(wanted.number, None) is None:
            return False
        self.filters -= len(wanted.filter_set.filters)
        self._last = (b"", frozenset())
        for number in wanted.numbers:
            assert self._index is not None
            self._index.remove(number)
            del self._of[number]
        return True

    def who_wants(self, signed: SignedEvent) -> frozenset[int]:
        """The subscriptions that want an event of the topic, by number."""
        if self._last[0] != signed.cid:
            self._last = (signed.cid, self._look(signed))
        return self._last[1]

    def _look(self, signed: SignedEvent) -> frozenset[int]:
        record = signed.record
        if record.headers.get(SCHEMA) != self._digest:
            self._counters[ANOTHER_SCHEMA] += 1
            return frozenset()
        found = self._look_inside(self._find, record.payload)
        if found is None:
            self._counters[NOT_ALLOWED] += 1
            return frozenset()
        return frozenset(found)

    def _find(self, payload: bytes) -> Matching:
        try:
            event = self.schema.event(read_values(payload))
        except InputError:
            return None
        if self._index is not None:
            return tuple(sorted({self._of[number] for number in self._index.match(event)}))
        return tuple([number for number, one in self._all.items() if one.filter_set.matches(event)])

    def _make_index(self) -> None:
        self._index = FilterIndex(self.schema)
        for wanted in self._all.values():
            self._enter(wanted)

    def _enter(self, wanted: SubscriptionFilter) -> None:
        assert self._index is not None
        wanted.numbers = [self._index.insert(one) for one in wanted.filter_set.filters]
        self._of.update(dict.fromkeys(wanted.numbers, wanted.number))
