"""Payloads left out: the same frame, block and state, with as many bytes, and without the payload."""

import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from msgspec import Raw

from vinecast.core.errors import RemoteError
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import PAYLOAD_BYTES_MAX, EventRecord, decode, encode
from vinecast.peer.record.payloads import PayloadStripper, stand_in, without_payload
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EventFrame, Leaving, StreamFrame, SystemFrame, body_of
from vinecast.peer.wire.messages import decode as decode_frame
from vinecast.peer.wire.messages import encode as encode_frame

MARKER = b"what nobody is to see"


def event(payload: bytes = MARKER, height: int = 0) -> tuple[bytes, bytes]:
    record = EventRecord("news", bytes(32), 7, 1_700_000_000_000_000, payload, {"kind": "text"}, (), height)
    (signed,) = sign_events("test", [record], lambda text: bytes(64))
    return signed.block, signed.signature.to_bytes()


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65535, 65536, PAYLOAD_BYTES_MAX])
def test_a_block_keeps_its_size_and_all_but_the_payload(size: int) -> None:
    block, _ = event(bytes(size))
    other = without_payload(block)
    assert len(other) == len(block)
    before, after = decode(block), decode(other)
    assert after._replace(payload=b"") == before._replace(payload=b"")
    assert after.payload == stand_in(before.payload)
    assert encode(after) == other


def test_different_payloads_have_different_digests() -> None:
    assert stand_in(MARKER) != stand_in(MARKER[::-1])
    assert stand_in(MARKER) == stand_in(bytes(MARKER))
    assert len({stand_in(b"%08d" % n) for n in range(1000)}) == 1000


FRAMES: list[EventFrame | StreamFrame] = [
    EventFrame(3, (event(), event(MARKER * 100)), 1),
    StreamFrame(body_of(wire.CarriedEvents(2, True, (event(height=1),)))),
    StreamFrame(body_of(wire.EventBatch("news", (event(height=1), event(height=1)), (bytes(36),)))),
    StreamFrame(body_of(wire.Push("news", (event(height=1),)))),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_keeps_its_size_and_all_but_payloads(frame: EventFrame | StreamFrame) -> None:
    data = encode_frame(frame)
    other = PayloadStripper().frame(data)
    assert MARKER in data
    assert MARKER not in other
    assert len(other) == len(data)
    assert type(decode_frame(other)) is type(frame)


def test_frames_without_events_stay_as_they_are() -> None:
    for frame in (
        Leaving(),
        SystemFrame(Raw(b"\x93\x01\x02\x03")),
        StreamFrame(body_of(wire.Heads((), 1))),
        StreamFrame(body_of(wire.FindPeers(1, bytes(32), 0))),
    ):
        assert PayloadStripper().frame(encode_frame(frame)) == encode_frame(frame)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MARKER,
        b"\xc1" + MARKER,
        encode_frame(EventFrame(0, (event(),)))[:-1],
        encode_frame(EventFrame(0, (event(),))) + MARKER,
        encode_frame(StreamFrame(Raw(b"\x91\xc4\x05" + MARKER[:5]))),
        encode_frame(StreamFrame(Raw(msgspec.msgpack.encode([6, "news", [[MARKER]]])))),
    ],
)
def test_what_is_no_frame_is_replaced_by_what_is_none_either(data: bytes) -> None:
    other = PayloadStripper().frame(data)
    assert MARKER[:5] not in other
    with pytest.raises(RemoteError):
        read(other)


def read(data: bytes) -> object:
    """The message of a stream in a frame."""
    frame = decode_frame(data)
    return wire.decode_stream(frame) if isinstance(frame, StreamFrame) else frame


def refusal(read: Callable[[bytes], object], data: bytes) -> str:
    """Why something cannot be read."""
    try:
        read(data)
    except RemoteError as error:
        return str(error)
    return ""


