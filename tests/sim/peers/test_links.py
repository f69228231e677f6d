"""Simulated connections keep what a transport promises, and break as networks do."""

import heapq
from collections.abc import Callable
from typing import Any

import pytest

from vinecast.core.machine import SECOND_US
from vinecast.peer.address import Address
from vinecast.peer.inputs import (
    AddressFailed,
    AddressReached,
    FrameCame,
    FrameUnsent,
    LinkDown,
    LinkUp,
    PeerInput,
    PeerUnreachable,
)
from vinecast.peer.outputs import SendFrame
from vinecast.sim.peers.links import LinkConfig, SimulatedLinks

IDS = [bytes([number]) * 32 for number in range(4)]
WHERE = [Address(f"host{number}", 7) for number in range(4)]


class Host:
    """Nodes that only note what they are told."""

    def __init__(self, config: LinkConfig | None = None) -> None:
        self.seed = 7
        self.now_us = 1_000_000
        self.told: list[tuple[int, int, PeerInput]] = []
        self.lives = [1] * len(IDS)
        self._asked = 0
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self.links = SimulatedLinks(config or LinkConfig(), self)
        for number, peer in enumerate(IDS):
            self.links.know(peer)
            self.links.listening[WHERE[number]] = number

    def at(self, at_us: int, action: Callable[..., object], *arguments: Any) -> None:
        self._asked += 1
        heapq.heappush(self._queue, (max(at_us, self.now_us), self._asked, action, arguments))

    def feed(self, node: int, what: PeerInput) -> None:
        self.told.append((self.now_us, node, what))

    def life(self, node: int) -> int:
        return self.lives[node]

    def run(self, for_s: float) -> None:
        until_us = self.now_us + round(for_s * SECOND_US)
        while self._queue and self._queue[0][0] <= until_us:
            self.now_us, _, action, arguments = heapq.heappop(self._queue)
            action(*arguments)
        self.now_us = until_us

    def send(self, one: int, other: int, frame: bytes = b"frame") -> bool:
        return self.links.send(one, SendFrame(IDS[other], WHERE[other], frame, 1))

    def of(self, node: int, kind: type[Any]) -> list[Any]:
        return [what for _, who, what in self.told if who == node and isinstance(what, kind)]

    def when(self, node: int, kind: type[Any]) -> float:
        return next(at for at, who, what in self.told if who == node and isinstance(what, kind)) / SECOND_US

    def join(self, one: int, other: int) -> None:
        """Two nodes have a session, and nothing else is noted."""
        assert self.send(one, other)
        self.run(0.5)
        self.told.clear()


def frames(host: Host, node: int) -> list[bytes]:
    return [came.data for came in host.of(node, FrameCame)]


def test_first_frame_makes_connection() -> None:
    host = Host()
    assert host.send(0, 1, b"one")
    assert host.send(0, 1, b"two")
    host.run(1)
    assert host.of(0, LinkUp) == [LinkUp(IDS[1])]
    assert host.of(1, LinkUp) == [LinkUp(IDS[0])]
    assert frames(host, 1) == [b"one", b"two"]
    kinds = [type(what) for _, node, what in host.told if node == 1]
    assert kinds[0] is LinkUp, "a side is up before frames come"


def test_both_dial_at_once_and_get_one_session() -> None:
    host = Host()
    host.send(0, 1, b"from 0")
    host.send(1, 0, b"from 1")
    host.run(1)
    assert len(host.of(0, LinkUp)) == len(host.of(1, LinkUp)) == 1
    assert frames(host, 1) == [b"from 0"]
    assert frames(host, 0) == [b"from 1"]


def test_a_share_of_frames_is_lost_and_the_others_keep_their_order() -> None:
    arrived = []
    for _ in range(2):
        host = Host(LinkConfig(loss=0.3))
        host.join(0, 1)
        for number in range(1000):
            host.send(number % 2, 1 - number % 2, b"%03d" % number)
        host.run(1)
        assert frames(host, 0) == sorted(frames(host, 0))
        arrived.append((frames(host, 0), frames(host, 1)))
        assert host.of(0, LinkDown) == host.of(1, LinkDown) == []
    assert arrived[0] == arrived[1]
    assert [len(came) / 500 for came in arrived[0]] == pytest.approx([0.7, 0.7], abs=0.06)


