"""Event records: one encoding each, the same as DAG-CBOR's own, and nothing else is read."""

import contextlib
from collections.abc import Callable
from typing import Any

import dag_cbor
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from multiformats import CID, multihash

from vinecast.core.errors import InputError, RemoteError
from vinecast.core.log import event_record
from vinecast.core.log.blocks import LINK_HEAD, cid_from_text, cid_of, cid_text
from vinecast.core.log.event_record import (
    BLOCK_BYTES_MAX,
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    NUMBER_MAX,
    PARENTS_MAX,
    PAYLOAD_BYTES_MAX,
    TIME_MAX,
    TOPIC_BYTES_MAX,
    EventRecord,
    decode,
    encode,
    topic_fault,
)

numbers = st.integers(0, NUMBER_MAX) | st.sampled_from(
    [n + d for n in (24, 2**8, 2**16, 2**32, NUMBER_MAX) for d in (-1, 0, 1) if n + d <= NUMBER_MAX]
)
segments = st.text(
    st.characters(exclude_characters="/#+\0", exclude_categories=["Cs"]), min_size=1, max_size=9
)
topics = st.lists(segments, min_size=1, max_size=5).map("/".join)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
header_maps = st.dictionaries(texts.filter(bool), texts | st.binary(max_size=300), max_size=6)
cids = st.binary(max_size=40).map(cid_of)


def at_a_height(record: EventRecord, height: int) -> EventRecord:
    """The record at a height that it can have."""
    return record._replace(height=max(height, 2) if record.parents else height % 2)


events = st.builds(
    EventRecord,
    topic=topics,
    publisher=st.binary(min_size=32, max_size=32),
    sequence=numbers,
    time_us=numbers.map(lambda number: min(number, TIME_MAX)),
    payload=st.binary(max_size=400),
    headers=header_maps,
    parents=st.lists(cids, unique=True, max_size=4).map(tuple),
)
events = st.builds(at_a_height, events, numbers)
PLAIN = EventRecord("sports/tennis", bytes(range(32)), 7, 1_700_000_000_000_000, b"15:0")
RICH = PLAIN._replace(
    headers={"b": "é", "a": b"\xff", "aa": ""}, parents=(cid_of(b"1"), cid_of(b"0")), height=300
)


def as_map(record: EventRecord) -> dict[str, Any]:
    """The record as the oracle takes it."""
    return {
        "topic": record.topic,
        "publisher": record.publisher,
        "sequence": record.sequence,
        "parents": [CID.decode(cid) for cid in record.parents],
        "height": record.height,
        "time": record.time_us,
        "headers": dict(record.headers),
        "payload": record.payload,
    }


# One value, one block


@given(events)
@example(PLAIN)
@example(RICH)
def test_the_block_is_the_oracles_and_comes_back(record: EventRecord) -> None:
    block = encode(record)
    assert block == dag_cbor.encode(as_map(record))
    assert decode(block) == record


def test_a_record_never_changes_its_bytes() -> None:
    assert cid_text(cid_of(encode(PLAIN))) == "bafyreicggu4mzhfre6lmgj2drvlckjt64sr6jww5cqy55dcft3cm7jqw2m"
    assert cid_text(cid_of(encode(RICH))) == "bafyreibvlhlwnnt257j627p2s7mt4utyboouxgziii47yiaxi73dxkuniy"


@given(st.binary(max_size=60))
def test_content_ids_are_the_oracles(block: bytes) -> None:
    oracle = CID("base32", 1, "dag-cbor", multihash.digest(block, "sha2-256"))
    cid = cid_of(block)
    assert cid == bytes(oracle)
    assert cid_text(cid) == str(oracle)
    assert cid_from_text(cid_text(cid)) == cid


@given(st.binary(max_size=40).map(cid_of).map(cid_text), st.integers(0, 58), st.characters())
@example(cid_text(cid_of(b"")), 58, "b")  # the last digit carries bits that must be zero
def test_another_text_is_another_id(text: str, at: int, letter: str) -> None:
    changed = text[:at] + letter + text[at + 1 :]
    assume(changed != text)
    with contextlib.suppress(InputError):
        assert cid_text(cid_from_text(changed)) == changed


@pytest.mark.parametrize("text", ["", "bafy", "B" * 59, "é" * 59, "b" + "a" * 58, "1" * 59])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="bafy"):
        cid_from_text(text)


# Strict reading


@given(events, st.data())
def test_a_changed_byte_is_another_event_or_none(record: EventRecord, data: st.DataObject) -> None:
    block = encode(record)
    at = data.draw(st.integers(0, len(block) - 1))
    changed = block[:at] + bytes([block[at] ^ data.draw(st.integers(1, 255))]) + block[at + 1 :]
    assert cid_of(changed) != cid_of(block)
    try:
        other = decode(changed)
    except RemoteError:
        return
    assert other != record
    assert encode(other) == changed


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteError):
        decode(data)


