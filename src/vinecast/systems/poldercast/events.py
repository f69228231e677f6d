"""PolderCast's events in a sweep: one for every topic, on an overlay that stands still meanwhile."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import choose_publishers
from vinecast.core.dissemination import MISSED, Dissemination
from vinecast.protocols.ringcast import sweep as ringcast
from vinecast.protocols.ringcast import timed
from vinecast.protocols.ringcast.timed import Delays

if TYPE_CHECKING:
    from vinecast.systems.poldercast.sweep import PolderCastSweep

__all__ = ["Delays", "Dissemination", "EventMemory", "RingPublication"]

Divide = Callable[[int, Callable[[int, int, int], None]], object]
"""Runs a pass over 0 … count−1, in ranges, on all threads (``SweepEngine.divide``)."""


class EventMemory:
    """Working memory for events, one a worker, kept from one publication to the next."""

    def __init__(self) -> None:
        self._shape = 0, 0, 0, 0
        self._memory: dict[int, ringcast.RingMemory] = {}
        self._queue: dict[int, timed.Queue] = {}

    def fit(self, nodes: int, subscribers: int, slots: int, fanout: int) -> None:
        """Be large enough for topics of so many subscribers; see ``ringcast.make_memory``."""
        shape = nodes, subscribers, slots, fanout
        if shape != self._shape:
            self._shape = shape
            self._memory.clear()
            self._queue.clear()

    def memory_of(self, worker: int) -> ringcast.RingMemory:
        """A worker's own."""
        if worker not in self._memory:
            self._memory[worker] = ringcast.make_memory(*self._shape)
        return self._memory[worker]

    def queue_of(self, worker: int) -> timed.Queue:
        """A worker's own."""
        if worker not in self._queue:
            _, subscribers, _, fanout = self._shape
            self._queue[worker] = timed.make_queue(subscribers, fanout)
        return self._queue[worker]


class RingPublication:
    """One event a topic, on its way."""

    def __init__(
        self,
        sweep: "PolderCastSweep",
        epoch: int,
        fanout: int,
        shortcuts: str,
        delays: Delays | None,
        publishers: NDArray[np.bool_],
    ) -> None:
        near, sample = sweep.near_peers, sweep.cyclon.peers
        if shortcuts == "cyclon" or not sweep.config.with_vicinity:
            near = near[:, :0]
        if shortcuts == "vicinity":
            sample = sample[:, :0]
        self._links = ringcast.RingLinks(sweep.ring_peers, near, sample, sweep.online)
        self._delays = delays
        self._forwarding = ringcast.Forwarding(
            sweep.seed, fanout, shortcuts == "mixed", sweep.config.stand_by
        )
        self._subscribers = sweep.profiles.subscribers()
        self._room = sweep.room
        largest = int(np.diff(self._subscribers.start).max(initial=1))
        self._again = sweep.second_ring(self._links, self._forwarding)
        slots, copies = near.shape[1] + sample.shape[1], fanout
        if self._again.carries.size:
            also = self._again.links
            slots, copies = max(slots, also.near.shape[1] + also.sample.shape[1]), 2 * max(fanout, 2)
        self._room.fit(sweep.nodes, largest, slots, copies)
        self.topics = sweep.profiles.topic_ids.size
        self.first_event = epoch * self.topics
        pool = sweep.profiles.topics.size
        self.dissemination = Dissemination(
            choose_publishers(sweep.seed, epoch, sweep.profiles, publishers),
            np.full(pool, MISSED, dtype=np.int16),
            np.zeros(pool, dtype=np.uint16),
            None if delays is None else np.full(pool, MISSED, dtype=np.int64),
        )

    def run(self, divide: Divide) -> Dissemination:
        """Let every event spread."""
        dissemination, delays = self.dissemination, self._delays
        overlay = ringcast.RingOverlay(self._links, self._forwarding, self._again)
        event_round = ringcast.EventRound(self.first_event, self._subscribers)

        def evenly(begin: int, end: int, worker: int) -> None:
            ringcast.disseminate_evenly(
                overlay, event_round, self._room.memory_of(worker), dissemination, begin, end
            )

        def in_time(begin: int, end: int, worker: int) -> None:
            assert delays is not None
            memory, queue = self._room.memory_of(worker), self._room.queue_of(worker)
            timed.disseminate_in_time(overlay, delays, event_round, memory, queue, dissemination, begin, end)

        divide(self.topics, evenly if delays is None else in_time)
        return dissemination
