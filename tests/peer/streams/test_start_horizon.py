"""What is older than a node's interest in a stream."""

from support.stream_events import event
from vinecast.peer.streams.start_horizon import OLD_MAX, SOON_US, StartHorizon


def test_what_is_fetched_soon_and_older_by_its_publishers_clock_is_old() -> None:
    beginnings = StartHorizon()
    old = event(say=b"old")
    since_us = old.record.time_us + 1
    beginnings.begin("t", since_us)
    beginnings.begin("t", since_us - 10)  # the first time counts
    assert not beginnings.is_old(old)
    beginnings.fetched(old, since_us + SOON_US - 1)
    assert beginnings.is_old(old)
    beginnings.end("t")
    assert not beginnings.is_old(old)


def test_what_is_newer_or_comes_later_or_is_not_followed_is_not_old() -> None:
    beginnings = StartHorizon()
    found = event(say=b"x")
    beginnings.fetched(found, 0)
    assert not beginnings.is_old(found)
    beginnings.begin("t", found.record.time_us)
    beginnings.fetched(found, found.record.time_us + 1)
    assert not beginnings.is_old(found)
    beginnings.end("t")
    beginnings.begin("t", found.record.time_us + 1)
    beginnings.fetched(found, found.record.time_us + 1 + SOON_US)
    assert not beginnings.is_old(found)


def test_only_so_many_are_told_apart() -> None:
    beginnings = StartHorizon()
    events = [event(say=b"%d" % n) for n in range(OLD_MAX + 3)]
    since_us = events[0].record.time_us + 1
    beginnings.begin("t", since_us)
    for found in events:
        beginnings.fetched(found, since_us)
    assert sum(map(beginnings.is_old, events)) == OLD_MAX
