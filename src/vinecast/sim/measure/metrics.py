"""Metrics of topic systems, one definition each.

They are stated over *subscriptions*: pairs of a node and a topic of its, in the order of profiles' pool. What
became of one event a topic is a ``Dissemination`` (hops and copies a subscription); a sweep gives it
directly, and ``DisseminationMeter`` makes it from trace records. Whole peers, live or simulated, are measured
event by event (sim/measure/peer_runs.py), by the same functions.

hit ratio        first deliveries / subscriptions of on-line nodes that should have got the event
hit by topic     the mean over topics of a topic's own hit ratio (S4 §6.6.4), where small topics weigh as much
                 as large ones
miss ratio       1 − hit ratio
hops             links that the first copy travelled, over deliveries other than the publisher's own
latency          time from publication to the first copy, over the same deliveries, where links have one
duplication      copies received / subscribers that have the event, the publisher among them: since each of
                 those forwards it at most f times, it is at most f (S0 §3)
missing links    ring links (nearest lower and nearest higher on-line subscriber) that are not in place
incomplete rings topics with at least one missing link, of those with at least two on-line subscribers
ring degree      distinct peers among a node's nearest ring neighbours, all topics together

Hit ratio, hops and duplication are also taken by *class*: over subscriptions to topics of about the same
popularity (subscribers), or of nodes with about as many subscriptions. Classes are 1, 2–3, 4–7, 8–15, ….
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles, Table
from vinecast.core.dissemination import MISSED, Dissemination
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.systems.poldercast.events import Delays
from vinecast.systems.poldercast.sweep import PolderCastSweep

if TYPE_CHECKING:
    from vinecast.sim.engine.sweep import SweepEngine

CLASSES = 32
"""Class c has sizes from 2^c to 2^(c+1) − 1; there is none for what has no size."""
BY = ("popularity", "subscriptions")
COUNTED = ("due", "hits", "have", "copies", "received", "hops")
"""What is counted of subscriptions: those that should get the event, of which did; those that have it, and
copies they received; those that have it from somebody else, and hops it took."""
LATENCIES = ("latency_ms_mean", "latency_ms_p50", "latency_ms_p99", "latency_ms_max")
_DUE, _HITS, _HAVE, _COPIES, _RECEIVED, _HOPS = range(len(COUNTED))

Tally = NDArray[np.int64]
"""[BY, class, what is counted]. Tallies of several measurements can be added up."""


@dataclass(frozen=True, slots=True)
class RingTargets:
    """The rings as they should be: lower, higher [pool], NOBODY where a subscription has no ring to be in."""

    lower: NDArray[np.int32]
    higher: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class RingState:
    """How far the rings are from what they should be."""

    missing_links: float
    incomplete_rings: float
    tally: Tally
    """[BY, class, (links, missing ones)]"""


@dataclass(frozen=True, slots=True)
class DisseminationStats:
    """What became of one event a topic."""

    hit_ratio: float
    hops_mean: float
    hops_max: int
    duplication: float
    disconnected_topics: float
    """Share of topics whose event did not reach everybody that it should have."""
    nodes_missing: float
    """Share of on-line nodes that missed at least one event."""
    hit_by_topic: float
    latency_ms_mean: float | None = None
    """Of deliveries other than the publisher's own, where latencies are known; and so the others."""
    latency_ms_p50: float | None = None
    latency_ms_p99: float | None = None
    latency_ms_max: float | None = None


# Rings.


def ring_targets(profiles: Profiles, online: NDArray[np.bool_]) -> RingTargets:
    """Every topic's on-line subscribers in the order of their ids, each with its neighbours."""
    pool, topics = profiles.topics.size, profiles.topic_ids.size
    lower = np.full(pool, NOBODY, dtype=np.int32)
    higher = np.full(pool, NOBODY, dtype=np.int32)
    ends = np.full((4, topics), NOBODY, dtype=np.int64)
    _link_rings(profiles.table, online, lower, higher, ends)
    return RingTargets(lower, higher)


