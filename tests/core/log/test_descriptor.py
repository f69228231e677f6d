"""Topic descriptors: one encoding each, sub-topics below their topic, and a history that stays whole."""

from typing import Any

import dag_cbor
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from multiformats import CID

from vinecast.core.errors import InputError, RemoteError
from vinecast.core.log import descriptor as descriptors
from vinecast.core.log import event_record
from vinecast.core.log.blocks import LINK_HEAD, cid_of, cid_text
from vinecast.core.log.descriptor import (
    DESCRIPTOR_BYTES_MAX,
    METADATA_BYTES_MAX,
    METADATA_MAX,
    SUBTOPICS_MAX,
    TopicDescriptor,
    decode_descriptor,
    encode_descriptor,
    forked,
    is_below,
    read_linked,
    updated,
    with_subtopic,
)
from vinecast.core.log.event_record import TIME_MAX, TOPIC_BYTES_MAX

segments = st.text(
    st.characters(exclude_characters="/#+\0", exclude_categories=["Cs"]), min_size=1, max_size=6
)
paths = st.lists(segments, min_size=1, max_size=3).map("/".join)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
cids = st.binary(max_size=8).map(cid_of)
keys = st.binary(min_size=32, max_size=32)
times = st.integers(0, TIME_MAX) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32, TIME_MAX])
metadata = st.dictionaries(texts.filter(bool), texts | st.binary(max_size=300), max_size=4)


@st.composite
def some_descriptors(draw: st.DrawFn) -> TopicDescriptor:
    name = draw(paths)
    below = draw(st.dictionaries(paths, cids, max_size=4))
    return TopicDescriptor(
        name,
        draw(keys),
        draw(times),
        draw(metadata),
        {f"{name}/{path}": cid for path, cid in below.items()},
        draw(st.none() | cids),
        draw(st.none() | cids),
    )


OWNER, OTHER = bytes(range(32)), bytes(range(1, 33))
PLAIN = TopicDescriptor("sports", OWNER, 1_700_000_000_000_000)
RICH = PLAIN._replace(
    metadata={"b": "é", "a": b"\xff", "aa": ""},
    subtopics={"sports/tennis": cid_of(b"1"), "sports/ski": cid_of(b"0")},
    parent=cid_of(b"2"),
    origin=cid_of(b"3"),
)


def as_map(descriptor: TopicDescriptor) -> dict[str, Any]:
    """The descriptor as the oracle takes it."""

    def link(cid: bytes | None) -> CID | None:
        return CID.decode(cid) if cid else None

    return {
        "name": descriptor.name,
        "owner": descriptor.owner,
        "created": descriptor.created_us,
        "metadata": dict(descriptor.metadata),
        "#": {name: link(cid) for name, cid in descriptor.subtopics.items()},
        "parent": link(descriptor.parent),
        "from": link(descriptor.origin),
    }


# One value, one block


@given(some_descriptors())
@example(PLAIN)
@example(RICH)
def test_the_block_is_the_oracles_and_comes_back(descriptor: TopicDescriptor) -> None:
    block = encode_descriptor(descriptor)
    assert block == dag_cbor.encode(as_map(descriptor))
    assert decode_descriptor(block) == descriptor


def test_a_descriptor_never_changes_its_bytes() -> None:
    assert (
        cid_text(cid_of(encode_descriptor(PLAIN)))
        == "bafyreidiktikuqay65b7mor6wwh63yuauyj3hvbfbw6ojxwiafe5g5sk4y"
    )
    assert (
        cid_text(cid_of(encode_descriptor(RICH)))
        == "bafyreiedysanf4m4emaxrbijb3tenh3xettdebwwxt33l5nonfs6asxa7i"
    )


@given(some_descriptors(), st.data())
def test_a_changed_byte_is_another_descriptor_or_none(
    descriptor: TopicDescriptor, data: st.DataObject
) -> None:
    block = encode_descriptor(descriptor)
    at = data.draw(st.integers(0, len(block) - 1))
    changed = block[:at] + bytes([block[at] ^ data.draw(st.integers(1, 255))]) + block[at + 1 :]
    try:
        other = decode_descriptor(changed)
    except RemoteError:
        return
    assert other != descriptor
    assert encode_descriptor(other) == changed == dag_cbor.encode(as_map(other))


@given(
    some_descriptors(),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3), st.binary(max_size=4)), max_size=4),
)
def test_whatever_is_read_is_canonical(
    descriptor: TopicDescriptor, cuts: list[tuple[int, int, bytes]]
) -> None:
    block = encode_descriptor(descriptor)
    for at, gone, put in cuts:
        at %= len(block) + 1
        block = block[:at] + put + block[at + gone :]
    try:
        read = decode_descriptor(block)
    except RemoteError:
        return
    assert encode_descriptor(read) == block == dag_cbor.encode(as_map(read))


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteError):
        decode_descriptor(data)


