"""The driver: runs a system's machine in real time, over real connections.

It is the only place of a node that knows a clock and entropy. Events go into the machine (frames from peers,
timers, what the application asks for), effects come out and are carried out at once: nothing here waits, so
that neither a slow peer nor a slow subscriber holds the node up. What cannot be done is counted with its
reason.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from vinecast.core.content.filters_index import WhenCompiled
from vinecast.core.errors import InputError, RemoteError
from vinecast.core.events import (
    Blame,
    Count,
    Effect,
    Event,
    Message,
    Observe,
    PeerFound,
    PeerLost,
    Send,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from vinecast.core.log.batch_signature import SignatureChecker, SignedEvent
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.node.runtime.capabilities import scratch_pool, when_compiled
from vinecast.node.runtime.clock import Clock
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.membership import TopicMembership
from vinecast.node.runtime.timers import Timers
from vinecast.node.transport.interface import BROKEN, PeerFacts, Transport
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity, verify
from vinecast.peer.limits.misbehaviour import BenignRefusal, Misbehaviour
from vinecast.peer.routing import Routing
from vinecast.peer.streams.durable_runtime import TIMERS as STREAM_TIMERS
from vinecast.peer.streams.durable_runtime import DurableRuntime
from vinecast.peer.streams.ports import DeliverSafe, StreamPlace, StreamsSettings
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.volatile_events import VolatileEvents
from vinecast.peer.wire.messages import (
    EventFrame,
    Frame,
    Gossip,
    Introduction,
    Leaving,
    StreamFrame,
    SystemFrame,
    decode,
    encode,
)
from vinecast.systems.common.notices import Pull
from vinecast.systems.common.router import ME

_OBSERVED = {kind: f"events {kind.name.lower().replace('_', ' ')}" for kind in TraceKind}
UNWANTED = "refused: event on a topic that is not subscribed to"


class DriverPorts(NamedTuple):
    """What a driver stands on, and who takes the events that the application subscribed to."""

    transport: Transport
    clock: Clock
    store: StreamPlace
    deliver: Callable[[SignedEvent, int], None]
    """Takes an event outside of streams, and how many connections it travelled; it must not wait."""
    deliver_safe: DeliverSafe
    """The same for events of streams."""


class OwnCard(NamedTuple):
    """What a driver is told of the node's card, and who is told of a new one."""

    advertise: Address | None
    """Where others reach the node; None: where it listens."""
    version: int
    """Of the last card, before a restart."""
    on_card: Callable[[int], object]


