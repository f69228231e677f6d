"""Name records: only the owner, or whom it handed the topic on to, says where a topic's newest version is."""

from itertools import pairwise, permutations
from typing import Any

import dag_cbor
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from multiformats import CID

from support.name_records import (
    CHECKER,
    HANDED,
    HEIR,
    NEWER,
    NOW,
    OWNER,
    PLAIN,
    STRANGER,
    THIRD,
    TWICE,
    VALUE,
    public,
    signed,
    signing,
    some_names,
)
from vinecast.core.errors import InputError, RemoteError
from vinecast.core.log import name_record
from vinecast.core.log.batch_signature import BatchSignature, SignatureChecker
from vinecast.core.log.blocks import LINK_HEAD, cid_of, cid_text
from vinecast.core.log.descriptor import TopicDescriptor, encode_descriptor, read_linked, updated
from vinecast.core.log.event_record import NUMBER_MAX, TIME_MAX, TOPIC_BYTES_MAX
from vinecast.core.log.name_record import (
    HEIRS_MAX,
    LIFETIME_US,
    LIFETIME_US_MAX,
    NAME_BYTES_MAX,
    Heir,
    NameChecker,
    NameRecord,
    decode_name,
    encode_name,
    hand_on,
    name_key,
    replaces,
    sign_name,
)


def read(record: NameRecord, now_us: int = NOW) -> NameRecord:
    return CHECKER.read(record.key, encode_name(record), now_us)


# One value, one block


def as_map(record: NameRecord) -> dict[str, Any]:
    """The record as the oracle takes it."""
    return {
        "topic": record.topic,
        "owner": record.owner,
        "value": CID.decode(record.value),
        "sequence": record.sequence,
        "expires": record.expires_us,
        "heirs": [heir.key + heir.signature for heir in record.heirs],
        "signature": record.signature,
    }


@given(some_names)
@example(PLAIN)
@example(TWICE)
def test_the_block_is_the_oracles_and_comes_back(record: NameRecord) -> None:
    block = encode_name(record)
    assert block == dag_cbor.encode(as_map(record))
    assert decode_name(block) == record


def test_a_record_never_changes_its_bytes() -> None:
    assert (
        cid_text(cid_of(encode_name(PLAIN))) == "bafyreiamwbo3zpcnjfamsn4kvgzr6wkpjrrcbw6ydhivc4hxlayl7jsy2q"
    )
    assert (
        cid_text(cid_of(encode_name(TWICE))) == "bafyreifs5pqprgd2yhfblwjopev5bympj2t3ec5m3okt7cxlspx3vnjl2u"
    )
    assert PLAIN.key.hex() == "8b0670b0b0bf462bafbaebb7a6a91368961ea07efd5db2ad371a98e07930ef95"


@given(some_names, st.data())
def test_a_changed_byte_is_another_record_or_none(record: NameRecord, data: st.DataObject) -> None:
    block = encode_name(record)
    at = data.draw(st.integers(0, len(block) - 1))
    changed = block[:at] + bytes([block[at] ^ data.draw(st.integers(1, 255))]) + block[at + 1 :]
    try:
        other = decode_name(changed)
    except RemoteError:
        return
    assert other != record
    assert encode_name(other) == changed == dag_cbor.encode(as_map(other))


@given(
    some_names,
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3), st.binary(max_size=4)), max_size=4),
)
def test_whatever_is_read_is_canonical(record: NameRecord, cuts: list[tuple[int, int, bytes]]) -> None:
    block = encode_name(record)
    for at, gone, put in cuts:
        at %= len(block) + 1
        block = block[:at] + put + block[at + gone :]
    try:
        other = decode_name(block)
    except RemoteError:
        return
    assert encode_name(other) == block == dag_cbor.encode(as_map(other))


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteError):
        decode_name(data)
    assert not CHECKER.check(PLAIN.key, data, NOW)


@pytest.mark.parametrize("record", [PLAIN, TWICE])
def test_cut_short_or_continued_is_refused(record: NameRecord) -> None:
    block = encode_name(record)
    for end in range(len(block)):
        with pytest.raises(RemoteError):
            decode_name(block[:end])
    with pytest.raises(RemoteError, match="bytes after its end"):
        decode_name(block + b"\0")


