"""Between the messages of streams and of Kademlia and what travels of them: numbers become cards, events
become blocks and seals, and back."""

from collections.abc import Sequence

from vinecast.core.blocks import cid_of
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.seals import Sealed, read_sealed
from vinecast.node import streams_wire as wire
from vinecast.node.codec import Codec
from vinecast.node.topics import is_topic
from vinecast.protocols.kademlia import (
    KademliaAnswer,
    KademliaFind,
    KademliaGoodbye,
    KademliaPing,
    KademliaPong,
    KademliaProvide,
    KademliaStore,
    KademliaStored,
)
from vinecast.protocols.streams import (
    StreamAck,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamMessage,
    StreamPush,
    StreamWant,
    Told,
)


def pack_events(events: Sequence[Sealed]) -> tuple[tuple[bytes, bytes], ...]:
    """Events as they travel."""
    return tuple([(sealed.block, sealed.seal.to_bytes()) for sealed in events])


def read_events(events: Sequence[tuple[bytes, bytes]]) -> tuple[Sealed, ...]:
    """Events of a peer, as far as their form goes; RemoteError when one of them has none."""
    return tuple([read_sealed(block, cid_of(block), seal) for block, seal in events])


def pack_stream(message: StreamMessage) -> wire.StreamFrame:
    """A message of gap repair as it travels."""
    match message:
        case StreamHeads(told, asks):
            return wire.Heads(tuple([wire.ToldOf(*one) for one in told]), asks)
        case StreamList(topic, height, cid):
            return wire.List(topic, height, cid)
        case StreamListed(topic, (after_height, after), cids, height):
            return wire.Listed(topic, after_height, after, cids, height)
        case StreamWant(topic, cids):
            return wire.Wanted(topic, cids)
        case StreamEvents(topic, events, missing):
            return wire.Batch(topic, pack_events(events), missing)
        case StreamPush(topic, events):
            return wire.Push(topic, pack_events(events))
        case StreamAck(cids):
            return wire.Ack(cids)


def read_stream(frame: wire.StreamFrame) -> StreamMessage:
    """A message of gap repair from a peer; RemoteError when no honest peer would send it."""
    match frame:
        case wire.Heads(told, asks):
            return StreamHeads(tuple([_told(one) for one in told]), asks)
        case wire.List(topic, height, cid):
            return StreamList(_topic(topic), height, cid)
        case wire.Listed(topic, after_height, after, cids, height):
            return StreamListed(_topic(topic), (after_height, after), cids, height)
        case wire.Wanted(topic, cids):
            return StreamWant(_topic(topic), cids)
        case wire.Batch(topic, events, missing):
            return StreamEvents(_topic(topic), read_events(events), missing)
        case wire.Push(topic, events):
            return StreamPush(_topic(topic), read_events(events))
        case wire.Ack(cids):
            return StreamAck(cids)


def _told(told: wire.ToldOf) -> Told:
    return Told(_topic(told.topic), told.heads, told.height, told.floor, told.bottom)


def _topic(name: str) -> str:
    if not is_topic(name):
        raise RemoteError("message about an impossible topic")
    return name


class TableCodec:
    """Kademlia's messages. ``cards`` turns numbers into cards and back."""

    def __init__(self, cards: Codec) -> None:
        self._cards = cards

    def pack(self, to: bytes, message: Message) -> wire.TableFrame:
        """A message for a peer."""
        match message:
            case KademliaPing(number):
                return wire.Ping(number)
            case KademliaPong(number):
                return wire.Pong(number)
            case KademliaFind(number, key, want):
                return wire.Find(number, key, want)
            case KademliaAnswer(number, peers, providers, value):
                cards = self._cards.describe(to, peers), self._cards.describe(to, providers)
                return wire.Answer(number, *cards, value)
            case KademliaStore(number, key, value, left_us):
                return wire.Store(number, key, value, left_us)
            case KademliaProvide(number, key):
                return wire.Provide(number, key)
            case KademliaStored(number, taken):
                return wire.Stored(number, taken)
        return wire.Goodbye()

    def read(self, peer: bytes, frame: wire.TableFrame) -> Message:
        """A message of a peer; for the machine, at once: nothing holds the numbers in it but that."""
        match frame:
            case wire.Ping(number):
                return KademliaPing(number)
            case wire.Pong(number):
                return KademliaPong(number)
            case wire.Find(number, key, want):
                return KademliaFind(number, key, want)
            case wire.Answer(number, peers, providers, value):
                met = self._cards.meet(peer, peers), self._cards.meet(peer, providers)
                return KademliaAnswer(number, *met, value)
            case wire.Store(number, key, value, left_us):
                return KademliaStore(number, key, value, left_us)
            case wire.Provide(number, key):
                return KademliaProvide(number, key)
            case wire.Stored(number, taken):
                return KademliaStored(number, taken)
            case wire.Goodbye():
                return KademliaGoodbye()
