"""Durable streams over any carrier (S3 §4.4 and §4.5; decision 12): a carrier spreads events, gap repair sees
to it that nothing is missing.

The carrier (PolderCast, a tree, …) is a machine that knows events by number. Here every message of it that
carries an event travels with the event itself. What comes is checked first: form, content id, signature. Then
gap repair finds its place, and only when it has one, parents kept and height right, the carrier hears of it
and passes it on. So an honest node never spreads what others would have to refuse, and nobody floods a
network through it. Where events are routed by content, most nodes on an event's ways do not follow its
stream, and cannot know its place: there the carrier hears of it at once.

What was fetched is not passed on: whoever lacks it too fetches it as well. Events outside streams (height 0)
go straight through.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast

from vinecast.core.events import (
    Blame,
    Count,
    Deliver,
    Effect,
    Event,
    Message,
    Observe,
    PeerLost,
    Publish,
    Received,
    Send,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.streams import Keep, Kept, SetFloor, Streams
from vinecast.core.machine import Machine
from vinecast.core.trace import TraceKind
from vinecast.protocols.streams import (
    STREAM_MESSAGES,
    Acknowledged,
    FindProviders,
    Follow,
    GapRepair,
    Hand,
    Lower,
    Met,
    Provide,
    Providers,
    StreamEffect,
    StreamEvents,
    StreamPush,
    StreamsConfig,
    TopicReplicas,
    Unfollow,
)
from vinecast.protocols.streams.machine import TIMERS, RepairEvent

TRAVELLING = 1024
"""Events on their way through this node that the carrier may still send (ours)."""
TRAVELLING_BYTES = 16 * 1024 * 1024
ARRIVED = 8192
"""Events whose carrier messages are kept until they have a place, and until they are delivered (ours)."""
WAYS = 4
"""Messages that are kept for one of them (ours)."""


class CarriedEvent(Protocol):
    """A message of a carrier that carries an event."""

    kind: ClassVar[str]

    @property
    def topic(self) -> int: ...
    @property
    def event(self) -> int: ...
    @property
    def hops(self) -> int: ...


@dataclass(frozen=True, slots=True)
class DurableEvent:
    """An event on its way, as the carrier sends it."""

    kind: ClassVar[str] = "durable.event"
    carried: CarriedEvent
    """What the carrier says."""
    signed: SignedEvent
    ack: bool
    """Whether the sender is its publisher, and wants to know when it is safe."""

    @property
    def topic(self) -> int:
        """Its topic's number."""
        return self.carried.topic

    @property
    def event(self) -> int:
        """Its number."""
        return self.carried.event

    @property
    def hops(self) -> int:
        """Links that it has travelled."""
        return self.carried.hops


@dataclass(frozen=True, slots=True)
class PublishSigned:
    """Event: the application publishes; the record stands where ``Durable.place`` said."""

    signed: SignedEvent


@dataclass(frozen=True, slots=True)
class Routed:
    """Effect: an event of a stream is here because the carrier found that it is wanted; it is not kept."""

    signed: SignedEvent
    hops: int


@dataclass(frozen=True, slots=True)
class Carrier:
    """What carries events, and what must be known of it."""

    machine: Machine
    carries: tuple[type[Any], ...]
    """Its messages that carry an event."""
    neighbours: Callable[[int, int], Sequence[int]]
    """(topic, now) -> the peers next to this node in the topic's overlay."""
    came: Callable[[int, int], object] = lambda event, now_us: None
    """(event, now): an event that is sent to the machine is here already, and will not be brought to it."""
    publishes: Callable[[SignedEvent], object] = lambda signed: None
    """Told of every event before the application publishes it."""
    relays: bool = False
    """Whether nodes pass on events of streams that they do not follow, and so cannot answer for their
    places."""
    by_content: bool = False
    """Whether it also brings events of streams that the node does not follow, since they match a filter."""


DurableInput = Event | Kept | Follow | Unfollow | Lower | TopicReplicas | Providers | Met | PublishSigned
DurableEffect = Effect | Keep | SetFloor | Hand | Routed | Acknowledged | Provide | FindProviders


