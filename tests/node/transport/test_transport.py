"""Transports in good order: greetings, frames, queues, heartbeats, goodbyes; one suite for all transports."""

import asyncio
import itertools

import pytest

from support.node.transports import KINDS, World
from vinecast.core.errors import InputError, RemoteError
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.accept_limiter import FAILED_MAX, AcceptLimiter, Redial
from vinecast.node.transport.connection import TURN_BYTES, TURN_FRAMES
from vinecast.node.transport.interface import TransportConfig
from vinecast.node.transport.send_queue import LARGE_BYTES
from vinecast.peer.address import Address


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def test_two_nodes_talk(world: World) -> None:
    async def main() -> None:
        one, other = await world.pair()
        (peer, address, facts), (_, _, other_facts) = one.ups[0], other.ups[0]
        assert (peer, address) == (other.id, other.address)
        assert facts.public == other.transport.identity.public
        assert (facts.dialled, other_facts.dialled, facts.protocol) == (True, False, 1)
        sizes = [0, 1, 256, LARGE_BYTES - 1, LARGE_BYTES, 300_000, 5, one.config.frame_bytes_max]
        frames = [bytes([n % 256]) * size for n, size in enumerate(sizes * 3)]
        for frame in frames:
            while not one.send(other, frame):
                await asyncio.sleep(0)
            assert other.send(one, frame[:100])
        await other.until(lambda: len(other.frames) == len(frames))
        await one.until(lambda: len(one.frames) == len(frames))
        assert other.frames == frames
        assert one.frames == [frame[:100] for frame in frames]

    world.run(main)


def test_sending_dials_and_queues_until_the_link_is_up(world: World) -> None:
    async def main() -> None:
        one, other = await world.node(), await world.node()
        assert all(one.send(other, bytes([n])) for n in range(100))
        assert one.transport.pressure(other.id) > 0
        assert not one.transport.connections()
        await other.until(lambda: len(other.frames) == 100)
        assert other.frames == [bytes([n]) for n in range(100)]
        assert await one.transport.drain(10.0)
        info = one.transport.connections()[other.id]
        assert (info.frames_out, info.frames_in, info.dialled, info.queued_bytes) == (100, 0, True, 0)
        assert info.bytes_out > 500
        assert info.round_trip_s is not None
        assert one.transport.pressure(other.id) == 0

    world.run(main)


def handled_a_turn(world: World, size: int, count: int) -> int:
    """The most frames of that size that a peer handles in one turn of the loop when so many come at once."""
    found: list[int] = []

    async def main() -> None:
        one, other = await world.pair()
        loop = asyncio.get_running_loop()
        handled: list[int] = []  # frames that had been handled by each turn of the loop

        def turn() -> None:
            handled.append(len(other.frames))
            if len(other.frames) < count:
                loop.call_soon(turn)

        assert all(one.send(other, bytes(size)) for _ in range(count))
        turn()
        await other.until(lambda: len(other.frames) == count)
        found.append(max(after - before for before, after in itertools.pairwise(handled)))
        assert other.send(one, b"x")
        await one.until(lambda: one.frames == [b"x"])

    world.run(main)
    return found[0]


def test_a_peer_that_sends_without_a_pause_leaves_the_loop_to_others(world: World) -> None:
    assert handled_a_turn(world, 100, 3000) <= 2 * TURN_FRAMES


