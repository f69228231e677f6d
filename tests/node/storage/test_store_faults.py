"""The store where crashes, damage, other programs and full disks are."""

import asyncio
import signal
import sqlite3
from pathlib import Path

import pytest

from support.node.node_store import NODE, OTHER, filled, look, other_process, refusal, with_store
from vinecast.core.errors import InputError
from vinecast.node.storage.store import Store, StoreConfig
from vinecast.node.storage.store_file import FILE_NAME, KIND

# Crashes


@pytest.mark.parametrize("lines", [1, 2, 40, 700])
def test_a_killed_process_loses_nothing_that_was_durable(tmp_path: Path, lines: int) -> None:
    process = other_process(
        tmp_path,
        """
        store = await Store.open(folder, NODE, StoreConfig(sequence_block=16))
        store.mark_on(1_000_000)
        for i in range(1_000_000):
            number = await store.next_sequence()
            store.add_subscription(f"t/{i % 50}")
            store.add_peer(i.to_bytes(32), Address("h", 1), i)
            store.mark_still_on(1_000_000 + i)
            if i % 10 == 0:
                await store.durable()
                say(number, i, "durable")
            else:
                say(number, i)
        """,
    )
    assert process.stdout is not None
    said = [process.stdout.readline().split() for _ in range(lines)]
    process.kill()
    said += [line.split() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    last = max(int(words[1]) for words in said if words[2:])

    async def check(store: Store) -> None:
        assert await store.next_sequence() > max(int(words[0]) for words in said)
        assert set(store.subscriptions()) >= {f"t/{i % 50}" for i in range(last + 1)}
        assert store.peers()[0].seen_us >= last
        (session,) = store.sessions()
        assert session.on_us == 1_000_000
        assert session.last_us >= 1_000_000 + last
        assert not session.graceful
        store.mark_on(9_000_000)
        store.mark_still_on(9_500_000)
        *_, final = store.online(9_900_000)
        assert final == (9_000_000, 9_500_000)

    with_store(tmp_path, check)


# Files that are not ours to use


def test_damage_is_reported_and_left_alone(tmp_path: Path) -> None:
    file = filled(tmp_path)
    whole = file.read_bytes()
    assert len(whole) > 5 * 4096
    pages = [(start, start + 4096) for start in range(0, len(whole), 4096)]
    for start, end in ((0, 16), (100, len(whole)), *pages):
        file.write_bytes(whole[:start] + b"\xa5" * (end - start) + whole[end:])
        assert "is damaged; it was left as it is" in refusal(tmp_path)
    file.write_bytes(whole[: len(whole) // 2])
    assert "is damaged; it was left as it is" in refusal(tmp_path)
    file.write_bytes(b"not a database, and longer than its header would be" * 9)
    assert "is damaged" in refusal(tmp_path)
    file.write_bytes(whole)
    assert len(with_store(tmp_path, look)[0]) == 300


def execute(file: Path, sql: str) -> None:
    database = sqlite3.connect(file)
    database.execute(sql)
    database.commit()
    database.close()


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    file = filled(tmp_path)
    execute(file, f"PRAGMA user_version = {KIND.schema + 1}")
    assert f"newer Vinecast (its schema is {KIND.schema + 1}, this one knows {KIND.schema})" in refusal(
        tmp_path
    )


def test_another_nodes_store_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    assert "belongs to another node, 0000000000000000… and not 0101" in refusal(tmp_path, OTHER)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    execute(tmp_path / FILE_NAME, "CREATE TABLE precious (data)")
    assert "is not a store of Vinecast" in refusal(tmp_path)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, message in (
        (tmp_path / "file", "is not a folder"),
        (tmp_path / "file" / "in", "cannot keep"),
    ):
        with pytest.raises(InputError, match=message):
            asyncio.run(Store.open(folder, NODE))


def test_one_folder_one_process(tmp_path: Path) -> None:
    holder = other_process(
        tmp_path,
        """
        store = await Store.open(folder, NODE)
        say("open")
        await asyncio.sleep(60)
        """,
    )
    with holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(InputError, match="is in use by another node"):
                asyncio.run(Store.open(tmp_path, NODE))  # the holder may be writing: bytes prove nothing
        finally:
            holder.kill()

    async def hold(store: Store) -> str:
        with pytest.raises(InputError, match="is in use by another node"):
            await Store.open(tmp_path, NODE)
        second = other_process(tmp_path, "await Store.open(folder, NODE)")
        said, _ = await asyncio.to_thread(second.communicate)
        await store.durable()
        return said

    assert "is in use by another node" in with_store(tmp_path, hold)


# A disk that fails


def test_a_full_disk_is_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite's own limit on pages takes the very path of a full disk."""

    async def main(store: Store) -> None:
        disk = store._writer._file._database
        store.add_subscription("before")
        await store.durable()
        disk.execute("PRAGMA max_page_count = 1")  # no page more than there are
        store.put_meta("k", bytes(100_000))
        store.add_subscription("during")
        for failures in (1, 2):
            with pytest.raises(InputError, match="the disk is full"):
                await store.durable()
            assert store.counters["commits failed"] >= failures
        assert store.trouble is not None
        assert "the disk is full" in store.trouble
        assert store.subscriptions() == ["before", "during"]
        assert await store.next_sequence() == 0  # reserved before
        disk.execute("PRAGMA max_page_count = 1000000")
        async with asyncio.timeout(30):
            while store.trouble is not None:  # it is tried again by itself
                await asyncio.sleep(0.001)

    with_store(tmp_path, main, StoreConfig(commit_after_s=3600, retry_s=0.001, retry_s_max=0.01))
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert with_store(tmp_path, look)[0] == ["before", "during"]


def test_closing_on_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    async def main(store: Store) -> None:
        for _ in range(5):
            await store.next_sequence()
        store.add_subscription("before")
        await store.durable()
        store._writer._file._database.execute("PRAGMA max_page_count = 1")
        store.put_meta("k", bytes(100_000))

    with_store(tmp_path, main, StoreConfig(commit_after_s=3600, sequence_block=64))

    async def after(store: Store) -> None:
        assert store.subscriptions() == ["before"]
        assert store.meta("k") is None
        assert await store.next_sequence() == 64  # the block was given up, none of it is used twice

    with_store(tmp_path, after)


def test_numbers_that_cannot_be_reserved_are_not_given(tmp_path: Path) -> None:
    async def main(store: Store) -> None:
        disk = store._writer._file._database
        disk.execute("PRAGMA query_only = ON")
        assert [await store.next_sequence() for _ in range(8)] == list(range(8))
        for _ in range(3):
            with pytest.raises(InputError, match="cannot be used"):
                await store.next_sequence()
        disk.execute("PRAGMA query_only = OFF")
        assert await store.next_sequence() == 8

    with_store(tmp_path, main, StoreConfig(commit_after_s=3600, sequence_block=8))


def test_a_disk_that_is_full_at_the_start(tmp_path: Path) -> None:
    process = other_process(
        tmp_path,
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        await Store.open(folder, NODE)
        """,
    )
    said, _ = process.communicate()
    assert said.startswith("InputError: the store ")
    assert process.returncode == 0
    with_store(tmp_path, look)  # with room again, it is as if nothing had been
