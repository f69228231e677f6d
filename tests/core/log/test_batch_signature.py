"""Batch signatures: one signature for a batch, a proof for each event of it and for nothing else."""

import hashlib
from functools import cache

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from vinecast.core.errors import InputError, RemoteError
from vinecast.core.log.batch_signature import (
    BATCH_MAX,
    BATCH_SIGNATURE_BYTES_MAX,
    BatchSignature,
    MerklePath,
    SignatureChecker,
    path_length,
    read_signed_event,
    sign_batch,
    sign_events,
)
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import EventRecord, encode

KEY = SigningKey(bytes(range(32)))
PUBLIC = bytes(KEY.verify_key)


def sign(text: bytes) -> bytes:
    return KEY.sign(text).signature


def verify(public: bytes, text: bytes, signature: bytes) -> bool:
    try:
        VerifyKey(public).verify(text, signature)
    except BadSignatureError:
        return False
    return True


def blocks(count: int) -> list[bytes]:
    return [encode(EventRecord("t", PUBLIC, i, 1, b"x")) for i in range(count)]


@cache
def batch(count: int) -> tuple[list[bytes], list[BatchSignature]]:
    cids = [cid_of(block) for block in blocks(count)]
    return cids, sign_batch("net", cids, sign)


def slow_root(hashes: list[bytes]) -> bytes:
    """The tree by its other definition: the left half is the largest power of two below the whole."""
    if len(hashes) == 1:
        return hashes[0]
    half = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + slow_root(hashes[:half]) + slow_root(hashes[half:])).digest()


@given(st.integers(1, 130))
def test_every_event_of_a_batch_leads_to_the_root(count: int) -> None:
    cids, signatures = batch(count)
    root = slow_root([hashlib.sha256(b"\0" + cid).digest() for cid in cids])
    checker = SignatureChecker(verify, "net")
    for index, (cid, signature) in enumerate(zip(cids, signatures, strict=True)):
        assert (signature.size, signature.leaf) == (count, index)
        assert MerklePath(cid, signature, PUBLIC).root() == root
        assert len(signature.path) == 32 * path_length(count, index)
        assert checker.check(cid, BatchSignature.from_bytes(signature.to_bytes()), PUBLIC)
    assert checker.signatures_checked == 1


def test_the_smallest_and_the_largest_batch() -> None:
    _, (single,) = batch(1)
    assert single.path == b""
    _, signatures = batch(BATCH_MAX)
    assert {len(signature.to_bytes()) for signature in signatures} == {BATCH_SIGNATURE_BYTES_MAX}
    for count in (0, BATCH_MAX + 1):
        with pytest.raises(InputError, match="1 to 1024 events"):
            sign_batch("net", [cid_of(b"")] * count, sign)


@given(st.integers(1, 40), st.integers(0, 39), st.integers(0, 39))
def test_no_other_event_fits(count: int, mine: int, other: int) -> None:
    cids, signatures = batch(count)
    strangers, _ = batch(41)
    checker = SignatureChecker(verify, "net")
    signature = signatures[mine % count]
    assert checker.check(
        cids[mine % count], signature, PUBLIC
    )  # the root is known now, and that helps nobody
    if other % count != mine % count:
        assert not checker.check(cids[other % count], signature, PUBLIC)
        assert not checker.check(cids[mine % count], signature._replace(leaf=other % count), PUBLIC)
    assert not checker.check(strangers[40], signature, PUBLIC)
    assert not checker.check(cids[mine % count], signature._replace(path=signature.path + bytes(32)), PUBLIC)
    assert not SignatureChecker(verify, "another").check(cids[mine % count], signature, PUBLIC)


def test_events_are_sealed_and_read() -> None:
    records = [EventRecord("t", PUBLIC, i, 1, b"x") for i in range(5)]
    signed = sign_events("net", records, sign)
    assert [event.record for event in signed] == records
    assert [event.block for event in signed] == blocks(5)
    for event in signed:
        assert read_signed_event(event.block, event.cid, event.signature.to_bytes()) == event
        assert event.digest == hashlib.sha256(event.block).digest()


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(-1, 399)), max_size=12))
def test_what_came_before_changes_no_verdict(count: int, coming: list[tuple[int, int]]) -> None:
    cids, signatures = batch(count)
    checker = SignatureChecker(verify, "net")
    for index, damage in coming:
        signature = signatures[index % count]
        if damage >= 0 and signature.path:
            at = damage % len(signature.path)
            signature = signature._replace(
                path=signature.path[:at] + bytes([signature.path[at] ^ 1]) + signature.path[at + 1 :]
            )
        fresh = SignatureChecker(verify, "net").check(cids[index % count], signature, PUBLIC)
        assert (
            checker.check(cids[index % count], signature, PUBLIC)
            == fresh
            == (signature == signatures[index % count])
        )


def test_an_inner_node_is_no_event() -> None:
    cids, signatures = batch(2)
    inner = hashlib.sha256(b"\0" + cids[0]).digest() + hashlib.sha256(b"\0" + cids[1]).digest()
    assert not SignatureChecker(verify, "net").check(
        inner, BatchSignature(signatures[0].root_signature, 1, 0, b""), PUBLIC
    )


@given(st.integers(1, 9), st.data())
def test_any_changed_byte_of_a_sealed_event_is_refused(count: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, count - 1))
    block, signature = blocks(count)[index], batch(count)[1][index].to_bytes()
    checker = SignatureChecker(verify, "net")
    assert checker.holds(read_signed_event(block, cid_of(block), signature))
    whole = signature + block
    at = data.draw(st.integers(0, len(whole) - 1))
    whole = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    signature, block = whole[: len(signature)], whole[len(signature) :]
    try:
        right = checker.holds(read_signed_event(block, cid_of(block), signature))
    except RemoteError:
        return
    assert not right


@given(st.binary(max_size=BATCH_SIGNATURE_BYTES_MAX + 40))
def test_arbitrary_bytes_are_refused_or_harmless(data: bytes) -> None:
    try:
        signature = BatchSignature.from_bytes(data)
    except RemoteError:
        return
    assert signature.to_bytes() == data
    assert not SignatureChecker(verify, "net").check(cid_of(b""), signature, PUBLIC)


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.integers(0, 12))
def test_the_form_of_a_seal(size: int, index: int, hashes: int) -> None:
    assume(size > BATCH_MAX or index >= size or hashes != path_length(size, index))
    data = bytes(64) + size.to_bytes(2, "big") + index.to_bytes(2, "big") + bytes(32 * hashes)
    with pytest.raises(RemoteError, match="batch signature of an impossible"):
        BatchSignature.from_bytes(data)


def test_what_is_remembered_is_bounded_and_only_what_is_right() -> None:
    checker = SignatureChecker(verify, "net", roots_kept=3)
    singles = [(cid, sign_batch("net", [cid], sign)[0]) for cid in batch(8)[0]]
    for cid, signature in singles:
        assert checker.check(cid, signature, PUBLIC)
    assert checker.signatures_checked == 8
    assert len(checker._right) == 3
    assert all(checker.check(cid, signature, PUBLIC) for cid, signature in singles[-3:])
    assert checker.signatures_checked == 8  # still known
    assert checker.check(*singles[0], PUBLIC)
    assert checker.signatures_checked == 9  # forgotten, so checked again
    forged = singles[0][1]._replace(root_signature=bytes(64))
    for _ in range(2):
        assert not checker.check(singles[0][0], forged, PUBLIC)
    assert checker.signatures_checked == 11  # what is wrong is never remembered
    other = bytes(SigningKey(bytes(32)).verify_key)
    assert not checker.check(*singles[0], other)
