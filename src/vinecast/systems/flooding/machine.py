"""Flooding, as in libp2p's floodsub: the baseline that S3 §5 calls "the current pub-sub system in IPFS".

Whoever gets an event for the first time passes it on to all its links that subscribe to the topic, except
the one it came from and the publisher (go-libp2p-pubsub, ``floodsub.go``). A node knows what its links
subscribe to, and nothing of anybody else.

Floodsub chooses no links: it takes the connections that a node happens to have. Here they are Cyclon's view,
twenty random peers, because S3 §4.2 describes just that: a fixed size list of peers, exchanged periodically,
and "a simple network flood" over it. So links lead one way and change every cycle, and what they cost is
counted (docs/baselines.md).

Subscribers alone carry a topic's events. Nothing keeps them connected among themselves: those of a rare topic
in a large network mostly have no link to each other, and then miss its events. With ``relays`` everybody
passes everything on, as S3 §3 describes IPFS, "a simple network flooding technique": then all that is missed
is who is in nobody's view.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from vinecast.core.arrays.profiles import Profiles, row_of
from vinecast.core.config import check
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
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.systems.common.plain import OwnTopics
from vinecast.systems.common.recent import RecentEvents, Remembering


@dataclass(frozen=True, slots=True)
class FloodingConfig(Remembering):
    """The links, and who gets events over them. (go-libp2p-pubsub remembers for 120 seconds.)"""

    relays: bool = False
    """Whether links that do not subscribe to a topic get its events too, and pass them on."""
    cyclon: CyclonConfig = field(default_factory=CyclonConfig)
    """The links."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The length of a cycle: Cyclon's period."""
        return self.cyclon.period_us


@dataclass(frozen=True, slots=True)
class FloodingEvent:
    """An event on its way."""

    kind: ClassVar[str] = "flooding.event"
    topic: int
    event: int
    hops: int
    publisher: int


class Flooding:
    """The machine. ``profiles`` is the table of peers: what links subscribe to."""

    def __init__(self, config: FloodingConfig, seed: int, me: int, profiles: Profiles) -> None:
        self.config = config
        self.me = me
        self.profiles = profiles
        self.cyclon = Cyclon(config.cyclon, seed, me)
        self.topics = OwnTopics(profiles, me, "flooding")
        self.recent = RecentEvents(config.remembered, config.remember_us, "flooding")
        self._routes: dict[int, list[int]] = {}
        self._routed_at = -1

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, FloodingEvent() as message):
                return self._receive(sender, message, now_us)
            case Publish(topic, number):
                return self._publish(topic, number, now_us)
            case Subscribe(topic):
                return self.topics.add(topic)
            case Unsubscribe(topic):
                return self.topics.remove(topic)
            case _:
                self._routes.clear()
                return self.cyclon.handle(event, now_us)

    def _publish(self, topic: int, event: int, now_us: int) -> list[Effect]:
        effects: list[Effect] = [Observe(TraceKind.PUBLISHED, topic, event)]
        if not self.recent.take(event, now_us):
            return effects + self.recent.turned_away(topic, event, NOBODY, 0)
        if topic in self.topics:
            effects.append(Deliver(topic, event, 0))
        sent = self._pass_on(FloodingEvent(topic, event, 1, self.me), NOBODY)
        if not sent and topic not in self.topics:
            effects.append(Observe(TraceKind.DROPPED, topic, event, reason="no subscriber known"))
        return effects + sent

    def _receive(self, sender: int, message: FloodingEvent, now_us: int) -> list[Effect]:
        topic, event, hops = message.topic, message.event, message.hops
        if event in self.recent:
            return [Observe(TraceKind.RECEIVED_AGAIN, topic, event, sender, hops)]
        if not self.recent.take(event, now_us):
            return self.recent.turned_away(topic, event, sender, hops)
        effects: list[Effect] = [Observe(TraceKind.RECEIVED_FIRST, topic, event, sender, hops)]
        if topic in self.topics:
            effects.append(Deliver(topic, event, hops))
        elif not self.config.relays:
            return [*effects, Count("flooding.not subscribed")]
        return effects + self._pass_on(FloodingEvent(topic, event, hops + 1, message.publisher), sender)

    def _pass_on(self, message: FloodingEvent, sender: int) -> list[Effect]:
        links = self._route(message.topic)
        return [Send(link, message) for link in links if link not in (sender, message.publisher)]

    def _route(self, topic: int) -> list[int]:
        """The links that a topic's events go to, found anew when links or anybody's topics have changed."""
        if self._routed_at != self.profiles.changes:
            self._routed_at = self.profiles.changes
            self._routes.clear()
        route = self._routes.get(topic)
        if route is None:
            links, table = self.cyclon.view.tolist(), self.profiles.table
            route = [link for link in links if self.config.relays or row_of(table, link, topic) >= 0]
            self._routes[topic] = route
        return route
