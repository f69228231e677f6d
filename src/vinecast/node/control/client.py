"""The other end of the control socket, for commands and scripts: blocking, and light to import."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from vinecast.core.errors import ClosedError, InputError, RefusedError, TimedOutError
from vinecast.node.control.folder import connect_to

VERSION = 1
PATIENCE_S = 30.0
"""Longer than a publisher is ever made to wait by default. Ours."""


class ControlClient:
    """A connection to the node that runs in a folder. ``about`` is what it says of itself."""

    def __init__(self, folder: Path, patience_s: float = PATIENCE_S) -> None:
        self._folder = folder
        self._socket = connect_to(folder, patience_s)
        self._lines = self._socket.makefile("rb")
        try:
            self.about: Mapping[str, Any] = self._read()
            if self.about.get("vinecast") != VERSION:
                raise InputError(f"the node in {folder} is of another version of Vinecast than this command")
        except BaseException:
            self.close()
            raise

    def publish(
        self, topic: str, payload: bytes, headers: Mapping[str, str] | None = None, durable: bool = True
    ) -> dict[str, Any]:
        """Publish an event; its id, how many neighbours took it, and how many nodes hold it."""
        data = base64.b64encode(payload).decode()
        request = {"do": "publish", "topic": topic, "data": data, "headers": dict(headers or {})}
        return dict(self._ask({**request, "durable": durable}))

    def log(self, topic: str) -> Iterator[dict[str, Any]]:
        """What the node keeps of a topic's stream, in the order that all nodes share."""
        after = None
        while found := self._ask({"do": "log", "topic": topic, "after": after}):
            yield from found
            after = found[-1]["id"]

    def topic(self, action: str, name: str, **rest: Any) -> Any:
        """Create, show, add to, list the versions of, fork, hand on or take over a topic; see
        ``node/control/server``."""
        return self._ask({"do": "topic", "action": action, "name": name, **rest})

    def topics(self) -> dict[str, list[str]]:
        """What the node subscribes to, and what it knows of."""
        return dict(self._ask({"do": "topics"}))

    def peers(self) -> list[dict[str, Any]]:
        """Whom it knows."""
        return list(self._ask({"do": "peers"}))

    def stats(self) -> dict[str, Any]:
        """The node in numbers."""
        return dict(self._ask({"do": "stats"}))

    def stream(
        self, topics: Iterable[str], start: str | int = "now", consumer: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """What the node says of these topics, for ever: ready, event, dropped. The last thing to ask for."""
        return self._stream({"do": "subscribe", "topics": list(topics), "start": start, "consumer": consumer})

    def publish_content(self, schema: str, **rest: Any) -> dict[str, Any]:
        """Publish an event of a schema; see ``PublishContentRequest``."""
        return dict(self._ask({"do": "publish-content", "schema": schema, **rest}))

    def stream_content(self, schema: str, **rest: Any) -> Iterator[dict[str, Any]]:
        """What the node says of a schema's events that match, for ever, as ``stream`` does."""
        return self._stream({"do": "subscribe-content", "schema": schema, **rest})

    def schema(self, action: str, name: str, **rest: Any) -> dict[str, Any]:
        """Create or show a schema."""
        return dict(self._ask({"do": "schema", "action": action, "name": name, **rest}))

    def _stream(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._ask(request)
        self._socket.settimeout(None)
        while True:
            try:
                line = self._lines.readline()
            except OSError:
                return
            if not line:
                return
            yield json.loads(line)

    def ack(self, topic: str, offset: int) -> None:
        """Say, while a stream is read, that the consumer is done with an event and all before it."""
        try:
            self._socket.sendall(json.dumps({"do": "ack", "topic": topic, "offset": offset}).encode() + b"\n")
        except OSError:
            raise self._gone() from None

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self._gone() from None
        return self._read()["ok"]

    def _read(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise TimedOutError(f"the node in {self._folder} does not answer") from None
        except OSError:
            raise self._gone() from None
        if not line:
            raise self._gone()
        answer = json.loads(line)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return dict(answer)

    def _gone(self) -> ClosedError:
        return ClosedError(f"the node in {self._folder} has left")
