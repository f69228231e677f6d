"""Dissemination to a whole population at once, on an overlay that stands still meanwhile.

One event a topic, all topics, one topic after the other. A topic's subscribers are looked at under their
*place*, 0, 1, … in ascending order of their numbers, so that all that a topic needs lies close together; the
rows of the pool are read once before and written once after.

Here every link takes as long as any other; ``timed`` asks the network. The first copy to arrive decides from
whom a node has an event, and so where it forwards it; of copies that arrive together, that of the lowest
sender counts as the first, as on the event engine.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Subscribers
from vinecast.core.dissemination import Dissemination
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.ringcast import rules
from vinecast.protocols.ringcast.rules import Peers

MOST_HOPS = 0x7FFF
"""As many hops as are told apart; only a ring without shortcuts has ways as long."""

UNTOLD = 1 << 62
"""The first copy of somebody who is on line and has none yet: later than any."""

NO_SENDER = 0xFFFF_FFFF
"""The publisher's own first copy: after no hops, from nobody."""

OFFLINE = -1
"""The first copy of somebody who is off line: before any, so that none is the first."""


class RingLinks(NamedTuple):
    """The overlay that events travel on."""

    ring: Peers
    """[pool, place on the ring]"""
    near: Peers
    """[node, slot], Vicinity's view; no slots where it gives no shortcuts"""
    sample: Peers
    """[node, slot], Cyclon's view; no slots where it gives no shortcuts"""
    online: NDArray[np.bool_]
    """[node]"""


class Forwarding(NamedTuple):
    """How a node forwards an event."""

    seed: int
    fanout: int
    mixed: bool
    """Whether a coin decides which of the two views gives the shortcuts; else both do"""
    stand_by: bool
    """Whether the second on a side of the ring replaces the first if that one is off line"""


class Again(NamedTuple):
    """A second ring that some nodes forward events on besides (S4 §6.4.4)."""

    links: RingLinks
    """Its ring, and the views that its shortcuts are taken from"""
    forwarding: Forwarding
    carries: NDArray[np.bool_]
    """[node], who does; of no size where there is no second ring"""


class RingOverlay(NamedTuple):
    """What events travel on, and how."""

    links: RingLinks
    forwarding: Forwarding
    again: Again


class Audience(NamedTuple):
    """A topic's subscribers. Both: [place]"""

    nodes: Peers
    rows: Peers
    """Of the pool."""


class EventRound(NamedTuple):
    """One event a topic, all topics."""

    first_event: int
    """Topic t has event first_event + t."""
    subscribers: Subscribers


class RingMemory(NamedTuple):
    """Working memory of one thread, for the topic in hand. Peers are called by their places."""

    place_of: NDArray[np.int32]
    """[node + 1], NOBODY for those who do not subscribe, for NOBODY, and for all between two topics"""
    eligible: NDArray[np.uint8]
    """[node + 1], 1 for subscribers, but 0 for all between two topics: small, for it is looked at most"""
    lower: Peers
    """[place], the ring neighbour below, or NOBODY"""
    higher: Peers
    """[place], the ring neighbour above, or NOBODY"""
    first: NDArray[np.int64]
    """[place], the first copy: hops in the high half, sender in the low one; or UNTOLD or OFFLINE"""
    copies: NDArray[np.uint16]
    """[place]"""
    frontier: NDArray[np.int32]
    """[2, place], who forwards in this hop, who in the next"""
    candidates: Peers
    """[candidate]"""
    targets: Peers
    """[target]"""
    again: Peers
    """[target on a second ring]"""


def make_memory(nodes: int, subscribers: int, slots: int, fanout: int) -> RingMemory:
    """Memory for topics of so many subscribers and so many slots in a node's views together."""
    return RingMemory(
        place_of=np.full(nodes + 1, NOBODY, dtype=np.int32),
        eligible=np.zeros(nodes + 1, dtype=np.uint8),
        lower=np.zeros(subscribers, dtype=np.int32),
        higher=np.zeros(subscribers, dtype=np.int32),
        first=np.zeros(subscribers, dtype=np.int64),
        copies=np.zeros(subscribers, dtype=np.uint16),
        frontier=np.zeros((2, subscribers + 1), dtype=np.int32),
        candidates=np.zeros(slots + 1, dtype=np.int32),
        targets=np.zeros(fanout + 3, dtype=np.int32),
        again=np.zeros(3, dtype=np.int32),
    )


