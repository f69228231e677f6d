"""Frames: how a stream of bytes becomes messages again.

A frame is a word of 4 bytes (big-endian: the kind in its highest byte, the size of the body in the other
three), then the body. Data frames have kind 0, so that their word is just their size. The first frame of a
stream is a HELLO (or a refusal): whatever else comes first is refused before its body is waited for, so a
stranger cannot make us hold more than a kilobyte.
"""

import enum
import struct

HEAD_BYTES = 4
CONTROL_BYTES_MAX = 1024
"""The largest body of a frame that is not data. Ours."""
FRAME_BYTES_MAX = 2**24 - 1
"""The largest body that three bytes can announce."""

pack_head = struct.Struct(">I").pack
_unpack_head = struct.Struct(">I").unpack_from


class FrameKind(enum.IntEnum):
    """What a frame is. The numbers are part of the protocol."""

    DATA = 0
    HELLO = 1
    REFUSED = 2
    PING = 3
    PONG = 4
    BYE = 5


_KIND_MAX = max(FrameKind)
_FIRST = (FrameKind.HELLO, FrameKind.REFUSED)


def control(kind: FrameKind, body: bytes = b"") -> bytes:
    """A whole frame that is not data."""
    return pack_head(kind << 24 | len(body)) + body


class Splitter:
    """Cuts one stream into frames. How the stream was cut before makes no difference."""

    __slots__ = ("_begun", "_data_max", "_rest", "_wanted", "fault")

    def __init__(self, frame_bytes_max: int) -> None:
        self._data_max = frame_bytes_max
        self._begun = False
        self._rest = bytearray()
        self._wanted = HEAD_BYTES
        self.fault = ""
        """Why the rest of the stream is worth nothing, once that is known."""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The (kind, body) of every frame that is complete now. Look at ``fault`` afterwards."""
        frames: list[tuple[int, bytes]] = []
        if self.fault:
            return frames
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return frames
            data = bytes(self._rest)
            self._rest.clear()
        at, end, data_max = 0, len(data), self._data_max
        self._wanted = HEAD_BYTES
        while end - at >= HEAD_BYTES:
            (size,) = _unpack_head(data, at)
            kind = 0
            if size > data_max or not self._begun:
                kind, size = size >> 24, size & FRAME_BYTES_MAX
                self.fault = self._fault_of(kind, size)
                if self.fault:
                    return frames
            stop = at + HEAD_BYTES + size
            if stop > end:
                self._wanted = HEAD_BYTES + size
                break
            self._begun = True
            frames.append((kind, data[at + HEAD_BYTES : stop]))
            at = stop
        if at < end:
            self._rest += data[at:]
        return frames

    def _fault_of(self, kind: int, size: int) -> str:
        if kind > _KIND_MAX:
            return "garbage instead of a frame"
        if not self._begun and kind not in _FIRST:
            return "frame before HELLO"
        if size > (CONTROL_BYTES_MAX if kind else self._data_max):
            return "frame too large"
        return ""

    @property
    def unfinished(self) -> bool:
        """Whether the stream so far ends in the middle of a frame."""
        return bool(self._rest)
