"""Trace records as lines: what is written comes back, and whatever else stands there is said to be wrong."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.trace import SCHEMA_VERSION, NamedRecord, TraceKind
from vinecast.core.trace_lines import (
    EVENT_MAX,
    HOPS_MAX,
    KIND_NAMES,
    SIZE_MAX,
    TIME_US_MAX,
    NewerTraceError,
    TraceHeading,
    heading_line,
    read_line,
    record_line,
)

ids = st.binary(min_size=32, max_size=32)
words = st.sampled_from(("", "cyclon.request", 'say "so"\n', "grüße\0")) | st.text(max_size=20)
records = st.builds(
    NamedRecord,
    time_us=st.integers(0, TIME_US_MAX),
    node=ids,
    kind=st.sampled_from(TraceKind),
    peer=st.just(b"") | ids,
    message=words,
    topic=words,
    event=st.sampled_from((-1, 0, EVENT_MAX)) | st.integers(-1, EVENT_MAX),
    hops=st.integers(-1, HOPS_MAX),
    reason=words,
    size=st.integers(0, SIZE_MAX),
)
headings = st.builds(
    TraceHeading,
    node=ids,
    system=words,
    period_us=st.integers(1, 10**9),
    version=st.integers(1, SCHEMA_VERSION),
)

GOOD: dict[str, Any] = {"time_us": 5, "node": "ab" * 32, "kind": "sent"}


@given(record=records)
def test_a_record_comes_back(record: NamedRecord) -> None:
    line = record_line(record)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    found = read_line(line)
    assert isinstance(found, NamedRecord)
    assert found == record


@given(heading=headings)
def test_a_heading_comes_back(heading: TraceHeading) -> None:
    assert read_line(heading_line(heading)) == heading


def test_the_names_of_fields_and_kinds_are_stable() -> None:
    record = NamedRecord(7, b"\x9f" * 32, TraceKind.SENT, b"\x02" * 32, "m", "t", 2**62, 3, "r", 81)
    assert record_line(record) == (
        f'{{"time_us":7,"node":"{"9f" * 32}","kind":"sent","peer":"{"02" * 32}","message":"m","topic":"t",'
        '"event":"4000000000000000","hops":3,"reason":"r","size":81}\n'
    )
    assert record_line(NamedRecord(7, b"\x9f" * 32, TraceKind.LEFT)) == (
        f'{{"time_us":7,"node":"{"9f" * 32}","kind":"left"}}\n'
    )
    assert heading_line(TraceHeading(b"\x9f" * 32, "vitis", 500_000)) == (
        f'{{"trace":2,"node":"{"9f" * 32}","system":"vitis","period_us":500000}}\n'
    )
    assert list(KIND_NAMES.values()) == [
        *("published", "sent", "received_first", "received_again", "delivered", "dropped", "joined", "left")
    ]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"time_us": -1}, "time_us must be a whole number from 0 to"),
        ({"time_us": 1.5}, "time_us must be a whole number"),
        ({"time_us": True}, "time_us must be a whole number"),
        ({"node": "ab"}, "node must be an id in 64 digits of hex, not 'ab'"),
        ({"node": "AB" * 32}, "node must be an id"),
        ({"peer": 5}, "peer must be an id"),
        ({"kind": "lost"}, "kind must be one of published, sent"),
        ({"kind": []}, "kind must be one of"),
        ({"event": "f" * 16}, "event must be the number of an event in 16 digits of hex"),
        ({"event": 5}, "event must be the number"),
        ({"hops": HOPS_MAX + 1}, f"hops must be a whole number from 0 to {HOPS_MAX}"),
        ({"size": SIZE_MAX + 1}, "size must be"),
        ({"topic": None}, "topic must be a text"),
        ({"topic": "x" * 1001}, "topic must be a text of at most 1000 characters"),
        ({"reason": "\ud800"}, "reason is not Unicode text"),
        ({"extra": 1}, "there is no field 'extra'"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_line(json.dumps({**GOOD, **wrong}))


@pytest.mark.parametrize("missing", GOOD)
def test_what_is_missing_is_said(missing: str) -> None:
    with pytest.raises(ValueError, match=f"{missing} is missing"):
        read_line(json.dumps({name: value for name, value in GOOD.items() if name != missing}))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"time_us":5,"node":"ab', "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"trace":2,"node":"ab"}', "period_us is missing"),
        ('{"trace":2,"node":"ab","system":"x","period_us":0}', "period_us must be more than 0"),
        ('{"trace":2,"node":"ab","system":"x","period_us":5}', "node must be an id"),
        ('{"trace":2,"more":1}', "there is no field 'more'"),
        ('{"trace":"2"}', "trace must be a whole number"),
    ],
)
def test_what_is_no_line_of_a_trace_is_said(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_line(line)


def test_a_newer_trace_is_not_read() -> None:
    line = heading_line(TraceHeading(bytes(32), "vitis", 5, SCHEMA_VERSION + 1))
    with pytest.raises(NewerTraceError, match=f"version {SCHEMA_VERSION + 1}, newer than this Vinecast's"):
        read_line(line)
