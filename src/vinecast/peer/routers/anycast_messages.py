"""What nodes say to each other about filters and searches: messages inside a frame ``SystemFrame``
(peer/wire/messages).

Topics and walks are 64-bit words, so that whoever passes a search on need not know the topic's name. Only an
answer names a peer, by its card. Everything that comes in is bounded and typed here, as in
``peer/wire/messages``.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.wire.codec import Codec
from vinecast.peer.wire.messages import Entry, SystemFrame, Version, encode
from vinecast.protocols.directed_walk import Walk
from vinecast.protocols.gravity import GravityAsk, GravityLeave, GravityRefuse, GravityUpdate
from vinecast.systems.common.anycast import AnycastConfig, AnycastFound, AnycastSeek

CONFIG = AnycastConfig(on=True)
"""The same on every node: filters of another size cannot be read."""
HOME_BYTES_MAX = CONFIG.gravity.filter_bytes * CONFIG.gravity.depth
AROUND = 4 + 22
"""Bytes around every frame: its length and kind, and what TLS 1.3 adds to a record."""
NEGATIVE_BYTES_MAX = 8 * CONFIG.walk.negatives

Word = Annotated[int, Meta(ge=0)]
"""MessagePack has none of more than 64 bits."""


class Home(Struct, array_like=True, frozen=True, tag=0):
    """The sender's home, or what has changed of it."""

    version: Version
    base: Version
    data: Annotated[bytes, Meta(max_length=HOME_BYTES_MAX)]


class AskHome(Struct, array_like=True, frozen=True, tag=1):
    """All of it, please."""


class RefuseHome(Struct, array_like=True, frozen=True, tag=2):
    """There is no room for another neighbour."""


class LeaveHome(Struct, array_like=True, frozen=True, tag=3):
    """We are neighbours no longer."""


class SeekSubscriber(Struct, array_like=True, frozen=True, tag=4):
    """A walk in search of a subscriber."""

    item: Word
    negative: Annotated[bytes, Meta(max_length=NEGATIVE_BYTES_MAX)]
    ttl: Annotated[int, Meta(ge=0, le=1000)]
    level: Annotated[int, Meta(ge=-1, le=CONFIG.gravity.depth)]
    number: Word


class FoundSubscriber(Struct, array_like=True, frozen=True, tag=5):
    """Who subscribes."""

    number: Word
    peer: Entry


AnycastFrame = Home | AskHome | RefuseHome | LeaveHome | SeekSubscriber | FoundSubscriber

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnycastFrame)


def encode_own(inner: AnycastFrame) -> bytes:
    """The bytes of a frame with this message in it."""
    return encode(SystemFrame(Raw(_encoder.encode(inner))))


def upkeep_bytes(message: Message) -> int:
    """What a message costs that keeps filters up, frame and all; 0 for any other."""
    if not isinstance(message, GravityUpdate):
        return 0
    return AROUND + len(encode_own(Home(message.version, message.base, message.data)))


def decode_own(frame: SystemFrame) -> AnycastFrame:
    """The message in a frame of a peer."""
    try:
        inner: AnycastFrame = _decoder.decode(frame.body)
        return inner
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteError(f"malformed message ({type(error).__name__})") from None


def pack(cards: Codec, to: bytes, message: Message) -> AnycastFrame:
    """A message for a peer. Whom it names has a card: it was met just now, or is the node itself."""
    match message:
        case GravityUpdate(version, base, data):
            return Home(version, base, data)
        case GravityAsk():
            return AskHome()
        case GravityRefuse():
            return RefuseHome()
        case GravityLeave():
            return LeaveHome()
        case AnycastSeek(item, walk):
            return SeekSubscriber(item, walk.negative, walk.ttl, walk.level, walk.number)
        case AnycastFound(number, peer):
            (entry,) = cards.describe(to, (peer,))
            return FoundSubscriber(number, entry)
    raise TypeError(f"no message of searches: {message!r}")


def read(cards: Codec, peer: bytes, frame: AnycastFrame) -> Message:
    """A message of a peer, for the machine, at once."""
    match frame:
        case Home(version, base, data):
            return GravityUpdate(version, base, data)
        case AskHome():
            return GravityAsk()
        case RefuseHome():
            return GravityRefuse()
        case LeaveHome():
            return GravityLeave()
        case SeekSubscriber(item, negative, ttl, level, number):
            return AnycastSeek(item, Walk(negative, ttl, level, number))
        case FoundSubscriber(number, entry):
            met = cards.meet(peer, (entry,))
            if not met:
                raise BenignRefusal("an answer about somebody who cannot be met")
            return AnycastFound(number, met[0])
