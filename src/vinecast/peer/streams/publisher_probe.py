"""The publisher probe: publishers that are new to a stream wait a moment to be told what it has.

An event follows the heads that its publisher knows. Whoever knows none would begin the stream anew, at height
1: in the order that all nodes share its event would come before all others, retention would take it first,
and a stream on which many publish once would have nothing but first events. So before its first event a
publisher asks those who may have the stream, and gets the heads. It waits until the replicas are known and
connected, and a moment longer, and then goes on with what it knows: a stream that is new has nobody who could
tell. Where a replica cannot be reached it waits longer, since another one may have the stream.
"""

MOMENT_US = 250_000
"""For answers, once there are connections to those who may have the stream (ours)."""
LONGEST_US = 2_000_000
"""In all (ours)."""


class PublisherProbe:
    """Topics on which one node is about to publish for the first time."""

    def __init__(self) -> None:
        self._until_us: dict[str, int] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._until_us

    def begin(self, topic: str, now_us: int) -> None:
        """It is about to publish on a topic."""
        self._until_us[topic] = now_us + LONGEST_US

    def hurry(self, topic: str, now_us: int) -> None:
        """All who may have the stream can be asked."""
        if topic in self:
            self._until_us[topic] = min(self._until_us[topic], now_us + MOMENT_US)

    def waits(self, topic: str, now_us: int) -> bool:
        """Whether it should wait still."""
        return now_us < self._until_us.get(topic, 0)

    def sweep(self, now_us: int) -> None:
        """Forget topics on which nobody published after all."""
        self._until_us = {topic: until_us for topic, until_us in self._until_us.items() if now_us < until_us}

    def end(self, topic: str) -> None:
        """It publishes."""
        self._until_us.pop(topic, None)
