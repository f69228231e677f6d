"""What nodes say to each other: frames, and how they become bytes.

A frame is MessagePack, an array whose first item says which kind it is. Peers are named by their *card*: who
they are, where they listen and what they subscribe to, signed by themselves, so that nobody can hand on a
false one. Beside it stands what a peer last said about its rings, unsigned, since it changes every cycle.
A card that was sent over a connection before is not sent again: a reference names it.

Everything that comes in is bounded and typed here; what it means is checked by the peer table.
"""

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from vinecast.core.errors import RemoteError
from vinecast.systems.common.wire import Card, Cycle, Entries, Entry, Hops

EVENTS_MAX = 64
"""Events in one frame (ours)."""
FORM_MAX = 127

_CARD_DOMAIN = b"vinecast card 1\0"

Form = Annotated[int, Meta(ge=0, le=FORM_MAX)]
"""Which of its system's messages an event travels in (``systems/common/wire``)."""


class Gossip(Struct, array_like=True, frozen=True, tag=0):
    """A message of one of the gossip layers."""

    kind: Annotated[str, Meta(max_length=40)]
    cycle: Cycle
    sender: Entry
    """The sender as it is now."""
    entries: Entries


class EventFrame(Struct, array_like=True, frozen=True, tag=1):
    """Events on their way, and how far they came: of each its block, and its signature."""

    hops: Hops
    events: Annotated[tuple[tuple[bytes, bytes], ...], Meta(min_length=1, max_length=EVENTS_MAX)]
    form: Form = 0


class Leaving(Struct, array_like=True, frozen=True, tag=2):
    """The sender leaves in good order: nobody needs to find out by its silence."""


class Introduction(Struct, array_like=True, frozen=True, tag=3):
    """The first frame on every connection: the sender as it is now."""

    sender: Entry


class StreamFrame(Struct, array_like=True, frozen=True, tag=4):
    """A message about streams, or of Kademlia: see ``peer/streams/messages``."""

    body: Raw


class SystemFrame(Struct, array_like=True, frozen=True, tag=5):
    """A message of the node's system that is no gossip; its module knows more."""

    body: Raw


T = TypeVar("T")

Frame = Gossip | EventFrame | Leaving | Introduction | StreamFrame | SystemFrame

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    return _encoder.encode(frame)


def decode(data: bytes) -> Frame:
    """The frame of some bytes from a peer."""
    return _read(_decoder, data, "frame")


def system_frame(inner: Struct) -> bytes:
    """The bytes of a frame ``SystemFrame`` with this message in it."""
    return encode(SystemFrame(body_of(inner)))


def body_of(inner: Struct) -> Raw:
    """A message, to go inside a frame."""
    return Raw(_encoder.encode(inner))


def read_body(decoder: "msgspec.msgpack.Decoder[T]", body: Raw) -> T:
    """The message inside a frame of a peer."""
    return _read(decoder, body, "message")


def _read(decoder: "msgspec.msgpack.Decoder[T]", data: bytes | Raw, what: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteError(f"malformed {what} ({type(error).__name__})") from None


def card_text(
    network: str, public: bytes, address: str, version: int, topics: tuple[str, ...], pattern: bytes
) -> bytes:
    """What a card's owner signs."""
    return _CARD_DOMAIN + _encoder.encode((network, public, address, version, topics, pattern))


def make_card(
    sign: Callable[[bytes], bytes],
    network: str,
    public: bytes,
    address: str,
    version: int,
    topics: tuple[str, ...],
    pattern: bytes = b"",
) -> Card:
    """A card of one's own."""
    text = card_text(network, public, address, version, topics, pattern)
    return Card(public, address, version, topics, sign(text), pattern)
