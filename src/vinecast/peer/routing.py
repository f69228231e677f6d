"""The system of a live node: its router, and all that is the same in every system around it.

The row of a system says how its messages travel and what peers may ask (``systems/common/row``); here they
become frames and back, within these limits. The peer knows time, links and frames, the router knows whom
an event goes to.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from typing import Any, Protocol

from vinecast.core.errors import RemoteError
from vinecast.core.events import Effect, Event, Message, Received
from vinecast.core.log.batch_signature import SignedEvent, Verify, event_number
from vinecast.core.log.blocks import ContentId
from vinecast.core.log.name_record import NameChecker
from vinecast.core.machine import NOBODY, Machine
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.frame_codec import FrameCodec, checked_topic, decoder_of
from vinecast.peer.codecs.joiner import Joiner
from vinecast.peer.codecs.status_codec import StatusCodec
from vinecast.peer.config import PeerConfig
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.limits.rate_limit import RateLimit
from vinecast.peer.message_reader import MessageReader, TracedMessage
from vinecast.peer.scratch import ScratchPool
from vinecast.peer.streams.codec import TABLE_FRAME_SPECS
from vinecast.peer.streams.messages import CarriedEvents, decode_stream, encode_stream
from vinecast.peer.streams.replicas import replica_key
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.table.relayed_topics import RelayedTopics
from vinecast.peer.tracing import Tracing
from vinecast.peer.wire.messages import (
    EventFrame,
    Gossip,
    StreamFrame,
    SystemFrame,
    decode,
    encode,
    read_body,
    system_frame,
)
from vinecast.protocols.kademlia import MESSAGES as TABLE_MESSAGES
from vinecast.protocols.kademlia import point_of
from vinecast.systems.common.router import EventKnown, Publishing, RouterPorts, Search
from vinecast.systems.common.wire import FrameSpec, PlainEncoding
from vinecast.systems.durable.machine import Carrier
from vinecast.systems.registry import SYSTEMS, live_system


class RoutingHost(Protocol):
    """The peer, as far as it is needed here."""

    counters: Counter[str]
    scratch: ScratchPool
    """Working memory that the system may use."""
    verify: Verify
    """What checks signatures."""
    cid_of: ContentId
    """What content ids are."""
    tracing: Tracing | None

    def when_compiled(self, then: Callable[[], None]) -> None:
        """See ``WhenCompiled``."""

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""

    def handle_event(self, event: Event) -> None:
        """Let the machine handle something, and do what it asks for."""

    def carry_out(self, effect: Effect) -> None:
        """Do what the machine asks for."""

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        """Send a frame; whether it will go out."""

    def hear(self, peer: bytes) -> None:
        """A peer gossips. RemoteError when that is more than anybody has to listen to."""

    def answer(self, sender: int, pulls: Sequence[Any]) -> None:
        """Let the machine answer a peer that asks for events by number, and send them."""


class Routing:
    """The router of one live node, with what is the same in every system."""

    def __init__(
        self, config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RoutingHost
    ) -> None:
        self.row = row = live_system(config.row)
        self._host, self._peer_table = host, peer_table
        self._relayed = RelayedTopics(peer_table.topics, lambda topic: self.router.carries(topic))
        ports = RouterPorts(
            seed=seed,
            peers=peer_table,
            peers_max=config.peers,
            topics_max=config.topics,
            point_of=lambda topic: point_of(replica_key(network, topic)),
            take_number=self._relayed.number_of,
            counters=host.counters,
            scratch=host.scratch.take,
            when_compiled=host.when_compiled,
            validator=NameChecker(host.verify, network),
            regular=None if peer_table.regular is None else peer_table.regular.shared,
        )
        made = row.make(config, ports)
        self.router = router = made.router
        self.event_encoding = made.event_encoding or PlainEncoding(*row.carries)
        self.machine: Machine = router.machine
        self.codec = Codec(peer_table, made.entries_max, {message.kind: message for message in row.gossip})
        self._frames = FrameCodec(
            row.messages, self.codec, self._relayed.name_of, self._relayed.number_of, made.fields
        )
        self._table_frames = FrameCodec(TABLE_FRAME_SPECS, self.codec)
        self._status = None if made.status is None else StatusCodec(self.codec, peer_table, made.status)
        gossip = () if made.status is None else (made.status.exchange, made.status.profile)
        self._decoder = decoder_of([*gossip, *self._frames.of_frame])
        self._joiner = Joiner(host.send_frame, self._frames)
        self._rate_limit = RateLimit(row.requests_in_hand)
        self._shares: Counter[tuple[type[Any], bytes]] = Counter()
        """Frame and peer → topics that it named in this cycle"""
        self._topics_max = config.topics
        self._view_of = SYSTEMS[config.row].view_of
        self.kademlia = None if row.kademlia is None else row.kademlia(self.machine)
        self._regularity = row.regularity(self.machine)
        self.carrier = Carrier(
            self,
            row.carries,
            router.neighbours,
            came=lambda event, now_us: router.handle(EventKnown(event), now_us),
            publishes=self.publishes,
            relays=row.relays,
            by_content=row.by_content,
        )

    # The machine.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        return self.router.handle(event, now_us)

    def publishes(self, signed: SignedEvent) -> None:
        """The application is about to publish an event, which a router by content has to read before."""
        if self.row.by_content:
            self.router.handle(Publishing(signed), self._host.now_us())

    def begin(self, timer: str) -> None:
        """A timer is about to fire."""
        if timer == self.row.first_timer:
            self._shares.clear()
            self._relayed.sweep()

    def search(self, topic: str) -> bool:
        """Before something is published: where nobody is known to whom it could be handed, search for one;
        whether one may be found in a moment."""
        number = self._peer_table.topics.take(topic)
        if number is None:
            return False
        try:
            now_us = self._host.now_us()
            for effect in self.router.handle(Search(number), now_us):
                self._host.carry_out(effect)
            return self.router.is_searching(number, now_us)
        finally:
            self._peer_table.topics.leave(number)

    def knows_nobody(self) -> bool:
        """Whether it has nobody to speak to."""
        return not (self._view_of(self.machine) != NOBODY).any()

    # Topics.

    def leads_to(self, topic: str, peer: int) -> bool:
        """Whether events of a topic may go to a peer next."""
        number = self._peer_table.topics.number_of(topic)
        return number is not None and self.router.leads_to(number, peer)

    def is_ready(self, topic: int) -> bool:
        """Whether an event on a topic that it subscribes to would reach this node."""
        return self.router.is_ready(topic, self._host.now_us())

    def is_alone(self, topic: int) -> bool:
        """Whether nobody else is known who takes part in a topic of its own."""
        return self.router.is_alone(topic, self._host.now_us())

    def nearest(self, topic: int) -> tuple[int, int]:
        """Who is next to it in a topic of its own, below and above; NOBODY where there is none."""
        return self.router.nearest(topic, self._host.now_us())

    def keep_topic(self, topic: int) -> None:
        """The application has left a topic: keep its number if it is still of use."""
        self._relayed.keep(topic)

    # Events.

    def is_of_no_use(self, event: int) -> bool:
        """Whether a further copy of an event is of no use, whichever way it comes."""
        return not self.row.many_ways and self.router.has_seen(event, NOBODY)

    def may_come_again(self, event: int, topic: int) -> bool:
        """Whether an event that came before may come another way."""
        return self.row.many_ways and self.router.has_seen(event, topic)

    def take_topic(self, name: str, form: int, event: int) -> int | None:
        """The number of the topic of an event that it takes in this form, or None; good until ``release``."""
        number = self._relayed.member(name)
        if number is None and self.router.takes_any(form, event):
            number = self._relayed.number_of(name)
            if number is None:  # its sender could not know
                raise BenignRefusal("no room for a topic")
        return number

    def release(self) -> Mapping[int, int]:
        """What was in hand is handled: send what waited for that, and let go of the topics that were taken.

        Event → how many peers were told of it, where they are told before it is sent.
        """
        told = self._joiner.flush()
        self._relayed.release()
        return told

    def events_in(self, frame: bytes) -> list[int]:
        """The numbers of the events that a frame of this node's own carries, or tells of."""
        blocks: Sequence[tuple[bytes, bytes]] = ()
        match decode(frame):
            case EventFrame(events=events):
                blocks = events
            case StreamFrame() as stream:
                inner = decode_stream(stream)
                blocks = inner.events if isinstance(inner, CarriedEvents) else ()
            case SystemFrame(body):
                news: Any = read_body(self._decoder, body)
                spec = self._frames.of_frame.get(type(news))
                return list(getattr(news, spec.joins)) if spec is not None and spec.tells else []
        return [event_number(self._host.cid_of(block)) for block, _ in blocks]

    # For a trace.

    def message_reader(self, topic_of: Callable[[int], str]) -> MessageReader:
        """What reads the frames of this system; ``topic_of`` gives the topic of an event by number, or
        nothing."""
        return MessageReader(
            self.row.carries, self.event_encoding, self._frames, self._decoder, self._host.cid_of, topic_of
        )

    def topic_named(self, number: int) -> str:
        """The name of a topic that is in use, or nothing."""
        names = self._peer_table.topics.names
        return (names[number] or "") if 0 <= number < len(names) else ""

    def _refuse(self, peer: bytes, spec: FrameSpec, frame: Any, count: int = 1) -> None:
        """Messages about a topic that is not taken, or for which there is no room."""
        self._host.counters[spec.refused] += count
        if self._host.tracing is not None:
            topic, hops = getattr(frame, "topic", ""), getattr(frame, "hops", -1)
            message = TracedMessage(spec.message.kind, topic, hops=hops)
            self._host.tracing.refuse_messages(peer, message, count, spec.refused)

    # Messages that carry no event.

    def send(self, to: int, message: Message) -> bool:
        """Send a message to a peer, perhaps with others; whether it will go out."""
        if self._joiner.put(to, message):
            return True
        parts = self._frames.parts(message)
        if parts is None:
            return self._host.send_frame(to, self._encode(self._peer_table.id_of(to), message))
        for frame, things in parts:
            self._host.send_frame(to, system_frame(frame), things)
        return True

    def _encode(self, to: bytes, message: Message) -> bytes:
        if type(message) in self._frames.of_message:
            return system_frame(self._frames.pack(to, message))
        if isinstance(message, TABLE_MESSAGES):
            return encode_stream(self._table_frames.pack(to, message))
        if self._status is not None:
            return system_frame(self._status.pack(to, message))
        return encode(self.codec.pack(to, message))

    def take_gossip(self, peer: bytes, frame: Gossip) -> None:
        """Handle a frame of a gossip layer; RemoteError when that has to be refused."""
        self._host.hear(peer)
        self._host.handle_event(Received(*self.codec.unpack(peer, frame)))

    def take(self, peer: bytes, frame: SystemFrame) -> None:
        """Handle a frame of the system's own; RemoteError when that has to be refused."""
        inner: Any = read_body(self._decoder, frame.body)
        spec = self._frames.of_frame.get(type(inner))
        try:
            if spec is None:
                if self._status is None:
                    raise RemoteError("frame that this system does not have")
                self._host.hear(peer)
                self._host.handle_event(Received(*self._status.read(peer, inner)))
                return
            if spec.is_request:
                self._rate_limit.note(peer, self._host.now_us())
            sender = self._peer_table.number_of(peer)
            if sender == NOBODY:
                raise BenignRefusal("sender without a card")
            self._peer_table.release()
            if spec.joins:
                self._take_joined(spec, peer, sender, inner)
            else:
                self._take_one(spec, peer, sender, inner)
        finally:
            self.release()

    def _take_one(self, spec: FrameSpec, peer: bytes, sender: int, frame: Any) -> None:
        admitted = spec.admits is None or spec.admits(self.router, sender)
        message = self._frames.read(peer, frame) if admitted else None
        if message is not None:
            self._host.handle_event(Received(sender, message))
            return
        self._refuse(peer, spec, frame)
        if spec.refusal is not None:
            self._host.send_frame(sender, system_frame(spec.refusal(frame.topic)))

    def _take_joined(self, spec: FrameSpec, peer: bytes, sender: int, frame: Any) -> None:
        """A frame with several messages, or one message with topics of several."""
        if not spec.joins_of:
            self._take_topics(spec, peer, sender, frame)
            return
        given = {name: getattr(frame, name) for name in frame.__struct_fields__ if name != spec.joins}
        if "topic" in given:
            topic = self._number_of(spec, frame)
            if topic is None:
                self._refuse(peer, spec, frame, len(getattr(frame, spec.joins)))
                return
            given["topic"] = topic
        things = getattr(frame, spec.joins)
        messages = [self._frames.build(spec, {**given, spec.joins_of: one}) for one in things]
        if spec.message is self.row.pulls:
            self._host.answer(sender, messages)
            return
        for message in messages:
            self._host.handle_event(Received(sender, message))

    def _number_of(self, spec: FrameSpec, frame: Any) -> int | None:
        """The topic of a frame, if it is one in which the node has a place, or any will do."""
        number = self._relayed.member(checked_topic(frame.topic))
        return self._relayed.number_of(frame.topic) if number is None and spec.takes_any(frame) else number

    def _take_topics(self, spec: FrameSpec, peer: bytes, sender: int, frame: Any) -> None:
        names = list(map(checked_topic, dict.fromkeys(getattr(frame, spec.joins))))
        room = len(names)
        if spec.share:
            room = self._topics_max // spec.share - self._shares[spec.frame, peer]
        numbers = [self._relayed.number_of(name) for name in names[:room]]
        known = tuple([number for number in numbers if number is not None])
        self._shares[spec.frame, peer] += len(known)
        if len(known) < len(names):
            self._host.counters[spec.refused] += len(names) - len(known)
        self._host.handle_event(Received(sender, self._frames.build(spec, {spec.joins: known})))

    # Regularity.

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """Before the start: when the node was on line before, by its log."""
        if self._regularity is not None:
            self._regularity.recall(sessions)

    def regularity(self) -> dict[str, Any]:
        """When the node is on line, as far as its log tells; nothing where that does not matter."""
        own = self._regularity
        if own is None:
            return {}
        shares = [None if isnan(share) else round(share, 3) for share in own.shares().tolist()]
        told = {"slot_s": own.config.slot_s, "threshold": own.config.threshold, "slot": own.slot}
        return {"regularity": {**told, "shares": shares, "regular": own.pattern.tolist()}}
