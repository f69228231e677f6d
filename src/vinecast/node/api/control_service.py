"""What a node answers over the control socket: requests of ``node/control/requests``, carried out on a
Node."""

from typing import Any

from vinecast.core.content.schemas_text import event_values, parse_schema, schema_text
from vinecast.core.errors import InputError
from vinecast.core.log.event_record import PUBLIC_KEY_BYTES
from vinecast.node.api.event_feed import EventFeed, log_told
from vinecast.node.api.node import Node
from vinecast.node.api.schemas import schema_in
from vinecast.node.control.requests import (
    ImmediateRequest,
    LogRequest,
    Opening,
    PeersRequest,
    PublishContentRequest,
    PublishRequest,
    SchemaRequest,
    StatsRequest,
    SubscribeContentRequest,
    TopicRequest,
    TopicsRequest,
)
from vinecast.peer.receipt import Receipt

PEERS_TOLD_MAX = 1000  # ours: nobody reads more


def key_of(text: str) -> bytes:
    """The key that these digits stand for."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != PUBLIC_KEY_BYTES:
        raise InputError(f"a key has {2 * PUBLIC_KEY_BYTES} hexadecimal digits, not {text[:80]!r}")
    return key


def peers_told(node: Node) -> list[dict[str, Any]]:
    """The peers for JSON, connected ones first."""
    peers = sorted(node.peers(), key=lambda peer: (not peer.connected, peer.id))[:PEERS_TOLD_MAX]
    return [
        {"id": peer.id.hex(), "address": peer.address, "topics": peer.topics, "connected": peer.connected}
        for peer in peers
    ]


class ControlService:
    """Carries out on a node what programs ask over the control socket."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def about(self) -> dict[str, Any]:
        node = self._node
        return {"id": node.id.hex(), "address": node.address, "network": node.network}

    async def open(self, request: Opening) -> EventFeed:
        if not isinstance(request, SubscribeContentRequest):
            return await EventFeed.open(self._node, request.topics, request.start, request.consumer)
        schema = await self._node.schemas.find(request.schema, bytes.fromhex(request.owner) or None)
        return EventFeed([self._node.subscribe(schema, request.start, request.consumer, request.where)])

    async def answer(self, request: ImmediateRequest) -> Any:
        node = self._node
        match request:
            case PublishRequest(topic, text, data, headers, durable):
                receipt = await node.publish(topic, text if data is None else data, headers, durable)
                return receipt.told
            case LogRequest(topic, after, count):
                return log_told(node.log(topic, after, count))
            case TopicRequest():
                return await self._do_topic(request)
            case TopicsRequest():
                return {"own": node.topics(), "known": node.known_topics()}
            case PeersRequest():
                return peers_told(node)
            case StatsRequest():
                return node.stats()
            case SchemaRequest():
                return await self._do_schema(request)
            case PublishContentRequest():
                return (await self._publish_content(request)).told

    async def _do_topic(self, request: TopicRequest) -> Any:
        names, owner = self._node.names, bytes.fromhex(request.owner) or None
        match request.action:
            case "create":
                return (await names.create(request.name, request.metadata)).told
            case "show":
                return (await names.show(request.name, owner)).told
            case "add":
                return (await names.add(request.name, request.other, owner)).told
            case "log":
                return [version.told for version in await names.history(request.name, owner)]
            case "hand-on":
                return (await names.hand_on(request.name, key_of(request.other))).told
        if owner is None:
            raise InputError(f"say whose topic to {request.action.replace('-', ' ')}: its owner's key")
        if request.action == "take-over":
            return (await names.take_over(request.name, owner)).told
        return (await names.fork(request.name, owner, request.other or None)).told

    async def _do_schema(self, request: SchemaRequest) -> dict[str, Any]:
        node = self._node
        if request.action == "create":
            described = await node.schemas.create(parse_schema(request.name, request.text), request.about)
        else:
            described = await node.names.show(request.name, bytes.fromhex(request.owner) or None)
        return {**described.told, "schema": schema_text(schema_in(described))}

    async def _publish_content(self, request: PublishContentRequest) -> Receipt:
        schema = await self._node.schemas.find(request.schema, bytes.fromhex(request.owner) or None)
        values = {**request.values, **event_values(schema, request.pairs)}
        return await self._node.publish(schema, values, request.headers, request.durable)
