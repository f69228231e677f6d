"""A segment of a record: a header, a snapshot of the peer, and what it was handed from then on.

    vinecast record 1\\n          what the file is
    length, checksum, bytes      the header
    length, checksum, bytes      the snapshot, compressed
    length, checksum, bytes      an entry, and so on to the end of the file

Length and checksum (CRC-32 of the bytes) have four bytes each, most significant first. So a segment whose end
is missing is good up to there, and where that is can be told. Each begins with a snapshot and needs no other:
the oldest can be deleted. No part is empty: zeros, which a power loss leaves, are none.

A segment is *cut off* where nothing is to be read behind that place. Where whole entries stand behind it, it
is damaged, and no more is made of it.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from vinecast.core.errors import InputError
from vinecast.core.log.event_record import PUBLIC_KEY_BYTES
from vinecast.peer.record.entry import ENTRY_BEGINS, RecordEntry, read_entry

FORMAT = 1
MAGIC = b"vinecast record "
BEGINS = b"%s%d\n" % (MAGIC, FORMAT)
PART_BYTES_MAX = 256 * 1024 * 1024
"""A part that says it is longer is none (ours)."""
SNAPSHOT_BYTES_MAX = 1024 * 1024 * 1024
"""Of a snapshot that is no longer compressed (ours)."""
_HEAD = struct.Struct(">II")
HEAD_BYTES = _HEAD.size
_SEARCH_FACTOR = 8
"""Behind a damage, so many times the bytes of a segment are summed up in search of entries (ours)."""
_entry_begins = re.compile(b"|".join(map(re.escape, ENTRY_BEGINS)))
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class SegmentHeader(msgspec.Struct, frozen=True):
    """What is in a segment: whose record it is, and what a peer must be made of to continue from it."""

    version: str
    """Of the package that wrote it."""
    code: str
    """The digest of the code of its peer: another code may do otherwise."""
    python: str
    network: str
    public: Annotated[bytes, Meta(min_length=PUBLIC_KEY_BYTES, max_length=PUBLIC_KEY_BYTES)]
    """The node's public key."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    config: dict[str, Any]
    """The settings of the peer, as a table."""
    limits: list[float]
    """Of connections (``peer/links``)."""
    with_payloads: bool
    life: str
    """Names the run of the node: other segments of the same one go on where this one ends."""
    number: Count
    """Of this segment, counted through all runs."""
    begins_at: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    """The number of its first entry, counted through this run, from 1."""


class Place(NamedTuple):
    """Where something in a record is."""

    segment: str
    """The name of its file."""
    entry: int
    """The number of the entry, counted through all that is read; 0 before the first."""
    byte: int
    """Where in the file."""

    def __str__(self) -> str:
        where = f"entry {self.entry}" if self.entry else "its beginning"
        return f"{self.segment}, {where} (byte {self.byte:,})"


class CutOffError(InputError):
    """A segment ends before its end, or goes on with what is no part of it."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(f"the record is cut off, and good up to {place}: {why}")
        self.place, self.why = place, why


def shown(text: str) -> str:
    """A text of a record, which may come from anywhere, for people: no terminal obeys it."""
    return "".join([letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text])


def pack_part(data: bytes) -> bytes:
    """A part as it lies in the file."""
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def begin_segment(header: SegmentHeader, snapshot: bytes) -> bytes:
    """What a segment begins with."""
    packed = zlib.compress(snapshot, 1)
    return BEGINS + pack_part(msgspec.msgpack.encode(header)) + pack_part(packed)


def read_header(name: str, data: bytes) -> tuple[SegmentHeader, int]:
    """The header of a segment whose file has this name, and where it ends. InputError when it is no segment,
    or one of another version."""
    if not data.startswith(BEGINS) and BEGINS.startswith(data.rstrip(b"\0")):
        raise CutOffError(Place(name, 0, 0), "the rest is missing")
    if not data.startswith(MAGIC):
        raise InputError(f"{name}: this is no record of a node")
    if not data.startswith(BEGINS):
        other = data[len(MAGIC) : len(MAGIC) + 12].split(b"\n")[0].decode("ascii", "replace")
        raise InputError(
            f"{name}: a record of format {shown(other)}, and this vinecast reads format {FORMAT}"
        )
    packed, end = _read_part(data, Place(name, 0, len(BEGINS)))
    try:
        return msgspec.msgpack.decode(packed, type=SegmentHeader), end
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = shown(str(error))
        raise InputError(f"{name}: the header of the record makes no sense ({why})") from None


def _read_part(data: bytes, place: Place) -> tuple[bytes, int]:
    """The part at a place, and where it ends. CutOffError where there is none and none behind it, InputError
    where there are some."""
    begin = place.byte + HEAD_BYTES
    length, checksum = _HEAD.unpack_from(data, place.byte) if begin <= len(data) else (1, 0)
    part = data[begin : begin + length]
    if 0 < length <= PART_BYTES_MAX and len(part) == length and zlib.crc32(part) == checksum:
        return part, begin + length
    follows = _find_entry(data, place.byte + 1)
    if follows:
        raise InputError(
            f"the record is damaged at {place}: what comes then is not what was written, and whole entries "
            f"follow from byte {follows:,} on"
        )
    if begin <= len(data) and not any(data[place.byte :]):
        raise CutOffError(place, "nothing but zeros comes then")
    is_short = begin > len(data) or (length <= PART_BYTES_MAX and len(part) < length)
    raise CutOffError(place, "the rest is missing" if is_short else "what comes then is not what was written")


def _find_entry(data: bytes, at: int) -> int:
    """Where the next whole entry begins, from a place on; 0 if there is none."""
    left = _SEARCH_FACTOR * len(data)
    for found in _entry_begins.finditer(data, at + HEAD_BYTES):
        begin = found.start()
        length, checksum = _HEAD.unpack_from(data, begin - HEAD_BYTES)
        if length > min(PART_BYTES_MAX, len(data) - begin):
            continue
        left -= length
        if left < 0 or zlib.crc32(memoryview(data)[begin : begin + length]) == checksum:
            return begin - HEAD_BYTES
    return 0


class SegmentReader:
    """Reads a segment that lies in memory. ``name``: of its file."""

    def __init__(self, name: str, data: bytes, before: int = 0) -> None:
        """``before``: entries of earlier runs of the node, which count too. InputError when it is no segment,
        or one of another version."""
        self._name, self._data, self._entry = name, data, 0
        self.header, self._at = read_header(name, data)
        packed, self._at = _read_part(data, self.place)
        self.snapshot = self._unpack(packed)
        self._entry = before + self.header.begins_at - 1

    def _unpack(self, packed: bytes) -> bytes:
        reader = zlib.decompressobj()
        try:
            found = reader.decompress(packed, SNAPSHOT_BYTES_MAX)
        except zlib.error:
            raise InputError(f"{self._name}: the snapshot in the record cannot be read") from None
        if reader.unconsumed_tail or not reader.eof:
            raise InputError(f"{self._name}: the snapshot in the record cannot be read")
        return found

    @property
    def place(self) -> Place:
        """Up to where it was read."""
        return Place(self._name, self._entry, self._at)

    def entries(self) -> Iterator[tuple[Place, RecordEntry]]:
        """All entries, and where each of them begins. CutOffError where the segment is cut off, InputError
        where an entry makes no sense."""
        while self._at < len(self._data):
            begin = self._at
            data, self._at = _read_part(self._data, self.place)
            self._entry += 1
            place = Place(self._name, self._entry, begin)
            try:
                entry = read_entry(data)
            except InputError as error:
                raise InputError(f"the record makes no sense at {place}: {error}") from None
            yield place, entry
