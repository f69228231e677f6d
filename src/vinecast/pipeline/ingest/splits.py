"""A text file as splits of whole lines, each of which knows the number of its first line.

One pass over the file gives its digest and, for plain text, the splits; the cuts depend on the file alone, so
that a line has the same number however many tasks read it. A gzipped file cannot be entered in the middle: it
is one split.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import InputError
from vinecast.sim.workload.textfile import BYTE_ORDER_MARK, GZIP_MAGIC

SPLIT_BYTES = 32 << 20  # ours: a second or two of work for a task
BLOCK_BYTES = 8 << 20  # ours: what a task holds in memory at a time
LINE_BYTES_MAX = 64 << 20  # ours: what is longer is no text


@dataclass(frozen=True, slots=True)
class Split:
    """Whole lines of a file: the bytes from ``begin`` to ``end``; all there is for a gzipped one."""

    path: str
    number: int
    begin: int
    end: int
    first_line: int
    zipped: bool


@dataclass(frozen=True, slots=True)
class TextFile:
    """What one pass over a file tells."""

    path: Path
    sha256: str
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a split."""

    data: bytes
    first_line: int

    def lines(self) -> list[bytes]:
        """The lines, without their ends."""
        lines = self.data.split(b"\n")
        return lines[:-1] if not lines[-1] else lines


def scan(path: Path, split_bytes: int = SPLIT_BYTES, block_bytes: int = BLOCK_BYTES) -> TextFile:
    """Read a file once, for its digest and its splits."""
    digest = hashlib.sha256()
    splits: list[Split] = []
    try:
        with path.open("rb") as file:
            zipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            begin, first, position, line = 0, 1, 0, 1
            while data := file.read(block_bytes):
                digest.update(data)
                if zipped:
                    continue
                last = data.rfind(b"\n") + 1
                lines = data.count(b"\n")
                if last and position + last - begin >= split_bytes:
                    cut = position + last
                    splits.append(Split(str(path.absolute()), len(splits), begin, cut, first, False))
                    begin, first = cut, line + lines
                position, line = position + len(data), line + lines
            size = file.tell()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if size == 0:
        raise InputError(f"{path}: the file is empty")
    if begin < size:
        splits.append(Split(str(path.absolute()), len(splits), begin, size, first, zipped))
    return TextFile(path, digest.hexdigest(), tuple(splits))


def blocks_of(split: Split, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines of a split, some megabytes at a time. InputError where the file cannot be read as text."""
    number, rest = split.first_line, b""
    for data in _chunks(split, block_bytes):
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest += data
            if len(rest) > LINE_BYTES_MAX:
                raise InputError(f"line {number} is longer than {LINE_BYTES_MAX >> 20} MiB: not a text file")
            continue
        block = Block(_text(rest + data[:cut], number), number)
        number += block.data.count(b"\n")
        rest = data[cut:]
        yield block
    if rest:
        yield Block(_text(rest, number), number)


def _text(data: bytes, first_line: int) -> bytes:
    return data.removeprefix(BYTE_ORDER_MARK) if first_line == 1 else data


def _chunks(split: Split, block_bytes: int) -> Iterator[bytes]:
    try:
        if split.zipped:
            with gzip.open(split.path, "rb") as unpacked:
                while data := unpacked.read(block_bytes):
                    yield data
            return
        with Path(split.path).open("rb") as file:
            file.seek(split.begin)
            left = split.end - split.begin
            while left and (data := file.read(min(block_bytes, left))):
                left -= len(data)
                yield data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"broken gzip file ({error})") from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})") from None
