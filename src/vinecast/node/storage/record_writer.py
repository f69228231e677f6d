"""Writing the record of a node: segments in a folder, on a thread of its own.

Whoever records never waits: what is to be written is put in line, and when too much waits there, or the disk
fails, nothing more is written, which is told once. All segments together stay within a bound: the oldest go.
Where the bound has no room for what a segment begins with, or no more for what it goes on with, that is told,
and no more of that run is written.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from vinecast.core.errors import InputError
from vinecast.peer.record.segment import SegmentHeader, begin_segment, read_header

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""When so much waits to be written, the disk cannot keep up (ours)."""
SUFFIX = ".segment"
_HEAD_BYTES = 64 * 1024  # ours: a header is smaller
BEGIN_SHARE = 2
"""A segment begins with this part of the bound at the most (ours): the rest is for what happens."""


_Begin = tuple[SegmentHeader, bytes]
"""What the next segment begins with."""


def segments_in(folder: Path) -> list[Path]:
    """The segments of a record, in the order of their numbers."""
    found = [path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal() and path.is_file()]
    return sorted(found, key=lambda path: int(path.stem))


class NoRoomError(Exception):
    """There is no room for what a segment is to have."""

    def __init__(self, needed: int) -> None:
        """``needed``: the bound that would have room."""
        super().__init__(needed)
        self.needed = needed


class RecordWriter:
    """Writes one node's record. ``stopped``: told why, on the thread, when nothing more is written;
    ``crowded``: told there what bound would be needed, when nothing is written until a segment of
    another run begins."""

    def __init__(
        self,
        folder: Path,
        public: bytes,
        bytes_max: int,
        stopped: Callable[[str], object],
        crowded: Callable[[int], object],
    ) -> None:
        """InputError when there can be no record of this node in the folder."""
        self._folder, self._bytes_max = folder, bytes_max
        self._stopped, self._crowded = stopped, crowded
        try:
            folder.mkdir(0o700, parents=True, exist_ok=True)
            known = segments_in(folder)
            self._check(known, public)
        except OSError as error:
            raise InputError(f"there can be no record in {folder} ({error.strerror or error})") from None
        self._next_number = int(known[-1].stem) + 1 if known else 1
        self._sizes = {path: path.stat().st_size for path in known}
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._life = self._over = ""
        """The run that is written, and one that is over, since there was no room for all of it."""
        self._line: queue.SimpleQueue[_Begin | list[bytes] | None] = queue.SimpleQueue()
        self._put = self._done = 0
        """Bytes that were put in line, and that were taken from it."""
        self._thread = threading.Thread(target=self._run, name="vinecast-record", daemon=True)
        self._thread.start()

    @staticmethod
    def _check(known: Sequence[Path], public: bytes) -> None:
        for path in known[-1:]:
            with path.open("rb") as file:
                begin = file.read(_HEAD_BYTES)
            try:
                whose = read_header(path.name, begin)[0].public
            except InputError:  # cut off, or of another version: it is in nobody's way
                continue
            if whose != public:
                raise InputError(
                    f"{path.parent} has the record of another node: give each node a record_folder of its own"
                )

    @property
    def waiting(self) -> int:
        """Bytes in line."""
        return self._put - self._done

    def begin(self, header: SegmentHeader, snapshot: bytes) -> None:
        """Begin the next segment. Its number is that which is due in the folder."""
        self._put += len(snapshot)
        self._line.put((header, snapshot))

    def write(self, parts: list[bytes], size: int) -> None:
        """Go on with it, with so many bytes."""
        self._put += size
        self._line.put(parts)

    def close(self) -> None:
        """Write what is in line, and end. Call it from where waiting is no harm."""
        self._line.put(None)
        self._thread.join()

    # On the thread.

    def _run(self) -> None:
        try:
            while (what := self._line.get()) is not None:
                self._do(what)
        except OSError as error:
            self._stopped(f"the disk fails ({error.strerror or error})")
        finally:
            with contextlib.suppress(OSError):
                self._end()

    def _do(self, what: _Begin | list[bytes]) -> None:
        try:
            if isinstance(what, tuple):
                self._done += len(what[1])
                if what[0].life != self._over:
                    self._begin(*what)
            else:
                self._done += sum(map(len, what))
                if self._file is not None:
                    self._append(b"".join(what))
        except NoRoomError as error:
            self._end()
            self._over = self._life
            self._crowded(error.needed)

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _begin(self, header: SegmentHeader, snapshot: bytes) -> None:
        self._end()
        self._life = header.life
        data = begin_segment(structs.replace(header, number=self._next_number), snapshot)
        if len(data) > self._bytes_max // BEGIN_SHARE:
            raise NoRoomError(len(data) * BEGIN_SHARE)
        self._path = self._folder / f"{self._next_number:08d}{SUFFIX}"
        self._file = open(self._path, "xb", buffering=0, opener=_open_private)  # noqa: SIM115 - it stays open
        self._next_number += 1
        self._sizes[self._path] = 0
        self._append(data)

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        assert self._path is not None
        self._make_room(len(data))
        left = memoryview(data)
        while left:  # a disk that is nearly full takes a part
            written = self._file.write(left)
            self._sizes[self._path] += written
            left = left[written:]

    def _make_room(self, size: int) -> None:
        """Let the oldest segments go, until there is room for so many bytes more."""
        assert self._path is not None
        needed = self._sizes[self._path] + size
        if needed > self._bytes_max:
            raise NoRoomError(needed)
        while sum(self._sizes.values()) + size > self._bytes_max:
            oldest = next(iter(self._sizes))
            oldest.unlink(missing_ok=True)
            del self._sizes[oldest]


def _open_private(path: str, flags: int) -> int:
    """A file that others cannot read: it has what the node saw."""
    return os.open(path, flags, 0o600)
