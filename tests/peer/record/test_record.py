"""Records: what a peer was handed, had again, gives the same, bit for bit; and what is wrong is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from support.recorded_peers import MARKER, SYSTEMS, Differences, named, record, replayed
from vinecast.core.errors import InputError
from vinecast.core.events import TimerFired
from vinecast.peer.inputs import FrameCame, IndexCompiled, PublishTurn
from vinecast.peer.outputs import SendFrame
from vinecast.peer.record.entry import RecordEntry, read_entry, write_entry
from vinecast.peer.record.replay import replay
from vinecast.peer.record.segment import (
    BEGINS,
    HEAD_BYTES,
    CutOffError,
    SegmentHeader,
    SegmentReader,
    begin_segment,
    pack_part,
)
from vinecast.peer.record.summary import ReplaySummary
from vinecast.peer.record.words import input_in_words, output_in_words

OTHER_PROCESS = """
import sys
from pathlib import Path
from support.recorded_peers import replayed
segments = [path.read_bytes() for path in sorted(Path(sys.argv[1]).iterdir())]
shown = replayed(segments)
print(shown.entries, len(shown.found))
"""


@pytest.mark.parametrize("with_payloads", [True, False], ids=["whole", "headers"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_same_comes_out(system: str, with_payloads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = record(monkeypatch, system, with_payloads)
    shown = replayed(segments)
    assert not shown.found
    assert shown.entries > 1000
    found = sum(segment.count(MARKER) for segment in segments)
    assert found > 100 if with_payloads else not found, "payloads are there, or nowhere"


def test_the_same_comes_out_with_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = record(monkeypatch, "vitis", with_payloads=False, traced=True)
    assert not replayed(segments).found
    assert not any(MARKER in segment for segment in segments)


def test_the_same_comes_out_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other hashes of strings, and with modules that were imported in another order."""
    segments = [*record(monkeypatch, "vinifera"), *record(monkeypatch, "poldercast")]
    for number, segment in enumerate(segments):
        (tmp_path / f"{number:04d}").write_bytes(segment)
    told = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)],
        env={**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    entries, different = map(int, told.split())
    assert entries > 1000
    assert different == 0


# One segment of one peer.


@pytest.fixture(scope="module")
def segment() -> bytes:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return max(record(monkeypatch, "poldercast", every=80), key=lambda one: one.count(b"PublishTurn"))


def entries_in(segment: bytes) -> list[RecordEntry]:
    return [entry for _, entry in SegmentReader("1.segment", segment).entries()]


def rebuilt(segment: bytes, entries: list[RecordEntry], **changes: object) -> bytes:
    """A segment with other entries, or another header."""
    reader = SegmentReader("1.segment", segment)
    header = msgspec.structs.replace(reader.header, **changes)
    return begin_segment(header, reader.snapshot) + b"".join(
        pack_part(write_entry(entry, None)) for entry in entries
    )


def test_a_difference_is_found_where_it_is(segment: bytes) -> None:
    entries = entries_in(segment)
    at = next(at for at, entry in enumerate(entries) if at > 20 and isinstance(entry.what, FrameCame))
    entries[at] = entries[at]._replace(now_us=entries[at].now_us, what=TimerFired("rings"))
    shown = Differences()
    assert replay([("1.segment", rebuilt(segment, entries))], "this", shown) is None
    place, step = shown.found[0]
    first = SegmentReader("1.segment", segment).header.begins_at
    assert (place.segment, place.entry) == ("1.segment", first + at)
    assert step.digest != step.entry.digest


def test_a_difference_of_one_answer_is_found(segment: bytes) -> None:
    entries = entries_in(segment)
    at = next(at for at, entry in enumerate(entries) if len(entry.answers) > 1)
    entries[at] = entries[at]._replace(answers=entries[at].answers[:-2])
    shown = Differences()
    replay([("1.segment", rebuilt(segment, entries))], "this", shown)
    _, step = shown.found[0]
    assert "nothing more" in step.trouble


@pytest.mark.parametrize("change", ["digest", "time"])
def test_a_difference_in_what_came_out_is_found(segment: bytes, change: str) -> None:
    entries = entries_in(segment)
    at = next(at for at, entry in enumerate(entries) if at > 20 and entry.digest)
    if change == "digest":
        entries[at] = entries[at]._replace(digest=bytes(16))
    else:
        entries[at] = entries[at]._replace(what=IndexCompiled())
    shown = Differences()
    replay([("1.segment", rebuilt(segment, entries))], "this", shown)
    assert shown.found[0][0].entry == SegmentReader("1", segment).header.begins_at + at


def test_a_segment_that_is_cut_off_is_good_up_to_there(segment: bytes) -> None:
    whole = len(entries_in(segment))
    reader = SegmentReader("1.segment", segment)
    begins = reader.place.byte
    told: set[int] = set()
    for end in range(begins, len(segment), max(1, (len(segment) - begins) // 40)):
        shown = Differences()
        cut = replay([("1.segment", segment[:end])], "this", shown)
        assert not shown.found
        told.add(shown.entries)
        if cut is not None:
            assert f"entry {reader.header.begins_at - 1 + shown.entries}" in str(cut)
            assert cut.place.byte <= end
    assert len(told) > 20
    assert max(told) < whole


def places_in(segment: bytes) -> list[int]:
    """Where entries begin, and where the last one ends."""
    return [*(place.byte for place, _ in SegmentReader("1", segment).entries()), len(segment)]


def test_a_damage_with_entries_behind_it_is_refused(segment: bytes) -> None:
    *_, before, last, end = places_in(segment)
    for at in range(len(BEGINS), before - 20, max(1, before // 60)):
        flipped = segment[:at] + bytes([segment[at] ^ 4]) + segment[at + 1 :]
        for damaged in (flipped, segment[:at] + segment[at + 20 :]):
            with pytest.raises(
                InputError, match=r"damaged at 1\.segment, .* entries follow from byte"
            ) as told:
                replay([("1.segment", damaged)], "this", Differences())
            assert not isinstance(told.value, CutOffError)
    for at in range(last, end, 7):
        shown = Differences()
        cut = replay(
            [("1.segment", segment[:at] + bytes([segment[at] ^ 4]) + segment[at + 1 :])], "this", shown
        )
        assert not shown.found
        assert cut is not None
        assert cut.place.byte == last


def test_the_zeros_that_a_power_loss_leaves_are_no_entries(segment: bytes) -> None:
    begins, *_, last, end = places_in(segment)
    for at in (begins, last, last + 5, end):
        for zeros in (1, 7, 8, 4096):
            shown = Differences()
            cut = replay([("1.segment", segment[:at] + bytes(zeros))], "this", shown)
            assert cut is not None
            assert cut.place.byte in (begins, last, end)
            assert not shown.found
    header = SegmentReader("1", segment).header
    number, next_up = header.number + 1, header.begins_at + len(entries_in(segment))
    more = rebuilt(segment, [], number=number, begins_at=next_up)
    after = rebuilt(segment, [], number=number + 1, begins_at=1, life="another")
    for torn in (b"", bytes(50), more[:9], more[:9] + bytes(50), more[: len(more) // 2] + bytes(50)):
        for line in ([segment, torn], [segment, torn, after]):
            cut = replay(named(line), "this", Differences())
            assert cut is not None
            assert cut.place.segment == "00000002.segment"
        with pytest.raises(CutOffError, match="its beginning"):
            replay([("2.segment", torn)], "this", Differences())


def test_a_search_behind_a_damage_takes_no_time(segment: bytes) -> None:
    begins = SegmentReader("1", segment).place.byte
    seeming = b"\x00\x01\x00\x00\x00\x00\x00\x00" + b"\x95\xa9FrameCame"
    with pytest.raises(InputError, match="damaged"):
        replay([("1.segment", segment[:begins] + b"\xff" + seeming * 200_000)], "this", Differences())


def test_a_header_or_snapshot_that_is_cut_off_is_no_record(segment: bytes) -> None:
    end = SegmentReader("1.segment", segment).place.byte
    for at in (0, 5, len(BEGINS) - 1, len(BEGINS), len(BEGINS) + HEAD_BYTES, end // 2, end - 1):
        with pytest.raises(CutOffError, match=r"cut off, and good up to 1\.segment, its beginning"):
            replay([("1.segment", segment[:at])], "this", Differences())


def test_what_is_missing_in_the_middle_of_a_run_is_told(segment: bytes) -> None:
    first = SegmentReader("1.segment", segment).header
    entries = entries_in(segment)
    next_up = first.begins_at + len(entries)
    more = rebuilt(segment, [], number=first.number + 1, begins_at=next_up)
    other = rebuilt(segment, [], number=first.number + 1, life="another", begins_at=1)

    def told(*given: bytes) -> CutOffError | None:
        line = [(f"{number}.segment", one) for number, one in enumerate(given, 1)]
        return replay(line, "this", Differences())

    assert told(segment, more) is told(segment, other) is None
    for cut_off in (segment[:-1], segment[:2000], segment[:100]):
        with pytest.raises(InputError, match=r"goes on in 2\.segment"):
            told(cut_off, more)
        assert told(cut_off, other) is not None, "the node was killed, and began anew"
    cut = told(segment, more[:40])
    assert cut is not None
    assert cut.place.segment == "2.segment"
    for missing in (
        [segment[: places_in(segment)[-3]], more],  # whole entries
        [segment, rebuilt(segment, [], number=first.number + 2, begins_at=next_up + 1)],  # a whole segment
        [segment, rebuilt(segment, [], number=first.number + 1, begins_at=next_up - 1)],
        [segment, rebuilt(segment, [], number=first.number + 1, life="another", begins_at=9)],
        [segment, rebuilt(segment, [], number=first.number + 2, life="another", begins_at=1)],
        [more, segment],
        [other, segment],
        [segment, segment],
    ):
        with pytest.raises(InputError, match=r"^2\.segment does not go on where 1\.segment ended"):
            told(*missing)


def test_other_code_and_other_formats_are_told(segment: bytes) -> None:
    with pytest.raises(InputError, match=r"1\.segment: recorded by other code .*--anyway"):
        replay([("1.segment", segment)], "other", Differences())
    assert replay([("1.segment", segment)], None, Differences()) is None
    other = segment.replace(b"record 1\n", b"record 9\n", 1)
    with pytest.raises(InputError, match=r"1\.segment: a record of format 9"):
        replay([("1.segment", other)], "this", Differences())
    with pytest.raises(InputError, match=r"1\.segment: this is no record"):
        replay([("1.segment", b"# something else")], "this", Differences())


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"system": "nothing"}},
        {"config": {"unknown": 1}},
        {"limits": [1.0]},
        {"config": {"peers": 128}},
        {"limits": [float("inf"), 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]},
        {"seed": -1},
        {"begins_at": 0},
        {"public": b"short"},
    ],
)
def test_a_header_that_makes_no_sense_is_told(segment: bytes, changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"^1\.segment: "):
        replay([("1.segment", rebuilt(segment, [], **changes))], "this", Differences())


def test_texts_of_a_record_are_told_escaped(segment: bytes) -> None:
    odd = "\x1b[2J\u202e"
    headers: list[dict[str, object]] = [
        {"version": odd},
        {"code": odd},
        {"config": {odd: 1}},
        {"config": {"system": odd}},
    ]
    records = [rebuilt(segment, [], **given) for given in headers]
    text = pack_part(b"\x8c\xa7version\xa2\xff\xfe")
    records += [BEGINS + text, segment.replace(b"record 1\n", b"record 9\x1b[2J\n", 1)]
    for record_ in records:
        with pytest.raises(InputError) as told:
            replay([("1.segment", record_)], "other" if record_ in records[:2] else "this", Differences())
        assert str(told.value).isprintable()
        assert str(told.value).startswith("1.segment")


def test_a_snapshot_that_does_not_fit_names_its_segment(segment: bytes) -> None:
    header = SegmentReader("1.segment", segment).header
    with pytest.raises(InputError, match=r"^1\.segment: the snapshot does not fit"):
        replay([("1.segment", begin_segment(header, b"something else"))], "this", Differences())


@pytest.mark.parametrize(
    "entry",
    [
        b"\xc1",
        msgspec.msgpack.encode(["Nothing", 1, {}, [], b""]),
        msgspec.msgpack.encode(["FrameCame", 1, {"peer": 1}, [], b""]),
        msgspec.msgpack.encode(["PublishTurn", 1, b"cos\nsystem\n.", [], b""]),
        msgspec.msgpack.encode(["PublishTurn", 1, b"\x80\x04N.", [], b""]),
        msgspec.msgpack.encode(["IndexCompiled", "then", {}, [], b""]),
    ],
)
def test_an_entry_that_makes_no_sense_is_told(segment: bytes, entry: bytes) -> None:
    first = SegmentReader("1.segment", segment).header.begins_at
    data = rebuilt(segment, []) + pack_part(entry)
    with pytest.raises(InputError, match=rf"makes no sense at 1\.segment, entry {first} "):
        replay([("1.segment", data)], "this", Differences())


def test_answers_that_make_no_sense_are_a_difference(segment: bytes) -> None:
    entries = entries_in(segment)
    at = next(at for at, entry in enumerate(entries) if 5 in entry.answers[::2])  # the state of a stream
    for answers in ([5], [5, None], ["x", 1], [99, 1], [5, [1, 2]], [-5, ["InputError", "no"]]):
        entries[at] = entries[at]._replace(answers=answers)
        shown = Differences()
        replay([("1.segment", rebuilt(segment, entries[: at + 1]))], "this", shown)
        assert len(shown.found) == 1
        is_read_that_failed = answers[0] == -5  # which a peer lives with: only what comes of it differs
        assert bool(shown.found[0][1].trouble) != is_read_that_failed


def test_entries_are_read_as_they_were_written(segment: bytes) -> None:
    entries = entries_in(segment)
    assert any(isinstance(entry.what, PublishTurn) for entry in entries)
    for entry in entries:
        assert read_entry(write_entry(entry, None)) == entry


def test_the_summary_says_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = record(monkeypatch, "poldercast", every=10_000)
    published = delivered = 0
    for name, data in named(segments):
        summary = ReplaySummary()
        assert replay([(name, data)], "this", summary) is None
        told = summary.as_dict()
        json.dumps(told)
        assert told["same"]
        assert told["entries"] == sum(told["inputs"].values()) > 100
        assert told["peers_up"]
        published += told["published"]
        delivered += told["delivered"]
    assert published == 60 - 4, "while a node is away nobody publishes there"
    assert delivered > 50


def test_inputs_and_outputs_are_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each, without anything that a terminal might obey."""

    class Words(Differences):
        def __init__(self) -> None:
            super().__init__()
            self.lines: list[str] = []

        def stepped(self, place: object, step: object) -> None:
            self.lines.append(input_in_words(step.entry.what))  # type: ignore[attr-defined]
            self.lines += map(output_in_words, step.outputs)  # type: ignore[attr-defined]

    words = Words()
    for name, data in named(record(monkeypatch, "pulsarcast")):
        replay([(name, data)], "this", words)
    assert all(line.isprintable() and len(line) < 1000 for line in words.lines)
    text = "\n".join(words.lines)
    for said in (
        "frame came from ",
        "stream events news #",
        "deliver to subscription ",
        "publish 1 durable on ",
        "answer request ",
        "timer fired: name ",
    ):
        assert said in text
    hostile = FrameCame(bytes(32), b"\x93\x01\x02\x1b[2J")
    assert output_in_words(SendFrame(bytes(32), None, hostile.data, 1)).isprintable()
    assert "malformed frame" in input_in_words(hostile)


def test_a_header_is_a_table(segment: bytes) -> None:
    header = SegmentReader("1.segment", segment).header
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(header), type=SegmentHeader) == header