class Driver(TopicMembership):
    """Runs the system of one node."""

    def __init__(
        self,
        identity: Identity,
        network: str,
        seed: int,
        config: NodeConfig,
        ports: DriverPorts,
        card: OwnCard,
    ) -> None:
        self.transport, self._clock, store, deliver, deliver_safe = ports
        self.address, self._version, self._on_card = card
        self.scratch = scratch_pool()
        self.when_compiled: WhenCompiled = when_compiled
        period_us = round(config.period_s * SECOND_US)
        self.counters: Counter[str] = Counter()
        self._observed: deque[tuple[int, Observe]] = deque(maxlen=config.traced)
        self.peer_table = PeerTable(
            identity.public,
            identity.sign,
            verify,
            network,
            config.peers,
            config.topics,
            config.slotting.slots if config.slotting is not None else 0,
            config.unmet,
        )
        self.peer_table.in_use = self._in_use
        self.system = Routing(config, seed, network, self.peer_table, self)
        self.machine: Any = self.system.machine
        """What decides; for those who look inside."""
        self.joined = asyncio.Event()
        """Set when somebody else is known."""
        self._codec = self.system.codec
        self._misbehaviour = Misbehaviour(period_us)
        checker = SignatureChecker(verify, network)
        self.events = VolatileEvents(self, self.system, self.peer_table, checker, deliver)
        self.streams = DurableRuntime(
            StreamsSettings(network, config.period_s, config.replicas, config.provide),
            seed,
            self,
            self.system,
            self.peer_table,
            checker,
            store,
            deliver_safe,
        )
        self._followed, self._wanted = set(), set()
        self._running = False
        self._has_news = False
        """Whether the node's card is another since it was last told to those with a connection."""
        self.cycles = Timers(
            period_us,
            self.now_us,
            self._fire,
            self.system.router.partner_of,
            lambda peer: self.transport.is_connected(self.peer_table.id_of(peer)),
            self.counters,
        )

    # Life.

    async def start(self) -> Address:
        """Listen, and begin to gossip; with nobody yet."""
        listens = await self.transport.start(self)
        self.address = self.address or listens
        self._renew(())
        self._running = True
        self.cycles.start()
        self.streams.handle(Start(()))
        return self.address

    @property
    def trace(self) -> list[TraceRecord]:
        """What happened to events lately."""
        return [
            TraceRecord(when, ME, one.kind, one.peer, "", one.topic, one.event, one.hops, one.reason)
            for when, one in self._observed
        ]

    async def leave(self, patience_s: float) -> None:
        """Say goodbye, let what is queued go out, and close."""
        if self._running:
            self.handle(Stop())
            self.streams.leave()
            goodbye = encode(Leaving())
            for peer in self.transport.connections():
                self.transport.send(peer, None, goodbye)
        self._running = False
        self.cycles.stop()
        await self.transport.drain(patience_s)
        await self.transport.close()

    def _in_use(self) -> Iterable[int]:
        return self.system.router.in_use().union(self.connected(), self.streams.in_use())

    def _renew(self, topics: Iterable[str]) -> None:
        """Write a new card."""
        self._version = max(self._clock.wall_us(), self._version + 1)
        self.peer_table.renew(str(self.address), self._version, topics)
        self._on_card(self._version)
        self._has_news = True

    # What the transport tells.

    def on_up(self, peer: bytes, address: Address, facts: PeerFacts) -> None:
        """A connection is up: each side introduces itself."""
        self._codec.forget_connection(peer)
        self._introduce_myself(peer)

    def on_down(self, peer: bytes, reason: str) -> None:
        """A connection is gone. They are made again when they are needed, so that mostly says nothing about
        the peer; but one that broke asks for a look: whoever died is missed sooner if it is not waited
        for."""
        self._codec.forget_connection(peer)
        if self._running and reason in BROKEN:
            asyncio.get_running_loop().call_soon(self._knock, peer)

    def _knock(self, peer: bytes) -> None:
        """Make a connection to a peer that is of use, or find out that nobody is there."""
        number = self.peer_table.number_of(peer)
        if self._running and number != NOBODY and number in self.system.router.in_use():
            self._introduce_myself(peer, self.peer_table.address_of(number))

    def on_unreachable(self, peer: bytes) -> None:
        """A peer could not be reached."""
        number = self.peer_table.number_of(peer)
        if number != NOBODY and self._running:
            self._lose(number)

    def _lose(self, number: int) -> None:
        """A peer is gone: nobody waits for its answer."""
        self.cycles.lose(number)
        self.streams.handle(PeerLost(number))

    def on_refused(self, reason: str) -> None:
        """The transport turned something away."""
        self.counters[f"refused: {reason}"] += 1

    def on_frame(self, peer: bytes, data: bytes) -> None:
        """A frame of a peer, whatever it holds."""
        if not self._running:
            return
        try:
            self._take(peer, decode(data))
        except RemoteError as error:
            self.counters[f"refused: {error}"] += 1
            if not isinstance(error, BenignRefusal):
                self.blame(peer)

    def blame(self, peer: bytes) -> None:
        """A peer did what no honest node does."""
        if self._misbehaviour.blame(peer):
            self.transport.shun(peer)
            self.on_unreachable(peer)

    def _introduce_myself(self, peer: bytes, address: Address | None = None) -> None:
        own = self.peer_table.describe(ME, 0)
        assert own is not None
        self.transport.send(peer, address, encode(Introduction(own)))

    def _take(self, peer: bytes, frame: Frame) -> None:
        match frame:
            case Gossip():
                self.system.take_gossip(peer, frame)
                self.joined.set()
            case EventFrame():
                self.events.take(peer, frame)
            case Introduction():
                self._meet(peer, frame)
            case Leaving():
                number = self.peer_table.number_of(peer)
                if number != NOBODY:
                    self._lose(number)
            case StreamFrame():
                self.streams.take(peer, frame)
            case SystemFrame():
                self.system.take(peer, frame)

    def _meet(self, peer: bytes, frame: Introduction) -> None:
        """Somebody introduces itself; a node that knows nobody begins with it."""
        self.hear(peer)
        self.peer_table.release()
        number = self.peer_table.meet(frame.sender, peer)
        if number == NOBODY:
            raise BenignRefusal("no room for its card")
        if self.peer_table.id_of(number) != peer:
            raise RemoteError("speaks for another peer")
        if self.system.knows_nobody() and number != ME:
            self.streams.handle(Start((number,)))
        self.streams.meet(number)
        self.joined.set()

    def hear(self, peer: bytes) -> None:
        """A peer gossips. RemoteError when that is more than anybody has to listen to."""
        self._misbehaviour.hear(peer, self._clock.now_us())

    def welcome(self, peer: bytes) -> bool:
        """Gossip with a peer that was called on; False while it has not introduced itself."""
        number = self.peer_table.number_of(peer)
        if number != NOBODY and self._running:
            self.handle(PeerFound(number))
        return number != NOBODY

    def refuse_topic(self, peer: bytes) -> None:
        """A peer sent an event on a topic that is not subscribed to; RemoteError when it ought to know."""
        if self._misbehaviour.is_news(peer):
            self._introduce_myself(peer)
        self.counters[UNWANTED] += 1

    # In and out of the machine.

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""
        return self._clock.now_us()

    def count_others(self) -> int:
        """How many other nodes there are, as far as is known; 0 while it has lost all of them."""
        alone = self.system.knows_nobody() and not self.transport.connections()
        return 0 if alone else len(self.peer_table.known())

    def connected(self) -> set[int]:
        """The peers that there are connections to."""
        return {self.peer_table.number_of(peer) for peer in self.transport.connections()} - {NOBODY}

    def handle(self, event: Event) -> None:
        """Let the machine handle something, and do what it asks for."""
        for effect in self.system.handle(event, self._clock.now_us()):
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        """Do what a machine asks for; what it asks of events is up to ``events`` and ``streams``."""
        match effect:
            case Send(to, message, otherwise):
                if not self._send(to, message) and otherwise != NOBODY:
                    self._send(otherwise, message)
            case SetTimer(name, after_us):
                self.cycles.set_timer(name, after_us)
            case Observe(kind=kind, reason=reason):
                self.counters[f"{_OBSERVED[kind]}: {reason}" if reason else _OBSERVED[kind]] += 1
                self._observed.append((self._clock.wall_us(), effect))
            case Count(name, by):
                self.counters[name] += by
            case Blame(peer):
                self.blame(self.peer_table.id_of(peer))

    def _send(self, to: int, message: Message) -> bool:
        return to != NOBODY and self.system.send(to, message)

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        """Send a frame; ``things``: messages or events in it."""
        peer = self.peer_table.id_of(to)
        try:
            sent = self.transport.send(peer, self.peer_table.address_of(to), frame)
        except InputError:
            self.counters["dropped: frame too large"] += things
            sent = False
        if not sent:
            self._codec.forget_connection(peer)  # what was to go out first did not
            self.counters["dropped: peer cannot take more"] += things
        return sent

    def answer(self, sender: int, pulls: Sequence[Pull]) -> None:
        """Let the machine answer a peer that asks for events by number: those of streams are kept apart."""
        others = self.events.answer(sender, pulls)
        if others:
            self.streams.answer(sender, others)

    def _fire(self, name: str) -> None:
        if name in STREAM_TIMERS:
            self.streams.fire(name)
            return
        if name == self.system.row.first_timer:
            self._begin_cycle()
        self.system.begin(name)
        self.handle(TimerFired(name))
        self.system.release()
        regular = self.peer_table.regular
        if regular is not None and regular.own_pattern(ME) != self.peer_table.card.pattern:
            self._renew(self.peer_table.names_of(ME))
        if name == self.system.row.last_timer:
            self.cycles.complete()

    def _begin_cycle(self) -> None:
        self.peer_table.begin_cycle()
        self._misbehaviour.begin_cycle(self._clock.now_us())
        if self._has_news and not self.system.row.gossips:
            for peer in self.transport.connections():
                self._introduce_myself(peer)
        self._has_news = False

    async def next_cycle(self) -> bool:
        """Wait until all layers had their turn once more; False when the node leaves instead."""
        return await self.cycles.next()
