"""The cursor: reading on from the store comes to an end, whatever retention and the disk do meanwhile."""

from typing import Any, cast

import pytest

from support.stream_events import chain
from vinecast.core.errors import InputError
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.retention import Retention
from vinecast.peer.streams.cursor import Cursor
from vinecast.peer.streams.durable_runtime import DurableRuntime


class Streams:
    """What a cursor asks of a node's streams."""

    def __init__(self) -> None:
        self.store = MemoryStreams()
        self.safe = 0

    def safe_position(self, topic: str) -> int:
        return self.safe


def cursor_over(streams: Any) -> Cursor:
    cursor = Cursor(cast(DurableRuntime, streams), "earliest", None, True)
    cursor.begin("t")
    return cursor


def test_what_retention_took_before_it_was_read_is_passed_over() -> None:
    streams, events = Streams(), chain(6)
    streams.store.keep(events[:3], 0)
    streams.safe = 3
    cursor = cursor_over(streams)
    streams.store.keep(events[3:], 0)  # on a disk that writes nothing at the moment
    streams.store.retain("t", Retention(events=3), 0)
    assert cursor.catch_up() == []
    assert not cursor.is_behind, "it would read for ever, and find nothing"
    assert cursor.is_next("t", 4)


def test_reading_goes_on_behind_what_was_taken() -> None:
    streams, events = Streams(), chain(6)
    streams.store.keep(events, 0)
    streams.safe = 6
    cursor = cursor_over(streams)
    streams.store.retain("t", Retention(events=2), 0)
    assert [position for _, position in cursor.catch_up()] == [5, 6]
    assert not cursor.is_behind


def test_an_event_is_handed_over_at_once_only_if_none_before_it_is_left() -> None:
    streams, events = Streams(), chain(3)
    cursor = cursor_over(streams)
    streams.store.keep(events, 0)
    assert not cursor.is_next("t", 2)
    assert cursor.is_next("t", 1)
    cursor.advance("t", 1)
    assert cursor.is_next("t", 2)
    cursor.fall_behind("t")
    assert not cursor.is_next("t", 2)


def test_a_topic_that_cannot_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams()
    for topic in "ab":
        streams.store.keep(chain(2, topic), 0)
    streams.safe = 2
    cursor = Cursor(cast(DurableRuntime, streams), "earliest", None, False)
    for topic in "ab":
        cursor.begin(topic)
    after = streams.store.after

    def damaged(topic: str, position: int, count: int) -> Any:
        if topic == "a":
            raise InputError("the store is damaged")
        return after(topic, position, count)

    monkeypatch.setattr(streams.store, "after", damaged)
    with pytest.raises(InputError):
        cursor.catch_up()
    assert [signed.record.topic for signed, _ in cursor.catch_up()] == ["b", "b"]
    with pytest.raises(InputError):
        cursor.catch_up()
    monkeypatch.undo()
    assert [signed.record.topic for signed, _ in cursor.catch_up()] == ["a", "a"]
    assert not cursor.is_behind
