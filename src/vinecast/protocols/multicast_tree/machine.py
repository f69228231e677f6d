"""Multicast trees on one node: the node's place in the tree of every topic that it carries.

*Growing.* Who subscribes to a topic asks the next peer on the route to the topic's key to be its parent.
That peer takes it as a child and, unless it is in the tree already, goes on asking in the same way,
subscribed or not: it becomes a forwarder. The node that is nearest to the key is the root (Scribe §3.2). A
forwarder that has no children left parts with its parent.

*Publishing.* An event is routed to the root, which sends it down the tree (Scribe §3.3). Subscribers take it
on the way down only, and so does the publisher.

*Mending.* Once a period a parent sends every child a heartbeat, and the child answers. Both lists are soft
state: a child that hears nothing gives its parent up, tells the routing, and asks again; a parent that hears
nothing drops the child (Scribe §3.4). S0 §6.5 counts a heartbeat for each topic; here the heartbeats of all
topics that two peers share travel in one message and are counted one by one. A root that learns of a nearer
node becomes that node's child.

Every parent is strictly nearer to the key than its child, because every hop of the routing is: no accident
can close a circle.
"""

from typing import Protocol

from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Event,
    Observe,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.multicast_tree.config import TreeConfig
from vinecast.protocols.multicast_tree.messages import (
    TreeAccept,
    TreeAlive,
    TreeEvent,
    TreeHeartbeat,
    TreeJoin,
    TreePart,
    TreePublish,
)
from vinecast.protocols.multicast_tree.relations import Branch, Relations

TIMER = "tree"

HOPS_MAX = 1000
"""Links that an event may travel (ours: far above any tree's height, so that only a liar gets here)."""

HEARD, RAISED, SPREAD = 1, 2, 4
"""What happened to an event on this node: it came, it went up to the root, it went down the tree."""


class TreeRouting(Protocol):
    """What a system lends the trees. Every hop must be strictly nearer to the key than the last."""

    def next_hop(self, topic: int) -> int:
        """The next peer on the way to the topic's key, the node itself where that ends, NOBODY where the node
        cannot tell: it has not joined yet, or there is no such topic."""

    def suspect(self, peer: int) -> None:
        """A peer was silent when it should have spoken: route around it."""