def just_once(links: RingLinks, forwarding: Forwarding) -> Again:
    """No second ring."""
    return Again(links, forwarding, np.zeros(0, dtype=np.bool_))


@rule
def sender_of(first: int) -> int:
    """The place of the sender of a first copy, or NOBODY."""
    return NOBODY if first == NO_SENDER else int(first & 0xFFFF_FFFF)


@rule
def take_up(topic: int, links: RingLinks, subscribers: Subscribers, memory: RingMemory) -> None:
    """Bring a topic's subscribers into memory."""
    half = links.ring.shape[1] // 2
    begin, end = subscribers.start[topic], subscribers.start[topic + 1]
    for i in range(begin, end):
        memory.place_of[subscribers.node[i]] = i - begin
        memory.eligible[subscribers.node[i]] = 1
    for i in range(begin, end):
        row, place = subscribers.row[i], i - begin
        memory.lower[place] = memory.place_of[links.ring[row, 0]]
        memory.higher[place] = memory.place_of[links.ring[row, half]]
        memory.first[place] = UNTOLD if links.online[subscribers.node[i]] else OFFLINE
        memory.copies[place] = 0


@rule
def put_down(
    topic: int,
    subscribers: Subscribers,
    memory: RingMemory,
    hops: NDArray[np.int16],
    copies: NDArray[np.uint16],
) -> None:
    """Write down what became of a topic's event. hops, copies: [pool]"""
    begin, end = subscribers.start[topic], subscribers.start[topic + 1]
    for i in range(begin, end):
        row, place = subscribers.row[i], i - begin
        memory.place_of[subscribers.node[i]] = NOBODY
        memory.eligible[subscribers.node[i]] = 0
        first = memory.first[place]
        if first != UNTOLD and first != OFFLINE:
            hops[row] = min(int(first >> 32), MOST_HOPS)
            copies[row] = memory.copies[place]


@inner_rule
def set_eligible(
    value: int, place: int, lower: int, higher: int, sender: int, nodes: Peers, memory: RingMemory
) -> None:
    """Whether a node itself, its ring neighbours and the sender may be shortcuts."""
    memory.eligible[nodes[place]] = value
    if lower != NOBODY:
        memory.eligible[nodes[lower]] = value
    if higher != NOBODY:
        memory.eligible[nodes[higher]] = value
    if sender != NOBODY:
        memory.eligible[nodes[sender]] = value


@inner_rule
def list_shortcuts(
    node: int, event: int, forwarding: Forwarding, links: RingLinks, memory: RingMemory
) -> int:
    """The eligible peers in a node's views, each once, in ``memory.candidates``; how many."""
    near, sample = links.near.shape[1], links.sample.shape[1]
    if forwarding.mixed:
        if rules.takes_near(forwarding.seed, event, node):
            sample = 0
        else:
            near = 0
    found = 0
    for i in range(near):
        peer = links.near[node, i]
        memory.candidates[found] = peer
        found += int(memory.eligible[peer])  # no branch: which way it goes is anybody's guess
    from_near = found
    for i in range(sample):
        peer = links.sample[node, i]
        if memory.eligible[peer]:  # seldom: they are strangers
            fresh = True
            for j in range(from_near):
                fresh &= peer != memory.candidates[j]
            memory.candidates[found] = peer
            found += int(fresh)
    return found


@rule
def step_in(ring: Peers, target: int, sender: int, nodes: Peers, memory: RingMemory) -> int:
    """The place of who stands by for a target that is off line; the target's own if nobody does."""
    from_node = NOBODY if sender == NOBODY else int(nodes[sender])
    there = int(memory.place_of[rules.stand_by(ring, int(nodes[target]), from_node)])
    return target if there == NOBODY else there


@inner_rule
def audience_of(topic: int, subscribers: Subscribers) -> Audience:
    """A topic's."""
    begin, end = subscribers.start[topic], subscribers.start[topic + 1]
    return Audience(subscribers.node[begin:end], subscribers.row[begin:end])


