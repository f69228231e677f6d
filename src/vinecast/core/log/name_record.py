"""The name record: a signed, expiring pointer from a topic to its newest descriptor (S3 §4.1, there IPNS).

A topic is named by its owner's public key together with its path, so that one key can own many topics and
nobody can take a name from another; the hash of both is the key under which the record is found. The owner
signs a new record, with a higher sequence number, when the topic has a new descriptor, and before the last
one expires the same again with a later expiry. Nodes choose alike among true records of a key, so that an
old record, played again, never replaces a newer one.

Handing a topic on: the owner signs that another key, its *heir*, speaks for the name from now on, and the
heir's records carry that statement; the name stays. A record with more heirs goes before all with fewer, so
that what the former owner signs later counts no more. Sharing the key file instead (S3 §4.5) would leave the
former owner with all its power, and give away every other topic of the key. An owner who appoints a second
heir begins a second *line*. A node stays with the line that it knows; one that knows neither takes the first
that it meets. Only agreement among nodes could do more.

Signatures are over hashes in domains of their own, with the network's name. An heir's also covers the name
and all heirs before it, so that it fits one place in one line.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from vinecast.core.errors import BadNameError, InputError, RemoteError
from vinecast.core.log.batch_signature import SIGNATURE_BYTES, Sign, Verify
from vinecast.core.log.blocks import (
    BYTES,
    LINK_BYTES,
    LIST,
    NUMBER,
    TEXT,
    head,
    is_cid,
    read_bytes,
    read_head,
    read_text,
)
from vinecast.core.log.cbor_fields import field_heads, read_link, read_past, write_link
from vinecast.core.log.event_record import (
    NUMBER_MAX,
    PUBLIC_KEY_BYTES,
    TIME_MAX,
    TOPIC_BYTES_MAX,
    topic_fault,
)

LIFETIME_US = 24 * 3600 * 1_000_000
"""From a record's signing to its expiry (S3 §4.1: 24 hours)."""
LIFETIME_US_MAX = 2 * LIFETIME_US
"""A record that expires later than this from now is refused (ours; twice, since clocks differ): else a name
whose key is lost would stay for ever."""
HEIRS_MAX = 8
"""How often a topic can be handed on (ours): as many signatures must be checked. Then it is forked."""

_FIELDS = ("heirs", "owner", "topic", "value", "expires", "sequence", "signature")
_HEIRS, _OWNER, _TOPIC, _VALUE, _EXPIRES, _SEQUENCE, _SIGNATURE = field_heads(_FIELDS)
_OWNER += head(BYTES, PUBLIC_KEY_BYTES)
_SIGNATURE += head(BYTES, SIGNATURE_BYTES)
_HEIR_BYTES = PUBLIC_KEY_BYTES + SIGNATURE_BYTES
_HEIR = head(BYTES, _HEIR_BYTES)
_WHAT = "name record"

NAME_BYTES_MAX = (
    sum(map(len, (_HEIRS, _OWNER, _TOPIC, _VALUE, _EXPIRES, _SEQUENCE, _SIGNATURE)))
    + len(head(LIST, HEIRS_MAX))
    + HEIRS_MAX * (len(_HEIR) + _HEIR_BYTES)
    + PUBLIC_KEY_BYTES
    + len(head(TEXT, TOPIC_BYTES_MAX))
    + TOPIC_BYTES_MAX
    + LINK_BYTES
    + len(head(NUMBER, TIME_MAX))
    + len(head(NUMBER, NUMBER_MAX))
    + SIGNATURE_BYTES
)
"""No name record's block is larger."""

_KEY_DOMAIN = b"vinecast name"
_NAME_DOMAIN, _HEIR_DOMAIN = b"vinecast name 1\0", b"vinecast heir 1\0"


class Heir(NamedTuple):
    """A key that a topic was handed on to."""

    key: bytes
    """Its public key, 32 bytes."""
    signature: bytes
    """Of the owner, or of the heir before it, 64 bytes."""


