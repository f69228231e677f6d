"""The topic descriptor: what its owner says about a topic, as an immutable block (S3 §4.1).

A descriptor names its sub-topics (the field ``#``) and links to their descriptors. A change makes a new
descriptor that links to the one before it (``parent``), so that a topic has a history; whoever forks a topic
links to the descriptor that it starts from (``from``), and so keeps that history too. A chain of links cannot
close to a circle, since each holds the hash of the next.

A descriptor has no signature. Its content id proves that nobody changed it, and the topic's name record
(``core/log/name_record``), which points to the newest, proves that the owner meant it; through their links
that goes for all that lies behind it. ``owner`` and ``name`` together say which name record that is, and stay
the same in all versions of a topic, also when it is handed on.

``encode_descriptor`` speaks to the caller (``InputError``), all readers about a peer (``RemoteError``).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from vinecast.core.errors import BadNameError, InputError, RemoteError
from vinecast.core.log.blocks import (
    BYTES,
    LINK_BYTES,
    MAP,
    NUMBER,
    TEXT,
    cid_of,
    head,
    is_cid,
    read_bytes,
    read_head,
    read_text,
)
from vinecast.core.log.cbor_fields import (
    NOTHING,
    field_heads,
    read_link,
    read_map,
    read_past,
    write_link,
    write_map,
)
from vinecast.core.log.event_record import PUBLIC_KEY_BYTES, TIME_MAX, TOPIC_BYTES_MAX, topic_fault

METADATA_MAX = 32
"""Entries of a descriptor's metadata (ours)."""
METADATA_BYTES_MAX = 8192
"""Of a descriptor's metadata, as it is encoded (ours)."""
SUBTOPICS_MAX = 512
"""Sub-topics of one topic (ours): a topic that has more groups them by another level of its path."""

_FIELDS = ("#", "from", "name", "owner", "parent", "created", "metadata")
_SUBTOPICS, _FROM, _NAME, _OWNER, _PARENT, _CREATED, _METADATA = field_heads(_FIELDS)
_OWNER += head(BYTES, PUBLIC_KEY_BYTES)
_WHAT = "topic descriptor"

DESCRIPTOR_BYTES_MAX = (
    sum(map(len, (_SUBTOPICS, _FROM, _NAME, _OWNER, _PARENT, _CREATED, _METADATA)))
    + len(head(MAP, SUBTOPICS_MAX))
    + SUBTOPICS_MAX * (len(head(TEXT, TOPIC_BYTES_MAX)) + TOPIC_BYTES_MAX + LINK_BYTES)
    + 2 * LINK_BYTES
    + len(head(TEXT, TOPIC_BYTES_MAX))
    + TOPIC_BYTES_MAX
    + PUBLIC_KEY_BYTES
    + len(head(NUMBER, TIME_MAX))
    + METADATA_BYTES_MAX
)
"""No descriptor's block is larger."""

NO_METADATA: Mapping[str, str | bytes] = MappingProxyType({})
NO_SUBTOPICS: Mapping[str, bytes] = MappingProxyType({})


class TopicDescriptor(NamedTuple):
    """One version of what a topic is. A new topic's first has no parent."""

    name: str
    """The topic: a path such as ``sports``."""
    owner: bytes
    """The public key of whoever created the topic, 32 bytes: its name record is found by it."""
    created_us: int
    """When this version was made by its maker's clock, in microseconds since the epoch."""
    metadata: Mapping[str, str | bytes] = NO_METADATA
    """What the owner says about the topic."""
    subtopics: Mapping[str, bytes] = NO_SUBTOPICS
    """Names such as ``sports/tennis``, and the content ids of their descriptors."""
    parent: bytes | None = None
    """Content id of the version before this one."""
    origin: bytes | None = None
    """Content id of the descriptor that the topic was forked from: the field ``from``."""

    @property
    def before(self) -> bytes | None:
        """Where the topic's history goes on: the version before this one, or what it was forked from."""
        return self.parent or self.origin


