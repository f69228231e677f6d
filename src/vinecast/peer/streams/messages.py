"""What nodes say to each other about streams, and in Kademlia: messages inside a frame ``StreamFrame``
(peer/wire/messages).

Everything that comes in is bounded and typed here, as in ``peer/wire/messages``; what it means is checked by
the machines.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from vinecast.core.log.batch_signature import BATCH_SIGNATURE_BYTES_MAX
from vinecast.core.log.blocks import CID_BYTES
from vinecast.core.log.descriptor import DESCRIPTOR_BYTES_MAX
from vinecast.core.log.event_record import BLOCK_BYTES_MAX, NUMBER_MAX
from vinecast.core.log.name_record import NAME_BYTES_MAX
from vinecast.peer.wire.messages import EVENTS_MAX, Form, StreamFrame, body_of, encode, read_body
from vinecast.protocols.kademlia import KEY_BYTES
from vinecast.systems.common.wire import Entries, Hops, Topic

CIDS_MAX = 4096
"""Content ids in one message (ours)."""
BATCH_MAX = 1024
"""Events in one answer (ours)."""
TOLD_MAX, HEADS_MAX = 64, 64
VALUE_BYTES_MAX = max(DESCRIPTOR_BYTES_MAX, NAME_BYTES_MAX)
"""Of a value in Kademlia's storage: topic descriptors and name records."""
LEFT_US_MAX = 366 * 86_400 * 1_000_000
"""The longest that a value is asked to be kept."""

Cid = Annotated[bytes, Meta(min_length=CID_BYTES, max_length=CID_BYTES)]
Cids = Annotated[tuple[Cid, ...], Meta(max_length=CIDS_MAX)]
After = Annotated[bytes, Meta(max_length=CID_BYTES)]
Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Value = Annotated[bytes, Meta(max_length=VALUE_BYTES_MAX)]
Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Want = Annotated[int, Meta(ge=0, le=2)]
Block = Annotated[bytes, Meta(max_length=BLOCK_BYTES_MAX)]
SignatureBytes = Annotated[bytes, Meta(max_length=BATCH_SIGNATURE_BYTES_MAX)]
Events = Annotated[tuple[tuple[Block, SignatureBytes], ...], Meta(max_length=BATCH_MAX)]


class CarriedEvents(Struct, array_like=True, frozen=True, tag=0):
    """Events of streams on their way, as ``EventFrame`` has others. ``ack``: the sender published them, and
    wants to know when they are safe."""

    hops: Hops
    ack: bool
    events: Annotated[tuple[tuple[Block, SignatureBytes], ...], Meta(min_length=1, max_length=EVENTS_MAX)]
    form: Form = 0


class StreamStatusEntry(Struct, array_like=True, frozen=True):
    """How far the sender has come in one stream."""

    topic: Topic
    heads: Annotated[tuple[Cid, ...], Meta(max_length=HEADS_MAX)]
    height: Number
    floor: Number
    bottom: Number


class Heads(Struct, array_like=True, frozen=True, tag=1):
    """How far the sender has come in some streams."""

    told: Annotated[tuple[StreamStatusEntry, ...], Meta(max_length=TOLD_MAX)]
    asks: Want


class ListStream(Struct, array_like=True, frozen=True, tag=2):
    """Asks which events of a stream come after a place."""

    topic: Topic
    height: Number
    cid: After


class StreamListing(Struct, array_like=True, frozen=True, tag=3):
    """Answers ``ListStream``: the events after that place, by content id."""

    topic: Topic
    after_height: Number
    after: After
    cids: Cids
    height: Number


class WantEvents(Struct, array_like=True, frozen=True, tag=4):
    """Asks for events by content id."""

    topic: Topic
    cids: Cids


class EventBatch(Struct, array_like=True, frozen=True, tag=5):
    """Answers ``WantEvents``: events, and which are missing here."""

    topic: Topic
    events: Events
    missing: Cids


class Push(Struct, array_like=True, frozen=True, tag=6):
    """Events that the receiver is to keep as a replica."""

    topic: Topic
    events: Events


class HolderAck(Struct, array_like=True, frozen=True, tag=7):
    """Tells a publisher that events are safe here."""

    cids: Cids


class Ping(Struct, array_like=True, frozen=True, tag=8):
    """Kademlia: asks whether the receiver is there."""

    number: Number


class Pong(Struct, array_like=True, frozen=True, tag=9):
    """Kademlia: answers ``Ping``."""

    number: Number


class FindPeers(Struct, array_like=True, frozen=True, tag=10):
    """Whom do you know near this key?"""

    number: Number
    key: Key
    want: Want


class FindAnswer(Struct, array_like=True, frozen=True, tag=11):
    """These peers, these providers and this value."""

    number: Number
    peers: Entries
    providers: Entries
    value: Value


class StoreValue(Struct, array_like=True, frozen=True, tag=12):
    """Kademlia: a value for the receiver to keep."""

    number: Number
    key: Key
    value: Value
    left_us: Annotated[int, Meta(ge=0, le=LEFT_US_MAX)]


class ProvideKey(Struct, array_like=True, frozen=True, tag=13):
    """The sender has what belongs to this key."""

    number: Number
    key: Key


class ValueStored(Struct, array_like=True, frozen=True, tag=14):
    """Kademlia: whether a value is kept."""

    number: Number
    taken: bool


class TableGoodbye(Struct, array_like=True, frozen=True, tag=15):
    """The sender leaves Kademlia in good order."""


StreamBody = Heads | ListStream | StreamListing | WantEvents | EventBatch | Push | HolderAck
TableFrame = Ping | Pong | FindPeers | FindAnswer | StoreValue | ProvideKey | ValueStored | TableGoodbye
Inner = CarriedEvents | StreamBody | TableFrame
TABLE_FRAMES = (Ping, Pong, FindPeers, FindAnswer, StoreValue, ProvideKey, ValueStored, TableGoodbye)

_decoder: msgspec.msgpack.Decoder[Inner] = msgspec.msgpack.Decoder(Inner)


def encode_stream(inner: Inner) -> bytes:
    """The bytes of a frame with this message in it."""
    return encode(StreamFrame(body_of(inner)))


def decode_stream(frame: StreamFrame) -> Inner:
    """The message in a frame of a peer."""
    return read_body(_decoder, frame.body)
