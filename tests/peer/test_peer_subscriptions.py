"""What waits for the readers of a peer is bounded, in events and in bytes: what finds no room is counted."""

from support.lone_peer import LonePeer, of_type
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import EventsTaken, OpenSubscription
from vinecast.peer.outputs import DeliverEvent, EventDropped
from vinecast.peer.subscriptions import WAITING_BYTES

READER = 7


class Reading(LonePeer):
    """A peer that reads what it publishes itself."""

    def __init__(self, waiting: int) -> None:
        super().__init__(PeerConfig(waiting=waiting))
        self.feed(OpenSubscription(1, READER, "news", "now"))

    def rooms(self, events: int, size: int) -> list[bool]:
        """Publish so many events; of each, whether there was room for it."""
        met = [one for one in self.publish(events, size) if isinstance(one, DeliverEvent | EventDropped)]
        assert {one.subscription for one in met} == {READER}
        return [isinstance(one, DeliverEvent) for one in met]


def block_bytes(size: int) -> int:
    """How large the block of an event with so many bytes is."""
    (event,) = of_type(DeliverEvent, Reading(waiting=1).publish(1, size))
    return len(event.signed.block)


def test_what_waits_for_a_reader_is_bounded_in_bytes() -> None:
    reading, size = Reading(waiting=10_000), 256 * 1024
    large = block_bytes(size)
    room = WAITING_BYTES // large
    assert reading.rooms(room + 5, size) == [True] * room + [False] * 5
    assert reading.peer.counters["dropped: subscriber too slow"] == 5
    reading.feed(EventsTaken(READER, 1, large))
    assert reading.rooms(2, size) == [True, False]
    reading.feed(EventsTaken(READER, room, room * large))
    assert reading.rooms(room + 1, size) == [True] * room + [False]


def test_what_waits_for_a_reader_is_bounded_in_events() -> None:
    reading = Reading(waiting=10)
    assert reading.rooms(12, 1) == [True] * 10 + [False] * 2
    reading.feed(EventsTaken(READER, 3, 3 * block_bytes(1)))
    assert reading.rooms(5, 1) == [True] * 3 + [False] * 2