@inner_rule
def choose_again(
    place: int,
    sender: int,
    event: int,
    ringed: int,
    filled: int,
    again: Again,
    audience: Audience,
    memory: RingMemory,
) -> int:
    """Add the targets on the second ring, none of which is a target already; how many there are in all.

    The first ``ringed`` targets are ring neighbours on the first ring, or who stands by for them. For a
    neighbour that is a target on both rings, one more shortcut is taken.
    """
    nodes, ring = audience.nodes, again.links.ring[audience.rows[place]]
    lower, higher = memory.place_of[ring[0]], memory.place_of[ring[ring.size // 2]]
    wanted = rules.shortcuts_wanted(lower, higher, sender, again.forwarding.fanout)
    last = filled
    for i in range(rules.choose_ring(lower, higher, sender, memory.again)):
        target = int(memory.again[i])
        known = (target == memory.lower[place]) | (target == memory.higher[place])
        for j in range(ringed, filled):
            known |= memory.targets[j] == target
        if known:
            wanted += 1
            continue
        if again.forwarding.stand_by and memory.first[target] == OFFLINE:
            target = step_in(ring, target, sender, nodes, memory)
        memory.targets[last] = target
        last += 1
    if wanted <= 0:
        return last
    set_eligible(0, place, lower, higher, sender, nodes, memory)
    set_eligible(0, place, memory.lower[place], memory.higher[place], sender, nodes, memory)
    for j in range(ringed, filled):
        memory.eligible[nodes[memory.targets[j]]] = 0
    found = list_shortcuts(nodes[place], event, again.forwarding, again.links, memory)
    set_eligible(1, place, lower, higher, sender, nodes, memory)
    set_eligible(1, place, memory.lower[place], memory.higher[place], sender, nodes, memory)
    for j in range(ringed, filled):
        memory.eligible[nodes[memory.targets[j]]] = 1
    end = rules.pick_shortcuts(
        again.forwarding.seed, event, nodes[place], memory.candidates, found, wanted, memory.targets, last
    )
    for i in range(last, end):
        memory.targets[i] = memory.place_of[memory.targets[i]]
    return end


@inner_rule
def choose_targets(
    place: int, sender: int, event: int, overlay: RingOverlay, audience: Audience, memory: RingMemory
) -> int:
    """The places to which the subscriber at a place forwards an event, in ``memory.targets``; how many."""
    links, forwarding, again, nodes = overlay.links, overlay.forwarding, overlay.again, audience.nodes
    lower, higher = memory.lower[place], memory.higher[place]
    filled = rules.choose_ring(lower, higher, sender, memory.targets)
    if forwarding.stand_by:
        for i in range(filled):
            target = int(memory.targets[i])
            if memory.first[target] == OFFLINE:
                memory.targets[i] = step_in(links.ring[audience.rows[place]], target, sender, nodes, memory)
    wanted, last = rules.shortcuts_wanted(lower, higher, sender, forwarding.fanout), filled
    if wanted > 0:
        set_eligible(0, place, lower, higher, sender, nodes, memory)
        found = list_shortcuts(nodes[place], event, forwarding, links, memory)
        set_eligible(1, place, lower, higher, sender, nodes, memory)
        last = rules.pick_shortcuts(
            forwarding.seed, event, nodes[place], memory.candidates, found, wanted, memory.targets, filled
        )
        for i in range(filled, last):
            memory.targets[i] = memory.place_of[memory.targets[i]]
    if again.carries.size and again.carries[nodes[place]]:
        last = choose_again(place, sender, event, filled, last, again, audience, memory)
    return last


@rule
def disseminate_evenly(
    overlay: RingOverlay,
    event_round: EventRound,
    memory: RingMemory,
    dissemination: Dissemination,
    begin: int,
    end: int,
) -> None:
    """Let the events of topics begin … end−1 spread hop by hop. What nothing arrives at is left alone in
    ``dissemination``."""
    publisher, subscribers = dissemination.publisher, event_round.subscribers
    for topic in range(begin, end):
        if publisher[topic] == NOBODY:
            continue
        take_up(topic, overlay.links, subscribers, memory)
        audience = audience_of(topic, subscribers)
        event, place = event_round.first_event + topic, int(memory.place_of[publisher[topic]])
        memory.first[place] = NO_SENDER
        memory.frontier[0, 0] = place
        now, ahead, hop = 0, 1, 0
        while ahead > 0:
            hop += 1
            found = 0
            for i in range(ahead):
                place = int(memory.frontier[now, i])
                sender = sender_of(memory.first[place])
                count = choose_targets(place, sender, event, overlay, audience, memory)
                copy = (hop << 32) + place
                for j in range(count):
                    there = memory.targets[j]
                    memory.copies[there] += 1
                    memory.frontier[1 - now, found] = there
                    found += int(memory.first[there] == UNTOLD)
                    memory.first[there] = min(memory.first[there], copy)
            now, ahead = 1 - now, found
        put_down(topic, subscribers, memory, dissemination.hops, dissemination.copies)
