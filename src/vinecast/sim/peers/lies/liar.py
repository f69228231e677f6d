"""A liar: a simulated node that can say what it likes, beside what the honest peer inside it says.

It has a key of its own, and so can sign what it likes in its own name; it has connections as others do; it
remembers some of what it heard, to play it again. What it draws is keyed: the same run tells the same lies.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from vinecast.core.draws import below, purpose, stream
from vinecast.core.errors import RemoteError
from vinecast.core.log.batch_signature import SignedEvent, sign_events
from vinecast.core.log.blocks import CID_HEAD
from vinecast.core.log.event_record import NO_HEADERS, EventRecord, topic_fault
from vinecast.core.log.event_record import decode as decode_event
from vinecast.peer import inputs as given
from vinecast.peer.address import Address
from vinecast.peer.codecs.frame_codec import decoder_of
from vinecast.peer.outputs import SendFrame
from vinecast.peer.peer import Peer
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import (
    EventFrame,
    Frame,
    Gossip,
    Introduction,
    StreamFrame,
    SystemFrame,
    decode,
    encode,
    make_card,
    read_body,
    system_frame,
)
from vinecast.sim.peers.keys import KeyRing, SimulatedIdentity
from vinecast.sim.peers.links import SimulatedLinks
from vinecast.sim.peers.node import NodeSetup, NodeWorld, SimulatedNode
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import ID_BYTES, Card
from vinecast.systems.registry import live_system
from vinecast.systems.vinifera.messages import ViniferaExchange, ViniferaProfile
from vinecast.systems.vitis.messages import VitisExchange, VitisProfile

FRAME_BYTES_MAX = 1024 * 1024
"""No transport takes a larger frame: it ends the connection (``LinkLimits``)."""
REMEMBERED = 64
"""Events, cards and forgeries that are remembered, of each kind (ours)."""
TRUE_MAX = 30
"""Events of its own that a liar publishes for one lie (ours): few enough for readers that take their time."""
JOINED_MAX = 4
"""Topics that a liar takes part in (ours)."""
SUBSCRIPTION = 1 << 32
"""The first number of its own subscriptions: higher than anybody else's on the node."""
INVENTED = 1 << 40
"""The first number of identities that nobody runs."""

_LIE = purpose("peers.lie")
STATUS_FRAMES: Mapping[str, tuple[type[Struct], ...]] = {
    "vitis": (VitisExchange, VitisProfile),
    "vinifera": (ViniferaExchange, ViniferaProfile),
}
"""The gossip of systems on T-Man, which is not among the other messages of their rows."""

CarriedEvent = tuple[bytes, bytes]
"""A block and its signature, as they travel."""
T = TypeVar("T")


class LiarWorld(NodeWorld, Protocol):
    """The world, as far as liars need it."""

    keys: KeyRing
    nodes: list[SimulatedNode]


@lru_cache(16)
def system_decoder(row: str) -> "msgspec.msgpack.Decoder[Any]":
    """Reads the messages of a system."""
    frames = [spec.frame for spec in live_system(row).messages]
    return decoder_of([*STATUS_FRAMES.get(row, ()), *frames])