def replaced(record: NameRecord, old: bytes, new: bytes) -> bytes:
    block = encode_name(record)
    assert block.count(old) == 1
    return block.replace(old, new)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (replaced(PLAIN, b"sports", b"sport+"), "impossible topic"),
        (replaced(PLAIN, b"sports", b"sport\xff"), "not UTF-8"),
        (replaced(PLAIN, b"sequence\x01", b"sequence\x1b" + b"\xff" * 8), "number over its limit"),
        (replaced(PLAIN, LINK_HEAD, LINK_HEAD[:-1] + b"\x21"), "not to a block of ours"),
        (replaced(PLAIN, b"heirs\x80", b"heirs\x9a\xff\xff\xff\xff"), "too many heirs"),
        (dag_cbor.encode(as_map(PLAIN) | {"expires": TIME_MAX + 1}), "number over its limit"),
        (dag_cbor.encode(as_map(PLAIN) | {"heirs": [bytes(95)]}), "heir of the wrong length"),
        (dag_cbor.encode(as_map(PLAIN) | {"heirs": [bytes(97)]}), "byte string over its limit"),
        (dag_cbor.encode(as_map(PLAIN) | {"heirs": [bytes(96)] * (HEIRS_MAX + 1)}), "too many heirs"),
        (dag_cbor.encode(as_map(PLAIN) | {"owner": bytes(31)}), "not a name record"),
        (dag_cbor.encode(as_map(PLAIN) | {"signature": bytes(65)}), "not a name record"),
        (bytes(NAME_BYTES_MAX + 1), "block over its limit"),
    ],
)
def test_each_refusal_says_why(block: bytes, reason: str) -> None:
    with pytest.raises(RemoteError, match=reason):
        decode_name(block)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": "/sports"}, "non-empty segments"),
        ({"owner": bytes(31)}, "32 bytes, not 31"),
        ({"value": b"newest"}, "content id of a topic descriptor"),
        ({"sequence": -1}, "a sequence number must be"),
        ({"sequence": NUMBER_MAX + 1}, "a sequence number must be"),
        ({"expires_us": TIME_MAX + 1}, "a time must be"),
        ({"signature": bytes(63)}, "64 bytes, not 63"),
        ({"heirs": (Heir(bytes(31), bytes(64)),)}, "a key of 32"),
        ({"heirs": (Heir(bytes(32), bytes(63)),)}, "a signature of 64"),
        ({"heirs": (Heir(bytes(32), bytes(64)),) * (HEIRS_MAX + 1)}, "fork it"),
    ],
)
def test_what_the_caller_may_not_say(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_name(PLAIN._replace(**change))


def test_the_largest_record_has_the_largest_block() -> None:
    heirs = (Heir(bytes(32), bytes(64)),) * HEIRS_MAX
    topic = "t" * TOPIC_BYTES_MAX
    largest = NameRecord(topic, bytes(32), VALUE, NUMBER_MAX, TIME_MAX, heirs, bytes(64))
    assert len(encode_name(largest)) == NAME_BYTES_MAX
    assert decode_name(encode_name(largest)) == largest


def test_the_fields_stand_in_the_order_of_dag_cbor() -> None:
    assert list(name_record._FIELDS) == sorted(name_record._FIELDS, key=lambda name: (len(name), name))


# What is true


@pytest.mark.parametrize("record", [PLAIN, HANDED, TWICE])
def test_what_its_signer_signed_is_true(record: NameRecord) -> None:
    assert read(record) == record
    assert CHECKER.check(record.key, encode_name(record), NOW)
    assert record.key == PLAIN.key == name_key(public(OWNER), "sports")


@given(st.sampled_from([PLAIN, HANDED, TWICE]), st.data())
def test_any_changed_byte_is_refused(record: NameRecord, data: st.DataObject) -> None:
    block = encode_name(record)
    at = data.draw(st.integers(0, len(block) - 1))
    changed = block[:at] + bytes([block[at] ^ data.draw(st.integers(1, 255))]) + block[at + 1 :]
    assert not CHECKER.check(record.key, changed, NOW)


def test_a_key_owns_many_topics_and_no_name_of_another_key() -> None:
    keys = [name_key(public(who), topic) for who in (OWNER, HEIR) for topic in ("sports", "sports/ski", "a")]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}
    block = encode_name(PLAIN)
    for other in keys:
        assert CHECKER.check(other, block, NOW) == (other == PLAIN.key)
    with pytest.raises(RemoteError, match="under another key"):
        CHECKER.read(keys[1], block, NOW)


