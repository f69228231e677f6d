"""The handshake: what two nodes tell each other before anything else, and why one may be turned away."""

from typing import Annotated

import msgspec
from msgspec import Meta

from vinecast.core.errors import InputError, RemoteError
from vinecast.peer.address import HOST_CHARACTERS_MAX, Address
from vinecast.peer.wire.frames import FrameKind, control
from vinecast.systems.registry import LIVE_SYSTEMS

NETWORK_CHARACTERS_MAX = 64
SYSTEM_CHARACTERS_MAX = 32
DEFAULT_SYSTEM = "poldercast"
"""What a node runs that does not say."""

OTHER_NETWORK = "other network"
OTHER_VERSION = "incompatible version"
OTHER_IDENTITY = "another identity"
OWN_IDENTITY = "own identity"
MISBEHAVED = "misbehaved"

Version = Annotated[int, Meta(ge=0, le=65535)]


class Handshake(msgspec.Struct, array_like=True, frozen=True):
    """The first frame of each side. Who the sender is stands in its certificate, not here."""

    oldest: Version
    """The oldest protocol version it speaks."""
    newest: Version
    """The newest one."""
    network: Annotated[str, Meta(max_length=NETWORK_CHARACTERS_MAX)]
    software: Annotated[str, Meta(max_length=64)]
    host: Annotated[str, Meta(max_length=HOST_CHARACTERS_MAX)]
    """Where it listens; empty or unspecified: wherever it is seen."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    session: Annotated[bytes, Meta(min_length=8, max_length=8)]
    """The same on all connections of one session. A new one says that the sender has forgotten the old."""
    system: Annotated[str, Meta(max_length=SYSTEM_CHARACTERS_MAX)] = DEFAULT_SYSTEM
    """What carries its events."""

    @property
    def address(self) -> Address:
        """Where it says it listens."""
        return Address(self.host, self.port)

    def frame(self) -> bytes:
        """The whole frame."""
        return control(FrameKind.HELLO, _encode(self))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Handshake).decode


def read_handshake(body: bytes) -> Handshake:
    """A peer's handshake, or RemoteError."""
    try:
        handshake = _decode(body)
    except msgspec.DecodeError:  # a ValidationError is one, too
        raise RemoteError("bad HELLO") from None
    if (
        not (handshake.host.isascii() and handshake.host.isprintable())
        or not handshake.software.isprintable()
        or handshake.oldest > handshake.newest
    ):
        raise RemoteError("bad HELLO")
    return handshake


def agree(ours: Handshake, theirs: Handshake) -> int:
    """The protocol version that both speak, or RemoteError with the reason to refuse."""
    if ours.network != theirs.network:
        raise RemoteError(OTHER_NETWORK)
    if ours.system != theirs.system:
        raise RemoteError(other_system(ours.system, theirs.system))
    version = min(ours.newest, theirs.newest)
    if version < max(ours.oldest, theirs.oldest):
        raise RemoteError(OTHER_VERSION)
    return version


def other_system(one: str, other: str) -> str:
    """Why nodes of two systems refuse each other; what is no system here is not named, so that nobody can
    fill our counters."""
    names = sorted(name if name in LIVE_SYSTEMS else "a system unknown here" for name in (one, other))
    return f"other system: {' and '.join(names)}"


def check_network(name: str) -> None:
    """InputError unless the name can be a network's."""
    if not 0 < len(name) <= NETWORK_CHARACTERS_MAX or not name.isprintable():
        raise InputError(
            f"a network's name is 1 to {NETWORK_CHARACTERS_MAX} printable characters: {name[:80]!r}"
        )


_KNOWN = frozenset(
    {
        OTHER_NETWORK,
        OTHER_VERSION,
        OTHER_IDENTITY,
        OWN_IDENTITY,
        MISBEHAVED,
        "bad HELLO",
        "bad heartbeat",
        "second HELLO",
        "too many links",
        "frame too large",
        "frame before HELLO",
        "garbage instead of a frame",
        *(other_system(one, other) for one in LIVE_SYSTEMS for other in (*LIVE_SYSTEMS, "")),
    }
)


def read_reason(body: bytes) -> str:
    """Why a peer refused us or took leave: one of few texts, so that nobody can fill our counters."""
    reason = body.decode(errors="replace")
    return reason if reason in _KNOWN else "other reason"
