"""The event record: what a publisher says, as one immutable block that anyone can check and name.

A record is a DAG-CBOR map of eight fields. Its content id names it everywhere, its publisher's signature
(``core/log/batch_signature``) is over that id. An event of a durable stream names the events that it follows,
its parents, and its height above the stream's beginning: one more than its highest parent's. Height, then
content id, is an order of the stream that everybody finds who holds the same events. Events outside streams
have height 0 and no parents. The limits below are the same on every node: a record that one node takes and
another refuses would be a hole in the network, so they are constants and not configuration.

``encode`` speaks to the caller (``InputError``), ``decode`` about a peer (``RemoteError``; its reasons are
fixed sentences that say nothing of what was sent, fit to be counted).
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from vinecast.core.errors import BadNameError, InputError, RemoteError
from vinecast.core.log.blocks import (
    BYTES,
    CID_BYTES,
    CID_HEAD,
    LINK_BYTES,
    LINK_HEAD,
    LIST,
    MAP,
    NUMBER,
    TEXT,
    head,
    is_cid,
    read_bytes,
    read_head,
    read_text,
)

TOPIC_BYTES_MAX = 255
"""Of a topic's name in UTF-8."""
PAYLOAD_BYTES_MAX = 256 * 1024
"""Of one event's payload (ours): an event travels over many links and waits in many bounded queues."""
HEADERS_MAX = 32
"""Headers of one event (ours)."""
HEADERS_BYTES_MAX = 8192
"""Of all headers of one event together, as they are encoded (ours)."""
PARENTS_MAX = 16
"""Parents of one event (ours)."""
PUBLIC_KEY_BYTES = 32
"""An Ed25519 public key."""
NUMBER_MAX = 2**63 - 1
"""Of a sequence number: what a signed column holds."""
TIME_MAX = 253_402_300_799_999_999
"""The last microsecond of the year 9999: what a calendar holds."""

_FIELDS = ("time", "topic", "height", "headers", "parents", "payload", "sequence", "publisher")
"""In the order of DAG-CBOR: shorter keys first, then by their bytes."""
_TIME, _TOPIC, _HEIGHT, _HEADERS, _PARENTS, _PAYLOAD, _SEQUENCE, _PUBLISHER = (
    (head(MAP, len(_FIELDS)) if i == 0 else b"") + head(TEXT, len(name)) + name.encode()
    for i, name in enumerate(_FIELDS)
)
BLOCK_BEGINS = _TIME
"""How every block of an event begins, and no other block of ours."""
_PUBLISHER += head(BYTES, PUBLIC_KEY_BYTES)
_PLAIN = _HEIGHT + head(NUMBER, 0) + _HEADERS + head(MAP, 0) + _PARENTS + head(LIST, 0) + _PAYLOAD
"""Between the topic and the payload of an event outside streams, without headers, as most are."""
_PLAIN_TIME = _TIME + head(NUMBER, 1 << 32)[:1]
_FRONT = struct.Struct(f">{len(_PLAIN_TIME)}sQ{len(_TOPIC)}sB")
"""The start of such a block, if its time is of this century: until the first byte of the topic's head."""
_NUMBERS = (("B", 0, 23), ("B", 24, 2**8 - 1), ("H", 2**8, 2**16 - 1), ("I", 2**16, 2**32 - 1))
_ENDS = {
    end.size: (end.unpack_from, before, least, most)
    for code, least, most in (*_NUMBERS, ("Q", 2**32, NUMBER_MAX))
    for before in (_SEQUENCE + (head(NUMBER, least)[:1] if least else b""),)
    for end in (struct.Struct(f">{len(before)}s{code}{len(_PUBLISHER)}s{PUBLIC_KEY_BYTES}s"),)
}
"""What follows the payload has one of five lengths, by the width of the sequence number: how to read it, what
stands before the number, and which numbers have this width."""
_read_front, _FRONT_BYTES, _PLAIN_BYTES = _FRONT.unpack_from, _FRONT.size, len(_PLAIN)
_read_width = struct.Struct(">BH").unpack_from
_TEXT_0, _TEXT_8 = TEXT << 5, TEXT << 5 | 24
_BYTES_0, _BYTES_8, _BYTES_16 = BYTES << 5, BYTES << 5 | 24, BYTES << 5 | 25
"""First bytes of heads: of an empty item, and of one whose length has 8 or 16 bits."""
_new = tuple.__new__
TOPICS_READ = 1024
"""Topics that need not be read again (ours), some hundred bytes each."""

