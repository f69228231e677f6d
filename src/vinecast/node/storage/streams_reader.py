"""Reading the file of a node's streams: what was committed, on a connection of its own.

Every event is checked against its content id: what a disk made of it is never handed on. Its form was checked
when it came to this node, and the content id says that these are the very bytes, so it is not checked again:
a general reader of CBOR takes them apart, which is faster than ``core/log/event_record`` can be.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from typing import Any

import cbor2

from vinecast.core.errors import InputError, RemoteError
from vinecast.core.log.batch_signature import BatchSignature, SignedEvent
from vinecast.core.log.blocks import cid_of, cid_text
from vinecast.core.log.event_record import EventRecord
from vinecast.core.log.stream_buffer import Place, StreamSummary
from vinecast.core.log.streams import KeptEvent
from vinecast.node.storage.sqlite_file import explain
from vinecast.node.storage.streams_batch import POSITION_BITS, ExpiredEvent, StoredStream, position_in, row_of

log = logging.getLogger("vinecast.node.streams")

_TABLES = ("streams", "events", "heads", "lacking", "forgotten", "consumers")


class TornError(sqlite3.DatabaseError):
    """What lies in the file is not what was written."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn SQLite's errors, and blocks that are not what was written, into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(explain(error, path)) from error
    except RemoteError as error:
        raise InputError(explain(TornError(), path)) from error


def connect(path: str) -> sqlite3.Connection:
    """A connection to the file, for any one thread."""
    with explained(path):
        return sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)


