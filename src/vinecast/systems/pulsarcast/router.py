"""PulsarCast on a live node: a tree for every topic, on the Kademlia that streams use too.

A topic's key is the one that its replicas are found by: the root of its tree is the first of them. Nodes
carry topics that they do not subscribe to, so that events are taken for every tree in which the node has a
place, and for any topic while they are on their way to a tree.
"""

from collections.abc import Sequence
from typing import Any

from vinecast.core.events import Effect
from vinecast.core.machine import NOBODY
from vinecast.protocols.multicast_tree import RecruitingConfig
from vinecast.systems.common.router import (
    ME,
    EventKnown,
    LiveParts,
    Publishing,
    RouterEvent,
    RouterPorts,
    Search,
)
from vinecast.systems.common.tree_base import tree_neighbours
from vinecast.systems.common.wire import PATIENCE_PERIODS, TOPICS_MAX
from vinecast.systems.pulsarcast.machine import PulsarCast, PulsarCastConfig

ANSWER_PERIODS = 2
"""Periods that a peer may take to say whether it is in a tree, or to be a parent: a link may have to be made
first (ours)."""
CHILD_SHARE = 4
"""One peer can be the child in one in so many of the topics that a node can know (ours)."""
CHILDREN_EACH = 16
"""Children of all trees together are at most so many times the topics that a node can know (ours)."""
REMEMBERED_MAX = 65_536
"""Events that trees remember having seen, at the most (ours): they forget none before there are as many."""
REQUESTS_IN_HAND = 4 * TOPICS_MAX
"""Messages of trees that a peer may send at once (ours): it may join, and ask about, as many topics as fit on
a card, and answer as often."""
DOWN = 0
"""The form of events that come through a link of the tree (``TreeEvent``); others are still on their way to
it."""


def pulsarcast_config(settings: Any) -> PulsarCastConfig:
    """PulsarCast's settings on such a node."""
    tree = RecruitingConfig(
        period_s=settings.period_s,
        patience=PATIENCE_PERIODS,
        timeout_s=ANSWER_PERIODS * settings.period_s,
        memory_size=min(settings.remembered, REMEMBERED_MAX),
        topics_max=min(settings.topics, TOPICS_MAX),
        children_max=CHILDREN_EACH * settings.topics,
        pending_max=0,
    )
    settle_s = min(PulsarCastConfig().settle_s, settings.period_s)
    return PulsarCastConfig(settings.table, tree, settle_s)


def make(settings: Any, ports: RouterPorts) -> LiveParts:
    """PulsarCast for one node."""
    return LiveParts(PulsarCastRouter(pulsarcast_config(settings), ports))


class PulsarCastRouter:
    """PulsarCast as the router of one live node."""

    def __init__(self, config: PulsarCastConfig, ports: RouterPorts) -> None:
        profiles = ports.peers.profiles
        profiles.topic_ids = ports.peers.topics.place(ports.point_of)
        self.machine = PulsarCast(config, ports.seed, ME, profiles, ports.validator)
        self._tree = self.machine.tree
        self._child_max = ports.topics_max // CHILD_SHARE
        self.subscribes, self.carries = self._tree.subscribed, self._tree.branches.__contains__

    def handle(self, event: RouterEvent, now_us: int) -> list[Effect]:
        if isinstance(event, Search | EventKnown | Publishing):
            return []
        return self.machine.handle(event, now_us)

    # Peers.

    def in_use(self) -> set[int]:
        tree = self._tree
        searched = (peer for search in tree.searches.values() for peer in search.refused)
        above = (peer for peers in tree.above.values() for peer in peers)
        return self.machine.kademlia.in_use.union(tree.parents, tree.children, searched, above)

    def partner_of(self, timer: str) -> int:
        """See ``Router``: nobody is waited for."""
        return NOBODY

    def leads_to(self, topic: int, peer: int) -> bool:
        branch = self._tree.branches.get(topic)
        if branch is None:
            return peer == self.machine.next_hop(topic)
        return peer == branch.parent or peer in branch.children

    def admits(self, child: int) -> bool:
        """Whether a peer may be the child in one more topic."""
        link = self._tree.children.get(child)
        return link is None or len(link.topics) < self._child_max

    # Topics.

    def is_ready(self, topic: int, now_us: int) -> bool:
        """Whether its parent in the tree has accepted it, or it is the root, as far as it can know."""
        tree, branch = self._tree, self._tree.branches.get(topic)
        if branch is None or not branch.subscribed:
            return False
        if branch.parent != NOBODY:
            return topic not in tree.asking
        looked_around = self._knows_somebody() and self.machine.has_settled(now_us)
        return looked_around and topic in tree.roots

    def is_alone(self, topic: int, now_us: int) -> bool:
        branch = self._tree.branches.get(topic)
        if branch is None:
            return True
        alone = topic in self._tree.roots or not self._knows_somebody()
        return alone and branch.parent == NOBODY and not branch.children

    def is_searching(self, topic: int, now_us: int) -> bool:
        """See ``Router``: the way to a tree is always known."""
        return False

    def nearest(self, topic: int, now_us: int) -> tuple[int, int]:
        """One of its children, and its parent."""
        branch = self._tree.branches.get(topic)
        if branch is None:
            return NOBODY, NOBODY
        return next(iter(branch.children), NOBODY), branch.parent

    def neighbours(self, topic: int, now_us: int) -> Sequence[int]:
        return tree_neighbours(self._tree, topic)

    def _knows_somebody(self) -> bool:
        return bool(self.machine.kademlia.buckets.heard_us)

    # Events.

    def takes_any(self, form: int, event: int) -> bool:
        """Whether the event is still on its way to a tree."""
        return form != DOWN

    def has_seen(self, event: int, topic: int) -> bool:
        """See ``Router``: what went up a tree may still come down."""
        return (topic, event) in self._tree.seen