BLOCK_BYTES_MAX = (
    sum(map(len, (_TIME, _TOPIC, _HEIGHT, _HEADERS, _PARENTS, _PAYLOAD, _SEQUENCE, _PUBLISHER)))
    + 3 * 9  # the numbers
    + len(head(TEXT, TOPIC_BYTES_MAX))
    + TOPIC_BYTES_MAX
    + HEADERS_BYTES_MAX
    + len(head(LIST, PARENTS_MAX))
    + PARENTS_MAX * LINK_BYTES
    + len(head(BYTES, PAYLOAD_BYTES_MAX))
    + PAYLOAD_BYTES_MAX
    + PUBLIC_KEY_BYTES
)
"""No record's block is larger: what a frame must have room for."""


NO_HEADERS: Mapping[str, str | bytes] = MappingProxyType({})


class EventRecord(NamedTuple):
    """One event as its publisher made it. A tuple, since that is what Python makes fastest."""

    topic: str
    """Where it was published: a path such as ``sports/tennis``."""
    publisher: bytes
    """The publisher's public key, 32 bytes."""
    sequence: int
    """The publisher's own count of its events: ascending over all its topics, never used twice."""
    time_us: int
    """When it was published by the publisher's clock, in microseconds since the epoch."""
    payload: bytes
    """What the application says."""
    headers: Mapping[str, str | bytes] = NO_HEADERS
    """What the application says about it."""
    parents: tuple[bytes, ...] = ()
    """Content ids of the events that it follows, no two the same."""
    height: int = 0
    """One more than the highest of its parents'; 1 where a stream begins, 0 outside streams."""


def topic_fault(name: str) -> str:
    """Why this cannot be the name of a topic, or an empty string when it can.

    A name is a path: segments that are not empty, separated by ``/``. The signs of patterns (``+``, ``#``)
    and NUL never occur in it. Names are compared byte by byte.
    """
    if not name or name[0] == "/" or name[-1] == "/" or "//" in name:
        return "a topic is a path of non-empty segments"
    if "#" in name or "+" in name or "\0" in name:
        return "a topic contains no '#', no '+' and no NUL"
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "a topic is valid Unicode"
    return f"a topic has at most {TOPIC_BYTES_MAX} bytes" if length > TOPIC_BYTES_MAX else ""


def encode(record: EventRecord) -> bytes:
    """The record's one block. InputError when it is outside the limits."""
    fault = topic_fault(record.topic)
    if fault:
        raise BadNameError(f"{fault}, not {record.topic[:80]!r}")
    topic, payload = record.topic.encode(), record.payload
    if not isinstance(payload, bytes):
        raise InputError(f"a payload must be bytes, not {type(payload).__name__}")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise InputError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes, not {len(payload)}")
    if len(record.publisher) != PUBLIC_KEY_BYTES:
        raise InputError(f"a publisher's key has {PUBLIC_KEY_BYTES} bytes, not {len(record.publisher)}")
    if not 0 <= record.sequence <= NUMBER_MAX:
        raise InputError(f"a sequence number must be from 0 to 2⁶³ − 1, not {record.sequence}")
    if not 0 <= record.time_us <= TIME_MAX:
        raise InputError(f"a time must be from 1970 to the year 9999, not {record.time_us} µs")
    if not _fits(record.height, len(record.parents)):
        raise InputError(f"an event with {len(record.parents)} parents cannot have height {record.height}")
    return b"".join(
        (
            _TIME,
            head(NUMBER, record.time_us),
            _TOPIC,
            head(TEXT, len(topic)),
            topic,
            _HEIGHT,
            head(NUMBER, record.height),
            _HEADERS,
            _encode_headers(record.headers) if record.headers else b"\xa0",
            _PARENTS,
            _encode_parents(record.parents) if record.parents else b"\x80",
            _PAYLOAD,
            head(BYTES, len(payload)),
            payload,
            _SEQUENCE,
            head(NUMBER, record.sequence),
            _PUBLISHER,
            record.publisher,
        )
    )


