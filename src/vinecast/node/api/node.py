"""The node that applications use.

    async with Node(join=["host:7000"]) as node:
        subscription = node.subscribe("sports/tennis")
        await subscription.ready()
        await node.publish("sports/tennis", b"15:0")
        async for event in subscription:
            print(event.payload)

Without a folder everything is forgotten at exit; with one, identity, subscriptions and the peers last met are
kept there, so that a node that comes back is the same one and finds the network by itself.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vinecast.core.content.schemas import Schema
from vinecast.core.errors import ClosedError, InputError, NotStartedError
from vinecast.core.log.blocks import cid_from_text
from vinecast.node.api.content import ContentSubscriptions, FilterLike, Values, as_plain
from vinecast.node.api.publisher import Headers, Payload, Publisher
from vinecast.node.api.receipt import Receipt
from vinecast.node.api.schemas import Schemas
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.api.subscriptions import NodeSubscriptions
from vinecast.node.api.topic_names import TopicNames
from vinecast.node.runtime.bootstrap import Bootstrap
from vinecast.node.runtime.clock import RealClock
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.driver import Driver, DriverPorts, OwnCard
from vinecast.node.runtime.warm_up import is_warm, warm_up
from vinecast.node.storage.identity_file import load_or_make_identity, make_identity
from vinecast.node.storage.memory_streams import VolatileStreams
from vinecast.node.storage.retention import Retainer
from vinecast.node.storage.store import Store
from vinecast.node.storage.streams_store import StreamStore
from vinecast.node.transport.interface import Transport
from vinecast.node.transport.tls_transport import TlsTransport
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity
from vinecast.peer.streams.cursor import Start
from vinecast.peer.topics import check_topic
from vinecast.protocols.streams import NOW
from vinecast.systems.common.router import ME

MINUTE_S = 60.0
_CARD = "card version"


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Somebody whom the node knows."""

    id: bytes
    address: str
    topics: tuple[str, ...]
    connected: bool
    """Whether there is a connection to it at the moment."""


