"""The codec of messages: between what machines say and the frames that bound them.

A ``FrameSpec`` says which frame a message has (``systems/common/wire``). Fields are converted by type: topics
by number become names, peers by number become cards, and back; numbers of hops are cut to what fits; a system
may have kinds of fields of its own. All else is the same on both sides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Any, get_args

import msgspec
from msgspec import Struct

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.topics import is_topic
from vinecast.systems.common.wire import HOPS_MAX, Entry, FieldCodec, FrameSpec, Hops, Topic, names_bytes

NAMES_BYTES = 64 * 1024
"""Of all names of topics in one frame of joined messages (ours)."""


def checked_topic(name: str) -> str:
    """A topic's name that a peer sent; RemoteError when it cannot be one."""
    if not is_topic(name):
        raise RemoteError("message about an impossible topic")
    return name


def decoder_of(frames: Sequence[type[Struct]]) -> "msgspec.msgpack.Decoder[Any]":
    """Reads one of these."""
    return msgspec.msgpack.Decoder(reduce(or_, frames)) if frames else msgspec.msgpack.Decoder(None)


Convert = Callable[[bytes, Any], Any]
"""(peer, value) -> the value on the other side."""


class FrameCodec:
    """One node's, for some specs. ``cards`` turns numbers of peers into cards and back; ``name_of`` and
    ``number_of`` do so for topics: a number is None when there is no room for one more."""

    def __init__(
        self,
        specs: Sequence[FrameSpec],
        cards: Codec,
        name_of: Callable[[int], str] = str,
        number_of: Callable[[str], int | None] = lambda name: None,
        fields: Mapping[type[Any], FieldCodec] | None = None,
    ) -> None:
        self.of_message = {spec.message: spec for spec in specs}
        self.of_frame = {spec.frame: spec for spec in specs}
        self._cards, self._name_of, self._number_of = cards, name_of, number_of
        self._fields = fields or {}
        self._kinds = {
            spec.frame: [(name, *self._kind(kind)) for name, kind in _fields(spec.frame)] for spec in specs
        }

    def _kind(self, kind: Any) -> tuple[Convert | None, Convert | None]:
        """How a field of a type is packed and read; None where it is the same on both sides."""
        if kind == Hops:
            return lambda to, hops: min(hops, HOPS_MAX), None
        if kind == Topic:
            return lambda to, topic: self._name_of(topic), lambda peer, name: self._number(name)
        if kind is Entry:
            return self._pack_peer, self._read_peer
        inner = _each(kind)
        if inner == Topic:
            pack = self._name_of
            return lambda to, topics: tuple([pack(topic) for topic in topics]), self._read_topics
        if inner is Entry:
            return self._cards.describe, self._cards.meet
        own = self._fields.get(kind)
        return (_pack_first(own), own.read) if own is not None else (None, None)

    # Out.

    def pack(self, to: bytes, message: Message) -> Any:
        """The frame of a message for a peer."""
        spec = self.of_message[type(message)]
        return spec.frame(*[value for _, value in self.values(spec, to, message)])

    def values(self, spec: FrameSpec, to: bytes, message: Message) -> Iterator[tuple[str, Any]]:
        """The fields of a message's frame, but for those that are joined with others."""
        record = getattr(message, spec.inner[0]) if spec.inner is not None else None
        for name, pack, _ in self._kinds[spec.frame]:
            if name != spec.joins:
                holder = message if record is None or hasattr(message, name) else record
                value = getattr(holder, name)
                yield name, value if pack is None else pack(to, value)

    def joined(self, spec: FrameSpec, message: Message) -> Sequence[Any]:
        """What of a message is joined with others', as the frame has it."""
        pack = next(pack for name, pack, _ in self._kinds[spec.frame] if name == spec.joins)
        value = getattr(message, spec.joins)
        joined: Sequence[Any] = value if pack is None else pack(b"", value)
        return joined

    def parts(self, message: Message) -> Iterator[tuple[Struct, int]] | None:
        """The frames of a message whose only field may need several; None for others."""
        spec = self.of_message.get(type(message))
        kinds = _fields(spec.frame) if spec is not None else ()
        own = self._fields.get(kinds[0][1]) if len(kinds) == 1 else None
        if spec is None or own is None:
            return None
        frame = spec.frame
        found = own.pack(getattr(message, kinds[0][0]))
        return ((frame(part), things) for part, things in found if things)

    # In.

    def read(self, peer: bytes, frame: Struct) -> Message | None:
        """The message of a peer, for the machine, at once; None when there is no room for its topic."""
        spec = self.of_frame[type(frame)]
        given: dict[str, Any] = {}
        for name, _, read in self._kinds[spec.frame]:
            value = getattr(frame, name)
            given[name] = value if read is None else read(peer, value)
            if given[name] is None:
                return None
        return self.build(spec, given)

    def build(self, spec: FrameSpec, given: Mapping[str, Any]) -> Message:
        """A message with these fields."""
        message: Message
        if spec.inner is None:
            message = spec.message(**given, **spec.missing)
            return message
        field, record = spec.inner
        own = {name: value for name, value in given.items() if name in spec.message.__slots__}
        rest = {name: value for name, value in given.items() if name not in own}
        message = spec.message(**own, **{field: record(**rest)})
        return message

    def _number(self, name: str) -> int | None:
        return self._number_of(checked_topic(name))

    def _read_topics(self, peer: bytes, names: Sequence[str]) -> tuple[int, ...]:
        found = [self._number(name) for name in dict.fromkeys(names)]
        return tuple([number for number in found if number is not None])

    def _pack_peer(self, to: bytes, peer: int) -> Entry:
        """Whom a message names has a card: it was met just now, or is the node itself."""
        (entry,) = self._cards.describe(to, (peer,))
        return entry

    def _read_peer(self, peer: bytes, entry: Entry) -> int:
        met = self._cards.meet(peer, (entry,))
        if not met:
            raise BenignRefusal("an answer about somebody who cannot be met")
        return met[0]


@lru_cache(maxsize=256)
def _fields(frame: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """The names and types of a frame's fields, in order."""
    return tuple([(field.name, field.type) for field in msgspec.structs.fields(frame)])


def _each(kind: Any) -> Any:
    """The type of each of a tuple's; None for other types."""
    for argument in (kind, *get_args(kind)[:1]):
        inner = get_args(argument)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return inner[0]
    return None


def _pack_first(own: FieldCodec) -> Convert:
    """The first part of a value: what one frame has no room for is said again later."""
    return lambda to, value: next(own.pack(value))[0]


def longest(frame: type[Struct], field: str) -> int:
    """How many a tuple in a field may have."""
    kind = dict(_fields(frame))[field]
    bounds = [bound.max_length for bound in get_args(kind)[1:] if isinstance(bound, msgspec.Meta)]
    (most,) = bounds
    assert most is not None
    return most


def cut(things: Sequence[Any], most: int) -> Iterator[tuple[Any, ...]]:
    """As many in each as may be; names of topics within ``NAMES_BYTES``, too."""
    some: list[Any] = []
    size = 0
    for thing in things:
        weight = names_bytes((thing,)) if isinstance(thing, str) else 0
        size += weight
        if some and (size > NAMES_BYTES or len(some) == most):
            yield tuple(some)
            some, size = [], weight
        some.append(thing)
    if some:
        yield tuple(some)
