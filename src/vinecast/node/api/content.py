"""Content as applications say it: events of a schema as those of a topic, and filters by their text form.

What a node does with them: ``peer/content``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from vinecast.core.content.filters import Filter, FilterSet, everything
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.content.names import PLACES, SCHEMA, digest_of, write_places
from vinecast.core.content.schemas import TIME, Event, Schema, time_text
from vinecast.core.errors import InputError

Headers = Mapping[str, str | bytes]
Payload = bytes | str
Values = Mapping[str, Any]
"""What an application says: a value for every attribute."""
FilterLike = str | Filter | FilterSet | None
"""Which events of a schema: by a text form, or all."""

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
