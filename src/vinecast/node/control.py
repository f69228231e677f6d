"""The control socket: how programs on the same machine use a running node.

A Unix socket in the node's folder, for its owner only; lines of JSON both ways. The node begins:

    {"vinecast": 1, "id": …, "address": …, "network": …}
    -> {"do": "publish", "topic": "sports/tennis", "text": "15:0"}      or "data": base64; "headers": {…}
    <- {"ok": {"id": …, "neighbours": 3, "holders": 1}}                 "durable": false: kept by nobody
    -> {"do": "topics"} | {"do": "peers"} | {"do": "stats"}
    <- {"ok": …}
    -> {"do": "log", "topic": "sports/tennis", "count": 100}            "after": the id of an event
    <- {"ok": [{…}, …]}                                                 in the order that all nodes share
    -> {"do": "topic", "action": "show", "name": "sports"}              create, add, log, fork …; "owner": key
    <- {"ok": {…}}
    -> {"do": "subscribe", "topics": ["sports/#"]}                      "start": "earliest", "consumer": "me"
    <- {"ok": …}, later {"ready": true}, and from then on {"event": {…}} and {"dropped": so many in all}
    -> {"do": "ack", "topic": …, "offset": …}                           by a consumer, without an answer
    <- {"error": "one sentence"} to what cannot be done

What concerns schemas and their events stands in ``node/content_control``. A connection that subscribes does
nothing else but acknowledge; it ends when either side closes it. Nobody who is slow to read holds the node
up: events wait in the subscription's bounded queue, and what finds no room there is counted, or read from its
stream later.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vinecast.core.errors import InputError, VinecastError
from vinecast.core.records import PUBLIC_KEY_BYTES
from vinecast.node.content_control import (
    PublishContent,
    Schema,
    SubscribeContent,
    do_schema,
    open_content,
    publish_content,
)
from vinecast.node.folder import CONTROL, listen_in
from vinecast.node.node import Node
from vinecast.node.stream import Stream, log_told
from vinecast.protocols.streams import NOW

log = logging.getLogger("vinecast.node.control")

VERSION = 1
CONNECTIONS_MAX = 64  # ours
LINE_BYTES_MAX = 4 * 1024 * 1024  # ours: more than the largest event, in base64
PEERS_TOLD_MAX = 1000  # ours: nobody reads more
LOG_MAX = 1000  # ours: events of a stream in one answer


class Publish(Struct, tag="publish", tag_field="do", forbid_unknown_fields=True):
    """Publish an event; its payload is the text or the data."""

    topic: str
    text: str = ""
    data: bytes | None = None
    headers: dict[str, str] = {}
    durable: bool = True


class Subscribe(Struct, tag="subscribe", tag_field="do", forbid_unknown_fields=True):
    """Tell me events of these topics and patterns from now on."""

    topics: Annotated[list[str], Meta(min_length=1, max_length=256)]
    start: str | int = NOW
    consumer: str | None = None


class Ack(Struct, tag="ack", tag_field="do", forbid_unknown_fields=True):
    """A consumer is done with an event and all before it."""

    topic: str
    offset: int


class Log(Struct, tag="log", tag_field="do", forbid_unknown_fields=True):
    """What the node keeps of a stream, in the order that all nodes share."""

    topic: str
    after: str | None = None
    count: Annotated[int, Meta(ge=1, le=LOG_MAX)] = 100


class Topic(Struct, tag="topic", tag_field="do", forbid_unknown_fields=True):
    """Create, show, add to, list the versions of, fork, hand on, or take over a topic."""

    action: Literal["create", "show", "add", "log", "fork", "hand-on", "take-over"]
    name: str
    owner: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Whose topic; this node's own if it is empty. For ``add``, whose sub-topic."""
    other: str = ""
    """The sub-topic to add, the fork's own name, or the key to hand on to."""
    metadata: dict[str, str] = {}


class Topics(Struct, tag="topics", tag_field="do", forbid_unknown_fields=True):
    """What the node subscribes to, and what it knows of."""


class Peers(Struct, tag="peers", tag_field="do", forbid_unknown_fields=True):
    """Whom it knows."""


class Stats(Struct, tag="stats", tag_field="do", forbid_unknown_fields=True):
    """The node in numbers."""


