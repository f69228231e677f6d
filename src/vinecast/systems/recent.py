"""Which events came by lately: what a system must not pass on again."""

from collections import OrderedDict

from vinecast.core.events import Count, Effect, Observe
from vinecast.core.trace import TraceKind


class RecentEvents:
    """Events that came by lately, so many at the most; while all of them are recent, none is taken besides.

    What is forgotten while copies of it still travel would be passed on anew by everybody that they reach,
    for ever; to take no further events until the recent ones have come to rest is the lesser evil.
    """

    def __init__(self, size: int, recent_us: int, name: str) -> None:
        self._size = size
        self._recent_us = recent_us
        self._full = Count(f"{name}.memory full")
        self._seen: OrderedDict[int, int] = OrderedDict()
        """Event -> when, the earliest first."""

    def __contains__(self, event: int) -> bool:
        return event in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def take(self, event: int, now_us: int) -> bool:
        """Whether there was room for an event."""
        if event not in self._seen and len(self._seen) >= self._size:
            if now_us - next(iter(self._seen.values())) < self._recent_us:
                return False
            self._seen.popitem(last=False)
        self._seen[event] = now_us
        self._seen.move_to_end(event)
        return True

    def turned_away(self, topic: int, event: int, sender: int, hops: int) -> list[Effect]:
        """What is left of an event for which there was no room."""
        return [Observe(TraceKind.DROPPED, topic, event, sender, hops, "memory full"), self._full]