class NameRecord(NamedTuple):
    """What a topic's name points to."""

    topic: str
    """The topic: a path such as ``sports``."""
    owner: bytes
    """The public key of whoever created the topic, 32 bytes."""
    value: bytes
    """Content id of the newest descriptor."""
    sequence: int
    """Ascends with every new descriptor."""
    expires_us: int
    """When it counts no more, in microseconds since the epoch."""
    heirs: tuple[Heir, ...]
    """To whom the topic was handed on, one after the other."""
    signature: bytes
    """Of the last heir, or of the owner where there is none, over all the rest; 64 bytes."""

    @property
    def key(self) -> bytes:
        """Under which it is kept and found."""
        return name_key(self.owner, self.topic)

    @property
    def signer(self) -> bytes:
        """Whose word it is."""
        return self.heirs[-1].key if self.heirs else self.owner


def name_key(owner: bytes, topic: str) -> bytes:
    """The key under which a topic's name record is found: 32 bytes that nobody can choose.

    It is made by another hash function than content ids, so that no block has this key.
    """
    return hashlib.blake2b(owner + topic.encode(), digest_size=32, person=_KEY_DOMAIN).digest()


def replaces(record: NameRecord, known: NameRecord) -> bool:
    """Whether a true record goes before another one of the same key, which is known already.

    The later heir's does, of the same signer's the one with the higher sequence, then the later expiry, then
    the larger bytes; never one of another line.
    """
    pairs = zip(record.heirs, known.heirs, strict=False)
    return all(heir.key == other.key for heir, other in pairs) and _rank(record) > _rank(known)


def _rank(record: NameRecord) -> tuple[int, int, int, bytes]:
    return len(record.heirs), record.sequence, record.expires_us, encode_name(record)


def sign_name(
    network: str,
    topic: str,
    owner: bytes,
    value: bytes,
    sequence: int,
    now_us: int,
    sign: Sign,
    heirs: tuple[Heir, ...] = (),
) -> NameRecord:
    """A record, signed by the owner or, where there are heirs, by the last of them."""
    record = NameRecord(topic, owner, value, sequence, now_us + LIFETIME_US, heirs, bytes(SIGNATURE_BYTES))
    return record._replace(signature=sign(_name_text(network, encode_name(record))))


def hand_on(network: str, record: NameRecord, key: bytes, sign: Sign) -> tuple[Heir, ...]:
    """The heirs of a record and one more, appointed by the record's signer. They are for the new heir's own
    records; until it has signed one, nothing has changed."""
    heir = Heir(key, bytes(SIGNATURE_BYTES))
    _encode_heirs((*record.heirs, heir))  # within the limits
    signature = sign(_heir_text(network, record.key, (*record.heirs, heir)))
    return (*record.heirs, heir._replace(signature=signature))


def encode_name(record: NameRecord) -> bytes:
    """The record's one block. InputError when it is outside the limits."""
    if fault := topic_fault(record.topic):
        raise BadNameError(f"{fault}, not {record.topic[:80]!r}")
    if len(record.owner) != PUBLIC_KEY_BYTES:
        raise InputError(f"an owner's key has {PUBLIC_KEY_BYTES} bytes, not {len(record.owner)}")
    if not is_cid(record.value):
        raise InputError("a name points to the content id of a topic descriptor")
    if not 0 <= record.sequence <= NUMBER_MAX:
        raise InputError(f"a sequence number must be from 0 to 2⁶³ − 1, not {record.sequence}")
    if not 0 <= record.expires_us <= TIME_MAX:
        raise InputError(f"a time must be from 1970 to the year 9999, not {record.expires_us} µs")
    if len(record.signature) != SIGNATURE_BYTES:
        raise InputError(f"a signature has {SIGNATURE_BYTES} bytes, not {len(record.signature)}")
    topic = record.topic.encode()
    return b"".join(
        (
            _HEIRS,
            _encode_heirs(record.heirs),
            _OWNER,
            record.owner,
            _TOPIC,
            head(TEXT, len(topic)),
            topic,
            _VALUE,
            write_link(record.value),
            _EXPIRES,
            head(NUMBER, record.expires_us),
            _SEQUENCE,
            head(NUMBER, record.sequence),
            _SIGNATURE,
            record.signature,
        )
    )


