"""The trace on disk: whole lines, bounded, and a node that goes on whatever the disk does."""

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from support.node.live import live, until
from vinecast.core.errors import InputError
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.core.trace_lines import SUFFIX, TraceHeading, heading_line, read_line
from vinecast.node.api.node import Node
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage import trace_files
from vinecast.node.storage.trace_files import FILES, LOST, RETRY_US, WRITTEN, TraceFiles

NODE, OTHER = bytes([0xAB]) * 32, bytes([0xCD]) * 32
HEADING = TraceHeading(NODE, "poldercast", 1_000_000)
BYTES_MAX = 8 * 1024


def record(time_us: int, node: bytes = NODE) -> NamedRecord:
    return NamedRecord(time_us, node, TraceKind.SENT, OTHER, "cyclon.request", size=9)


def opened(folder: Path, node: bytes = NODE) -> TraceFiles:
    return TraceFiles(folder, HEADING._replace(node=node), BYTES_MAX)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def times(folder: Path) -> list[int]:
    """The times of all records of all files, in order; every file begins with its heading."""
    found = []
    for path in sorted(folder.iterdir()):
        heading, *lines = path.read_text().splitlines()
        assert heading + "\n" == heading_line(HEADING)
        records = [read_line(line) for line in lines]
        found += [one.time_us for one in records if isinstance(one, NamedRecord)]
    return found


def test_what_is_written_is_there_a_second_later_and_all_of_it_at_the_end(tmp_path: Path) -> None:
    files = opened(tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    files.write([record(trace_files.WRITE_US)])
    files.write([record(trace_files.WRITE_US + n) for n in range(1, 4)])
    assert times(folder) == [trace_files.WRITE_US]
    files.write([record(2 * trace_files.WRITE_US)])
    assert len(times(folder)) == 5
    files.write([record(2 * trace_files.WRITE_US + 1)])
    files.close()
    assert len(times(folder)) == files.counters[WRITTEN] == 6
    assert names(folder)[0] == f"{NODE.hex()[:16]}-00000001{SUFFIX}"


def test_the_oldest_go_so_that_all_files_of_a_node_stay_within_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "BUFFER_BYTES", 600)
    other = opened(tmp_path / "t", OTHER)
    other.close()
    files = opened(tmp_path / "t")
    for n in range(300):
        files.write([record(n)])
        own = [path for path in (tmp_path / "t").iterdir() if path.name.startswith(NODE.hex()[:16])]
        assert sum(path.stat().st_size for path in own) <= BYTES_MAX
        assert all(path.stat().st_size <= BYTES_MAX // FILES for path in own)
    files.close()
    (tmp_path / "t" / f"{OTHER.hex()[:16]}-00000001{SUFFIX}").unlink()
    found = times(tmp_path / "t")
    assert found == list(range(300 - len(found), 300))
    assert len(found) > 20


def test_a_restart_begins_a_file_and_the_bound_holds_over_all(tmp_path: Path) -> None:
    for n in range(12):
        files = opened(tmp_path)
        files.write([record(10 * n + i) for i in range(4)])
        files.close()
    assert names(tmp_path)[-1] == f"{NODE.hex()[:16]}-00000012{SUFFIX}"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= BYTES_MAX
    assert times(tmp_path)[-1] == 113
    (tmp_path / f"{NODE.hex()[:16]}-x{SUFFIX}").write_text("somebody else's")
    opened(tmp_path).close()


def test_more_than_a_file_holds_at_once_is_divided(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write([record(n) for n in range(20)])
    files.close()
    assert times(tmp_path) == list(range(20))
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= BYTES_MAX // FILES


@pytest.mark.parametrize("make", ["file", "under a file", "no name"])
def test_a_folder_that_cannot_be_written_is_said_so(tmp_path: Path, make: str) -> None:
    (tmp_path / "file").write_text("")
    file = tmp_path / "file"
    folder = {"file": file, "under a file": file / "t", "no name": Path("a\0b")}[make]
    with pytest.raises(InputError, match=r"trace_folder .*: cannot be written") as told:
        opened(folder)
    assert "\n" not in str(told.value)


class FullDisk:
    """Takes so many bytes of a write, and fails."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        self._file.write(data[:5])
        self._file.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_full_disk_is_said_once_and_counted_and_tried_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = opened(tmp_path)
    files._file = FullDisk(files._file)  # type: ignore[assignment]
    second = trace_files.WRITE_US
    with caplog.at_level(logging.WARNING):
        files.write([record(second), record(second)])
        files.write([record(2 * second)])
        files.write([record(3 * second)])
    (warning,) = caplog.records
    assert f"cannot be written to {tmp_path} (No space left on device)" in warning.getMessage()
    assert (files.counters[LOST], files.counters[WRITTEN]) == (4, 0)
    files.write([record(second + RETRY_US)])
    files.close()
    assert (files.counters[LOST], files.counters[WRITTEN]) == (4, 1)
    first, second_file = sorted(tmp_path.iterdir())
    assert (
        first.read_text() == heading_line(HEADING) + '{"tim'
    )  # what is left of a line is the last of its file
    assert len(second_file.read_text().splitlines()) == 2


def test_a_node_writes_its_trace(tmp_path: Path) -> None:
    seen: list[NamedRecord] = []

    async def main() -> None:
        config = NodeConfig(period_s=0.05, trace_folder=str(tmp_path / "traces"))
        node = Node(config=config)
        node.trace_to(seen.extend)
        async with node, node.subscribe("news") as subscription:
            await node.publish("news", b"1", durable=False)
            await anext(subscription)
            await until(lambda: len(seen) >= 4)
            assert node.stats()["counters"].get(LOST) is None

    live(main())
    kinds = [one.kind for one in seen]
    assert kinds[0] is TraceKind.JOINED
    assert kinds[-1] is TraceKind.LEFT
    assert {TraceKind.PUBLISHED, TraceKind.DELIVERED} <= set(kinds)
    (path,) = (tmp_path / "traces").iterdir()
    heading, *lines = map(read_line, path.read_text().splitlines())
    assert lines == seen
    assert isinstance(heading, TraceHeading)
    assert (heading.node, heading.system, heading.period_us) == (seen[0].node, "poldercast", 50_000)


def test_a_node_without_a_folder_leaves_none() -> None:
    async def main() -> None:
        async with Node(config=NodeConfig(period_s=0.05)) as node:
            assert node._peer.tracing is None

    live(main())
