"""The command ``vinecast replay``: what it says of a record, and of what is none."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.recorded_peers import TOPICS, record
from vinecast.cli import main
from vinecast.lab.localnet.replays import replay_all
from vinecast.node.runtime.recorder import code_digest
from vinecast.peer.record.entry import RecordEntry, write_entry
from vinecast.peer.record.segment import SegmentReader, begin_segment, pack_part

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def segments() -> list[bytes]:
    """The record of one peer, as if it had been live here."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        every = record(monkeypatch, "poldercast", every=150)
    readers = [SegmentReader("1", one) for one in every]
    life = readers[0].header.life
    return [rebuilt(reader) for reader in readers if reader.header.life == life]


def rebuilt(reader: SegmentReader, **changes: Any) -> bytes:
    header = msgspec.structs.replace(reader.header, **{"code": code_digest(), **changes})
    entries = b"".join(pack_part(write_entry(entry, None)) for _, entry in reader.entries())
    return begin_segment(header, reader.snapshot) + entries


def with_entries(segment: bytes, entries: list[RecordEntry]) -> bytes:
    reader = SegmentReader("1", segment)
    return begin_segment(reader.header, reader.snapshot) + b"".join(
        pack_part(write_entry(entry, None)) for entry in entries
    )


@pytest.fixture
def folder(tmp_path: Path, segments: list[bytes]) -> Path:
    """The folder of a node that was recorded."""
    (tmp_path / "record").mkdir()
    write(tmp_path / "record", segments)
    return tmp_path


def write(folder: Path, segments: list[bytes]) -> None:
    for number, segment in enumerate(segments, 1):
        (folder / f"{number:08d}.segment").write_bytes(segment)


def sentence(capture: Capture) -> str:
    """What is said on standard error: one sentence, but for the one that asks for patience."""
    said = [line for line in capture.readouterr().err.splitlines() if "takes a while" not in line]
    assert len(said) == 1, said
    return said[0]


def test_what_happened_and_whether_it_is_the_same(folder: Path, capsys: Capture) -> None:
    for place in (folder, folder / "record"):
        assert main(["replay", str(place)]) == 0
        said = capsys.readouterr().out
        for word in ("yes, bit for bit", "FrameCame", "published here", "in network test", "nobody"):
            assert word in said
    assert main(["replay", str(folder / "record" / "00000002.segment")]) == 0
    assert "1 segment of 1 run" in capsys.readouterr().out


