"""The store's file: SQLite, opened with suspicion, written in batches. Knows no event loop.

The file is locked for as long as it is open (SQLite's exclusive mode: the system lets go of the lock when the
process dies, however it dies), so that two nodes never share a folder. Before anything is written the file is
checked: a damaged one, one of a newer Vinecast, one of another program and one of another node are left as
they are, with one sentence about it.

Write-ahead log, ``synchronous = NORMAL``: a crash of the process loses no commit, a crash of the machine at
most the last ones, and neither damages the file. A commit that must not be lost is made with ``FULL``.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import InputError
from vinecast.node.storage.online_log import Session
from vinecast.node.storage.sqlite_file import (
    IDENTITY,
    FileKind,
    check_owner,
    damaged,
    explain,
    make_file,
    roll_back,
)
from vinecast.peer.address import Address

FILE_NAME = "node.db"
APPLICATION = 0x56494E45
"""VINE: written into the file's header, so that another program's database is not taken for ours."""
CACHE_KIB = 256
"""Of SQLite's page cache (ours): after opening, the file is only written to."""

_SCHEMAS = (
    IDENTITY
    + """
    CREATE TABLE sequence (one INTEGER PRIMARY KEY CHECK (one = 1), bound INTEGER NOT NULL) STRICT;
    INSERT INTO sequence VALUES (1, 0);
    CREATE TABLE subscriptions (slot INTEGER PRIMARY KEY, topic TEXT NOT NULL) STRICT;
    CREATE TABLE peers (
        slot INTEGER PRIMARY KEY,
        node BLOB NOT NULL, host TEXT NOT NULL, port INTEGER NOT NULL, seen_us INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        on_us INTEGER NOT NULL, last_us INTEGER NOT NULL, graceful INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
    """,
)
KIND = FileKind(APPLICATION, "is not a store of Vinecast", _SCHEMAS)

Write = tuple[str, tuple[object, ...]]
"""One statement and its values."""


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """A peer that was met, and where."""

    id: bytes
    address: Address
    seen_us: int
    """When it was last seen, in microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class StoreContents:
    """What a store holds when it is opened."""

    sequence: int
    """The first sequence number that certainly was not used."""
    subscriptions: dict[int, str]
    """By slot: rows are reused, which bounds what can wait to be written."""
    peers: dict[int, KnownPeer]
    """By slot, in the order of their being seen, the latest last."""
    sessions: tuple[Session, ...]
    meta: dict[str, bytes]


class StoreFile:
    """An open store. Its methods block, and only one may run at a time (on any thread)."""

    def __init__(self, folder: Path | None, node: bytes) -> None:
        """Open or create the store in a folder (None: in memory) of the node with this id, or InputError."""
        self.path = ":memory:" if folder is None else str(folder / FILE_NAME)
        if folder is not None:
            make_file(folder, FILE_NAME, "a store")
        with self._explained():
            self._database = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                self._prepare(self._check(), node)
                self.contents = self._read()
        except BaseException:
            self._database.close()
            raise

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into one sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise InputError(explain(error, self.path)) from error

    def _value(self, sql: str) -> int:
        return int(self._database.execute(sql).fetchone()[0])

    def _check(self) -> int:
        """Which schema version the file has, 0 for a new one; it is only read."""
        schema = KIND.check(self._database, self.path)
        if schema and self._database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise InputError(damaged(self.path))
        return schema

    def _prepare(self, found: int, node: bytes) -> None:
        """Bring the file to today's schema, and make sure that it is this node's."""
        if found:
            check_owner(self._database, self.path, node)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        KIND.bring_up(self._database, found, node)

    def _read(self) -> StoreContents:
        rows = self._database.execute
        peers = rows("SELECT slot, node, host, port, seen_us FROM peers ORDER BY seen_us, slot")
        return StoreContents(
            sequence=self._value("SELECT bound FROM sequence"),
            subscriptions=dict(rows("SELECT slot, topic FROM subscriptions")),
            peers={
                slot: KnownPeer(node, Address(host, port), seen) for slot, node, host, port, seen in peers
            },
            sessions=tuple(
                Session(number, on, last, bool(graceful))
                for number, on, last, graceful in rows("SELECT * FROM sessions ORDER BY number")
            ),
            meta=dict(rows("SELECT key, value FROM meta")),
        )

    def commit(self, writes: Sequence[Write], must_last: bool) -> None:
        """All of these or, with a sqlite3.Error, none. ``must_last``: not even a power failure undoes it."""
        database = self._database
        if must_last:
            database.execute("PRAGMA synchronous = FULL")
        try:
            database.execute("BEGIN IMMEDIATE")
            for sql, values in writes:
                database.execute(sql, values)
            database.execute("COMMIT")
        except BaseException:
            roll_back(database)
            raise
        finally:
            if must_last:
                database.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
