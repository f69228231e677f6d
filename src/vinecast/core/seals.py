"""Seals: a publisher's signature over a batch of events, cut so that each event carries its own proof.

Checking an Ed25519 signature costs about a hundred times as much as hashing, so events that were accepted
together share one: it is over the root of the Merkle tree of their content ids, and each event's seal adds
the hashes from its leaf to that root. A single event is the smallest batch: no hashes, only a signature.
Whoever receives several events of a batch checks the signature once.

The tree is built from the left, pair by pair; a node without a partner moves up as it is. Leaves and inner
nodes are hashed in domains of their own, and the signature covers the number of leaves and the network's
name, so that a seal fits exactly one event, at one place of one batch, in one network.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vinecast.core.blocks import CID_HEAD, cid_of
from vinecast.core.errors import InputError, RemoteError
from vinecast.core.records import EventRecord, decode, encode

BATCH_MAX = 1024
"""Events under one signature (ours): ten hashes of proof at most."""
SIGNATURE_BYTES, HASH_BYTES = 64, 32
ROOTS_KEPT = 1024
"""Verified roots that a checker remembers (ours), about 300 bytes each."""

_BATCH, _LEAF, _NODE = b"vinecast batch 1\0", b"\0", b"\1"
_FIXED_BYTES = SIGNATURE_BYTES + 4
SEAL_BYTES_MAX = _FIXED_BYTES + HASH_BYTES * (BATCH_MAX - 1).bit_length()

Sign = Callable[[bytes], bytes]
"""Text -> signature."""
Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key, text, signature) -> whether it is the key's."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What proves that a publisher signed an event."""

    signature: bytes
    """Over the batch, 64 bytes."""
    size: int
    """Events in the batch."""
    index: int
    """Which of them this is."""
    path: bytes
    """The hashes beside the way from its leaf to the root, 32 bytes each, lowest first."""

    def to_bytes(self) -> bytes:
        """The seal for the wire: the size and the index say how many hashes follow."""
        place = (self.size << 16 | self.index).to_bytes(4, "big")
        return self.signature + place + self.path

    @classmethod
    def from_bytes(cls, data: bytes) -> "Seal":
        """The seal that a peer sent, as far as its form goes."""
        if not _FIXED_BYTES <= len(data) <= SEAL_BYTES_MAX:
            raise RemoteError("seal of an impossible length")
        place = int.from_bytes(data[SIGNATURE_BYTES:_FIXED_BYTES], "big")
        size, index = place >> 16, place & 0xFFFF
        if not index < size <= BATCH_MAX:
            raise RemoteError("seal of an impossible place")
        path = data[_FIXED_BYTES:]
        if len(path) != HASH_BYTES * path_length(size, index):
            raise RemoteError("seal of an impossible length")
        return cls(data[:SIGNATURE_BYTES], size, index, path)


@dataclass(frozen=True, slots=True)
class Sealed:
    """An event with all that proves it, as it travels and is kept."""

    record: EventRecord
    block: bytes
    """The record's bytes."""
    cid: bytes
    """The block's content id."""
    seal: Seal

    @property
    def digest(self) -> bytes:
        """The hash in the content id, 32 bytes."""
        return self.cid[len(CID_HEAD) :]


def seal_events(network: str, records: Sequence[EventRecord], sign: Sign) -> list[Sealed]:
    """Seal a publisher's events with one signature. InputError when one of them is outside the limits."""
    blocks = [encode(record) for record in records]
    cids = [cid_of(block) for block in blocks]
    seals = sign_batch(network, cids, sign)
    return [Sealed(*event) for event in zip(records, blocks, cids, seals, strict=True)]


def read_sealed(block: bytes, seal: bytes) -> Sealed:
    """What a peer sent as an event, as far as its form goes; whether its seal holds, a checker says."""
    return Sealed(decode(block), block, cid_of(block), Seal.from_bytes(seal))


def path_length(size: int, index: int) -> int:
    """How many hashes lie beside the way from this leaf to the root."""
    length = 0
    while size > 1:
        length += (index ^ 1) < size
        size, index = (size + 1) >> 1, index >> 1
    return length


def sign_batch(network: str, cids: Sequence[bytes], sign: Sign) -> list[Seal]:
    """One seal for each of these content ids, with one signature for all."""
    size = len(cids)
    if not 0 < size <= BATCH_MAX:
        raise InputError(f"a batch has 1 to {BATCH_MAX} events, not {size}")
    levels = _levels(cids)
    signature = sign(_text(network, size, levels[-1][0]))
    seals = []
    for index in range(size):
        path, at = [], index
        for level in levels[:-1]:
            if (beside := at ^ 1) < len(level):
                path.append(level[beside])
            at >>= 1
        seals.append(Seal(signature, size, index, b"".join(path)))
    return seals


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


def root_of(cid: bytes, seal: Seal) -> bytes | None:
    """The root that a seal leads to from an event; None where its path has the wrong length."""
    sha256 = hashlib.sha256
    here = sha256(_LEAF + cid).digest()
    path, size, index, at = seal.path, seal.size, seal.index, 0
    while size > 1:
        if (index ^ 1) < size:
            beside = path[at : at + HASH_BYTES]
            at += HASH_BYTES
            here = sha256(_NODE + (beside + here if index & 1 else here + beside)).digest()
        size, index = (size + 1) >> 1, index >> 1
    return here if at == len(path) else None


def _text(network: str, size: int, root: bytes) -> bytes:
    """What a batch's publisher signs. The parts after the name have fixed lengths: nothing can be shifted."""
    return _BATCH + network.encode() + size.to_bytes(2, "big") + root


class SealChecker:
    """Checks seals, and each signature only once: it remembers a bounded number of roots that were right.

    What is remembered is the root *with* its publisher and signature, so that a right root never lets a
    forged signature through to others.
    """

    def __init__(self, verify: Verify, network: str, roots_kept: int = ROOTS_KEPT) -> None:
        self.signatures_checked = 0
        """How often the expensive check was made."""
        self._network = network
        self._verify = verify
        self._kept = roots_kept
        self._right: dict[tuple[bytes, bytes], bytes] = {}

    def holds(self, sealed: Sealed) -> bool:
        """Whether the event's publisher sealed it."""
        return self.check(sealed.cid, sealed.seal, sealed.record.publisher)

    def check(self, cid: bytes, seal: Seal, publisher: bytes) -> bool:
        """Whether the publisher with this public key sealed the event with this content id."""
        root = root_of(cid, seal)
        if root is None:
            return False
        text = _text(self._network, seal.size, root)
        key = (publisher, seal.signature)
        if self._right.get(key) == text:
            return True
        self.signatures_checked += 1
        if not self._verify(publisher, text, seal.signature):
            return False
        if len(self._right) >= self._kept:
            del self._right[next(iter(self._right))]
        self._right[key] = text
        return True
