"""How a SQLite file of a node is made and opened: with suspicion.

Before anything is written a file is checked: a damaged one, one of a newer Vinecast, one of another program
and one of another node are left as they are, with one sentence about it.
"""

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import InputError

IDENTITY = "CREATE TABLE identity (one INTEGER PRIMARY KEY CHECK (one = 1), node BLOB NOT NULL) STRICT;"
"""Whose file it is: the first schema of every file has this table."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """How a kind of SQLite file is recognised, and its schema."""

    application: int
    """Written into the file's header, so that another program's database is not taken for ours."""
    is_none: str
    """What is said of a file that is none of this kind, after its path."""
    schemas: tuple[str, ...]
    """What leads from each schema version to the next, beginning with an empty file."""

    @property
    def schema(self) -> int:
        """Today's schema version."""
        return len(self.schemas)

    def check(self, database: sqlite3.Connection, path: str) -> int:
        """Which schema version a file has, 0 for a new one; it is only read. InputError when it is not ours,
        or newer than this Vinecast."""
        application, schema = (
            _value(database, f"PRAGMA {name}") for name in ("application_id", "user_version")
        )
        if not application and not schema and not _value(database, "SELECT count(*) FROM sqlite_master"):
            return 0
        if application != self.application or schema < 1:
            raise InputError(f"{path} {self.is_none}")
        if schema > self.schema:
            raise InputError(
                f"the store {path} was written by a newer Vinecast "
                f"(its schema is {schema}, this one knows {self.schema})"
            )
        return schema

    def bring_up(self, database: sqlite3.Connection, found: int, node: bytes) -> None:
        """Bring a file of a schema version to today's, in one step; a new one becomes this node's."""
        if found == self.schema:
            return
        steps = "".join(self.schemas[found:])
        if not found:
            steps += f"INSERT INTO identity VALUES (1, x'{node.hex()}');"
        try:
            database.executescript(
                f"BEGIN IMMEDIATE; {steps} PRAGMA application_id = {self.application};"
                f"PRAGMA user_version = {self.schema}; COMMIT;"
            )
        except sqlite3.Error:
            roll_back(database)
            raise


def _value(database: sqlite3.Connection, sql: str) -> int:
    return int(database.execute(sql).fetchone()[0])


def check_owner(database: sqlite3.Connection, path: str, node: bytes) -> None:
    """InputError when a file is another node's."""
    owner = bytes(database.execute("SELECT node FROM identity").fetchone()[0])
    if owner != node:
        raise InputError(
            f"the store {path} belongs to another node, {owner.hex()[:16]}… and not {node.hex()[:16]}…"
        )


def roll_back(database: sqlite3.Connection) -> None:
    """Undo a transaction, if one is under way."""
    if database.in_transaction:
        database.execute("ROLLBACK")


def make_file(folder: Path, name: str, what: str) -> None:
    """Make a file for its owner only, its name safe against a power failure. An existing one is not touched:
    opening and closing it here would drop the lock that this process may hold on it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileExistsError:
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder") from None
    except OSError as error:
        raise InputError(f"cannot keep {what} in {folder}: {error.strerror}") from error


def damaged(path: str) -> str:
    """What is said of a damaged file."""
    return f"the store {path} is damaged; it was left as it is: restore it from a copy or move it away"


def explain(error: BaseException, path: str) -> str:
    """One sentence about what SQLite could not do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"the store {path} is in use by another node"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path)
    if code == sqlite3.SQLITE_FULL:
        return f"the store {path} cannot be written: the disk is full"
    return f"the store {path} cannot be used: {error}"
