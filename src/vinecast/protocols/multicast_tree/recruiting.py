"""Trees the PulsarCast way (S3 §4.3 and §4.4): search, then recruit; links both ways; ancestors for repair.

What differs from ``MulticastTree``:

*Growing.* Before a node makes a forwarder of the peer nearest to the key, it asks several of the peers on the
way whether one of them is in the tree already, and becomes the child of the first that is. Only when none
is, the nearest is recruited, and goes on in the same way.

*Publishing.* An event goes through all links of whoever is in the tree, up and down; others send it towards
the key until it meets somebody who is. A node that is still looking for its parent does both.

*Mending.* A parent tells its children who comes above it. When it falls silent they turn to the next one
above, without a search. Above a root stand its *heirs*, those nearest to the key after it: of the k
rendezvous nodes of S3 the nearest serves, and the others when they are asked to, in their order.

Every parent is still strictly nearer to the key than its child.
"""

from dataclasses import dataclass
from typing import Protocol

from vinecast.core.config import limited
from vinecast.core.events import Deliver, Effect, Event, Send, SetTimer, TimerFired
from vinecast.core.machine import NOBODY
from vinecast.protocols.multicast_tree.config import TreeConfig
from vinecast.protocols.multicast_tree.machine import HEARD, SPREAD, MulticastTree, TreeRouting
from vinecast.protocols.multicast_tree.messages import (
    TreeAbove,
    TreeEvent,
    TreeMember,
    TreePublish,
    TreeSearch,
)
from vinecast.protocols.multicast_tree.relations import Branch

SEARCH_TIMER = "tree.search"


@dataclass(frozen=True, slots=True)
class RecruitingConfig(TreeConfig):
    """How far a node looks around for its place in a tree."""

    searched: int = limited(8, at_least=1, at_most=64)
    """Peers on the way that are asked whether they are in the tree (S3 §4.3: all that a step of the lookup
    finds, k). More of them make fewer forwarders."""
    levels: int = limited(2, at_least=0, at_most=16)
    """Ancestors that a node knows beyond its parent (ours; S3 §4.3: "extra levels")."""


class TreePorts(TreeRouting, Protocol):
    """What a system lends these trees besides."""

    def ways(self, topic: int, count: int) -> list[int]:
        """Peers strictly nearer to the topic's key than the node, the nearest first."""

    def is_nearer(self, topic: int, peer: int) -> bool:
        """Whether this is such a peer."""

    def heirs(self, topic: int, count: int) -> list[int]:
        """The peers nearest to the topic's key, but for the node itself, the nearest first."""


@dataclass(slots=True)
class ParentSearch:
    """Peers that were asked whether they are in a tree, the nearest to the key first, and who said no."""

    refused: dict[int, bool]
    since_us: int


