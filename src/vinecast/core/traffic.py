"""Traffic about topics, sorted by whether it is of use to the nodes that handle it. One definition for all.

An *event message* carries an event. A *control message* keeps up the structure of one topic (a heartbeat, a
request for a parent); one that speaks for several topics counts once for each. Both are *wanted* at a node
that subscribes to the topic and *unwanted* at one that does not. What serves the overlay as a whole (gossip,
Pastry's upkeep) is about no topic: neither, and not counted here.

*Passing through* a node is what it receives and what it sends: S0 §6.5 measures "overall traffic (both
control and application traffic) passing through each node". *Traffic overhead*, the metric of all systems, is
the share of event messages received that are unwanted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""[wanted, node]: row 0 counts what the node did not want, row 1 what it did"""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Messages of a population, over some time."""

    events_received: Counts
    events_sent: Counts
    control_received: Counts
    control_sent: Counts

    @classmethod
    def none(cls, nodes: int) -> "Traffic":
        """Nothing yet, to be added to."""
        return cls(*(np.zeros((2, nodes), dtype=np.int64) for _ in range(4)))

    @property
    def received(self) -> Counts:
        """Events and control."""
        return self.events_received + self.control_received

    @property
    def passing(self) -> Counts:
        """Events and control, received and sent."""
        return self.received + self.events_sent + self.control_sent


def unwanted_share(counts: Counts) -> NDArray[np.float64]:
    """The share of a node's messages that it did not want; 0 where it had none. [node]"""
    share: NDArray[np.float64] = counts[0] / np.maximum(counts.sum(axis=0), 1)
    return share


def unwanted_overall(counts: Counts) -> float:
    """The share of all messages that were not wanted where they passed."""
    return float(counts[0].sum() / max(int(counts.sum()), 1))
