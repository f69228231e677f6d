"""Streams on a live node: the machine ``Durable`` over the node's system, with real messages, a store and
Kademlia.

The driver hands over what concerns streams; events outside of them never come here. What the machine keeps
goes to the store, and what the store says is safe goes back to the machine, to whoever waits for a receipt,
and to readers. When too much waits to be written nothing more is taken: others still have it, and it is
fetched later.
"""

from collections.abc import Mapping, Sequence

from vinecast.core.errors import RemoteError
from vinecast.core.events import PeerLost, Received, Send, Start, Stop, TimerFired
from vinecast.core.log.batch_signature import SignatureChecker, SignedEvent, event_number, read_signed_event
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.name_record import NameChecker
from vinecast.core.log.streams import Keep, Kept, SetFloor
from vinecast.core.machine import NOBODY
from vinecast.peer.identity import verify
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.limits.rate_limit import RateLimit
from vinecast.peer.routing import Routing
from vinecast.peer.streams import messages as wire
from vinecast.peer.streams.batcher import StreamBatcher
from vinecast.peer.streams.codec import pack_stream, read_stream
from vinecast.peer.streams.ports import DeliverSafe, Listener, StreamHost, StreamPlace, StreamsSettings
from vinecast.peer.streams.publisher_probe import PublisherProbe
from vinecast.peer.streams.replicas import LOOKUPS_A_PERIOD, KnownPeers, ReplicaFinder, table_config
from vinecast.peer.streams.start_horizon import StartHorizon
from vinecast.peer.streams.table_exchange import TableExchange
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.volatile_events import UNKNOWN_FORM
from vinecast.peer.wire.messages import StreamFrame
from vinecast.protocols.kademlia.machine import JOIN_TIMER, TIMER
from vinecast.protocols.kademlia.operations import TIMEOUT_TIMER
from vinecast.protocols.streams import (
    EARLIEST,
    NOW,
    STREAM_MESSAGES,
    Acknowledged,
    FindProviders,
    Follow,
    Hand,
    Lower,
    Met,
    Provide,
    Providers,
    StreamAck,
    StreamHeads,
    StreamPush,
    StreamsConfig,
    Unfollow,
)
from vinecast.protocols.streams import TopicReplicas as KeptBy
from vinecast.protocols.streams.machine import PERIOD
from vinecast.protocols.streams.machine import TIMERS as REPAIR_TIMERS
from vinecast.systems.common.notices import Pull
from vinecast.systems.common.router import ME
from vinecast.systems.durable.machine import (
    Durable,
    DurableEffect,
    DurableEvent,
    DurableInput,
    PublishSigned,
    Routed,
)

TIMERS = frozenset({*REPAIR_TIMERS, TIMER, JOIN_TIMER, TIMEOUT_TIMER})
"""Timers that are fired here."""
ANSWER_S = 2.0
"""Seconds for an answer (ours): connections lose nothing, and a peer that is gone is missed sooner."""
TOO_MUCH = "dropped: too much waits to be written"


