"""Events that came by lately, by number: in a system that tells of events first, others will ask for them."""

from collections import OrderedDict

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.peer.wire.batcher import EncodedEvent

EVENTS = 16_384
"""Events that are kept at hand, the latest (ours): seconds' worth, and an event is asked for at once."""
BYTES = 32 * 1024 * 1024
"""… and so much of them, about (ours)."""


class EventCache:
    """Events that came by one node lately. What is forgotten here is asked for in vain; whoever asks turns to
    the next who told it."""

    def __init__(self, events: int = EVENTS, most_bytes: int = BYTES) -> None:
        self._events, self._most_bytes = events, most_bytes
        self._bytes = 0
        self._kept: OrderedDict[int, tuple[SignedEvent, EncodedEvent]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, signed: SignedEvent, encoded: EncodedEvent) -> None:
        """Keep an event, and forget the oldest where that is too much."""
        if signed.number in self._kept:
            return
        self._kept[signed.number] = signed, encoded
        self._bytes += len(signed.block)
        while len(self._kept) > self._events or (self._bytes > self._most_bytes and len(self._kept) > 1):
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= len(oldest.block)

    def get(self, number: int) -> tuple[SignedEvent, EncodedEvent] | None:
        """An event that came by lately."""
        return self._kept.get(number)
