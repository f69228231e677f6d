"""Multicast trees over a routing that is a toy."""

from typing import Any

from vinecast.core.events import Effect, Received, Send, Start, Subscribe
from vinecast.core.events import TimerFired as Fired
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.protocols.multicast_tree import MulticastTree, TreeAccept, TreeConfig

SECOND = 1_000_000
KEEP_UP = Fired("tree")
FIRST, AGAIN = TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN


class Toy:
    """A routing by hand: the next hop of every topic, and who was suspected."""

    def __init__(self, hops: dict[int, int]) -> None:
        self.hops = hops
        self.suspected: list[int] = []

    def next_hop(self, topic: int) -> int:
        return self.hops.get(topic, NOBODY)

    def suspect(self, peer: int) -> None:
        self.suspected.append(peer)


def tree(hops: dict[int, int], me: int = 5, **config: Any) -> MulticastTree:
    made = MulticastTree(TreeConfig(**{"period_s": 1.0, "timeout_s": 0.2, **config}), me, Toy(hops))
    made.handle(Start(), 0)
    return made


def toy(node: MulticastTree) -> Toy:
    assert isinstance(node.routing, Toy)
    return node.routing


def said(effects: list[Effect]) -> list[tuple[int, Any]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def hear(node: MulticastTree, sender: int, message: Any, now_us: int = 0) -> list[Effect]:
    return node.handle(Received(sender, message), now_us)


def child_of(parent: int, topic: int = 7, **config: Any) -> MulticastTree:
    """A subscriber that its parent has accepted."""
    node = tree({topic: parent}, **config)
    node.handle(Subscribe(topic), 0)
    hear(node, parent, TreeAccept(topic))
    return node


def check(node: MulticastTree) -> None:
    """Every relation is written down on both of its sides, and a topic is in one state only."""
    for topic, branch in node.branches.items():
        assert branch.topic == topic
        assert branch.subscribed or branch.children
        assert node.me not in branch.children
        assert branch.parent not in branch.children
        states = [topic in node.roots, topic in node.stranded, branch.parent != NOBODY]
        assert sum(states) == 1
        if branch.parent != NOBODY:
            assert topic in node.parents[branch.parent].topics
        for child in branch.children:
            assert topic in node.children[child].topics
    for parent, link in node.parents.items():
        assert link.topics
        assert all(node.branches[topic].parent == parent for topic in link.topics)
    for child, link in node.children.items():
        assert link.topics
        assert all(child in node.branches[topic].children for topic in link.topics)
    assert all(node.branches[topic].parent != NOBODY for topic in node.asking)
    assert set(node.roots) | set(node.stranded) <= set(node.branches)
    assert node.links == sum(len(branch.children) for branch in node.branches.values())
    assert node.links <= node.config.children_max
    assert len(node.seen) <= node.config.memory_size


def delivered(trace: list[TraceRecord], event: int) -> list[int]:
    return sorted(r.node for r in trace if r.kind == TraceKind.DELIVERED and r.event == event)
