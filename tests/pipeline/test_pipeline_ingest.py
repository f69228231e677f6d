"""Ingest: the definitions of the simulator, no line lost, and bad files refused in one sentence."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.spark_tests import SPARK
from vinecast.core.errors import InputError

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from vinecast.pipeline.ingest import graph, job
from vinecast.pipeline.ingest.frames import NEVER, ends_before
from vinecast.pipeline.ingest.job import Ingested, ingest
from vinecast.pipeline.ingest.kinds import EDGES, KINDS
from vinecast.pipeline.ingest.lines import take_block, take_edges
from vinecast.pipeline.ingest.splits import Block, blocks_of, scan
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.tables import TABLES
from vinecast.sim.engine.network import read_matrix
from vinecast.sim.workload.churn import read_avt
from vinecast.sim.workload.edges import COMMENTS, edge_of, read_edges, subscriptions_from

pytestmark = SPARK

Take = Callable[..., Ingested]


@pytest.fixture
def take(spark: SparkSession, tmp_path: Path) -> Take:
    """Ingest a text (or a file) into a lake of the test's own."""

    def run(kind: str, text: str | bytes | Path, dataset: str = "it", **options: Any) -> Ingested:
        path = text if isinstance(text, Path) else tmp_path / "raw.txt"
        if not isinstance(text, Path):
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        return ingest(spark, Lake(tmp_path / "lake"), kind, path, dataset, **options)

    return run


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """The rows of a table of that lake, in ascending order."""

    def read(table: str, dataset: str = "it") -> list[tuple[Any, ...]]:
        frame = Lake(tmp_path / "lake").read(spark, TABLES[table], dataset)
        return sorted(tuple(row) for row in frame.collect())

    return read


Rows = Callable[..., list[tuple[Any, ...]]]


def test_edges_lose_loops_and_duplicates_which_are_counted(take: Take, rows: Rows) -> None:
    result = take("edges", "# a comment\n1\t2\n2,1\n1 2\n\n3 3\n% more\n4 , 1\r\n 1\t2 \n")
    assert rows("edges") == [(1, 2), (2, 1), (4, 1)]
    assert rows("users") == [(1,), (2,), (3,), (4,)]
    assert (result.lines, result.good, result.bad, result.skipped) == (9, 6, 0, 3)
    assert (result.loops, result.duplicates) == (1, 2)
    assert result.rows == {"edges": 3, "users": 4}


def test_an_undirected_graph_goes_both_ways(take: Take, rows: Rows) -> None:
    result = take("edges", "1 2\n2 1\n3 1\n", directed=False)
    assert rows("edges") == [(1, 2), (1, 3), (2, 1), (3, 1)]
    assert result.duplicates == 1


def test_bad_lines_are_set_aside_with_their_number_and_reason(take: Take, rows: Rows) -> None:
    result = take("edges", b"1 2\nx 3\n1 2 3\n\xff\n4 5", max_bad=0.7)
    assert rows("edges") == [(1, 2), (4, 5)]
    assert (result.lines, result.good, result.bad) == (5, 2, 3)
    aside = rows("quarantine", "it.edges")
    assert [row[:2] for row in aside] == [("raw.txt", 2), ("raw.txt", 3), ("raw.txt", 4)]
    assert [row[2].split(" ")[0] for row in aside] == ["a", "an", "not"]
    assert [row[3] for row in aside] == ["x 3", "1 2 3", "\N{REPLACEMENT CHARACTER}"]


def test_sessions_keep_the_order_of_the_file(take: Take, rows: Rows) -> None:
    take("avt", "b 2 0 1.5 1.5 3e1\na 0\nc\t1\t 7 7\n")
    assert rows("sessions") == [(0, "b", [0.0, 1.5], [1.5, 30.0]), (1, "a", [], []), (2, "c", [7.0], [7.0])]


def test_a_node_that_stands_there_twice_is_set_aside(take: Take, rows: Rows) -> None:
    result = take("avt", "b 1 0 1\na 0\nb 1 2 3\n", max_bad=0.5)
    assert [row[:2] for row in rows("sessions")] == [(0, "b"), (1, "a")]
    assert rows("quarantine", "it.sessions") == [("raw.txt", 3, "node b stands in line 1 already", "b")]
    assert (result.lines, result.good, result.bad) == (3, 2, 1)


