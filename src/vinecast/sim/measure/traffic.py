"""A meter of traffic about topics: it is told of every message, counts, and keeps none.

What counts as what is defined in ``core.traffic``. Give ``Meter.message`` to an engine as its ``on_send``;
what is lost on the way counts as received.
"""

from collections.abc import Callable
from typing import Any

from vinecast.core.traffic import Counts, Traffic


class Meter:
    """Counts a population's traffic. ``wants(node, topic)``: whether the node subscribes to the topic."""

    def __init__(self, nodes: int, wants: Callable[[int, int], bool]) -> None:
        self._nodes = nodes
        self._wants = wants
        self._traffic = Traffic.none(nodes)

    def message(self, sender: int, receiver: int, message: Any) -> None:
        """A message is sent."""
        traffic = self._traffic
        if hasattr(message, "event"):
            self._count(traffic.events_sent, sender, message.topic)
            self._count(traffic.events_received, receiver, message.topic)
            return
        topics = (message.topic,) if hasattr(message, "topic") else getattr(message, "topics", ())
        for topic in topics:
            self._count(traffic.control_sent, sender, topic)
            self._count(traffic.control_received, receiver, topic)

    def add_received(self, events: Counts) -> None:
        """So many events were received, unwanted and wanted. events: [wanted, node]"""
        self._traffic.events_received[:] += events

    def _count(self, counts: Counts, node: int, topic: int) -> None:
        counts[int(self._wants(node, topic)), node] += 1

    def take(self) -> Traffic:
        """What was counted since this was last asked."""
        counted, self._traffic = self._traffic, Traffic.none(self._nodes)
        return counted