def _encode_heirs(heirs: tuple[Heir, ...]) -> bytes:
    if len(heirs) > HEIRS_MAX:
        raise InputError(f"a topic can be handed on {HEIRS_MAX} times: fork it")
    for key, signature in heirs:
        if len(key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
            raise InputError(
                f"an heir has a key of {PUBLIC_KEY_BYTES} and a signature of {SIGNATURE_BYTES} bytes"
            )
    return head(LIST, len(heirs)) + b"".join(_HEIR + key + signature for key, signature in heirs)


def decode_name(block: bytes) -> NameRecord:
    """The record in a block that came from anywhere, as far as its form goes; whether it is true, a checker
    says. RemoteError unless encoding it gives these bytes."""
    if len(block) > NAME_BYTES_MAX:
        raise RemoteError("block over its limit")
    heirs, at = _read_heirs(block, read_past(block, 0, _HEIRS, _WHAT))
    at = read_past(block, at, _OWNER, _WHAT)
    owner, at = block[at : at + PUBLIC_KEY_BYTES], at + PUBLIC_KEY_BYTES
    topic, at = read_text(block, read_past(block, at, _TOPIC, _WHAT), TOPIC_BYTES_MAX)
    value, at = read_link(block, read_past(block, at, _VALUE, _WHAT))
    expires_us, at = read_head(block, read_past(block, at, _EXPIRES, _WHAT), NUMBER)
    sequence, at = read_head(block, read_past(block, at, _SEQUENCE, _WHAT), NUMBER)
    signature = block[read_past(block, at, _SIGNATURE, _WHAT) :]
    if len(signature) != SIGNATURE_BYTES:
        raise RemoteError("block cut short or with bytes after its end")
    if expires_us > TIME_MAX or sequence > NUMBER_MAX:
        raise RemoteError("name record with a number over its limit")
    if topic_fault(topic):
        raise RemoteError("name record of an impossible topic")
    return NameRecord(topic, owner, value, sequence, expires_us, heirs, signature)


def _read_heirs(block: bytes, at: int) -> tuple[tuple[Heir, ...], int]:
    count, at = read_head(block, at, LIST)
    if count > HEIRS_MAX:
        raise RemoteError("name record with too many heirs")
    heirs = []
    for _ in range(count):
        data, at = read_bytes(block, at, _HEIR_BYTES)
        if len(data) != _HEIR_BYTES:
            raise RemoteError("name record with an heir of the wrong length")
        heirs.append(Heir(data[:PUBLIC_KEY_BYTES], data[PUBLIC_KEY_BYTES:]))
    return tuple(heirs), at


def _name_text(network: str, block: bytes) -> bytes:
    """What a record's signer signs: all of its block but the signature itself, which stands at the end."""
    return _NAME_DOMAIN + network.encode() + hashlib.sha256(block[:-SIGNATURE_BYTES]).digest()


def _heir_text(network: str, key: bytes, heirs: Sequence[Heir]) -> bytes:
    """What appoints the last of these heirs to the name with this key. All keys have the same length."""
    line = hashlib.sha256(key + b"".join(heir.key for heir in heirs)).digest()
    return _HEIR_DOMAIN + network.encode() + line


class NameChecker:
    """Says which name records are true, and which of several counts: what a place that keeps values asks."""

    def __init__(self, verify: Verify, network: str) -> None:
        self._verify = verify
        self._network = network

    def read(self, key: bytes, block: bytes, now_us: int) -> NameRecord:
        """The true record that a peer sent for a key. RemoteError when it is not: cheap reasons first."""
        record = decode_name(block)
        if record.key != key:
            raise RemoteError("name record under another key")
        if record.expires_us <= now_us:
            raise RemoteError("name record that has expired")
        if record.expires_us > now_us + LIFETIME_US_MAX:
            raise RemoteError("name record that expires too late")
        if not self._verify(record.signer, _name_text(self._network, block), record.signature):
            raise RemoteError("name record with a wrong signature")
        signer = record.owner
        for count, heir in enumerate(record.heirs, 1):
            text = _heir_text(self._network, key, record.heirs[:count])
            if not self._verify(signer, text, heir.signature):
                raise RemoteError("name record with an heir whom nobody appointed")
            signer = heir.key
        return record

    def check(self, key: bytes, value: bytes, now_us: int) -> bool:
        """Whether these bytes are a true record of this key."""
        try:
            self.read(key, value, now_us)
        except RemoteError:
            return False
        return True

    def until_us(self, value: bytes) -> int:
        """When a record that has been checked expires."""
        return decode_name(value).expires_us

    def select(self, values: Sequence[bytes]) -> int:
        """Which of these counts, by its place: one or more, each checked, and first what is known longest."""
        records = [decode_name(value) for value in values]
        best = 0
        for place in range(1, len(records)):
            if replaces(records[place], records[best]):
                best = place
        return best