def test_events_of_the_failure_trace_archive_become_sessions(take: Take, rows: Rows) -> None:
    def event(node: str, kind: int, start: float, end: float) -> str:
        return f"0\t1\t{node}\t9\tname\t{kind}\t{start}\t{end}\tNULL\n"

    text = "# event_id\tcomponent_id\n" + event("n2", 1, 1010, 1020) + event("n1", 0, 1000, 1005)
    text += event("n2", 0, 1020, 1030) + event("n2", 1, 1030, 1040.5) + event("n2", 1, 1035, 1050)
    result = take("fta", text, max_bad=0.2)
    assert rows("sessions") == [(0, "9/n2/1", [10.0, 30.0], [20.0, 40.5]), (1, "9/n1/1", [], [])]
    reason = "the session starts (1035.0) before an earlier one ends (1040.5)"
    assert rows("quarantine", "it.sessions") == [("raw.txt", 6, reason, "9/n2/1")]
    assert (result.good, result.bad, result.skipped) == (4, 1, 1)


def test_an_event_that_is_left_out_does_not_take_the_next_along(take: Take, rows: Rows) -> None:
    events = [("n", 0, 10), ("n", 5, 1000), ("n", 20, 30), ("n", 30, 40), ("m", 1, 2), ("n", 35, 36)]
    text = "".join(f"0\t1\t{node}\t9\tname\t1\t{on}\t{off}\n" for node, on, off in events)
    result = take("fta", text, max_bad=0.5)
    assert rows("sessions") == [
        (0, "9/n/1", [0.0, 20.0, 30.0], [10.0, 30.0, 40.0]),
        (1, "9/m/1", [1.0], [2.0]),
    ]
    assert [row[1] for row in rows("quarantine", "it.sessions")] == [2, 6]
    assert (result.good, result.bad) == (4, 2)


EVENTS = st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 9), st.integers(0, 9))


@given(events=st.lists(EVENTS, max_size=30), cut=st.integers(1, 7))
def test_sessions_are_taken_in_turn_in_any_batches(
    events: list[tuple[str, bool, int, int]], cut: int
) -> None:
    events = sorted((name, kind, on, on + length) for name, kind, on, length in events)
    events.sort(key=lambda event: (event[0], event[2], event[3]))
    busy, found = np.full(1, NEVER), np.empty(len(events))
    for low in range(0, len(events), cut):
        part = events[low : low + cut]
        first = np.array([low + i == 0 or events[low + i - 1][0] != e[0] for i, e in enumerate(part)])
        kind, on_s, off_s = (np.array(column) for column in list(zip(*part, strict=True))[1:])
        ends_before(first, kind, on_s.astype(float), off_s.astype(float), busy, found[low : low + cut])
    until: dict[str, float] = {}
    for (name, available, on, off), end in zip(events, found.tolist(), strict=True):
        assert end == until.get(name, NEVER)
        if available and on >= end:
            until[name] = off


@pytest.mark.parametrize(
    ("kind", "line", "huge"),
    [
        ("avt", "n{i} 1 0 {time}", "1e14"),
        ("fta", "0\t1\tn{i}\t9\tname\t1\t0\t{time}", "100000000000000"),
        ("activity", "7 8 {time} MT", "100000000000000"),
    ],
)
def test_a_time_that_cannot_be_is_set_aside(kind: str, line: str, huge: str) -> None:
    text = "\n".join(line.format(i=i, time=time) for i, time in enumerate(("100000000000", huge)))
    taken = KINDS[kind].reader().take(Block(text.encode(), 1))
    assert [(bad.line, bad.reason[:35]) for bad in taken.bad] == [(2, "a time must be at most 1e+11 second")]
    assert taken.rows.num_rows == 1


@pytest.mark.parametrize("zipped", [False, True])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "raw.txt"
    text = b"\xef\xbb\xbf1 2\n3 4\n"
    path.write_bytes(gzip.compress(text) if zipped else text)
    blocks = [block for split in scan(path, 4, 4).splits for block in blocks_of(split, 4)]
    assert [line for block in blocks for line in block.lines()] == [b"1 2", b"3 4"]
    assert read_edges(path).names.tolist() == [1, 2, 3, 4]


def test_a_matrix_is_laid_out_cell_by_cell(take: Take, rows: Rows) -> None:
    take("matrix", "0 1.5\n2 0\n")
    assert rows("latencies") == [(0, 0, 0.0), (0, 1, 1.5), (1, 0, 2.0), (1, 1, 0.0)]


