"""Between the messages of streams and of Kademlia and what travels of them: numbers become cards, events
become blocks and signatures, and back."""

from collections.abc import Sequence

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.log.batch_signature import SignedEvent, read_signed_event
from vinecast.core.log.blocks import cid_of
from vinecast.peer.streams import messages as wire
from vinecast.peer.topics import is_topic
from vinecast.peer.wire.codec import Codec
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
    StreamStatus,
    StreamWant,
)


def pack_events(events: Sequence[SignedEvent]) -> tuple[tuple[bytes, bytes], ...]:
    """Events as they travel."""
    return tuple([(signed.block, signed.signature.to_bytes()) for signed in events])


def read_events(events: Sequence[tuple[bytes, bytes]]) -> tuple[SignedEvent, ...]:
    """Events of a peer, as far as their form goes; RemoteError when one of them has none."""
    return tuple([read_signed_event(block, cid_of(block), signature) for block, signature in events])


def pack_stream(message: StreamMessage) -> wire.StreamBody:
    """A message of gap repair as it travels."""
    match message:
        case StreamHeads(told, asks):
            return wire.Heads(tuple([wire.StreamStatusEntry(*one) for one in told]), asks)
        case StreamList(topic, height, cid):
            return wire.ListStream(topic, height, cid)
        case StreamListed(topic, (after_height, after), cids, height):
            return wire.StreamListing(topic, after_height, after, cids, height)
        case StreamWant(topic, cids):
            return wire.WantEvents(topic, cids)
        case StreamEvents(topic, events, missing):
            return wire.EventBatch(topic, pack_events(events), missing)
        case StreamPush(topic, events):
            return wire.Push(topic, pack_events(events))
        case StreamAck(cids):
            return wire.HolderAck(cids)


def read_stream(frame: wire.StreamBody) -> StreamMessage:
    """A message of gap repair from a peer; RemoteError when no honest peer would send it."""
    match frame:
        case wire.Heads(told, asks):
            return StreamHeads(tuple([_told(one) for one in told]), asks)
        case wire.ListStream(topic, height, cid):
            return StreamList(_topic(topic), height, cid)
        case wire.StreamListing(topic, after_height, after, cids, height):
            return StreamListed(_topic(topic), (after_height, after), cids, height)
        case wire.WantEvents(topic, cids):
            return StreamWant(_topic(topic), cids)
        case wire.EventBatch(topic, events, missing):
            return StreamEvents(_topic(topic), read_events(events), missing)
        case wire.Push(topic, events):
            return StreamPush(_topic(topic), read_events(events))
        case wire.HolderAck(cids):
            return StreamAck(cids)


def _told(told: wire.StreamStatusEntry) -> StreamStatus:
    return StreamStatus(_topic(told.topic), told.heads, told.height, told.floor, told.bottom)


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
                return wire.FindPeers(number, key, want)
            case KademliaAnswer(number, peers, providers, value):
                cards = self._cards.describe(to, peers), self._cards.describe(to, providers)
                return wire.FindAnswer(number, *cards, value)
            case KademliaStore(number, key, value, left_us):
                return wire.StoreValue(number, key, value, left_us)
            case KademliaProvide(number, key):
                return wire.ProvideKey(number, key)
            case KademliaStored(number, taken):
                return wire.ValueStored(number, taken)
        return wire.TableGoodbye()

    def read(self, peer: bytes, frame: wire.TableFrame) -> Message:
        """A message of a peer; for the machine, at once: nothing holds the numbers in it but that."""
        match frame:
            case wire.Ping(number):
                return KademliaPing(number)
            case wire.Pong(number):
                return KademliaPong(number)
            case wire.FindPeers(number, key, want):
                return KademliaFind(number, key, want)
            case wire.FindAnswer(number, peers, providers, value):
                met = self._cards.meet(peer, peers), self._cards.meet(peer, providers)
                return KademliaAnswer(number, *met, value)
            case wire.StoreValue(number, key, value, left_us):
                return KademliaStore(number, key, value, left_us)
            case wire.ProvideKey(number, key):
                return KademliaProvide(number, key)
            case wire.ValueStored(number, taken):
                return KademliaStored(number, taken)
            case wire.TableGoodbye():
                return KademliaGoodbye()