def test_frames_keep_their_order_however_late_each_is() -> None:
    host = Host(LinkConfig(latency_ms=1, jitter_ms=50))
    host.join(0, 1)
    sent = [b"%d" % number for number in range(200)]
    for frame in sent:
        host.send(0, 1, frame)
        host.run(0.001)
    host.run(1)
    assert frames(host, 1) == sent


def test_frames_wait_for_what_was_sent_before() -> None:
    host = Host(LinkConfig(latency_ms=1, jitter_ms=0, bytes_a_second=1000))
    host.join(0, 1)
    begin_us = host.now_us
    host.send(0, 1, bytes(996))
    host.send(0, 1, b"next")
    host.run(5)
    took_s = [(at - begin_us) / SECOND_US for at, _, what in host.told if isinstance(what, FrameCame)]
    assert took_s == pytest.approx([1.0, 1.008], abs=0.01)


def test_full_queue_takes_nothing() -> None:
    host = Host(LinkConfig(bytes_a_second=1000, queue_bytes_max=5000))
    host.join(0, 1)
    taken = [host.send(0, 1, bytes(996)) for _ in range(10)]
    assert taken == [True] * 6 + [False] * 4
    assert host.links.crowded(0, 0.5) == {IDS[1]}
    host.run(20)
    assert len(frames(host, 1)) == 6
    assert host.links.crowded(0, 0.5) == frozenset()


def test_what_waits_for_a_connection_is_bounded() -> None:
    host = Host(LinkConfig(queue_bytes_max=5000))
    assert all(host.send(0, 1, bytes(2000)) for _ in range(2))
    assert not host.send(0, 1, bytes(2000))
    host.run(1)
    assert len(frames(host, 1)) == 2


def test_what_waited_and_finds_no_room_is_only_counted() -> None:
    host = Host(LinkConfig(queue_bytes_max=5000, bytes_a_second=1000))
    host.join(1, 0)
    host.links.half_open(0, 1)  # the way from 0 is forgotten, and made anew beside what waits on it
    assert all(host.send(0, 1, bytes(2400)) for _ in range(2))
    host.links.config = LinkConfig(queue_bytes_max=2000, bytes_a_second=1000)
    host.run(0.2)
    assert host.of(0, FrameUnsent) == []
    assert host.links.counters == {"dropped: queue full": 1}


def test_frame_that_is_too_large_does_not_go_out() -> None:
    host = Host(LinkConfig(frame_bytes_max=100))
    for _ in range(2):  # before there is a connection, and after
        assert [host.send(0, 1, bytes(size)) for size in (100, 101)] == [True, False]
        host.run(1)
    assert frames(host, 1) == [bytes(100)] * 2


def test_broken_link_loses_what_is_on_its_way_and_both_ends_know() -> None:
    host = Host()
    host.join(0, 1)
    host.send(0, 1, b"lost")
    host.links.break_link(1, 0)
    host.run(1)
    assert host.of(0, LinkDown) == [LinkDown(IDS[1], True)]
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], True)]
    assert frames(host, 1) == []
    assert host.when(0, LinkDown) == host.when(1, LinkDown) + host.links._way_us(0, 1) / SECOND_US
    assert host.send(0, 1, b"again")
    host.run(1)
    assert frames(host, 1) == [b"again"]


def test_end_that_does_not_know_yet_sends_into_the_void() -> None:
    host = Host(LinkConfig(latency_ms=50))
    host.join(0, 1)
    host.links.break_link(0, 1)
    assert host.send(1, 0, b"lost")
    host.run(1)
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], True)]
    assert frames(host, 0) == []


def test_end_of_a_connection_is_not_heard_through_a_cut() -> None:
    host = Host(LinkConfig(idle_s=1000))
    host.join(0, 1)
    host.links.break_link(0, 1)
    host.links.cut(1, [0])
    host.run(10)
    assert host.of(1, LinkDown) == []
    host.run(11)
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], True)]


def test_peer_that_died_and_begins_anew_at_once_gets_a_new_session() -> None:
    host = Host(LinkConfig(latency_ms=50))
    host.join(0, 1)
    host.links.close_all(0)
    host.told.clear()
    host.links.connect(1, WHERE[0])
    host.send(0, 1, b"anew")
    host.run(1)
    assert [type(what) for _, node, what in host.told if node == 1][:2] == [LinkDown, LinkUp]
    assert frames(host, 1) == [b"anew"]
    assert host.links.links() == [(0, 1)]


