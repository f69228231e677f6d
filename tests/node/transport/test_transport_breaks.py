"""Links that break in every state: both ends notice, account for what waited, and leave nothing behind."""

import asyncio
import gc
import logging

import pytest

from support.node.transports import KINDS, World, ping, still_serves
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.sessions import CONNECTIONS_MAX
from vinecast.peer.identity import Identity
from vinecast.peer.wire.frames import FrameKind, control

TLS_KINDS = KINDS[1:]


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


@pytest.fixture(params=TLS_KINDS)
def tls_world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


# Connections that break, in every state.


def test_a_link_that_breaks_while_it_is_up(world: World) -> None:
    async def main() -> None:
        one, other = await world.pair()
        one.connection_to(other.id).drop("cut by the test")
        await other.until(lambda: bool(other.downs))
        assert one.downs == [(other.id, "cut by the test")]
        assert other.downs == [(one.id, "connection lost")]
        assert not one.unreachable
        assert one.send(other, b"again")
        await other.until(lambda: other.frames == [b"again"])

    world.run(main)


def test_a_peer_that_goes_without_answering_the_goodbye(world: World) -> None:
    async def main() -> None:
        one = await world.node(idle_s=0.05)
        stranger = await world.guest(one)
        await stranger.until(lambda: stranger.frames[-1][0] == FrameKind.BYE)
        stranger.leave()
        await one.until(lambda: bool(one.downs))
        assert one.downs[0][1] == "idle"

    world.run(main)


def test_a_peer_that_never_answers_the_goodbye(world: World) -> None:
    async def main() -> None:
        one = await world.node(idle_s=0.05, close_s=0.1)
        stranger = await world.guest(one)
        await one.until(lambda: bool(one.downs))
        assert one.downs[0][1] == "idle"
        await stranger.until(lambda: stranger.gone)

    world.run(main)


def test_a_peer_that_stops_reading_is_given_up(world: World) -> None:
    async def main() -> None:
        one = await world.node(heartbeat_s=20.0, silent_s_max=60.0, stalled_s_max=0.1)
        stranger = await world.guest(one)
        stranger.stop_reading()
        (peer,) = one.transport.connections()
        while one.transport.send(peer, None, bytes(10_000)):
            await asyncio.sleep(0)
        await one.until(lambda: one.downs == [(peer, "stopped reading")])
        assert one.connections <= 1
        await still_serves(world, one)

    world.run(main)


def test_a_peer_that_asks_and_does_not_read_gets_one_answer(world: World) -> None:
    async def main() -> None:
        one = await world.node()
        stranger = await world.guest(one)
        stranger.stop_reading()
        (peer,) = one.transport.connections()
        while one.transport.pressure(peer) < 0.5:
            one.transport.send(peer, None, bytes(10_000))
            await asyncio.sleep(0)
        before = one.transport.connections()[peer].queued_bytes
        stranger.say(b"".join(ping(n) for n in range(5000)) + control(FrameKind.DATA, b"end"))
        await one.until(lambda: one.frames == [b"end"])
        assert one.transport.connections()[peer].queued_bytes <= before
        stranger.read_on()
        pong = (FrameKind.PONG, (4999).to_bytes(8, "big"))
        await stranger.until(lambda: pong in stranger.frames)
        assert sum(kind == FrameKind.PONG for kind, _ in stranger.frames) < 5000

    world.run(main)


def test_a_handler_that_raises_costs_the_link_only(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        one, other = await world.pair()
        other.raises = True
        with caplog.at_level(logging.CRITICAL):
            assert one.send(other, b"poison")
            await one.until(lambda: bool(one.downs))
        assert other.downs == [(one.id, "handler failed")]
        other.raises = False
        await still_serves(world, other)

    world.run(main)


def test_closing_in_the_middle_of_handshakes(tls_world: World) -> None:
    async def main() -> None:
        one = await tls_world.node()
        _, writer = await asyncio.open_connection(one.address.host, one.address.port)
        while not one.connections:
            await asyncio.sleep(0.001)
        others = [await tls_world.node() for _ in range(5)]
        assert all(one.send(other, b"x") for other in others)
        await one.transport.close()
        writer.close()
        assert one.connections == 0

    tls_world.run(main)
    gc.collect()


def test_links_with_one_peer_are_few(world: World) -> None:
    async def main() -> None:
        one = await world.node(identity=Identity(b"\xff" * 32))
        same = make_identity()
        strangers = [await world.stranger(one, same) for _ in range(CONNECTIONS_MAX + 1)]
        await one.until(lambda: bool(one.refused))
        assert one.refused == {"too many links": 1}
        assert sum(stranger.reasons() == ["too many links"] for stranger in strangers) <= 1
        await still_serves(world, one)

    world.run(main)


def test_frames_that_wait_for_a_link_that_breaks_are_accounted_for() -> None:
    world = World("memory")

    async def main() -> None:
        """A dial fails, but the peer is just calling; then that breaks, too."""
        one, other = await world.node(), await world.node()
        stranger = await world.stranger(one, other.transport.identity)
        world.memory.unreachable.add(other.id)
        assert one.send(other, b"x")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stranger.leave()
        await one.until(lambda: bool(one.downs))
        assert one.downs == [(other.id, "connection lost")]
        assert one.transport.counters["dropped: no connection"] == 1
        assert not one.transport._peers

    world.run(main)


def test_beginning_anew_while_dialling_leaves_nothing_behind() -> None:
    world = World("memory")

    async def main() -> None:
        one, other = await world.node(), await world.node()
        first = await world.guest(one, other.transport.identity, session=b"first...")
        dial = asyncio.ensure_future(one.transport.connect(other.address))  # the true one has another mark
        await dial
        await first.until(lambda: first.gone)
        assert [reason for _, reason in one.downs] == ["began anew"]
        assert one.send(other, b"x")
        await other.until(lambda: other.frames == [b"x"])
        await other.transport.close()
        await one.until(lambda: len(one.downs) == 2)
        assert not one.transport._peers

    world.run(main)


# What only memory can do.


def test_a_frozen_peer_is_noticed_and_thaws() -> None:
    world = World("memory")

    async def main() -> None:
        one, other = await world.pair(heartbeat_s=0.05, silent_s_max=0.2)
        world.memory.freeze(other.id)
        await one.until(lambda: one.downs == [(other.id, "no heartbeat")])
        world.memory.thaw(other.id)
        await other.until(lambda: bool(other.downs))
        assert one.send(other, b"again")
        await other.until(lambda: other.frames == [b"again"])

    world.run(main)


def test_cut_and_unreachable() -> None:
    world = World("memory")

    async def main() -> None:
        one, other = await world.pair()
        world.memory.unreachable.add(other.id)
        assert world.memory.cut(one.id, other.id) == 1
        await one.until(lambda: one.downs == [(other.id, "connection lost")])
        assert one.send(other, b"x")
        await one.until(lambda: one.unreachable == [other.id])

    world.run(main)
