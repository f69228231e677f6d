"""The start horizon: which events of a stream are older than this node's subscription.

Whoever begins to follow a stream *now* gets the newest events that others have (S3 §4.5), so that it can go
on from there; and when two publishers began the same stream without knowing of each other, the whole of the
branch that it hears of later. For an application that reads from now on they are old: they are told apart as
those that had to be fetched soon after this node began, and that are older than that by their publishers'
clocks. A slow clock can hide an event only then, and only one that did not come by itself.
"""

from vinecast.core.log.batch_signature import SignedEvent

SOON_US = 60_000_000
"""As long as a stream is new here (ours): it is gathered within a few periods."""
OLD_MAX = 4096
"""Events of one topic that are told apart (ours)."""


class StartHorizon:
    """Tells one node, for each of its topics, which events are older than its subscription."""

    def __init__(self) -> None:
        self._since_us: dict[str, int] = {}
        self._old: dict[str, set[bytes]] = {}

    def begin(self, topic: str, now_us: int) -> None:
        """The node follows a topic; the first time counts."""
        self._since_us.setdefault(topic, now_us)

    def end(self, topic: str) -> None:
        """It follows it no longer."""
        self._since_us.pop(topic, None)
        self._old.pop(topic, None)

    def fetched(self, signed: SignedEvent, now_us: int) -> None:
        """An event was fetched, and is about to be read."""
        topic = signed.record.topic
        since_us = self._since_us.get(topic)
        if since_us is None or now_us >= since_us + SOON_US or signed.record.time_us >= since_us:
            return
        old = self._old.setdefault(topic, set())
        if len(old) < OLD_MAX:
            old.add(signed.cid)

    def is_old(self, signed: SignedEvent) -> bool:
        """Whether an event is older than the node's subscription."""
        return bool(self._old) and signed.cid in self._old.get(signed.record.topic, ())