def test_a_record_is_true_until_it_expires() -> None:
    assert PLAIN.expires_us == NOW + LIFETIME_US
    assert read(PLAIN, PLAIN.expires_us - 1) == PLAIN
    with pytest.raises(RemoteError, match="has expired"):
        read(PLAIN, PLAIN.expires_us)
    assert read(PLAIN, PLAIN.expires_us - LIFETIME_US_MAX) == PLAIN
    with pytest.raises(RemoteError, match="expires too late"):
        read(PLAIN, PLAIN.expires_us - LIFETIME_US_MAX - 1)


@pytest.mark.parametrize(
    "record",
    [
        signed(STRANGER),
        signed(network="another"),
        PLAIN._replace(sequence=2),
        PLAIN._replace(value=NEWER),
        PLAIN._replace(signature=bytes(64)),
        HANDED._replace(heirs=()),
        PLAIN._replace(heirs=HANDED.heirs),
        signed(OWNER, HANDED.heirs),
    ],
)
def test_what_another_signed_or_changed_is_refused(record: NameRecord) -> None:
    with pytest.raises(RemoteError, match="wrong signature"):
        read(record)


def test_signatures_for_one_purpose_serve_no_other() -> None:
    texts: list[bytes] = []

    def noting(text: bytes) -> bytes:
        texts.append(text)
        return bytes(64)

    record = sign_name("net", "sports", public(OWNER), VALUE, 1, NOW, noting)
    heirs = hand_on("net", record, public(HEIR), noting)
    sign_name("net", "sports", public(OWNER), VALUE, 1, NOW, noting, heirs)
    sign_name("other", "sports", public(OWNER), VALUE, 1, NOW, noting)
    SignatureChecker(lambda _, text, signature: bool(noting(text)), "net").check(
        VALUE, BatchSignature(bytes(64), 1, 0, b""), public(OWNER)
    )
    assert len(set(texts)) == len(texts) == 5
    assert len({text.split(b"\0")[0] for text in texts}) == 3


def test_cheap_reasons_come_before_signatures() -> None:
    checked = []

    def counting(public: bytes, text: bytes, signature: bytes) -> bool:
        checked.append(public)
        return True

    checker = NameChecker(counting, "net")
    block = encode_name(TWICE)
    assert not checker.check(bytes(32), block, NOW)
    assert not checker.check(TWICE.key, block, TWICE.expires_us)
    assert checked == []
    assert checker.check(TWICE.key, block, NOW)
    assert checked == [public(THIRD), public(OWNER), public(HEIR)]


# Handing on


def test_a_topic_can_be_handed_on_so_often_and_no_more() -> None:
    record = PLAIN
    for who in range(2, 2 + HEIRS_MAX):
        heirs = hand_on("net", record, public(who), signing(who - 1))
        record = signed(who, heirs)
        assert read(record) == record
        assert record.key == PLAIN.key
    with pytest.raises(InputError, match="fork it"):
        hand_on("net", record, public(STRANGER), signing(1 + HEIRS_MAX))
    with pytest.raises(InputError, match="a key of 32"):
        hand_on("net", PLAIN, bytes(31), signing(OWNER))


def test_who_was_not_appointed_is_no_heir() -> None:
    other = signed(topic="sports/ski")
    heirs = [
        hand_on("net", PLAIN, public(STRANGER), signing(STRANGER)),
        hand_on("another", PLAIN, public(STRANGER), signing(OWNER)),
        hand_on("net", other, public(STRANGER), signing(OWNER)),  # heir of another topic of the same owner
        hand_on("net", HANDED, public(STRANGER), signing(OWNER)),  # by one who has handed on
        (HANDED.heirs[0], Heir(public(STRANGER), HANDED.heirs[0].signature)),
        (Heir(public(STRANGER), HANDED.heirs[0].signature),),
    ]
    for line in heirs:
        with pytest.raises(RemoteError, match="nobody appointed"):
            read(signed(STRANGER, line))
    with pytest.raises(RemoteError, match="nobody appointed"):
        read(signed(THIRD, TWICE.heirs[1:]))