@pytest.mark.parametrize("descriptor", [PLAIN, RICH])
def test_cut_short_or_continued_is_refused(descriptor: TopicDescriptor) -> None:
    block = encode_descriptor(descriptor)
    for end in range(len(block)):
        with pytest.raises(RemoteError):
            decode_descriptor(block[:end])
    with pytest.raises(RemoteError, match="bytes after its end"):
        decode_descriptor(block + b"\0")


json_like: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.binary(max_size=9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(some_descriptors(), st.sampled_from(sorted(as_map(PLAIN))), json_like)
def test_fields_of_another_type_are_refused(descriptor: TopicDescriptor, field: str, value: Any) -> None:
    changed = as_map(descriptor) | {field: value}
    try:
        read = decode_descriptor(dag_cbor.encode(changed))
    except RemoteError:
        return
    assert as_map(read) == changed


def replaced(old: bytes, new: bytes) -> bytes:
    block = encode_descriptor(RICH)
    assert block.count(old) == 1
    return block.replace(old, new)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (replaced(b"name\x66sports", b"name\x66fruits"), "not below its topic"),
        (replaced(b"sports/tennis", b"sportsxtennis"), "not below its topic"),
        (replaced(b"sports/tennis", b"sports//ennis"), "not below its topic"),
        (replaced(b"name\x66sports", b"name\x66sport+"), "impossible topic"),
        (replaced(b"\xc3\xa9", b"\xc3\xff"), "not UTF-8"),
        (replaced(b"parent" + LINK_HEAD, b"parent" + LINK_HEAD[:-1] + b"\x21"), "not to a block of ours"),
        (replaced(b"from" + LINK_HEAD, b"from" + LINK_HEAD.replace(b"\x00", b"\x01", 1)), "not to a block"),
        (replaced(b"metadata\xa3", b"metadata\xba\xff\xff\xff\xff"), "map over its limit"),
        (replaced(b"#\xa2", b"#\xba\xff\xff\xff\xff"), "map over its limit"),
        (dag_cbor.encode(as_map(PLAIN) | {"created": TIME_MAX + 1}), "time over its limit"),
        (dag_cbor.encode(as_map(PLAIN) | {"owner": bytes(33)}), "not a topic descriptor"),
        (dag_cbor.encode(as_map(PLAIN) | {"metadata": {"": "x"}}), "empty"),
        (
            dag_cbor.encode(as_map(PLAIN) | {"metadata": {"a": "x" * 5000, "b": "x" * 5000}}),
            "metadata over its limit",
        ),
        (dag_cbor.encode(as_map(PLAIN) | {"#": {"sports/" + "x" * 255: None}}), "over its limit"),
        (bytes(DESCRIPTOR_BYTES_MAX + 1), "block over its limit"),
    ],
)
def test_each_refusal_says_why(block: bytes, reason: str) -> None:
    with pytest.raises(RemoteError, match=reason):
        decode_descriptor(block)


# Limits


