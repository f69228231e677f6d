"""What the baselines share: a node's own topics, and which events came by lately."""

from collections import OrderedDict

import numpy as np

from vinecast.core.events import Count, Effect, Observe
from vinecast.core.interest import TOPICS_MAX
from vinecast.core.profiles import Profiles
from vinecast.core.trace import TraceKind


class OwnTopics:
    """A node's topics, as its profile has them. ``name`` is the system's, for what is counted."""

    def __init__(self, profiles: Profiles, me: int, name: str) -> None:
        self._profiles = profiles
        self._me = me
        self._refused = Count(f"{name}.refused subscription")
        self._own = set(profiles.topics_of(me).tolist())

    def __contains__(self, topic: int) -> bool:
        return topic in self._own

    def add(self, topic: int) -> list[Effect]:
        """Subscribe; a topic that does not exist, or one too many, is refused."""
        if topic in self._own:
            return []
        if not 0 <= topic < self._profiles.topic_ids.size or len(self._own) >= TOPICS_MAX:
            return [self._refused]
        self._own.add(topic)
        return self._tell()

    def remove(self, topic: int) -> list[Effect]:
        """Unsubscribe."""
        if topic not in self._own:
            return []
        self._own.remove(topic)
        return self._tell()

    def _tell(self) -> list[Effect]:
        topics = np.array(sorted(self._own), dtype=np.int32)
        self._profiles.set_topics(self._me, topics, np.zeros(topics.size, dtype=np.uint8))
        return []


class RecentEvents:
    """Events that came by lately, so many at the most; while all of them are recent, none is taken besides.

    What is forgotten while copies of it still travel would be passed on anew, for ever.
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
