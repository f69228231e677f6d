"""Scribe: one multicast tree a topic, on Pastry. The baseline of PolderCast (S0 §6).

After Castro, Druschel, Kermarrec and Rowstron, "Scribe: A large-scale and decentralized application-level
multicast infrastructure" (IEEE JSAC 2002). Pastry says who is next on the way to a topic's key; the trees
grow along these ways, through nodes that did not ask for the topic. That is what S0 measures: relays make
paths longer (§6.4), carry heartbeats for topics that are not theirs (§6.5), and take the tree apart when they
leave (§6.6). The tree tells Pastry of peers that were silent, Pastry tells the tree when its leaf set has
changed, because then a topic's root may have.
"""

from dataclasses import dataclass, field

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
from vinecast.protocols.multicast_tree import MulticastTree, TreeConfig
from vinecast.protocols.pastry import MESSAGES as PASTRY_MESSAGES
from vinecast.protocols.pastry import Pastry, PastryConfig, PastryGoodbye
from vinecast.protocols.pastry.rules import Peers

SETTLE_TIMER = "scribe.settle"

_PASTRY_MESSAGES = frozenset(PASTRY_MESSAGES)


@dataclass(frozen=True, slots=True)
class ScribeConfig:
    """The two layers, and when the upper one begins."""

    pastry: PastryConfig = field(default_factory=PastryConfig)
    """The routing below."""
    tree: TreeConfig = field(default_factory=TreeConfig)
    """The trees above."""
    settle_s: float = limited(1.0, at_least=0, at_most=86400.0)
    """Seconds from joining Pastry to asking for parents, at most a period (ours). A crowd that comes at once
    and does not wait grows its trees along the detours of tables that are still empty, and a tree keeps its
    shape: one second takes 6.2 hops back to 5.2 among 2,000 nodes, more changes little."""

    def __post_init__(self) -> None:
        check(self)
        if self.settle_us > self.tree.period_us:
            raise InputError(f"settle_s must be at most the trees' period_s, not {self.settle_s}")

    @classmethod
    def of_period(cls, period_s: float) -> "ScribeConfig":
        """Both layers with this period in seconds, and no other time longer than a quarter of it."""
        short_s = period_s / 4
        timeout_s = min(PastryConfig().timeout_s, short_s)
        return cls(
            PastryConfig(period_s=period_s, timeout_s=timeout_s),
            TreeConfig(period_s=period_s, timeout_s=timeout_s),
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


class Scribe:
    """The machine. ``me`` is the node's own number; it begins with its topics in ``profiles``."""

    def __init__(self, config: ScribeConfig, seed: int, me: int, profiles: Profiles) -> None:
        if not 0 <= me < profiles.peers:
            raise InputError(f"node {me} has no profile")
        self.config = config
        self.me = me
        self.profiles = profiles
        self.pastry = Pastry(config.pastry, seed, me, profiles)
        self.tree = MulticastTree(config.tree, me, self, name="scribe")
        self._new = True
        self._now_us = 0
        self._settled_us: int | None = None
        self._leaf_changes = 0
        self._mending: list[Effect] = []

    @property
    def peers(self) -> Peers:
        """Whom its routing knows; empty slots hold NOBODY. [slot]"""
        return self.pastry.peers

    # The routing that the trees borrow.

    def next_hop(self, topic: int) -> int:
        """See ``Routing``."""
        keys = self.profiles.topic_ids
        return self.pastry.next_hop(keys[topic]) if 0 <= topic < keys.size else NOBODY

    def suspect(self, peer: int) -> None:
        """See ``Routing``."""
        self._mending += self.pastry.handle(PeerLost(peer), self._now_us)

    # The machine.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``."""
        self._now_us = now_us
        effects = self._dispatch(event, now_us)
        if self.pastry.joined and self._leaf_changes != self.pastry.leaf_changes:
            self._leaf_changes = self.pastry.leaf_changes
            effects += self._change_routes(now_us)
        if self._mending:
            effects += self._mending
            self._mending = []
        return effects

    def _change_routes(self, now_us: int) -> list[Effect]:
        """The leaf set is another; soon after the first time, the node's own topics look for parents."""
        if self._settled_us is None:
            self._settled_us = now_us + self.config.settle_us
            if self.config.settle_us:
                return [SetTimer(SETTLE_TIMER, self.config.settle_us)]
        return self.tree.reroute(now_us) if now_us >= self._settled_us else []

    def _dispatch(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, message):
                if type(message) is PastryGoodbye:
                    return self.pastry.handle(event, now_us) + self.tree.handle(PeerLost(sender), now_us)
                if type(message) in _PASTRY_MESSAGES:
                    return self.pastry.handle(event, now_us)
                self.pastry.hear(sender)
                return self.tree.handle(event, now_us)
            case Publish(topic) | Subscribe(topic) | Unsubscribe(topic):
                if not 0 <= topic < self.profiles.topic_ids.size:
                    return [Count("scribe.unknown_topics")]
                return self.tree.handle(event, now_us)
            case Start():
                return self._start(event, now_us)
            case TimerFired(name) if name == SETTLE_TIMER:
                return self.tree.reroute(now_us)
            case Stop():
                return self.pastry.say_goodbye(self.tree.children) + self.tree.handle(event, now_us)
            case PeerFound():
                return []  # Pastry has its own ways of finding peers
            case TimerFired() | PeerLost():
                return self.pastry.handle(event, now_us) + self.tree.handle(event, now_us)

    def _start(self, event: Start, now_us: int) -> list[Effect]:
        """The profile's topics are for the first time; after that, what the application made of them."""
        self._settled_us = None
        effects = self.pastry.handle(event, now_us) + self.tree.handle(event, now_us)
        if self._new:
            self._new = False
            for topic in self.profiles.topics_of(self.me).tolist():
                effects += self.tree.handle(Subscribe(topic), now_us)
        return effects
