"""The store's file: SQLite, opened with suspicion, written in batches. Knows no event loop.

The file is locked for as long as it is open (SQLite's exclusive mode: the system lets go of the lock when the
process dies, however it dies), so that two nodes never share a folder. Before anything is written the file is
checked: a damaged one, one of a newer Vinecast, one of another program and one of another node are left as
they are, with one sentence about it.

Write-ahead log, ``synchronous = NORMAL``: a crash of the process loses no commit, a crash of the machine at
most the last ones, and neither damages the file. A commit that must not be lost is made with ``FULL``.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import InputError
from vinecast.node.address import Address
from vinecast.node.online_log import Session

FILE_NAME = "node.db"
APPLICATION = 0x56494E45
"""VINE: written into the file's header, so that another program's database is not taken for ours."""
CACHE_KIB = 256
"""Of SQLite's page cache (ours): after opening, the file is only written to."""

_SCHEMAS = (
    """
    CREATE TABLE identity (one INTEGER PRIMARY KEY CHECK (one = 1), node BLOB NOT NULL) STRICT;
    CREATE TABLE sequence (one INTEGER PRIMARY KEY CHECK (one = 1), bound INTEGER NOT NULL) STRICT;
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
"""What leads from each schema version to the next, beginning with an empty file."""
SCHEMA = len(_SCHEMAS)

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
class Contents:
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
            _make_file(folder)
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
        application, schema = self._value("PRAGMA application_id"), self._value("PRAGMA user_version")
        if not application and not schema and not self._value("SELECT count(*) FROM sqlite_master"):
            return 0
        if application != APPLICATION or schema < 1:
            raise InputError(f"{self.path} is not a store of Vinecast")
        if schema > SCHEMA:
            raise InputError(
                f"the store {self.path} was written by a newer Vinecast "
                f"(its schema is {schema}, this one knows {SCHEMA})"
            )
        verdict = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise InputError(_damaged(self.path))
        return schema

    def _prepare(self, found: int, node: bytes) -> None:
        """Bring the file to today's schema, in one step, and make sure that it is this node's."""
        database = self._database
        if found:
            owner = bytes(database.execute("SELECT node FROM identity").fetchone()[0])
            if owner != node:
                raise InputError(
                    f"the store {self.path} belongs to another node, "
                    f"{owner.hex()[:16]}… and not {node.hex()[:16]}…"
                )
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if found == SCHEMA:
            return
        steps = "".join(_SCHEMAS[found:])
        if not found:
            steps += f"INSERT INTO identity VALUES (1, x'{node.hex()}'); INSERT INTO sequence VALUES (1, 0);"
        try:
            database.executescript(
                f"BEGIN IMMEDIATE; {steps} PRAGMA application_id = {APPLICATION};"
                f"PRAGMA user_version = {SCHEMA}; COMMIT;"
            )
        except sqlite3.Error:
            self._roll_back()
            raise

    def _read(self) -> Contents:
        rows = self._database.execute
        peers = rows("SELECT slot, node, host, port, seen_us FROM peers ORDER BY seen_us, slot")
        return Contents(
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
            self._roll_back()
            raise
        finally:
            if must_last:
                database.execute("PRAGMA synchronous = NORMAL")

    def _roll_back(self) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


def _make_file(folder: Path) -> None:
    """Make the file for its owner only. An existing one is not touched: opening and closing it here would
    drop the lock that this process may hold on it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(folder / FILE_NAME, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder") from None
    except OSError as error:
        raise InputError(f"cannot keep a store in {folder}: {error.strerror}") from error


def _damaged(path: str) -> str:
    return f"the store {path} is damaged; it was left as it is: restore it from a copy or move it away"


def explain(error: BaseException, path: str) -> str:
    """One sentence about what SQLite could not do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"the store {path} is in use by another node"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path)
    if code == sqlite3.SQLITE_FULL:
        return f"the store {path} cannot be written: the disk is full"
    return f"the store {path} cannot be used: {error}"
