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
import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vinecast.core.content.schemas import Schema
from vinecast.core.errors import ClosedError, InputError, NotStartedError
from vinecast.core.log.blocks import cid_from_text
from vinecast.node.api.content import FilterLike, Values, as_plain, filter_set_of
from vinecast.node.api.publisher import Headers, Payload, Publisher
from vinecast.node.api.schemas import Schemas
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.api.topic_names import TopicNames
from vinecast.node.runtime.capabilities import new_seed, scratch_pool, session_draws
from vinecast.node.runtime.clock import RealClock
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.driver import CARD_VERSION, Driver
from vinecast.node.runtime.recorder import PeerMaking, Recorder, record_place, start_recorder
from vinecast.node.runtime.tracer import NodeTrace, TraceSink
from vinecast.node.runtime.warm_up import is_warm, warm_up
from vinecast.node.storage.identity_file import load_or_make_identity, make_identity
from vinecast.node.storage.memory_streams import VolatileStreams
from vinecast.node.storage.retention import Retainer
from vinecast.node.storage.store import Store
from vinecast.node.storage.streams_store import StreamStore
from vinecast.node.transport.interface import Transport
from vinecast.node.transport.tls_transport import TlsTransport
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity, verify
from vinecast.peer.inputs import AwaitLevel, EventsStored, LeaveTopic, OpenSubscription, StoreCloses
from vinecast.peer.links import LinkLimits
from vinecast.peer.peer import Peer, PeerPorts
from vinecast.peer.receipt import Receipt
from vinecast.peer.streams.cursor import Start
from vinecast.peer.topics import check_topic
from vinecast.protocols.streams import NOW
from vinecast.systems.common.router import ME

