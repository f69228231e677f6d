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

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.protocols.kademlia import MESSAGES as KADEMLIA_MESSAGES
from vinecast.protocols.kademlia import Kademlia, KademliaConfig, KademliaGoodbye, Validator
from vinecast.protocols.multicast_tree import RecruitingConfig, RecruitingTree
from vinecast.systems.common.tree_base import TreeBase


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


class PulsarCast(TreeBase):
    """The machine. ``me`` is the node's own number; it begins with its topics in ``profiles``."""

    tree: RecruitingTree

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
        self.kademlia = Kademlia(config.kademlia, seed, me, profiles.ids, validator)
        super().__init__(
            "pulsarcast", self.kademlia, KADEMLIA_MESSAGES, KademliaGoodbye, config.settle_us, me, profiles
        )
        self.tree = RecruitingTree(config.tree, me, self, name="pulsarcast")

    @property
    def peers(self) -> NDArray[np.int32]:
        """Whom its table knows; empty slots hold NOBODY. [slot]"""
        return self.kademlia.peers

    def has_settled(self, now_us: int) -> bool:
        """Whether it has joined Kademlia, and had the time to look around there."""
        return self.kademlia.joined and self._settled_us is not None and now_us >= self._settled_us

    # The routing that the trees borrow.

    def next_hop(self, topic: int) -> int:
        return self.kademlia.next_hop(self._point(topic)) if self._exists(topic) else NOBODY

    def ways(self, topic: int, count: int) -> list[int]:
        if not self.kademlia.joined or not self._exists(topic):
            return []
        return self.kademlia.buckets.nearer(self._point(topic), count)

    def is_nearer(self, topic: int, peer: int) -> bool:
        if not self._exists(topic) or not self.kademlia.buckets.exists(peer):
            return False
        point, ids = self._point(topic), self.profiles.ids
        return int(ids[peer]) ^ point < int(ids[self.me]) ^ point

    def heirs(self, topic: int, count: int) -> list[int]:
        return self.kademlia.buckets.closest(self._point(topic), count) if self._exists(topic) else []

    def _point(self, topic: int) -> int:
        return int(self.profiles.topic_ids[topic])
