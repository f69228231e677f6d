"""Scribe: one multicast tree a topic, on Pastry. The baseline of PolderCast (S0 §6).

After Castro, Druschel, Kermarrec and Rowstron, "Scribe: A large-scale and decentralized application-level
multicast infrastructure" (IEEE JSAC 2002). Pastry says who is next on the way to a topic's key; the trees
grow along these ways, through nodes that did not ask for the topic. That is what S0 measures: relays make
paths longer (§6.4), carry heartbeats for topics that are not theirs (§6.5), and take the tree apart when they
leave (§6.6). The tree tells Pastry of peers that were silent, Pastry tells the tree when its leaf set has
changed, because then a topic's root may have.
"""

from dataclasses import dataclass, field

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.protocols.multicast_tree import MulticastTree, TreeConfig
from vinecast.protocols.pastry import MESSAGES as PASTRY_MESSAGES
from vinecast.protocols.pastry import Pastry, PastryConfig, PastryGoodbye
from vinecast.protocols.pastry.rules import Peers
from vinecast.systems.common.tree_base import TreeBase


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
    shape; a second takes most of that back, more changes little."""

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


class Scribe(TreeBase):
    """The machine. ``me`` is the node's own number; it begins with its topics in ``profiles``."""

    def __init__(self, config: ScribeConfig, seed: int, me: int, profiles: Profiles) -> None:
        if not 0 <= me < profiles.peers:
            raise InputError(f"node {me} has no profile")
        self.config = config
        self.pastry = Pastry(config.pastry, seed, me, profiles)
        super().__init__(
            "scribe", self.pastry, PASTRY_MESSAGES, PastryGoodbye, config.settle_us, me, profiles
        )
        self.tree = MulticastTree(config.tree, me, self, name="scribe")

    @property
    def peers(self) -> Peers:
        """Whom its routing knows; empty slots hold NOBODY. [slot]"""
        return self.pastry.peers

    def next_hop(self, topic: int) -> int:
        return self.pastry.next_hop(self.profiles.topic_ids[topic]) if self._exists(topic) else NOBODY
