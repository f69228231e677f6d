"""Between the messages of streams and what travels of them: events become blocks and signatures, and back;
and the frames of Kademlia's messages."""

from collections.abc import Sequence

from vinecast.core.log.batch_signature import SignedEvent, read_signed_event
from vinecast.core.log.blocks import ContentId, cid_of
from vinecast.peer.codecs.frame_codec import checked_topic
from vinecast.peer.streams import messages as wire
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
from vinecast.systems.common.wire import FrameSpec


def pack_events(events: Sequence[SignedEvent]) -> tuple[tuple[bytes, bytes], ...]:
    """Events as they travel."""
    return tuple([(signed.block, signed.signature.to_bytes()) for signed in events])


def read_events(events: Sequence[tuple[bytes, bytes]], cid_of: ContentId = cid_of) -> tuple[SignedEvent, ...]:
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


def read_stream(frame: wire.StreamBody, cid_of: ContentId = cid_of) -> StreamMessage:
    """A message of gap repair from a peer; RemoteError when no honest peer would send it."""
    match frame:
        case wire.Heads(told, asks):
            return StreamHeads(tuple([_told(one) for one in told]), asks)
        case wire.ListStream(topic, height, cid):
            return StreamList(checked_topic(topic), height, cid)
        case wire.StreamListing(topic, after_height, after, cids, height):
            return StreamListed(checked_topic(topic), (after_height, after), cids, height)
        case wire.WantEvents(topic, cids):
            return StreamWant(checked_topic(topic), cids)
        case wire.EventBatch(topic, events, missing):
            return StreamEvents(checked_topic(topic), read_events(events, cid_of), missing)
        case wire.Push(topic, events):
            return StreamPush(checked_topic(topic), read_events(events, cid_of))
        case wire.HolderAck(cids):
            return StreamAck(cids)


def _told(told: wire.StreamStatusEntry) -> StreamStatus:
    return StreamStatus(checked_topic(told.topic), told.heads, told.height, told.floor, told.bottom)


TABLE_FRAME_SPECS = (
    FrameSpec(KademliaPing, wire.Ping),
    FrameSpec(KademliaPong, wire.Pong),
    FrameSpec(KademliaFind, wire.FindPeers),
    FrameSpec(KademliaAnswer, wire.FindAnswer),
    FrameSpec(KademliaStore, wire.StoreValue),
    FrameSpec(KademliaProvide, wire.ProvideKey),
    FrameSpec(KademliaStored, wire.ValueStored),
    FrameSpec(KademliaGoodbye, wire.TableGoodbye),
)
"""How Kademlia's messages travel."""
