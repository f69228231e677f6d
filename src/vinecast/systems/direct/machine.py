"""Direct sending: the baseline of S3 §5, "where publishers send messages directly to all of its subscribers".

Who subscribes to what is known to all, and how it came to be known costs nothing: S3 does not say, and any
answer would be a system of its own. So direct sending is a bound. Nobody can do with fewer messages, and
nobody can be further from sharing them out: one node sends them all. A subscriber that is off line, or whose
copy is lost, does without.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import check, limited
from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Event,
    Observe,
    Publish,
    Received,
    Send,
    Subscribe,
    Unsubscribe,
)
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.core.trace import TraceKind
from vinecast.systems.common.plain import OwnTopics
from vinecast.systems.common.recent import RecentEvents, Remembering

NO_LINKS: NDArray[np.int32] = np.full(1, NOBODY, dtype=np.int32)
"""The view of a node that keeps none."""


@dataclass(frozen=True, slots=True)
class DirectConfig(Remembering):
    """How long a cycle is, and what is remembered."""

    period_s: float = limited(60.0, at_least=0.001, at_most=86400.0)
    """Seconds of a cycle: nothing happens in one, but runs are measured in cycles."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The length of a cycle in microseconds."""
        return round(self.period_s * SECOND_US)


@dataclass(frozen=True, slots=True)
class DirectEvent:
    """An event on its way, the only one that it goes."""

    kind: ClassVar[str] = "direct.event"
    topic: int
    event: int


class Direct:
    """The machine. ``profiles`` is what everybody knows: who subscribes to what."""

    def __init__(self, config: DirectConfig, me: int, profiles: Profiles) -> None:
        self.config = config
        self.me = me
        self.profiles = profiles
        self.topics = OwnTopics(profiles, me, "direct")
        self.recent = RecentEvents(config.remembered, config.remember_us, "direct")

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, DirectEvent(topic, number)):
                return self._receive(sender, topic, number, now_us)
            case Publish(topic, number):
                return self._publish(topic, number, now_us)
            case Subscribe(topic):
                return self.topics.add(topic)
            case Unsubscribe(topic):
                return self.topics.remove(topic)
            case _:
                return []

    def _publish(self, topic: int, event: int, now_us: int) -> list[Effect]:
        effects: list[Effect] = [Observe(TraceKind.PUBLISHED, topic, event)]
        if not self.recent.take(event, now_us):
            return effects + self.recent.turned_away(topic, event, NOBODY, 0)
        if topic in self.topics:
            effects.append(Deliver(topic, event, 0))
        message = DirectEvent(topic, event)
        sent: list[Effect] = [Send(peer, message) for peer in self._subscribers(topic) if peer != self.me]
        if not sent and topic not in self.topics:
            effects.append(Observe(TraceKind.DROPPED, topic, event, reason="no subscriber known"))
        return effects + sent

    def _receive(self, sender: int, topic: int, event: int, now_us: int) -> list[Effect]:
        if event in self.recent:
            return [Observe(TraceKind.RECEIVED_AGAIN, topic, event, sender, 1)]
        if not self.recent.take(event, now_us):
            return self.recent.turned_away(topic, event, sender, 1)
        seen: Effect = Observe(TraceKind.RECEIVED_FIRST, topic, event, sender, 1)
        if topic not in self.topics:
            return [seen, Count("direct.not subscribed")]
        return [seen, Deliver(topic, event, 1)]

    def _subscribers(self, topic: int) -> list[int]:
        if not 0 <= topic < self.profiles.topic_ids.size:
            return []
        start, node, _ = self.profiles.subscribers()
        peers: list[int] = node[start[topic] : start[topic + 1]].tolist()
        return peers
