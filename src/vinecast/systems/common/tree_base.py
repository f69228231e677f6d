"""A system of multicast trees over some routing: what Scribe and PulsarCast have in common.

The routing says who is next on the way to a topic's key, the trees grow along these ways. The trees tell the
routing of peers that were silent, the routing tells the trees when its ways have changed. A node that has
just joined waits a moment before its topics look for parents.
"""

from collections.abc import Iterable
from typing import Protocol

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    Message,
    PeerFound,
    PeerLost,
    Publish,
    Received,
    SetTimer,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.machine import NOBODY
from vinecast.protocols.multicast_tree import MulticastTree


class Below(Protocol):
    """The routing below the trees."""

    joined: bool

    @property
    def changes(self) -> int:
        """Another number whenever the ways may have changed."""

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``."""

    def hear(self, peer: int, now_us: int) -> list[Effect]:
        """A message of the trees came from this peer."""

    def say_goodbye(self, others: Iterable[int] = ()) -> list[Effect]:
        """Leave in good order: tell all it knows, and these."""


class TreeBase:
    """The machine, but for the ways that the trees ask for. ``me`` is the node's own number; it begins with
    its topics in ``profiles``."""

    tree: MulticastTree

    def __init__(
        self,
        name: str,
        below: Below,
        spoken: Iterable[type[Message]],
        goodbye: type[Message],
        settle_us: int,
        me: int,
        profiles: Profiles,
    ) -> None:
        """spoken: the routing's messages
        goodbye: the one of them that says that a peer leaves
        settle_us: the time from joining to asking for parents"""
        self.me = me
        self.profiles = profiles
        self._below = below
        self._spoken, self._goodbye = frozenset(spoken), goodbye
        self._settle_us, self._settle_timer = settle_us, f"{name}.settle"
        self._unknown = Count(f"{name}.unknown_topics")
        self._new = True
        self._now_us = 0
        self._settled_us: int | None = None
        self._changes = 0
        self._mending: list[Effect] = []

    def suspect(self, peer: int) -> None:
        self._mending += self._below.handle(PeerLost(peer), self._now_us)

    def _exists(self, topic: int) -> bool:
        return 0 <= topic < self.profiles.topic_ids.size

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        self._now_us = now_us
        effects = self._dispatch(event, now_us)
        if self._below.joined and self._changes != self._below.changes:
            self._changes = self._below.changes
            effects += self._change_routes(now_us)
        if self._mending:
            effects += self._mending
            self._mending = []
        return effects

    def _change_routes(self, now_us: int) -> list[Effect]:
        """The ways are others; soon after the first time, the node's own topics look for parents."""
        if self._settled_us is None:
            self._settled_us = now_us + self._settle_us
            if self._settle_us:
                return [SetTimer(self._settle_timer, self._settle_us)]
        return self.tree.reroute(now_us) if now_us >= self._settled_us else []

    def _dispatch(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, message):
                if type(message) is self._goodbye:
                    return self._below.handle(event, now_us) + self.tree.handle(PeerLost(sender), now_us)
                if type(message) in self._spoken:
                    return self._below.handle(event, now_us)
                return self._below.hear(sender, now_us) + self.tree.handle(event, now_us)
            case Publish(topic) | Subscribe(topic) | Unsubscribe(topic):
                return self.tree.handle(event, now_us) if self._exists(topic) else [self._unknown]
            case Start():
                return self._start(event, now_us)
            case TimerFired(name) if name == self._settle_timer:
                return self.tree.reroute(now_us)
            case Stop():
                return self._below.say_goodbye(self.tree.children) + self.tree.handle(event, now_us)
            case PeerFound():
                return self._below.handle(event, now_us)
            case TimerFired() | PeerLost():
                return self._below.handle(event, now_us) + self.tree.handle(event, now_us)

    def _start(self, event: Start, now_us: int) -> list[Effect]:
        """The profile's topics are for the first time; after that, what the application made of them."""
        self._settled_us = None
        effects = self._below.handle(event, now_us) + self.tree.handle(event, now_us)
        if self._new:
            self._new = False
            for topic in self.profiles.topics_of(self.me).tolist():
                effects += self.tree.handle(Subscribe(topic), now_us)
        return effects


def tree_neighbours(tree: MulticastTree, topic: int) -> list[int]:
    """Neighbours in a topic are parent and children; where they only relay, the topic's replicas are
    asked."""
    branch = tree.branches.get(topic)
    if branch is None:
        return []
    return [peer for peer in (branch.parent, *branch.children) if peer != NOBODY]
