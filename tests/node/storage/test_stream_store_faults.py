"""Streams on disk where the disk fails: damage and files of others are reported, a full disk is survived."""

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.node.stream_store import NEVER_ALONE, NODE, NOW, OTHER, look, with_store
from support.stream_events import chain, event
from vinecast.core.errors import InputError
from vinecast.core.log.streams import EMPTY, StreamState
from vinecast.node.storage.streams_file import FILE_NAME, KIND
from vinecast.node.storage.streams_store import REFUSED, StreamStore, StreamStoreConfig


def refusal(folder: Path, node: bytes = NODE) -> str:
    """What opening the streams says, having changed no byte of them."""
    file = folder / FILE_NAME
    before = file.read_bytes()
    with pytest.raises(InputError) as caught:
        asyncio.run(StreamStore.open(folder, node))
    assert file.read_bytes() == before
    return str(caught.value)


def execute(file: Path, sql: str) -> None:
    database = sqlite3.connect(file)
    database.execute(sql)
    database.commit()
    database.close()


# Files that are not ours to use


def filled(folder: Path) -> Path:
    async def fill(store: StreamStore) -> None:
        store.keep(chain(300, say=bytes(100)), NOW)
        store.ack("c", "t", 7)

    with_store(folder, fill)
    return folder / FILE_NAME


async def read_all(store: StreamStore) -> int:
    store.offset("c", "t")
    return len(store.after("t", 0, 999)) + len(store.in_order("t", (0, b""), 999))