def test_pings_are_read_by_their_heading(take: Take, rows: Rows) -> None:
    result = take("pings", 'to,from,min_ms,avg_ms,max_ms,note\n"B, C",A,1,2,3.5,x\nA,B,1,x,1,\n', max_bad=0.5)
    assert rows("pings") == [("A", "B, C", None, 2.0, 1.0, 3.5, None)]
    assert (result.good, result.bad, result.skipped) == (1, 1, 1)


def test_activity_keeps_the_order_of_the_file(take: Take, rows: Rows) -> None:
    take("activity", "7 8 1341100972 MT\n8 7 1341100971 RT\n")
    assert rows("activity") == [(1, 7, 8, 1341100972, "MT"), (2, 8, 7, 1341100971, "RT")]


def test_pulsarcasts_workload_becomes_three_tables(take: Take, rows: Rows) -> None:
    text = (
        '{"type":"topic","node":"n1","name":"t","author":"u","totalNumberEvents":5}\n'
        '{"type":"user","node":"n2","name":"v","events":[{"internalId":4,"topic":"t"}],'
        '"subscriptions":{"t":true,"s":false}}\n{"type":"user","node":"n2","name":"\\ud800"}\n'
    )
    result = take("reddit", text, max_bad=0.5)
    assert rows("topics") == [("t", "n1", "u", 5)]
    assert rows("subscriptions") == [("n2", "v", "t")]
    assert rows("publications") == [(4, "n2", "v", "t")]
    assert result.bad == 1


BROKEN_GZIP = gzip.compress(b"1 2\n" * 10_000, mtime=0)[:-20]


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        ("edges", BROKEN_GZIP, r"raw\.txt: broken gzip file"),
        ("edges", "", r"raw\.txt: the file is empty"),
        ("edges", "# nothing\n\n", r"raw\.txt: there is no edge in it"),
        ("edges", "1;2\n3;4\n", r"raw\.txt: 2 of 2 lines .*; the first is line 1: a user must be"),
        ("avt", "a 1 5 -7\n", r"raw\.txt: 1 of 1 lines .* line 1: a time must be a finite number"),
        ("avt", "a 2 0 5 4 6\n", r"raw\.txt: .* line 1: session 2 starts \(4\) before its predecessor ends"),
        ("avt", "a 1 0 1\na 1 0 1\n", r"raw\.txt: 1 of 2 lines .* line 2: node a stands in line 1 already"),
        ("fta", "0\t1\t1\t1\tn\t1\t9\t8\t\n", r"raw\.txt: .* the event ends \(8\) before it starts \(9\)"),
        ("matrix", "0 1 2\n1 0 2\n", r"raw\.txt: not a square matrix \(2 rows, 3 columns\)"),
        ("matrix", "0 1\n1\n", r"raw\.txt: .* line 2: 1 columns where the first row has 2"),
        ("pings", "a,b\n", r"raw\.txt: the heading must name from, to"),
        ("reddit", "[]\n", r"raw\.txt: .* line 1: not a JSON object"),
    ],
)
def test_a_bad_file_is_one_sentence_and_what_was_there_stays(
    take: Take, tmp_path: Path, kind: str, text: str | bytes, sentence: str
) -> None:
    lake = tmp_path / "lake"
    with pytest.raises(InputError, match=sentence) as met:
        take(kind, text)
    assert "\n" not in str(met.value)
    assert [path for path in lake.rglob("*") if path.is_file()] == []


def test_a_file_that_became_bad_leaves_the_tables(take: Take, rows: Rows, tmp_path: Path) -> None:
    take("edges", "1 2\n")
    before = sorted((tmp_path / "lake").rglob("*"))
    with pytest.raises(InputError, match="cannot be taken"):
        take("edges", "1 2\nx\n")
    assert sorted((tmp_path / "lake").rglob("*")) == before
    assert rows("edges") == [(1, 2)]


def test_the_same_file_again_is_nothing_to_do(take: Take, tmp_path: Path) -> None:
    first = take("edges", "1 2\nx\n", max_bad=0.5)
    before = sorted((tmp_path / "lake").rglob("*"))
    again = take("edges", "1 2\nx\n", max_bad=0.5)
    assert (first.fresh, again.fresh) == (False, True)
    assert (again.good, again.bad, again.rows) == (first.good, first.bad, first.rows)
    assert sorted((tmp_path / "lake").rglob("*")) == before
    with pytest.raises(InputError, match="cannot be taken"):
        take("edges", "1 2\nx\n", max_bad=0.4)
    assert not take("edges", "1 2\n2 3\n").fresh
    assert not take("edges", "1 2\n2 3\n", directed=False).fresh