def test_so_does_one_that_sends_large_frames() -> None:
    """Over a socket: streams in memory bring all at once, but in pieces that are no larger than a turn."""
    assert handled_a_turn(World("TLS"), 2000, 1000) <= 2 * (TURN_BYTES // 2000 + 1)


def test_close_drains(world: World) -> None:
    async def main() -> None:
        one, other = await world.pair()
        assert all(one.send(other, bytes(1000)) for _ in range(3000))
        await one.transport.close()
        await other.until(lambda: bool(other.downs))
        assert len(other.frames) == 3000
        assert one.downs == [(other.id, "leaving")]
        assert other.downs == [(one.id, "leaving")]
        assert not one.send(other, b"too late")
        assert one.transport.counters["dropped: closed"] == 1
        with pytest.raises(RemoteError, match="closed"):
            await one.transport.connect(other.address)

    world.run(main)


def test_drain_says_whether_the_peers_have_it(world: World) -> None:
    async def main() -> None:
        one, _ = await world.pair()
        guest = await world.guest(one)
        peer = next(reversed(one.transport.connections()))
        guest.stop_reading()
        one.transport.send(peer, None, b"x")
        assert not await one.transport.drain(0.01)

    world.run(main)


def test_simultaneous_dials_end_in_one_link_and_lose_nothing(world: World) -> None:
    async def main() -> None:
        for _ in range(5):
            one, other = await world.node(), await world.node()
            sent = [bytes([n]) for n in range(50)]
            for frame in sent:
                assert one.send(other, frame)
                assert other.send(one, frame)
                await asyncio.sleep(0)
            await one.until(lambda one=one: len(one.frames) == 50)  # type: ignore[misc]
            await other.until(lambda other=other: len(other.frames) == 50)  # type: ignore[misc]
            while (one.connections, other.connections) != (1, 1):
                await asyncio.sleep(0.001)
            assert sorted(one.frames) == sorted(other.frames) == sent
            assert (len(one.ups), len(other.ups)) == (1, 1)
            assert not one.downs
            assert not other.downs
            assert one.send(other, b"after")
            await other.until(lambda other=other: other.frames[-1] == b"after")  # type: ignore[misc]

    world.run(main)


def test_a_second_link_by_hand_is_closed_without_harm(world: World) -> None:
    async def main() -> None:
        for _ in range(4):  # so that either has the smaller id
            one, other = await world.pair()
            await asyncio.gather(*(one.transport.connect(other.address) for _ in range(3)))
            while (one.connections, other.connections) != (1, 1):
                await asyncio.sleep(0.001)
            assert one.send(other, b"still there")
            await other.until(lambda other=other: bool(other.frames))  # type: ignore[misc]
            assert (len(one.ups), len(other.ups), one.downs, other.downs) == (1, 1, [], [])

    world.run(main)


def test_a_peer_that_restarted_begins_anew(world: World) -> None:
    async def main() -> None:
        identity = make_identity()
        one, before = await world.node(), await world.node(identity)
        await one.transport.connect(before.address)
        after = await world.node(identity)  # one does not know yet that the old process is dead
        await after.transport.connect(one.address)
        await one.until(lambda: len(one.ups) == 2)
        assert one.downs == [(identity.id, "began anew")]
        assert one.send(after, b"x")
        await after.until(lambda: after.frames == [b"x"])

    world.run(main)


def test_an_idle_link_is_closed_and_made_again(world: World) -> None:
    async def main() -> None:
        one, other = await world.pair(idle_s=0.05)
        await one.until(lambda: one.downs == [(other.id, "idle")])
        await other.until(lambda: other.downs == [(one.id, "idle")])
        while one.connections:
            await asyncio.sleep(0.001)
        assert not one.unreachable
        assert one.send(other, b"again")
        await other.until(lambda: other.frames == [b"again"])

    world.run(main)


def test_heartbeats_keep_a_quiet_link_up(world: World) -> None:
    async def main() -> None:
        one, other = await world.pair(heartbeat_s=0.05, silent_s_max=5.0)
        while one.transport.connections()[other.id].round_trip_s is None:
            await asyncio.sleep(0.001)
        assert not one.downs
        assert not other.downs

    world.run(main)


def test_a_peer_that_no_longer_answers_is_noticed(world: World) -> None:
    async def main() -> None:
        one = await world.node(heartbeat_s=0.05, silent_s_max=0.3)
        guest = await world.guest(one)
        guest.stop_reading()  # like a stopped process: the socket stays open
        await one.until(lambda: bool(one.downs))
        assert one.downs[0][1] == "no heartbeat"

    world.run(main)


def test_a_process_that_slept_does_not_blame_its_peers(world: World) -> None:
    async def main() -> None:
        one, other = await world.pair(heartbeat_s=0.1, silent_s_max=1.0)
        for node in (one, other):
            assert node.transport._ticker is not None
            node.transport._ticker.cancel()
        connection = one.connection_to(other.id)
        one.transport._ticked_at -= 100.0
        connection._heard_at -= 100.0
        one.transport._tick()
        assert not one.downs
        connection._heard_at -= 100.0  # but when it was awake all the time, silence counts
        one.transport._tick()
        assert one.downs == [(other.id, "no heartbeat")]

    world.run(main)


def test_the_queue_is_bounded_and_says_how_full_it_is(world: World) -> None:
    async def main() -> None:
        bound = 100_000
        one = await world.node(queue_bytes_max=bound, frame_bytes_max=10_000)
        guest = await world.guest(one)
        guest.stop_reading()
        (peer,) = one.transport.connections()
        sent = 0
        while one.transport.send(peer, None, bytes(1000)):
            sent += 1
            await asyncio.sleep(0)  # let the stream take what it can
        assert one.transport.pressure(peer) > 0.98
        assert one.transport.connections()[peer].queued_bytes <= bound
        assert one.transport.counters["dropped: queue full"] == 1
        assert one.transport.connections()[peer].dropped == 1
        guest.read_on()
        await guest.until(lambda: sum(kind == 0 for kind, _ in guest.frames) == sent)
        assert one.transport.pressure(peer) == 0
        assert one.transport.send(peer, None, b"room again")

    world.run(main)


def test_the_queue_of_a_dial_is_bounded(world: World) -> None:
    async def main() -> None:
        one, other = await world.node(queue_bytes_max=5000, frame_bytes_max=1024), await world.node()
        sent = 0
        while one.send(other, bytes(1000)):
            sent += 1
        assert sent == 4
        assert one.transport.pressure(other.id) > 0.8
        await other.until(lambda: len(other.frames) == sent)

    world.run(main)


def test_frames_beyond_the_limit_are_turned_away_and_counted(world: World) -> None:
    async def main() -> None:
        one, other = await world.pair(frame_bytes_max=2000)
        assert not one.transport.send(other.id, other.address, bytes(2001))
        assert not one.transport.send(other.id, None, bytes(2001))
        assert not one.transport.send(bytes(32), other.address, bytes(2001))
        assert one.transport.counters["dropped: frame too large"] == 3
        assert one.send(other, bytes(2000))
        await other.until(lambda: list(map(len, other.frames)) == [2000])

    world.run(main)


def test_an_unreachable_peer_is_left_alone_for_a_while(world: World) -> None:
    async def main() -> None:
        one, other = await world.node(redial_s_min=0.05, redial_s_max=60.0), await world.node()
        await other.transport.close()
        for failures in range(1, 3):
            while not one.send(other, b"x"):
                await asyncio.sleep(0.001)
            await one.until(lambda failures=failures: len(one.unreachable) == failures)  # type: ignore[misc]
            assert one.downs == [(other.id, "nobody listens there")] * failures
            assert one.transport.counters["dropped: no connection"] == failures
            assert not one.send(other, b"too early")
        assert one.transport.counters["dropped: backing off"] >= 2
        assert one.transport.counters["unreachable: nobody listens there"] == 2
        with pytest.raises(RemoteError, match="nobody listens there"):
            await one.transport.connect(other.address)
        back = await world.node(other.transport.identity, listen=other.address)
        await back.transport.connect(one.address)  # whoever calls is reachable, however often it was not
        await one.until(lambda: bool(one.ups))
        assert one.send(back, b"x")

    world.run(main)


def test_without_an_address_nothing_is_sent(world: World) -> None:
    async def main() -> None:
        one = await world.node()
        assert not one.transport.send(bytes(32), None, b"x")
        assert not one.transport.send(one.id, one.address, b"x")
        assert one.transport.counters == {"dropped: no address": 1, "dropped: own identity": 1}

    world.run(main)


def test_dials_are_limited(world: World) -> None:
    async def main() -> None:
        one, *others = [await world.node(dialled_max=2) for _ in range(4)]
        assert [one.send(other, b"x") for other in others[:2]] == [True, True]
        await asyncio.gather(*(other.until(lambda other=other: bool(other.ups)) for other in others[:2]))  # type: ignore[misc]
        assert not one.send(others[2], b"x")
        assert one.transport.counters == {"dropped: too many connections": 1}
        with pytest.raises(RemoteError, match="too many connections"):
            await one.transport.connect(others[2].address)

    world.run(main)


def test_dials_take_turns(world: World) -> None:
    async def main() -> None:
        one, *others = [await world.node(dials_max=1) for _ in range(6)]
        assert all(one.send(other, b"x") for other in others)
        making = 0
        while len(one.ups) < 5:
            making = max(making, one.connections - len(one.ups))
            await asyncio.sleep(0)
        assert making <= 1

    world.run(main)


def test_an_address_in_use_is_the_callers_fault(world: World) -> None:
    async def main() -> None:
        one = await world.node()
        with pytest.raises(InputError, match="cannot listen on"):
            await world.node(listen=one.address)

    world.run(main)


def test_delays_keep_the_order() -> None:
    world = World("memory")
    delays = itertools.cycle([0.003, 0.001, 0.0])
    world.memory.delay_s = lambda sender, receiver: next(delays)

    async def main() -> None:
        one, other = await world.pair()
        for n in range(50):
            one.send(other, bytes([n]))
            await asyncio.sleep(0)
        await other.until(lambda: len(other.frames) == 50)
        assert other.frames == [bytes([n]) for n in range(50)]

    world.run(main)


def test_waits_double_and_are_jittered() -> None:
    jitter = iter([1.0, 1.0, 0.0, 1.0, 1.0])
    redial = Redial(TransportConfig(redial_s_min=1.0, redial_s_max=5.0), lambda: next(jitter))
    assert [redial.fail(b"peer", 100.0) for _ in range(4)] == [1.0, 2.0, 2.0, 5.0]
    assert redial.must_wait(b"peer", 104.9)
    assert not redial.must_wait(b"peer", 105.0)
    redial.reach(b"peer")
    assert redial.fail(b"peer", 100.0) == 1.0


def test_failures_are_forgotten_before_they_fill_memory() -> None:
    redial = Redial(TransportConfig(), lambda: 1.0)
    for n in range(FAILED_MAX + 10):
        redial.fail(n.to_bytes(32, "big"), 0.0)
    assert len(redial._failed) == FAILED_MAX
    assert not redial.must_wait((0).to_bytes(32, "big"), 0.1)


def test_the_door_counts_by_host() -> None:
    door = AcceptLimiter(TransportConfig(accepted_max=9, handshakes_max=3, handshakes_per_host_max=2))
    door.enter("a")
    door.enter("a")
    assert door.obstacle("a", 2) == "too many handshakes from one host"
    assert door.obstacle("b", 2) == ""
    door.enter("b")
    assert door.obstacle("c", 3) == "too many handshakes"
    door.leave("a")
    assert door.obstacle("a", 2) == ""
    assert door.obstacle("a", 9) == "too many connections"


@pytest.mark.parametrize(
    "limits",
    [
        {"frame_bytes_max": 2**24},
        {"queue_bytes_max": 4096},
        {"silent_s_max": 6.0},
        {"redial_s_max": 0.1},
        {"accepted_max": 0},
    ],
)
def test_impossible_limits(limits: dict[str, float]) -> None:
    with pytest.raises(InputError):
        TransportConfig(**limits)  # type: ignore[arg-type]


def test_ipv6() -> None:
    world = World("TLS")

    async def main() -> None:
        try:
            one = await world.node(listen=Address("::1", 0))
        except InputError:
            pytest.skip("no IPv6 here")
        other = await world.node()
        assert await other.transport.connect(one.address) == one.id
        assert other.ups[0][1] == one.address

    world.run(main)
