"""Every encoding of a value that DAG-CBOR forbids although it says the same: one fault each.

The rules are those of the DAG-CBOR specification (ipld.io/specs/codecs/dag-cbor/spec, "Strictness") and of
the published fixtures (github.com/ipld/codec-fixtures): shortest numbers and lengths, nothing of indefinite
length, names of maps that are texts, in order and single, no tag but 42, content ids with a zero before them.
"""

import struct
from collections.abc import Iterator
from typing import Any

import dag_cbor
from multiformats import CID

from vinecast.core.log.blocks import BYTES, LIST, MAP, NUMBER, TEXT, head

WIDTHS = ((24, 1), (25, 2), (26, 4), (27, 8))
TAG = 6


def longer_heads(major: int, value: int) -> Iterator[bytes]:
    """The heads that say the same with more bytes than needed."""
    shortest = len(head(major, value))
    for short, width in WIDTHS:
        if 1 + width > shortest:
            yield bytes([major << 5 | short]) + value.to_bytes(width, "big")


def misformed(value: Any) -> Iterator[tuple[str, bytes]]:
    """(rule that is broken, bytes)"""
    match value:
        case None:
            yield "undefined for null", b"\xf7"
            yield "null in two bytes", b"\xf8\x16"
        case bool():
            raise TypeError("no record of ours has one")
        case int():
            for start in longer_heads(NUMBER, value):
                yield "number not the shortest", start
            yield "float for a number", b"\xfb" + struct.pack(">d", value)
            yield "big number for a number", b"\xc2" + dag_cbor.encode(value.to_bytes(8, "big"))
        case str():
            yield from _misformed_string(TEXT, value.encode())
        case bytes():
            yield from _misformed_string(BYTES, value)
        case CID():
            yield from _misformed_link(value)
        case list():
            yield from _misformed_items(LIST, [[item] for item in value])
        case dict():
            ordered = sorted(value.items(), key=lambda item: (len(item[0].encode()), item[0].encode()))
            yield from _misformed_items(MAP, [list(item) for item in ordered])
            yield from _misformed_names(ordered)
        case _:
            raise TypeError(type(value))


def _misformed_string(major: int, data: bytes) -> Iterator[tuple[str, bytes]]:
    for start in longer_heads(major, len(data)):
        yield "length not the shortest", start + data
    yield "string of indefinite length", bytes([major << 5 | 31]) + head(major, len(data)) + data + b"\xff"


def _misformed_link(cid: CID) -> Iterator[tuple[str, bytes]]:
    data = bytes(cid)
    good = dag_cbor.encode(b"\0" + data)
    for start in longer_heads(TAG, 42):
        yield "tag not the shortest", start + good
    for _, bad in misformed(b"\0" + data):
        yield "link with a misformed string", head(TAG, 42) + bad
    yield "tag other than 42", head(TAG, 43) + good
    yield "tag within the tag", head(TAG, 42) * 2 + good
    yield "content id without a zero", head(TAG, 42) + dag_cbor.encode(data)
    yield "content id after another sign", head(TAG, 42) + dag_cbor.encode(b"b" + data)
    yield "content id as text", head(TAG, 42) + dag_cbor.encode(str(cid))
    yield "no content id", head(TAG, 42) + dag_cbor.encode(b"")
    yield "content id cut short", head(TAG, 42) + dag_cbor.encode(b"\0" + data[:-1])
    yield "content id continued", head(TAG, 42) + dag_cbor.encode(b"\0" + data + b"\0")


def _misformed_items(major: int, rows: list[list[Any]]) -> Iterator[tuple[str, bytes]]:
    """Of a list, whose rows have one item, or of a map, whose rows have two."""
    encoded = [[dag_cbor.encode(item) for item in row] for row in rows]
    body = b"".join(map(b"".join, encoded))
    for start in longer_heads(major, len(rows)):
        yield "count not the shortest", start + body
    yield "indefinite count", bytes([major << 5 | 31]) + body + b"\xff"
    for i, row in enumerate(rows):
        for j, item in enumerate(row):
            for rule, bad in misformed(item):
                changed = [list(items) for items in encoded]
                changed[i][j] = bad
                yield rule, head(major, len(rows)) + b"".join(map(b"".join, changed))


def _misformed_names(ordered: list[tuple[str, Any]]) -> Iterator[tuple[str, bytes]]:
    entries = [dag_cbor.encode(name) + dag_cbor.encode(value) for name, value in ordered]
    count = len(entries)
    for i in range(count):
        twice = [*entries[: i + 1], *entries[i:]]
        yield "name twice", head(MAP, count + 1) + b"".join(twice)
        name, value = ordered[i]
        as_bytes = [*entries[:i], dag_cbor.encode(name.encode()) + dag_cbor.encode(value), *entries[i + 1 :]]
        yield "name that is no text", head(MAP, count) + b"".join(as_bytes)
    for i in range(count - 1):
        swapped = [*entries[:i], entries[i + 1], entries[i], *entries[i + 2 :]]
        yield "names out of order", head(MAP, count) + b"".join(swapped)
