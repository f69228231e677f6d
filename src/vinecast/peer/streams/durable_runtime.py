"""Streams on a live node: the machine ``Durable`` over the node's system, with real messages, a store and
Kademlia.

The peer hands over what concerns streams; events outside of them never come here. What the machine keeps
goes to the store, and what the store says is safe goes back to the machine, to whoever waits for a receipt,
and to readers. When too much waits to be written nothing more is taken: others still have it, and it is
fetched later. What cannot be begun while the store cannot be read is tried again once a period.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from vinecast.core.errors import InputError
from vinecast.core.events import PeerLost, Received, Send, Start, Stop, TimerFired
from vinecast.core.log.batch_signature import SignatureChecker, SignedEvent
from vinecast.core.log.name_record import NameChecker
from vinecast.core.log.streams import Keep, Kept, SetFloor
from vinecast.core.machine import NOBODY
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.limits.rate_limit import RateLimit
from vinecast.peer.routing import Routing
from vinecast.peer.streams import messages as wire
from vinecast.peer.streams.arrivals import StreamArrivals
from vinecast.peer.streams.batcher import StreamBatcher
from vinecast.peer.streams.codec import pack_stream
from vinecast.peer.streams.ports import DeliverSafe, Listener, StreamHost, StreamPlace, StreamsSettings
from vinecast.peer.streams.publisher_probe import PublisherProbe
from vinecast.peer.streams.replicas import LOOKUPS_A_PERIOD, KnownPeers, ReplicaFinder, table_config
from vinecast.peer.streams.start_horizon import StartHorizon
from vinecast.peer.streams.store_keeping import StreamWrites
from vinecast.peer.streams.table_exchange import TableExchange
from vinecast.peer.table.peer_table import PeerTable
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
CLOSED = "the store is closed"
UNPUBLISHED = -1
"""Instead of a number of neighbours: the event has no place, since the store cannot be read."""


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
        self.writes = StreamWrites(store, host)
        self.repair.has_room = lambda: not (store.is_crowded or self.writes.is_crowded)
        self.replicas = ReplicaFinder(
            table_config(settings.period_s, settings.replicas),
            settings.replicas,
            seed,
            peer_table.points,
            settings.network,
            NameChecker(host.verify, settings.network),
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
        self._rate_limit = RateLimit()
        self._arrivals = StreamArrivals(
            host, system, self.repair, self.replicas, self._rate_limit, self._tell, self._want_replicas
        )
        self._batcher = StreamBatcher(host.send_frame, system.event_encoding)
        self._start_horizon = StartHorizon()
        self._publisher_probe = PublisherProbe()
        self._undone: dict[tuple[str, str], partial[None]] = {}
        """What could not be begun since the store could not be read, by what it is."""
        self._stopped = False

    # What the application asks for.

    def follow(self, topic: str, start: str = NOW) -> None:
        """Read a topic's stream; one that was begun with NOW can be had from its beginning after all."""
        self._start_horizon.begin(topic, self._host.now_us())
        self._begin(("read", topic + start), partial(self._follow, topic, start))

    def _follow(self, topic: str, start: str) -> None:
        self._tell(Follow(topic, start))
        state = self.store.state(topic)
        if start == EARLIEST and state.floor and state.first <= 1:  # else retention has taken what was below
            self._tell(Lower(topic, 0))
        if start == EARLIEST or state.last:
            self._want_replicas(topic)

    def unfollow(self, topic: str) -> None:
        """Read it no longer; a replica goes on keeping it, and whoever has something of it goes on giving it:
        perhaps nobody else has that."""
        if self._stopped:
            return
        self._start_horizon.end(topic)
        for start in (NOW, EARLIEST):
            self._undone.pop(("read", topic + start), None)
        keeps = ME in self.replicas.of(topic) or self._has_some(topic)
        self._tell(Unfollow(topic))
        if keeps:
            self._begin(("keep", topic), partial(self._go_on_keeping, topic))
        else:
            self.replicas.leave(topic)

    def _has_some(self, topic: str) -> bool:
        """Whether it has, or may have, something of a stream."""
        try:
            return self.store.weight(topic) > 0
        except InputError:
            return True

    def _go_on_keeping(self, topic: str) -> None:
        if topic not in self.repair.topics:
            self._tell(Follow(topic, reads=False, size=self.store.weight(topic)))
        if topic not in self.repair.topics:  # there is no room for more that is kept for others
            self.replicas.leave(topic)
        elif self.replicas.of(topic):
            self._tell(KeptBy(topic, self.replicas.of(topic)))

    def _begin(self, name: tuple[str, str], work: partial[None]) -> None:
        """Do something that reads the store; where it cannot be read, once more in the next period."""
        self._undone.pop(name, None)
        try:
            work()
        except InputError:
            self._host.note_unreadable()
            self._undone[name] = work

    def resume(self) -> None:
        """After a restart: go on with streams that were kept for others."""
        self._begin(("resume", ""), partial(self._resume))

    def _resume(self) -> None:
        for topic in self.store.topics():
            self._begin(("keep", topic), partial(self._go_on_keeping, topic))

    def place(self, topic: str) -> tuple[tuple[bytes, ...], int]:
        """The parents and the height of the next event of a topic."""
        return self.durable.place(topic)

    def visit(self, topic: str) -> bool:
        """Before something is published: whether to wait a moment, to be told what the stream has."""
        now_us = self._host.now_us()
        if topic not in self.repair.topics and self._peer_table.known():
            try:
                self._tell(Follow(topic, NOW, reads=False))
            except InputError:
                self._host.note_unreadable()  # whoever publishes is told when the event gets no place
            if topic in self.repair.topics:
                self._publisher_probe.begin(topic, now_us)
                self._want_replicas(topic)
                self._ask_heads(topic)
        if topic in self._publisher_probe and self._all_can_be_asked(topic):
            self._publisher_probe.hurry(topic, now_us)
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

    def _all_can_be_asked(self, topic: str) -> bool:
        """Whether the replicas of a topic are known, and there are connections to all of them."""
        replicas = set(self.replicas.of(topic)) - {ME}
        if not replicas:
            return not self.replicas.is_sought(topic) or ME in self.replicas.of(topic)
        return replicas.issubset(self._host.connected())

    def publish(self, hand: Sequence[SignedEvent]) -> list[int]:
        """Keep events of one's own and send them on their way; how many neighbours each was handed to, or
        UNPUBLISHED, and so for those that follow it."""
        topics, encoded_events = self._peer_table.topics, []
        unplaced: set[str] = set()
        unpublished: set[bytes] = set()
        if self._host.tracing is not None:
            self._host.tracing.publish(hand)
        try:
            for signed in hand:
                encoded_events.append(self._batcher.encoded(signed))
                if signed.record.topic in unplaced:
                    unpublished.add(signed.cid)
                    continue
                number = topics.take(signed.record.topic)
                try:
                    self._tell(PublishSigned(signed))
                except InputError:
                    self._host.note_unreadable()
                    unplaced.add(signed.record.topic)
                    unpublished.add(signed.cid)
                finally:
                    if number is not None:
                        topics.leave(number)
        finally:
            told = self._flush()
        for topic in dict.fromkeys(signed.record.topic for signed in hand):
            self._want_replicas(topic)
        return [
            UNPUBLISHED if one.cid in unpublished else encoded.taken + told.get(one.number, 0)
            for one, encoded in zip(hand, encoded_events, strict=True)
        ]

    @property
    def is_crowded(self) -> bool:
        """Whether publishers should wait for the disk."""
        return self.store.is_crowded

    def safe_position(self, topic: str) -> int:
        """The last position of a stream that is safe."""
        return self.writes.safe_position(topic)

    def is_old(self, signed: SignedEvent) -> bool:
        """Whether an event is older than this node's subscription."""
        return self._start_horizon.is_old(signed)

    def is_alone(self, topic: str) -> bool:
        """Whether nobody else is known who may have something of a stream."""
        return not any(peer != ME for peer in self.replicas.of(topic))

    # What the peer tells.

    def take(self, peer: bytes, frame: StreamFrame) -> None:
        """A message of a peer. RemoteError when it has to be refused."""
        if self._stopped:
            raise BenignRefusal(CLOSED)
        inner = wire.decode_stream(frame)
        sender = self._peer_table.number_of(peer)
        if sender == NOBODY:
            raise BenignRefusal("sender without a card")
        try:
            if isinstance(inner, wire.TABLE_FRAMES):
                self._rate_limit.note(peer, self._host.now_us())
                self.table.take(peer, sender, inner)
            else:
                self._arrivals.take(peer, sender, inner)
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
        self.writes.note_safe(cids)
        if self.listener is not None:
            self.listener.safe(cids)
        self._tell(Kept(cids))
        self.writes.forget(cids)
        self._flush()
        self.store.make_room()

    def in_use(self) -> set[int]:
        """Numbers that must stay theirs."""
        return self.replicas.in_use() | self.repair.peers_in_use()

    # Once a period.

    def _begin_period(self) -> None:
        """See to it that what was left undone is done, and that the replicas of streams are known: of all
        once Kademlia is awake, else of those that have something."""
        self.writes.go_on()
        for undone, work in list(self._undone.items()):
            self._begin(undone, work)
        now_us, awake = self._host.now_us(), self.replicas.table is not None
        self._publisher_probe.sweep(now_us)
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
        """InputError where a stream cannot be followed, or nothing published on it, since the store cannot be
        read."""
        try:
            effects = self.durable.handle(event, self._host.now_us())
        except InputError:
            self.repair.cut_short()
            raise
        for effect in effects:
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
                self.writes.keep(events)
            case SetFloor():
                self.writes.set_floor(effect)
            case Hand(signed, hops):
                if hops < 0:
                    self._start_horizon.fetched(signed, self._host.now_us())
                position = self.writes.position(signed.cid)
                if position:
                    self._deliver_safe(signed, hops, position)
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
