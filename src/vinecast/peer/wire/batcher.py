"""What goes out of the events in hand: those for the same peer share frames.

Events that are published together, or that came in one frame, are handled in one turn of the loop. What of
them goes to whom is collected here until all are handled: an event among others costs a fraction of a frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from vinecast.core.machine import NOBODY
from vinecast.peer.wire.messages import EVENTS_MAX, EventFrame, encode
from vinecast.systems.common.wire import HOPS_MAX

HAND_BYTES = 24 * 1024  # ours: of all events in a frame, unless one alone is larger


class EncodedEvent:
    """An event as it travels, and how many peers took it."""

    __slots__ = ("event", "taken")

    def __init__(self, block: bytes, signature: bytes) -> None:
        self.event = block, signature
        self.taken = 0


def event_frame(hops: int, encoded_events: Sequence[EncodedEvent], form: int = 0) -> bytes:
    """The frame of some events."""
    return encode(EventFrame(min(hops, HOPS_MAX), tuple([encoded.event for encoded in encoded_events]), form))


class Batcher:
    """Collects the events that one node sends. ``send`` takes a peer, a frame and the number of events in it,
    and says whether the frame will go out; ``make_frame`` makes the frame of some events."""

    def __init__(
        self,
        send: Callable[[int, bytes, int], bool],
        make_frame: Callable[[int, Sequence[EncodedEvent], int], bytes] = event_frame,
    ) -> None:
        self._send, self._make_frame = send, make_frame
        self._waiting: dict[tuple[int, int, int], list[tuple[EncodedEvent, int]]] = {}
        """Peer, hops and way → what goes there, and to whom instead if it cannot be reached."""

    def put(self, peer: int, hops: int, encoded: EncodedEvent, otherwise: int, form: int = 0) -> None:
        """Have an event sent. way: which of the system's messages it travels in"""
        self._waiting.setdefault((peer, hops, form), []).append((encoded, otherwise))

    def flush(self) -> None:
        """Send all that was put here."""
        frames: dict[tuple[int, int, tuple[EncodedEvent, ...]], bytes] = {}
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            for (peer, hops, form), addressed in waiting.items():
                for some in _frames_of(addressed):
                    encoded_events = tuple([encoded for encoded, _ in some])
                    frame = frames.get((hops, form, encoded_events))
                    if frame is None:
                        frame = frames[hops, form, encoded_events] = self._make_frame(
                            hops, encoded_events, form
                        )
                    if self._send(peer, frame, len(some)):
                        for encoded in encoded_events:
                            encoded.taken += 1
                        continue
                    for encoded, otherwise in some:
                        if otherwise != NOBODY:
                            self.put(otherwise, hops, encoded, NOBODY, form)


def _frames_of(addressed: list[tuple[EncodedEvent, int]]) -> Iterable[list[tuple[EncodedEvent, int]]]:
    """What shares a frame of what goes to one peer."""
    if len(addressed) == 1:
        return (addressed,)
    return [addressed[begin:end] for begin, end in cuts([encoded for encoded, _ in addressed])]


def cuts(encoded_events: Sequence[EncodedEvent]) -> Iterator[tuple[int, int]]:
    """From where to where parcels share a frame: as many as it may hold."""
    begin = size = 0
    for i, encoded in enumerate(encoded_events):
        block, signature = encoded.event
        weight = len(block) + len(signature)
        size += weight
        if i > begin and (size > HAND_BYTES or i - begin == EVENTS_MAX):
            yield begin, i
            begin, size = i, weight
    if encoded_events:
        yield begin, len(encoded_events)
