"""Streams in memory: heads, orders, positions, retention, and what a crash undoes."""

import pytest

from support.stream_events import chain, event
from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.retention import Forgotten, Retention
from vinecast.core.log.stream_buffer import FORGOTTEN_MAX, GONE_HEADS_MAX, HEADS_SHOWN, size_of
from vinecast.core.log.streams import EMPTY, Consumers, Streams, StreamSink, StreamState

NOW = 1_000_000


def kept(*events: SignedEvent) -> MemoryStreams:
    streams = MemoryStreams()
    streams.keep(events, NOW)
    return streams


def cids(events: list[SignedEvent]) -> list[bytes]:
    return [one.cid for one in events]


def test_it_is_what_a_machine_and_a_driver_ask_for() -> None:
    streams = MemoryStreams()
    for half in (Streams, StreamSink, Consumers):
        assert all(hasattr(streams, name) for name in vars(half) if not name.startswith("_"))
    reading: Streams = streams
    writing: StreamSink = streams
    assert reading.state("t") == EMPTY
    writing.keep(chain(2), NOW)
    assert reading.topics() == ["t"]


def test_heads_are_what_nothing_follows() -> None:
    root = event()
    left, right = event(root, say=b"left"), event(root, say=b"right")
    streams = kept(root, left, right)
    assert set(streams.state("t").heads) == {left.cid, right.cid}
    both = event(left, right)
    streams.keep([both], NOW)
    assert streams.state("t") == StreamState((both.cid,), 1, 4, 0)
    assert streams.height_of("t", both.cid) == 3
    assert streams.height_of("other", both.cid) == 0
    assert streams.get(left.cid) == left
    assert streams.position_of(both.cid) == 4


def test_two_orders() -> None:
    root = event()
    leaves = [event(root, say=bytes([i])) for i in range(9)]
    streams = kept(root, *leaves)
    assert [one.signed for one in streams.after("t", 3, 4)] == leaves[2:6]
    ordered = sorted(leaves, key=lambda leaf: leaf.cid)
    assert [one.signed for one in streams.in_order("t", (0, b""), 100)] == [root, *ordered]
    assert [one.signed for one in streams.in_order("t", (2, ordered[3].cid), 2)] == ordered[4:6]
    assert streams.after("other", 0, 1) == streams.in_order("other", (0, b""), 1) == []


def test_what_is_kept_twice_is_kept_once() -> None:
    events = chain(3)
    streams = kept(*events, *events)
    assert streams.state("t") == StreamState((events[2].cid,), 1, 3, 0)


def test_an_event_that_comes_after_what_follows_it_is_no_head() -> None:
    first, second, third = chain(3)
    streams = MemoryStreams()
    streams.set_floor("t", 2)
    streams.keep([third], NOW)
    streams.keep([first, second], NOW)
    assert streams.state("t").heads == (third.cid,)
    assert [one.position for one in streams.in_order("t", (0, b""), 9)] == [2, 3, 1]


def test_many_heads_are_shown_highest_first() -> None:
    roots = [event(say=b"%d" % i) for i in range(HEADS_SHOWN + 10)]
    higher = event(roots[0])
    streams = kept(*roots, higher)
    heads = streams.state("t").heads
    assert heads == (higher.cid, *sorted(cids(roots[1:]))[: HEADS_SHOWN - 1])


# Crashes


def test_a_crash_loses_what_was_not_safe_and_nothing_else() -> None:
    events = chain(6)
    streams = kept(*events[:3])
    streams.ack("c", "t", 2)
    assert streams.commit() == tuple(cids(events[:3]))
    before = streams.state("t"), streams.after("t", 0, 9)
    streams.keep(events[3:], NOW)
    streams.keep(chain(2, topic="new"), NOW)
    streams.set_floor("t", 3)
    streams.ack("c", "t", 5)
    streams.retain("t", Retention(events=1), NOW)
    streams.crash()
    assert (streams.state("t"), streams.after("t", 0, 9)) == before
    assert streams.topics() == ["t"]
    assert streams.offset("c", "t") == 2
    assert streams.height_of("t", events[3].cid) == 0
    streams.keep(events[3:], NOW)
    assert streams.commit() == tuple(cids(events[3:]))
    streams.crash()
    assert streams.state("t") == StreamState((events[5].cid,), 1, 6, 0)


def test_a_commit_covers_what_was_there_when_its_batch_was_closed() -> None:
    events = chain(6)
    streams = kept(*events[:2])
    streams.commit()
    streams.keep(events[2:4], NOW)
    streams.ack("c", "t", 1)
    streams.close_batch()
    closed = streams.state("t"), streams.after("t", 0, 9)
    streams.keep(events[4:], NOW)
    streams.keep(chain(1, topic="new"), NOW)
    streams.ack("c", "t", 5)
    streams.close_batch()  # the first is still under way
    assert [streams.is_unsafe(one.cid) for one in events] == [False] * 2 + [True] * 4
    assert streams.commit() == tuple(cids(events[2:4]))
    assert [streams.is_unsafe(one.cid) for one in events] == [False] * 4 + [True] * 2
    streams.crash()
    assert (streams.state("t"), streams.after("t", 0, 9)) == closed
    assert (streams.topics(), streams.offset("c", "t")) == (["t"], 1)