class StreamsReader:
    """Reads what was committed. Its methods raise InputError where the file is damaged."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._damaged: set[bytes] = set()
        self._database = connect(path)
        try:
            with explained(path):
                self._database.execute("PRAGMA query_only = ON")
                self._look_around()
        except BaseException:
            self._database.close()
            raise

    def _look_around(self) -> None:
        """Read a little of everything, the end of the events too: what is torn mostly shows there."""
        for table in _TABLES:
            self._database.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()
        self._keepings("ORDER BY id DESC LIMIT 1", ())

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def next_stream(self) -> int:
        """A number for a stream, larger than all that are in the file."""
        with explained(self._path):
            return 1 + int(self._database.execute("SELECT ifnull(max(number), 0) FROM streams").fetchone()[0])

    def topics(self) -> list[str]:
        """The names of all streams."""
        with explained(self._path):
            return [topic for (topic,) in self._database.execute("SELECT topic FROM streams")]

    def find(self, topic: str) -> StoredStream | None:
        """A stream, without its events."""
        with explained(self._path):
            rows = self._database.execute
            columns = "number, first, last, floor, events, bytes"
            found = rows(f"SELECT {columns} FROM streams WHERE topic = ?", (topic,)).fetchone()
            if found is None:
                return None
            number, *numbers = found
            heads = "SELECT h.cid, h.height, e.id IS NULL FROM heads h LEFT JOIN events e ON e.cid = h.cid"
            heights = rows(f"{heads} WHERE h.stream = ?", (number,)).fetchall()
            gone = [cid for cid, _, is_gone in heights if is_gone]
            summary = StreamSummary({cid: height for cid, height, _ in heights}, gone, *numbers)
            offsets = dict(rows("SELECT name, offset FROM consumers WHERE stream = ?", (number,)))
            ragged = any(
                rows(f"SELECT 1 FROM {table} WHERE stream = ? LIMIT 1", (number,)).fetchone()
                for table in ("lacking", "forgotten")
            )
            return StoredStream(number, summary, offsets, ragged)

    def get(self, cid: bytes) -> KeptEvent | None:
        """The event with this content id; None where its block is damaged, too."""
        with explained(self._path):
            return next(iter(self._keepings("WHERE cid = ?", (cid,), whole=True)), None)

    def locate(self, cid: bytes) -> tuple[int, int]:
        """The row and the height of the event with this content id; zeros where there is none."""
        with explained(self._path):
            found = self._database.execute("SELECT id, height FROM events WHERE cid = ?", (cid,)).fetchone()
            return found or (0, 0)

    def after(self, row: int, count: int) -> list[KeptEvent]:
        """The next events of the same stream after this row."""
        end = row_of((row >> POSITION_BITS) + 1, 0)
        with explained(self._path):
            return self._keepings("WHERE id > ? AND id < ? ORDER BY id LIMIT ?", (row, end, count))

    def in_order(self, stream: int, after: Place, count: int) -> list[KeptEvent]:
        """The next events of a stream after a place, in the order that all nodes share; what is damaged is
        left out, since it cannot be sent to anybody."""
        where = "WHERE stream = ? AND (height, cid) > (?, ?) ORDER BY height, cid LIMIT ?"
        with explained(self._path):
            return self._keepings(where, (stream, *after, count), whole=True)

    def oldest(self, stream: int, count: int) -> list[ExpiredEvent]:
        """The first events of a stream in that order, as retention sees them."""
        sql = """SELECT id, height, cid, kept_us, length(block) + length(seal) FROM events
            WHERE stream = ? ORDER BY height, cid LIMIT ?"""
        with explained(self._path):
            rows = self._database.execute(sql, (stream, count))
            return [
                ExpiredEvent(stream, position_in(row), (height, cid), *others)
                for row, height, cid, *others in rows
            ]

    def first_positions(self, stream: int, count: int) -> list[int]:
        """The lowest positions of a stream."""
        sql = "SELECT id FROM events WHERE id > ? AND id < ? ORDER BY id LIMIT ?"
        with explained(self._path):
            rows = self._database.execute(sql, (row_of(stream, 0), row_of(stream + 1, 0), count))
            return [position_in(row) for (row,) in rows]

    def forgotten_height(self, stream: int, cid: bytes) -> int:
        """The height of an event that was forgotten not long ago; 0 for others."""
        sql = "SELECT height FROM forgotten WHERE stream = ? AND cid = ?"
        with explained(self._path):
            row = self._database.execute(sql, (stream, cid)).fetchone()
            return int(row[0]) if row else 0

    def is_lacked(self, stream: int, parent: bytes) -> bool:
        """Whether an event was kept while this parent of its was not there."""
        sql = "SELECT 1 FROM lacking WHERE stream = ? AND parent = ? LIMIT 1"
        with explained(self._path):
            return self._database.execute(sql, (stream, parent)).fetchone() is not None

    def _keepings(self, where: str, values: tuple[Any, ...], *, whole: bool = False) -> list[KeptEvent]:
        """Events in the file. ``whole``: leave out what is damaged, else TornError."""
        found = []
        for row, cid, block, signature in self._database.execute(
            f"SELECT id, cid, block, seal FROM events {where}", values
        ).fetchall():
            try:
                signed = _read_event(cid, block, signature)
            except TornError:
                if not whole:
                    raise
                self._warn(cid)
            else:
                found.append(KeptEvent(position_in(row), signed))
        return found

    def _warn(self, cid: bytes) -> None:
        if cid not in self._damaged:
            self._damaged.add(cid)
            log.warning("event %s is damaged in %s: others are not sent it", cid_text(cid), self._path)


def _read_event(cid: bytes, block: bytes, signature: bytes) -> SignedEvent:
    """An event that this node has checked before. TornError where it is not what was written."""
    if cid_of(block) != cid:
        raise TornError
    try:
        return SignedEvent(_read_record(block), block, cid, BatchSignature.from_bytes(signature))
    except RemoteError as error:
        raise TornError from error


def _read_record(block: bytes) -> EventRecord:
    """The record in a block that this node has checked before."""
    try:
        fields = cbor2.loads(block)
        return EventRecord(
            fields["topic"],
            fields["publisher"],
            fields["sequence"],
            fields["time"],
            fields["payload"],
            fields["headers"],
            tuple([link.value[1:] for link in fields["parents"]]),
            fields["height"],
        )
    except (cbor2.CBORError, AttributeError, LookupError, TypeError) as error:
        raise TornError from error
