"""Dissemination in the order of time: every copy takes as long as the network says.

As ``sweep``, but copy by copy instead of hop by hop. It equals machines on the event engine with a network
that loses nothing and delays nothing by chance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.dissemination import Dissemination
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.protocols.ringcast.rules import Peers
from vinecast.protocols.ringcast.sweep import (
    NO_SENDER,
    UNTOLD,
    EventRound,
    RingMemory,
    RingOverlay,
    audience_of,
    choose_targets,
    put_down,
    take_up,
)

Times = NDArray[np.int64]

_SENDER = 256
"""In a tie: one sender's copies, of which there are fewer, in the order of sending."""


class Delays(NamedTuple):
    """How long a message takes from site to site."""

    one_way_us: Times
    """[site, site]"""
    site_of: NDArray[np.int64]
    """[node]"""


class Queue(NamedTuple):
    """Copies on their way: a binary heap, by the time of arrival, then by sender and order of sending."""

    at_us: Times
    """[copy]"""
    tie: Times
    """[copy]"""
    to: Peers
    """[copy], the receiver's place"""


def make_queue(subscribers: int, fanout: int) -> Queue:
    """Room for all copies of an event: everybody forwards it once, two times or f times."""
    size = subscribers * max(fanout, 2)
    at_us, tie = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    return Queue(at_us, tie, np.zeros(size, dtype=np.int32))


@inner_rule
def push(queue: Queue, size: int, at_us: int, tie: int, to: int) -> int:
    """Put a copy into the queue; its new size."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        later = queue.at_us[parent] > at_us or (queue.at_us[parent] == at_us and queue.tie[parent] > tie)
        if not later:
            break
        queue.at_us[child], queue.tie[child] = queue.at_us[parent], queue.tie[parent]
        queue.to[child] = queue.to[parent]
        child = parent
    queue.at_us[child], queue.tie[child], queue.to[child] = at_us, tie, to
    return size + 1


@inner_rule
def pop(queue: Queue, size: int) -> int:
    """Take the first copy, which stands at 0, out of the queue; its new size."""
    size -= 1
    at_us, tie, to = queue.at_us[size], queue.tie[size], queue.to[size]
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        other = child + 1
        if other < size and (
            queue.at_us[other] < queue.at_us[child]
            or (queue.at_us[other] == queue.at_us[child] and queue.tie[other] < queue.tie[child])
        ):
            child = other
        if at_us < queue.at_us[child] or (at_us == queue.at_us[child] and tie < queue.tie[child]):
            break
        queue.at_us[parent], queue.tie[parent] = queue.at_us[child], queue.tie[child]
        queue.to[parent] = queue.to[child]
        parent = child
    queue.at_us[parent], queue.tie[parent], queue.to[parent] = at_us, tie, to
    return size


@rule
def disseminate_in_time(
    overlay: RingOverlay,
    delays: Delays,
    event_round: EventRound,
    memory: RingMemory,
    queue: Queue,
    dissemination: Dissemination,
    begin: int,
    end: int,
) -> None:
    """As ``disseminate_evenly``, and how long the first copy took, 0 for the publisher."""
    publisher, subscribers, latency_us = (
        dissemination.publisher,
        event_round.subscribers,
        dissemination.latency_us,
    )
    assert latency_us is not None
    for topic in range(begin, end):
        if publisher[topic] == NOBODY:
            continue
        take_up(topic, overlay.links, subscribers, memory)
        audience = audience_of(topic, subscribers)
        nodes, rows = audience.nodes, audience.rows
        event = event_round.first_event + topic
        size = push(queue, 0, 0, NOBODY * _SENDER, int(memory.place_of[publisher[topic]]))
        while size > 0:
            now_us, sender, place = int(queue.at_us[0]), int(queue.tie[0]) // _SENDER, int(queue.to[0])
            size = pop(queue, size)
            if sender == NOBODY:
                memory.first[place] = NO_SENDER
            else:
                memory.copies[place] += 1
                if memory.first[place] != UNTOLD:
                    continue
                memory.first[place] = (((int(memory.first[sender]) >> 32) + 1) << 32) + sender
            latency_us[rows[place]] = now_us
            count = choose_targets(place, sender, event, overlay, audience, memory)
            for j in range(count):
                there = int(memory.targets[j])
                delay_us = int(delays.one_way_us[delays.site_of[nodes[place]], delays.site_of[nodes[there]]])
                size = push(queue, size, now_us + delay_us, place * _SENDER + j, there)
        put_down(topic, subscribers, memory, dissemination.hops, dissemination.copies)