def test_a_crash_undoes_a_batch_under_way_and_what_came_after_it() -> None:
    events = chain(6)
    streams = kept(*events[:2])
    streams.ack("c", "t", 1)
    streams.commit()
    before = streams.state("t"), streams.after("t", 0, 9), streams.size
    streams.keep(events[2:4], NOW)
    streams.keep(chain(2, topic="new"), NOW)
    streams.ack("c", "t", 3)
    streams.close_batch()
    streams.keep(events[4:], NOW)
    streams.keep(chain(3, topic="new"), NOW)
    streams.ack("c", "t", 5)
    streams.retain("t", Retention(events=1), NOW)  # of all three: safe, under way, and since
    streams.crash()
    assert (streams.state("t"), streams.after("t", 0, 9), streams.size) == before
    assert (streams.topics(), streams.offset("c", "t")) == (["t"], 1)
    assert streams.height_of("t", events[3].cid) == 0
    streams.keep(events[2:], NOW)
    assert streams.commit() == tuple(cids(events[2:]))


def test_what_was_forgotten_while_its_commit_was_under_way_is_not_told() -> None:
    events = chain(3)
    streams = kept(*events)
    streams.close_batch()
    streams.retain("t", Retention(events=1), NOW)
    assert streams.commit() == (events[2].cid,)
    streams.crash()
    assert [one.signed for one in streams.after("t", 0, 9)] == events, "the file has them until the next one"


# Consumers


def test_offsets_never_go_back() -> None:
    streams = kept(*chain(5))
    for position, offset in ((3, 3), (2, 3), (5, 5)):
        streams.ack("c", "t", position)
        assert streams.offset("c", "t") == offset
    assert streams.offset("other", "t") == 0
    for position in (6, -1):
        with pytest.raises(InputError, match="positions up to 5"):
            streams.ack("c", "t", position)


# Retention


def test_the_oldest_go_first_and_the_floor_rises() -> None:
    root = event()
    leaves = sorted((event(root, say=bytes([i])) for i in range(4)), key=lambda leaf: leaf.cid)
    streams = kept(root, *reversed(leaves))
    streams.ack("done", "t", 5)
    streams.ack("slow", "t", 1)
    gone = [root, *leaves[:2]]
    told = streams.retain("t", Retention(events=2), NOW)
    assert told == Forgotten("t", 3, sum(map(size_of, gone)), 2, {"slow": 2})
    assert [one.signed for one in streams.after("t", 0, 9)] == [leaves[3], leaves[2]]
    assert streams.state("t").floor == 2
    assert streams.state("t").first == 2
    assert streams.retain("t", Retention(events=2), NOW) is None
    assert set(streams.state("t").heads) == set(cids(leaves))  # who publishes next follows all of them
    assert streams.height_of("t", root.cid) == 1
    assert streams.get(root.cid) is None


def test_retention_by_bytes_and_by_age() -> None:
    events = chain(10)
    streams = MemoryStreams()
    for number, one in enumerate(events):
        streams.keep([one], number * 1_000_000)
    assert streams.retain("t", Retention(age_s=7), 9_000_000) == Forgotten(
        "t", 2, sum(map(size_of, events[:2])), 2, {}
    )
    limit = sum(map(size_of, events[7:])) + 1
    streams.retain("t", Retention(bytes=limit), 9_000_000)
    assert [one.signed for one in streams.after("t", 0, 99)] == events[7:]
    late = event(say=b"late")
    streams.keep([late], 9_000_000)
    assert streams.retain("t", Retention(age_s=1), 20_000_000) is not None  # all of them
    state = streams.state("t")
    assert state.heads == (events[9].cid, late.cid)
    assert (state.first, state.last) == (12, 11)
    follower = event(events[9], late)
    streams.keep([follower], 20_000_000)
    assert streams.state("t") == StreamState((follower.cid,), 12, 12, 10)


def test_a_young_event_holds_back_those_after_it() -> None:
    events = chain(2)
    streams = MemoryStreams()
    streams.keep(events[1:], 0)
    streams.keep(events[:1], 5_000_000)
    assert streams.retain("t", Retention(age_s=1), 6_000_000) is None
    assert streams.retain("t", Retention(age_s=1), 6_000_001) is not None


def test_what_is_remembered_of_forgotten_events_is_bounded() -> None:
    roots = sorted((event(say=b"%d" % i) for i in range(FORGOTTEN_MAX + 100)), key=lambda one: one.cid)
    streams = kept(*roots)
    streams.retain("t", Retention(events=1), NOW)
    assert len(streams.state("t").heads) == GONE_HEADS_MAX + 1
    assert streams.height_of("t", roots[0].cid) == 0
    assert streams.height_of("t", roots[-2].cid) == 1
    streams.keep([roots[-100]], NOW)  # it was followed by nothing, yet it was given up as a head
    assert roots[-100].cid not in streams.state("t").heads


def test_retention_never_lowers_the_floor() -> None:
    streams = kept(*chain(3))
    streams.set_floor("t", 9)
    streams.retain("t", Retention(events=1), NOW)
    assert streams.state("t").floor == 9


@pytest.mark.parametrize("limits", [{"age_s": 0.0}, {"events": 0}, {"bytes": -1}])
def test_limits_that_are_none(limits: dict[str, int]) -> None:
    with pytest.raises(InputError):
        Retention(**limits)