MINUTE_S = 60.0
REMEMBERED_PEERS = 64  # ours: of those connected, so many are written down each minute


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
        record_place(self.config, self._folder)  # says so if there is none
        self._identity, self._transport = identity, transport
        self._started_publisher: Publisher | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._started_driver: Driver | None = None
        self._store: Store | None = None
        self._streams: StreamStore | VolatileStreams | None = None
        self._names: TopicNames | None = None
        self._recorder: Recorder | None = None
        self._trace: NodeTrace | None = None
        self._trace_sink: TraceSink | None = None
        self._numbers = itertools.count(1)
        self._closed = False

    def trace_to(self, sink: TraceSink) -> None:
        """Before the start: have the node's trace records handed to somebody, beside ``trace_folder``."""
        self._trace_sink = sink

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
            for opened in (self._streams, self._store, self._recorder):
                if opened is not None:
                    await opened.close()
            if self._trace is not None:
                self._trace.close()
            raise
        return self

    async def _start(self) -> None:
        if not is_warm(self.config):
            await asyncio.get_running_loop().run_in_executor(None, warm_up, self.config)
        if self._identity is None:
            kept = self._folder
            self._identity = load_or_make_identity(kept) if kept else make_identity()
        identity = self._identity
        self._trace = trace = NodeTrace(self.config, identity.id, self._trace_sink)
        config = trace.config
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
                session_draws(),
                config.transport,
                system=config.system,
                advertise=self._advertise,
            )
        clock = RealClock()
        limits = config.transport
        making = PeerMaking(
            identity.public,
            self.network,
            new_seed(),
            config,
            LinkLimits(limits.frame_bytes_max, limits.redial_s_min, limits.redial_s_max, limits.dial_s),
            int.from_bytes(self._store.meta(CARD_VERSION) or b"", "big"),
        )
        ports = PeerPorts(self._streams, identity.sign, verify, scratch_pool())
        self._recorder = recorder = await start_recorder(
            config, self._folder, making, ports, f"{clock.wall_us():x}"
        )
        if recorder is not None:
            driver = Driver(recorder.peer, self._transport, clock, self._store, recorder.handle)
        else:
            driver = Driver(making.make(ports), self._transport, clock, self._store)
        self._started_driver = driver
        driver.on_traced = trace.take
        self._started_publisher = Publisher(driver, self._store)
        sessions = tuple((session.on_us, session.last_us) for session in self._store.sessions())
        await driver.start(self._advertise, tuple(self._join), sessions)
        self._names = TopicNames(identity, self.network, self._store, driver)
        self._names.begin()
        self._store.mark_on(clock.wall_us())
        retainer = Retainer(self._streams, lambda topic: config.retention, clock.now_us)
        self._tasks = [asyncio.create_task(work) for work in (self._keep_store_current(), retainer.run())]

    def _kept(self, cids: tuple[bytes, ...]) -> None:
        """The store of streams says what is safe."""
        self._driver.feed(EventsStored(cids))

    async def close(self) -> None:
        """Take leave of the others, and let go of everything. Once is enough, twice does no harm."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        driver = self._started_driver
        if driver is not None:
            for sink in driver.sinks.values():
                sink.end()
            self._note_peers()
            assert self._streams is not None
            driver.feed(StoreCloses())  # nothing more is published
            await self._streams.close()  # what becomes safe here has its receipt
            await driver.leave(self.config.leave_s)  # and for the rest there will be none
        if self._trace is not None:
            self._trace.close()
        if self._recorder is not None:
            await self._recorder.close()
        if self._store is not None:
            if driver is not None:
                self._store.mark_off(driver.clock.wall_us())
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
    def _peer(self) -> Peer:
        """The machine; for those who look inside."""
        return self._driver.peer

    @property
    def join_trouble(self) -> dict[str, str]:
        """Address → why it could not be joined there, when last tried."""
        return dict(self._peer.bootstrap.trouble) if self._started_driver is not None else {}

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
        return self._peer.peer_table.me

    @property
    def address(self) -> str:
        """Where others reach it."""
        return self._peer.peer_table.card.address

    @property
    def has_joined(self) -> bool:
        """Whether it has met anybody."""
        return self._driver.joined.is_set()

    @property
    def cycles(self) -> int:
        """How many cycles of gossip have passed."""
        return self._peer.peer_table.cycle

    async def next_cycle(self) -> bool:
        """Wait for the next cycle of gossip; whether there was one: not when the node is closed."""
        return await self._driver.next_cycle()

    def topics(self) -> list[str]:
        """What it subscribes to."""
        return list(self._peer.peer_table.topics_of(ME))

    def known_topics(self) -> list[str]:
        """All topics that it or a peer that it knows subscribes to."""
        return self._peer.peer_table.topics.known()

    def peers(self) -> list[PeerInfo]:
        """Whom it knows."""
        peer_table, connections = self._peer.peer_table, self._driver.transport.connections()
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
        peer, driver = self._peer, self._driver
        topics, store = self.topics(), peer.streams.store
        rings = [peer.is_ready(topic) for topic in topics if not peer.is_alone(topic)]
        stored = Counter({f"streams: {what}": n for what, n in store.counters.items()})
        counters = peer.counters + peer.peer_table.counters + driver.counters + stored
        if self._recorder is not None:
            counters += self._recorder.counters
        if self._trace is not None:
            counters += self._trace.counters
        return {
            "id": self.id.hex(),
            "key": peer.peer_table.card.public.hex(),
            "address": self.address,
            "topics": len(topics),
            "rings": len(rings),
            "rings_complete": sum(rings),
            "peers": len(peer.peer_table.known()),
            "connections": len(driver.transport.connections()),
            "cycles": peer.peer_table.cycle,
            "unread": peer.subscriptions.unread,
            "dropped": sum(sink.dropped for sink in driver.sinks.values()),
            "streams": len(store.topics()),
            "counters": dict(sorted(counters.items())),
            **peer.routing(),
            **peer.regularity(),
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
        if isinstance(topic, str) and isinstance(payload, bytes | str):
            return await self._publisher.publish(topic, payload, headers, durable)
        name, events = as_plain(topic, (payload,), headers, self._peer.by_content)
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
        name, events = as_plain(topic, payloads, headers, self._peer.by_content)
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
        driver = self._driver
        if self._closed:
            raise ClosedError("the node is closed: make another one to go on")
        schema = topic if isinstance(topic, Schema) else None
        if schema is None and filter is not None:
            raise InputError("a filter goes with a schema, not with a topic")
        name = schema.name if schema is not None else str(topic)
        wanted = filter_set_of(schema, filter) if schema is not None else None
        number = next(self._numbers)
        subscription = Subscription(driver, number, name, self.config.waiting)
        driver.sinks[number] = subscription
        try:
            driver.request(
                lambda request: OpenSubscription(request, number, name, start, consumer, schema, wanted)
            ).result()
        except InputError:
            del driver.sinks[number]
            raise
        return subscription

    def log(self, topic: str, after: str | None = None, count: int = 100) -> list[Event]:
        """What this node keeps of a topic's stream, in the order that all nodes share; ``after``: the id of
        an event of it."""
        store, place = self._peer.streams.store, (0, b"")
        check_topic(topic)
        if after is not None:
            cid = cid_from_text(after)
            place = store.height_of(topic, cid), cid
            if not place[0]:
                raise InputError(f"this node knows no event {after} of {topic!r}")
        return [Event(signed, -1, position) for position, signed in store.in_order(topic, place, count)]

    async def caught_up(self, topic: str) -> None:
        """Wait until this node has all of a topic's stream that others tell of; some cycles at the least,
        since they have to be found first. ClosedError when the node is closed before."""
        name = check_topic(topic)
        await self._driver.ask(lambda request: AwaitLevel(request, name))

    async def unsubscribe(self, topic: str) -> None:
        """Leave a topic, whoever reads it, also one from before a restart."""
        driver, subscriptions = self._driver, self._peer.subscriptions
        driver.feed(LeaveTopic(topic))
        for number in [number for number in driver.sinks if not subscriptions.is_open(number)]:
            driver.sinks.pop(number).end()

    # In the background.

    async def _keep_store_current(self) -> None:
        """Write down every minute, and at first more often, that the node is on line and whom it knows."""
        assert self._store is not None
        wait_s = 1.0
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MINUTE_S)
            self._store.mark_still_on(self._driver.clock.wall_us())
            self._note_peers()
            self.names.renew()

    def _note_peers(self) -> None:
        """Write down who is there, for the time after a restart."""
        assert self._store is not None
        driver = self._driver
        for peer, connection in list(driver.transport.connections().items())[:REMEMBERED_PEERS]:
            self._store.add_peer(peer, connection.address, driver.clock.wall_us())