class Node:
    """One node of a network. Use it in ``async with``, or call ``start`` and ``close``."""

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        join: Iterable[str] = (),
        folder: str | Path | None = None,
        network: str = "default",
        config: NodeConfig | None = None,
        *,
        advertise: str | None = None,
        identity: Identity | None = None,
        transport: Transport | None = None,
    ) -> None:
        """``advertise``: where others reach the node, if not where it listens. A transport other than TLS
        over TCP comes with the identity that it vouches for."""
        if (transport is None) != (identity is None) and transport is not None:
            raise InputError("a transport of one's own comes with its identity")
        self.config = config or NodeConfig()
        self.network = network
        self._listen, self._join = Address.parse(listen), [Address.parse(address) for address in join]
        self._advertise = Address.parse(advertise) if advertise else None
        if self._listen.host in ("0.0.0.0", "::") and self._advertise is None:
            raise InputError(f"a node that listens on {listen} must say where others reach it (advertise)")
        self._folder = Path(folder) if folder is not None else None
        self._identity, self._transport = identity, transport
        self._started_publisher: Publisher | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._started_driver: Driver | None = None
        self._store: Store | None = None
        self._streams: StreamStore | VolatileStreams | None = None
        self._names: TopicNames | None = None
        self._contents: ContentSubscriptions | None = None
        self._started_subscriptions: NodeSubscriptions | None = None
        self._bootstrap: Bootstrap | None = None
        self._closed = False
        self.join_trouble: dict[str, str] = {}
        """Address → why it could not be joined there, when last tried."""

    # Life.

    async def start(self) -> Self:
        """Come up, and begin to look for others."""
        if self._closed:
            raise ClosedError("a node is started once; make another one to come back")
        if self._started_driver is not None:
            raise InputError("a node is started once; make another one to come back")
        try:
            await self._start()
        except BaseException:
            for store in (self._streams, self._store):
                if store is not None:
                    await store.close()
            raise
        return self

    async def _start(self) -> None:
        if not is_warm(self.config):
            await asyncio.get_running_loop().run_in_executor(None, warm_up, self.config)
        if self._identity is None:
            kept = self._folder
            self._identity = load_or_make_identity(kept) if kept else make_identity()
        identity, config = self._identity, self.config
        if self._folder is None:
            self._store = await Store.in_memory(identity.id, config.store)
            self._streams = VolatileStreams(self._kept)
        else:
            self._store = await Store.open(self._folder, identity.id, config.store)
            self._streams = await StreamStore.open(self._folder, identity.id, config.streams, self._kept)
        if self._transport is None:
            self._transport = TlsTransport(
                identity,
                self._listen,
                self.network,
                config.transport,
                system=config.system,
                advertise=self._advertise,
            )
        self._started_subscriptions = subscriptions = NodeSubscriptions(
            self._store, config.waiting, config.alone_cycles, self._expects_others
        )
        self._started_driver = Driver(
            identity,
            self.network,
            int.from_bytes(os.urandom(7), "big"),
            config,
            DriverPorts(self._transport, RealClock(), self._streams, subscriptions.take, subscriptions.read),
            OwnCard(self._advertise, int.from_bytes(self._store.meta(_CARD) or b"", "big"), self._note_card),
        )
        subscriptions.driver = self._started_driver
        driver = self._started_driver
        self._contents = ContentSubscriptions(subscriptions, driver.counters, driver.by_content, driver.want)
        self._started_driver.recall((session.on_us, session.last_us) for session in self._store.sessions())
        self._started_publisher = Publisher(
            identity,
            self.network,
            self._started_driver,
            self._store,
            config.publish_wait_s,
            self._count_others,
            config.holders,
        )
        await self._started_driver.start()
        self._started_driver.subscribe(self._store.subscriptions())
        streams = self._started_driver.streams
        streams.resume()
        self._names = TopicNames(identity, self.network, self._store, streams.replicas, streams.table.do)
        self._names.begin()
        assert self._store is not None
        self._store.mark_on(time.time_ns() // 1000)
        dial_s = config.transport.dial_s
        self._bootstrap = bootstrap = Bootstrap(
            self._started_driver, self._store, self._join, dial_s, self.join_trouble
        )
        retainer = Retainer(self._streams, lambda topic: config.retention, self._started_driver.now_us)
        works = (bootstrap.keep(), subscriptions.keep_following(), self._keep_store_current(), retainer.run())
        self._tasks = [asyncio.create_task(work) for work in works]

    def _kept(self, cids: tuple[bytes, ...]) -> None:
        """The store of streams says what is safe."""
        self._driver.streams.kept(cids)

    def _note_card(self, version: int) -> None:
        """Remember a card's version: the next one must be higher, whatever the clock says then."""
        assert self._store is not None
        self._store.put_meta(_CARD, version.to_bytes(8, "big"))

    async def close(self) -> None:
        """Take leave of the others, and let go of everything. Once is enough, twice does no harm."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._started_publisher is not None:
            self._started_publisher.close()
        for subscription in (
            self._started_subscriptions.all() if self._started_subscriptions is not None else ()
        ):
            subscription._end()
        if self._started_driver is not None:
            self._note_peers()
            assert self._streams is not None
            self._started_driver.streams.stop()
            await self._streams.close()  # first, so that publishers hear what is safe here
            await self._started_driver.leave(self.config.leave_s)
        if self._store is not None:
            self._store.mark_off(time.time_ns() // 1000)
            await self._store.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    # Who and where.

    @property
    def _driver(self) -> Driver:
        """What runs the node; for those who look inside."""
        if self._started_driver is None:
            raise NotStartedError("the node has not been started: use it in 'async with', or await start()")
        return self._started_driver

    @property
    def _publisher(self) -> Publisher:
        """What publishes; for those who look inside."""
        self._driver  # noqa: B018  (says so when the node has not been started)
        assert self._started_publisher is not None
        return self._started_publisher

    @property
    def _subscriptions(self) -> NodeSubscriptions:
        """Who reads what; for those who look inside."""
        self._driver  # noqa: B018  (says so when the node has not been started)
        assert self._started_subscriptions is not None
        return self._started_subscriptions

    @property
    def names(self) -> TopicNames:
        """What topics are: create, show, add to, fork them, hand them on, and see their history."""
        self._driver  # noqa: B018  (says so when the node has not been started)
        assert self._names is not None
        return self._names

    @property
    def schemas(self) -> Schemas:
        """What schemas are: create and find them."""
        return Schemas(self.names)

    @property
    def id(self) -> bytes:
        """The node's id: the hash of its public key."""
        return self._driver.peer_table.me

    @property
    def address(self) -> str:
        """Where others reach it."""
        return self._driver.peer_table.card.address

    @property
    def has_joined(self) -> bool:
        """Whether it has met anybody."""
        return self._driver.joined.is_set()

    @property
    def cycles(self) -> int:
        """How many cycles of gossip have passed."""
        return self._driver.peer_table.cycle

    async def next_cycle(self) -> bool:
        """Wait for the next cycle of gossip; whether there was one: not when the node is closed."""
        return await self._driver.next_cycle()

    def topics(self) -> list[str]:
        """What it subscribes to."""
        return list(self._driver.peer_table.topics_of(ME))

    def known_topics(self) -> list[str]:
        """All topics that it or a peer that it knows subscribes to."""
        return self._driver.peer_table.topics.known()

    def peers(self) -> list[PeerInfo]:
        """Whom it knows."""
        peer_table, connections = self._driver.peer_table, self._driver.transport.connections()
        return [
            PeerInfo(
                peer_table.id_of(number),
                str(peer_table.address_of(number) or ""),
                peer_table.topics_of(number),
                peer_table.id_of(number) in connections,
            )
            for number in peer_table.known()
        ]

    def stats(self) -> dict[str, Any]:
        """The node in numbers."""
        driver = self._driver
        topics = self.topics()
        rings = [driver.is_ready(topic) for topic in topics if not driver.is_alone(topic)]
        stored = Counter({f"streams: {what}": n for what, n in driver.streams.store.counters.items()})
        return {
            "id": self.id.hex(),
            "key": driver.peer_table.card.public.hex(),
            "address": self.address,
            "topics": len(topics),
            "rings": len(rings),
            "rings_complete": sum(rings),
            "peers": len(driver.peer_table.known()),
            "connections": len(driver.transport.connections()),
            "cycles": driver.peer_table.cycle,
            "unread": self._subscriptions.unread,
            "dropped": sum(subscription.dropped for subscription in self._subscriptions.all()),
            "streams": len(driver.streams.store.topics()),
            "counters": dict(sorted((driver.counters + driver.peer_table.counters + stored).items())),
            **driver.routing(),
            **driver.regularity(),
        }

    # Publishing.

    async def publish(
        self,
        topic: str | Schema,
        payload: Payload | Values,
        headers: Headers | None = None,
        durable: bool = True,
    ) -> Receipt:
        """Publish an event. Waits while neighbours cannot take more; OverloadedError when that lasts.

        On a topic it is bytes or a string, of a schema a value for every attribute.

        A durable event becomes part of its topic's stream: the receipt comes when it is safe on this node and
        with ``NodeConfig.holders`` others, or after ``publish_wait_s``, and says how many hold it. Another is
        sent once to those who are there, and kept by nobody.
        """
        name, events = as_plain(topic, (payload,), headers, self._driver.by_content)
        data, said = next(events)
        return await self._publisher.publish(name, data, said, durable)

    async def publish_all(
        self,
        topic: str | Schema,
        payloads: Iterable[Payload | Values],
        headers: Headers | None = None,
        durable: bool = True,
    ) -> list[Receipt]:
        """Publish many events of a topic or a schema, in order, which is much cheaper than one by one.

        When one of them is refused, those before it have been published.
        """
        name, events = as_plain(topic, payloads, headers, self._driver.by_content)
        return await self._publisher.publish_all(name, events, durable)

    # Subscribing.

    def subscribe(
        self, topic: str | Schema, start: Start = NOW, consumer: str | None = None, filter: FilterLike = None
    ) -> Subscription:
        """Read a topic, or all that fit a pattern (``sports/#``, ``+/tennis``) and that the node knows; or of
        a schema the events that match a filter, such as ``price < 10 and order = "buy"``.

        Of durable events, begin with those published from "now" on, with the "earliest" that is kept
        anywhere, or after the one with this offset or id. A ``consumer`` goes on after what it acknowledged
        last (``Subscription.ack``), and only the first time at the start.
        """
        subscriptions = self._subscriptions
        if self._closed:
            raise ClosedError("the node is closed: make another one to go on")
        if isinstance(topic, Schema):
            assert self._contents is not None
            return self._contents.subscribe(topic, start, consumer, filter)
        if filter is not None:
            raise InputError("a filter goes with a schema, not with a topic")
        return subscriptions.subscribe(topic, start, consumer)

    def log(self, topic: str, after: str | None = None, count: int = 100) -> list[Event]:
        """What this node keeps of a topic's stream, in the order that all nodes share; ``after``: the id of
        an event of it."""
        store, place = self._driver.streams.store, (0, b"")
        check_topic(topic)
        if after is not None:
            cid = cid_from_text(after)
            place = store.height_of(topic, cid), cid
            if not place[0]:
                raise InputError(f"this node knows no event {after} of {topic!r}")
        return [Event(signed, -1, position) for position, signed in store.in_order(topic, place, count)]

    async def caught_up(self, topic: str) -> None:
        """Wait until this node has all of a topic's stream that others tell of; some cycles at the least,
        since they have to be found first."""
        await self._subscriptions.caught_up(topic)

    async def unsubscribe(self, topic: str) -> None:
        """Leave a topic, whoever reads it, also one from before a restart."""
        await self._subscriptions.unsubscribe(topic)

    def _expects_others(self) -> bool:
        """Whether there is anybody to meet."""
        assert self._store is not None
        return bool(self._join or self._driver.peer_table.known() or self._store.peers())

    def _count_others(self) -> int:
        """How many other nodes there are; one while the first of those it was told of is being called on."""
        count = self._driver.count_others()
        if count or self._driver.joined.is_set():
            return count
        assert self._store is not None
        addresses = (*self._join, *(peer.address for peer in self._store.peers()))
        return int(any(str(address) not in self.join_trouble for address in addresses))

    # In the background.

    async def _keep_store_current(self) -> None:
        """Write down every minute, and at first more often, that the node is on line and whom it knows."""
        assert self._store is not None
        wait_s = 1.0
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MINUTE_S)
            self._store.mark_still_on(time.time_ns() // 1000)
            self._note_peers()
            self.names.renew()

    def _note_peers(self) -> None:
        if self._bootstrap is not None:
            self._bootstrap.note(time.time_ns() // 1000)
