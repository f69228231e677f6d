"""What a publisher is told: how many peers its event was handed to, and when it has to wait."""

import pytest

from support.lone_peer import LonePeer, of_type
from vinecast.core.errors import ClosedError, OverloadedError
from vinecast.core.events import TimerFired
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import (
    Draft,
    EventsStored,
    FrameUnsent,
    NodeEnds,
    PublishDrafts,
    PublishTurn,
    QueuesCrowded,
    StoreCloses,
)
from vinecast.peer.outputs import Answered, PeerOutput, SendFrame
from vinecast.peer.publisher import EXPIRE_TIMER, LOOK_TIMER, PENDING_BYTES, SETTLE_TIMER
from vinecast.peer.receipt import Receipt
from vinecast.peer.streams.publisher_probe import LONGEST_US, MOMENT_US
from vinecast.peer.wire.messages import system_frame
from vinecast.systems.vitis.messages import HaveEvent, WantEvent


def receipts(out: list[PeerOutput]) -> list[Receipt]:
    """The receipts in the answers of some outputs."""
    return [receipt for one in of_type(Answered, out) for receipt in one.value]


def carrying(lone: LonePeer, out: list[PeerOutput]) -> list[SendFrame]:
    """The frames of some outputs that carry events, or tell of them."""
    return [one for one in of_type(SendFrame, out) if lone.peer.system.events_in(one.frame)]


@pytest.mark.parametrize("goes_out", [True, False])
def test_who_was_not_sent_an_event_after_all_is_not_counted(goes_out: bool) -> None:
    lone = LonePeer(PeerConfig())
    other = lone.introduce("news")
    out = lone.publish(3, 10)
    assert not of_type(Answered, out)
    frames = carrying(lone, out)
    assert {one.peer for one in frames} == {other}
    for one in frames if not goes_out else ():
        lone.feed(FrameUnsent(one.peer, one.things, one.frame))
    told = receipts(lone.feed(TimerFired(SETTLE_TIMER)))
    assert [receipt.neighbours for receipt in told] == [goes_out] * 3


def test_nor_is_who_was_not_told_of_it() -> None:
    peer = LonePeer(PeerConfig(system="vitis")).peer
    assert peer.system.events_in(system_frame(HaveEvent("news", 1, False, (5, 2**62)))) == [5, 2**62]
    assert peer.system.events_in(system_frame(WantEvent(1, False, (5,)))) == []


@pytest.mark.parametrize("goes_out", [True, False])
def test_so_it_is_with_events_of_streams(goes_out: bool) -> None:
    lone = LonePeer(PeerConfig(holders=1, publish_wait_s=1.0))
    lone.introduce("news")
    out = lone.publish(2, 10, durable=True)
    while not carrying(lone, out):  # it asks for the stream first
        lone.now_us += 5_000
        out = lone.feed(TimerFired(LOOK_TIMER))
    for one in carrying(lone, out) if not goes_out else ():
        lone.feed(FrameUnsent(one.peer, one.things, one.frame))
    assert not receipts(lone.feed(TimerFired(SETTLE_TIMER)))
    store = lone.peer.streams.store
    lone.feed(EventsStored(tuple(signed.cid for _, signed in store.in_order("news", (0, b""), 9))))
    lone.now_us += 1_000_000
    told = receipts(lone.feed(TimerFired(EXPIRE_TIMER)))
    assert [(receipt.neighbours, receipt.holders) for receipt in told] == [(goes_out, 0)] * 2


def test_more_than_a_turn_takes_waits_for_room() -> None:
    lone = LonePeer(PeerConfig(publish_wait_s=1.0))
    other = lone.introduce("news")
    size = PENDING_BYTES // 4
    drafts = [Draft(bytes(size), {}, n + 1, 1) for n in range(12)]
    turn = tuple(PublishDrafts(n, "news", (draft,), durable=False) for n, draft in enumerate(drafts))
    assert len(carrying(lone, lone.feed(PublishTurn(turn)))) == 5
    lone.now_us += 5_000
    assert len(carrying(lone, lone.feed(TimerFired(LOOK_TIMER)))) == 5
    assert len(receipts(lone.feed(TimerFired(SETTLE_TIMER)))) == 10
    lone.feed(QueuesCrowded(frozenset({other})))
    lone.now_us += 5_000
    assert not carrying(lone, lone.feed(TimerFired(LOOK_TIMER)))
    lone.now_us += 1_000_000
    late = of_type(Answered, lone.feed(TimerFired(LOOK_TIMER)))
    assert [one.request for one in late] == [10, 11]
    assert all(isinstance(one.error, OverloadedError) for one in late)


def test_at_the_end_those_are_told_whose_events_are_safe() -> None:
    lone = LonePeer(PeerConfig(holders=1))
    lone.introduce("news")
    out = lone.publish(3, 10, durable=True)
    while not carrying(lone, out):  # it asks for the stream first
        lone.now_us += 5_000
        out = lone.feed(TimerFired(LOOK_TIMER))
    cids = [one.signed.cid for one in lone.peer.streams.store.after("news", 0, 9)]
    assert not of_type(Answered, lone.feed(EventsStored((cids[0],))))
    assert not of_type(Answered, lone.feed(StoreCloses()))
    assert not of_type(Answered, lone.feed(EventsStored((cids[1],)))), "the store writes this as it closes"
    (told,) = of_type(Answered, lone.feed(NodeEnds()))
    assert told.value[:2] == tuple(Receipt(cid, 1, 0) for cid in cids[:2])
    assert isinstance(told.value[2], ClosedError)


@pytest.mark.parametrize("connected", [True, False])
def test_a_new_publisher_waits_longer_for_replicas_without_a_connection(
    connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = LonePeer(PeerConfig())
    number = lone.peer.peer_table.number_of(lone.introduce("news"))
    replicas = (number,) if connected else (number, number + 1)
    monkeypatch.setattr(lone.peer.streams.replicas, "of", lambda topic: replicas)
    lone.publish(1, 10, durable=True)
    lone.now_us += MOMENT_US + 1
    lone.feed(TimerFired(LOOK_TIMER))
    assert lone.peer.publishing.outstanding == connected
    lone.now_us += LONGEST_US
    lone.feed(TimerFired(LOOK_TIMER))
    assert lone.peer.publishing.outstanding == 1
