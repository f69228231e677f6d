"""What goes out of the events in hand: those for the same peer share frames.

Events that are published together, or that came in one frame, are handled in one turn of the loop. What of
them goes to whom is collected here until all are handled: an event among others costs a fraction of a frame.
"""

from collections.abc import Callable, Iterator, Sequence

from vinecast.core.machine import NOBODY
from vinecast.node.wire import EVENTS_MAX, HOPS_MAX, EventFrame, encode

HAND_BYTES = 24 * 1024  # ours: of all events in a frame, unless one alone is larger


class Parcel:
    """An event as it travels, and how many peers took it."""

    __slots__ = ("event", "taken")

    def __init__(self, block: bytes, seal: bytes) -> None:
        self.event = block, seal
        self.taken = 0


def event_frame(hops: int, parcels: Sequence[Parcel], way: int = 0) -> bytes:
    """The frame of some events."""
    return encode(EventFrame(min(hops, HOPS_MAX), tuple([parcel.event for parcel in parcels]), way))


class Outbox:
    """One node's. ``send`` takes a peer, a frame and the number of events in it, and says whether the frame
    will go out; ``make_frame`` makes the frame of some events."""

    def __init__(
        self,
        send: Callable[[int, bytes, int], bool],
        make_frame: Callable[[int, Sequence[Parcel], int], bytes] = event_frame,
    ) -> None:
        self._send, self._make_frame = send, make_frame
        self._waiting: dict[tuple[int, int, int], list[tuple[Parcel, int]]] = {}
        """Peer, hops and way → what goes there, and to whom instead if it cannot be reached."""

    def put(self, peer: int, hops: int, parcel: Parcel, otherwise: int, way: int = 0) -> None:
        """Have an event sent. way: which of the system's messages it travels in"""
        self._waiting.setdefault((peer, hops, way), []).append((parcel, otherwise))

    def flush(self) -> None:
        """Send all that was put here."""
        frames: dict[tuple[int, int, tuple[Parcel, ...]], bytes] = {}
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            for (peer, hops, way), addressed in waiting.items():
                for begin, end in cuts([parcel for parcel, _ in addressed]):
                    some = addressed[begin:end]
                    parcels = tuple([parcel for parcel, _ in some])
                    frame = frames.get((hops, way, parcels))
                    if frame is None:
                        frame = frames[hops, way, parcels] = self._make_frame(hops, parcels, way)
                    if self._send(peer, frame, len(some)):
                        for parcel in parcels:
                            parcel.taken += 1
                        continue
                    for parcel, otherwise in some:
                        if otherwise != NOBODY:
                            self.put(otherwise, hops, parcel, NOBODY, way)


def cuts(parcels: Sequence[Parcel]) -> Iterator[tuple[int, int]]:
    """From where to where parcels share a frame: as many as it may hold."""
    begin = size = 0
    for i, parcel in enumerate(parcels):
        block, seal = parcel.event
        weight = len(block) + len(seal)
        size += weight
        if i > begin and (size > HAND_BYTES or i - begin == EVENTS_MAX):
            yield begin, i
            begin, size = i, weight
    if parcels:
        yield begin, len(parcels)
