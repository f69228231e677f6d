"""What goes out of Vitis' small messages: those for the same peer share frames.

An event that comes is told to many, and a request to relay is passed on at once. What of that goes to whom is
collected here until what is in hand is handled.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from vinecast.core.events import Message
from vinecast.peer.routers import vitis_messages as wire
from vinecast.peer.table.topic_numbers import TopicNumbers
from vinecast.peer.wire.messages import HOPS_MAX, TOPICS_MAX, names_bytes
from vinecast.protocols.relay_path import RelayRequest
from vinecast.systems.common.notices import Notice, Pull

NAMES_BYTES = 64 * 1024
"""Of all names of topics in one request to relay (ours)."""


class VitisBatcher:
    """One node's. ``send`` takes a peer, a frame and the number of things in it, and says whether the frame
    will go out."""

    def __init__(self, send: Callable[[int, bytes, int], bool], topics: TopicNumbers) -> None:
        self._send, self._topics = send, topics
        self._haves: dict[tuple[int, str, int, bool], list[int]] = {}
        """Peer, topic, hops and whether it is seeking → events"""
        self._wants: dict[tuple[int, int, bool], list[int]] = {}
        self._relays: dict[int, list[str]] = {}

    def put(self, to: int, message: Message) -> bool:
        """Whether this is a message that waits here."""
        match message:
            case Notice(topic, number, hops, seeking):
                self._haves.setdefault((to, self._name_of(topic), hops, seeking), []).append(number)
            case Pull(_, number, hops, seeking):
                self._wants.setdefault((to, hops, seeking), []).append(number)
            case RelayRequest(topics):
                self._relays.setdefault(to, []).extend(map(self._name_of, topics))
            case _:
                return False
        return True

    def _name_of(self, topic: int) -> str:
        name = self._topics.names[topic]
        assert name is not None
        return name

    def flush(self) -> Mapping[int, int]:
        """Send all that was put here; event → how many peers were told of it."""
        haves, self._haves = self._haves, {}
        wants, self._wants = self._wants, {}
        relays, self._relays = self._relays, {}
        told: Counter[int] = Counter()
        for (to, hops, seeking), numbers in wants.items():
            for some in _cut(numbers):
                self._send(to, wire.encode_own(wire.WantEvent(min(hops, HOPS_MAX), seeking, some)), len(some))
        for (to, topic, hops, seeking), numbers in haves.items():
            for some in _cut(numbers):
                frame = wire.encode_own(wire.HaveEvent(topic, min(hops, HOPS_MAX), seeking, some))
                if self._send(to, frame, len(some)):
                    told.update(some)
        for to, names in relays.items():
            for topics in _cut_names(names):
                self._send(to, wire.encode_own(wire.Relay(topics)), len(topics))
        return told


def _cut(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for begin in range(0, len(numbers), wire.NUMBERS_MAX):
        yield tuple(numbers[begin : begin + wire.NUMBERS_MAX])


def _cut_names(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    some: list[str] = []
    size = 0
    for name in names:
        size += names_bytes((name,))
        if some and (size > NAMES_BYTES or len(some) == TOPICS_MAX):
            yield tuple(some)
            some, size = [], names_bytes((name,))
        some.append(name)
    if some:
        yield tuple(some)
