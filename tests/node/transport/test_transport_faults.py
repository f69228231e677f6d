"""Transports under fire: whatever a peer does, it is refused with a reason, is counted, others are served."""

import asyncio
import contextlib
import ssl
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from support.node.transports import KINDS, World, ping, still_serves
from vinecast.core.errors import RemoteError
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport import tls
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity
from vinecast.peer.wire.frames import FrameKind, control, pack_head

TLS_KINDS = KINDS[1:]


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


@pytest.fixture(params=TLS_KINDS)
def tls_world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


# Who is refused at the greeting.


@pytest.mark.parametrize(
    ("differs", "reason"),
    [
        ({"network": "elsewhere"}, "other network"),
        ({"versions": (2, 3)}, "incompatible version"),
        ({"system": "pulsarcast"}, "other system: poldercast and pulsarcast"),
        ({"system": "carrier pigeons"}, "other system: a system unknown here and poldercast"),
    ],
)
def test_nodes_that_do_not_fit_are_told_why(world: World, differs: dict[str, Any], reason: str) -> None:
    async def main() -> None:
        one, other = await world.node(), await world.node(**differs)
        with pytest.raises(RemoteError, match=reason):
            await one.transport.connect(other.address)
        assert one.send(other, b"x")
        await one.until(lambda: bool(one.unreachable))
        assert not one.ups
        assert not other.ups
        assert one.refused[reason] + other.refused[reason] >= 2

    world.run(main)


def test_the_refused_side_learns_the_reason(world: World) -> None:
    async def main() -> None:
        one = await world.node()
        stranger = await world.stranger(one)
        stranger.greet(network="elsewhere")
        await stranger.until(lambda: stranger.gone)
        assert stranger.reasons() == ["other network"]
        assert one.refused == {"other network": 1}
        assert one.transport.counters["refused: other network"] == 1

    world.run(main)


def test_the_dialler_believes_a_refusal_but_counts_few_texts(world: World) -> None:
    async def main() -> None:
        one = await world.node()
        for text, wanted in ((b"other network", "other network"), (b"\xff" * 99, "other reason")):
            stranger = await world.guest(one)
            stranger.say(control(FrameKind.REFUSED, text))
            await stranger.until(lambda stranger=stranger: stranger.gone)  # type: ignore[misc]
            assert one.downs[-1][1] == f"refused by the peer: {wanted}"

    world.run(main)


def test_another_identity_is_refused(world: World) -> None:
    async def main() -> None:
        one, impostor = await world.node(), await world.node()
        victim = make_identity()
        assert one.transport.send(victim.id, impostor.address, b"secret")
        await one.until(lambda: bool(one.unreachable))
        assert one.downs == [(victim.id, "another identity")]
        assert one.refused == {"another identity": 1}
        assert not impostor.frames
        with pytest.raises(RemoteError, match="another identity"):
            await one.transport.connect(impostor.address, victim.id)
        await still_serves(world, one)

    world.run(main)


def test_a_node_does_not_talk_to_itself(world: World) -> None:
    async def main() -> None:
        one = await world.node()
        with pytest.raises(RemoteError, match="own identity"):
            await one.transport.connect(one.address)
        assert not one.ups

    world.run(main)


def test_a_certificate_of_another_key_is_useless() -> None:
    """Anybody can have the open CA sign a leaf for anybody's key; but only its owner can use it."""
    victim, thief = make_identity(), make_identity()
    leaf = tls._certificate(tls._name("x"), victim.private_key().public_key(), authority=False)
    assert tls.public_key_of(leaf.public_bytes(serialization.Encoding.DER)) == victim.public

    class Thief(Identity):
        __slots__ = ()

        def private_key(self) -> Any:
            real = thief.private_key()

            class Mixed:
                def public_key(self) -> Any:
                    return victim.private_key().public_key()

                def private_bytes(self, *arguments: Any) -> bytes:
                    return real.private_bytes(*arguments)

            return Mixed()

    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        tls.contexts(Thief(bytes(32)))


# What is refused on the stream.


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (control(FrameKind.DATA, b"x"), "frame before HELLO"),
        (ping(), "frame before HELLO"),
        (b"\x13" * 50, "garbage instead of a frame"),
        (control(FrameKind.HELLO, b"nonsense"), "bad HELLO"),
        (pack_head(FrameKind.HELLO << 24 | 5000), "frame too large"),
        (b"", "connection lost"),
        (b"\x01\x00", "connection lost in the middle of a frame"),
    ],
)
def test_before_the_greeting(world: World, said: bytes, reason: str) -> None:
    async def main() -> None:
        one = await world.node()
        stranger = await world.stranger(one)
        stranger.say(said)
        if reason.startswith("connection lost"):
            await stranger.until(lambda: bool(stranger.frames))
            assert stranger.stream is not None
            stranger.stream.close()
        await one.until(lambda: bool(one.refused))
        assert one.refused == {reason: 1}
        assert not one.ups
        await still_serves(world, one)

    world.run(main)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (pack_head(2**20 + 1) + bytes(100), "frame too large"),
        (b"\xff" * 10, "garbage instead of a frame"),
        (control(FrameKind.PING, b"short"), "bad heartbeat"),
        (control(FrameKind.PONG), "bad heartbeat"),
        (control(FrameKind.HELLO, b"again"), "second HELLO"),
    ],
)
def test_after_the_greeting(world: World, said: bytes, reason: str) -> None:
    async def main() -> None:
        one = await world.node()
        stranger = await world.guest(one)
        stranger.say(control(FrameKind.DATA, b"good") + said + control(FrameKind.DATA, b"too late"))
        await one.until(lambda: bool(one.downs))
        assert one.frames == [b"good"]
        assert one.downs[0][1] == reason
        assert one.refused == {reason: 1}
        await still_serves(world, one)

    world.run(main)


