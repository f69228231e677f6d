"""Batch signatures: a publisher's signature over a batch of events, cut so that each event carries its own
proof.

Checking an Ed25519 signature costs about a hundred times as much as hashing, so events that were accepted
together share one: it is over the root of the Merkle tree of their content ids, and each event's proof adds
the hashes from its leaf to that root. A single event is the smallest batch: no hashes, only a signature.
Whoever receives several events of a batch checks the signature once.

The tree is built from the left, pair by pair; a node without a partner moves up as it is. Leaves and inner
nodes are hashed in domains of their own, and the signature covers the number of leaves and the network's
name, so that a proof fits exactly one event, at one place of one batch, in one network.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vinecast.core.errors import InputError, RemoteError
from vinecast.core.log.blocks import CID_HEAD, cid_of
from vinecast.core.log.event_record import NUMBER_MAX, EventRecord, decode, encode

BATCH_MAX = 1024
"""Events under one signature (ours): ten hashes of proof at most."""
SIGNATURE_BYTES, HASH_BYTES = 64, 32
ROOTS_KEPT = 1024
"""Verified roots that a checker remembers (ours), about 300 bytes each."""

_BATCH, _LEAF, _NODE = b"vinecast batch 1\0", b"\0", b"\1"
_FIXED_BYTES = SIGNATURE_BYTES + 4
BATCH_SIGNATURE_BYTES_MAX = _FIXED_BYTES + HASH_BYTES * (BATCH_MAX - 1).bit_length()

Sign = Callable[[bytes], bytes]
"""Text -> signature."""
Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key, text, signature) -> whether it is the key's."""


class BatchSignature(NamedTuple):
    """What proves that a publisher signed an event."""

    root_signature: bytes
    """Over the batch, 64 bytes."""
    size: int
    """Events in the batch."""
    leaf: int
    """Which of them this is."""
    path: bytes
    """The hashes beside the way from its leaf to the root, 32 bytes each, lowest first."""

    def to_bytes(self) -> bytes:
        """The signature for the wire: the size and the index say how many hashes follow."""
        place = (self.size << 16 | self.leaf).to_bytes(4, "big")
        return self.root_signature + place + self.path

    @classmethod
    def from_bytes(cls, data: bytes) -> "BatchSignature":
        """The signature that a peer sent, as far as its form goes."""
        if not _FIXED_BYTES <= len(data) <= BATCH_SIGNATURE_BYTES_MAX:
            raise RemoteError("batch signature of an impossible length")
        place = int.from_bytes(data[SIGNATURE_BYTES:_FIXED_BYTES], "big")
        size, index = place >> 16, place & 0xFFFF
        if not index < size <= BATCH_MAX:
            raise RemoteError("batch signature of an impossible place")
        path = data[_FIXED_BYTES:]
        if len(path) != HASH_BYTES * path_length(size, index):
            raise RemoteError("batch signature of an impossible length")
        return cls(data[:SIGNATURE_BYTES], size, index, path)


class SignedEvent(NamedTuple):
    """An event with all that proves it, as it travels and is kept."""

    record: EventRecord
    block: bytes
    """The record's bytes."""
    cid: bytes
    """The block's content id."""
    signature: BatchSignature

    @property
    def number(self) -> int:
        """A number for it that all nodes have the same: some bits of that hash."""
        return event_number(self.cid)

    @property
    def digest(self) -> bytes:
        """The hash in the content id, 32 bytes."""
        return self.cid[len(CID_HEAD) :]


def event_number(cid: bytes) -> int:
    """The number of the event with this content id: 63 bits of its hash."""
    return int.from_bytes(cid[-8:], "big") & NUMBER_MAX


def sign_events(network: str, records: Sequence[EventRecord], sign: Sign) -> list[SignedEvent]:
    """Sign a publisher's events with one signature. InputError when one of them is outside the limits."""
    blocks = [encode(record) for record in records]
    cids = [cid_of(block) for block in blocks]
    signatures = sign_batch(network, cids, sign)
    return [SignedEvent(*event) for event in zip(records, blocks, cids, signatures, strict=True)]


def read_signed_event(block: bytes, cid: bytes, signature: bytes) -> SignedEvent:
    """What a peer sent as an event, as far as its form goes; whether its signature holds, a checker says.

    cid: the block's content id, which whoever looked for the event among those seen before has made already
    """
    return SignedEvent(decode(block), block, cid, BatchSignature.from_bytes(signature))


def path_length(size: int, index: int) -> int:
    """How many hashes lie beside the way from this leaf to the root."""
    length = 0
    while size > 1:
        length += (index ^ 1) < size
        size, index = (size + 1) >> 1, index >> 1
    return length


