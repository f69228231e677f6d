"""What programs ask of a running node about content, over the control socket (``node/control``).

-> {"do": "schema", "action": "create", "name": "stocks", "text": "price number 0..1000, order string"}
-> {"do": "schema", "action": "show", "name": "stocks"}                        "owner": key
<- {"ok": {"name": "stocks", "schema": "price number …", …}}
-> {"do": "publish-content", "schema": "stocks", "values": {"price": 9.5, "order": "buy"}}
                                                                or "pairs": ["price=9.5", "order=buy"]
-> {"do": "subscribe-content", "schema": "stocks", "where": "price < 10"}      "start", "consumer"
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from vinecast.core.schemas import ATTRIBUTES_MAX
from vinecast.core.schemas_text import event_values, parse_schema, schema_text
from vinecast.node.content_schemas import schema_in
from vinecast.node.node import Node
from vinecast.node.stream import Stream
from vinecast.protocols.streams import NOW

Owner = Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")]
"""A key in hexadecimal digits; the node's own if it is empty."""


class Schema(Struct, tag="schema", tag_field="do", forbid_unknown_fields=True):
    """Create or show a schema."""

    action: Literal["create", "show"]
    name: str
    owner: Owner = ""
    text: str = ""
    about: str = ""


class PublishContent(Struct, tag="publish-content", tag_field="do", forbid_unknown_fields=True):
    """Publish an event of a schema."""

    schema: str
    owner: Owner = ""
    values: dict[str, int | float | str] = {}
    pairs: Annotated[list[str], Meta(max_length=ATTRIBUTES_MAX)] = []
    """Values as a command line has them; instead, or besides."""
    headers: dict[str, str] = {}
    durable: bool = True


class SubscribeContent(Struct, tag="subscribe-content", tag_field="do", forbid_unknown_fields=True):
    """Tell me events of a schema that match, from now on."""

    schema: str
    owner: Owner = ""
    where: str = "everything"
    start: str | int = NOW
    consumer: str | None = None


async def do_schema(node: Node, request: Schema) -> dict[str, Any]:
    """A schema for JSON."""
    if request.action == "create":
        described = await node.schemas.create(parse_schema(request.name, request.text), request.about)
    else:
        described = await node.names.show(request.name, bytes.fromhex(request.owner) or None)
    return {**described.told, "schema": schema_text(schema_in(described))}


async def publish_content(node: Node, request: PublishContent) -> dict[str, Any]:
    """Publish; the receipt for JSON."""
    schema = await node.schemas.find(request.schema, bytes.fromhex(request.owner) or None)
    values = {**request.values, **event_values(schema, request.pairs)}
    return (await node.publish(schema, values, request.headers, request.durable)).told


async def open_content(node: Node, request: SubscribeContent) -> Stream:
    """Subscribe."""
    schema = await node.schemas.find(request.schema, bytes.fromhex(request.owner) or None)
    return Stream([node.subscribe(schema, request.start, request.consumer, request.where)])