@given(
    events, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3), st.binary(max_size=4)), max_size=4)
)
def test_whatever_is_read_is_canonical(record: EventRecord, cuts: list[tuple[int, int, bytes]]) -> None:
    block = encode(record)
    for at, gone, put in cuts:
        at %= len(block) + 1
        block = block[:at] + put + block[at + gone :]
    try:
        read = decode(block)
    except RemoteError:
        return
    assert encode(read) == block == dag_cbor.encode(as_map(read))


def outcome(read: Callable[[bytes], EventRecord], block: bytes) -> EventRecord | str:
    try:
        return read(block)
    except RemoteError as error:
        return str(error)


plain_events = st.builds(
    EventRecord,
    topic=topics | st.integers(1, TOPIC_BYTES_MAX).map("t".__mul__),
    publisher=st.binary(min_size=32, max_size=32),
    sequence=numbers,
    time_us=numbers.map(lambda number: min(number, TIME_MAX)),
    payload=st.sampled_from((0, 1, 23, 24, 255, 256, 65_535, 65_536)).map(bytes),
    headers=st.just({}),
    parents=st.just(()),
    height=st.just(0),
)


@given(
    plain_events,
    st.lists(st.tuples(st.integers(-150, 150), st.integers(0, 3), st.binary(max_size=4)), max_size=3),
)
def test_the_fast_way_says_the_same(record: EventRecord, cuts: list[tuple[int, int, bytes]]) -> None:
    """Cut near its start and its end, where all but the payload is."""
    block = encode(record)
    assert decode(block) == record
    for at, gone, put in cuts:
        block = block[:at] + put + block[len(block[:at]) + gone :]
    assert outcome(decode, block) == outcome(event_record._decode_any, block)


@given(plain_events, st.data())
def test_the_fast_way_refuses_what_the_other_refuses(record: EventRecord, data: st.DataObject) -> None:
    """One byte changed anywhere but in the payload, to the very values that matter or any other."""
    block = bytearray(encode(record))
    at = data.draw(st.integers(0, min(len(block), 400) - 1)) * data.draw(st.sampled_from((1, -1)))
    block[at] = data.draw(
        st.sampled_from(
            (0, 0x17, 0x18, 0x19, 0x1B, 0x40, 0x57, 0x58, 0x59, 0x5A, 0x60, 0x77, 0x78, 0x79, 0xFF)
        )
        | st.integers(0, 255)
    )
    assert outcome(decode, bytes(block)) == outcome(event_record._decode_any, bytes(block))


@given(events)
def test_cut_short_or_continued_is_refused(record: EventRecord) -> None:
    block = encode(record)
    for end in range(len(block)):
        with pytest.raises(RemoteError):
            decode(block[:end])
    with pytest.raises(RemoteError):
        decode(block + b"\0")


json_like: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.binary(max_size=9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(events, st.sampled_from(sorted(as_map(PLAIN))), json_like)
def test_fields_of_another_type_are_refused(record: EventRecord, field: str, value: Any) -> None:
    changed = as_map(record) | {field: value}
    block = dag_cbor.encode(changed)
    try:
        read = decode(block)
    except RemoteError:
        return
    assert as_map(read) == changed


def replaced(record: EventRecord, old: bytes, new: bytes) -> bytes:
    block = encode(record)
    assert block.count(old) == 1
    return block.replace(old, new)


ONE_HEADER = PLAIN._replace(headers={"k": "v"})
ONE_PARENT = PLAIN._replace(parents=(cid_of(b""),), height=2)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (replaced(PLAIN, b"sequence\x07", b"sequence\x18\x07"), "shortest form"),
        (replaced(PLAIN, b"\x67payload\x44", b"\x67payload\x58\x04"), "shortest form"),
        (replaced(PLAIN, b"\x44" + b"15:0", b"\x5f\x44" + b"15:0\xff"), "indefinite length"),
        (replaced(PLAIN, b"\x67headers\xa0", b"\x67headers\xbf\xff"), "indefinite length"),
        (replaced(PLAIN, b"\x67parents\x80", b"\x67parents\x9f\xff"), "indefinite length"),
        (replaced(PLAIN, b"sequence\x07", b"sequence\x1b" + b"\xff" * 8), "number over its limit"),
        (replaced(PLAIN, b"sequence\x07", b"sequence\x26"), "wrong type"),
        (replaced(PLAIN, b"\x44" + b"15:0", b"\x5b\x7f" + b"\xff" * 7), "over its limit"),
        (replaced(PLAIN, b"\x67headers\xa0", b"\x67headers\xba\xff\xff\xff\xff"), "too many headers"),
        (replaced(PLAIN, b"\x67parents\x80", b"\x67parents\x9a\xff\xff\xff\xff"), "too many parents"),
        (replaced(PLAIN, b"sports/tennis", b"sports//ennis"), "impossible topic"),
        (replaced(PLAIN, b"sports/tennis", b"sports/+ennis"), "impossible topic"),
        (replaced(PLAIN, b"sports/tennis", b"sports/\xed\xa0\x80nis"), "not UTF-8"),
        (replaced(ONE_HEADER, b"\xa1\x61k\x61v", b"\xa2\x61k\x61v\x61k\x61v"), "twice"),
        (replaced(ONE_HEADER, b"\xa1\x61k\x61v", b"\xa2\x61k\x61v\x61a\x61v"), "out of order"),
        (replaced(ONE_HEADER, b"\xa1\x61k\x61v", b"\xa1\x60\x61v"), "without a name"),
        (replaced(ONE_HEADER, b"\xa1\x61k\x61v", b"\xa1\x61k\xf6"), "wrong type"),
        (replaced(ONE_PARENT, LINK_HEAD, LINK_HEAD[:-1] + b"\x21"), "not a content id"),
        (replaced(ONE_PARENT, LINK_HEAD, b"\xd8\x2b" + LINK_HEAD[2:]), "not a content id"),
        (dag_cbor.encode(as_map(PLAIN) | {"parents": [CID.decode(cid_of(b""))] * 2}), "named twice"),
        (replaced(PLAIN, b"height\x00", b"height\x02"), "impossible height"),
        (replaced(ONE_PARENT, b"height\x02", b"height\x01"), "impossible height"),
        (replaced(ONE_PARENT, b"height\x02", b"height\x1b" + b"\xff" * 8), "impossible height"),
        (dag_cbor.encode(as_map(PLAIN) | {"more": 1}), "not an event record"),
        (bytes(BLOCK_BYTES_MAX + 1), "block over its limit"),
        (
            dag_cbor.encode(as_map(PLAIN) | {"headers": {"a": "x" * 5000, "b": "x" * 5000}}),
            "headers over their",
        ),
    ],
)
def test_each_refusal_says_why(block: bytes, reason: str) -> None:
    with pytest.raises(RemoteError, match=reason):
        decode(block)