def is_below(name: str, topic: str) -> bool:
    """Whether a name extends a topic's by one segment or more, and so can be the name of a sub-topic.

    Levels between the two need not exist as topics.
    """
    return name.startswith(f"{topic}/") and not topic_fault(name)


def updated(
    descriptor: TopicDescriptor,
    now_us: int,
    metadata: Mapping[str, str | bytes] | None = None,
    subtopics: Mapping[str, bytes] | None = None,
) -> TopicDescriptor:
    """The next version of a topic; what is not given stays."""
    return descriptor._replace(
        created_us=now_us,
        metadata=descriptor.metadata if metadata is None else metadata,
        subtopics=descriptor.subtopics if subtopics is None else subtopics,
        parent=cid_of(encode_descriptor(descriptor)),
    )


def with_subtopic(descriptor: TopicDescriptor, name: str, link: bytes, now_us: int) -> TopicDescriptor:
    """The next version of a topic, with one more sub-topic, or another descriptor for one that it has."""
    _require_below(name, descriptor.name)
    return updated(descriptor, now_us, subtopics={**descriptor.subtopics, name: link})


def forked(
    descriptor: TopicDescriptor, owner: bytes, now_us: int, name: str | None = None
) -> TopicDescriptor:
    """A topic of another owner that starts from this one, and has its history.

    name: of the new topic, when it is another; it then keeps only the sub-topics that are below it.
    """
    name = descriptor.name if name is None else name
    return TopicDescriptor(
        name,
        owner,
        now_us,
        descriptor.metadata,
        {below: link for below, link in descriptor.subtopics.items() if is_below(below, name)},
        origin=cid_of(encode_descriptor(descriptor)),
    )


def encode_descriptor(descriptor: TopicDescriptor) -> bytes:
    """The descriptor's one block. InputError when it is outside the limits."""
    if fault := topic_fault(descriptor.name):
        raise BadNameError(f"{fault}, not {descriptor.name[:80]!r}")
    if len(descriptor.owner) != PUBLIC_KEY_BYTES:
        raise InputError(f"an owner's key has {PUBLIC_KEY_BYTES} bytes, not {len(descriptor.owner)}")
    if not 0 <= descriptor.created_us <= TIME_MAX:
        raise InputError(f"a time must be from 1970 to the year 9999, not {descriptor.created_us} µs")
    name = descriptor.name.encode()
    return b"".join(
        (
            _SUBTOPICS,
            _encode_subtopics(descriptor),
            _FROM,
            _encode_link(descriptor.origin),
            _NAME,
            head(TEXT, len(name)),
            name,
            _OWNER,
            descriptor.owner,
            _PARENT,
            _encode_link(descriptor.parent),
            _CREATED,
            head(NUMBER, descriptor.created_us),
            _METADATA,
            _encode_metadata(descriptor.metadata),
        )
    )


def _require_below(name: str, topic: str) -> None:
    if not is_below(name, topic):
        raise BadNameError(f"a sub-topic of {topic!r} is named '{topic}/…', not {name[:80]!r}")


def _encode_link(cid: bytes | None) -> bytes:
    if cid is None:
        return NOTHING
    if not is_cid(cid):
        raise InputError("a descriptor links to content ids")
    return write_link(cid)


def _encode_subtopics(descriptor: TopicDescriptor) -> bytes:
    if len(descriptor.subtopics) > SUBTOPICS_MAX:
        raise InputError(f"a topic has at most {SUBTOPICS_MAX} sub-topics, not {len(descriptor.subtopics)}")
    for name in descriptor.subtopics:
        _require_below(name, descriptor.name)
    return write_map((name.encode(), _encode_link(cid)) for name, cid in descriptor.subtopics.items())


