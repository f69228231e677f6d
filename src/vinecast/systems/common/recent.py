"""Which events came by lately: what a system must not pass on again."""

from collections import OrderedDict
from dataclasses import dataclass

from vinecast.core.config import limited
from vinecast.core.events import Count, Effect, Observe
from vinecast.core.machine import SECOND_US
from vinecast.core.trace import TraceKind


@dataclass(frozen=True, slots=True)
class Remembering:
    """What the configuration of a system says of its memory of events."""

    remembered: int = limited(8192, at_least=1, at_most=10_000_000)
    """Events that a node remembers having seen, at the most; while all of them are recent, a further one is
    turned away (ours)."""
    remember_s: float = limited(10.0, at_least=0.001, at_most=86400.0)
    """Seconds for which an event counts as recent. It must have come to rest everywhere by then (ours)."""

    @property
    def remember_us(self) -> int:
        """For how long an event counts as recent, in microseconds."""
        return round(self.remember_s * SECOND_US)


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
