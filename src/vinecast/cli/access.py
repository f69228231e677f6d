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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from vinecast.cli.output import patience
from vinecast.core.errors import InputError, JoinError

if TYPE_CHECKING:
    from vinecast.node.api.event_feed import EventFeed
    from vinecast.node.api.node import Node
    from vinecast.node.control.client import ControlClient

JOIN_S = 15.0  # ours: longer than a dial takes
LOOK_S = 0.02
ACQUAINTED_CYCLES = 5  # ours: until a node that just joined knows a few others
FOUND_CYCLES = 20  # ours: until it knows a subscriber of any topic
LOOK_CYCLES = 2  # ours: that a subscriber is looked for where the topic's replicas take the event anyway


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
        from vinecast.peer.topics import Pattern

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
    from vinecast.node.control.client import ControlClient
    from vinecast.node.control.folder import default_folder

    named = folder or os.environ.get("VINECAST_NODE_FOLDER")
    return ControlClient(Path(named) if named else default_folder())


async def until_joined(node: "Node", join: Sequence[str], patience_s: float = JOIN_S) -> bool:
    """Wait until somebody is known, or all addresses were tried in vain; whether somebody is."""
    from vinecast.peer.address import Address

    wanted, end = {str(Address.parse(address)) for address in join}, time.monotonic() + patience_s
    while not node.has_joined and time.monotonic() < end:
        if wanted <= node.join_trouble.keys():
            break
        await asyncio.sleep(LOOK_S)
    return node.has_joined


def join_trouble(node: "Node", join: Sequence[str]) -> str:
    """Why nobody is known."""
    told = "; ".join(f"{address}: {node.join_trouble.get(address, 'no answer')}" for address in join)
    return f"could not join the network ({told})"


class _Joined:
    """A node of one's own, that forgets everything."""

    def __init__(self, join: Sequence[str], network: str | None, verbosity: int) -> None:
        self._join, self._network, self._verbosity = join, network, verbosity

    def __enter__(self) -> Self:
        from vinecast.node.api.settings import resolve
        from vinecast.node.runtime.logs import set_up_logging

        set_up_logging(self._verbosity)
        options = {"join": list(self._join), "network": self._network, "folder": "", "subscribe": []}
        settings = resolve(options={**options, "listen": _listen_for(self._join), "advertise": ""})
        from vinecast.node.api.sync import SyncNode
        from vinecast.node.runtime.warm_up import warm_up

        with patience("compiling rules, once …"):
            warm_up(settings.config)
        config = replace(settings.config, record=False)  # what a node records is no command's
        live = SyncNode(settings.listen, settings.join, None, settings.network, config)
        self._live: SyncNode = live.start()
        try:
            if not live.do(lambda: until_joined(live.node, self._join)):
                raise JoinError(join_trouble(live.node, self._join))
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
        from vinecast.node.api.event_feed import EventFeed

        _refuse_consumer(consumer)
        live = self._live
        return self._pass_on(live.do(lambda: EventFeed.open(live.node, topics, start)))

    def publish_content(self, schema: str, **rest: Any) -> dict[str, Any]:
        """Publish an event of a schema, which its owner's key leads to."""
        from vinecast.node.api.control_service import ControlService
        from vinecast.node.control.requests import PublishContentRequest

        live, request = self._live, PublishContentRequest(schema, **rest)
        cycles = LOOK_CYCLES if request.durable else FOUND_CYCLES
        live.do(lambda: _pass_cycles(live.node, cycles, schema))
        told: dict[str, Any] = live.do(lambda: ControlService(live.node).answer(request))
        return told

    def stream_content(self, schema: str, **rest: Any) -> Iterator[dict[str, Any]]:
        """Events of a schema that match, for ever."""
        from vinecast.node.api.control_service import ControlService
        from vinecast.node.control.requests import SubscribeContentRequest

        _refuse_consumer(rest["consumer"])
        live, request = self._live, SubscribeContentRequest(schema, **rest)
        live.do(lambda: _pass_cycles(live.node, ACQUAINTED_CYCLES))
        return self._pass_on(live.do(lambda: ControlService(live.node).open(request)))

    def _pass_on(self, feed: "EventFeed") -> Iterator[dict[str, Any]]:
        live = self._live
        while (news := live.do(feed.next)) is not None:
            yield news

    def ack(self, topic: str, offset: int) -> None:
        """A node of one's own forgets everything."""

    def log(self, topic: str) -> Iterator[dict[str, Any]]:
        """All of a topic's stream, once it is here."""
        from vinecast.node.api.event_feed import log_told

        live = self._live
        with live.subscribe(topic, "earliest"):
            live.caught_up(topic)
            after = None
            while found := log_told(live.log(topic, after)):
                yield from found
                after = found[-1]["id"]

    def peers(self) -> list[dict[str, Any]]:
        """Whom it knows after a few cycles."""
        from vinecast.node.api.control_service import peers_told

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
    while node.cycles < cycles and topic not in node.known_topics():
        await node.next_cycle()


def _listen_for(join: Sequence[str]) -> str:
    """On this machine only, if those to join are on it; else where they can reach us."""
    from vinecast.peer.address import Address, is_loopback

    here = all(is_loopback(Address.parse(address).host) for address in join)
    return "127.0.0.1:0" if here else "0.0.0.0:0"
