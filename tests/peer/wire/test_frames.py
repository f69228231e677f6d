"""Frames and greetings: any cut of a stream gives the same frames; any garbage is refused, with a reason."""

import contextlib
import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.errors import InputError, RemoteError
from vinecast.peer.wire.frames import CONTROL_BYTES_MAX, FrameKind, Splitter, control, pack_head
from vinecast.peer.wire.handshake import Handshake, agree, check_network, read_handshake, read_reason

MAX = 5000
HELLO = control(FrameKind.HELLO, b"hello")
REASONS = {"", "garbage instead of a frame", "frame before HELLO", "frame too large"}

bodies = st.binary(max_size=60) | st.integers(0, MAX).map(bytes)
frames = st.lists(
    st.tuples(st.just(0), bodies) | st.tuples(st.sampled_from(list(FrameKind)[1:]), st.binary(max_size=60)),
    max_size=12,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def split(parts: list[bytes]) -> tuple[list[tuple[int, bytes]], str]:
    splitter = Splitter(MAX)
    found = [frame for part in parts for frame in splitter.feed(part)]
    return found, splitter.fault


@given(frames, st.lists(st.integers(0, 10**6), max_size=20))
def test_any_cut_gives_the_same_frames(wanted: list[tuple[int, bytes]], places: list[int]) -> None:
    data = HELLO + b"".join(control(FrameKind(kind), body) for kind, body in wanted)
    assert split(cut(data, places)) == ([(FrameKind.HELLO, b"hello"), *wanted], "")


@given(frames, st.binary(max_size=200), st.booleans(), st.lists(st.integers(0, 10**6), max_size=20))
def test_garbage_is_refused_wherever_it_is_cut(
    before: list[tuple[int, bytes]], garbage: bytes, shake_hands: bool, places: list[int]
) -> None:
    data = (
        (HELLO if shake_hands else b"")
        + b"".join(control(FrameKind(kind), body) for kind, body in before)
        + garbage
    )
    found, fault = split(cut(data, places))
    assert (found, fault) == split([data])
    assert fault in REASONS


def test_byte_by_byte() -> None:
    data = HELLO + control(FrameKind.DATA, b"x" * MAX) + control(FrameKind.PING) + control(FrameKind.DATA)
    found, fault = split([bytes([byte]) for byte in data])
    assert (found, fault) == ([(1, b"hello"), (0, b"x" * MAX), (3, b""), (0, b"")], "")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (control(FrameKind.DATA, b"x"), "frame before HELLO"),
        (control(FrameKind.BYE), "frame before HELLO"),
        (b"GET / HTTP/1.1\r\n", "garbage instead of a frame"),
        (HELLO + b"\xff\xff\xff\xff", "garbage instead of a frame"),
        (HELLO + pack_head(MAX + 1), "frame too large"),
        (pack_head(FrameKind.HELLO << 24 | CONTROL_BYTES_MAX + 1), "frame too large"),
        (HELLO + pack_head(FrameKind.PING << 24 | CONTROL_BYTES_MAX + 1), "frame too large"),
    ],
)
def test_faults_are_found_at_the_head(data: bytes, fault: str) -> None:
    splitter = Splitter(MAX)
    assert [kind for kind, _ in splitter.feed(data)] == ([1] if data.startswith(HELLO) else [])
    assert splitter.fault == fault
    assert splitter.feed(HELLO) == []


def test_an_unfinished_frame_shows() -> None:
    splitter = Splitter(MAX)
    splitter.feed(HELLO + b"\x00\x00")
    assert splitter.unfinished
    splitter.feed(b"\x00\x00")
    assert not splitter.unfinished


values = st.lists(st.integers(-(2**63), 2**63) | st.text(max_size=9) | st.binary(max_size=9), max_size=9)
handshake = Handshake(1, 1, "tests", "0", "127.0.0.1", 9, b"12345678")


def test_a_greeting_is_read_as_it_was_written() -> None:
    assert read_handshake(handshake.frame()[4:]) == handshake


@given(st.binary(max_size=100) | values.map(msgspec.msgpack.encode))
def test_reading_anything_gives_a_greeting_or_a_reason(body: bytes) -> None:
    with contextlib.suppress(RemoteError):
        assert isinstance(read_handshake(body), Handshake)


@pytest.mark.parametrize(
    "change",
    [
        {"port": 0},
        {"port": 65536},
        {"network": "x" * 65},
        {"host": "x" * 254},
        {"host": "a\n"},
        {"newest": 0},
        {"session": b"short"},
        {"oldest": -1},
        {"software": "\x1b[2J"},
    ],
)
def test_absurd_values_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(RemoteError, match="bad HELLO"):
        read_handshake(msgspec.structs.replace(handshake, **change).frame()[4:])


@pytest.mark.parametrize(
    ("ours", "theirs", "version"),
    [
        ((1, 1), (1, 1), 1),
        ((1, 3), (2, 5), 3),
        ((2, 5), (1, 3), 3),
        ((1, 1), (2, 2), None),
        ((3, 4), (1, 2), None),
    ],
)
def test_versions(ours: tuple[int, int], theirs: tuple[int, int], version: int | None) -> None:
    one, other = (Handshake(*v, "n", "0", "h", 1, b"12345678") for v in (ours, theirs))
    if version is not None:
        assert agree(one, other) == version
    else:
        with pytest.raises(RemoteError, match="incompatible version"):
            agree(one, other)


def test_networks() -> None:
    with pytest.raises(RemoteError, match="other network"):
        agree(handshake, msgspec.structs.replace(handshake, network="other"))
    for name in ("", "x" * 65, "a\nb"):
        with pytest.raises(InputError, match="a network's name"):
            check_network(name)


@given(st.binary(max_size=100))
def test_a_peer_cannot_invent_reasons(body: bytes) -> None:
    assert read_reason(body) == "other reason"
    assert read_reason(b"other network") == "other network"
