"""A run of whole peers, live or simulated, measured by the definitions of sim/measure/metrics.py.

Every event is a publication of its own. A delivery is *due* from every node that had joined the topic when
the event was published and has not left it when the event is judged, some time later: what comes after that
is late. A node *subscribes* from when it joins a topic or is handed one of its events in time. As everywhere,
copies count at subscribers; an event message is unwanted where it goes to a node that does not subscribe to
its topic, a message without an event is control traffic, and both count where they are sent. Control traffic
is told for a node on line and a cycle.

Facts may come from several processes in any order; what is measured depends on the times in them alone.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vinecast.core.dissemination import FETCHED, MISSED
from vinecast.core.machine import SECOND_US
from vinecast.sim.measure.histograms import percentile, rounded
from vinecast.sim.measure.metrics import COUNTED, count_delivery, ratios
from vinecast.sim.measure.reduction import RunFacts

PERCENTILES = (50, 90, 99)
EARLY_US = SECOND_US
"""How much later than what is told of it the publication of an event may become known (ours); what belongs to
no event by then is a stranger's."""
JUDGED_MAX = 10_000
"""Events that are known as judged (ours): what comes of them is late."""
STAYS_MAX = 4
"""Times of a node in a topic that are remembered (ours), the latest."""


@dataclass(frozen=True, slots=True)
class JudgedEvent:
    """What became of an event."""

    event: int
    topic: str
    publisher: int
    at_us: int
    due: int
    got: int
    """Of those that were due."""
    hops_mean: float
    got_by: frozenset[int]
    """All that it was delivered to in time."""
    due_at: frozenset[int]
    """The nodes that it was due at."""