class DurableRuntime:
    """One node's durable streams: the machine, and what passes between it, peers, store and subscriptions."""

    def __init__(
        self,
        settings: StreamsSettings,
        seed: int,
        host: StreamHost,
        system: Routing,
        peer_table: PeerTable,
        checker: SignatureChecker,
        store: StreamPlace,
        deliver_safe: DeliverSafe,
    ) -> None:
        self.store = store
        self.listener: Listener | None = None
        self.durable = Durable(
            StreamsConfig(period_s=settings.period_s, answer_s=ANSWER_S, provide=settings.provide),
            seed,
            ME,
            system.carrier,
            store,
            lambda signed: "" if checker.holds(signed) else "forged event",
            peer_table.topics.number_of,
        )
        self.repair = self.durable.repair
        self.repair.has_room = lambda: not store.is_crowded
        self.replicas = ReplicaFinder(
            table_config(settings.period_s, settings.replicas),
            settings.replicas,
            seed,
            peer_table.points,
            settings.network,
            NameChecker(verify, settings.network),
            KnownPeers(host.connected, peer_table.known),
            self._found_replicas,
        )
        if system.kademlia is not None:
            self.replicas.share(system.kademlia, system)
        self.table = TableExchange(host, self.replicas, peer_table, system.codec)
        self._host, self._system, self._peer_table, self._deliver_safe = (
            host,
            system,
            peer_table,
            deliver_safe,
        )
        self._event_encoding = system.event_encoding
        self._rate_limit = RateLimit()
        self._batcher = StreamBatcher(host.send_frame, system.event_encoding)
        self._start_horizon = StartHorizon()
        self._publisher_probe = PublisherProbe()
        self._unsafe: dict[bytes, tuple[str, int]] = {}
        """Kept and not safe yet → topic and position."""
        self._safe: dict[str, int] = {}
        """Topic → the last position that is safe, if anything was kept since the start."""
        self._stopped = False

    # What the application asks for.

    def follow(self, topic: str, start: str = NOW) -> None:
        """Read a topic's stream; one that was begun with NOW can be had from its beginning after all."""
        self._start_horizon.begin(topic, self._host.now_us())
        self._tell(Follow(topic, start))
        state = self.store.state(topic)
        if start == EARLIEST and state.floor and state.first <= 1:  # else retention has taken what was below
            self._tell(Lower(topic, 0))
        if start == EARLIEST or state.last:
            self._want_replicas(topic)

    def unfollow(self, topic: str) -> None:
        """Read it no longer; a replica goes on keeping it."""
        if self._stopped:
            return
        self._start_horizon.end(topic)
        keeps = ME in self.replicas.of(topic)
        self._tell(Unfollow(topic))
        if keeps:
            self._tell(Follow(topic, reads=False, size=self.store.weight(topic)))
            self._tell(KeptBy(topic, self.replicas.of(topic)))
        else:
            self.replicas.leave(topic)

    def resume(self) -> None:
        """After a restart: go on with streams that were kept for others."""
        for topic in self.store.topics():
            if topic not in self.repair.topics:
                self._tell(Follow(topic, reads=False, size=self.store.weight(topic)))

    def place(self, topic: str) -> tuple[tuple[bytes, ...], int]:
        """The parents and the height of the next event of a topic."""
        return self.durable.place(topic)

    def visit(self, topic: str) -> bool:
        """Before something is published: whether to wait a moment, to be told what the stream has."""
        now_us = self._host.now_us()
        if topic not in self.repair.topics and self._peer_table.known():
            self._tell(Follow(topic, NOW, reads=False))
            if topic in self.repair.topics:
                self._publisher_probe.begin(topic, now_us)
                self._want_replicas(topic)
                self._ask_heads(topic)
        known = self.repair.topics.get(topic)
        was_told = known is not None and bool(known.statuses) and self.repair.is_level(topic)
        if self._publisher_probe.waits(topic, now_us) and not was_told:
            return True
        self._publisher_probe.end(topic)
        return False

    def _ask_heads(self, topic: str) -> None:
        """Compare heads at once, as a publisher that is new does, with all who may have the stream."""
        for peer in self.repair.seeking.sources(topic):
            self._tell(Met(peer, (topic,)))
        if self.replicas.of(topic) or not self.replicas.is_sought(topic):
            self._publisher_probe.hurry(topic, self._host.now_us())

    def publish(self, hand: Sequence[SignedEvent]) -> list[int]:
        """Keep events of one's own and send them on their way; how many neighbours each was handed to."""
        topics, encoded_events = self._peer_table.topics, []
        try:
            for signed in hand:
                encoded_events.append(self._batcher.encoded(signed))
                number = topics.take(signed.record.topic)
                try:
                    self._tell(PublishSigned(signed))
                finally:
                    if number is not None:
                        topics.leave(number)
        finally:
            told = self._flush()
        for topic in dict.fromkeys(signed.record.topic for signed in hand):
            self._want_replicas(topic)
        return [
            encoded.taken + told.get(one.number, 0) for one, encoded in zip(hand, encoded_events, strict=True)
        ]

    @property
    def is_crowded(self) -> bool:
        """Whether publishers should wait for the disk."""
        return self.store.is_crowded

    def safe_position(self, topic: str) -> int:
        """The last position of a stream that is safe."""
        known = self._safe.get(topic)
        return self.store.state(topic).last if known is None else known

    def is_old(self, signed: SignedEvent) -> bool:
        """Whether an event is older than this node's subscription."""
        return self._start_horizon.is_old(signed)

    def is_alone(self, topic: str) -> bool:
        """Whether nobody else is known who may have something of a stream."""
        return not any(peer != ME for peer in self.replicas.of(topic))

    # What the driver tells.

    def take(self, peer: bytes, frame: StreamFrame) -> None:
        """A message of a peer. RemoteError when it has to be refused."""
        if self._stopped:
            return
        inner = wire.decode_stream(frame)
        sender = self._peer_table.number_of(peer)
        if sender == NOBODY:
            raise BenignRefusal("sender without a card")
        try:
            if isinstance(inner, wire.CarriedEvents):
                self._take_carried(peer, sender, inner)
            elif isinstance(inner, wire.TABLE_FRAMES):
                self._rate_limit.note(peer, self._host.now_us())
                self.table.take(peer, sender, inner)
            else:
                self._take_stream(peer, sender, inner)
        finally:
            self._flush()

    def answer(self, sender: int, pulls: Sequence[Pull]) -> None:
        """Send a peer the events that it asks for, of those that travel through this node."""
        if not self._stopped:
            for pull in pulls:
                self._tell(Received(sender, pull))
            self._flush()

    def fire(self, name: str) -> None:
        """A timer ran out."""
        if self._stopped:
            return
        if name in REPAIR_TIMERS:
            self._tell(TimerFired(name))
            if name == PERIOD:
                self._begin_period()
        else:
            self.table.carry_out(self.replicas.handle(TimerFired(name), self._host.now_us()))
        self._flush()

    def handle(self, event: Start | PeerLost) -> None:
        """Something for the system and for streams."""
        if self._stopped:
            for effect in self._system.handle(event, self._host.now_us()):
                self._host.carry_out(effect)
            return
        self._tell(event)
        if isinstance(event, PeerLost):
            self.table.carry_out(self.replicas.handle(event, self._host.now_us()))
        self._flush()

    def meet(self, peer: int) -> None:
        """A peer has introduced itself."""
        self.table.carry_out(self.replicas.meet(peer, self._host.now_us()))
        if not self._stopped:
            self._tell(Met(peer, self._peer_table.topics_of(peer)))

    def stop(self) -> None:
        """The store is about to close: take nothing more. It may still say what is safe."""
        self._stopped = True

    def leave(self) -> None:
        """The node leaves."""
        self.table.carry_out(self.replicas.handle(Stop(), self._host.now_us()))

    def kept(self, cids: tuple[bytes, ...]) -> None:
        """The store says that these are safe."""
        for cid in cids:
            topic, position = self._unsafe[cid]
            self._safe[topic] = max(position, self._safe[topic])
        if self.listener is not None:
            self.listener.safe(cids)
        self._tell(Kept(cids))
        for cid in cids:
            del self._unsafe[cid]
        self._flush()
        self.store.make_room()

    def in_use(self) -> set[int]:
        """Numbers that must stay theirs."""
        return self.replicas.in_use() | self.repair.peers_in_use()

    # What comes.

    def _take_carried(self, peer: bytes, sender: int, frame: wire.CarriedEvents) -> None:
        form = frame.form
        if form >= self._event_encoding.count:
            raise RemoteError(UNKNOWN_FORM)
        if self.store.is_crowded:
            self._host.counters[TOO_MUCH] += len(frame.events)
            return
        for block, signature in frame.events:
            cid = cid_of(block)
            if not frame.ack and self._system.is_of_no_use(event_number(cid)):
                self._host.counters["events received again"] += 1
                continue
            signed = read_signed_event(block, cid, signature)
            if not signed.record.height:
                raise RemoteError("event of no stream among those of streams")
            number = self._system.take_topic(signed.record.topic, form, signed.number)
            if number is None:
                self._host.refuse_topic(peer)
                continue
            carried = self._event_encoding.read(form, number, signed, frame.hops)
            self._tell(Received(sender, DurableEvent(carried, signed, frame.ack)))

    def _take_stream(self, peer: bytes, sender: int, frame: wire.StreamBody) -> None:
        if isinstance(frame, wire.EventBatch | wire.Push):
            if self.store.is_crowded:
                self._host.counters[TOO_MUCH] += len(frame.events)
                return
        elif not isinstance(frame, wire.HolderAck):
            self._rate_limit.note(peer, self._host.now_us())
        message = read_stream(frame)
        topics = self.repair.topics
        if isinstance(message, StreamPush):
            if message.topic not in topics and not self.replicas.is_near(message.topic):
                raise BenignRefusal("events to keep of a topic that is far from here")
            self._tell(Received(sender, message))
            self._want_replicas(message.topic)
            return
        if isinstance(message, StreamHeads):
            for told in message.told:
                topic = topics.get(told.topic)
                if topic is None and told.height and self.replicas.is_near(told.topic):
                    self._tell(Follow(told.topic, reads=False))
        self._tell(Received(sender, message))

    # Once a period.

    def _begin_period(self) -> None:
        """See to it that the replicas of streams are known: of all once Kademlia is awake, else of those that
        have something."""
        now_us, awake = self._host.now_us(), self.replicas.table is not None
        new = 0
        for name, topic in list(self.repair.topics.items()):
            if (awake or topic.height) and not self.replicas.is_sought(name):
                self._want_replicas(name)
                new += 1
                if new >= LOOKUPS_A_PERIOD:
                    break
        if awake or self.replicas.is_needed:
            self.table.carry_out(self.replicas.begin_period(now_us))

    def _want_replicas(self, topic: str) -> None:
        if topic in self.repair.topics:
            self.table.carry_out(self.replicas.want(topic, self._host.now_us()))

    def _found_replicas(self, topic: str, peers: tuple[int, ...]) -> None:
        self._tell(KeptBy(topic, peers))
        if topic in self._publisher_probe:
            self._ask_heads(topic)

    def _found_providers(self, topic: str, peers: tuple[int, ...]) -> None:
        self._tell(Providers(topic, peers))

    # In and out of the machines.

    def _tell(self, event: DurableInput) -> None:
        for effect in self.durable.handle(event, self._host.now_us()):
            self._carry_out(effect)

    def _carry_out(self, effect: DurableEffect) -> None:
        match effect:
            case Send(to, DurableEvent() as carried, otherwise):
                self._batcher.put(to, carried, otherwise)
            case Send(to, StreamAck(cids)):
                self._batcher.ack(to, cids)
            case Send(to, message) if isinstance(message, STREAM_MESSAGES):
                self._host.send_frame(to, wire.encode_stream(pack_stream(message)))
            case Keep(events):
                self._keep(events)
            case SetFloor(topic, floor):
                self.store.set_floor(topic, floor)
            case Hand(signed, hops):
                if hops < 0:
                    self._start_horizon.fetched(signed, self._host.now_us())
                self._deliver_safe(signed, hops, self._unsafe[signed.cid][1])
            case Routed(signed, hops):
                self._deliver_safe(signed, hops, 0)
            case Acknowledged(cid, holders):
                if self.listener is not None:
                    self.listener.held(cid, holders)
            case Provide(topic):
                self.replicas.provide(topic)
            case FindProviders(topic):
                now_us = self._host.now_us()
                self.table.carry_out(self.replicas.find_providers(topic, self._found_providers, now_us))
            case _:
                self._host.carry_out(effect)

    def _flush(self) -> Mapping[int, int]:
        """Send what waits; event → how many peers were told of it."""
        told = self._system.release()
        self._batcher.flush()
        return told

    def _keep(self, events: Sequence[SignedEvent]) -> None:
        for signed in events:
            topic = signed.record.topic
            if topic not in self._safe:
                self._safe[topic] = self.store.state(topic).last
        self.store.keep(events, self._host.now_us())
        for signed in events:
            self._unsafe[signed.cid] = signed.record.topic, self.store.position_of(signed.cid)
