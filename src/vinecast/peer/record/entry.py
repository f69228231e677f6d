"""An entry of a record: one input, when it came, what the peer was answered meanwhile, and a digest of what
came out.

The digest covers the outputs and the questions that the peer asked, in their order: two runs have the same
digests if the same went out, was kept, acknowledged and signed. Where payloads are left out, it covers what
stands in for them, on both sides.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np

from vinecast.core.errors import Bug, InputError
from vinecast.peer.inputs import FrameCame, FrameUnsent, OpenSubscription, PeerInput, PublishTurn
from vinecast.peer.outputs import DeliverEvent, PeerOutput, SendFrame
from vinecast.peer.record.payloads import PayloadStripper
from vinecast.peer.record.snapshot import read_value, write_value

DIGEST_BYTES = 16
_ODD = frozenset((OpenSubscription, PublishTurn))
"""Inputs that hold what MessagePack has no types for."""
_NAMES: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(PeerInput)}
_DECODERS = {name: msgspec.msgpack.Decoder(bytes if kind in _ODD else kind) for name, kind in _NAMES.items()}
ENTRY_BEGINS = tuple(b"\x95" + msgspec.msgpack.encode(name) for name in _NAMES)
"""How entries begin: an array of five, and the name of an input."""
_Form = tuple[str, int, msgspec.Raw, list[Any], bytes]
_decoder = msgspec.msgpack.Decoder(_Form)


class RecordEntry(NamedTuple):
    """One input, and what became of it."""

    what: PeerInput
    now_us: int
    answers: Sequence[Any]
    """See ``peer/record/tape``."""
    digest: bytes
    """Of what came out; empty where nothing did."""


def _plain(value: Any) -> Any:
    """What MessagePack can have of something that is no plain value."""
    if isinstance(value, Exception):
        return type(value).__name__, str(value)
    if isinstance(value, np.generic):
        return value.item()
    raise Bug(f"there is a {type(value).__name__} in an input or an output")


_encode = msgspec.msgpack.Encoder(enc_hook=_plain, order="deterministic").encode


def write_entry(entry: RecordEntry, stripper: PayloadStripper | None) -> bytes:
    """The bytes of an entry. ``stripper``: leaves payloads out, if they are to be."""
    what = entry.what
    body: Any = what
    if type(what) in _ODD:
        body = write_value(what, stripper is None)
    elif stripper is not None:
        match what:
            case FrameCame(peer, data):
                body = FrameCame(peer, stripper.frame(data))
            case FrameUnsent(peer, things, frame) if frame:
                body = FrameUnsent(peer, things, stripper.frame(frame))
    return _encode((type(what).__name__, entry.now_us, body, entry.answers, entry.digest))


def read_entry(data: bytes) -> RecordEntry:
    """The entry that these bytes are of. InputError when they are of none."""
    try:
        name, now_us, body, answers, digest = _decoder.decode(data)
        what = _DECODERS[name].decode(body)
        if isinstance(what, bytes):
            what = read_value(what)
        if not isinstance(what, _NAMES[name]):
            raise InputError(f"it should be a {name}, and is a {type(what).__name__}")
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"it is no entry of a record ({type(error).__name__})") from None
    return RecordEntry(what, now_us, answers, digest)


def digest_of(outputs: Sequence[PeerOutput], asked: Sequence[Any], stripper: PayloadStripper | None) -> bytes:
    """The digest of what came out, and of what was asked meanwhile."""
    if not outputs and not asked:
        return b""
    return _digest((asked, [_told(output, stripper) for output in outputs]))


def digest_of_failure(error: Exception, asked: Sequence[Any]) -> bytes:
    """The digest where the peer raised an error, which it never should."""
    return _digest((asked, "raised", type(error).__name__, str(error)))


def digest_of_output(output: PeerOutput, stripper: PayloadStripper | None) -> bytes:
    """The digest of one output, to tell it from others."""
    return _digest(_told(output, stripper))


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(_encode(value), digest_size=DIGEST_BYTES).digest()


def _told(output: PeerOutput, stripper: PayloadStripper | None) -> Any:
    match output:
        case SendFrame(peer, address, frame, things):
            said = frame if stripper is None else stripper.frame(frame)
            return "SendFrame", peer, address, said, things
        case DeliverEvent(subscription, signed, hops, position):
            return "DeliverEvent", subscription, signed.cid, hops, position
    return type(output).__name__, output
