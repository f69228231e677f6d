"""What programs ask of a running node over the control socket, one JSON object a line
(``node/control/server``)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from vinecast.core.content.schemas import ATTRIBUTES_MAX
from vinecast.protocols.streams import NOW

LOG_MAX = 1000  # ours: events of a stream in one answer

Owner = Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")]
"""A key in hexadecimal digits; the node's own if it is empty."""


class SchemaRequest(Struct, tag="schema", tag_field="do", forbid_unknown_fields=True):
    """Create or show a schema."""

    action: Literal["create", "show"]
    name: str
    owner: Owner = ""
    text: str = ""
    about: str = ""


class PublishContentRequest(Struct, tag="publish-content", tag_field="do", forbid_unknown_fields=True):
    """Publish an event of a schema."""

    schema: str
    owner: Owner = ""
    values: dict[str, int | float | str] = {}
    pairs: Annotated[list[str], Meta(max_length=ATTRIBUTES_MAX)] = []
    """Values as a command line has them; instead, or besides."""
    headers: dict[str, str] = {}
    durable: bool = True


class SubscribeContentRequest(Struct, tag="subscribe-content", tag_field="do", forbid_unknown_fields=True):
    """Tell me events of a schema that match, from now on."""

    schema: str
    owner: Owner = ""
    where: str = "everything"
    start: str | int = NOW
    consumer: str | None = None


class PublishRequest(Struct, tag="publish", tag_field="do", forbid_unknown_fields=True):
    """Publish an event; its payload is the text or the data."""

    topic: str
    text: str = ""
    data: bytes | None = None
    headers: dict[str, str] = {}
    durable: bool = True


class SubscribeRequest(Struct, tag="subscribe", tag_field="do", forbid_unknown_fields=True):
    """Tell me events of these topics and patterns from now on."""

    topics: Annotated[list[str], Meta(min_length=1, max_length=256)]
    start: str | int = NOW
    consumer: str | None = None


class AckRequest(Struct, tag="ack", tag_field="do", forbid_unknown_fields=True):
    """A consumer is done with an event and all before it."""

    topic: str
    offset: int


class LogRequest(Struct, tag="log", tag_field="do", forbid_unknown_fields=True):
    """What the node keeps of a stream, in the order that all nodes share."""

    topic: str
    after: str | None = None
    count: Annotated[int, Meta(ge=1, le=LOG_MAX)] = 100


class TopicRequest(Struct, tag="topic", tag_field="do", forbid_unknown_fields=True):
    """Create, show, add to, list the versions of, fork, hand on, or take over a topic."""

    action: Literal["create", "show", "add", "log", "fork", "hand-on", "take-over"]
    name: str
    owner: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Whose topic; this node's own if it is empty. For ``add``, whose sub-topic."""
    other: str = ""
    """The sub-topic to add, the fork's own name, or the key to hand on to."""
    metadata: dict[str, str] = {}


class TopicsRequest(Struct, tag="topics", tag_field="do", forbid_unknown_fields=True):
    """Asks which topics the node subscribes to, and which it knows of."""


class PeersRequest(Struct, tag="peers", tag_field="do", forbid_unknown_fields=True):
    """Asks which peers the node knows."""


class StatsRequest(Struct, tag="stats", tag_field="do", forbid_unknown_fields=True):
    """Asks for the node in numbers."""


ImmediateRequest = (
    PublishRequest
    | LogRequest
    | TopicRequest
    | TopicsRequest
    | PeersRequest
    | StatsRequest
    | SchemaRequest
    | PublishContentRequest
)
"""What is answered at once."""
Opening = SubscribeRequest | SubscribeContentRequest
"""What begins a feed of events."""

request_decoder: msgspec.json.Decoder[ImmediateRequest | Opening] = msgspec.json.Decoder(
    ImmediateRequest | Opening
)
ack_decoder: msgspec.json.Decoder[AckRequest] = msgspec.json.Decoder(AckRequest)