class RecruitingTree(MulticastTree):
    """The machine. See ``MulticastTree``."""

    def __init__(self, config: RecruitingConfig, me: int, routing: TreePorts, name: str = "tree") -> None:
        super().__init__(config, me, routing, name)
        self.searched = config.searched
        self.levels = config.levels
        self.way = routing
        self.searches: dict[int, ParentSearch] = {}
        """By topic: who is looking for a parent and has not asked anybody to be it."""
        self.above: dict[int, tuple[int, ...]] = {}
        """By topic: who comes above the parent."""
        self._told: dict[int, tuple[int, ...]] = {}
        self._waits = False
        """Whether the timer of searches is set."""

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case TimerFired(name) if name == SEARCH_TIMER:
                return self._end_searches(now_us)
            case _:
                return super().handle(event, now_us)

    def _receive(self, sender: int, message: object, now_us: int) -> list[Effect]:
        match message:
            case TreeSearch(topic):
                return [Send(sender, TreeMember(topic, topic in self.branches))]
            case TreeMember(topic, member):
                return self._take_answer(sender, topic, member, now_us)
            case TreeAbove(topic, peers):
                branch = self.branches.get(topic)
                if branch is not None and branch.parent == sender:
                    self.above[topic] = peers[: self.levels]
                return []
            case _:
                return super()._receive(sender, message, now_us)

    # What it keeps.

    def leave_parent(self, branch: Branch) -> None:
        """See ``Relations``; and nobody is looked for, and nobody stands above."""
        super().leave_parent(branch)
        self.searches.pop(branch.topic, None)
        self.above.pop(branch.topic, None)

    def forget_all(self) -> None:
        super().forget_all()
        self.searches.clear()
        self.above.clear()
        self._told.clear()
        self._waits = False

    # Growing.

    def _seek(self, branch: Branch, now_us: int) -> list[Effect]:
        """Turn to who stands above the parent that was; else search on the way; else be the root."""
        topic, lost = branch.topic, branch.parent
        above = [p for p in self.above.get(topic, ()) if p != lost and self.way.is_nearer(topic, p)]
        if above and lost != NOBODY:
            self.leave_parent(branch)
            return self._ask(branch, above[0], now_us)
        ways = self.way.ways(topic, self.searched)
        if len(ways) < 2:
            return super()._seek(branch, now_us)
        self.leave_parent(branch)
        self.searches[topic] = ParentSearch(dict.fromkeys(ways, False), now_us)
        effects: list[Effect] = [Send(peer, TreeSearch(topic)) for peer in ways]
        if not self._waits:
            self._waits = True
            effects.append(SetTimer(SEARCH_TIMER, self.config.timeout_us))
        return effects

    def _take_answer(self, sender: int, topic: int, member: bool, now_us: int) -> list[Effect]:
        """Somebody says whether it is in the tree: the first that is will be the parent."""
        search, branch = self.searches.get(topic), self.branches.get(topic)
        if search is None or branch is None or sender not in search.refused:
            return []
        search.refused[sender] = not member
        if member:
            self.leave_parent(branch)
            return self._ask(branch, sender, now_us)
        return self._recruit(branch, search, now_us) if all(search.refused.values()) else []

    def _recruit(self, branch: Branch, search: ParentSearch, now_us: int) -> list[Effect]:
        """Nobody is in the tree: the nearest that answered will be, or whoever is nearest."""
        answered = [peer for peer, refused in search.refused.items() if refused]
        self.leave_parent(branch)
        return self._ask(branch, [*answered, *search.refused][0], now_us)

    def _end_searches(self, now_us: int) -> list[Effect]:
        """Who has not answered by now is not waited for; the timer is set for the next search that is due."""
        effects: list[Effect] = []
        due_us = now_us - self.config.timeout_us
        for topic in [topic for topic, search in self.searches.items() if search.since_us <= due_us]:
            effects += self._recruit(self.branches[topic], self.searches[topic], now_us)
        self._waits = bool(self.searches)
        if self._waits:
            first_us = min(search.since_us for search in self.searches.values())
            effects.append(SetTimer(SEARCH_TIMER, first_us - due_us))
        return effects

    def _adopt(self, sender: int, topic: int, now_us: int) -> list[Effect]:
        """Take a child, and tell it who stands above."""
        effects = super()._adopt(sender, topic, now_us)
        branch = self.branches.get(topic)
        if branch is not None and sender in branch.children and (above := self._ancestors(branch)):
            effects.append(Send(sender, TreeAbove(topic, above)))
        return effects

    # Mending.

    def _keep_up(self, now_us: int) -> list[Effect]:
        """A round; children are told who stands above where that has changed."""
        effects = super()._keep_up(now_us)
        before, self._told = self._told, {}
        for topic, branch in self.branches.items():
            if not branch.children:
                continue
            above = self._told[topic] = self._ancestors(branch)
            if above != before.get(topic, ()):
                effects += [Send(child, TreeAbove(topic, above)) for child in branch.children]
        return effects

    def _ancestors(self, branch: Branch) -> tuple[int, ...]:
        """Who stands above this node: its parent and those above, or its heirs where it is the root."""
        if branch.topic in self.roots:
            return tuple(self.way.heirs(branch.topic, self.levels))
        if branch.parent == NOBODY:
            return ()
        return (branch.parent, *self.above.get(branch.topic, ()))[: self.levels]

    # Publishing.

    def _raise(self, topic: int, event: int, hops: int) -> list[Effect]:
        """Through all links, from the first node that is in the tree; towards the key before that."""
        branch = self.branches.get(topic)
        if branch is None:
            return super()._raise(topic, event, hops)
        before = self._mark(topic, event, HEARD | SPREAD)
        return [] if before & SPREAD else self._spread(branch, event, hops)

    def _may_send(self, branch: Branch, sender: int) -> bool:
        """A parent and children may."""
        return sender == branch.parent or sender in branch.children

    def _spread(self, branch: Branch, event: int, hops: int, sender: int = NOBODY) -> list[Effect]:
        """To the application, the children and the parent, but for who sent it. Where the parent has not
        agreed yet, the event goes on towards the key, as if this node were not in the tree."""
        topic = branch.topic
        effects: list[Effect] = [Deliver(topic, event, hops)] if branch.subscribed else []
        links = [*branch.children]
        if branch.parent != NOBODY and topic not in self.asking:
            links.append(branch.parent)
        elif (hop := self.routing.next_hop(topic)) not in (NOBODY, self.me, sender):
            effects.append(Send(hop, TreePublish(topic, event, hops + 1)))
        message = TreeEvent(topic, event, hops + 1)
        return effects + [Send(peer, message) for peer in links if peer != sender]