@rule
def _link_rings(
    table: Table,
    online: NDArray[np.bool_],
    lower: NDArray[np.int32],
    higher: NDArray[np.int32],
    ends: NDArray[np.int64],
) -> None:
    """Nodes in ascending order meet, in each of their topics, whoever came last. ends: [4, topic], empty"""
    first_node, first_row, last_node, last_row = ends[0], ends[1], ends[2], ends[3]
    for p in range(table.beg.size):
        if not online[p]:
            continue
        for row in range(table.beg[p], table.beg[p] + table.cnt[p]):
            topic = table.topics[row]
            if first_node[topic] == NOBODY:
                first_node[topic], first_row[topic] = p, row
            else:
                lower[row] = last_node[topic]
                higher[last_row[topic]] = p
            last_node[topic], last_row[topic] = p, row
    for topic in range(ends.shape[1]):
        if first_row[topic] != last_row[topic]:
            lower[first_row[topic]] = last_node[topic]
            higher[last_row[topic]] = first_node[topic]


def ring_state(sweep: PolderCastSweep, targets: RingTargets) -> RingState:
    """Compare the rings of a population with what they should be."""
    tally = np.zeros((len(BY), CLASSES, 2), dtype=np.int64)
    wrong = np.full(sweep.profiles.topic_ids.size, NOBODY, dtype=np.int64)
    _compare_rings(
        sweep.ring_peers, targets.lower, targets.higher, sweep.profiles.table, popularity(sweep.profiles),
        tally, wrong,
    )  # fmt: skip
    links, missing = tally[0].sum(axis=0).tolist()
    rings, broken = int((wrong != NOBODY).sum()), int((wrong > 0).sum())
    return RingState(missing / max(links, 1), broken / max(rings, 1), tally)


@rule
def _size_class(size: int) -> int:
    found = 0
    while size > 1:
        size >>= 1
        found += 1
    return found


@rule
def _compare_rings(
    ring_peers: NDArray[np.int32],
    lower: NDArray[np.int32],
    higher: NDArray[np.int32],
    table: Table,
    subscribers: NDArray[np.int64],
    tally: NDArray[np.int64],
    wrong: NDArray[np.int64],
) -> None:
    """wrong: [topic], missing links of its ring; stays NOBODY where there is no ring"""
    half = ring_peers.shape[1] // 2
    for p in range(table.beg.size):
        by_size = _size_class(int(table.cnt[p]))
        for row in range(table.beg[p], table.beg[p] + table.cnt[p]):
            if higher[row] == NOBODY:
                continue
            topic = table.topics[row]
            missing = int(ring_peers[row, 0] != lower[row]) + int(ring_peers[row, half] != higher[row])
            wrong[topic] = max(wrong[topic], 0) + missing
            for by, size in ((0, _size_class(int(subscribers[topic]))), (1, by_size)):
                tally[by, size, 0] += 2
                tally[by, size, 1] += missing


def relays(sweep: PolderCastSweep) -> int:
    """Links that would hand an event to somebody who does not subscribe to its topic."""
    topics, owner = sweep.profiles.topics.astype(np.int64), sweep.profiles.owners().astype(np.int64)
    wanted = np.sort(owner * sweep.profiles.topic_ids.size + topics)
    carriers = sweep.carriers().astype(np.int64)
    asked = (carriers * sweep.profiles.topic_ids.size + topics[:, None])[carriers != NOBODY]
    if asked.size == 0:
        return 0
    found = np.searchsorted(wanted, asked)
    return int((wanted[np.minimum(found, wanted.size - 1)] != asked).sum())


# Events.


def ratios(cell: NDArray[np.int64]) -> dict[str, float | None]:
    """What follows from counts; None where nothing was counted. cell: [what is counted]"""
    due, hits, have, copies, received, hops = cell.tolist()
    return {
        "hit_ratio": hits / due if due else None,
        "miss_ratio": (due - hits) / due if due else None,
        "hops_mean": hops / received if received else None,
        "duplication": copies / have if have else None,
    }


@rule
def count_delivery(cell: NDArray[np.int64], due: bool, hops: int, copies: int) -> None:
    """Count what became of one event at one subscription. cell: [what is counted]; hops: MISSED where it is
    not, FETCHED where they are not known"""
    got, far = hops != MISSED, max(hops, 0)
    cell[_COPIES] += copies
    cell[_DUE] += int(due)
    cell[_HAVE] += int(got)
    cell[_HITS] += int(due and got)
    cell[_RECEIVED] += int(far > 0)
    cell[_HOPS] += far