@pytest.mark.parametrize("directed", [True, False])
def test_many_tasks_and_buckets_give_what_one_gives(
    take: Take, rows: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, directed: bool
) -> None:
    text = "".join(f"{i * 7 % 40} {i * i % 31}\n" for i in range(300)) + f"x\n{10**17} 3\n3 {10**18 - 1}\n"
    whole = take("edges", text, "whole", directed=directed)
    monkeypatch.setattr(job, "scan", lambda path: scan(path, split_bytes=500, block_bytes=200))
    monkeypatch.setattr(graph, "BUCKET_BYTES", 300)
    parts = take("edges", text, "parts", directed=directed)
    assert rows("edges", "parts") == rows("edges", "whole")
    assert rows("users", "parts") == rows("users", "whole")
    assert rows("quarantine", "parts.edges") == rows("quarantine", "whole.edges")
    assert replace(parts, dataset="whole") == whole
    pairs = [tuple(map(int, line.split())) for line in text.splitlines() if line != "x"]
    turned = [] if directed else [(target, source) for source, target in pairs]
    assert rows("edges", "parts") == sorted({pair for pair in pairs + turned if pair[0] != pair[1]})
    files = list(Lake(tmp_path / "lake").path(TABLES["edges"], "parts").glob("*.parquet"))
    assert len(files) > 3


def test_where_no_line_can_be_taken_no_limit_is_named(take: Take) -> None:
    with pytest.raises(InputError, match=r"raw\.txt: not one of 2 lines can be taken; the first is line 1: "):
        take("edges", "x\ny\n", max_bad=1.0)


def test_only_edges_have_no_direction(take: Take) -> None:
    with pytest.raises(InputError, match="only edges can be undirected"):
        take("avt", "a 0\n", directed=False)


# --- lines and splits, without Spark --------------------------------------------------------------------

PLAIN = (b"1 2", b"3\t4", b"5,6", b" 7 , 8 ", b"9  10\r", b"0 00", b"1" * 18 + b" 1")
EMPTY = (b"", b" ", b"\t", b"# x", b"%")
WRONG = (b"1", b"1 2 3", b"1,,2", b"1, ,2", b"a b", b"-1 2", b",1", b"1,", b"1\r2", b"1" * 19 + b" 1")
NBSP = "\N{NO-BREAK SPACE}".encode()
ODD = (b"1\x002", b"1\x0b2", b"1 " + b"1" * 19, b"\xff\xfe", b"1" + NBSP + b"2", NBSP + b"1 2")
ANYTHING = st.binary(max_size=12).filter(lambda line: b"\n" not in line)
LINES = st.lists(st.sampled_from(PLAIN + EMPTY + WRONG + ODD) | ANYTHING, max_size=30)


@given(lines=LINES, ended=st.booleans(), first=st.integers(1, 100))
def test_the_compiled_pass_takes_what_the_definition_takes(
    lines: list[bytes], ended: bool, first: int
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    block = Block(data, first)
    fast = take_edges(block, EDGES)
    slow = take_block(block, COMMENTS, EDGES, lambda line, number: edge_of(line))
    assert sorted(map(tuple, _pairs(fast.rows))) == sorted(map(tuple, _pairs(slow.rows)))
    assert fast.bad == slow.bad
    assert fast.skipped == slow.skipped
    assert fast.rows.num_rows + len(fast.bad) + fast.skipped == len(block.lines())
    assert fast.loops == sum(source == target for source, target in _pairs(slow.rows))


def _pairs(batch: Any) -> list[tuple[int, int]]:
    return list(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))


NUMBERS = st.integers(0, 5) | st.integers(0, 10**18 - 1)


@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30))
def test_pairs_are_sorted_and_distinct_however_large(pairs: list[tuple[int, int]]) -> None:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    found = graph.distinct_pairs(columns[0], columns[1])
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(set(pairs))