@dataclass(slots=True)
class _OpenEvent:
    """An event that is not judged yet."""

    topic: str
    publisher: int
    at_us: int
    got: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Node → hops and time of the first delivery."""
    copies: Counter[int] = field(default_factory=Counter)


class PeerRunMeter:
    """Measures one run. ``patience_us``: how long after its publication an event is judged; ``period_us``: a
    cycle."""

    def __init__(self, patience_us: int, period_us: int) -> None:
        self.published = self.missed = self.repeated = self.strangers = self.late = 0
        """Events that were judged, those of them that somebody missed, deliveries of what a node was handed
        before, and of events that none of the run's nodes published; deliveries after the judgement."""
        self.cell = np.zeros(len(COUNTED), dtype=np.int64)
        """What is counted (sim/measure/metrics.py)."""
        self.dropped: Counter[str] = Counter()
        self.unreported = 0
        self._patience_us, self._period_us = patience_us, period_us
        self._numbers: dict[str, int] = {}
        """Id in hex → the node's number"""
        self._open: dict[int, _OpenEvent] = {}
        self._early: dict[int, list[tuple[int, int, int | None]]] = {}
        """Event that is not known → (node, time, hops or None for a copy)"""
        self._judged: dict[int, None] = {}
        self._stays: dict[str, dict[int, list[tuple[int, int | None]]]] = {}
        """Topic → node → from when until when"""
        self._since: dict[str, dict[int, int]] = {}
        """Topic → node → since when it subscribes"""
        self._sent: dict[str, Counter[str]] = {}
        self._control: dict[str, list[int]] = {}
        self._online_us = 0
        self._histograms: dict[str, Counter[int]] = {
            name: Counter() for name in ("hops", "copies", "latency_us", "link_us")
        }

    # What is told.

    def know(self, peer: bytes, number: int) -> None:
        """A node of the run."""
        self._numbers[peer.hex()] = number

    def add(self, facts: RunFacts) -> None:
        """Take what a process reduced."""
        for topic, node, at_us, is_in in facts.changes:
            if not is_in:
                self.leave(topic, node, at_us)
            elif topic:
                self._join(topic, node, at_us)
        for event, topic, node, at_us in facts.published:
            self._open[event] = _OpenEvent(topic, node, at_us)
            for early in self._early.pop(event, ()):
                self._tell(event, *early)
        for event, node, at_us in facts.copies:
            self._tell(event, node, at_us, None)
        for event, node, hops, at_us in facts.delivered:
            self._tell(event, node, at_us, hops)
        for peer, topics in facts.events_sent.items():
            self._sent.setdefault(peer, Counter()).update(topics)
        for kind, (messages, size) in facts.control.items():
            control = self._control.setdefault(kind, [0, 0])
            control[0] += messages
            control[1] += size
        self.dropped.update(facts.dropped)
        self._online_us += facts.online_us
        self.unreported += facts.unreported

    def _join(self, topic: str, node: int, at_us: int) -> None:
        stays = self._stays.setdefault(topic, {}).setdefault(node, [])
        if not stays or stays[-1][1] is not None:  # else it was there, and did not say that it left
            stays.append((at_us, None))
            del stays[:-STAYS_MAX]
        self._subscribe(topic, node, at_us)

    def leave(self, topic: str, node: int, at_us: int) -> None:
        """A node leaves a topic, or, without one, all of them."""
        for nodes in [self._stays.get(topic, {})] if topic else list(self._stays.values()):
            stays = nodes.get(node)
            if stays and stays[-1][1] is None:
                stays[-1] = stays[-1][0], at_us

    def _subscribe(self, topic: str, node: int, at_us: int) -> None:
        since = self._since.setdefault(topic, {})
        since[node] = min(at_us, since.get(node, at_us))

    def _tell(self, event: int, node: int, at_us: int, hops: int | None) -> None:
        """A copy of an event, or its delivery, if there are hops."""
        found = self._open.get(event)
        if found is None:
            if event not in self._judged:
                self._early.setdefault(event, []).append((node, at_us, hops))
            elif hops is not None:
                self.late += 1
            return
        if at_us >= found.at_us + self._patience_us:
            self.late += hops is not None
            return
        if hops is None:
            found.copies[node] += 1
            return
        self._subscribe(found.topic, node, at_us)
        self.repeated += node in found.got
        if node not in found.got or at_us < found.got[node][1]:
            found.got[node] = hops, at_us

    # Judging.

    @property
    def under_way(self) -> int:
        """Events that are not judged yet."""
        return len(self._open)

    @property
    def all_arrived(self) -> bool:
        """Whether nothing is missing of those, as far as is known."""
        return all(
            node in event.got
            for event in self._open.values()
            for node in self._due(event.topic, event.at_us, event.at_us)
        )

    def judge(self, upto_us: int) -> list[JudgedEvent]:
        """Judge the events that had their time, if all is known up to a time."""
        ripe = [n for n, event in self._open.items() if event.at_us + self._patience_us <= upto_us]
        for number, told in list(self._early.items()):
            if all(at_us + EARLY_US <= upto_us for _, at_us, _ in told):
                del self._early[number]
                self.strangers += sum(hops is not None for _, _, hops in told)
        return self._judge(ripe)

    def finish(self) -> list[JudgedEvent]:
        """The run is over: judge all that is left."""
        self.strangers += sum(hops is not None for told in self._early.values() for _, _, hops in told)
        self._early.clear()
        return self._judge(list(self._open))

    def _judge(self, numbers: Iterable[int]) -> list[JudgedEvent]:
        judged = [self._close(number, self._open.pop(number)) for number in numbers]
        self._judged.update((one.event, None) for one in judged)
        while len(self._judged) > JUDGED_MAX:
            del self._judged[next(iter(self._judged))]
        return sorted(judged, key=lambda one: (one.at_us, one.event))

    def _due(self, topic: str, at_us: int, until_us: int) -> set[int]:
        """Who was there at a time, and has not left by another."""
        return {
            node
            for node, stays in self._stays.get(topic, {}).items()
            if any(begin <= at_us and (end is None or end >= until_us) for begin, end in stays)
        }

    def _close(self, number: int, event: _OpenEvent) -> JudgedEvent:
        until_us = event.at_us + self._patience_us
        due = self._due(event.topic, event.at_us, until_us)
        before = self.cell.copy()
        for node, since_us in self._since.get(event.topic, {}).items():
            hops, at_us = event.got.get(node, (MISSED, 0))
            copies = event.copies[node]
            if since_us >= until_us or not (node in due or node in event.got or copies):
                continue
            if node in event.got:
                hops = FETCHED if hops < 0 else hops
                self._histograms["copies"][copies] += 1
                self._measure_way(hops, at_us - event.at_us)
            count_delivery(self.cell, node in due, hops, copies)
        counted = dict(zip(COUNTED, (self.cell - before).tolist(), strict=True))
        self.published += 1
        self.missed += counted["hits"] < counted["due"]
        mean = counted["hops"] / counted["received"] if counted["received"] else 0.0
        return JudgedEvent(
            *(number, event.topic, event.publisher, event.at_us),
            *(counted["due"], counted["hits"], mean),
            *(frozenset(event.got), frozenset(due)),
        )

    def _measure_way(self, hops: int, took_us: int) -> None:
        if hops > 0:
            self._histograms["hops"][hops] += 1
            self._histograms["latency_us"][int(rounded(np.array([took_us]))[0])] += 1
        if hops == 1:
            self._histograms["link_us"][int(rounded(np.array([took_us]))[0])] += 1

    # What came of it.

    @property
    def link_latency_ms(self) -> float:
        """The median of what events took that travelled one link."""
        return (percentile(self._histograms["link_us"], 50) or 0) / 1000

    def totals(self) -> dict[str, int]:
        """What is counted of deliveries, by name."""
        return dict(zip(COUNTED, self.cell.tolist(), strict=True))

    def measures(self) -> dict[str, Any]:
        """The metrics of the run so far, by the names that the pipeline's measures have."""
        received, unwanted = self._event_traffic()
        node_cycles = self._online_us / self._period_us
        messages = sum(messages for messages, _ in self._control.values())
        size = sum(size for _, size in self._control.values())
        return {
            **self.totals(),
            "published": self.published,
            **ratios(self.cell),
            **self._spread("hops", "hops", 1),
            **self._spread("copies", "copies", 1),
            **self._spread("latency_us", "latency_ms", 1000),
            "latency_ms_mean": self._mean_ms(),
            "traffic_overhead": unwanted / received if received else None,
            "control_messages": messages / node_cycles if node_cycles else None,
            "control_bytes": size / node_cycles if node_cycles else None,
        }

    def control(self) -> dict[str, tuple[int, int]]:
        """Kind of message → control messages sent, and their bytes."""
        return {kind: (messages, size) for kind, (messages, size) in sorted(self._control.items())}

    def _event_traffic(self) -> tuple[int, int]:
        """Event messages that the run's nodes were sent, and those that they did not want."""
        received = unwanted = 0
        for peer, topics in self._sent.items():
            number = self._numbers.get(peer)
            if number is None:
                continue
            for topic, count in topics.items():
                received += count
                unwanted += count if number not in self._since.get(topic, {}) else 0
        return received, unwanted

    def _spread(self, what: str, name: str, unit: int) -> dict[str, float | None]:
        found = self._histograms[what]
        values = {f"{name}_p{percent}": percentile(found, percent) for percent in PERCENTILES}
        values[f"{name}_max"] = max(found, default=None)
        return {key: None if value is None else value / unit for key, value in values.items()}

    def _mean_ms(self) -> float | None:
        found = self._histograms["latency_us"]
        count = sum(found.values())
        return sum(value * count for value, count in found.items()) / count / 1000 if count else None
