"""Which events of a stream are older than this node's interest in it.

Whoever begins to follow a stream *now* gets the newest events that others have (S3 §4.5), so that it can go
on from there. For an application that reads from now on they are old: they are told apart as those that
others had before it was settled where the stream begins, that did not come on their own, and that are older
by their publishers' clocks.
"""

from collections.abc import Iterable

from vinecast.core.seals import Sealed

BEFORE_MAX = 1024
"""Events of one topic that are told apart (ours)."""


class Beginnings:
    """One node's, of all its topics."""

    def __init__(self) -> None:
        self._since_us: dict[str, int] = {}
        self._before: dict[str, set[bytes]] = {}

    def begin(self, topic: str, now_us: int) -> None:
        """The node follows a topic; the first time counts."""
        self._since_us.setdefault(topic, now_us)

    def end(self, topic: str) -> None:
        """It follows it no longer."""
        self._since_us.pop(topic, None)
        self._before.pop(topic, None)

    def hear(self, topic: str, heads: Iterable[bytes]) -> None:
        """Others have these, and it is not settled where the stream begins."""
        before = self._before.setdefault(topic, set())
        if len(before) < BEFORE_MAX:
            before.update(heads)

    def came(self, sealed: Sealed) -> None:
        """An event came on its own: it is new."""
        if self._before:
            self._before.get(sealed.record.topic, set()).discard(sealed.cid)

    def is_old(self, sealed: Sealed) -> bool:
        """Whether an event is older than the node's interest."""
        topic = sealed.record.topic
        before = self._before.get(topic)
        return before is not None and sealed.cid in before and sealed.record.time_us < self._since_us[topic]