@given(data=st.binary(max_size=200).map(lambda data: data.replace(b"a", b"\n")), zipped=st.booleans())
def test_splits_hold_every_line_once_and_under_its_number(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, zipped: bool
) -> None:
    if not data or (data.startswith(b"\x1f\x8b") and not zipped):
        return
    path = tmp_path_factory.mktemp("splits") / "raw"
    path.write_bytes(gzip.compress(data) if zipped else data)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    expected = list(enumerate(lines[:-1] if not lines[-1] else lines, start=1))
    for split_bytes, block_bytes in ((1, 1), (7, 3), (50, 16), (1000, 1000)):
        splits = scan(path, split_bytes, block_bytes).splits
        blocks = [block for split in splits for block in blocks_of(split, block_bytes)]
        found = [pair for block in blocks for pair in enumerate(block.lines(), start=block.first_line)]
        assert found == expected
        assert [split.number for split in splits] == list(range(len(splits)))


TOKENS = st.sampled_from(b"a 1 0 5.5 7 -1 2e3 nan , {} RT # \t".split(b" "))
TEXT = st.lists(st.lists(TOKENS, max_size=9).map(b" ".join), max_size=12).map(b"\n".join)


@given(kind=st.sampled_from(sorted(set(KINDS) - {"matrix"})), text=TEXT)
def test_no_line_is_lost_in_any_format(kind: str, text: bytes) -> None:
    """Good + bad + skipped = read, whatever stands there."""
    reader = KINDS[kind].reader()
    block = Block(text, 1)
    try:
        taken = reader.take(block)
    except InputError:  # a heading that is none: the whole file is refused
        assert kind == "pings"
        return
    assert taken.rows.num_rows + len(taken.bad) + taken.skipped == len(block.lines())
    assert len({bad.line for bad in taken.bad}) == len(taken.bad)


# --- the real files -------------------------------------------------------------------------------------


def test_slashdot_is_what_the_simulator_reads(take: Take, data_folder: Path, tmp_path: Path) -> None:
    path = data_folder / "soc-Slashdot0902.txt.gz"
    edges = read_edges(path)
    result = take("edges", path)
    lake = Lake(tmp_path / "lake")
    found = pq.read_table(lake.path(TABLES["edges"], "it")).sort_by(
        [("source", "ascending"), ("target", "ascending")]
    )
    assert np.array_equal(found["source"], edges.names[edges.source])
    assert np.array_equal(found["target"], edges.names[edges.target])
    users = pq.read_table(lake.path(TABLES["users"], "it")).sort_by("user")
    assert np.array_equal(users["user"], edges.names)
    assert (result.loops, result.duplicates) == (edges.loops_dropped, edges.duplicates_dropped)


def test_an_undirected_file_gives_the_simulators_subscriptions(
    take: Take, rows: Rows, data_folder: Path
) -> None:
    path = data_folder / "twitter-bofa.txt.gz"
    edges = read_edges(path)
    wanted = subscriptions_from(edges, directed=False)
    take("edges", path, directed=False)
    found = rows("edges")
    assert len(found) == wanted.topics.size
    assert [row[1] for row in found] == edges.names[wanted.topics].tolist()


def test_skype_is_what_the_simulator_reads(take: Take, rows: Rows, data_folder: Path) -> None:
    path = data_folder / "skype.avt.gz"
    trace = read_avt(path)
    take("avt", path)
    found = rows("sessions")
    assert [row[0] for row in found] == list(range(trace.nodes))
    assert [len(row[2]) for row in found] == np.diff(trace.start).tolist()
    assert np.array_equal(np.concatenate([row[2] for row in found]), trace.on_s)
    assert np.array_equal(np.concatenate([row[3] for row in found]), trace.off_s)


def test_planetlab_is_what_the_simulator_reads(take: Take, rows: Rows, data_folder: Path) -> None:
    path = data_folder / "planetlab-490-rtt-ms.txt.gz"
    take("matrix", path)
    matrix = read_matrix(path)
    assert np.array_equal(np.array([row[2] for row in rows("latencies")]).reshape(matrix.shape), matrix)


@pytest.mark.parametrize(
    ("kind", "file", "counts"),
    [
        ("pings", "wondernetwork-2018-pings.csv.gz", {"pings": 59_244}),
        ("activity", "higgs-activity_time.txt.gz", {"activity": 563_069}),
        ("reddit", "pulsarcast-reddit-17k.jsonl.gz", {"topics": 23}),
    ],
)
def test_the_other_real_files_are_taken_whole(
    take: Take, data_folder: Path, kind: str, file: str, counts: dict[str, int]
) -> None:
    result = take(kind, data_folder / file)
    assert result.bad == 0
    assert result.rows is not None
    assert counts.items() <= result.rows.items()
