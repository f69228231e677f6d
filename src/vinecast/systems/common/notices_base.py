"""Systems whose events travel by notices along links: what Vitis, RVR and OPT have in common (S2 §3.4, §3.6).

The table of neighbours is T-Man's (``on_tman``); the system names the links of every topic.
"""

from dataclasses import dataclass

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.config import check, limited
from vinecast.core.events import Count, Effect, Event, Publish, Received, Start, TimerFired
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.systems.common import notices
from vinecast.systems.common.notices import Notice, Notices, Pull, PulledEvent, SeekingEvent
from vinecast.systems.common.tman_base import TManBase, TManBaseConfig


@dataclass(frozen=True, slots=True)
class NoticesBaseConfig(TManBaseConfig):
    """The layers below, and how events are pulled."""

    pull_timeout_s: float = limited(1.0, at_least=0.001, at_most=86400.0)
    """Seconds after which an event is asked for elsewhere (ours)."""

    def __post_init__(self) -> None:
        check(self)
        TManBaseConfig.__post_init__(self)


class NoticesBase(TManBase):
    """The machine, but for the choice of neighbours and the links of events."""

    def __init__(
        self, name: str, config: NoticesBaseConfig, seed: int, me: int, profiles: Profiles, scratch: Scratch
    ) -> None:
        super().__init__(name, config, seed, me, profiles, scratch)
        self._routes: dict[int, list[int]] = {}
        self._routed_at = -1
        self.notices = Notices(
            name,
            self.recent,
            round(config.pull_timeout_s * SECOND_US),
            config.remembered,
            self.subscribes,
            self._route,
            self._next_hop,
            self._note_event,
        )

    # What a system decides.

    def _links(self, topic: int) -> list[int]:
        """Whom the events of a topic go to."""
        raise NotImplementedError

    def _next_hop(self, topic: int) -> int:
        """Who is next on the way to a topic's rendezvous."""
        return NOBODY

    def _note_event(self, topic: int) -> None:
        """An event of one of its topics is here."""

    # What all of them do.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, Notice() | Pull() | PulledEvent() | SeekingEvent() as message):
                if not 0 <= message.topic < self.profiles.topic_ids.size:
                    return [Count(f"{self._name}.unknown_topics")]
                return self.notices.hear(sender, message, now_us)
            case Publish(topic, number):
                if not 0 <= topic < self.profiles.topic_ids.size:
                    return [Count(f"{self._name}.unknown_topics")]
                return self.notices.publish(topic, number, now_us)
            case TimerFired(name) if name == notices.TIMER:
                return self.notices.wake(now_us)
            case Start():
                self.notices.clear()
        self._routes.clear()
        return super().handle(event, now_us)

    def peers_in_use(self) -> set[int]:
        return super().peers_in_use() | self.notices.peers()

    def _route(self, topic: int) -> list[int]:
        """The links of a topic, found anew when anything has changed."""
        if self._routed_at != self.profiles.changes:
            self._routed_at = self.profiles.changes
            self._routes.clear()
        route = self._routes.get(topic)
        if route is None:
            route = self._routes[topic] = self._links(topic)
        return route