def _encode_metadata(metadata: Mapping[str, str | bytes]) -> bytes:
    if len(metadata) > METADATA_MAX:
        raise InputError(f"metadata has at most {METADATA_MAX} entries, not {len(metadata)}")
    entries = []
    for name, value in metadata.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"a name in metadata must be a non-empty string, not {name!r}")
        if not isinstance(value, str | bytes):
            raise InputError(
                f"the metadata {name[:80]!r} must be a string or bytes, not {type(value).__name__}"
            )
        try:
            kind, data = (TEXT, value.encode()) if isinstance(value, str) else (BYTES, value)
            entries.append((name.encode(), head(kind, len(data)) + data))
        except UnicodeEncodeError:
            raise InputError(f"the metadata {name[:80]!r} must be valid Unicode") from None
    encoded = write_map(entries)
    if len(encoded) > METADATA_BYTES_MAX:
        raise InputError(f"metadata takes at most {METADATA_BYTES_MAX} bytes, not {len(encoded)}")
    return encoded


def decode_descriptor(block: bytes) -> TopicDescriptor:
    """The descriptor in a block that came from anywhere. RemoteError unless encoding it gives these bytes."""
    if len(block) > DESCRIPTOR_BYTES_MAX:
        raise RemoteError("block over its limit")
    at = read_past(block, 0, _SUBTOPICS, _WHAT)
    subtopics, at = read_map(block, at, SUBTOPICS_MAX, TOPIC_BYTES_MAX, read_link)
    origin, at = _read_link(block, read_past(block, at, _FROM, _WHAT))
    name, at = read_text(block, read_past(block, at, _NAME, _WHAT), TOPIC_BYTES_MAX)
    at = read_past(block, at, _OWNER, _WHAT)
    owner, at = block[at : at + PUBLIC_KEY_BYTES], at + PUBLIC_KEY_BYTES
    parent, at = _read_link(block, read_past(block, at, _PARENT, _WHAT))
    created_us, at = read_head(block, read_past(block, at, _CREATED, _WHAT), NUMBER)
    start = read_past(block, at, _METADATA, _WHAT)
    metadata, at = read_map(block, start, METADATA_MAX, METADATA_BYTES_MAX, _read_text_or_bytes)
    if at != len(block):
        raise RemoteError("block with bytes after its end")
    if at - start > METADATA_BYTES_MAX:
        raise RemoteError("descriptor with metadata over its limit")
    if created_us > TIME_MAX:
        raise RemoteError("descriptor with a time over its limit")
    if topic_fault(name):
        raise RemoteError("descriptor of an impossible topic")
    if not all(is_below(below, name) for below in subtopics):
        raise RemoteError("descriptor with a sub-topic that is not below its topic")
    return TopicDescriptor(name, owner, created_us, metadata, subtopics, parent, origin)


def _read_link(block: bytes, at: int) -> tuple[bytes | None, int]:
    return (None, at + len(NOTHING)) if block.startswith(NOTHING, at) else read_link(block, at)


def _read_text_or_bytes(block: bytes, at: int) -> tuple[str | bytes, int]:
    is_text = at < len(block) and block[at] >> 5 == TEXT
    return (read_text if is_text else read_bytes)(block, at, METADATA_BYTES_MAX)


def read_linked(
    block: bytes, cid: bytes, name: str | None = None, owner: bytes | None = None
) -> TopicDescriptor:
    """The descriptor that a peer sent for a link. RemoteError unless it is what the link promises.

    cid: what the link names
    name: of the topic that it must describe: of the topic itself behind ``parent`` and a name record, of the
        sub-topic behind ``#``; anything behind ``from``
    owner: whom it must name: the same owner behind ``parent`` and a name record, anyone behind the others
    """
    if cid_of(block) != cid:
        raise RemoteError("block that is not the one asked for")
    descriptor = decode_descriptor(block)
    if name not in (None, descriptor.name) or owner not in (None, descriptor.owner):
        raise RemoteError("link to a descriptor of another topic")
    return descriptor
