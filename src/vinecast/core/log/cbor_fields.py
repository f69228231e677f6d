"""Pieces of DAG-CBOR that topic descriptors and name records share: links, maps, and fields in a fixed order.

As everywhere in ``core/log/blocks``, each value has one encoding, and readers refuse all others with a
``RemoteError``. A reader says beforehand how much it takes, so that nothing a peer sends decides how much is
allocated.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from vinecast.core.errors import RemoteError
from vinecast.core.log.blocks import (
    CID_BYTES,
    CID_HEAD,
    LINK_BYTES,
    LINK_HEAD,
    MAP,
    TEXT,
    head,
    read_head,
    read_text,
)

NOTHING = b"\xf6"
"""CBOR's null: a field that says nothing."""

Value = TypeVar("Value")


def field_heads(names: Iterable[str]) -> tuple[bytes, ...]:
    """What stands before each value of a map with these fields: its key, and before the first the map's head.

    names: in the order of DAG-CBOR, shorter ones first, then by their bytes
    """
    keys = [head(TEXT, len(name)) + name.encode() for name in names]
    return head(MAP, len(keys)) + keys[0], *keys[1:]


def read_past(block: bytes, at: int, expected: bytes, what: str) -> int:
    """Where the bytes end that must stand at this place in a record of this kind."""
    if not block.startswith(expected, at):
        raise RemoteError(f"block that is not a {what}")
    return at + len(expected)


def write_link(cid: bytes) -> bytes:
    """A link to the block with this content id."""
    return LINK_HEAD + cid[len(CID_HEAD) :]


def read_link(block: bytes, at: int) -> tuple[bytes, int]:
    """The content id that the link at this place names, and where the link ends."""
    end = at + LINK_BYTES
    if not block.startswith(LINK_HEAD, at) or end > len(block):
        raise RemoteError("block with a link that is not to a block of ours")
    return block[end - CID_BYTES : end], end


def write_map(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A map of these names, in UTF-8, to these values, encoded already."""
    ordered = sorted(entries, key=lambda entry: (len(entry[0]), entry[0]))
    return head(MAP, len(ordered)) + b"".join(head(TEXT, len(name)) + name + value for name, value in ordered)


def read_map(
    block: bytes,
    at: int,
    count_max: int,
    name_bytes_max: int,
    read_value: Callable[[bytes, int], tuple[Value, int]],
) -> tuple[dict[str, Value], int]:
    """The map at this place, with names that are not empty, and where it ends."""
    count, at = read_head(block, at, MAP)
    if count > count_max:
        raise RemoteError("block with a map over its limit")
    entries: dict[str, Value] = {}
    last = (0, b"")
    for _ in range(count):
        name, at = read_text(block, at, name_bytes_max)
        key = name.encode()
        if (len(key), key) <= last:
            raise RemoteError("block with a map's names out of order, twice or empty")
        last = (len(key), key)
        entries[name], at = read_value(block, at)
    return entries, at