def test_a_truncated_frame(world: World) -> None:
    async def main() -> None:
        one = await world.node()
        stranger = await world.guest(one)
        stranger.say(control(FrameKind.DATA, b"whole") + pack_head(100) + b"half")
        await one.until(lambda: one.frames == [b"whole"])
        assert stranger.stream is not None
        stranger.stream.close()
        await one.until(lambda: bool(one.downs))
        assert one.downs[0][1].startswith("connection lost")
        assert one.frames == [b"whole"]

    world.run(main)


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=400), max_size=5), st.booleans(), st.booleans())
def test_fuzz(parts: list[bytes], shake_hands: bool, framed: bool) -> None:
    world = World("memory")

    async def main() -> None:
        one = await world.node()
        stranger = await (world.guest(one) if shake_hands else world.stranger(one))
        for part in parts:
            stranger.say(control(FrameKind(len(part) % 6), part) if framed else part)
        await still_serves(world, one)

    world.run(main)


# Before TLS.


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n", bytes(2000), b"\x16\x03\x01\x02\x00\x01" + b"\xff" * 600]
)
def test_garbage_before_tls(tls_world: World, said: bytes) -> None:
    async def main() -> None:
        one = await tls_world.node()
        _, writer = await asyncio.open_connection(one.address.host, one.address.port)
        writer.write(said)
        await one.until(lambda: bool(one.refused))
        assert one.refused == {"TLS handshake failed": 1}
        writer.close()
        await still_serves(tls_world, one)

    tls_world.run(main)


def test_a_connection_that_closes_at_once(tls_world: World) -> None:
    async def main() -> None:
        one = await tls_world.node()
        _, writer = await asyncio.open_connection(one.address.host, one.address.port)
        writer.close()
        await one.until(lambda: bool(one.refused))
        assert sum(one.refused.values()) == 1
        await still_serves(tls_world, one)

    tls_world.run(main)


def test_plain_tls_without_a_certificate(tls_world: World) -> None:
    async def main() -> None:
        one = await tls_world.node()
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        nobody.check_hostname = False
        nobody.verify_mode = ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(one.address.host, one.address.port, ssl=nobody)
        with contextlib.suppress(ssl.SSLError, ConnectionError):  # the client may or may not hear why
            assert await reader.read() == b""
        await one.until(lambda: one.refused == {"TLS handshake failed": 1})
        writer.close()
        await still_serves(tls_world, one)

    tls_world.run(main)


def test_half_open_connections_are_limited_and_end(tls_world: World) -> None:
    async def main() -> None:
        one = await tls_world.node(handshakes_per_host_max=8, unauthenticated_s=0.5)
        silent = [await asyncio.open_connection(one.address.host, one.address.port) for _ in range(30)]
        await one.until(lambda: one.refused["too many handshakes from one host"] == 22)
        assert one.connections <= 8
        await one.until(lambda: one.refused["no handshake in time"] == 8)
        for _, writer in silent:
            writer.close()
        await still_serves(tls_world, one)

    tls_world.run(main)


def test_saying_nothing_after_tls(world: World) -> None:
    async def main() -> None:
        one = await world.node(unauthenticated_s=0.1)
        stranger = await world.stranger(one)
        await stranger.until(lambda: stranger.gone)
        assert one.refused == {"no handshake in time": 1}
        await still_serves(world, one)

    world.run(main)


def test_connections_are_limited(world: World) -> None:
    async def main() -> None:
        one = await world.node(accepted_max=2)
        guests = [await world.guest(one) for _ in range(2)]
        late = await world.node()
        assert late.send(one, b"x")
        await late.until(lambda: bool(late.unreachable))
        assert one.refused == {"too many connections": 1}
        guests[0].leave()
        await one.until(lambda: bool(one.downs))
        while one.connections > 1:
            await asyncio.sleep(0.001)
        await still_serves(world, one)

    world.run(main)


def test_a_server_that_accepts_and_says_nothing(tls_world: World) -> None:
    async def main() -> None:
        one = await tls_world.node(dial_s=0.1)
        writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(RemoteError, match="in time"):
            await one.transport.connect(address)
        assert one.transport.send(bytes(32), address, b"x")
        await one.until(lambda: one.unreachable == [bytes(32)])
        for writer in writers:
            writer.close()
        server.close()

    tls_world.run(main)