@dataclass(frozen=True, slots=True)
class Reach:
    """One event a topic, counted: what ``DisseminationStats`` and the classes are made from."""

    tally: Tally
    hops_max: int
    published: int
    """Topics that had an event."""
    disconnected: int
    """… whose event missed somebody."""
    expected: int
    """Nodes that are held to it."""
    missing: int
    """… and missed an event."""
    hit_by_topic: float
    latencies_ms: tuple[float, float, float, float] | None
    """Mean, median, 99 of 100 within, the most; None where latencies are not known."""

    def stats(self) -> DisseminationStats:
        """All subscriptions together."""
        cell = self.tally[0].sum(axis=0)
        found = ratios(cell)
        return DisseminationStats(
            hit_ratio=1.0 if found["hit_ratio"] is None else found["hit_ratio"],
            hops_mean=found["hops_mean"] or 0.0,
            hops_max=self.hops_max,
            duplication=float(cell[_COPIES] / max(cell[_HAVE], 1)),
            disconnected_topics=self.disconnected / max(self.published, 1),
            nodes_missing=self.missing / max(self.expected, 1),
            hit_by_topic=self.hit_by_topic,
            **dict(zip(LATENCIES, self.latencies_ms or (), strict=False)),
        )


def popularity(profiles: Profiles) -> NDArray[np.int64]:
    """How many subscribe to each topic. [topic]"""
    return np.diff(profiles.subscribers().start)


def reach_of(dissemination: Dissemination, profiles: Profiles, expected: NDArray[np.bool_]) -> Reach:
    """Count a dissemination. expected: [node], on line and old enough to be held to it"""
    tally = np.zeros((len(BY), CLASSES, len(COUNTED)), dtype=np.int64)
    others = np.zeros(3, dtype=np.int64)
    topics = np.zeros((profiles.topic_ids.size, 2), dtype=np.int64)
    counted = dissemination._replace(latency_us=None)  # compiled once, with times or without
    _count_deliveries(counted, profiles.table, popularity(profiles), expected, tally, others, topics)
    hops_max, nodes, missing = others.tolist()
    published = int((dissemination.publisher != NOBODY).sum())
    due, hits = topics[topics[:, 0] > 0].T
    mean = float((hits / due).mean()) if due.size else 1.0
    return Reach(
        tally,
        hops_max,
        published,
        int((hits < due).sum()),
        nodes,
        missing,
        mean,
        _latencies_ms(dissemination),
    )


def _latencies_ms(dissemination: Dissemination) -> tuple[float, float, float, float] | None:
    if dissemination.latency_us is None:
        return None
    took_ms = dissemination.latency_us[dissemination.hops > 0] / 1000
    if not took_ms.size:
        return None
    half, most = np.percentile(took_ms, [50, 99]).tolist()
    return float(took_ms.mean()), half, most, float(took_ms.max())


@rule
def _count_deliveries(
    dissemination: Dissemination,
    table: Table,
    subscribers: NDArray[np.int64],
    expected: NDArray[np.bool_],
    tally: NDArray[np.int64],
    others: NDArray[np.int64],
    topics: NDArray[np.int64],
) -> None:
    """others: the most hops, nodes expected, nodes that missed one. topics: [topic, (due, hits)]"""
    publisher, hops, copies = dissemination.publisher, dissemination.hops, dissemination.copies
    for p in range(table.beg.size):
        due, missed = expected[p], False
        of_node = tally[1, _size_class(int(table.cnt[p]))]
        for row in range(table.beg[p], table.beg[p] + table.cnt[p]):
            topic, got = table.topics[row], hops[row] != MISSED
            if publisher[topic] == NOBODY or not (due or got or copies[row] > 0):
                continue
            of_topic, far = tally[0, _size_class(int(subscribers[topic]))], max(int(hops[row]), 0)
            for cell in (of_topic, of_node):
                count_delivery(cell, due, int(hops[row]), int(copies[row]))
            others[0] = max(others[0], far)
            topics[topic, 0] += int(due)
            topics[topic, 1] += int(due and got)
            missed |= due and not got
        others[1] += int(due)
        others[2] += int(missed)


def dissemination_stats(
    dissemination: Dissemination, profiles: Profiles, expected: NDArray[np.bool_]
) -> DisseminationStats:
    """Measure a dissemination. expected: [node], on line and old enough to be held to it"""
    return reach_of(dissemination, profiles, expected).stats()


