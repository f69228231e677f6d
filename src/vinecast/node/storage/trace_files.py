"""The trace of a live node on disk: files of lines (``core/trace_lines``) in a folder; the oldest go.

Many nodes can share a folder: a file's name begins with the id of its node. A file is begun when the one
before is full, and at every start; together the files of a node never take more than was said. What is left
of a line by a crash, or by a disk that was full, is the last of its file.
"""

import contextlib
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.core.trace import NamedRecord
from vinecast.core.trace_lines import SUFFIX, TraceHeading, heading_line, record_line

log = logging.getLogger("vinecast.node.trace")

FILES = 8
"""How many files a node's trace is divided into (ours), so that an eighth of it goes at a time."""
BUFFER_BYTES = 64 * 1024
"""Lines that wait to be written (ours), …"""
WRITE_US = SECOND_US
"""… for no longer than that, as long as others come."""
RETRY_US = 10 * SECOND_US
"""After a failure nothing is written for so long (ours)."""
NAME_DIGITS = 16
"""Of the node's id in the name of a file."""
LOST, WRITTEN = "trace: lines lost", "trace: lines"


class TraceFiles:
    """Writes the trace of one node. InputError when the folder cannot be written."""

    def __init__(self, folder: Path, heading: TraceHeading, bytes_max: int) -> None:
        self.counters: Counter[str] = Counter()
        self._folder, self._heading = folder, heading_line(heading).encode()
        self._bytes_max, self._file_max = bytes_max, bytes_max // FILES
        self._prefix = heading.node.hex()[:NAME_DIGITS]
        self._lines: list[str] = []
        self._size = 0
        """Of the lines that wait."""
        self._written_us = self._retry_us = 0
        self._file: BinaryIO | None = None
        self._has_warned = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._begin()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"trace_folder {folder}: cannot be written ({why})") from error

    def write(self, records: Sequence[NamedRecord]) -> None:
        """Take some records; they are on disk a little later."""
        for record in records:
            line = record_line(record)
            self._lines.append(line)
            self._size += len(line)
        now_us = records[-1].time_us
        if self._size >= BUFFER_BYTES or now_us - self._written_us >= WRITE_US:
            self._written_us = now_us
            self._flush(now_us)

    def close(self) -> None:
        """Write what waits, and no more."""
        self._flush(self._retry_us)
        self._end_file()

    def _flush(self, now_us: int) -> None:
        lines, self._lines, self._size = self._lines, [], 0
        if not lines:
            return
        if now_us < self._retry_us:
            self.counters[LOST] += len(lines)
            return
        left = len(lines)
        try:
            for data, count in self._parts(lines):
                if self._file is None or self._file.tell() + len(data) > self._file_max:
                    self._end_file()
                    self._begin()
                assert self._file is not None
                self._file.write(data)
                self._file.flush()
                self.counters[WRITTEN] += count
                left -= count
        except OSError as error:
            self._fail(error, left, now_us)

    def _parts(self, lines: Sequence[str]) -> Iterator[tuple[bytes, int]]:
        """The lines in parts for which a new file has room, and how many each has."""
        part: list[bytes] = []
        size = len(self._heading)
        for line in lines:
            data = line.encode()
            size += len(data)
            if part and size > self._file_max:
                yield b"".join(part), len(part)
                part, size = [], len(self._heading) + len(data)
            part.append(data)
        yield b"".join(part), len(part)

    def _fail(self, error: OSError, lines: int, now_us: int) -> None:
        """The node goes on without these lines, and tries again later, in a new file."""
        self.counters[LOST] += lines
        self._retry_us = now_us + RETRY_US
        self._end_file()
        if not self._has_warned:
            self._has_warned = True
            why = error.strerror or error
            log.warning("the trace cannot be written to %s (%s): its lines are lost", self._folder, why)

    def _begin(self) -> None:
        """Begin a file, and make room for it."""
        name = re.compile(rf"{self._prefix}-([0-9]{{8}}){re.escape(SUFFIX)}")
        own = [(name.fullmatch(path.name), path) for path in self._folder.iterdir()]
        found = [(int(match[1]), path) for match, path in own if match is not None]
        files = [(path, path.stat().st_size) for _, path in sorted(found)]
        while files and sum(size for _, size in files) > self._bytes_max - self._file_max:
            files.pop(0)[0].unlink(missing_ok=True)
        number = max((number for number, _ in found), default=0) + 1
        self._file = (self._folder / f"{self._prefix}-{number:08}{SUFFIX}").open("xb")
        self._file.write(self._heading)
        self._file.flush()

    def _end_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # what it could not write was counted before
                file.close()
