"""A small publish/subscribe machine for the engine's own tests: every event goes to every neighbour once."""

from dataclasses import dataclass
from typing import ClassVar

from vinecast.core.events import (
    Deliver,
    Effect,
    Event,
    Observe,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.trace import TraceKind


@dataclass(frozen=True, slots=True)
class Flood:
    kind: ClassVar[str] = "flood"
    topic: int
    event: int
    hops: int


@dataclass(frozen=True, slots=True)
class Goodbye:
    kind: ClassVar[str] = "goodbye"


class Flooder:
    """Knows its neighbours, its topics, what it has seen, and when its alarm rang (on its own clock)."""

    def __init__(self, neighbours: list[int]) -> None:
        self.neighbours = neighbours
        self.topics: list[int] = []
        self.seen: list[int] = []
        self.rang: list[int] = []
        self.heard: list[tuple[int, str]] = []

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Start():
                return [SetTimer("alarm", 1_000_000)]
            case TimerFired():
                self.rang.append(now_us)
                return [SetTimer("alarm", 1_000_000)]
            case Subscribe(topic):
                self.topics.append(topic)
            case Unsubscribe(topic):
                self.topics.remove(topic)
            case Stop():
                return [Send(peer, Goodbye()) for peer in self.neighbours]
            case Publish(topic, number):
                return [Observe(TraceKind.PUBLISHED, topic, number), *self._spread(topic, number, 0, -1)]
            case Received(sender, Flood(topic, number, hops)):
                kind = TraceKind.RECEIVED_AGAIN if number in self.seen else TraceKind.RECEIVED_FIRST
                seen: Effect = Observe(kind, topic, number, sender, hops)
                return [seen] if number in self.seen else [seen, *self._spread(topic, number, hops, sender)]
            case Received(sender, message):
                self.heard.append((sender, message.kind))
        return []

    def _spread(self, topic: int, number: int, hops: int, source: int) -> list[Effect]:
        self.seen.append(number)
        effects: list[Effect] = [Deliver(topic, number, hops)] if topic in self.topics else []
        others = [peer for peer in self.neighbours if peer != source]
        return effects + [Send(peer, Flood(topic, number, hops + 1)) for peer in others]