def test_short_cut_delays_and_keeps_order() -> None:
    host = Host()
    host.join(0, 1)
    host.send(0, 1, b"under way")
    host.links.cut(1, [0])
    host.send(0, 1, b"during")
    host.run(5)
    assert frames(host, 1) == []
    host.links.heal(1)
    host.send(0, 1, b"after")
    host.run(1)
    assert frames(host, 1) == [b"under way", b"during", b"after"]
    assert host.of(0, LinkDown) == []


def test_long_cut_is_noticed_by_silence() -> None:
    host = Host(LinkConfig(idle_s=1000))
    host.join(0, 1)
    begin_s = host.now_us / SECOND_US
    host.links.cut(1, [0])
    host.send(0, 1, b"lost")
    host.run(30)
    assert host.of(0, LinkDown) == [LinkDown(IDS[1], True)]
    assert host.when(1, LinkDown) - begin_s == pytest.approx(20, abs=0.1)
    host.links.heal(1)
    host.run(1)
    assert frames(host, 1) == []


def test_two_cuts_heal_one_by_one() -> None:
    host = Host()
    host.join(0, 1)
    host.links.cut(1, [0])
    host.links.cut(2, [0, 2])
    host.send(0, 1)
    host.links.heal(1)
    host.run(1)
    assert frames(host, 1) == []
    host.links.heal(2)
    host.run(1)
    assert frames(host, 1) == [b"frame"]


def test_half_open_link_is_noticed_by_one_end_at_once_and_by_the_other_late() -> None:
    host = Host(LinkConfig(idle_s=1000))
    host.join(0, 1)
    host.links.half_open(0, 1)
    assert host.of(0, LinkDown) == [LinkDown(IDS[1], True)]
    assert host.send(1, 0, b"into the void")
    host.run(10)
    assert host.of(1, LinkDown) == []
    host.run(15)
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], True)]
    assert frames(host, 0) == []


def test_end_that_was_lost_begins_anew() -> None:
    host = Host()
    host.join(0, 1)
    host.links.half_open(0, 1)
    host.told.clear()
    host.send(0, 1, b"anew")
    host.run(1)
    assert [type(what) for _, node, what in host.told if node == 1] == [LinkDown, LinkUp, FrameCame]
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], False)]


def test_process_that_dies_closes_its_connections_and_one_without_power_does_not() -> None:
    for power, waits_s in ((False, 0.1), (True, 20.0)):
        host = Host(LinkConfig(idle_s=1000))
        host.join(0, 1)
        begin_us, host.lives[0] = host.now_us, 0
        host.links.close_all(0, silently=power)
        host.run(30)
        assert host.of(1, LinkDown) == [LinkDown(IDS[0], True)]
        assert host.when(1, LinkDown) - begin_us / SECOND_US == pytest.approx(waits_s, abs=0.2)


def test_node_that_leaves_in_order_is_not_missed_and_all_it_sent_arrives() -> None:
    host = Host(LinkConfig(latency_ms=1, jitter_ms=5, bytes_a_second=10_000))
    host.join(0, 1)
    sent = [bytes([number]) * 100 for number in range(50)]
    assert all(host.send(0, 1, frame) for frame in sent)
    host.links.close_all(0, in_order=True)
    host.run(1)
    assert [type(what) for _, node, what in host.told if node == 1] == [FrameCame] * 50 + [LinkDown]
    assert frames(host, 1) == sent
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], False)]


def test_process_that_goes_on_soon_is_not_given_up() -> None:
    host = Host(LinkConfig(idle_s=1000))
    host.join(0, 1)
    for _ in range(3):
        host.links.stop(0)
        host.run(15)
        host.links.go_on(0)
    host.run(30)
    assert host.told == []


@pytest.mark.parametrize("stopped_s", [4.0, 30.0])
def test_process_that_is_stopped_answers_no_call(stopped_s: float) -> None:
    host = Host()
    host.links.stop(1)
    begin_us = host.now_us
    host.send(0, 1, b"hello")
    host.run(stopped_s)
    host.links.go_on(1)
    host.run(1)
    if stopped_s < 10:
        assert frames(host, 1) == [b"hello"]
        assert host.when(0, LinkUp) - begin_us / SECOND_US == pytest.approx(stopped_s, abs=0.2)
    else:
        assert host.of(0, PeerUnreachable) == [PeerUnreachable(IDS[1])]
        assert host.when(0, PeerUnreachable) - begin_us / SECOND_US == pytest.approx(10, abs=0.01)
        assert host.of(1, LinkUp) == []


