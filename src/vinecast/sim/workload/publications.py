"""Publications: who publishes what, in order.

A workload says who subscribes; where costs are compared, it also says which events there are. Real ones come
from a trace (sim/workload/reddit.py); others are drawn: a topic by its weight, then any of its subscribers,
as S0 §6.1 has it. When they are published is not part of it: whoever runs them spaces them out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import below_array, purpose, stream, unit_array
from vinecast.core.errors import InputError
from vinecast.sim.workload.subscriptions import Subscriptions

_TOPICS = purpose("publications.topics")
_PUBLISHERS = purpose("publications.publishers")


@dataclass(frozen=True, eq=False)
class Publications:
    """Events in the order of their publication; an event's number is its place."""

    publisher: NDArray[np.int64]
    """[event] the node."""
    topic: NDArray[np.int64]
    """[event] what it publishes on; it may not subscribe to it."""

    @property
    def count(self) -> int:
        """The number of events."""
        return self.topic.size

    def first(self, count: int) -> "Publications":
        """The first so many, or all."""
        return Publications(self.publisher[:count], self.topic[:count])


def draw_publications(
    seed: int, subscriptions: Subscriptions, count: int, weights: NDArray[np.float64] | None = None
) -> Publications:
    """Events on random topics, each from a random subscriber. weights: [topic], how often a topic has one;
    left out, all alike. A topic without subscribers has none."""
    start, node = subscriptions.by_topic()
    size = np.diff(start)
    reach = np.cumsum((np.ones(size.size) if weights is None else weights) * (size > 0))
    if count and (not reach.size or reach[-1] <= 0):
        raise InputError("nobody subscribes to a topic that could have an event")
    number = np.arange(count)
    point = unit_array(stream(seed, _TOPICS, 0, 0), number) * (reach[-1] if count else 0)
    topic = np.searchsorted(reach, point, side="right")
    place = below_array(stream(seed, _PUBLISHERS, 0, 0), number, size[topic])
    return Publications(node[start[topic] + place].astype(np.int64), topic.astype(np.int64))
