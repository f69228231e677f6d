"""Trace records of whole peers, reduced while they come to what measures need of them: events, deliveries,
copies, who took part when, and counts of all else.

A process reduces the records of its own nodes and hands over, now and then, what has come together
(``RunFacts``); ``sim/measure/peer_runs`` measures it. Memory is bounded by what comes between two of these
times.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from vinecast.core.trace import NamedRecord, TraceKind

FACTS_MAX = 200_000
"""Deliveries and copies that wait to be handed over (ours); further ones are counted and left out."""


class RunFacts(Struct):
    """What trace records told in a time. Nodes have numbers that the run knows them by, events their own."""

    upto_us: int = 0
    """All records up to this time are in here, or were before."""
    published: list[tuple[int, str, int, int]] = field(default_factory=list)
    """(event, topic, node, time)"""
    delivered: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(event, node, hops, time)"""
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    """(event, node, time) of every copy that was received, the first among them."""
    changes: list[tuple[str, int, int, bool]] = field(default_factory=list)
    """(topic, node, time, whether it joined or left); without a topic, the node came up or went. In order."""
    events_sent: dict[str, dict[str, int]] = field(default_factory=dict)
    """Receiver, by its id in hex → topic → messages with events that it was sent."""
    control: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Kind of message → other messages that were sent, and their bytes."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Reason → copies and messages that were dropped."""
    online_us: int = 0
    """How long nodes were on line, all together."""
    unreported: int = 0
    """Deliveries and copies for which there was no room."""


class TraceReducer:
    """Reduces the records of some nodes. ``topics``: those whose events are measured; None for all."""

    def __init__(self, topics: frozenset[str] | None = None) -> None:
        self._topics = topics
        self._facts = RunFacts()
        self._sent: Counter[tuple[bytes, str]] = Counter()
        self._control: dict[str, list[int]] = {}
        self._dropped: Counter[str] = Counter()
        self._last_us: dict[int, int] = {}

    def take(self, node: int, records: Iterable[NamedRecord]) -> None:
        """Take records of a node, in their order."""
        for record in records:
            self._pass_time(node, record)
            match record.kind:
                case TraceKind.SENT:
                    self._note_sent(record)
                case TraceKind.RECEIVED_FIRST | TraceKind.RECEIVED_AGAIN:
                    self._note(self._facts.copies, record, (record.event, node, record.time_us))
                case TraceKind.DELIVERED:
                    self._note(
                        self._facts.delivered, record, (record.event, node, record.hops, record.time_us)
                    )
                case TraceKind.DROPPED:
                    self._dropped[record.reason] += 1
                case TraceKind.PUBLISHED:
                    if self._is_measured(record.topic):
                        self._facts.published.append((record.event, record.topic, node, record.time_us))
                case TraceKind.JOINED | TraceKind.LEFT as kind:
                    is_in = kind is TraceKind.JOINED
                    self._facts.changes.append((record.topic, node, record.time_us, is_in))

    def _pass_time(self, node: int, record: NamedRecord) -> None:
        """A node is on line from its ``JOINED`` to its last record."""
        if record.kind is not TraceKind.JOINED or record.topic:
            self._facts.online_us += record.time_us - self._last_us.get(node, record.time_us)
        self._last_us[node] = record.time_us

    def _is_measured(self, topic: str) -> bool:
        return self._topics is None or topic in self._topics

    def _note(self, facts: list[Any], record: NamedRecord, fact: tuple[int, ...]) -> None:
        if not self._is_measured(record.topic):
            return
        if len(self._facts.delivered) + len(self._facts.copies) < FACTS_MAX:
            facts.append(fact)
        else:
            self._facts.unreported += 1

    def _note_sent(self, record: NamedRecord) -> None:
        if record.event >= 0:
            self._sent[record.peer, record.topic] += 1
            return
        control = self._control.setdefault(record.message, [0, 0])
        control[0] += 1
        control[1] += record.size

    def facts(self, upto_us: int) -> RunFacts:
        """What has come together since this was last asked. upto_us: no record that comes later is older"""
        facts, self._facts = self._facts, RunFacts()
        for (peer, topic), count in self._sent.items():
            facts.events_sent.setdefault(peer.hex(), {})[topic] = count
        facts.control = {kind: (messages, size) for kind, (messages, size) in self._control.items()}
        facts.dropped, facts.upto_us = dict(self._dropped), upto_us
        self._sent.clear()
        self._control.clear()
        self._dropped.clear()
        return facts
