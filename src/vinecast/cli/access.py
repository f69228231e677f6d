"""How ``pub``, ``sub``, ``peers`` and ``stats`` reach a network.

Through a node that runs on this machine, over the control socket in its folder; or with ``--join`` as a node
of their own, for as long as they take.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from vinecast.cli.output import patience
from vinecast.core.errors import InputError

if TYPE_CHECKING:
    from vinecast.node.control_client import ControlClient
    from vinecast.node.node import Node
    from vinecast.node.stream import Stream

JOIN_S = 15.0  # ours: longer than a dial takes
LOOK_S = 0.02
ACQUAINTED_CYCLES = 5  # ours: until a node that just joined knows a few others
FOUND_CYCLES = 20  # ours: until it knows a subscriber of any topic
LOOK_CYCLES = 2  # ours: that a subscriber is looked for where the topic's keepers take the event anyway


class Access(Protocol):
    """What can be asked, either way. A stream says ready, event and dropped, as the control socket does."""

    def publish(
        self, topic: str, payload: bytes, headers: Mapping[str, str] | None = None, durable: bool = True
    ) -> dict[str, Any]: ...
    def stream(
        self, topics: Iterable[str], start: str | int = "now", consumer: str | None = None
    ) -> Iterator[dict[str, Any]]: ...
    def publish_content(self, schema: str, **rest: Any) -> dict[str, Any]: ...
    def stream_content(self, schema: str, **rest: Any) -> Iterator[dict[str, Any]]: ...
    def ack(self, topic: str, offset: int) -> None: ...
    def log(self, topic: str) -> Iterator[dict[str, Any]]: ...
    def peers(self) -> list[dict[str, Any]]: ...
    def stats(self) -> dict[str, Any]: ...


def open_access(arguments: argparse.Namespace, *topics: str) -> AbstractContextManager[Access]:
    """As the options say. ``topics`` are what it is for: better to say at once that one of them is none."""
    if arguments.join:
        from vinecast.node.topics import Pattern

        for topic in topics:
            Pattern.parse(topic)
        if arguments.folder is not None:
            raise InputError("--folder names a node that runs here, --join another's: give one of them")
        return _Joined(arguments.join, arguments.network, arguments.verbose)
    if arguments.network is not None:
        raise InputError("--network goes with --join")
    return open_client(arguments.folder)


def open_client(folder: Path | None) -> "ControlClient":
    """The node that runs in a folder."""
    from vinecast.node.control_client import ControlClient
    from vinecast.node.folder import default_folder

    named = folder or os.environ.get("VINECAST_NODE_FOLDER")
    return ControlClient(Path(named) if named else default_folder())


async def until_joined(node: "Node", join: Sequence[str], patience_s: float = JOIN_S) -> bool:
    """Wait until somebody is known, or all addresses were tried in vain; whether somebody is."""
    from vinecast.node.address import Address

    wanted, end = {str(Address.parse(address)) for address in join}, time.monotonic() + patience_s
    while not node.driver.joined.is_set() and time.monotonic() < end:
        if wanted <= node.join_trouble.keys():
            break
        await asyncio.sleep(LOOK_S)
    return node.driver.joined.is_set()


def join_trouble(node: "Node", join: Sequence[str]) -> str:
    """Why nobody is known."""
    told = "; ".join(f"{address}: {node.join_trouble.get(address, 'no answer')}" for address in join)
    return f"could not join the network ({told})"


class _Joined:
    """A node of one's own, that forgets everything."""

    def __init__(self, join: Sequence[str], network: str | None, verbosity: int) -> None:
        self._join, self._network, self._verbosity = join, network, verbosity

    def __enter__(self) -> Self:
        from vinecast.node.logs import set_up_logging
        from vinecast.node.settings import resolve

        set_up_logging(self._verbosity)
        options = {"join": list(self._join), "network": self._network, "folder": "", "subscribe": []}
        settings = resolve(options={**options, "listen": _listen_for(self._join), "advertise": ""})
        from vinecast.node.sync import SyncNode
        from vinecast.node.warm_up import warm_up

        with patience("compiling rules, once …"):
            warm_up(settings.config)
        live = SyncNode(settings.listen, settings.join, None, settings.network, settings.config)
        self._live: SyncNode = live.start()
        try:
            if not live.do(lambda: until_joined(live.node, self._join)):
                raise InputError(join_trouble(live.node, self._join))
        except BaseException:
            live.close()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self._live.close()

    def publish(
        self, topic: str, payload: bytes, headers: Mapping[str, str] | None = None, durable: bool = True
    ) -> dict[str, Any]:
        """Publish, once a subscriber is known or looking for one has taken long."""
        live, cycles = self._live, LOOK_CYCLES if durable else FOUND_CYCLES
        live.do(lambda: _pass_cycles(live.node, cycles, topic))
        return live.publish(topic, payload, dict(headers or {}), durable).told

    def stream(
        self, topics: Iterable[str], start: str | int = "now", consumer: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Events of topics, for ever."""
        from vinecast.node.stream import Stream

        _refuse_consumer(consumer)
        live = self._live
        return self._pass_on(live.do(lambda: Stream.open(live.node, topics, start)))

    def publish_content(self, schema: str, **rest: Any) -> dict[str, Any]:
        """Publish an event of a schema, which its owner's key leads to."""
        from vinecast.node.content_control import PublishContent, publish_content

        live, request = self._live, PublishContent(schema, **rest)
        cycles = LOOK_CYCLES if request.durable else FOUND_CYCLES
        live.do(lambda: _pass_cycles(live.node, cycles, schema))
        return live.do(lambda: publish_content(live.node, request))

    def stream_content(self, schema: str, **rest: Any) -> Iterator[dict[str, Any]]:
        """Events of a schema that match, for ever."""
        from vinecast.node.content_control import SubscribeContent, open_content

        _refuse_consumer(rest["consumer"])
        live, request = self._live, SubscribeContent(schema, **rest)
        live.do(lambda: _pass_cycles(live.node, ACQUAINTED_CYCLES))
        return self._pass_on(live.do(lambda: open_content(live.node, request)))

    def _pass_on(self, stream: "Stream") -> Iterator[dict[str, Any]]:
        live = self._live
        while (news := live.do(stream.next)) is not None:
            yield news

    def ack(self, topic: str, offset: int) -> None:
        """A node of one's own forgets everything."""

    def log(self, topic: str) -> Iterator[dict[str, Any]]:
        """All of a topic's stream, once it is here."""
        from vinecast.node.stream import log_told

        live = self._live
        with live.subscribe(topic, "earliest"):
            live.caught_up(topic)
            after = None
            while found := log_told(live.log(topic, after)):
                yield from found
                after = found[-1]["id"]

    def peers(self) -> list[dict[str, Any]]:
        """Whom it knows after a few cycles."""
        from vinecast.node.control import peers_told

        live = self._live
        live.do(lambda: _pass_cycles(live.node, ACQUAINTED_CYCLES))
        return live.ask(lambda: peers_told(live.node))

    def stats(self) -> dict[str, Any]:
        """Itself in numbers after a few cycles."""
        live = self._live
        live.do(lambda: _pass_cycles(live.node, ACQUAINTED_CYCLES))
        return live.stats()


def _refuse_consumer(consumer: str | None) -> None:
    if consumer is not None:
        raise InputError("a consumer's place is kept by a node that runs: --consumer goes without --join")


async def _pass_cycles(node: "Node", cycles: int, topic: str | None = None) -> None:
    """Wait for some cycles of gossip, or until a topic is known."""
    while node.driver.book.cycle < cycles and topic not in node.known_topics():
        await node.driver.next_cycle()


def _listen_for(join: Sequence[str]) -> str:
    """On this machine only, if those to join are on it; else where they can reach us."""
    from vinecast.node.address import Address, is_loopback

    here = all(is_loopback(Address.parse(address).host) for address in join)
    return "127.0.0.1:0" if here else "0.0.0.0:0"