def class_rows(events: Tally, rings: Tally | None) -> list[dict[str, Any]]:
    """The classes that hold anything, a row each. events: of ``Reach``; rings: of ``RingState``"""
    rows = []
    for by, name in enumerate(BY):
        for size in np.flatnonzero(events[by].any(axis=1)).tolist():
            found = ratios(events[by, size])
            links, missing = (0, 0) if rings is None else rings[by, size].tolist()
            rows.append(
                {
                    "by": name,
                    "from": 2**size,
                    "to": 2 ** (size + 1) - 1,
                    "due": int(events[by, size, _DUE]),
                    **{name: found[name] for name in ("hit_ratio", "hops_mean", "duplication")},
                    "missing_links": missing / links if links else None,
                }
            )
    return rows


def means_by_size(
    size: NDArray[np.int32] | NDArray[np.int64], y: NDArray[Any], by_class: bool
) -> tuple[list[float], list[float]]:
    """Mean of y for every size above zero, or for every class of sizes (1, 2–3, 4–7, …)."""
    there = size > 0
    size, y = size[there], y[there]
    key = np.floor(np.log2(size)).astype(np.int64) if by_class else size.astype(np.int64)
    count = np.bincount(key)
    full = np.flatnonzero(count)
    x_mean = np.bincount(key, weights=size)[full] / count[full]
    y_mean = np.bincount(key, weights=y)[full] / count[full]
    return x_mean.tolist(), y_mean.tolist()


def class_means(
    size: NDArray[np.int32] | NDArray[np.int64], values: NDArray[Any], weights: NDArray[Any] | None = None
) -> dict[int, float]:
    """Sum of values / sum of weights (ones) for every class of sizes, by its lowest size. All: [node]"""
    there = size > 0
    size, values = size[there], values[there]
    weight = np.ones(size.size) if weights is None else weights[there]
    key = np.floor(np.log2(size)).astype(np.int64)
    total, count = np.bincount(key, weights=values), np.bincount(key, weights=weight)
    return {2 ** int(c): float(total[c] / count[c]) for c in np.flatnonzero(count)}


class DisseminationMeter:
    """A sink for trace records that keeps what they tell of one event a topic, and no more.

    Topic t's event is first_event + t; records of any other are passed over.
    """

    def __init__(self, profiles: Profiles, first_event: int = 0) -> None:
        self._profiles = profiles
        self.begin(first_event)

    def begin(self, first_event: int) -> None:
        """Turn to the next event of every topic."""
        topics, pool = self._profiles.topic_ids.size, self._profiles.topics.size
        self._events = range(first_event, first_event + topics)
        self.dissemination = Dissemination(
            np.full(topics, NOBODY, dtype=np.int32),
            np.full(pool, MISSED, dtype=np.int16),
            np.zeros(pool, dtype=np.uint16),
            np.full(pool, MISSED, dtype=np.int64),
        )
        self._published_us = np.zeros(topics, dtype=np.int64)

    def __call__(self, record: TraceRecord) -> None:
        """Take one record."""
        if record.event not in self._events or record.event - self._events.start != record.topic:
            return
        if record.kind == TraceKind.PUBLISHED:
            self.dissemination.publisher[record.topic] = record.node
            self._published_us[record.topic] = record.time_us
        own = self._profiles.topics_of(record.node)
        row = int(np.searchsorted(own, record.topic))
        if row == own.size or own[row] != record.topic:
            return
        row += int(self._profiles.beg[record.node])
        if record.kind == TraceKind.DELIVERED:
            self.dissemination.hops[row] = record.hops
            assert self.dissemination.latency_us is not None
            self.dissemination.latency_us[row] = record.time_us - self._published_us[record.topic]
        elif record.kind in (TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN):
            self.dissemination.copies[row] += 1


def publish_and_measure(
    engine: "SweepEngine",
    epoch: int,
    expected: NDArray[np.bool_],
    fanout: int | None = None,
    shortcuts: str | None = None,
    delays: Delays | None = None,
) -> tuple[Dissemination, DisseminationStats]:
    """One event for every topic on the overlay as it stands, and what became of it."""
    sweep: Any = engine.sweep
    dissemination = sweep.publish(epoch, fanout, shortcuts, delays).run(engine.divide)
    return dissemination, dissemination_stats(dissemination, sweep.profiles, expected)