@pytest.mark.parametrize("why", ["nobody listens", "somebody else", "refuses", "cut"])
def test_peer_that_cannot_be_reached(why: str) -> None:
    host = Host()
    if why == "nobody listens":
        del host.links.listening[WHERE[1]]
    elif why == "somebody else":
        host.links.listening[WHERE[1]] = 2
    elif why == "refuses":
        host.links.refusing.add(1)
    else:
        host.links.cut(1, [0])
    begin_us = host.now_us
    assert host.send(0, 1)
    host.run(30)
    assert host.of(0, PeerUnreachable) == [PeerUnreachable(IDS[1])]
    assert [type(what) for _, node, what in host.told if node == 0] == [LinkDown, PeerUnreachable]
    waited_s = host.when(0, PeerUnreachable) - begin_us / SECOND_US
    assert waited_s == pytest.approx(10, abs=0.1) if why == "cut" else waited_s < 1
    assert host.of(1, LinkUp) == []


def test_address_is_reached_or_not() -> None:
    host = Host()
    host.links.connect(0, WHERE[1])
    host.links.connect(0, Address("elsewhere", 7))
    host.links.connect(0, WHERE[0])
    host.run(1)
    assert host.of(0, AddressReached) == [AddressReached(WHERE[1], IDS[1])]
    assert {failed.address for failed in host.of(0, AddressFailed)} == {Address("elsewhere", 7), WHERE[0]}


def test_caller_that_died_meanwhile_is_told_nothing() -> None:
    host = Host()
    host.links.connect(0, WHERE[1])
    host.lives[0] = 2
    host.run(1)
    assert host.told == []


def test_shunned_peer_gets_no_connection_for_a_while() -> None:
    host = Host()
    host.join(0, 1)
    host.links.shun(0, IDS[1])
    assert host.of(0, LinkDown) == [LinkDown(IDS[1], False)]
    assert not host.send(0, 1)
    host.run(0.1)
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], False)]
    host.send(1, 0)
    host.run(1)
    assert host.of(1, PeerUnreachable) == [PeerUnreachable(IDS[0])]
    host.run(60)
    host.send(1, 0, b"again")
    host.run(1)
    assert frames(host, 0) == [b"again"]


def test_connection_that_nobody_uses_is_closed_in_order() -> None:
    host = Host()
    host.join(0, 1)
    for _ in range(3):
        host.run(8)
        assert host.of(0, LinkDown) == []
        host.send(1, 0)
    host.run(12)
    assert host.of(0, LinkDown) == [LinkDown(IDS[1], False)]
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], False)]
    assert host.links.links() == []


def test_side_that_closes_an_idle_connection_takes_nothing_for_it_meanwhile() -> None:
    host = Host(LinkConfig(latency_ms=50, jitter_ms=0))
    host.join(0, 1)
    closing: list[int] = []
    while not host.told:
        host.run(0.001)
        if not closing:
            closing = [one for one in (0, 1) if not host.links.peers_of(one)]
            if closing:
                assert not host.send(closing[0], 1 - closing[0]), "the connection is closing"
                assert host.send(1 - closing[0], closing[0], b"the other side does not know yet")
    host.run(1)
    (one,) = closing
    assert frames(host, one) == [b"the other side does not know yet"]
    assert host.when(one, LinkDown) - host.when(1 - one, LinkDown) == pytest.approx(0.05, abs=0.026)
    assert host.of(0, LinkDown) + host.of(1, LinkDown) == [LinkDown(IDS[1], False), LinkDown(IDS[0], False)]


def test_idle_connection_to_a_process_that_is_stopped_is_closed_without_it() -> None:
    host = Host()
    host.join(0, 1)
    begin_s = host.now_us / SECOND_US
    host.links.stop(1)
    host.run(19)
    assert host.of(0, LinkDown) == [LinkDown(IDS[1], False)]
    assert host.when(0, LinkDown) - begin_s == pytest.approx(15, abs=1)
    assert host.of(1, LinkDown) == [LinkDown(IDS[0], False)]


def test_ways_differ_and_are_the_same_for_the_same_seed() -> None:
    def ways() -> list[int]:
        host = Host(LinkConfig(latency_ms=100, jitter_ms=0))
        return [host.links._way_us(one, other) for one in range(4) for other in range(one)]

    assert ways() == ways()
    assert len(set(ways())) == 6
    assert all(50_000 <= way <= 150_000 for way in ways())
