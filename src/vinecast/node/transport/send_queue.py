"""What waits to be written to one stream: bounded, joined into few writes, held back when the stream is full.

Small frames are joined and written once a tick of the loop, which makes them six times cheaper; large ones
are written at once, without a copy. When the peer reads more slowly than we write, the stream says so
(``pause``), and frames wait here until the bound is reached.
"""

import asyncio

from vinecast.peer.wire.frames import HEAD_BYTES, pack_head

LARGE_BYTES = 16 * 1024
"""Frames from this size on are written directly."""
WRITE_BYTES = 32 * 1024
"""How much is joined into one write."""
BUFFER_BYTES = 128 * 1024
"""How much may lie in the stream's own buffer before frames wait in the queue."""


class SendQueue:
    """The way out of one connection. Until ``open`` and after ``close`` nothing is written."""

    __slots__ = (
        "_loop",
        "_parts",
        "_paused",
        "_scheduled",
        "_stream",
        "bytes_max",
        "bytes_out",
        "dropped",
        "frames_out",
        "queued_bytes",
        "stalled_at",
    )

    def __init__(self, queue_bytes_max: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.bytes_max = queue_bytes_max
        self._stream: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._paused = False
        self._scheduled = False
        self.queued_bytes = self.bytes_out = self.frames_out = self.dropped = 0
        self.stalled_at: float | None = None
        """Since when the stream takes nothing."""

    def open(self, stream: asyncio.Transport) -> None:
        """Write to this stream from now on."""
        stream.set_write_buffer_limits(high=BUFFER_BYTES, low=BUFFER_BYTES // 4)
        self._stream = stream

    def send(self, frame: bytes) -> bool:
        """Queue a data frame; False when there is no room for it."""
        size = len(frame)
        queued = self.queued_bytes + size + HEAD_BYTES
        if queued > self.bytes_max:
            self.dropped += 1
            return False
        self.frames_out += 1
        if size >= LARGE_BYTES and self._write_directly(frame):
            return True
        self._parts.append(pack_head(size))
        self._parts.append(frame)
        self.queued_bytes = queued
        if not self._paused:
            if queued >= WRITE_BYTES:
                self.flush()
            elif not self._scheduled:
                self._scheduled = True
                self._loop.call_soon(self.flush)
        return True

    def put(self, control_frame: bytes) -> None:
        """Queue a frame of the connection's own, which no bound holds back: there are few, and they are
        small."""
        self._parts.append(control_frame)
        self.queued_bytes += len(control_frame)
        if not self._paused and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is queued, in bites, until the stream has had enough."""
        self._scheduled = False
        while self._parts and not self._paused and self._stream is not None:
            if self.queued_bytes <= WRITE_BYTES:
                bite = b"".join(self._parts)
                self._parts.clear()
            else:
                bite = self._bite()
            self.queued_bytes -= len(bite)
            self.bytes_out += len(bite)
            self._stream.write(bite)

    def pause(self) -> None:
        """The stream is full."""
        self._paused = True
        self.stalled_at = self._loop.time()

    def resume(self) -> None:
        """There is room again."""
        self._paused = False
        self.stalled_at = None
        self.flush()

    @property
    def paused(self) -> bool:
        """Whether the stream is full."""
        return self._paused

    def close(self, last: bytes = b"") -> None:
        """Write everything, however full the stream is, and this frame after it, if there is one."""
        stream, self._stream = self._stream, None
        if stream is not None and last and not stream.is_closing():
            bite = b"".join((*self._parts, last))
            self.bytes_out += len(bite)
            stream.write(bite)
        self._parts.clear()
        self.queued_bytes = 0

    def _bite(self) -> bytes:
        size = count = 0
        for part in self._parts:
            size += len(part)
            count += 1
            if size >= WRITE_BYTES:
                break
        bite = b"".join(self._parts[:count])
        del self._parts[:count]
        return bite

    def _write_directly(self, frame: bytes) -> bool:
        self.flush()
        if self._paused or self._stream is None:
            return False
        self.bytes_out += HEAD_BYTES + len(frame)
        self._stream.writelines((pack_head(len(frame)), frame))
        return True
