"""The file of a node's streams: SQLite, opened with suspicion, written in batches. Knows no event loop.

It lies beside the node's store, whose lock guards the folder for both. Before anything is written the file is
checked: one that is torn, of a newer Vinecast, of another program or of another node is left as it is, with
one sentence about it. Its pages are not all read at the start, since that would take as long as the streams
are large; but every event is checked against its content id when it is read.

Write-ahead log, ``synchronous = FULL``: what was committed is safe, even against a power failure. Reading has
a connection of its own (``node/storage/streams_reader``).
"""

from collections.abc import Collection
from pathlib import Path

from vinecast.core.log.stream_buffer import FORGOTTEN_MAX
from vinecast.node.storage.sqlite_file import IDENTITY, FileKind, check_owner, make_file, roll_back
from vinecast.node.storage.streams_batch import ExpiredEvent, WriteBatch, row_of
from vinecast.node.storage.streams_reader import StreamsReader, connect, explained

FILE_NAME = "streams.db"
APPLICATION = 0x56494E53
"""VINS: written into the file's header, so that another database is not taken for this one."""
CACHE_KIB = 8192
"""Of the page cache (ours): the index by content id is written all over."""
LOG_PAGES = 2000
"""Of the write-ahead log before its pages are copied to their places (ours)."""

_SCHEMAS = (
    IDENTITY
    + """
    CREATE TABLE streams (
        number INTEGER PRIMARY KEY, topic TEXT NOT NULL UNIQUE,
        first INTEGER NOT NULL, last INTEGER NOT NULL, floor INTEGER NOT NULL,
        events INTEGER NOT NULL, bytes INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, height INTEGER NOT NULL, kept_us INTEGER NOT NULL,
        cid BLOB NOT NULL, block BLOB NOT NULL, seal BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX events_by_cid ON events (cid);
    CREATE UNIQUE INDEX events_in_order ON events (stream, height, cid);
    CREATE TABLE heads (
        stream INTEGER NOT NULL, cid BLOB NOT NULL, height INTEGER NOT NULL, PRIMARY KEY (stream, cid)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE lacking (
        stream INTEGER NOT NULL, position INTEGER NOT NULL, parent BLOB NOT NULL,
        PRIMARY KEY (stream, position, parent)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX lacking_by_parent ON lacking (stream, parent);
    CREATE TABLE forgotten (
        number INTEGER PRIMARY KEY, stream INTEGER NOT NULL, cid BLOB NOT NULL, height INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX forgotten_in_order ON forgotten (stream);
    CREATE UNIQUE INDEX forgotten_by_cid ON forgotten (stream, cid);
    CREATE TABLE consumers (
        stream INTEGER NOT NULL, name TEXT NOT NULL, offset INTEGER NOT NULL, PRIMARY KEY (stream, name)
    ) STRICT, WITHOUT ROWID;
    """,
)
KIND = FileKind(APPLICATION, "does not hold streams of Vinecast", _SCHEMAS)


class StreamsFile:
    """An open file. Its methods block, and only one may run at a time (on any thread); ``reader`` stands for
    itself."""

    def __init__(self, folder: Path, node: bytes) -> None:
        """Open or create the file in a folder of the node with this id, or InputError."""
        self.path = str(folder / FILE_NAME)
        make_file(folder, FILE_NAME, "streams")
        self._database = connect(self.path)
        try:
            with explained(self.path):
                self._prepare(KIND.check(self._database, self.path), node)
            self.reader = StreamsReader(self.path)
        except BaseException:
            self._database.close()
            raise

    def _prepare(self, found: int, node: bytes) -> None:
        """Bring the file to today's schema, and make sure that it is this node's."""
        database = self._database
        if found:
            check_owner(database, self.path, node)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        database.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        KIND.bring_up(database, found, node)

    def commit(self, batch: WriteBatch) -> None:
        """All of this or, with a sqlite3.Error, nothing."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            if batch.gone:
                self._forget(batch.gone.values())
            self._remember(batch)
            self._database.execute("COMMIT")
        except BaseException:
            roll_back(self._database)
            raise

    def _forget(self, gone: Collection[ExpiredEvent]) -> None:
        many = self._database.executemany
        many("DELETE FROM events WHERE id = ?", [(row_of(old.stream, old.position),) for old in gone])
        places = [(old.stream, old.position) for old in gone]
        many("DELETE FROM lacking WHERE stream = ? AND position = ?", places)

    def _remember(self, batch: WriteBatch) -> None:
        many = self._database.executemany
        many("DELETE FROM forgotten WHERE stream = ? AND cid = ?", batch.forgotten)
        forgotten = [(*key, height) for key, height in batch.forgotten.items() if height]
        many("INSERT INTO forgotten (stream, cid, height) VALUES (?, ?, ?)", forgotten)
        for stream in {stream for stream, _, _ in forgotten}:
            last = "SELECT number FROM forgotten WHERE stream = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
            self._database.execute(
                f"DELETE FROM forgotten WHERE stream = ? AND number <= ({last})",
                (stream, stream, FORGOTTEN_MAX),
            )
        many("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", batch.events.values())
        lacking = [
            (stream, position, parent)
            for (stream, parent), positions in batch.lacking.items()
            for position in positions
        ]
        many("INSERT INTO lacking VALUES (?, ?, ?)", lacking)
        many(
            "DELETE FROM heads WHERE stream = ? AND cid = ?",
            [key for key, new in batch.heads.items() if not new],
        )
        heads = [(*key, height) for key, height in batch.heads.items() if height]
        many("INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", heads)
        offsets = [(*key, offset) for key, offset in batch.offsets.items() if offset]
        many("DELETE FROM consumers WHERE stream = ? AND name = ?", batch.offsets)
        many("INSERT INTO consumers VALUES (?, ?, ?)", offsets)
        many(
            """INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET
            first = excluded.first, last = excluded.last, floor = excluded.floor,
            events = excluded.events, bytes = excluded.bytes""",
            batch.rows,
        )

    def close(self) -> None:
        """Let go of the file."""
        self.reader.close()
        self._database.close()
