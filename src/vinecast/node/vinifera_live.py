"""Vinifera on a live node: filters are asked for along the circle, and events go to those who asked.

A topic is a filter like others: who subscribes to it asks the owner of the topic's place, which is the
highest bits of the key that its keepers are found by. An event of a topic goes there; an event of a schema
goes besides to the owners of its value of each attribute, and from each of them to whoever asked for what it
is. Nodes on these ways need not subscribe to the topic, nor know the schema (``node/content_names``).
"""

from collections import Counter
from collections.abc import Mapping

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.machine import NOBODY
from vinecast.core.schemas import ATTRIBUTES_MAX
from vinecast.core.seals import Sealed
from vinecast.node import vinifera_wire as wire
from vinecast.node.carried_topics import CarriedTopics
from vinecast.node.conduct import Misunderstanding
from vinecast.node.config import PATIENCE_PERIODS, NodeConfig
from vinecast.node.content_filters import LiveFilters
from vinecast.node.content_names import read_places
from vinecast.node.peers import ME, PeerBook
from vinecast.node.system_live import NOT_TOLD, Host, LiveSystem
from vinecast.node.tman_live import LiveOnTMan, scratch_for, topic_place
from vinecast.node.vinifera_codec import ViniferaCodec
from vinecast.node.wire import Own
from vinecast.protocols.content_table import ContentRequest, Wanted
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.load_balance import ShiftAsk, ShiftGrant
from vinecast.protocols.tman import TManConfig
from vinecast.systems.durable_carriers import over_content
from vinecast.systems.vinifera import Vinifera, ViniferaConfig
from vinecast.systems.vinifera_catalogue import CIRCLE, ContentShared
from vinecast.systems.vinifera_events import ContentEvent

ATTRIBUTES = 16
"""Attributes that count in the choice of friends, of all schemas together (ours); those beyond are only
routed by."""
ASKED_SHARE = 4
"""One peer can ask for a part of a range for one in so many of the filters that a node can know, in a cycle
(ours)."""
NO_ROOM = "refused: no room for a filter"


def vinifera_config(config: NodeConfig) -> ViniferaConfig:
    """Vinifera's settings on such a node."""
    own = config.vinifera
    return ViniferaConfig(
        remembered=config.remembered,
        remember_s=config.remember_s,
        cyclon=CyclonConfig(period_s=config.period_s),
        tman=TManConfig(table_size=own.table_size, threshold=PATIENCE_PERIODS, period_s=config.period_s),
        long_links=own.long_links,
        beta=own.beta,
        to_friends=own.to_friends,
        requests=own.requests,
    )