def _fits(height: int, parents: int) -> bool:
    """Whether an event with so many parents can have this height."""
    return 2 <= height <= NUMBER_MAX if parents else 0 <= height <= 1


def _encode_headers(headers: Mapping[str, str | bytes]) -> bytes:
    if len(headers) > HEADERS_MAX:
        raise InputError(f"an event has at most {HEADERS_MAX} headers, not {len(headers)}")
    items: list[tuple[int, bytes, int, bytes]] = []
    for name, value in headers.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"a header's name must be a non-empty string, not {name!r}")
        if not isinstance(value, str | bytes):
            raise InputError(
                f"the header {name[:80]!r} must be a string or bytes, not {type(value).__name__}"
            )
        try:
            key = name.encode()
            items.append(
                (len(key), key, *((TEXT, value.encode()) if isinstance(value, str) else (BYTES, value)))
            )
        except UnicodeEncodeError:
            raise InputError(f"the header {name[:80]!r} must be valid Unicode") from None
    items.sort()  # shorter names first, then by their bytes: the order of DAG-CBOR
    parts = [head(MAP, len(items))]
    for length, key, kind, data in items:
        parts += (head(TEXT, length), key, head(kind, len(data)), data)
    encoded = b"".join(parts)
    if len(encoded) > HEADERS_BYTES_MAX:
        raise InputError(
            f"the headers of an event take at most {HEADERS_BYTES_MAX} bytes, not {len(encoded)}"
        )
    return encoded


def _encode_parents(parents: tuple[bytes, ...]) -> bytes:
    if len(parents) > PARENTS_MAX:
        raise InputError(f"an event has at most {PARENTS_MAX} parents, not {len(parents)}")
    if len(set(parents)) < len(parents):
        raise InputError("the parents of an event must differ from each other")
    if not all(map(is_cid, parents)):
        raise InputError("a parent must be the content id of an event")
    return head(LIST, len(parents)) + b"".join(LINK_HEAD + cid[len(CID_HEAD) :] for cid in parents)


def decode(block: bytes) -> EventRecord:
    """The record in a block that came from anywhere. RemoteError unless ``encode`` gives these very bytes."""
    try:
        record = _decode_plain(block)
    except (IndexError, struct.error):
        record = None
    return record or _decode_any(block)


def _decode_plain(block: bytes) -> EventRecord | None:
    """The record of a block that looks as most do: a time of this century, outside streams, no headers,
    a payload of up to 64 KiB. None, or any error, for all others: nothing is said about them."""
    start, time_us, key, width = _read_front(block)
    length = width - _TEXT_0 if width != _TEXT_8 else 1 + block[_FRONT_BYTES]
    end = _FRONT_BYTES + length + _PLAIN_BYTES
    topic = _topic_before_payload(block[_FRONT_BYTES - 1 : end])
    width, length = _read_width(block, end)
    if width == _BYTES_16:
        at, least = end + 3, 256
    elif width == _BYTES_8:
        at, least, length = end + 2, 24, length >> 8
    elif width < _BYTES_8:
        at, least, length = end + 1, 0, width - _BYTES_0
    else:
        return None
    end = at + length
    rest = _ENDS.get(len(block) - end)
    if rest is None or length < least:
        return None
    read_rest, expected, least, most = rest
    before, sequence, after, publisher = read_rest(block, end)
    if (
        start == _PLAIN_TIME
        and key == _TOPIC
        and topic
        and before == expected
        and after == _PUBLISHER
        and least <= sequence <= most
        and 1 << 32 <= time_us <= TIME_MAX
    ):
        return _new(EventRecord, (topic, publisher, sequence, time_us, block[at:end], NO_HEADERS, (), 0))
    return None


