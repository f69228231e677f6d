"""Nonsense: frames of every kind with absurd values in them, made from the types that bound them.

Most values are at the ends of what is allowed, so that frames are read and their contents looked at; now and
then one is just outside. A kind of frame that is added to a system, or to streams, is covered without a word
here.
"""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Raw, Struct, structs

from vinecast.peer.outputs import SendFrame
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import (
    EventFrame,
    Gossip,
    Introduction,
    Leaving,
    StreamFrame,
    SystemFrame,
    encode,
)
from vinecast.sim.peers.lies.liar import FRAME_BYTES_MAX, STATUS_FRAMES, Liar, carried
from vinecast.sim.peers.lies.lie import UNPROVED, Lie, breaking
from vinecast.systems.common.wire import VERSION_MAX, Card
from vinecast.systems.registry import live_system

NAMES = ("a", "a//b", "", "#", "+", "\0", "\x1b[2J", "\U0001f347" * 63, "x" * 255, "x" * 256)
ADDRESSES = ("", "127.0.0.1:9", "[::1]:9", "0.0.0.0:0", "a:99999", ":", "\n:1", "x" * 300)
PLAIN: tuple[type[Struct], ...] = (Gossip, EventFrame, Leaving, Introduction)
INNER: tuple[type[Struct], ...] = get_args(wire.Inner)
KIND_CHARS = 40
"""Of the names of kinds of gossip, by their bound in ``Gossip``."""
WRONG_ONE_IN = 16
"""A value is outside of its bounds once in so many times (ours)."""
LARGE_ONE_IN = 8
"""A list or some bytes are as large as they may be once in so many times (ours)."""
LARGE = 260
"""Items of a list that is too long, where its bound is far (ours)."""
NOTHING = b"\xc0"
"""What a system without frames of its own may take for one."""
WORD_MAX = 2**64 - 1
"""MessagePack has no larger number."""


def babble(me: Liar) -> None:
    """Frames of every kind in which nothing makes sense: ages, versions, names, numbers and long lists."""
    row = me.setup.config.row
    own = (*STATUS_FRAMES.get(row, ()), *(spec.frame for spec in live_system(row).messages))
    match me.draw(3):
        case 0:
            frame = _bytes_of(make(me, me.pick(PLAIN)))
        case 1:
            frame = encode(StreamFrame(Raw(_bytes_of(make(me, me.pick(INNER))))))
        case _ if own:
            frame = encode(SystemFrame(Raw(_bytes_of(make(me, me.pick(own))))))
        case _:
            frame = encode(SystemFrame(Raw(me.pick((NOTHING, me.noise(9))))))
    if len(frame) <= FRAME_BYTES_MAX:
        me.say(me.victim(), frame)


_bytes_of = msgspec.msgpack.Encoder().encode


def mangle(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Frames of the peer inside that are cut short, have something after their end, or a bit that flipped."""
    frame = bytearray(output.frame)
    at = me.draw(len(frame))
    match me.draw(12):
        case 0:
            del frame[at:]
        case 1:
            frame += me.noise(9)
        case 2:
            frame[at] ^= 1 << me.draw(8)
        case _:
            return [output]
    return [SendFrame(output.peer, output.address, bytes(frame), output.things)]


def make(me: Liar, frame: type[Struct]) -> Struct:
    """A frame of a type, with anything in it."""
    return frame(*(value_of(me, field.type) for field in structs.fields(frame)))


def value_of(me: Liar, kind: Any, bounds: Meta | None = None) -> Any:
    """A value of a type, mostly within its bounds."""
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *notes = get_args(kind)
        return value_of(me, inner, next((note for note in notes if isinstance(note, Meta)), None))
    if origin in (Union, UnionType):
        return value_of(me, me.pick(get_args(kind)))
    if origin is tuple:
        return _items(me, get_args(kind), bounds or Meta())
    if kind is Card:
        return _card(me)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return make(me, kind)
    return _plain(me, kind, bounds or Meta())


def _is_wrong(me: Liar) -> bool:
    return not me.draw(WRONG_ONE_IN)


def _size(me: Liar, bounds: Meta, most: int) -> int:
    """How many of something."""
    low, high = bounds.min_length or 0, most if bounds.max_length is None else bounds.max_length
    if _is_wrong(me):
        return high + 1 if high < most else max(0, low - 1)
    if not me.draw(LARGE_ONE_IN):
        return min(high, most)
    return max(low, min(high, me.draw(4)))


def _items(me: Liar, kinds: tuple[Any, ...], bounds: Meta) -> tuple[Any, ...]:
    if kinds[-1:] != (Ellipsis,):
        if kinds == (bytes, bytes) and me.draw(2):
            return carried(me.sign_event(me.topic(), me.draw(2)))
        return tuple(value_of(me, kind) for kind in kinds)
    size = _size(me, bounds, LARGE)
    if size > 4:
        return (value_of(me, kinds[0]),) * size
    return tuple(value_of(me, kinds[0]) for _ in range(size))


def _card(me: Liar) -> Card:
    """A card that is true, of somebody that there is or not; or one of its own with odd things in it."""
    others = [card for card in map(me.card_of, me.others()) if card is not None]
    if me.draw(4):
        return me.pick([me.card, *others, *me.invented(2)])
    if _is_wrong(me):
        return Card(me.noise(32), me.pick(ADDRESSES), me.draw(9), (me.pick(NAMES),), me.noise(64))
    who, version = me.setup.identity, me.pick((0, 1, me.card.version, VERSION_MAX))
    return me.sign_card(who, me.pick(ADDRESSES), version, [me.pick(NAMES) for _ in range(me.draw(3))])


def _plain(me: Liar, kind: Any, bounds: Meta) -> Any:
    if kind is bool:
        return bool(me.draw(2))
    if kind is int:
        low, high = int(bounds.ge or 0), WORD_MAX if bounds.le is None else int(bounds.le)
        if bounds.lt is not None:
            high = int(bounds.lt) - 1
        if _is_wrong(me):
            return me.pick((low - 1, min(high + 1, WORD_MAX)))
        return me.pick((low, min(low + 1, high), (low + high) // 2, max(low, high - 1), high))
    if kind is str and bounds.max_length == KIND_CHARS:
        kinds = [message.kind for message in live_system(me.setup.config.row).gossip]
        return me.pick([*kinds, "poldercast.event", "", "x" * (KIND_CHARS + 1)])
    if kind is str:
        return me.topic() if me.draw(3) else me.pick(NAMES)
    return me.noise(_size(me, bounds, 8192))


NONSENSE_LIES: dict[str, Lie] = {
    "absurd values": Lie(babble, breaks=breaking("L")),  # cards of invented peers are among them
    "mangled frames": Lie(says=mangle, breaks=UNPROVED),
}
