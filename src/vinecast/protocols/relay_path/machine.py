"""Relay paths on one node: who asked it to relay a topic, and whom it asked in turn."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from vinecast.core.events import Count, Effect, Send
from vinecast.core.machine import NOBODY

RELAYED_MAX = 1 << 20  # ours: topics that a node relays at the most


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """Please relay these topics: keep the sender for each, and pass the request on."""

    kind: ClassVar[str] = "relay_path.request"
    topics: tuple[int, ...]


class RelayPaths:
    """The state of one node. ``next_hop(topic)`` says who is next on the way, NOBODY at its end."""

    def __init__(self, next_hop: Callable[[int], int]) -> None:
        self._next_hop = next_hop
        self._before: dict[int, dict[int, None]] = {}
        self._now: dict[int, dict[int, None]] = {}
        """topic -> the links of the cycle, those who asked and who was asked"""
        self._asked: dict[int, None] = {}
        """Topics that were passed on in this cycle."""

    def clear(self) -> None:
        """Forget everything."""
        self._before, self._now, self._asked = {}, {}, {}

    def turn(self) -> None:
        """A cycle begins: what was left by the one before last is forgotten."""
        self._before, self._now, self._asked = self._now, {}, {}

    def links(self, topic: int) -> list[int]:
        """Along whom the events of a topic go; empty unless the node is on a path of it."""
        return sorted(self._now.get(topic, {}).keys() | self._before.get(topic, {}).keys())

    def carries(self, topic: int) -> bool:
        """Whether the node is, or was lately, on a path of a topic."""
        return topic in self._now or topic in self._before

    def peers(self) -> set[int]:
        """Everybody along whom some path goes."""
        return {peer for links in (*self._before.values(), *self._now.values()) for peer in links}

    def forget(self, peer: int) -> None:
        """Drop a peer that is known to be gone."""
        for links in (*self._before.values(), *self._now.values()):
            links.pop(peer, None)

    def hear(self, sender: int, request: RelayRequest, topic_count: int) -> list[Effect]:
        """Somebody asks for a path through this node."""
        known = [topic for topic in request.topics if 0 <= topic < topic_count]
        known = [topic for topic in known if topic in self._now or len(self._now) < RELAYED_MAX]
        for topic in known:
            self._now.setdefault(topic, {})[sender] = None
        effects = self.ask(known)
        if len(known) < len(request.topics):
            effects.append(Count("relay_path.refused", len(request.topics) - len(known)))
        return effects

    def ask(self, topics: Iterable[int]) -> list[Effect]:
        """Ask the next hops for paths, once a topic and cycle."""
        wanted: dict[int, list[int]] = {}
        for topic in topics:
            if topic in self._asked:
                continue
            self._asked[topic] = None
            peer = self._next_hop(topic)
            if peer != NOBODY:
                self._now.setdefault(topic, {})[peer] = None
                wanted.setdefault(peer, []).append(topic)
        return [Send(peer, RelayRequest(tuple(asked))) for peer, asked in wanted.items()]
