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

Schemas and their events:

    -> {"do": "schema", "action": "create", "name": "stocks", "text": "price number 0..1000, order string"}
    -> {"do": "schema", "action": "show", "name": "stocks"}                        "owner": key
    <- {"ok": {"name": "stocks", "schema": "price number …", …}}
    -> {"do": "publish-content", "schema": "stocks", "values": {"price": 9.5, "order": "buy"}}
                                                                    or "pairs": ["price=9.5", "order=buy"]
    -> {"do": "subscribe-content", "schema": "stocks", "where": "price < 10"}      "start", "consumer"

A connection that subscribes does nothing else but acknowledge; it ends when either side closes it. Nobody who
is slow to read holds the node up: events wait in the subscription's bounded queue, and what finds no room
there is counted, or read from its stream later.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any, Protocol

import msgspec

from vinecast.core.errors import VinecastError
from vinecast.node.control.folder import CONTROL, listen_in
from vinecast.node.control.requests import ImmediateRequest, Opening, ack_decoder, request_decoder

log = logging.getLogger("vinecast.node.control")

VERSION = 1
CONNECTIONS_MAX = 64  # ours
LINE_BYTES_MAX = 4 * 1024 * 1024  # ours: more than the largest event, in base64

_encode = msgspec.json.Encoder().encode


class Feed(Protocol):
    """Events on their way to one program."""

    @property
    def topics(self) -> list[str]:
        """What was subscribed to."""

    async def next(self) -> dict[str, Any] | None:
        """What is to be told next; None when there is nothing more."""

    def ack(self, topic: str, offset: int) -> None:
        """The program is done with an event and all before it."""

    async def close(self) -> None:
        """End it."""


class Service(Protocol):
    """The node behind the socket. What it cannot do is a VinecastError with one sentence."""

    def about(self) -> dict[str, Any]:
        """Who it is."""

    async def answer(self, request: ImmediateRequest) -> Any:
        """What is asked, for JSON."""

    async def open(self, request: Opening) -> Feed:
        """Subscribe."""


class ControlServer:
    """Serves one node's control socket. The node must be up, and hold its folder."""

    def __init__(self, service: Service, folder: Path) -> None:
        self._service, self._folder = service, folder
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen."""
        listener = listen_in(self._folder)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=LINE_BYTES_MAX)

    async def close(self) -> None:
        """Stop listening and end all sessions."""
        if self._server is None:
            return
        self._server.close()
        for task in self._sessions:
            task.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        with contextlib.suppress(OSError):
            (self._folder / CONTROL).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        session = _ControlSession(self._service, reader, writer)
        self._sessions.add(task)
        try:
            if len(self._sessions) > CONNECTIONS_MAX:
                await session.tell({"error": "too many programs speak to this node at once"})
            else:
                await session.hold()
        except (OSError, asyncio.CancelledError):
            pass  # it hung up, or the node leaves
        except Exception:
            log.exception("a session over the control socket failed")
        finally:
            self._sessions.discard(task)
            writer.transport.abort() if task.cancelling() else writer.close()


class _ControlSession:
    """What one program and the node say to each other, line by line."""

    def __init__(self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._service, self._reader, self._writer = service, reader, writer

    async def tell(self, what: dict[str, Any]) -> None:
        """Send a line, and wait while the other side is slow."""
        self._writer.write(_encode(what) + b"\n")
        await self._writer.drain()

    async def hold(self) -> None:
        """Greet, and answer until the other side has had enough."""
        await self.tell({"vinecast": VERSION, **self._service.about()})
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                await self.tell({"error": f"a line has {LINE_BYTES_MAX} bytes at the most"})
                return
            if not line.strip():
                return
            try:
                request = request_decoder.decode(line)
                if isinstance(request, Opening):
                    await self._pass_events_on(request)
                    return
                answer = {"ok": await self._service.answer(request)}
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                answer = {"error": f"not a request: {error}"}
            except VinecastError as error:
                answer = {"error": str(error)}
            await self.tell(answer)

    async def _pass_events_on(self, request: Opening) -> None:
        """Pass events on until the other side hangs up or the node leaves."""
        feed = await self._service.open(request)
        try:
            await self.tell({"ok": feed.topics})
            work = [asyncio.create_task(self._pass_on(feed)), asyncio.create_task(self._hear_acks(feed))]
            try:
                await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
        finally:
            await feed.close()

    async def _pass_on(self, feed: Feed) -> None:
        while (news := await feed.next()) is not None:
            await self.tell(news)

    async def _hear_acks(self, feed: Feed) -> None:
        """Take acknowledgements until the other side hangs up. Whatever else it says is not for us."""
        while line := await self._reader.readline():
            try:
                ack = ack_decoder.decode(line)
                feed.ack(ack.topic, ack.offset)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                await self.tell({"error": f"not an acknowledgement: {error}"})
            except VinecastError as error:
                await self.tell({"error": str(error)})
