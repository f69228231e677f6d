"""Payloads left out: what stands in for them in a record.

In the place of a payload stands a digest of it, as long as the payload is: so all that a node does by sizes,
how many events fit into a frame or wait for a reader, is as it was. A block is encoded again with that; it
has another content id then, which is why a record without payloads keeps the content ids as well. What cannot
be read as a frame or an event is replaced by something that cannot be either, *for the very same reason*: the
reason is counted and traced.

Headers, topics, content ids and signatures stay. Who knows all else of an event and can guess its payload can
tell whether the guess is right, by the content id.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Raw

from vinecast.core.errors import RemoteError
from vinecast.core.log.blocks import read_bytes
from vinecast.core.log.event_record import BLOCK_BEGINS, PAYLOAD_BYTES_MAX
from vinecast.core.log.event_record import decode as decode_record
from vinecast.core.log.event_record import encode as encode_record
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EventFrame, StreamFrame, SystemFrame, decode, encode

_NO_BLOCK = b"\xff"
_PAYLOAD = b"\x67payload"
"""How a block says that its payload comes now."""
_PAYLOADS_MAX = 16
"""Of a block that is none, so many places that look like payloads are searched (ours)."""
_HEADS = ((0xC4, 1), (0xC5, 2), (0xC6, 4))
"""How MessagePack says that so many bytes come: with a length of 8, 16 or 32 bits."""


def _refusal(read: Callable[[bytes], object], data: bytes) -> str:
    """Why something cannot be read; empty where it can."""
    try:
        read(data)
    except RemoteError as error:
        return str(error)
    return ""


def _read_frame(data: bytes) -> None:
    frame = decode(data)
    if isinstance(frame, StreamFrame):
        wire.decode_stream(frame)


_REFUSED = {
    _refusal(_read_frame, data): data
    for data in (
        b"\xc1",  # a byte that MessagePack never uses
        b"\xc0",
        b"\x95\x00\xa1\xff\x00\xc0\xc0",  # a text that is not UTF-8
        encode(StreamFrame(Raw(b"\xc0"))),
        encode(StreamFrame(Raw(b"\x94\x02\xa1\xff\x00\xc4\x00"))),
    )
}
"""Why a frame cannot be read → one that cannot for the same reason. Those that are nested too deep are not
here: see ``_nested``."""


def _nested(data: bytes) -> bytes:
    """A frame that is nested as deep as this one could be."""
    return b"\x92\x02" + b"\x91" * len(data)


def stand_in(payload: bytes) -> bytes:
    """A digest, as long as what it is of."""
    return hashlib.shake_128(payload).digest(len(payload))


def without_payload(block: bytes) -> bytes:
    """The block of the same event with the digest of its payload. RemoteError when it is of no event."""
    record = decode_record(block)
    return encode_record(record._replace(payload=stand_in(record.payload)))


class PayloadStripper:
    """Leaves payloads out. What it has just seen it has at hand, until ``clear``: the same event comes in, is
    kept and goes out to several."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, bytes] = {}
        self._frames: dict[bytes, bytes] = {}

    def clear(self) -> None:
        """What comes next is another input."""
        self._blocks.clear()
        self._frames.clear()

    def block(self, block: bytes) -> bytes:
        """A block without its payload; of what is none, something that is none for the same reason."""
        found = self._blocks.get(block)
        if found is None:
            try:
                found = without_payload(block)
            except RemoteError as error:
                found = _broken(block, str(error))
            self._blocks[block] = found
        return found

    def frame(self, data: bytes) -> bytes:
        """The frame with the same events without their payloads; for what cannot be read, something that
        cannot be for the same reason."""
        found = self._frames.get(data)
        if found is None:
            found = self._frames[data] = self._strip(data)
        return found

    def value(self, value: bytes) -> bytes:
        """Bytes that a peer holds and that may have an event in them: a block or a frame of its own. What
        only looks like that stays as it is."""
        try:
            if value.startswith(BLOCK_BEGINS):
                return without_payload(value)
            decode(value)
        except RemoteError:
            return value
        return self.frame(value)

    def _strip(self, data: bytes) -> bytes:
        try:
            frame = decode(data)
            inner: Any = wire.decode_stream(frame) if isinstance(frame, StreamFrame) else None
        except RemoteError as error:
            return self._refused(data, str(error))
        match frame:
            case EventFrame(hops, events, form):
                return encode(EventFrame(hops, self._events(events), form))
            case StreamFrame():
                return self._strip_stream(inner)
            case SystemFrame(body):  # what it may say is known to the system alone: it keeps its form
                return encode(SystemFrame(Raw(self._without_blocks(bytes(body)))))
        return encode(frame)

    def _refused(self, data: bytes, reason: str) -> bytes:
        """What stands in for a frame that cannot be read."""
        for other in (_REFUSED.get(reason), _nested(data)):
            if other is not None and _refusal(_read_frame, other) == reason:
                return other
        return self._without_blocks(data)

    def _strip_stream(self, inner: Any) -> bytes:
        match inner:
            case wire.CarriedEvents(hops, ack, events, form):
                inner = wire.CarriedEvents(hops, ack, self._events(events), form)
            case wire.EventBatch(topic, events, missing):
                inner = wire.EventBatch(topic, self._events(events), missing)
            case wire.Push(topic, events):
                inner = wire.Push(topic, self._events(events))
        return wire.encode_stream(inner)

    def _events(self, events: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
        return tuple([(self.block(block), signature) for block, signature in events])

    def _without_blocks(self, data: bytes) -> bytes:
        """MessagePack of an unknown kind, and of the same form, with its blocks without their payloads."""
        parts: list[bytes] = []
        end = 0
        at = data.find(BLOCK_BEGINS)
        while at >= 0:
            for block in _items_at(data, at):
                if not _refusal(decode_record, block):
                    parts += (data[end:at], self.block(block))
                    end = at + len(block)
                    break
            at = data.find(BLOCK_BEGINS, max(end, at + 1))
        return b"".join((*parts, data[end:])) if parts else data


def _items_at(data: bytes, at: int) -> Iterator[bytes]:
    """The byte strings of MessagePack that may begin here."""
    for first, width in _HEADS:
        length = int.from_bytes(data[max(0, at - width) : at], "big")
        if at > width and data[at - width - 1] == first and at + length <= len(data):
            yield data[at : at + length]


def _broken(block: bytes, reason: str) -> bytes:
    """Of what is no block, as many bytes that are none for the same reason: no more of its beginning than
    that takes, and no payload."""

    def same(other: bytes) -> bool:
        return _refusal(decode_record, other) == reason

    block = _without_payloads(block, same)
    least, most = -1, len(block)  # so much of it is too little, and enough
    while most - least > 1:
        middle = (least + most) // 2
        if same(block[:middle] + _NO_BLOCK * (len(block) - middle)):
            most = middle
        else:
            least = middle
    return block[:most] + _NO_BLOCK * (len(block) - most)


def _without_payloads(block: bytes, same: Callable[[bytes], bool]) -> bytes:
    at = block.find(_PAYLOAD)
    for _ in range(_PAYLOADS_MAX):
        if at < 0:
            break
        at += len(_PAYLOAD)
        try:
            payload, end = read_bytes(block, at, PAYLOAD_BYTES_MAX)
        except RemoteError:
            payload, end = b"", at
        other = block[: end - len(payload)] + stand_in(payload) + block[end:]
        if payload and same(other):
            block, at = other, end
        at = block.find(_PAYLOAD, at)
    return block