# Limits


def test_the_largest_record_has_the_largest_block() -> None:
    value_bytes = HEADERS_BYTES_MAX - 1 - 2 - 3
    record = EventRecord(
        "t" * TOPIC_BYTES_MAX,
        bytes(32),
        NUMBER_MAX,
        TIME_MAX,
        bytes(PAYLOAD_BYTES_MAX),
        {"k": "v" * value_bytes},
        tuple(cid_of(bytes([i])) for i in range(PARENTS_MAX)),
        NUMBER_MAX,
    )
    assert len(encode(record)) == BLOCK_BYTES_MAX
    assert decode(encode(record)) == record
    crowd = {f"{i}": "v" for i in range(HEADERS_MAX)}
    assert decode(encode(record._replace(headers=crowd))).headers == crowd


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": ""}, "non-empty segments"),
        ({"topic": "t" * (TOPIC_BYTES_MAX + 1)}, "at most 255 bytes"),
        ({"topic": "\ud800"}, "valid Unicode"),
        ({"payload": bytes(PAYLOAD_BYTES_MAX + 1)}, "a payload has at most"),
        ({"payload": "text"}, "a payload must be bytes, not str"),
        ({"publisher": bytes(31)}, "32 bytes, not 31"),
        ({"sequence": -1}, "a sequence number must be"),
        ({"time_us": TIME_MAX + 1}, "a time must be"),
        ({"headers": {str(i): "" for i in range(HEADERS_MAX + 1)}}, "at most 32 headers, not 33"),
        ({"headers": {"k": "v" * (HEADERS_BYTES_MAX - 5)}}, "take at most 8192 bytes, not 8193"),
        ({"headers": {"": "v"}}, "non-empty string"),
        ({"headers": {1: "v"}}, "non-empty string"),
        ({"headers": {"k": 1}}, "must be a string or bytes, not int"),
        ({"headers": {"k": "\ud800"}}, "valid Unicode"),
        (
            {"parents": tuple(cid_of(bytes([i])) for i in range(PARENTS_MAX + 1)), "height": 2},
            "at most 16 parents",
        ),
        ({"parents": (cid_of(b""),) * 2, "height": 2}, "differ"),
        ({"parents": (cid_of(b""),)}, "1 parents cannot have height 0"),
        ({"height": 2}, "0 parents cannot have height 2"),
        ({"parents": (bytes(36),), "height": 2}, "content id of an event"),
    ],
)
def test_what_the_caller_may_not_say(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode(PLAIN._replace(**change))


@given(st.text(st.sampled_from("ab/#+\0é\ud800"), max_size=8))
def test_topic_names(name: str) -> None:
    fine = all(name.split("/")) and not set(name) & set("#+\0\ud800")
    assert (topic_fault(name) == "") == fine


def test_the_fields_stand_in_the_order_of_dag_cbor() -> None:
    assert list(event_record._FIELDS) == sorted(event_record._FIELDS, key=lambda name: (len(name), name))
