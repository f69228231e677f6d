"""The driver: runs a system's machine in real time, over real links.

It is the only place of a node that knows a clock and entropy. Events go into the machine (frames from peers,
timers, what the application asks for), effects come out and are carried out at once: nothing here waits, so
that neither a slow peer nor a slow subscriber holds the node up. What cannot be done is counted with its
reason.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from math import isnan
from typing import Any

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
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.interest import Scratch
from vinecast.core.machine import NOBODY
from vinecast.core.seals import SealChecker, Sealed
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.node.address import Address
from vinecast.node.clock import Clock
from vinecast.node.codec import Codec
from vinecast.node.conduct import Conduct, Misunderstanding
from vinecast.node.cycles import Cycles
from vinecast.node.events_live import LiveEvents
from vinecast.node.identity import Identity, verify
from vinecast.node.peers import ME, PeerBook
from vinecast.node.streams_host import Reader, StreamPlace, StreamsSettings
from vinecast.node.streams_live import TIMERS as STREAM_TIMERS
from vinecast.node.streams_live import LiveStreams
from vinecast.node.transport import BROKEN, PeerFacts, Transport
from vinecast.node.wire import (
    CARD_BYTES_MAX,
    EventFrame,
    Frame,
    Gossip,
    Introduction,
    Leaving,
    Other,
    decode,
    encode,
    names_bytes,
)
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.rings import machine as rings
from vinecast.protocols.streams import NOW
from vinecast.systems.poldercast import PolderCast, PolderCastConfig
from vinecast.systems.poldercast_regular import PolderCastRegular, PolderCastRegularConfig

log = logging.getLogger("vinecast.node")

_OBSERVED = {kind: f"events {kind.name.lower().replace('_', ' ')}" for kind in TraceKind}
UNWANTED = "refused: event on a topic that is not subscribed to"


class Driver:
    """One node's. ``deliver`` takes an event that the application subscribed to, and how many links it
    travelled; it must not wait. ``read`` is the same for events of streams, which lie in ``store``."""

    def __init__(
        self,
        identity: Identity,
        transport: Transport,
        config: PolderCastConfig,
        scratch: Scratch,
        clock: Clock,
        seed: int,
        network: str,
        deliver: Callable[[Sealed, int], None],
        read: Reader,
        store: StreamPlace,
        keepers: int,
        peers: int,
        topics: int,
        traced: int,
        advertise: Address | None = None,
        version: int = 0,
        on_card: Callable[[int], object] = lambda version: None,
    ) -> None:
        """``version``: of the last card, before a restart; ``on_card`` is told of every new one."""
        self.transport = transport
        self._version, self._on_card = version, on_card
        self.counters: Counter[str] = Counter()
        self._observed: deque[tuple[int, Observe]] = deque(maxlen=traced)
        slots = config.grid.regularity.slots if isinstance(config, PolderCastRegularConfig) else 0
        self.book = PeerBook(
            identity.public, identity.sign, verify, network, peers, topics, self._in_use, slots
        )
        self.machine = self._make_machine(config, seed, scratch)
        self.address: Address | None = advertise
        self.joined = asyncio.Event()
        """Set when somebody else is known."""
        self._codec = Codec(self.book, config.most)
        self._conduct = Conduct(config.period_us)
        self._clock = clock
        checker = SealChecker(verify, network)
        self.events = LiveEvents(self, self.machine, self.book, checker, deliver)
        self.streams = LiveStreams(
            StreamsSettings(network, config.period_us / 1e6, keepers),
            seed,
            self,
            self.machine,
            self.book,
            self._codec,
            checker,
            store,
            read,
        )
        self._reachable: set[int] = set()
        self._running = False
        self.cycles = Cycles(
            config.period_us,
            self.now_us,
            self._fire,
            self.machine.partner_of,
            lambda peer: transport.is_linked(self.book.id_of(peer)),
            self.counters,
        )

    def _make_machine(self, config: PolderCastConfig, seed: int, scratch: Scratch) -> PolderCast:
        profiles, regular = self.book.profiles, self.book.regular
        if not isinstance(config, PolderCastRegularConfig):
            return PolderCast(config, seed, ME, profiles, scratch)
        assert regular is not None
        return PolderCastRegular(config, seed, ME, profiles, scratch, regular.shared)

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
            self._handle(Stop())
            self.streams.leave()
            goodbye = encode(Leaving())
            for peer in self.transport.links():
                self.transport.send(peer, None, goodbye)
        self._running = False
        self.cycles.stop()
        await self.transport.drain(patience_s)
        await self.transport.close()

    def _in_use(self) -> Iterable[int]:
        return self.machine.peers_in_use().union(self.linked(), self.streams.in_use())

    def _renew(self, topics: Iterable[str]) -> None:
        """Write a new card."""
        self._version = max(self._clock.wall_us(), self._version + 1)
        self.book.renew(str(self.address), self._version, topics)
        self._on_card(self._version)

    # What the application asks for.

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """Before the start: when the node was on line before, by its log."""
        if isinstance(self.machine, PolderCastRegular):
            self.machine.grid.own.recall(sessions)

    def regularity(self) -> dict[str, Any]:
        """When the node is on line, as far as its log tells; nothing where that does not matter."""
        if not isinstance(self.machine, PolderCastRegular):
            return {}
        own = self.machine.grid.own
        shares = [None if isnan(share) else round(share, 3) for share in own.shares().tolist()]
        told = {"slot_s": own.config.slot_s, "threshold": own.config.threshold, "slot": own.slot}
        return {"regularity": {**told, "shares": shares, "regular": own.pattern.tolist()}}

    def subscribe(self, topics: Iterable[str], start: str = NOW) -> list[str]:
        """Take part in these topics, with one new card for all, and read their streams from NOW or from the
        EARLIEST event on; those for which there was room."""
        mine, added = set(self.book.topics_of(ME)), []
        room = CARD_BYTES_MAX - names_bytes(mine)
        for topic in dict.fromkeys(topics):
            if topic in mine:
                added.append(topic)
                continue
            size = names_bytes((topic,))
            number = self.book.topics.take(topic) if size <= room else None
            if number is None:
                continue
            self._handle(Subscribe(number))
            if self.machine.subscribes(number):
                room -= size
                added.append(topic)  # what the profile now uses of the number is what we took
            else:
                self.book.topics.leave(number)
        if not mine.issuperset(added):
            self._renew(mine.union(added))
        for topic in added:
            self.streams.follow(topic, start)
        return added

    def unsubscribe(self, topic: str) -> None:
        """Leave a topic."""
        number = self.book.topics.number_of(topic)
        if number is not None and topic in self.book.topics_of(ME):
            self._reachable.discard(number)
            self._handle(Unsubscribe(number))
            self.streams.unfollow(topic)
            self.book.topics.leave(number)
            self._renew(set(self.book.topics_of(ME)) - {topic})

    def publish(self, hand: Iterable[Sealed]) -> list[int]:
        """Send events of one's own, outside of streams, on their way; how many peers each was handed to."""
        return self.events.publish(hand)

    def is_ready(self, topic: str) -> bool:
        """Whether an event on a topic would reach this node by its ring neighbours.

        While an exchange is under way its partner is out of the rings, so that what was so just before the
        last one began counts too.
        """
        number = self.book.topics.number_of(topic)
        return number is not None and (number in self._reachable or self.machine.is_reachable(number))

    def neighbours(self) -> dict[str, tuple[bytes, bytes]]:
        """Topic → the ids of its ring neighbours, the lower and the higher; empty where there is none."""
        rings, now_us, found = self.machine.rings, self._clock.now_us(), {}
        for row, topic in enumerate(self.book.profiles.topics_of(ME).tolist()):
            name, carriers = self.book.topics.names[topic], rings.carriers(row, now_us)
            assert name is not None
            nearest = (int(carriers[0]), int(carriers[carriers.size // 2]))
            lower, higher = (b"" if peer == NOBODY else self.book.id_of(peer) for peer in nearest)
            found[name] = lower, higher
        return found

    def is_alone(self, topic: str) -> bool:
        """Whether nobody else is known who subscribes to a topic."""
        number = self.book.topics.number_of(topic)
        return number is None or self.machine.is_alone(number, self._clock.now_us())

    def subscribes(self, topic: str) -> bool:
        """Whether the node takes part in a topic."""
        return topic in self.book.topics_of(ME)

    # What the transport tells.

    def on_up(self, peer: bytes, address: Address, facts: PeerFacts) -> None:
        """A link is up: each side introduces itself."""
        self._codec.forget_link(peer)
        self._introduce_myself(peer)

    def on_down(self, peer: bytes, reason: str) -> None:
        """A link is gone. They are made again when they are needed, so that mostly says nothing about the
        peer; but one that broke asks for a look: whoever died is missed sooner if it is not waited for."""
        self._codec.forget_link(peer)
        if self._running and reason in BROKEN:
            asyncio.get_running_loop().call_soon(self._knock, peer)

    def _knock(self, peer: bytes) -> None:
        """Make a link to a peer that is of use, or find out that nobody is there."""
        number = self.book.number_of(peer)
        if self._running and number != NOBODY and number in self.machine.peers_in_use():
            self._introduce_myself(peer, self.book.address_of(number))

    def on_unreachable(self, peer: bytes) -> None:
        """A peer could not be reached."""
        number = self.book.number_of(peer)
        if number != NOBODY and self._running:
            self._lose(number)

    def _lose(self, number: int) -> None:
        """A peer is gone: nobody waits for its answer."""
        if number in self.machine.partners():
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
            if not isinstance(error, Misunderstanding):
                self.blame(peer)

    def blame(self, peer: bytes) -> None:
        """A peer did what no honest node does."""
        if self._conduct.blame(peer):
            self.transport.shun(peer)
            self.on_unreachable(peer)

    def _introduce_myself(self, peer: bytes, address: Address | None = None) -> None:
        own = self.book.describe(ME, 0)
        assert own is not None
        self.transport.send(peer, address, encode(Introduction(own)))

    def _take(self, peer: bytes, frame: Frame) -> None:
        match frame:
            case Gossip():
                self._conduct.hear(peer, self._clock.now_us())
                sender, message = self._codec.unpack(peer, frame)
                self._handle(Received(sender, message))
                self.joined.set()
            case EventFrame():
                self.events.take(peer, frame)
            case Introduction():
                self._meet(peer, frame)
            case Leaving():
                number = self.book.number_of(peer)
                if number != NOBODY:
                    self._lose(number)
            case Other():
                self.streams.take(peer, frame)

    def _meet(self, peer: bytes, frame: Introduction) -> None:
        """Somebody introduces itself; a node that knows nobody begins with it."""
        self._conduct.hear(peer, self._clock.now_us())
        self.book.release()
        number = self.book.meet(frame.sender, peer)
        if number == NOBODY:
            raise Misunderstanding("no room for its card")
        if self.book.id_of(number) != peer:
            raise RemoteError("speaks for another peer")
        if self.machine.cyclon.view.size == 0 and number != ME:
            self.streams.handle(Start((number,)))
        self.streams.meet(number)
        self.joined.set()

    def welcome(self, peer: bytes) -> bool:
        """Gossip with a peer that was called on; False while it has not introduced itself."""
        number = self.book.number_of(peer)
        if number != NOBODY and self._running:
            self._handle(PeerFound(number))
        return number != NOBODY

    def refuse_topic(self, peer: bytes) -> None:
        """A peer sent an event on a topic that is not subscribed to; RemoteError when it ought to know."""
        if self._conduct.is_news(peer):
            self._introduce_myself(peer)
        self.counters[UNWANTED] += 1

    # In and out of the machine.

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""
        return self._clock.now_us()

    def count_others(self) -> int:
        """How many other nodes there are, as far as is known; 0 while it has lost all of them."""
        alone = self.machine.cyclon.view.size == 0 and not self.transport.links()
        return 0 if alone else len(self.book.known())

    def linked(self) -> set[int]:
        """The peers that there are links to."""
        return {self.book.number_of(peer) for peer in self.transport.links()} - {NOBODY}

    def _handle(self, event: Event) -> None:
        for effect in self.machine.handle(event, self._clock.now_us()):
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
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
                self.blame(self.book.id_of(peer))

    def _send(self, to: int, message: Message) -> bool:
        return self.send_frame(to, encode(self._codec.pack(self.book.id_of(to), message)))

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        """Send a frame; ``things``: messages or events in it."""
        peer = self.book.id_of(to)
        try:
            sent = self.transport.send(peer, self.book.address_of(to), frame)
        except InputError:
            self.counters["dropped: frame too large"] += things
            sent = False
        if not sent:
            self._codec.forget_link(peer)  # what was to go out first did not
            self.counters["dropped: peer cannot take more"] += things
        return sent

    def _fire(self, name: str) -> None:
        if name in STREAM_TIMERS:
            self.streams.fire(name)
            return
        if name == cyclon.TIMER:
            self.book.begin_cycle()
            self._conduct.begin_cycle(self._clock.now_us())
        if name == rings.TIMER:
            mine = self.book.profiles.topics_of(ME).tolist()
            self._reachable = {topic for topic in mine if self.machine.is_reachable(topic)}
        self._handle(TimerFired(name))
        regular = self.book.regular
        if name == cyclon.TIMER and regular is not None and regular.own_pattern(ME) != self.book.card.pattern:
            self._renew(self.book.topics_of(ME))
        if name == rings.TIMER:
            self.cycles.complete()

    async def next_cycle(self) -> bool:
        """Wait until all layers had their turn once more; False when the node leaves instead."""
        return await self.cycles.next()

    def is_crowded(self, topic: str, above: float) -> bool:
        """Whether a linked subscriber of a topic has a queue fuller than that, 0 … 1."""
        numbers = map(self.book.number_of, self.transport.crowded(above))
        return any(number != NOBODY and topic in self.book.topics_of(number) for number in numbers)
