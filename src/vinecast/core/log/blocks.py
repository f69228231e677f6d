"""Content-addressed blocks: content ids, and the few pieces of DAG-CBOR that our records are made of.

A block is bytes; its content id is CIDv1 with the codec dag-cbor and the hash sha2-256. Because the id is a
hash of the bytes, one value must have exactly one encoding: lengths and numbers take their shortest form, the
keys of a map ascend (shorter first, then by their bytes), nothing has indefinite length. Readers here refuse
everything else, and what they refuse is always the remote peer's fault.

Why not a CBOR library: our records have a fixed shape, so that writing one is joining constants, and reading
one is comparing them; both are faster than a general library that must be checked afterwards by encoding
again, and nothing that a peer sends decides how deep we look or how much we allocate.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable

from vinecast.core.errors import InputError, RemoteError

CID_HEAD = b"\x01\x71\x12\x20"
"""CIDv1, dag-cbor, sha2-256, 32 bytes: how every content id of ours begins."""
CID_BYTES = len(CID_HEAD) + 32

NUMBER, BYTES, TEXT, LIST, MAP = 0, 2, 3, 4, 5
"""The major types of CBOR that our records use."""

LINK_HEAD = b"\xd8\x2a\x58\x25\x00" + CID_HEAD
"""How a link to a block is written: tag 42, a byte string of 37 bytes, a zero, the content id."""
LINK_BYTES = len(LINK_HEAD) + 32

ContentId = Callable[[bytes], bytes]
"""Block → its content id: ``cid_of``, or what stands in a record (``peer/record``)."""

_ONE_BYTE = tuple(bytes((value,)) for value in range(256))
_SHORT = 24
_LEAST = (24, 1 << 8, 1 << 16, 1 << 32)
_WIDTH = (1, 2, 4, 8)
_TEXT_LENGTH = len(base64.b32encode(bytes(CID_BYTES)).rstrip(b"=")) + 1


def cid_of(block: bytes) -> bytes:
    """The content id of a block, in binary."""
    return CID_HEAD + hashlib.sha256(block).digest()


def is_cid(data: bytes) -> bool:
    """Whether this is a content id of the one kind we use."""
    return len(data) == CID_BYTES and data.startswith(CID_HEAD)


def cid_text(cid: bytes) -> str:
    """The content id for people and files: base32, as in ``bafy…``."""
    return "b" + base64.b32encode(cid).rstrip(b"=").decode().lower()


def cid_from_text(text: str) -> bytes:
    """The content id that a person or a file names."""
    if len(text) == _TEXT_LENGTH and text.isascii():
        digits = text[1:].upper()
        try:
            cid = base64.b32decode(digits + "=" * (-len(digits) % 8))
        except binascii.Error:
            cid = b""
        if is_cid(cid) and cid_text(cid) == text:
            return cid
    raise InputError("an event id begins with 'bafy' and has 59 letters and digits")


def head(major: int, value: int) -> bytes:
    """The start of any CBOR item: its major type, and its value or length in the shortest form."""
    kind = major << 5
    if value < _SHORT:
        return _ONE_BYTE[kind | value]
    if value < 1 << 8:
        return bytes((kind | 24, value))
    if value < 1 << 16:
        return ((kind | 25) << 16 | value).to_bytes(3, "big")
    if value < 1 << 32:
        return ((kind | 26) << 32 | value).to_bytes(5, "big")
    return ((kind | 27) << 64 | value).to_bytes(9, "big")


def read_head(block: bytes, at: int, major: int) -> tuple[int, int]:
    """The value or length of the item at this place, which must be of this type, and where its head ends."""
    if at >= len(block):
        raise RemoteError("block cut short")
    first = block[at]
    if first >> 5 != major:
        raise RemoteError("block with an item of the wrong type")
    short = first & 31
    if short < _SHORT:
        return short, at + 1
    if short > 27:
        raise RemoteError("block with an item of indefinite length")
    end = at + 1 + _WIDTH[short - _SHORT]
    if end > len(block):
        raise RemoteError("block cut short")
    value = int.from_bytes(block[at + 1 : end], "big")
    if value < _LEAST[short - _SHORT]:
        raise RemoteError("block with a number that is not in its shortest form")
    return value, end


def read_bytes(block: bytes, at: int, length_max: int) -> tuple[bytes, int]:
    """The byte string at this place, and where it ends."""
    length, start = read_head(block, at, BYTES)
    end = start + length
    if length > length_max:
        raise RemoteError("block with a byte string over its limit")
    if end > len(block):
        raise RemoteError("block cut short")
    return block[start:end], end


def read_text(block: bytes, at: int, length_max: int) -> tuple[str, int]:
    """The text at this place, at most this many bytes of UTF-8, and where it ends."""
    length, start = read_head(block, at, TEXT)
    end = start + length
    if length > length_max:
        raise RemoteError("block with a text over its limit")
    if end > len(block):
        raise RemoteError("block cut short")
    try:
        return block[start:end].decode(), end
    except UnicodeDecodeError:
        raise RemoteError("block with a text that is not UTF-8") from None