def test_what_is_no_frame_is_refused_for_the_same_reason() -> None:
    """Whatever a liar does to a frame."""
    draw, reasons = random.Random(5), Counter[str]()
    frames = [encode_frame(frame) for frame in FRAMES]
    for turn in range(4000):
        data = bytearray(frames[turn % len(frames)])
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(min(12, len(data)) if draw.random() < 0.5 else len(data))
            match draw.randrange(4):
                case 0:
                    data[at] = draw.randrange(256)
                case 1:
                    del data[at : at + draw.randrange(1, 9)]
                case 2:
                    data[at:at] = draw.randbytes(draw.randrange(1, 9))
                case _:
                    data = data[: max(13, at)]
        lie = bytes(data)
        why, other = refusal(read, lie), PayloadStripper().frame(lie)
        assert refusal(read, other) == why
        assert not why or MARKER not in other
        reasons[why] += 1
    for special in (b"\x95\x00\xa1\xff\x00\xc0\xc0", b"\x92\x04\x94\x02\xa1\xff\x00\xc4\x00"):
        for lie in (special, b"\x92" + special[1:2] + b"\x91" * 3000):
            reasons[refusal(read, lie)] += 1
            assert refusal(read, PayloadStripper().frame(lie)) == refusal(read, lie)
    for error in ("DecodeError", "ValidationError", "UnicodeDecodeError", "RecursionError"):
        assert reasons[f"malformed frame ({error})"], reasons
    for error in ("ValidationError", "UnicodeDecodeError"):
        assert reasons[f"malformed message ({error})"], reasons


def test_what_is_no_block_is_refused_for_the_same_reason() -> None:
    draw, reasons = random.Random(6), Counter[str]()
    blocks = [event(MARKER * size, height)[0] for size in (1, 3, 30) for height in (0, 1)]
    marks = [b"dtime", b"etopic", b"fheight", b"gheaders", b"gparents", b"gpayload", b"hsequence"]
    for turn in range(6000):
        block = blocks[turn % len(blocks)]
        data = bytearray(block)
        near = block.find(draw.choice(marks)) + draw.randrange(-2, 12)
        at = near if draw.random() < 0.7 else draw.randrange(len(data))
        match draw.randrange(4):
            case 0:
                data[at] = draw.randrange(256)
            case 1:
                data[at] ^= 1 << draw.randrange(8)
            case 2:
                del data[at : at + draw.randrange(1, 9)]
            case _:
                data = data[:at]
        why = refusal(decode, bytes(data))
        if not why:
            continue
        other = PayloadStripper().block(bytes(data))
        assert refusal(decode, other) == why
        assert len(other) == len(data)
        assert MARKER not in other
        reasons[why] += 1
    assert len(reasons) > 10, reasons


def test_a_large_block_that_is_none_takes_no_time() -> None:
    block = event(bytes(PAYLOAD_BYTES_MAX))[0]
    for broken in (block[:-1], b"\xa8dtime" + b"\x67payload" * 20_000, block[:200] + block[:200]):
        assert refusal(decode, PayloadStripper().block(broken)) == refusal(decode, broken) != ""


def test_events_in_a_frame_of_a_system_lose_their_payloads() -> None:
    """A liar calls a frame of streams one of the system."""
    for frame in FRAMES[1:]:
        data = encode_frame(frame)
        lie = data[:1] + b"\x05" + data[2:]
        assert isinstance(decode_frame(lie), SystemFrame)
        other = PayloadStripper().frame(lie)
        assert MARKER in lie
        assert MARKER not in other
        assert other[:1] + b"\x04" + other[2:] == PayloadStripper().frame(data), "in the same form"
    for text in ("èdtime", "ŀèdtime", "èdtime gpayloadABC"):
        honest = encode_frame(SystemFrame(Raw(msgspec.msgpack.encode([3, text, bytes(40_000)]))))
        assert PayloadStripper().frame(honest) == honest


def test_what_is_no_event_is_replaced_by_what_is_none_either() -> None:
    stripper = PayloadStripper()
    broken = event()[0][:-1]
    frame = decode_frame(
        stripper.frame(encode_frame(EventFrame(0, ((broken, b"x"), (MARKER, b""), event()))))
    )
    assert isinstance(frame, EventFrame)
    assert [len(block) for block, _ in frame.events] == [len(broken), len(MARKER), len(event()[0])]
    for block, _ in frame.events[:2]:
        with pytest.raises(RemoteError):
            decode(block)
    for (block, _), was in zip(frame.events, (broken, MARKER), strict=False):
        assert refusal(decode, block) == refusal(decode, was)
    assert frame.events[2] == (without_payload(event()[0]), event()[1])


def test_what_a_peer_holds() -> None:
    stripper, block = PayloadStripper(), event()[0]
    frame = encode_frame(EventFrame(0, (event(),)))
    assert stripper.value(block) == without_payload(block)
    assert stripper.value(frame) == stripper.frame(frame)
    for other in (block[:-1], b"text with " + block[:6], "èdtime in a title".encode()):
        assert stripper.value(other) == other, "it only looks like an event"
