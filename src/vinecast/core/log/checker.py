"""What durable streams promise, checked: written once, for simulated nodes and for real ones.

    Nothing that was acknowledged is lost.
    Nothing is delivered again that a consumer has acknowledged.
    Everybody who reads a stream to its end has the same events in the same order.
    Only what its publisher signed is delivered, and parents come before their children.

Whoever runs nodes tells the checker what happens, and asks at the end what went wrong. Readers are named by
whatever names them in the run. A reader that began late, or lost events to retention, is not ``whole``: it is
held to the other promises only.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import cid_text

FAULTS_MAX = 20
"""Faults that are told in words; more are only counted."""


@dataclass(slots=True)
class _Reader:
    """One consumer of one topic."""

    delivered: dict[bytes, int] = field(default_factory=dict)
    """Event → how often."""
    acknowledged: set[bytes] = field(default_factory=set)


class StreamChecker:
    """Checks what durable streams promise in one run, and counts the faults."""

    def __init__(self) -> None:
        self.count = 0
        """Faults so far."""
        self._told: list[str] = []
        self._published: dict[bytes, SignedEvent] = {}
        self._holders: dict[bytes, int] = {}
        self._readers: dict[tuple[Hashable, str], _Reader] = {}

    # What happens.

    def published(self, signed: SignedEvent) -> None:
        """An honest application has published an event."""
        self._published[signed.cid] = signed

    def acknowledged(self, cid: bytes, holders: int) -> None:
        """A publisher was told that so many nodes hold its event."""
        self._holders[cid] = max(holders, self._holders.get(cid, 0))

    def delivered(self, reader: Hashable, signed: SignedEvent, whole: bool = True) -> None:
        """A consumer was handed an event."""
        topic, cid = signed.record.topic, signed.cid
        own = self._readers.setdefault((reader, topic), _Reader())
        genuine = self._published.get(cid)
        if genuine is None or genuine.block != signed.block:
            self._fault(f"{reader} was handed {cid_text(cid)}, which nobody published")
        if cid in own.acknowledged:
            self._fault(f"{reader} was handed {cid_text(cid)} again, which it had acknowledged")
        if whole and not all(parent in own.delivered for parent in signed.record.parents):
            self._fault(f"{reader} was handed {cid_text(cid)} before its parents")
        own.delivered[cid] = own.delivered.get(cid, 0) + 1

    def consumed(self, reader: Hashable, topic: str, cids: Iterable[bytes]) -> None:
        """A consumer's acknowledgement of events is safe."""
        self._readers.setdefault((reader, topic), _Reader()).acknowledged.update(cids)

    # What went wrong.

    def holders(self, cid: bytes) -> int:
        """How many nodes have said that they hold an event."""
        return self._holders.get(cid, 0)

    def events(self, topic: str) -> list[SignedEvent]:
        """What was published on a topic."""
        return [signed for signed in self._published.values() if signed.record.topic == topic]

    def finish(self, topic: str, ends: Mapping[Any, Sequence[bytes]], enough: int) -> None:
        """The end: for each reader that has read a whole stream, its events in the order that all share.
        Events with ``enough`` holders count as acknowledged."""
        safe = {s.cid for s in self.events(topic) if self.holders(s.cid) >= enough}
        for reader, cids in ends.items():
            for cid in sorted(safe.difference(cids)):
                self._fault(f"{reader} lacks {cid_text(cid)}, which {self.holders(cid)} nodes acknowledged")
            own = self._readers.get((reader, topic), _Reader())
            if len(cids) != len(set(cids)) or set(cids) != set(own.delivered):
                self._fault(f"{reader} was not handed exactly what it keeps of {topic}")
        for (one, first), (other, second) in zip(ends.items(), list(ends.items())[1:], strict=False):
            if list(first) != list(second):
                lacks = len(set(first) ^ set(second))
                self._fault(f"{one} and {other} differ in {topic}: {lacks} events, or their order")

    @property
    def faults(self) -> list[str]:
        """In words, the first of them."""
        return list(self._told)

    def _fault(self, text: str) -> None:
        self.count += 1
        if len(self._told) < FAULTS_MAX:
            self._told.append(text)