def test_the_largest_descriptor_fits_where_an_event_fits() -> None:
    name = "t" * 200
    crowd = {f"{name}/{i:0{TOPIC_BYTES_MAX - 201}}": cid_of(b"") for i in range(SUBTOPICS_MAX)}
    value_bytes = METADATA_BYTES_MAX - 1 - 2 - 3
    largest = TopicDescriptor(
        name, OWNER, TIME_MAX, {"k": "v" * value_bytes}, crowd, cid_of(b""), cid_of(b"")
    )
    block = encode_descriptor(largest)
    assert len(block) == DESCRIPTOR_BYTES_MAX - (TOPIC_BYTES_MAX - len(name))
    assert decode_descriptor(block) == largest
    assert event_record.BLOCK_BYTES_MAX >= DESCRIPTOR_BYTES_MAX
    many = {f"{i}": "v" for i in range(METADATA_MAX)}
    assert decode_descriptor(encode_descriptor(PLAIN._replace(metadata=many))).metadata == many


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "non-empty segments"),
        ({"name": "/sports"}, "non-empty segments"),
        ({"name": "t" * (TOPIC_BYTES_MAX + 1)}, "at most 255 bytes"),
        ({"owner": bytes(31)}, "32 bytes, not 31"),
        ({"created_us": -1}, "a time must be"),
        ({"created_us": TIME_MAX + 1}, "a time must be"),
        ({"metadata": {str(i): "" for i in range(METADATA_MAX + 1)}}, "at most 32 entries, not 33"),
        ({"metadata": {"k": "v" * (METADATA_BYTES_MAX - 5)}}, "at most 8192 bytes, not 8193"),
        ({"metadata": {"": "v"}}, "non-empty string"),
        ({"metadata": {1: "v"}}, "non-empty string"),
        ({"metadata": {"k": 1}}, "must be a string or bytes, not int"),
        ({"metadata": {"k": "\ud800"}}, "valid Unicode"),
        ({"metadata": {"\ud800": "k"}}, "valid Unicode"),
        (
            {"subtopics": {f"sports/{i}": cid_of(b"") for i in range(SUBTOPICS_MAX + 1)}},
            "at most 512 sub-topics",
        ),
        ({"subtopics": {"fruits": cid_of(b"")}}, "named 'sports/…', not 'fruits'"),
        ({"subtopics": {"sports/ski": b"ski"}}, "links to content ids"),
        ({"parent": bytes(36)}, "links to content ids"),
        ({"origin": b""}, "links to content ids"),
    ],
)
def test_what_the_caller_may_not_say(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_descriptor(PLAIN._replace(**change))


# Hierarchy


@pytest.mark.parametrize("name", ["sports/football", "sports/football/women", "sports/sports"])
def test_a_sub_topic_extends_its_topic(name: str) -> None:
    assert is_below(name, "sports")
    assert with_subtopic(PLAIN, name, cid_of(b""), 1).subtopics == {name: cid_of(b"")}


@pytest.mark.parametrize(
    "name",
    ["sports", "fruits", "fruits/apples", "sportscar", "sports/", "sports//a", "sports/#", "a/sports/b"],
)
def test_nothing_else_is_a_sub_topic(name: str) -> None:
    assert not is_below(name, "sports")
    with pytest.raises(InputError, match="sub-topic of 'sports'"):
        with_subtopic(PLAIN, name, cid_of(b""), 1)


@given(paths, paths)
def test_below_is_a_longer_path_with_the_same_start(name: str, topic: str) -> None:
    longer, start = name.split("/"), topic.split("/")
    assert is_below(name, topic) == (len(longer) > len(start) and longer[: len(start)] == start)
    assert is_below(f"{topic}/{name}", topic)


# History


@given(some_descriptors(), times, metadata)
def test_an_update_links_to_what_it_updates(
    descriptor: TopicDescriptor, now_us: int, more: dict[str, str | bytes]
) -> None:
    block = encode_descriptor(descriptor)
    newer = updated(descriptor, now_us, metadata=more)
    assert newer == descriptor._replace(created_us=now_us, metadata=more, parent=cid_of(block))
    assert newer.before == cid_of(block)
    assert read_linked(block, cid_of(block), newer.name, newer.owner) == descriptor
    assert updated(descriptor, now_us, subtopics={}).metadata == descriptor.metadata


@given(some_descriptors(), keys, times)
def test_a_fork_keeps_all_but_the_owner(descriptor: TopicDescriptor, owner: bytes, now_us: int) -> None:
    fork = forked(descriptor, owner, now_us)
    cid = cid_of(encode_descriptor(descriptor))
    assert fork == descriptor._replace(owner=owner, created_us=now_us, parent=None, origin=cid)
    assert fork.before == cid


def test_a_fork_under_another_name_keeps_what_is_below_it() -> None:
    crowd = {"a/b": cid_of(b"0"), "a/b/c": cid_of(b"1"), "a/c": cid_of(b"2")}
    topic = TopicDescriptor("a", OWNER, 1, subtopics=crowd)
    assert forked(topic, OTHER, 2, "a/b").subtopics == {"a/b/c": cid_of(b"1")}
    assert forked(topic, OTHER, 2, "d").subtopics == {}
    assert decode_descriptor(encode_descriptor(forked(topic, OTHER, 2, "a/b"))).name == "a/b"


def test_history_leads_through_versions_and_forks_to_the_beginning() -> None:
    blocks: dict[bytes, bytes] = {}

    def keep(descriptor: TopicDescriptor) -> TopicDescriptor:
        block = encode_descriptor(descriptor)
        blocks[cid_of(block)] = block
        return descriptor

    ski = keep(TopicDescriptor("sports/ski", OTHER, 1))
    ski_cid = cid_of(encode_descriptor(ski))
    first = keep(PLAIN)
    second = keep(with_subtopic(first, "sports/ski", ski_cid, 2))
    fork = keep(forked(second, OTHER, 3))
    third = keep(updated(fork, 4, metadata={"about": "ours"}))
    assert third.origin == fork.origin  # every version says where the topic comes from

    found, at = [third], third
    while cid := at.before:
        same = at.parent is not None
        at = read_linked(blocks[cid], cid, at.name if same else None, at.owner if same else None)
        found.append(at)
    assert found == [third, fork, second, first]
    assert read_linked(blocks[ski_cid], third.subtopics["sports/ski"], "sports/ski") == ski


@given(some_descriptors(), some_descriptors())
def test_a_link_leads_to_what_it_promises(one: TopicDescriptor, other: TopicDescriptor) -> None:
    assume(one.name != other.name and one.owner != other.owner)
    block, wrong = encode_descriptor(one), encode_descriptor(other)
    cid = cid_of(block)
    assert read_linked(block, cid) == one
    with pytest.raises(RemoteError, match="not the one asked for"):
        read_linked(wrong, cid)
    with pytest.raises(RemoteError, match="another topic"):
        read_linked(block, cid, other.name)
    with pytest.raises(RemoteError, match="another topic"):
        read_linked(block, cid, one.name, other.owner)
    with pytest.raises(RemoteError, match="not a topic descriptor"):
        read_linked(b"\xa0", cid_of(b"\xa0"))


def test_the_fields_stand_in_the_order_of_dag_cbor() -> None:
    assert list(descriptors._FIELDS) == sorted(descriptors._FIELDS, key=lambda name: (len(name), name))