def make(config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> LiveSystem:
    """See ``make_system``."""
    return LiveVinifera(config, seed, network, book, host)


class ContentWays:
    """See ``Ways``: by which attribute an event is routed, the topic first, and whether it is on its way
    up."""

    count = 2 * (1 + ATTRIBUTES_MAX)

    def way_of(self, message: Message) -> int | None:
        """See ``Ways``."""
        if isinstance(message, ContentEvent):
            return 2 * message.attribute + message.up
        return None

    def read(self, way: int, topic: int, sealed: Sealed, hops: int) -> ContentEvent:
        """See ``Ways``."""
        digest, places = read_places(sealed.record)
        if way // 2 > len(places):
            raise RemoteError("event routed by an attribute that it does not have")
        return ContentEvent(topic, sealed.number, hops, (digest, *places), way // 2, bool(way % 2))


class LiveVinifera(LiveOnTMan):
    """See ``LiveSystem``."""

    pulls = False

    def __init__(self, config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> None:
        own, profiles = vinifera_config(config), book.profiles
        book.has_filters = True
        filters = LiveFilters(book.topics, lambda topic: topic_place(network, topic))
        self._shared = shared = ContentShared(profiles, filters, ATTRIBUTES)
        self.machine = machine = Vinifera(own, seed, ME, profiles, scratch_for(own, profiles), shared)
        super().__init__(book, host, machine, CarriedTopics(book.topics, machine.requests.asks_for))
        self.carrier = over_content(machine, self._publish)
        self.ways = ContentWays()
        self._vinifera_codec = ViniferaCodec(self.codec, book, shared, filters, self._topics.number_of)
        self._asked: Counter[bytes] = Counter()
        """Who asked in this cycle → for how many parts of ranges"""
        self._asked_max = max(config.topics // ASKED_SHARE, wire.ROWS_MAX)

    # Peers.

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``LiveSystem``: any neighbour may be next on one of an event's ways."""
        return peer in self.machine.neighbours()

    # Topics and filters.

    def is_alone(self, topic: int) -> bool:
        """See ``LiveSystem``: while nobody at all is known. Who publishes need not subscribe, and filters are
        mostly one node's own."""
        return self.knows_nobody() and not self.machine.neighbours()

    def neighbours(self, topic: int) -> tuple[int, int]:
        """Two of the subscribers that it knows."""
        found = [*self.machine.interested(topic), NOBODY, NOBODY]
        return found[0], found[1]

    def begin(self, timer: str) -> None:
        """See ``LiveSystem``."""
        super().begin(timer)
        if timer == self.first_timer:
            self._asked.clear()
            self._step_aside()

    def _step_aside(self) -> None:
        """No two nodes may be at one place: the one with the higher id takes the next."""
        place, id_of = self._book.profiles.place, self._book.id_of
        here = [peer for peer in self.machine.neighbours() if place[peer] == place[ME]]
        if any(id_of(peer) < id_of(ME) for peer in here):
            place[ME] = (int(place[ME]) + 1) % CIRCLE

    # Events.

    def has_seen(self, event: int) -> bool:
        """See ``LiveSystem``: copies of an event come by each of its attributes."""
        return False

    def may_come_again(self, topic: int, event: int) -> bool:
        """See ``LiveSystem``."""
        return self.machine.has_seen(event)

    def take_topic(self, name: str, way: int, event: int) -> int | None:
        """See ``LiveSystem``: any, since nodes pass on what they do not subscribe to; if there is no room for
        one more, its sender could not know."""
        number = self._topics.number_of(name)
        if number is None:
            raise Misunderstanding("no room for a topic")
        return number

    def _publish(self, sealed: Sealed) -> None:
        digest, places = read_places(sealed.record)
        self._shared.contents[sealed.number] = (digest, *places)

    def release(self) -> Mapping[int, int]:
        """See ``LiveSystem``."""
        self._shared.contents.clear()
        self._topics.release()
        return NOT_TOLD

    # Messages.

    def send_later(self, to: int, message: Message) -> bool:
        """See ``LiveSystem``: requests are cut to fit into frames, and go at once."""
        if not isinstance(message, ContentRequest):
            return False
        for asked in self._vinifera_codec.pack_wanted(message.wanted):
            self._host.send_frame(to, wire.encode_own(wire.Request(asked)), len(asked.names))
        return True

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``LiveSystem``."""
        match message:
            case ShiftAsk(place, load):
                return wire.encode_own(wire.MayMove(place, load))
            case ShiftGrant(place, load, wanted):
                # What one frame has no room for is asked for again in the next cycle.
                handed = self._vinifera_codec.pack_wanted(Wanted(*one) for one in wanted)
                asked = next(handed, wire.Asked((), b""))
                return wire.encode_own(wire.Move(place, load, asked))
        return wire.encode_own(self._vinifera_codec.pack(to, message))

    def take(self, peer: bytes, frame: Own) -> None:
        """See ``LiveSystem``."""
        inner = wire.decode_own(frame)
        try:
            if isinstance(inner, wire.Exchange | wire.Profile):
                self._take_gossip(peer, inner)
                return
            sender = self._book.number_of(peer)
            if sender == NOBODY:
                raise Misunderstanding("sender without a card")
            self._questions.note(peer, self._host.now_us())
            match inner:
                case wire.Request(asked):
                    self._host.handle(Received(sender, ContentRequest(self._read(peer, asked))))
                case wire.MayMove(place, load):
                    self._host.handle(Received(sender, ShiftAsk(place, load)))
                case wire.Move(place, load, asked):
                    self._host.handle(Received(sender, ShiftGrant(place, load, self._read(peer, asked))))
        finally:
            self.release()

    def _take_gossip(self, peer: bytes, frame: wire.Exchange | wire.Profile) -> None:
        self._host.hear(peer)
        is_echo = isinstance(frame, wire.Profile) and frame.is_answer
        self._hear(*self._vinifera_codec.read(peer, frame), is_echo)

    def _read(self, peer: bytes, asked: wire.Asked) -> tuple[Wanted, ...]:
        wanted, refused = self._vinifera_codec.read_wanted(asked, self._asked_max - self._asked[peer])
        self._asked[peer] += len(wanted)
        if refused:
            self._host.counters[NO_ROOM] += refused
        return tuple(wanted)
