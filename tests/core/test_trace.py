"""Trace records: one schema in both worlds, and what is written comes back as it was."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.trace import FIELDS, SCHEMA_VERSION, NamedRecord, TraceKind, TraceRecord, arrow_schema

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
records = pytest.importorskip("vinecast.sim.measure.records")

WIDTH = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
BITS = {name: WIDTH[kind] for name, kind in FIELDS if kind in WIDTH}


# The schema


def test_the_numbers_of_the_kinds_are_part_of_the_schema() -> None:
    assert {kind.name: kind.value for kind in TraceKind} == {
        "PUBLISHED": 0,
        "SENT": 1,
        "RECEIVED_FIRST": 2,
        "RECEIVED_AGAIN": 3,
        "DELIVERED": 4,
        "DROPPED": 5,
        "JOINED": 6,
        "LEFT": 7,
    }


def test_fields_are_those_of_the_record_in_order() -> None:
    fields = dataclasses.fields(TraceRecord)
    assert [name for name, _ in FIELDS] == [field.name for field in fields]
    for (_, kind), field in zip(FIELDS, fields, strict=True):
        assert (kind in WIDTH) is (field.type in (int, TraceKind))
        assert (kind == "dictionary") is (field.type is str)


def test_what_does_not_apply_is_minus_one_or_empty() -> None:
    record = TraceRecord(5, 6, TraceKind.PUBLISHED)
    assert dataclasses.astuple(record) == (5, 6, TraceKind.PUBLISHED, -1, "", -1, -1, -1, "", 0)


def test_named_records_have_the_same_fields() -> None:
    assert list(NamedRecord._fields) == [name for name, _ in FIELDS]
    assert NamedRecord(5, b"me", TraceKind.LEFT)[3:] == (b"", "", "", -1, -1, "", 0)


def test_arrow_schema_is_the_fields_and_the_version() -> None:
    schema = arrow_schema()
    words = pa.dictionary(pa.int32(), pa.string())
    assert schema.names == [name for name, _ in FIELDS]
    assert schema.types == [words if kind == "dictionary" else getattr(pa, kind)() for _, kind in FIELDS]
    assert not any(field.nullable for field in schema)
    assert schema.metadata == {b"vinecast.trace": str(SCHEMA_VERSION).encode()}


def test_columns_of_version_2() -> None:
    assert SCHEMA_VERSION == 2
    assert " ".join(f"{name}:{kind}" for name, kind in FIELDS) == (
        "time_us:int64 node:int32 kind:int8 peer:int32 message:dictionary topic:int32 event:int64 hops:int16"
        " reason:dictionary size:int32"
    )


# On disk


def write(path: Path, trace: list[TraceRecord], batch_rows: int) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BATCH_ROWS", batch_rows)
        writer = records.TraceWriter(path)
        for record in trace:
            writer(record)
        writer.close()
    rows: int = writer.rows
    return rows


def read(path: Path) -> list[TraceRecord]:
    table = pq.read_table(path)
    assert table.schema.equals(arrow_schema(), check_metadata=True)
    return [TraceRecord(**{**row, "kind": TraceKind(row["kind"])}) for row in table.to_pylist()]


def whole(name: str) -> st.SearchStrategy[int]:
    largest = 2 ** (BITS[name] - 1) - 1
    return st.sampled_from((-1, 0, largest, -largest - 1)) | st.integers(-largest - 1, largest)


messages = st.sampled_from(("", "cyclon.request", "cyclon.answer", "grüße")) | st.text(max_size=5)
some_record = st.builds(
    TraceRecord,
    time_us=whole("time_us"),
    node=whole("node"),
    kind=st.sampled_from(TraceKind),
    peer=whole("peer"),
    message=messages,
    topic=whole("topic"),
    event=whole("event"),
    hops=whole("hops"),
    reason=messages,
    size=whole("size"),
)


@settings(max_examples=40, deadline=None)
@given(trace=st.lists(some_record, max_size=20), batch_rows=st.integers(1, 8))
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, trace: list[TraceRecord], batch_rows: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    assert write(path, trace, batch_rows) == len(trace)
    assert read(path) == trace


@pytest.mark.parametrize(("rows", "batches"), [(0, 0), (3, 1), (4, 1), (5, 2), (10, 3), (12, 3)])
def test_records_are_written_in_batches(tmp_path: Path, rows: int, batches: int) -> None:
    path = tmp_path / "trace.parquet"
    trace = [TraceRecord(i, i % 3, TraceKind.SENT, message=f"kind {i}") for i in range(rows)]
    write(path, trace, 4)
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert len([size for size in sizes if size]) == batches
    assert max(sizes, default=0) <= 4
    assert read(path) == trace


def test_nothing_waits_in_memory_for_longer_than_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "BATCH_ROWS", 3)
    writer = records.TraceWriter(tmp_path / "trace.parquet")
    seen = []
    for i in range(7):
        writer(TraceRecord(i, 0, TraceKind.PUBLISHED))
        seen.append(writer.rows)
    writer.close()
    assert seen == [0, 0, 3, 3, 3, 6, 6]
    assert writer.rows == 7


def test_an_empty_file_has_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    assert write(path, [], 4) == 0
    assert read(path) == []
    assert pq.read_metadata(path).num_rows == 0
