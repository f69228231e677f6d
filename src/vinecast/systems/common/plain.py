"""What systems without rings share: a node's own topics."""

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import TOPICS_MAX
from vinecast.core.events import Count, Effect


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
