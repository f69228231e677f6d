"""Scribe's events on a network that stands still meanwhile: one for every topic (S0 §6.6: "freezing").

The machines themselves pass the events on, in no time; whatever else they would say is not sent. So a network
on the event engine can be measured at any moment, and goes on as if nothing had happened, except that nodes
have seen these events and have heard from those who sent them.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles, choose_publishers
from vinecast.core.dissemination import MISSED, Dissemination
from vinecast.core.events import Deliver, Event, Observe, Publish, Received, Send
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.multicast_tree import TreeEvent, TreePublish
from vinecast.systems.scribe.machine import Scribe

CARRIERS = (TreeEvent, TreePublish)
RECEIPTS = (TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN)


def publish_frozen(
    nodes: Sequence[Scribe | None],
    online: NDArray[np.bool_],
    profiles: Profiles,
    seed: int,
    epoch: int,
    now_us: int,
    publishers: NDArray[np.bool_] | None = None,
) -> Dissemination:
    """One event for every topic, each from a random on-line subscriber; topic t's is epoch × topics + t.

    The network loses nothing but what is sent to nodes that are off line. online, publishers: [node], or all
    """
    topics, pool = profiles.topic_ids.size, profiles.topics.size
    able = online if publishers is None else online & publishers
    publisher = choose_publishers(seed, epoch, profiles, able)
    dissemination = Dissemination(
        publisher, np.full(pool, MISSED, dtype=np.int16), np.zeros(pool, dtype=np.uint16)
    )
    up = online.tolist()
    for topic in np.flatnonzero(publisher != NOBODY).tolist():
        first: Event = Publish(topic, epoch * topics + topic)
        queue = deque([(int(publisher[topic]), first)])
        while queue:
            at, event = queue.popleft()
            node = nodes[at]
            if node is None:
                continue
            for effect in node.handle(event, now_us):
                match effect:
                    case Send(to, message):
                        if up[to] and isinstance(message, CARRIERS):
                            queue.append((to, Received(at, message)))
                    case Deliver(hops=hops):
                        dissemination.hops[_row(profiles, at, topic)] = hops
                    case Observe(kind) if kind in RECEIPTS and node.tree.subscribed(topic):
                        dissemination.copies[_row(profiles, at, topic)] += 1
                    case _:
                        pass
    return dissemination


def _row(profiles: Profiles, node: int, topic: int) -> int:
    """Where a node's topic stands in the pool."""
    return int(profiles.beg[node] + np.searchsorted(profiles.topics_of(node), topic))