def test_as_json(folder: Path, capsys: Capture) -> None:
    assert main(["replay", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["same"]
    assert told["different"] == 0
    assert told["cut_off"] is None
    assert told["runs"] == 1
    assert told["entries"] == sum(told["inputs"].values())
    assert told["inputs"]["NodeBegins"] == 1
    assert told["published"] > 5
    assert told["delivered"] > 5
    assert told["seconds"] > 5


def test_step_by_step(folder: Path, capsys: Capture) -> None:
    assert main(["replay", str(folder), "--step", "--to", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "node begins: address 10.0.0.0:7000" in lines[0]
    assert lines[0].split()[:3] == ["1", "0.000000", "s"]
    assert any(line.strip().startswith("→ card renewed: version ") for line in lines[:10])
    numbers = [line.split()[0] for line in lines if " s  " in line[:26]]
    assert numbers == ["1", "2", "3"]


@pytest.mark.parametrize(("given", "first", "last"), [(["200", "203"], 200, 203), (["160", "160"], 160, 160)])
def test_a_part_by_the_numbers_of_entries(
    folder: Path, capsys: Capture, given: list[str], first: int, last: int
) -> None:
    assert main(["replay", str(folder), "--step", "--json", "--from", given[0], "--to", given[1]]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["entry"] for step in steps] == list(range(first, last + 1))
    assert all(step["segment"] == "00000002.segment" for step in steps)


def test_a_part_by_times(folder: Path, capsys: Capture) -> None:
    assert main(["replay", str(folder), "--step", "--json", "--from", "2.5s", "--to", "3s"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert len(steps) > 5
    assert all(2.5 <= step["seconds"] < 3 for step in steps)
    assert any(TOPICS[0] in step["input"] for step in steps)
    assert all(step["same"] for step in steps)


def test_a_difference(folder: Path, segments: list[bytes], capsys: Capture) -> None:
    entries = [entry for _, entry in SegmentReader("1", segments[1]).entries()]
    at = next(at for at, entry in enumerate(entries) if at > 10 and entry.digest)
    entries[at] = entries[at]._replace(digest=bytes(range(16)))
    write(folder / "record", [segments[0], with_entries(segments[1], entries), *segments[2:]])
    number = SegmentReader("1", segments[1]).header.begins_at + at
    assert main(["replay", str(folder)]) == 1
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"no: 1 of {sum(count(one) for one in segments):,} entries differ" in said
    assert f"the first at 00000002.segment, entry {number} (byte " in said
    assert "expected: outputs with the digest 000102030405" in said
    assert main(["replay", str(folder), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["first_difference"]["entry"] == number
    assert told["first_difference"]["expected"] == bytes(range(16)).hex()
    assert main(["replay", str(folder), "--step", "--from", str(number), "--to", str(number)]) == 1
    assert "NOT THE SAME" in capsys.readouterr().out


def count(segment: bytes) -> int:
    return len(list(SegmentReader("1", segment).entries()))


def test_a_record_that_is_cut_off(folder: Path, segments: list[bytes], capsys: Capture) -> None:
    last = sorted((folder / "record").iterdir())[-1]
    last.write_bytes(segments[-1][:-3])
    assert main(["replay", str(folder), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["entries"] == sum(map(count, segments)) - 1
    place = f"{last.name}, entry {json.loads(said.out)['entries']} (byte "
    assert place in said.err
    assert "it was replayed up to there" in said.err
    assert place in json.loads(said.out)["cut_off"]

    assert main(["replay", str(folder)]) == 0
    said = capsys.readouterr()
    table = " ".join(said.out.replace("│", " ").split())
    entries = sum(map(count, segments)) - 1
    assert f"cut off after {place}" in table
    assert f"the rest is missing; replayed up to there, {entries:,} inputs in all" in table
    assert "yes, bit for bit, up to where the record is cut off" in table

    write(folder / "record", [segments[0][:-3], *segments[1:]])
    assert main(["replay", str(folder)]) == 2
    assert "it goes on in 00000002.segment" in sentence(capsys)

    for path in sorted((folder / "record").iterdir())[1:]:
        path.unlink()
    (folder / "record" / "00000001.segment").write_bytes(segments[0][:100])
    assert main(["replay", str(folder)]) == 2
    assert "00000001.segment, its beginning (byte 18)" in sentence(capsys)


def test_what_is_missing_or_damaged(folder: Path, segments: list[bytes], capsys: Capture) -> None:
    def told() -> str:
        assert main(["replay", str(folder)]) == 2
        return sentence(capsys)

    names = sorted((folder / "record").iterdir())
    names[1].unlink()
    due = SegmentReader("1", segments[1]).header.begins_at
    assert "00000003.segment does not go on where 00000001.segment ended: it begins with entry " in told()
    write(folder / "record", [segments[1], segments[0], *segments[2:]])
    assert "00000002.segment does not go on where 00000001.segment ended" in told()
    fewer = [entry for _, entry in SegmentReader("1", segments[0]).entries()][:-4]
    write(folder / "record", [with_entries(segments[0], fewer), *segments[1:]])
    assert f"begins with entry {due} of its run, and entry {due - 4} should come then" in told()
    at = len(segments[-1]) // 2
    write(folder / "record", [*segments[:-1], segments[-1][:at] + segments[-1][at + 20 :]])
    assert f"the record is damaged at {names[-1].name}, " in told()


def test_segments_of_two_nodes(folder: Path, segments: list[bytes], capsys: Capture) -> None:
    public = bytes(reversed(SegmentReader("1", segments[0]).header.public))
    other = rebuilt(SegmentReader("1", segments[0]), public=public, life="another", number=2)
    write(folder / "record", [segments[0], other])
    (folder / "record" / "00000003.segment").unlink(missing_ok=True)
    assert main(["replay", str(folder)]) == 2
    assert "00000002.segment is of another node than 00000001.segment" in sentence(capsys)


def test_a_part_that_makes_no_sense(folder: Path, capsys: Capture) -> None:
    for given in (["--from", "5"], ["--to", "5s"], ["--step", "--from", "10", "--to", "3"]):
        assert main(["replay", str(folder), *given]) == 2
        said = sentence(capsys)
        assert ("--step" in said) == ("--step" not in given)
    assert main(["replay", str(folder), "--step", "--from", "2.5s", "--to", "0.5s"]) == 2
    assert "--to 0.5s is before --from 2.5s" in sentence(capsys)
    assert main(["replay", str(folder), "--step", "--from", "3", "--to", "3"]) == 0


def test_nodes_that_have_no_record_yet(folder: Path, segments: list[bytes]) -> None:
    """A local network that was interrupted just after it began."""
    (folder / "record").rename(folder / "node-1")
    (folder / "node-2").mkdir()
    (folder / "node-3").mkdir()
    (folder / "node-3" / "00000001.segment").write_bytes(segments[0][:40])
    found = replay_all(str(folder), 4)
    assert (found["nodes"], found["same"], found["unrecorded"], found["cut_off"]) == (1, 1, 3, 1)
    assert found["inputs"] == sum(map(count, segments))


def test_other_code(folder: Path, segments: list[bytes], capsys: Capture) -> None:
    other = [rebuilt(SegmentReader("1", one), code="0" * 32, version="0.0") for one in segments]
    write(folder / "record", other)
    assert main(["replay", str(folder)]) == 2
    said = sentence(capsys)
    assert "00000001.segment: recorded by other code (vinecast 0.0, 000000000000)" in said
    assert "--anyway" in said
    assert main(["replay", str(folder), "--anyway"]) == 0
    assert "yes, bit for bit" in capsys.readouterr().out


def test_what_is_no_record(tmp_path: Path, segments: list[bytes], capsys: Capture) -> None:
    def told(*arguments: str) -> str:
        assert main(["replay", *arguments]) == 2
        return sentence(capsys)

    assert "no such folder" in told(str(tmp_path / "nowhere"))
    assert "there is no record of a node" in told(str(tmp_path))
    (tmp_path / "file").write_text("text")
    assert "no record of a node" in told(str(tmp_path / "file"))
    write(tmp_path, [b"\x80\x04cos\nsystem\n."])
    assert "00000001.segment: this is no record of a node" in told(str(tmp_path))
    write(tmp_path, [segments[0].replace(b"vinecast record 1\n", b"vinecast record 2\n")])
    assert "00000001.segment: a record of format 2, and this vinecast reads format 1" in told(str(tmp_path))
    for when in ("x", "-1", "1e9", "nans", "1.5", "-2s"):
        assert f"'{when}' is neither an entry's number nor a time" in told(str(tmp_path), f"--from={when}")


def test_strangers_texts_do_not_reach_the_terminal_as_they_are(
    folder: Path, segments: list[bytes], capsys: Capture
) -> None:
    write(folder / "record", [rebuilt(SegmentReader("1", one), version="\x1b[2J") for one in segments])
    assert main(["replay", str(folder), "--step"]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
