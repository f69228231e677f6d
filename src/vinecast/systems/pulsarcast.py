"""PulsarCast: one multicast tree a topic, on Kademlia (S3 §4.2 to §4.4).

Kademlia says who is nearest to a topic's key; the trees grow along the ways there. A subscriber asks the
nearest peers that it knows whether they are in the tree, becomes the child of one that is, and else recruits
the nearest, who goes on in the same way (§4.3). Members keep an eye on parents and children and know some of
their ancestors, in whose place they can turn to the next. Events travel through the links of the tree (§4.4).

This is the carrier only. Descriptors, name records, streams, gap repair and replay are the same on every
carrier (docs/pulsarcast.md); Kademlia's operations serve them (``kademlia``).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Effect,
    Event,
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
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.core.profiles import Profiles
from vinecast.protocols.kademlia import MESSAGES as KADEMLIA_MESSAGES
from vinecast.protocols.kademlia import Kademlia, KademliaConfig, KademliaGoodbye, Validator
from vinecast.protocols.multicast_tree import RecruitingConfig, RecruitingTree

SETTLE_TIMER = "pulsarcast.settle"

_KADEMLIA_MESSAGES = frozenset(KADEMLIA_MESSAGES)


@dataclass(frozen=True, slots=True)
class PulsarCastConfig:
    """The two layers, and when the upper one begins."""

    kademlia: KademliaConfig = field(default_factory=lambda: KademliaConfig(nearest=8))
    """The table below; k is 8 here (ours), so that simulated populations are large beside it."""
    tree: RecruitingConfig = field(default_factory=RecruitingConfig)
    """The trees above."""
    settle_s: float = limited(1.0, at_least=0, at_most=86400.0)
    """Seconds from joining Kademlia to asking for parents, at most a period (ours, as in Scribe): a tree that
    grows before the tables are filled keeps its detours."""

    def __post_init__(self) -> None:
        check(self)
        if self.settle_us > self.tree.period_us:
            raise InputError(f"settle_s must be at most the trees' period_s, not {self.settle_s}")

    @classmethod
    def of_period(cls, period_s: float, nearest: int = 8) -> "PulsarCastConfig":
        """Both layers with this period in seconds, and no other time longer than a quarter of it."""
        short_s = period_s / 4
        timeout_s = min(KademliaConfig().timeout_s, short_s)
        return cls(
            KademliaConfig(nearest=nearest, period_s=period_s, timeout_s=timeout_s),
            RecruitingConfig(period_s=period_s, timeout_s=timeout_s),
            settle_s=min(cls().settle_s, short_s),
        )

    @property
    def period_us(self) -> int:
        """The length of a cycle, from one heartbeat to the next, in microseconds."""
        return self.tree.period_us

    @property
    def settle_us(self) -> int:
        """The time from joining to asking for parents, in microseconds."""
        return round(self.settle_s * SECOND_US)


class PulsarCast:
    """The machine. ``me`` is the node's own number; it begins with its topics in ``profiles``."""

    def __init__(
        self,
        config: PulsarCastConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        validator: Validator | None = None,
    ) -> None:
        if not 0 <= me < profiles.peers:
            raise InputError(f"node {me} has no profile")
        self.config = config
        self.me = me
        self.profiles = profiles
        self.kademlia = Kademlia(config.kademlia, seed, me, profiles.ids, validator)
        self.tree = RecruitingTree(config.tree, me, self, name="pulsarcast")
        self._new = True
        self._now_us = 0
        self._settled_us: int | None = None
        self._changes = 0
        self._mending: list[Effect] = []

    @property
    def peers(self) -> NDArray[np.int32]:
        """Whom its table knows; empty slots hold NOBODY. [slot]"""
        return self.kademlia.peers

    # The routing that the trees borrow.

    def next_hop(self, topic: int) -> int:
        """See ``Routing``."""
        return self.kademlia.next_hop(self._point(topic)) if self._exists(topic) else NOBODY

    def suspect(self, peer: int) -> None:
        """See ``Routing``."""
        self._mending += self.kademlia.handle(PeerLost(peer), self._now_us)

    def ways(self, topic: int, count: int) -> list[int]:
        """See ``Ways``."""
        if not self.kademlia.joined or not self._exists(topic):
            return []
        return self.kademlia.buckets.nearer(self._point(topic), count)

    def is_nearer(self, topic: int, peer: int) -> bool:
        """See ``Ways``."""
        if not self._exists(topic) or not self.kademlia.buckets.exists(peer):
            return False
        point, ids = self._point(topic), self.profiles.ids
        return int(ids[peer]) ^ point < int(ids[self.me]) ^ point

    def heirs(self, topic: int, count: int) -> list[int]:
        """See ``Ways``."""
        return self.kademlia.buckets.closest(self._point(topic), count) if self._exists(topic) else []

    def _exists(self, topic: int) -> bool:
        return 0 <= topic < self.profiles.topic_ids.size

    def _point(self, topic: int) -> int:
        return int(self.profiles.topic_ids[topic])

    # The machine.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``."""
        self._now_us = now_us
        effects = self._dispatch(event, now_us)
        if self.kademlia.joined and self._changes != self.kademlia.buckets.changes:
            self._changes = self.kademlia.buckets.changes
            effects += self._change_routes(now_us)
        if self._mending:
            effects += self._mending
            self._mending = []
        return effects

    def _change_routes(self, now_us: int) -> list[Effect]:
        """The table is another; soon after the first time, the node's own topics look for parents."""
        if self._settled_us is None:
            self._settled_us = now_us + self.config.settle_us
            if self.config.settle_us:
                return [SetTimer(SETTLE_TIMER, self.config.settle_us)]
        return self.tree.reroute(now_us) if now_us >= self._settled_us else []

    def _dispatch(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, message):
                if type(message) is KademliaGoodbye:
                    return self.kademlia.handle(event, now_us) + self.tree.handle(PeerLost(sender), now_us)
                if type(message) in _KADEMLIA_MESSAGES:
                    return self.kademlia.handle(event, now_us)
                return self.kademlia.hear(sender, now_us) + self.tree.handle(event, now_us)
            case Publish(topic) | Subscribe(topic) | Unsubscribe(topic):
                if not self._exists(topic):
                    return [Count("pulsarcast.unknown_topics")]
                return self.tree.handle(event, now_us)
            case Start():
                return self._start(event, now_us)
            case TimerFired(name) if name == SETTLE_TIMER:
                return self.tree.reroute(now_us)
            case Stop():
                return self.kademlia.say_goodbye(self.tree.children) + self.tree.handle(event, now_us)
            case PeerFound():
                return self.kademlia.handle(event, now_us)
            case TimerFired() | PeerLost():
                return self.kademlia.handle(event, now_us) + self.tree.handle(event, now_us)

    def _start(self, event: Start, now_us: int) -> list[Effect]:
        """The profile's topics are for the first time; after that, what the application made of them."""
        self._settled_us = None
        effects = self.kademlia.handle(event, now_us) + self.tree.handle(event, now_us)
        if self._new:
            self._new = False
            for topic in self.profiles.topics_of(self.me).tolist():
                effects += self.tree.handle(Subscribe(topic), now_us)
        return effects