class Durable:
    """The machine. ``fault_of`` says what is wrong with an event's form or signature, or nothing;
    ``number_of`` gives the carrier's number of a topic, ``event_of`` that of an event."""

    def __init__(
        self,
        config: StreamsConfig,
        seed: int,
        me: int,
        carrier: Carrier,
        streams: Streams,
        fault_of: Callable[[SignedEvent], str],
        number_of: Callable[[str], int | None],
        event_of: Callable[[SignedEvent], int] = lambda signed: signed.number,
    ) -> None:
        self.me = me
        self.carrier = carrier
        self.repair = GapRepair(config, seed, me, streams, self._neighbours)
        self._fault_of = fault_of
        self._number_of = number_of
        self._event_of = event_of
        self._now_us = 0
        self._travelling: OrderedDict[int, SignedEvent] = OrderedDict()
        self._travelling_bytes = 0
        self._arrived: OrderedDict[bytes, list[tuple[int, CarriedEvent]]] = OrderedDict()
        """Events that the carrier brought and that have no place yet → senders and messages."""
        self._hops: OrderedDict[bytes, int] = OrderedDict()
        """Events that are not delivered yet → links that they travelled."""
        self._known: dict[str, tuple[Sequence[int], int]] = {}
        """A topic's neighbours, and until when they are not asked for again."""

    def place(self, topic: str) -> tuple[tuple[bytes, ...], int]:
        """The parents and the height of the next event that is published here on a topic."""
        return self.repair.place(topic)

    def handle(self, event: DurableInput, now_us: int) -> list[DurableEffect]:
        self._now_us = now_us
        match event:
            case Received(sender, message):
                return self._receive(sender, message)
            case PublishSigned(signed):
                return self._publish(signed)
            case TimerFired(name) if name in TIMERS:
                return self._repair(event)
            case Kept() | TopicReplicas() | Providers() | Lower() | Met():
                return self._repair(event)
            case Follow(topic):
                number = self._number_of(topic) if event.reads else None
                subscribed = [] if number is None else self._carry(Subscribe(number))
                return self._repair(event) + subscribed
            case Unfollow(topic):
                number = self._number_of(topic)
                self._known.pop(topic, None)
                left = [] if number is None else self._carry(Unsubscribe(number))
                return self._repair(event) + left
            case Start() | PeerLost():
                self._known.clear()
                return self._carry(event) + self._repair(event)
        return self._carry(event)

    def _neighbours(self, topic: str) -> Sequence[int]:
        found, until_us = self._known.get(topic, ((), 0))
        if self._now_us >= until_us:
            number = self._number_of(topic)
            found = () if number is None else self.carrier.neighbours(number, self._now_us)
            self._known[topic] = found, self._now_us + self.repair.config.period_us // 2
        return found

    # What comes.

    def _receive(self, sender: int, message: Message) -> list[DurableEffect]:
        match message:
            case DurableEvent():
                return self._receive_event(sender, message)
            case StreamEvents() | StreamPush():
                return self._receive_events(sender, message)
        if isinstance(message, STREAM_MESSAGES):
            return self._repair(Received(sender, message))
        return self._carry(Received(sender, message))

    def _receive_event(self, sender: int, message: DurableEvent) -> list[DurableEffect]:
        signed, carried = message.signed, message.carried
        record = signed.record
        if self.repair.intake.height(record.topic, signed.cid):
            return self._take(signed, sender, message.ack) + self._receive_again(sender, carried)
        fault = self._fault_of(signed)
        if not fault and (carried.event, carried.topic) != (
            self._event_of(signed),
            self._number_of(record.topic),
        ):
            fault = "event under a false name"
        if fault:
            return self._refuse(sender, fault)
        if record.height == 0 or record.topic not in self.repair.topics:
            return self._bring(signed, sender, carried)
        if self.carrier.by_content:
            _remember(self._hops, signed.cid, carried.hops, ARRIVED)
            return self._take(signed, sender, message.ack) + self._bring(signed, sender, carried)
        _remember(self._arrived, signed.cid, self._arrived.get(signed.cid, []), ARRIVED)
        self._arrived[signed.cid] += [(sender, carried)][: WAYS - len(self._arrived[signed.cid])]
        return self._take(signed, sender, message.ack)

    def _receive_again(self, sender: int, carried: CarriedEvent) -> list[DurableEffect]:
        """An event that has its place came once more. While it travels that concerns the carrier, which may
        know it on its way up a tree and not yet on its way down; what is older goes nowhere."""
        if carried.event in self._travelling:
            return self._carry(Received(sender, carried))
        self.carrier.came(carried.event, self._now_us)
        return [Observe(TraceKind.RECEIVED_AGAIN, carried.topic, carried.event, sender, carried.hops)]

    def _receive_events(self, sender: int, message: StreamEvents | StreamPush) -> list[DurableEffect]:
        effects: list[DurableEffect] = []
        right = []
        for signed in message.events:
            known = self.repair.intake.knows(message.topic, signed.cid)
            fault = "" if known else self._fault_of(signed)
            if fault:
                effects += self._refuse(sender, fault)
                continue
            right.append(signed)
            if not known and (isinstance(message, StreamPush) or self.carrier.by_content):
                self._travel(signed)  # its publisher has sent it along the carrier, too, which may be slower
        return effects + self._repair(Received(sender, replace(message, events=tuple(right))))

    def _refuse(self, sender: int, fault: str) -> list[DurableEffect]:
        refused: list[DurableEffect] = [Count(f"durable.refused {fault}"), Blame(sender, fault)]
        return refused + self._map_repair(self.repair.distrust(sender, self._now_us))

    def _publish(self, signed: SignedEvent) -> list[DurableEffect]:
        number = self._number_of(signed.record.topic)
        effects: list[DurableEffect] = []
        if signed.record.height:
            _remember(self._hops, signed.cid, 0, ARRIVED)
            effects += self._map_repair(self.repair.publish(signed, self._now_us))
        if number is None:
            return effects
        self._travel(signed)
        self.carrier.publishes(signed)
        return effects + self._carry(Publish(number, self._event_of(signed)))

    # Gap repair's side.

    def _take(self, signed: SignedEvent, sender: int, ack: bool) -> list[DurableEffect]:
        judged = not self.carrier.relays
        return self._map_repair(self.repair.take(signed, sender, self._now_us, ack, judged))

    def _repair(self, event: RepairEvent) -> list[DurableEffect]:
        return self._map_repair(self.repair.handle(event, self._now_us))

    def _map_repair(self, effects: list[StreamEffect]) -> list[DurableEffect]:
        """What gap repair asks for; and the carrier hears of events that have a place now."""
        mapped: list[DurableEffect] = []
        for effect in effects:
            match effect:
                case Keep(events):
                    mapped.append(effect)
                    for signed in events:
                        arrived = self._arrived.pop(signed.cid, [])
                        if arrived:
                            _remember(self._hops, signed.cid, arrived[0][1].hops, ARRIVED)
                        for sender, carried in arrived:
                            mapped += self._bring_late(signed, sender, carried)
                case Hand(signed):
                    mapped.append(Hand(signed, self._hops.pop(signed.cid, -1)))
                case _:
                    mapped.append(effect)
        return mapped

    # The carrier's side.

    def _bring(self, signed: SignedEvent, sender: int, carried: CarriedEvent) -> list[DurableEffect]:
        """Let the carrier have what was sent to it."""
        self._travel(signed)
        return self._carry(Received(sender, carried))

    def _bring_late(self, signed: SignedEvent, sender: int, carried: CarriedEvent) -> list[DurableEffect]:
        """The same, of an event that waited: meanwhile its topic's number may belong to another topic, or to
        none, where this node has no part in carrying the topic any longer."""
        number = self._number_of(signed.record.topic)
        if number is None:
            return []
        if number != carried.topic:
            carried = replace(cast("Any", carried), topic=number)
        return self._bring(signed, sender, carried)

    def _travel(self, signed: SignedEvent) -> None:
        number = self._event_of(signed)
        if number not in self._travelling:
            self._travelling[number] = signed
            self._travelling_bytes += len(signed.block)
        while len(self._travelling) > TRAVELLING or (
            self._travelling_bytes > TRAVELLING_BYTES and len(self._travelling) > 1
        ):
            self._travelling_bytes -= len(self._travelling.popitem(last=False)[1].block)

    def _carry(self, event: Event) -> list[DurableEffect]:
        mapped: list[DurableEffect] = []
        for effect in self.carrier.machine.handle(event, self._now_us):
            match effect:
                case Send(_, message, _) if isinstance(message, self.carrier.carries):
                    mapped.append(self._send(effect, message))
                case Deliver(_, number, hops):
                    signed = self._travelling.get(number)
                    if signed is not None and signed.record.height == 0:
                        mapped.append(Hand(signed, hops))
                    elif signed is not None and self.carrier.by_content:
                        mapped.append(Routed(signed, hops))
                case _:
                    mapped.append(effect)
        return mapped

    def _send(self, send: Send, message: CarriedEvent) -> DurableEffect:
        signed = self._travelling.get(message.event)
        if signed is None:
            return Count("durable.event forgotten")
        own = signed.cid in self.repair.holders
        if own:
            for peer in (send.to, send.otherwise):
                self.repair.holders.sent(signed.cid, peer, self._now_us)
        return Send(send.to, DurableEvent(message, signed, own), send.otherwise)


def _remember(memory: OrderedDict[bytes, Any], cid: bytes, value: object, most: int) -> None:
    """Note something of an event, and forget the oldest where there are too many."""
    memory[cid] = value
    if len(memory) > most:
        memory.popitem(last=False)