def sign_batch(network: str, cids: Sequence[bytes], sign: Sign) -> list[BatchSignature]:
    """One proof for each of these content ids, with one signature for all."""
    size = len(cids)
    if not 0 < size <= BATCH_MAX:
        raise InputError(f"a batch has 1 to {BATCH_MAX} events, not {size}")
    if size == 1:
        return [BatchSignature(sign(_text(network, 1, hashlib.sha256(_LEAF + cids[0]).digest())), 1, 0, b"")]
    levels = _levels(cids)
    signature = sign(_text(network, size, levels[-1][0]))
    signatures = []
    for index in range(size):
        path, at = [], index
        for level in levels[:-1]:
            if (beside := at ^ 1) < len(level):
                path.append(level[beside])
            at >>= 1
        signatures.append(BatchSignature(signature, size, index, b"".join(path)))
    return signatures


def _levels(cids: Sequence[bytes]) -> list[list[bytes]]:
    """The tree, from its leaves to its root."""
    sha256 = hashlib.sha256
    levels = [[sha256(_LEAF + cid).digest() for cid in cids]]
    while len(below := levels[-1]) > 1:
        level = [sha256(_NODE + below[i] + below[i + 1]).digest() for i in range(0, len(below) - 1, 2)]
        if len(below) % 2:
            level.append(below[-1])
        levels.append(level)
    return levels


def _text(network: str, size: int, root: bytes) -> bytes:
    """What a batch's publisher signs. The parts after the name have fixed lengths: nothing can be shifted."""
    return _BATCH + network.encode() + size.to_bytes(2, "big") + root


class SignatureChecker:
    """Checks batch signatures, and each signature only once: it remembers a bounded number of roots that were
    right.

    What is remembered is the root *with* its publisher and signature, so that a right root never lets a
    forged signature through to others. Events of a batch mostly come one after the other, and the ways of
    neighbours to the root soon meet; so the last way is remembered too, and followed only up to there.
    """

    def __init__(self, verify: Verify, network: str, roots_kept: int = ROOTS_KEPT) -> None:
        self.signatures_checked = 0
        """How often the expensive check was made."""
        self._network = network
        self._verify = verify
        self._kept = roots_kept
        self._right: dict[tuple[bytes, bytes], bytes] = {}
        self._last: MerklePath | None = None

    def holds(self, signed: SignedEvent) -> bool:
        """Whether the event's publisher signed it."""
        return self.check(signed.cid, signed.signature, signed.record.publisher)

    def check(self, cid: bytes, signature: BatchSignature, publisher: bytes) -> bool:
        """Whether the publisher with this public key signed the event with this content id."""
        way = MerklePath(cid, signature, publisher)
        if self._last is not None and way.meets(self._last):
            self._last = way
            return True
        root = way.root()
        if root is None:
            return False
        text = _text(self._network, signature.size, root)
        key = (publisher, signature.root_signature)
        if self._right.get(key) != text:
            self.signatures_checked += 1
            if not self._verify(publisher, text, signature.root_signature):
                return False
            if len(self._right) >= self._kept:
                del self._right[next(iter(self._right))]
            self._right[key] = text
        self._last = way
        return True


class MerklePath:
    """The way from an event to the root of its batch: the hash at each level, as far as they are known."""

    __slots__ = ("hashes", "left", "publisher", "signature")

    def __init__(self, cid: bytes, signature: BatchSignature, publisher: bytes) -> None:
        self.signature, self.publisher = signature, publisher
        self.hashes = [hashlib.sha256(_LEAF + cid).digest()]
        self.left = [signature.path]
        """At each level, the rest of the signature's path."""

    def root(self) -> bytes | None:
        """The root that the signature leads to; None where its path has the wrong length."""
        while len(self.hashes) <= (self.signature.size - 1).bit_length():
            if not self._step():
                return None
        return None if self.left[-1] else self.hashes[-1]

    def meets(self, other: "MerklePath") -> bool:
        """Whether this way runs into another one of the same batch, all of which is known to be right."""
        signature, before = self.signature, other.signature
        if (
            signature.root_signature != before.root_signature
            or signature.size != before.size
            or self.publisher != other.publisher
        ):
            return False
        together = (signature.leaf ^ before.leaf).bit_length()
        while len(self.hashes) <= together:
            if not self._step():
                return False
        if self.hashes[together] != other.hashes[together] or self.left[together] != other.left[together]:
            return False
        self.hashes += other.hashes[together + 1 :]
        self.left += other.left[together + 1 :]
        return True

    def _step(self) -> bool:
        """Go up a level; whether the path has what that needs."""
        level, here, left = len(self.hashes) - 1, self.hashes[-1], self.left[-1]
        size, index = -(-self.signature.size >> level), self.signature.leaf >> level
        if index ^ 1 < size:
            beside, left = left[:HASH_BYTES], left[HASH_BYTES:]
            if len(beside) < HASH_BYTES:
                return False
            here = hashlib.sha256(_NODE + (beside + here if index & 1 else here + beside)).digest()
        self.hashes.append(here)
        self.left.append(left)
        return True