Question = Publish | Log | Topic | Topics | Peers | Stats | Schema | PublishContent
"""What is answered at once."""
_decoder = msgspec.json.Decoder(Question | Subscribe | SubscribeContent)
_ack_decoder = msgspec.json.Decoder(Ack)
_encode = msgspec.json.Encoder().encode


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
    """The peers for JSON, linked ones first."""
    peers = sorted(node.peers(), key=lambda peer: (not peer.linked, peer.id))[:PEERS_TOLD_MAX]
    return [
        {"id": peer.id.hex(), "address": peer.address, "topics": peer.topics, "linked": peer.linked}
        for peer in peers
    ]


class ControlServer:
    """Serves one node's control socket. The node must be up, and hold its folder."""

    def __init__(self, node: Node, folder: Path) -> None:
        self._node, self._folder = node, folder
        self._server: asyncio.Server | None = None
        self._conversations: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen."""
        listener = listen_in(self._folder)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=LINE_BYTES_MAX)

    async def close(self) -> None:
        """Stop listening and end all conversations."""
        if self._server is None:
            return
        self._server.close()
        for task in self._conversations:
            task.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        with contextlib.suppress(OSError):
            (self._folder / CONTROL).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversation = _Conversation(self._node, reader, writer)
        self._conversations.add(task)
        try:
            if len(self._conversations) > CONNECTIONS_MAX:
                await conversation.tell({"error": "too many programs speak to this node at once"})
            else:
                await conversation.hold()
        except (OSError, asyncio.CancelledError):
            pass  # it hung up, or the node leaves
        except Exception:
            log.exception("a conversation over the control socket failed")
        finally:
            self._conversations.discard(task)
            writer.transport.abort() if task.cancelling() else writer.close()


class _Conversation:
    """With one program."""

    def __init__(self, node: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._node, self._reader, self._writer = node, reader, writer

    async def tell(self, what: dict[str, Any]) -> None:
        """Send a line, and wait while the other side is slow."""
        self._writer.write(_encode(what) + b"\n")
        await self._writer.drain()

    async def hold(self) -> None:
        """Greet, and answer until the other side has had enough."""
        node = self._node
        about = {"id": node.id.hex(), "address": node.address, "network": node.network}
        await self.tell({"vinecast": VERSION, **about})
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                await self.tell({"error": f"a line has {LINE_BYTES_MAX} bytes at the most"})
                return
            if not line.strip():
                return
            try:
                request = _decoder.decode(line)
                if isinstance(request, Subscribe | SubscribeContent):
                    await self._stream(request)
                    return
                answer = {"ok": await self._answer(request)}
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                answer = {"error": f"not a request: {error}"}
            except VinecastError as error:
                answer = {"error": str(error)}
            await self.tell(answer)

    async def _answer(self, request: Question) -> Any:
        node = self._node
        match request:
            case Publish(topic, text, data, headers, durable):
                receipt = await node.publish(topic, text if data is None else data, headers, durable)
                return receipt.told
            case Log(topic, after, count):
                return log_told(node.log(topic, after, count))
            case Topic():
                return await self._do_topic(request)
            case Topics():
                return {"own": node.topics(), "known": node.known_topics()}
            case Peers():
                return peers_told(node)
            case Stats():
                return node.stats()
            case Schema():
                return await do_schema(node, request)
            case PublishContent():
                return await publish_content(node, request)

    async def _do_topic(self, request: Topic) -> Any:
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

    async def _stream(self, request: Subscribe | SubscribeContent) -> None:
        """Pass events on until the other side hangs up or the node leaves."""
        if isinstance(request, SubscribeContent):
            stream = await open_content(self._node, request)
        else:
            stream = await Stream.open(self._node, request.topics, request.start, request.consumer)
        try:
            await self.tell({"ok": [subscription.topic for subscription in stream.subscriptions]})
            work = [asyncio.create_task(self._pass_on(stream)), asyncio.create_task(self._hear_acks(stream))]
            try:
                await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
        finally:
            await stream.close()

    async def _pass_on(self, stream: Stream) -> None:
        while (news := await stream.next()) is not None:
            await self.tell(news)

    async def _hear_acks(self, stream: Stream) -> None:
        """Take acknowledgements until the other side hangs up. Whatever else it says is not for us."""
        while line := await self._reader.readline():
            try:
                ack = _ack_decoder.decode(line)
                stream.ack(ack.topic, ack.offset)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                await self.tell({"error": f"not an acknowledgement: {error}"})
            except VinecastError as error:
                await self.tell({"error": str(error)})
