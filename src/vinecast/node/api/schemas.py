"""Schemas that nodes find: each is part of the descriptor of the topic that has its name.

So a schema is content-addressed, its owner's name record vouches for it, and it is created, found, forked
and handed on as topics are (``node/api/topic_names``). A schema does not change: events and filters that were
made for one would mean something else. Whoever needs another one creates it under another name.
"""

from vinecast.core.content.schemas import Schema
from vinecast.core.content.schemas_text import parse_schema, schema_text
from vinecast.core.errors import InputError
from vinecast.node.api.topic_names import Described, TopicNames

SCHEMA = "schema"
"""The metadata of a topic that is its schema's text form."""


class Schemas:
    """Creates and finds schemas for one node."""

    def __init__(self, names: TopicNames) -> None:
        self._names = names

    async def create(self, schema: Schema, about: str = "") -> Described:
        """A new schema of this node's, for everybody to find; ``about``: what it is, in words."""
        metadata: dict[str, str | bytes] = {SCHEMA: schema_text(schema)}
        return await self._names.create(schema.name, metadata | ({"about": about} if about else {}))

    async def find(self, name: str, owner: bytes | None = None) -> Schema:
        """The schema of this name; one that this node speaks for, if no owner is given."""
        return schema_in(await self._names.show(name, owner))


def schema_in(described: Described) -> Schema:
    """The schema of a topic. InputError if it has none, or one that cannot be read."""
    name, text = described.descriptor.name, described.descriptor.metadata.get(SCHEMA)
    if not isinstance(text, str):
        raise InputError(f"the topic {name!r} has no schema")
    try:
        return parse_schema(name, text)
    except InputError as error:
        raise InputError(f"the schema of {name!r} cannot be read: {error}") from None