class Liar(SimulatedNode):
    """The tools of lies. ``topics``: what it aims at before it has heard what others read."""

    def __init__(self, world: LiarWorld, number: int, setup: NodeSetup, topics: Sequence[str] = ()) -> None:
        super().__init__(world, number, setup)
        self.attacks: Counter[str] = Counter()
        """Lie → frames that went out, were changed, or were held back."""
        self.lying = ""
        """The lie that is at work."""
        self.network = setup.network
        self.volatile: list[CarriedEvent] = []
        """Events that came by, the oldest."""
        self.durable: list[CarriedEvent] = []
        self.forgeries: dict[bytes, CarriedEvent] = {}
        """Content id → an event that others were made to ask for."""
        self.cards: dict[bytes, Card] = {}
        """Peer → the first card of its that came."""
        self.records: dict[bytes, bytes] = {}
        """Key → the first value of Kademlia's that came."""
        self.seen: dict[bytes, None] = {}
        """Content ids of events that it was sent to keep, and did not."""
        self.children: dict[bytes, dict[str, None]] = {}
        """Peer → topics in whose trees it takes the liar for its parent."""
        self.memory: Counter[str] = Counter()
        """Whatever a lie has to count."""
        self.join: tuple[Address, ...] = ()
        """Where others are that it was told of."""
        self._liars, self._aims = world, tuple(topics)
        self.joined = self._draws = 0
        self._invented: list[Card] = []
        self._decoder = system_decoder(setup.config.row)

    # Draws.

    def draw(self, n: int) -> int:
        """A whole number in [0, n)."""
        self._draws += 1
        return below(stream(self._world.seed, _LIE, self._draws, self.number), 0, n)

    def pick(self, of: Sequence[T]) -> T:
        """One of these."""
        return of[self.draw(len(of))]

    def noise(self, size: int) -> bytes:
        """Bytes that mean nothing."""
        self._draws += 1
        return hashlib.shake_256(b"%d %d %d" % (self._world.seed, self.number, self._draws)).digest(size)

    def nobody(self) -> bytes:
        """A content id that nobody has anything for."""
        return CID_HEAD + self.noise(32)

    # Who and what there is.

    @property
    def inside(self) -> Peer:
        """The honest peer inside."""
        assert self.peer is not None
        return self.peer

    @property
    def id(self) -> bytes:
        """Who it is."""
        return self.setup.identity.id

    @property
    def system(self) -> str:
        """What carries events."""
        return self.setup.config.system

    @property
    def card(self) -> Card:
        """Its own card."""
        return self.inside.peer_table.card

    @property
    def world_links(self) -> SimulatedLinks:
        """All connections of the run."""
        return self._world.links

    @property
    def true_us(self) -> int:
        """The true time."""
        return self._world.now_us

    def friends(self) -> list[Card]:
        """The cards of the other liars that run."""
        liars = [node for node in self._liars.nodes if isinstance(node, Liar) and node is not self]
        return [liar.inside.peer_table.card for liar in liars if liar.peer is not None]

    def others(self) -> list[bytes]:
        """The honest peers that it can reach, those first that it has a connection to."""
        table = self.inside.peer_table
        met = (table.id_of(number) for number in table.known() if table.address_of(number) is not None)
        honest = {node.setup.identity.id for node in self._liars.nodes if not isinstance(node, Liar)}
        reached = dict.fromkeys((*self._world.links.peers_of(self.number), *met))
        return [peer for peer in reached if peer in honest]

    def victim(self) -> bytes:
        """Somebody to lie to; nobody at all, where it can reach nobody."""
        others = self.others()
        return self.pick(others) if others else self.noise(ID_BYTES)

    def address_of(self, peer: bytes) -> Any:
        """Where a peer is, as far as it is known."""
        table = self.inside.peer_table
        number = table.number_of(peer)
        return table.address_of(number) if number >= 0 else None

    def card_of(self, peer: bytes) -> Card | None:
        """The newest card of a peer."""
        table = self.inside.peer_table
        entry = table.describe(table.number_of(peer), 0) if table.number_of(peer) >= 0 else None
        return entry.card if entry is not None and isinstance(entry.card, Card) else None

    def key_of(self, peer: bytes) -> bytes:
        """The public key of a peer."""
        card = self.card_of(peer)
        return card.public if card is not None else self.noise(32)

    def topics(self) -> list[str]:
        """What others read, by their cards, what it keeps, and what it was told to aim at."""
        table = self.inside.peer_table
        found = dict.fromkeys(self._aims)
        for peer in self.others():
            number = table.number_of(peer)
            found.update(dict.fromkeys(table.topics_of(number) if number >= 0 else ()))
        return [*found] or ["news"]

    def topic(self) -> str:
        """A topic to lie about."""
        return self.pick(self.topics())

    def headers(self) -> Mapping[str, str | bytes]:
        """The headers of an event that came by, the latest that has some: of a schema, perhaps."""
        found = (headers_of(event) for event in (*self.durable[::-1], *self.volatile[::-1]))
        return next(filter(None, found), NO_HEADERS)

    def known(self, topic: str) -> list[SignedEvent]:
        """Events of a stream that it keeps."""
        return [keeping.signed for keeping in self.disk.in_order(topic, (0, b""), REMEMBERED)]

    def top(self, topic: str) -> int:
        """The height of a stream, as far as it knows."""
        known = self.inside.streams.repair.topics.get(topic)
        return known.height if known is not None else 0

    def invented(self, count: int) -> list[Card]:
        """True cards of peers that nobody runs, the same each time."""
        while len(self._invented) < count:
            number = INVENTED + (self.number << 20) + len(self._invented)
            who, port = self._liars.keys.identity(number), 1 + len(self._invented)
            self._invented.append(self.sign_card(who, f"10.255.{self.number & 255}.1:{port}", 1, ("news",)))
        return self._invented[:count]

    # What it makes.

    def sign_card(self, who: SimulatedIdentity, address: str, version: int, topics: Iterable[str]) -> Card:
        """The card of somebody whose key it has."""
        names = tuple(sorted(set(topics)))
        return make_card(who.sign, self.network, who.public, address, version, names)

    def sign_event(
        self,
        topic: str,
        height: int = 0,
        parents: tuple[bytes, ...] = (),
        publisher: bytes = b"",
        payload: bytes = b"",
        headers: Mapping[str, str | bytes] = NO_HEADERS,
        time_us: int | None = None,
    ) -> SignedEvent:
        """An event that it signs; in another's name, if so told; on some topic, where this can be none."""
        record = EventRecord(
            self.topic() if topic_fault(topic) else topic,
            publisher or self.setup.identity.public,
            self.disk.next_sequence(),
            max(0, self.clock.wall_us(self._world.now_us)) if time_us is None else time_us,
            payload or b"a lie " + self.noise(8).hex().encode(),
            headers,
            parents,
            height,
        )
        return sign_events(self.network, [record], self.setup.identity.sign)[0]

    def may_publish(self) -> bool:
        """Whether the lie at work has not published too much yet."""
        self.memory[self.lying] += 1
        return self.memory[self.lying] <= TRUE_MAX

    # What it says.

    def say(self, peer: bytes, *frames: bytes) -> None:
        """Send frames to a peer, as the lie that is at work."""
        for frame in frames:
            if len(frame) > FRAME_BYTES_MAX:
                self.break_with(peer)
            elif not self.send(peer, frame):
                continue
            self.attacks[self.lying] += 1

    def send(self, peer: bytes, frame: bytes) -> bool:
        """Send a frame; whether it may go out."""
        return self._world.links.send(self.number, SendFrame(peer, self.address_of(peer), frame, 1))

    def send_later(self, output: SendFrame, after_us: int) -> None:
        """Send a frame after a while."""
        self._later(after_us, lambda: self._world.links.send(self.number, output))

    def say_stream(self, peer: bytes, *messages: wire.Inner) -> None:
        """The same with messages about streams, or of Kademlia."""
        self.say(peer, *map(wire.encode_stream, messages))

    def say_own(self, peer: bytes, *messages: Struct) -> None:
        """The same with messages of a system."""
        self.say(peer, *map(system_frame, messages))

    def say_event(self, peer: bytes, signed: SignedEvent, hops: int = 0) -> None:
        """The same with an event outside of streams."""
        encoding = self.inside.system.event_encoding
        self.say(peer, encode(EventFrame(hops, (carried(signed),), self.draw(encoding.count))))

    def break_with(self, peer: bytes) -> None:
        """A connection ends."""
        number = self.number_of(peer)
        if number is not None:
            self._world.links.break_link(self.number, number)

    def number_of(self, peer: bytes) -> int | None:
        """The number of a peer's node."""
        numbers = (node.number for node in self._liars.nodes if node.setup.identity.id == peer)
        return next(numbers, None)

    def come_back(self, after_us: int) -> None:
        """Begin again after a while, as it began."""
        self._world.at(self._world.now_us + after_us, self.start, self.join)

    def take_part(self) -> None:
        """Read a topic that others read: to have a place in its overlay, and events to hold back."""
        mine = self.inside.peer_table.topics_of(ME)
        missing = [topic for topic in self.topics() if topic not in mine]
        if missing and self.joined < JOINED_MAX:
            self.joined += 1
            number, topic = SUBSCRIPTION + self.joined, missing[0]
            self.ask(lambda request: given.OpenSubscription(request, number, topic, "now"))

    # What it hears.

    def read(self, data: bytes) -> object:
        """The message in a frame; None where there is none."""
        try:
            frame: Frame = decode(data)
            if isinstance(frame, StreamFrame):
                return wire.decode_stream(frame)
            if isinstance(frame, SystemFrame):
                message: object = read_body(self._decoder, frame.body)
                return message
        except RemoteError:
            return None
        return frame

    def remember(self, peer: bytes, message: object) -> None:
        """Keep in mind what can be played again."""
        match message:
            case EventFrame(events=events):
                _keep(self.volatile, events)
            case (
                wire.CarriedEvents(events=events) | wire.Push(events=events) | wire.EventBatch(events=events)
            ):
                _keep(self.durable, events)
            case Introduction(sender) | Gossip(sender=sender):
                if isinstance(sender.card, Card) and len(self.cards) < REMEMBERED:
                    self.cards.setdefault(peer, sender.card)
            case wire.StoreValue(key=key, value=value):
                if len(self.records) < REMEMBERED:
                    self.records.setdefault(key, value)


def carried(signed: SignedEvent) -> CarriedEvent:
    """An event as it travels."""
    return signed.block, signed.signature.to_bytes()


def headers_of(event: CarriedEvent) -> Mapping[str, str | bytes]:
    """The headers of an event; none if it is none."""
    try:
        return decode_event(event[0]).headers
    except RemoteError:
        return NO_HEADERS


def _keep(memory: list[CarriedEvent], events: Sequence[CarriedEvent]) -> None:
    if len(memory) < REMEMBERED:
        memory += events[: REMEMBERED - len(memory)]