class MulticastTree(Relations):
    """The machine. ``name`` is what its counters begin with."""

    def __init__(self, config: TreeConfig, me: int, routing: TreeRouting, name: str = "tree") -> None:
        super().__init__()
        self.config = config
        self.me = me
        self.routing = routing
        self.name = name
        self.seen: dict[tuple[int, int], int] = {}
        self.pending: list[tuple[int, int]] = []
        self._every_period = SetTimer(TIMER, config.period_us)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, message):
                return self._receive(sender, message, now_us)
            case TimerFired(name) if name == TIMER:
                return self._keep_up(now_us)
            case Publish(topic, number):
                return [Observe(TraceKind.PUBLISHED, topic, number), *self._publish(topic, number)]
            case Subscribe(topic):
                return self._subscribe(topic, now_us)
            case Unsubscribe(topic):
                return self._unsubscribe(topic)
            case PeerLost(peer):
                return self._lose(peer, now_us)
            case Start():
                return self._start(now_us)
            case Stop():
                return self._stop()
            case _:
                return []

    def _receive(self, sender: int, message: object, now_us: int) -> list[Effect]:
        match message:
            case TreeEvent():
                return self._take_down(sender, message)
            case TreePublish():
                return self._take_up(sender, message)
            case TreeHeartbeat(topics):
                return self._answer(sender, topics, now_us)
            case TreeAlive(refused):
                return self._refresh(sender, refused, now_us)
            case TreeJoin(topic):
                return self._adopt(sender, topic, now_us)
            case TreeAccept(topic):
                return self._settle(sender, topic, now_us)
            case TreePart(topic):
                return self._separate(sender, topic, now_us)
            case _:
                return []

    def reroute(self, now_us: int) -> list[Effect]:
        """The routing has changed: roots see whether they still are, and what had no route looks again."""
        effects: list[Effect] = []
        for topic in list(self.roots):
            if self.routing.next_hop(topic) != self.me:
                effects += self._seek(self.branches[topic], now_us)
        for topic in list(self.stranded):
            effects += self._seek(self.branches[topic], now_us)
        waiting, self.pending = self.pending, []
        for topic, event in waiting:
            effects += self._publish(topic, event)
        return effects

    # Growing and shrinking.

    def _start(self, now_us: int) -> list[Effect]:
        """Relations of an earlier life are over; subscriptions and what was seen remain."""
        topics = [topic for topic, branch in self.branches.items() if branch.subscribed]
        self.forget_all()
        effects: list[Effect] = [self._every_period]
        for topic in topics:
            effects += self._subscribe(topic, now_us)
        return effects

    def _stop(self) -> list[Effect]:
        effects: list[Effect] = []
        for topic, branch in self.branches.items():
            part = TreePart(topic)
            others = [branch.parent] if branch.parent != NOBODY else []
            effects += [Send(peer, part) for peer in [*others, *branch.children]]
        return effects

    def _subscribe(self, topic: int, now_us: int) -> list[Effect]:
        branch = self.branches.get(topic)
        if branch is not None:
            branch.subscribed = True
            return []
        branch = self.branches[topic] = Branch(topic, subscribed=True)
        return self._seek(branch, now_us)

    def _unsubscribe(self, topic: int) -> list[Effect]:
        branch = self.branches.get(topic)
        if branch is None:
            return []
        branch.subscribed = False
        return self._prune(branch)

    def _seek(self, branch: Branch, now_us: int) -> list[Effect]:
        """Find a parent on the route, or be the root, or wait for a route."""
        topic = branch.topic
        self.leave_parent(branch)
        hop = self.routing.next_hop(topic)
        if hop == NOBODY:
            self.stranded[topic] = None
            return []
        if hop == self.me:
            self.roots[topic] = None
            return []
        return self._ask(branch, hop, now_us)

    def _ask(self, branch: Branch, parent: int, now_us: int) -> list[Effect]:
        """Ask a peer to be the parent."""
        if parent in branch.children:  # only a routing that breaks its promise sends us to our own child
            self.forget_child(branch, parent)
        self.take_parent(branch, parent, now_us)
        return [Send(parent, TreeJoin(branch.topic))]

    def _adopt(self, sender: int, topic: int, now_us: int) -> list[Effect]:
        """Somebody asks for a parent. Who is not in the tree becomes a forwarder, if it can."""
        branch = self.branches.get(topic)
        if branch is None and (
            len(self.branches) >= self.config.topics_max or self.routing.next_hop(topic) == NOBODY
        ):
            return self._refuse(sender, topic)
        new_child = branch is None or sender not in branch.children
        if new_child and self.links >= self.config.children_max:
            return self._refuse(sender, topic)
        if branch is not None and sender in (branch.parent, self.me):
            return self._refuse(sender, topic)
        effects: list[Effect] = [Send(sender, TreeAccept(topic))]
        if branch is None:
            branch = self.branches[topic] = Branch(topic)
            effects += self._seek(branch, now_us)
        self.take_child(branch, sender, now_us)
        return effects

    def _refuse(self, sender: int, topic: int) -> list[Effect]:
        return [Count(self.name + ".refused"), Send(sender, TreePart(topic))]

    def _settle(self, sender: int, topic: int, now_us: int) -> list[Effect]:
        """Accepted; or an answer that comes too late, from somebody who should know."""
        branch = self.branches.get(topic)
        if branch is None or branch.parent != sender:
            return [Send(sender, TreePart(topic))]
        self.asking.pop(topic, None)
        self.parents[sender].heard_us = now_us
        return []

    def _separate(self, sender: int, topic: int, now_us: int) -> list[Effect]:
        """A child goes; or a parent does, and another is sought. If the routing knows no other, that waits
        for the next round: whoever refuses should not be asked again and again."""
        branch = self.branches.get(topic)
        if branch is None:
            return []
        effects: list[Effect] = []
        if branch.parent == sender:
            if self.routing.next_hop(topic) != sender:
                effects += self._seek(branch, now_us)
            else:
                self.leave_parent(branch)
                self.stranded[topic] = None
        return effects + self._drop_child(branch, sender)

    def _drop_child(self, branch: Branch, child: int) -> list[Effect]:
        if child not in branch.children:
            return []
        self.forget_child(branch, child)
        return self._prune(branch)

    def _prune(self, branch: Branch) -> list[Effect]:
        """Leave the tree if nobody here or below needs it."""
        if branch.subscribed or branch.children:
            return []
        parent = branch.parent
        self.leave_parent(branch)
        del self.branches[branch.topic]
        return [Send(parent, TreePart(branch.topic))] if parent != NOBODY else []

    # Mending.

    def _keep_up(self, now_us: int) -> list[Effect]:
        """A round: give up the silent, look for routes again, send heartbeats."""
        effects: list[Effect] = [self._every_period]
        deadline_us = now_us - self.config.silence_us_max
        for child in [peer for peer, link in self.children.items() if link.heard_us < deadline_us]:
            effects += self._lose_child(child)
        for parent in self._silent_parents(deadline_us, now_us - self.config.timeout_us):
            effects.append(Count(self.name + ".silent_parents"))
            self.routing.suspect(parent)
            effects += self._lose_parent(parent, now_us)
        for topic in [topic for topic, since_us in self.asking.items() if since_us < now_us]:
            effects += self._seek(self.branches[topic], now_us)
        effects += self.reroute(now_us)
        beats = 0
        for child, link in self.children.items():
            beats += len(link.topics)
            effects.append(Send(child, TreeHeartbeat(tuple(link.topics))))
        if beats:
            effects.append(Count(self.name + ".heartbeats", beats))
        return effects

    def _silent_parents(self, deadline_us: int, late_us: int) -> list[int]:
        """Parents without a heartbeat, and those who have said nothing since they were asked to be one."""
        silent = [peer for peer, link in self.parents.items() if link.heard_us < deadline_us]
        for topic, since_us in self.asking.items():
            parent = self.branches[topic].parent
            if since_us <= late_us and self.parents[parent].heard_us <= since_us:
                silent.append(parent)
        return list(dict.fromkeys(silent))

    def _lose(self, peer: int, now_us: int) -> list[Effect]:
        return self._lose_child(peer) + self._lose_parent(peer, now_us)

    def _lose_child(self, child: int) -> list[Effect]:
        link = self.children.get(child)
        effects: list[Effect] = []
        for topic in list(link.topics) if link is not None else []:
            effects += self._drop_child(self.branches[topic], child)
        return effects

    def _lose_parent(self, parent: int, now_us: int) -> list[Effect]:
        link = self.parents.get(parent)
        effects: list[Effect] = []
        for topic in list(link.topics) if link is not None else []:
            effects += self._seek(self.branches[topic], now_us)
        return effects

    def _answer(self, sender: int, topics: tuple[int, ...], now_us: int) -> list[Effect]:
        """A heartbeat: refuse what is not so, and ask again where the parent has forgotten its child."""
        refused: list[int] = []
        unwanted = 0
        for topic in topics:
            branch = self.branches.get(topic)
            if branch is None or branch.parent != sender:
                refused.append(topic)
                unwanted += branch is None or not branch.subscribed
                continue
            unwanted += not branch.subscribed
            self.asking.pop(topic, None)
        effects: list[Effect] = [
            Count(self.name + ".heartbeats_received", len(topics)),
            Send(sender, TreeAlive(tuple(refused))),
        ]
        if unwanted:
            effects.append(Count(self.name + ".heartbeats_unwanted", unwanted))
        link = self.parents.get(sender)
        if link is None:
            return effects
        link.heard_us = now_us
        if len(link.topics) > len(topics) - len(refused):
            listed = dict.fromkeys(topics)
            for topic in [t for t in link.topics if t not in listed and t not in self.asking]:
                effects += self._seek(self.branches[topic], now_us)
        return effects

    def _refresh(self, sender: int, refused: tuple[int, ...], now_us: int) -> list[Effect]:
        """A child answered."""
        if sender not in self.children:
            return []
        self.children[sender].heard_us = now_us
        effects: list[Effect] = []
        for topic in refused:
            branch = self.branches.get(topic)
            if branch is not None:
                effects += self._drop_child(branch, sender)
        return effects

    # Publishing.

    def _publish(self, topic: int, event: int) -> list[Effect]:
        if self.routing.next_hop(topic) != NOBODY:
            return self._raise(topic, event, 0)
        if len(self.pending) < self.config.pending_max:
            self.pending.append((topic, event))
            return []
        return [Observe(TraceKind.DROPPED, topic, event, reason="no route")]

    def _take_up(self, sender: int, message: TreePublish) -> list[Effect]:
        """An event on its way to the root; a second copy goes no further."""
        topic, event, hops = message.topic, message.event, message.hops
        if not 0 < hops <= HOPS_MAX:
            return [Observe(TraceKind.DROPPED, topic, event, sender, reason="hops")]
        before = self._mark(topic, event, HEARD | RAISED)
        kind = TraceKind.RECEIVED_AGAIN if before & HEARD else TraceKind.RECEIVED_FIRST
        observed: Effect = Observe(kind, topic, event, sender, hops)
        return [observed] if before & RAISED else [observed, *self._raise(topic, event, hops)]

    def _raise(self, topic: int, event: int, hops: int) -> list[Effect]:
        """One hop towards the root; at the root, down the tree. A node that has a parent is not the root,
        even if the routing has just lost sight of that parent."""
        hop = self.routing.next_hop(topic)
        branch = self.branches.get(topic)
        if hop == self.me and branch is not None and branch.parent != NOBODY:
            hop = branch.parent
        if hop == NOBODY:
            return [Observe(TraceKind.DROPPED, topic, event, hops=hops, reason="no route")]
        if hop != self.me:
            return [Send(hop, TreePublish(topic, event, hops + 1))]
        if branch is None:
            return [Observe(TraceKind.DROPPED, topic, event, hops=hops, reason="no subscribers")]
        before = self._mark(topic, event, SPREAD)
        return [] if before & SPREAD else self._spread(branch, event, hops)

    def _take_down(self, sender: int, message: TreeEvent) -> list[Effect]:
        """An event from above. Whoever is not the parent should not send any."""
        topic, event, hops = message.topic, message.event, message.hops
        if not 0 < hops <= HOPS_MAX:
            return [Observe(TraceKind.DROPPED, topic, event, sender, reason="hops")]
        branch = self.branches.get(topic)
        before = self._mark(topic, event, HEARD | (SPREAD if branch is not None else 0))
        kind = TraceKind.RECEIVED_AGAIN if before & HEARD else TraceKind.RECEIVED_FIRST
        effects: list[Effect] = [Observe(kind, topic, event, sender, hops)]
        if branch is None or not self._may_send(branch, sender):
            effects.append(Send(sender, TreePart(topic)))
        if branch is not None and not before & SPREAD:
            effects += self._spread(branch, event, hops, sender)
        return effects

    def _may_send(self, branch: Branch, sender: int) -> bool:
        """Whether it is a peer's place to send events of this tree."""
        return branch.parent == sender

    def _spread(self, branch: Branch, event: int, hops: int, sender: int = NOBODY) -> list[Effect]:
        effects: list[Effect] = [Deliver(branch.topic, event, hops)] if branch.subscribed else []
        if branch.children:
            message = TreeEvent(branch.topic, event, hops + 1)
            effects += [Send(child, message) for child in branch.children]
        return effects

    def _mark(self, topic: int, event: int, marks: int) -> int:
        """Remember what happened to an event; returns what was remembered before."""
        seen, key = self.seen, (topic, event)
        before = seen.get(key, 0)
        if not before and len(seen) >= self.config.memory_size:
            del seen[next(iter(seen))]
        seen[key] = before | marks
        return before
