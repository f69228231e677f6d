"""The relations of a node in many trees: who is its parent and its child in which, and what is not settled
yet.

The same relations are kept by topic (``Branch``) and by peer (``TreeNeighbour``), so that neither a topic's
event nor a peer's silence needs a search; whatever changes them does so here, on both sides.
"""

from dataclasses import dataclass, field

from vinecast.core.machine import NOBODY


@dataclass(slots=True)
class Branch:
    """The node's place in one topic's tree."""

    topic: int
    subscribed: bool = False
    parent: int = NOBODY
    children: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class TreeNeighbour:
    """A peer that is the node's parent, or its child, in some trees."""

    heard_us: int
    topics: dict[int, None] = field(default_factory=dict)


class Relations:
    """A node's places in all trees."""

    def __init__(self) -> None:
        self.branches: dict[int, Branch] = {}
        self.parents: dict[int, TreeNeighbour] = {}
        self.children: dict[int, TreeNeighbour] = {}
        self.roots: dict[int, None] = {}
        """Topics whose root is this node."""
        self.asking: dict[int, int] = {}
        """Topics whose parent has not accepted yet, and since when."""
        self.stranded: dict[int, None] = {}
        """Topics for which there is no route."""
        self.links = 0
        """(topic, child) pairs."""

    def subscribed(self, topic: int) -> bool:
        """Whether the application wants this topic."""
        branch = self.branches.get(topic)
        return branch is not None and branch.subscribed

    def take_parent(self, branch: Branch, parent: int, now_us: int) -> None:
        """A parent that has still to accept."""
        topic = branch.topic
        branch.parent = parent
        if parent not in self.parents:
            self.parents[parent] = TreeNeighbour(now_us)
        self.parents[parent].topics[topic] = None
        self.asking[topic] = now_us

    def leave_parent(self, branch: Branch) -> None:
        """No parent, and no reason for that."""
        topic, parent = branch.topic, branch.parent
        self.roots.pop(topic, None)
        self.stranded.pop(topic, None)
        self.asking.pop(topic, None)
        branch.parent = NOBODY
        link = self.parents.get(parent)
        if link is not None:
            link.topics.pop(topic, None)
            if not link.topics:
                del self.parents[parent]

    def take_child(self, branch: Branch, child: int, now_us: int) -> None:
        """A child, which may be one already."""
        link = self.children.setdefault(child, TreeNeighbour(now_us))
        link.heard_us = now_us
        link.topics[branch.topic] = None
        self.links += child not in branch.children
        branch.children[child] = None

    def forget_child(self, branch: Branch, child: int) -> None:
        """One of its children no more."""
        del branch.children[child]
        self.links -= 1
        link = self.children[child]
        del link.topics[branch.topic]
        if not link.topics:
            del self.children[child]

    def forget_all(self) -> None:
        """Begin anew."""
        for tables in (self.branches, self.parents, self.children, self.roots, self.asking, self.stranded):
            tables.clear()
        self.links = 0
