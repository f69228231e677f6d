"""The lake: whole at every moment, for readers and after every accident."""

import errno
import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.spark_tests import OWN_SPARK, SPARK
from vinecast.core.errors import Bug, InputError

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from vinecast.pipeline.lake import Lake, fingerprint_of
from vinecast.pipeline.tables import TABLES, USERS, LakeTable

pytestmark = SPARK

NEWER = LakeTable("users", 2, USERS.schema)


def add_users(lake: Lake, users: list[int], made_from: str = "x") -> Path:
    """Publish some users, as an executor would: with a file written by pyarrow."""
    with lake.new_generation(USERS, "them") as generation:
        pq.write_table(pa.table({"user": pa.array(users, pa.int64())}), generation.folder / "a.parquet")
        generation.commit({"from": made_from}, notes={"users": len(users)})
    return generation.folder


def users_in(lake: Lake) -> list[int]:
    """What a reader without Spark sees."""
    users: list[int] = pq.read_table(lake.path(USERS, "them")).column("user").to_pylist()
    return users


def test_a_frame_is_read_back_as_it_was_published(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    told = lake.publish(USERS, "them", spark.createDataFrame([(3,), (1,)], "user long"), {"from": "x"})
    frame = lake.read(spark, USERS, "them")
    assert sorted(row.user for row in frame.collect()) == [1, 3]
    assert (told.rows, told.version, told.fingerprint) == (2, 1, fingerprint_of({"from": "x"}))
    assert lake.published(USERS, "them") == told
    assert lake.datasets(USERS) == ["them"]


def test_partitions_come_back_with_the_declared_types(spark: SparkSession, tmp_path: Path) -> None:
    schema = StructType([StructField("user", LongType()), StructField("day", StringType())])
    table = LakeTable("visits", 1, schema, partition_by=("day",))
    lake = Lake(tmp_path)
    lake.publish(table, "them", spark.createDataFrame([(1, "01"), (2, "02")], schema), {})
    found = lake.read(spark, table, "them").select("user", "day")
    assert sorted(tuple(row) for row in found.collect()) == [(1, "01"), (2, "02")]
    assert lake.current(table, "them").rows == 2


def test_a_dataset_without_rows_is_read_as_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.new_generation(USERS, "them") as generation:
        assert generation.commit({}).rows == 0
    assert lake.read(spark, USERS, "them").collect() == []


def test_a_frame_with_other_columns_is_our_bug(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Bug, match="users has"):
        Lake(tmp_path).publish(USERS, "them", spark.range(3), {})
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_write_that_fails_leaves_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    add_users(lake, [1, 2])
    before = sorted(tmp_path.rglob("*"))
    broken = spark.range(4).selectExpr("cast(if(id = 3, raise_error('a bad user'), id) as bigint) as user")
    with pytest.raises(SparkRuntimeException, match="a bad user"):
        lake.publish(USERS, "them", broken, {})
    assert sorted(tmp_path.rglob("*")) == before
    assert users_in(lake) == [1, 2]


def test_whoever_reads_the_former_generation_can_finish(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first, second = add_users(lake, [1]), add_users(lake, [2])
    assert (first.is_dir(), users_in(lake)) == (True, [2])
    add_users(lake, [3])
    assert (first.exists(), second.is_dir(), users_in(lake)) == (False, True, [3])


def test_what_another_writer_fills_is_left_alone_and_what_a_dead_one_left_is_removed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    add_users(lake, [1])
    dead = lake.path(USERS, "them").with_name("generation-dead")
    dead.mkdir()
    (dead / "_writing").touch()
    with lake.new_generation(USERS, "them") as other:
        add_users(lake, [2])
        assert (other.folder.is_dir(), dead.exists()) == (True, False)
    assert not other.folder.exists()
    assert users_in(lake) == [2]


def test_a_generation_is_never_met_without_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody publishes just before we lock what we are about to fill."""
    lake, lock = Lake(tmp_path), fcntl.flock

    def late(*given: Any) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        add_users(lake, [1])
        lock(*given)

    monkeypatch.setattr(fcntl, "flock", late)
    with lake.new_generation(USERS, "them") as generation:
        assert generation.folder.is_dir()


def test_what_others_publish_while_we_sweep_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, unlink = Lake(tmp_path), Path.unlink
    add_users(lake, [1])

    def late(path: Path, **more: Any) -> None:
        monkeypatch.setattr(Path, "unlink", unlink)
        unlink(path, **more)
        add_users(lake, [3])

    monkeypatch.setattr(Path, "unlink", late)
    add_users(lake, [2])
    assert users_in(lake) == [3]


def test_made_from_the_same_is_fresh(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert not lake.is_fresh(USERS, "them", {"from": "x"})
    add_users(lake, [1], "x")
    assert lake.is_fresh(USERS, "them", {"from": "x"})
    assert not lake.is_fresh(USERS, "them", {"from": "y"})
    assert fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    assert lake.current(USERS, "them").notes == {"users": 1}


def test_what_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    add_users(lake, [1])
    with pytest.raises(InputError, match=r"no dataset 'others' of users \(there: 'them'\)"):
        lake.current(USERS, "others")


def test_a_newer_lake_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.new_generation(NEWER, "them") as generation:
        generation.commit({})
    with pytest.raises(InputError, match=r"users: 'them' was written by a newer Vinecast \(version 2 "):
        lake.path(USERS, "them")
    with pytest.raises(InputError, match=r"users: 'them' was written by a newer Vinecast"):
        add_users(lake, [1])
    assert not list((tmp_path / "users" / "v1").glob("*/*")), "nor is anything written beside it"


@pytest.mark.parametrize("name", ["lake.json", "users/v1/them/current.json"])
def test_a_lake_of_a_newer_format_is_neither_read_nor_written(tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path)
    add_users(lake, [1])
    path = tmp_path / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2, "more": True}))
    before = sorted(tmp_path.rglob("*"))
    sentence = rf"{path.name}: the lake is of format 2, newer than this Vinecast's 1"
    with pytest.raises(InputError, match=sentence):
        lake.path(USERS, "them")
    with pytest.raises(InputError, match=sentence):
        add_users(lake, [2])
    assert sorted(tmp_path.rglob("*")) == before


def test_an_older_table_is_made_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    add_users(lake, [1])
    with pytest.raises(InputError, match=r"written by an older Vinecast .* make it again"):
        lake.path(NEWER, "them")


def test_a_broken_pointer_is_one_sentence(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    pointer = add_users(lake, [1]).with_name("current.json")
    pointer.write_text("{")
    with pytest.raises(InputError, match=r"current\.json: the pointer cannot be read"):
        lake.path(USERS, "them")


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "x" * 101, "ä"])
def test_a_dataset_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="a dataset's name"):
        Lake(tmp_path).published(USERS, name)


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    add_users(lake, [1])

    def fill() -> None:
        with lake.new_generation(USERS, "them") as generation:
            (generation.folder / "a.parquet").write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match="users/v1/them: no space is left on the disk; what was there"):
        fill()
    assert users_in(lake) == [1]
    assert len(list(lake.path(USERS, "them").parent.iterdir())) == 2


@OWN_SPARK
def test_a_really_full_disk_in_a_task_of_spark(tmp_path: Path) -> None:
    """A file system of one megabyte, in a mount namespace of its own."""
    job = (
        "import sys; from pathlib import Path\n"
        "from vinecast.cli import main\n"
        "sys.exit(main(['pipeline', 'ingest', 'edges', sys.argv[1], '--as', 'them', '--lake', sys.argv[2],\n"
        "  '--memory', '1g', '--master', 'local[1]']))\n"
    )
    edges = tmp_path / "edges.txt"
    edges.write_text("".join(f"{i} {i * 7919 % 100_003}\n" for i in range(300_000)))
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = f"mount -t tmpfs -o size=1m none '{disk}'"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mounted], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small file system")
    command = f"{mounted} && exec '{sys.executable}' -c \"$1\" '{edges}' '{disk}/lake'"
    told = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, "sh", job], capture_output=True, text=True, timeout=300
    )
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("vinecast: ")
    assert "no space is left on the disk" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_every_table_is_declared_under_its_own_name() -> None:
    assert all(name == table.name for name, table in TABLES.items())
    for table in TABLES.values():
        assert set(table.partition_by) <= set(table.schema.fieldNames())