def test_a_topic_that_came_back_stays_although_the_first_heir_has_its_old_appointment() -> None:
    back = signed(OWNER, hand_on("net", HANDED, public(OWNER), signing(HEIR)))
    assert read(back) == back
    with pytest.raises(RemoteError, match="nobody appointed"):
        read(signed(HEIR, (*back.heirs, HANDED.heirs[0])))


# Which counts


def chosen(*records: NameRecord) -> NameRecord:
    return records[CHECKER.select([encode_name(record) for record in records])]


def test_the_highest_sequence_then_the_latest_expiry_counts() -> None:
    ascending = [
        signed(value=max(VALUE, NEWER)),
        signed(value=min(VALUE, NEWER), now_us=NOW + 1),
        signed(sequence=2, now_us=NOW - 1),
        signed(sequence=300, now_us=NOW - 2),
        HANDED,  # whatever the former owner's sequence
        signed(HEIR, HANDED.heirs, sequence=2),
        TWICE,
    ]
    for lower, higher in pairwise(ascending):
        assert replaces(higher, lower)
        assert not replaces(lower, higher)
        assert chosen(lower, higher) == chosen(higher, lower) == higher
    for order in permutations(ascending[2:]):
        assert chosen(*order) == TWICE
    assert not replaces(PLAIN, PLAIN)


def test_of_two_that_differ_in_the_value_alone_everybody_takes_the_same() -> None:
    one, other = signed(value=VALUE), signed(value=NEWER)
    assert chosen(one, other) == chosen(other, one)


lines = st.integers(0, 2).map(lambda count: TWICE.heirs[:count])


@given(st.lists(some_names, min_size=1, max_size=4), st.lists(lines, min_size=4, max_size=4), st.randoms())
def test_the_order_of_coming_does_not_matter_in_one_line(
    records: list[NameRecord], heirs: list[tuple[Heir, ...]], random: Any
) -> None:
    records = [record._replace(heirs=line) for record, line in zip(records, heirs, strict=False)]
    best = chosen(*records)
    assert not any(replaces(record, best) for record in records)
    random.shuffle(records)
    assert chosen(*records) == best


def test_who_knows_a_line_stays_with_it() -> None:
    """An owner who hands a topic on a second time takes nothing back from those who know the first heir."""
    second = signed(STRANGER, hand_on("net", PLAIN, public(STRANGER), signing(OWNER)), sequence=9)
    longer = signed(THIRD, hand_on("net", second, public(THIRD), signing(STRANGER)), sequence=9)
    assert read(second) == second
    assert read(longer) == longer
    assert chosen(HANDED, second, longer, PLAIN) == HANDED
    assert chosen(HANDED, longer, TWICE) == TWICE
    assert chosen(second, HANDED, longer) == longer


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_an_old_record_played_again_never_replaces_a_newer_one(coming: list[int]) -> None:
    """A replica that sees every record, in any order and again, ends with the newest of them."""
    kept = signed(sequence=coming[0])
    for sequence in coming[1:]:
        kept = chosen(kept, signed(sequence=sequence))
    assert kept.sequence == max(coming)


def test_a_name_leads_to_the_topics_newest_descriptor() -> None:
    first = TopicDescriptor("sports", public(OWNER), NOW)
    second = updated(first, NOW + 1, metadata={"about": "ball games"})
    blocks = [encode_descriptor(first), encode_descriptor(second)]
    record = signed(HEIR, HANDED.heirs, 2, cid_of(blocks[1]))
    assert read_linked(blocks[1], record.value, record.topic, record.owner) == second
    stolen = TopicDescriptor("sports", public(STRANGER), NOW)
    block = encode_descriptor(stolen)
    with pytest.raises(RemoteError, match="another topic"):
        read_linked(block, cid_of(block), record.topic, record.owner)


@given(some_names, some_names)
def test_different_names_have_different_keys(one: NameRecord, other: NameRecord) -> None:
    assume((one.owner, one.topic) != (other.owner, other.topic))
    assert one.key != other.key