def test_damage_is_reported_and_left_alone(tmp_path: Path) -> None:
    """At once, or when what is damaged is read; never is anything else handed out."""
    file = filled(tmp_path)
    whole = file.read_bytes()
    for start, end in ((0, 16), (100, len(whole)), (100, 4096)):
        file.write_bytes(whole[:start] + b"\xa5" * (end - start) + whole[end:])
        assert "is damaged; it was left as it is" in refusal(tmp_path)
    for length in (len(whole) // 2, 5000, 4096):
        file.write_bytes(whole[:length])
        assert "is damaged; it was left as it is" in refusal(tmp_path)
    file.write_bytes(b"not a database, and longer than its header would be" * 9)
    assert "is damaged" in refusal(tmp_path)
    answers = []
    for start in range(4096, len(whole), 4096):
        torn = whole[:start] + b"\xa5" * 4096 + whole[start + 4096 :]
        file.write_bytes(torn)
        try:
            answers.append(str(with_store(tmp_path, read_all)))  # nothing of this page was needed
        except InputError as error:
            answers.append(str(error))
        assert file.read_bytes() == torn
    complaint = f"the store {file} is damaged; it was left as it is: restore it from a copy or move it away"
    assert set(answers) == {"600", complaint}
    assert answers.count(complaint) > len(answers) / 2
    file.write_bytes(whole)
    assert with_store(tmp_path, read_all) == 600


def test_a_flipped_bit_in_an_event_is_found(tmp_path: Path) -> None:
    file = filled(tmp_path)
    whole = file.read_bytes()
    at = whole.index(b"payload" + bytes([0x58, 100])) + 50
    file.write_bytes(whole[:at] + b"\x01" + whole[at + 1 :])
    with pytest.raises(InputError, match="is damaged; it was left as it is"):
        with_store(tmp_path, read_all)


def test_what_is_damaged_is_sent_to_nobody_and_all_else_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = chain(300, say=bytes(100))
    file = filled(tmp_path)
    whole = file.read_bytes()
    at = whole.index(b"payload" + bytes([0x58, 100])) + 50
    file.write_bytes(whole[:at] + b"\x01" + whole[at + 1 :])

    async def read(store: StreamStore) -> None:
        there = [signed for signed in events if store.get(signed.cid) == signed]
        assert len(there) == 299
        assert [one.signed for one in store.in_order("t", (0, b""), 999)] == there

    with_store(tmp_path, read)
    assert len([line for line in caplog.messages if "is damaged in" in line]) == 1


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    file = filled(tmp_path)
    execute(file, f"PRAGMA user_version = {KIND.schema + 1}")
    assert f"newer Vinecast (its schema is {KIND.schema + 1}, this one knows {KIND.schema})" in refusal(
        tmp_path
    )


def test_another_nodes_streams_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    assert "belongs to another node, 0000000000000000… and not 0101" in refusal(tmp_path, OTHER)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    execute(tmp_path / FILE_NAME, "CREATE TABLE precious (data)")
    assert "does not hold streams of Vinecast" in refusal(tmp_path)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, message in (
        (tmp_path / "file", "is not a folder"),
        (tmp_path / "file" / "in", "cannot keep"),
    ):
        with pytest.raises(InputError, match=message):
            asyncio.run(StreamStore.open(folder, NODE))


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    async def modes(store: StreamStore) -> set[int]:
        return {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()}

    assert with_store(tmp_path / "a", modes) == {0o600}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


# A disk that fails


def test_a_full_disk_is_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite's own limit on pages takes the very path of a full disk."""
    events = chain(40, say=bytes(1000))

    async def main() -> None:
        told: list[bytes] = []
        config = StreamStoreConfig(0.001, 20_000, retry_s=0.001, retry_s_max=0.01)
        store = await StreamStore.open(tmp_path, NODE, config, told.extend)
        disk = store._writer._file._database
        store.keep(events[:2], NOW)
        await store.durable()
        disk.execute("PRAGMA max_page_count = 1")  # no page more than there are
        store.keep(events[2:12], NOW)
        for failures in (1, 2):
            with pytest.raises(InputError, match="the disk is full"):
                await store.durable()
            assert store.counters["commits failed"] >= failures
        store.keep(events[12:30], NOW)
        store.keep(events[30:], NOW)
        assert store.counters[REFUSED] == 10
        assert store.trouble is not None
        assert "the disk is full" in store.trouble
        assert told == [one.cid for one in events[:2]]
        assert [one.signed for one in store.after("t", 0, 99)] == events[:30]
        disk.execute("PRAGMA max_page_count = 1000000")
        async with asyncio.timeout(30):
            await store.room()  # it is tried again by itself
        await store.durable()
        assert told == [one.cid for one in events[:30]]
        await store.close()

    asyncio.run(main())
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert with_store(tmp_path, look) == StreamState((events[29].cid,), 1, 30, 0)


def test_closing_on_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    events = chain(20, say=bytes(1000))

    async def main(store: StreamStore) -> None:
        store.keep(events[:2], NOW)
        await store.durable()
        store._writer._file._database.execute("PRAGMA max_page_count = 1")
        store.keep(events[2:], NOW)

    with_store(tmp_path, main, NEVER_ALONE)
    assert with_store(tmp_path, look) == StreamState((events[1].cid,), 1, 2, 0)


def test_a_disk_that_is_full_at_the_start(tmp_path: Path) -> None:
    script = """
import asyncio, resource, sys
from pathlib import Path
from vinecast.core.errors import InputError
from vinecast.node.storage.streams_store import StreamStore

resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    asyncio.run(StreamStore.open(Path(sys.argv[1]), bytes(32)))
except InputError as error:
    print("InputError:", error)
"""
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.startswith("InputError: the store ")
    assert with_store(tmp_path, look) == EMPTY  # with room again, it is as if nothing had been


# A file that cannot be read for a while


def test_of_an_event_all_is_noted_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, lacked = (chain(1, say=say)[0] for say in (b"1", b"2", b"3"))
    merge, other = event(lacked, second, say=b"4"), event(first, say=b"5")

    async def use(store: StreamStore) -> None:
        store.keep([first], NOW)
        await store.durable()
        reader = store._reader
        locate = reader.locate

        def fail(cid: bytes) -> tuple[int, int]:
            if cid == second.cid:
                raise InputError("the disk cannot be read")
            return locate(cid)

        monkeypatch.setattr(reader, "locate", fail)
        with pytest.raises(InputError):
            store.keep([other, merge], NOW)
        assert store.position_of(other.cid) == 2
        assert store.position_of(merge.cid) == 0
        assert not store._writer.noted.lacking
        await asyncio.wait_for(store.durable(), 10)
        monkeypatch.undo()
        store.keep([second, merge], NOW)
        assert [one.position for one in store.after("t", 0, 9)] == [1, 2, 3, 4]
        assert list(store._writer.noted.lacking.values()) == [[4]]
        await store.durable()
        assert set(store.state("t").heads) == {other.cid, merge.cid}

    with_store(tmp_path, use)
