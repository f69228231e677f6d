"""Writing a record: segments in order, within the bound, whole even where a disk takes a part at a time."""

import random
from pathlib import Path
from typing import Any

import pytest

from vinecast.core.errors import InputError
from vinecast.node.storage.record_folder import find_segments, read_segments
from vinecast.node.storage.record_writer import RecordWriter, segments_in
from vinecast.peer.record.segment import SegmentHeader, SegmentReader, begin_segment, pack_part, read_header

KEY = bytes(range(32))


def header(number: int, public: bytes = KEY, life: str = "1") -> SegmentHeader:
    given: dict[str, Any] = {
        "version": "0",
        "code": "",
        "python": "3",
        "network": "test",
        "public": public,
        "seed": 1,
        "config": {},
        "limits": [],
        "with_payloads": True,
        "life": life,
        "number": number,
        "begins_at": 1,
    }
    return SegmentHeader(**given)


def written(folder: Path, bytes_max: int, segments: int, parts: list[bytes]) -> list[int]:
    """Write segments with these parts; what would have been needed, where there was no room."""
    stopped: list[str] = []
    crowded: list[int] = []
    writer = RecordWriter(folder, KEY, bytes_max, stopped.append, crowded.append)
    for _ in range(segments):
        writer.begin(header(0), b"snapshot")
        for part in parts:
            writer.write([part], len(part))
    writer.close()
    assert not stopped
    assert not writer.waiting
    return crowded


def test_segments_go_on_where_the_last_run_ended(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("of somebody else")
    (tmp_path / "x.segment").write_text("no number")
    assert not written(tmp_path / "record", 1 << 20, 2, [b"a", b"b"])
    assert not written(tmp_path / "record", 1 << 20, 1, [b"c"])
    assert [path.name for path in find_segments(tmp_path)] == [f"0000000{n}.segment" for n in (1, 2, 3)]
    assert [data for _, data in read_segments(tmp_path)] == [
        begin_segment(header(1), b"snapshot") + b"ab",
        begin_segment(header(2), b"snapshot") + b"ab",
        begin_segment(header(3), b"snapshot") + b"c",
    ]
    assert SegmentReader("1", begin_segment(header(1), b"snapshot")).snapshot == b"snapshot"


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    assert not written(tmp_path / "record", 1 << 20, 1, [b"a"])
    (segment,) = find_segments(tmp_path)
    assert [path.stat().st_mode & 0o777 for path in (segment.parent, segment)] == [0o700, 0o600]


def test_the_oldest_go(tmp_path: Path) -> None:
    part = pack_part(bytes(1000))
    assert not written(tmp_path, 10_000, 20, [part, part])
    kept = segments_in(tmp_path)
    assert [int(path.stem) for path in kept] == [17, 18, 19, 20]
    assert sum(path.stat().st_size for path in kept) <= 10_000


def test_where_there_is_no_room_a_run_is_over(tmp_path: Path) -> None:
    part = pack_part(bytes(1000))
    begins = len(begin_segment(header(1), b"snapshot"))
    (needed,) = written(tmp_path, 10_000, 2, [part] * 20)
    room = (10_000 - begins) // len(part)
    assert needed == begins + (room + 1) * len(part)
    (kept,) = segments_in(tmp_path)
    assert kept.stat().st_size == begins + room * len(part) <= 10_000

    crowded: list[int] = []
    writer = RecordWriter(tmp_path, KEY, 10_000, print, crowded.append)
    snapshot = random.Random(1).randbytes(6000)
    for life, inside in (("2", snapshot), ("2", b"small"), ("3", b"small")):
        writer.begin(header(0, life=life), inside)
        writer.write([part], len(part))
    writer.close()
    (needed,) = crowded
    assert 12_000 < needed < 13_000, "twice what it begins with"
    last = segments_in(tmp_path)[-1]
    found, _ = read_header(last.name, last.read_bytes())
    assert (found.number, found.life, last.stem) == (2, "3", "00000002")


def test_a_disk_that_takes_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        """Takes some bytes."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: memoryview) -> int:
            return int(self._file.write(data[:7]))

        def close(self) -> None:
            self._file.close()

    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", **rest: (
            Slow(opened(path, mode, **rest)) if mode == "xb" else opened(path, mode, **rest)
        ),
    )
    assert not written(tmp_path, 1 << 20, 1, [bytes(range(100))])
    (found,) = read_segments(tmp_path)
    assert found[1].endswith(bytes(range(100)))


def test_a_folder_of_another_node(tmp_path: Path) -> None:
    assert not written(tmp_path, 1 << 20, 1, [])
    with pytest.raises(InputError, match="the record of another node"):
        RecordWriter(tmp_path, bytes(32), 1 << 20, print, print)
    (tmp_path / "00000002.segment").write_bytes(b"vinecast record 9\n...")
    RecordWriter(tmp_path, bytes(32), 1 << 20, print, print).close()  # of another version: nobody's