@lru_cache(TOPICS_READ)
def _topic_before_payload(between: bytes) -> str:
    """The topic in the bytes from its head to that of the payload, in a block as above; empty where
    they are something else."""
    try:
        topic, end = read_text(between, 0, TOPIC_BYTES_MAX)
    except RemoteError:
        return ""
    return topic if between[end:] == _PLAIN and not topic_fault(topic) else ""


def _decode_any(block: bytes) -> EventRecord:
    if len(block) > BLOCK_BYTES_MAX:
        raise RemoteError("block over its limit")
    time_us, at = read_head(block, _after(block, 0, _TIME), NUMBER)
    topic, at = read_text(block, _after(block, at, _TOPIC), TOPIC_BYTES_MAX)
    height, at = read_head(block, _after(block, at, _HEIGHT), NUMBER)
    headers, at = _read_headers(block, _after(block, at, _HEADERS))
    parents, at = _read_parents(block, _after(block, at, _PARENTS))
    payload, at = read_bytes(block, _after(block, at, _PAYLOAD), PAYLOAD_BYTES_MAX)
    sequence, at = read_head(block, _after(block, at, _SEQUENCE), NUMBER)
    publisher = block[_after(block, at, _PUBLISHER) :]
    if len(publisher) != PUBLIC_KEY_BYTES:
        raise RemoteError("block cut short or with bytes after its end")
    if time_us > TIME_MAX or sequence > NUMBER_MAX:
        raise RemoteError("event with a number over its limit")
    if not _fits(height, len(parents)):
        raise RemoteError("event with an impossible height")
    if topic_fault(topic):
        raise RemoteError("event with an impossible topic")
    return EventRecord(topic, publisher, sequence, time_us, payload, headers, parents, height)


def _after(block: bytes, at: int, expected: bytes) -> int:
    if not block.startswith(expected, at):
        raise RemoteError("block that is not an event record")
    return at + len(expected)


def _read_headers(block: bytes, at: int) -> tuple[dict[str, str | bytes], int]:
    start = at
    count, at = read_head(block, at, MAP)
    if count > HEADERS_MAX:
        raise RemoteError("event with too many headers")
    headers: dict[str, str | bytes] = {}
    last = (0, b"")
    for _ in range(count):
        name, at = read_text(block, at, HEADERS_BYTES_MAX)
        key = name.encode()
        if (len(key), key) <= last:
            raise RemoteError("event with headers out of order, twice or without a name")
        last = (len(key), key)
        is_text = at < len(block) and block[at] >> 5 == TEXT
        headers[name], at = (read_text if is_text else read_bytes)(block, at, HEADERS_BYTES_MAX)
    if at - start > HEADERS_BYTES_MAX:
        raise RemoteError("event with headers over their limit")
    return headers, at


def _read_parents(block: bytes, at: int) -> tuple[tuple[bytes, ...], int]:
    count, at = read_head(block, at, LIST)
    if count == 0:
        return (), at
    if count > PARENTS_MAX:
        raise RemoteError("event with too many parents")
    end = at + count * LINK_BYTES
    links = [block[i : i + LINK_BYTES] for i in range(at, end, LINK_BYTES)]
    if end > len(block) or not all(link.startswith(LINK_HEAD) for link in links):
        raise RemoteError("event with a parent that is not a content id")
    if len(set(links)) < count:
        raise RemoteError("event with a parent named twice")
    return tuple(link[-CID_BYTES:] for link in links), end
