"""Vinifera on a live node: filters are asked for along the circle, and events go to those who asked.

A topic is a filter like others: who subscribes to it asks the owner of the topic's place, which is the
highest bits of the key that its replicas are found by. An event of a topic goes there; an event of a schema
goes besides to the owners of its value of each attribute, and from each of them to whoever asked for what it
is. Nodes on these ways need not subscribe to the topic, nor know the schema (``peer/content/names``).
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial

from vinecast.core.content.schemas import ATTRIBUTES_MAX
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.machine import NOBODY
from vinecast.peer.config import PATIENCE_PERIODS, PeerConfig
from vinecast.peer.content.names import read_places
from vinecast.peer.content.requests import FilterTable
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.routers import vinifera_messages as wire
from vinecast.peer.routers.router import NOT_TOLD, Router, RouterHost
from vinecast.peer.routers.tman import TManRouter, scratch_for, topic_place
from vinecast.peer.routers.vinifera_codec import ViniferaCodec
from vinecast.peer.table.peer_table import ME, PeerTable
from vinecast.peer.table.relayed_topics import RelayedTopics
from vinecast.peer.wire.messages import SystemFrame
from vinecast.protocols.content_table import ContentRequest, WantedRange
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.load_balance import ShiftAsk, ShiftGrant
from vinecast.protocols.tman import TManConfig
from vinecast.systems.durable.carriers import over_content
from vinecast.systems.vinifera.catalogue import CIRCLE, ContentShared
from vinecast.systems.vinifera.events import ContentEvent
from vinecast.systems.vinifera.machine import Vinifera, ViniferaConfig

ATTRIBUTES = 16
"""Attributes that count in the choice of friends, of all schemas together (ours); those beyond are only
routed by."""
ASKED_SHARE = 4
"""One peer can ask for a part of a range for one in so many of the filters that a node can know, in a cycle
(ours)."""
NO_ROOM = "refused: no room for a filter"


def vinifera_config(config: PeerConfig) -> ViniferaConfig:
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


def make(config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost) -> Router:
    """See ``make_router``."""
    return ViniferaRouter(config, seed, network, peer_table, host)


class ContentEncoding:
    """See ``Ways``: by which attribute an event is routed, the topic first, and whether it is on its way
    up."""

    count = 2 * (1 + ATTRIBUTES_MAX)

    def form_of(self, message: Message) -> int | None:
        """See ``Ways``."""
        if isinstance(message, ContentEvent):
            return 2 * message.attribute + message.up
        return None

    def read(self, form: int, topic: int, signed: SignedEvent, hops: int) -> ContentEvent:
        """See ``Ways``."""
        digest, places = read_places(signed.record)
        if form // 2 > len(places):
            raise RemoteError("event routed by an attribute that it does not have")
        return ContentEvent(topic, signed.number, hops, (digest, *places), form // 2, bool(form % 2))


class ViniferaRouter(TManRouter):
    """See ``Router``."""

    pulls = False

    def __init__(
        self, config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost
    ) -> None:
        own, profiles = vinifera_config(config), peer_table.profiles
        peer_table.has_filters = True
        place_of = partial(topic_place, network)
        filters = FilterTable(peer_table.topics, place_of, host.when_compiled)
        self._shared = shared = ContentShared(profiles, filters, ATTRIBUTES)
        self.machine = machine = Vinifera(
            own, seed, ME, profiles, scratch_for(own, profiles, host.scratch), shared
        )
        super().__init__(
            peer_table, host, machine, RelayedTopics(peer_table.topics, machine.requests.asks_for)
        )
        self.carrier = over_content(machine, self._publish)
        self.event_encoding = ContentEncoding()
        self._vinifera_codec = ViniferaCodec(self.codec, peer_table, shared, filters, self._topics.number_of)
        self._asked: Counter[bytes] = Counter()
        """Who asked in this cycle → for how many parts of ranges"""
        self._asked_max = max(config.topics // ASKED_SHARE, wire.ROWS_MAX)

    # Peers.

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``Router``: any neighbour may be next on one of an event's ways."""
        return peer in self.machine.neighbours()

    # Topics and filters.

    def is_alone(self, topic: int) -> bool:
        """See ``Router``: while nobody at all is known. Who publishes need not subscribe, and filters are
        mostly one node's own."""
        return self.knows_nobody() and not self.machine.neighbours()

    def neighbours(self, topic: int) -> tuple[int, int]:
        """Two of the subscribers that it knows."""
        found = [*self.machine.interested(topic), NOBODY, NOBODY]
        return found[0], found[1]

    def begin(self, timer: str) -> None:
        """See ``Router``."""
        super().begin(timer)
        if timer == self.first_timer:
            self._asked.clear()
            self._step_aside()

    def _step_aside(self) -> None:
        """No two nodes may be at one place: the one with the higher id takes the next."""
        place, id_of = self._peer_table.profiles.place, self._peer_table.id_of
        here = [peer for peer in self.machine.neighbours() if place[peer] == place[ME]]
        if any(id_of(peer) < id_of(ME) for peer in here):
            place[ME] = (int(place[ME]) + 1) % CIRCLE

    # Events.

    def has_seen(self, event: int) -> bool:
        """See ``Router``: copies of an event come by each of its attributes."""
        return False

    def may_come_again(self, topic: int, event: int) -> bool:
        """See ``Router``."""
        return self.machine.has_seen(event)

    def take_topic(self, name: str, form: int, event: int) -> int | None:
        """See ``Router``: any, since nodes pass on what they do not subscribe to; if there is no room for
        one more, its sender could not know."""
        number = self._topics.number_of(name)
        if number is None:
            raise BenignRefusal("no room for a topic")
        return number

    def _publish(self, signed: SignedEvent) -> None:
        digest, places = read_places(signed.record)
        self._shared.contents[signed.number] = (digest, *places)

    def release(self) -> Mapping[int, int]:
        """See ``Router``."""
        self._shared.contents.clear()
        self._topics.release()
        return NOT_TOLD

    # Messages.

    def send_later(self, to: int, message: Message) -> bool:
        """See ``Router``: requests are cut to fit into frames, and go at once."""
        if not isinstance(message, ContentRequest):
            return False
        for asked in self._vinifera_codec.pack_wanted(message.wanted):
            self._host.send_frame(to, wire.encode_own(wire.FilterRequest(asked)), len(asked.names))
        return True

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``Router``."""
        match message:
            case ShiftAsk(place, load):
                return wire.encode_own(wire.MayMove(place, load))
            case ShiftGrant(place, load, wanted):
                # What one frame has no room for is asked for again in the next cycle.
                handed = self._vinifera_codec.pack_wanted(WantedRange(*one) for one in wanted)
                asked = next(handed, wire.Asked((), b""))
                return wire.encode_own(wire.Move(place, load, asked))
        return wire.encode_own(self._vinifera_codec.pack(to, message))

    def take(self, peer: bytes, frame: SystemFrame) -> None:
        """See ``Router``."""
        inner = wire.decode_own(frame)
        try:
            if isinstance(inner, wire.ViniferaExchange | wire.ViniferaProfile):
                self._take_gossip(peer, inner)
                return
            sender = self._peer_table.number_of(peer)
            if sender == NOBODY:
                raise BenignRefusal("sender without a card")
            self._rate_limit.note(peer, self._host.now_us())
            match inner:
                case wire.FilterRequest(asked):
                    self._host.handle(Received(sender, ContentRequest(self._read(peer, asked))))
                case wire.MayMove(place, load):
                    self._host.handle(Received(sender, ShiftAsk(place, load)))
                case wire.Move(place, load, asked):
                    self._host.handle(Received(sender, ShiftGrant(place, load, self._read(peer, asked))))
        finally:
            self.release()

    def _take_gossip(self, peer: bytes, frame: wire.ViniferaExchange | wire.ViniferaProfile) -> None:
        self._host.hear(peer)
        is_echo = isinstance(frame, wire.ViniferaProfile) and frame.is_answer
        self._hear(*self._vinifera_codec.read(peer, frame), is_echo)

    def _read(self, peer: bytes, asked: wire.Asked) -> tuple[WantedRange, ...]:
        wanted, refused = self._vinifera_codec.read_wanted(asked, self._asked_max - self._asked[peer])
        self._asked[peer] += len(wanted)
        if refused:
            self._host.counters[NO_ROOM] += refused
        return tuple(wanted)
