"""Metrics of topic systems, one definition each.

They are stated over *subscriptions*: pairs of a node and a topic of its, in the order of profiles' pool. What
became of one event a topic is a ``Spread`` (hops and copies a subscription); a sweep gives it directly, and
``spread_of`` makes it from trace records, so that a simulated run, a trace on disk and a live node's log are
measured by the same functions.

hit ratio        first deliveries / subscriptions of on-line nodes that should have got the event
miss ratio       1 − hit ratio
hops             links that the first copy travelled, over deliveries other than the publisher's own
duplication      copies received / subscribers that have the event, the publisher among them: since each of
                 those forwards it at most f times, it is at most f (S0 §3)
missing links    ring links (nearest lower and nearest higher on-line subscriber) that are not in place
incomplete rings topics with at least one missing link, of those with at least two on-line subscribers
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.protocols.ringcast.sweep import MISSED
from vinecast.systems.poldercast_sweep import PolderCastSweep, Spread

if TYPE_CHECKING:
    from vinecast.sim.sweep import SweepEngine


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


@dataclass(frozen=True, slots=True)
class SpreadStats:
    """What became of one event a topic."""

    hit_ratio: float
    hops_mean: float
    hops_max: int
    duplication: float
    disconnected_topics: float
    """Share of topics whose event did not reach everybody that it should have."""
    nodes_missing: float
    """Share of on-line nodes that missed at least one event."""


def ring_targets(profiles: Profiles, online: NDArray[np.bool_]) -> RingTargets:
    """Every topic's on-line subscribers in the order of their ids, each with its neighbours."""
    owner = profiles.owners()
    lower = np.full(owner.size, NOBODY, dtype=np.int32)
    higher = np.full(owner.size, NOBODY, dtype=np.int32)
    pool = np.flatnonzero((owner != NOBODY) & online[owner])
    pool = pool[np.lexsort((owner[pool], profiles.topics[pool]))]
    if pool.size:
        topic, node = profiles.topics[pool], owner[pool]
        first = np.concatenate([[True], topic[1:] != topic[:-1]])
        begin = np.flatnonzero(first)
        size = np.diff(np.append(begin, pool.size))
        start, length = np.repeat(begin, size), np.repeat(size, size)
        place = np.arange(pool.size) - start
        many = length > 1
        higher[pool[many]] = node[(start + (place + 1) % length)[many]]
        lower[pool[many]] = node[(start + (place - 1) % length)[many]]
    return RingTargets(lower, higher)


def ring_state(sweep: PolderCastSweep, targets: RingTargets) -> RingState:
    """Compare the rings of a population with what they should be."""
    counted = targets.higher != NOBODY
    half = sweep.ring_peers.shape[1] // 2
    no_lower = counted & (sweep.ring_peers[:, 0] != targets.lower)
    no_higher = counted & (sweep.ring_peers[:, half] != targets.higher)
    links, topics = 2 * int(counted.sum()), sweep.profiles.topic_ids.size
    rings = np.zeros(topics, dtype=np.bool_)
    rings[sweep.profiles.topics[counted]] = True
    broken = np.zeros(topics, dtype=np.bool_)
    broken[sweep.profiles.topics[no_lower | no_higher]] = True
    missing = int(no_lower.sum()) + int(no_higher.sum())
    return RingState(missing / max(links, 1), int(broken.sum()) / max(int(rings.sum()), 1))


def relays(sweep: PolderCastSweep) -> int:
    """Links that would hand an event to somebody who does not subscribe to its topic."""
    topics, owner = sweep.profiles.topics.astype(np.int64), sweep.profiles.owners().astype(np.int64)
    wanted = np.sort(owner * sweep.profiles.topic_ids.size + topics)
    carriers = sweep.carriers().astype(np.int64)
    asked = (carriers * sweep.profiles.topic_ids.size + topics[:, None])[carriers != NOBODY]
    found = np.searchsorted(wanted, asked)
    return int((wanted[np.minimum(found, wanted.size - 1)] != asked).sum())


def spread_stats(spread: Spread, profiles: Profiles, expected: NDArray[np.bool_]) -> SpreadStats:
    """Measure a spread. expected: [node], on line and old enough to be held to it"""
    owner = profiles.owners()
    published = spread.publisher[profiles.topics] != NOBODY
    due = (owner != NOBODY) & published & expected[owner]
    got = spread.hops != MISSED
    by_others = got & published & (spread.hops > 0)
    hits, dues = int((due & got).sum()), int(due.sum())
    missed = due & ~got
    topics = np.zeros(profiles.topic_ids.size, dtype=np.bool_)
    topics[profiles.topics[missed]] = True
    nodes = np.zeros(profiles.peers, dtype=np.bool_)
    nodes[owner[missed]] = True
    received = int(by_others.sum())
    copies = int(spread.copies[published].sum(dtype=np.int64))
    return SpreadStats(
        hit_ratio=hits / dues if dues else 1.0,
        hops_mean=float(spread.hops[by_others].mean()) if received else 0.0,
        hops_max=int(spread.hops.max(initial=0)),
        duplication=copies / max(int((got & published).sum()), 1),
        disconnected_topics=int(topics.sum()) / max(int((spread.publisher != NOBODY).sum()), 1),
        nodes_missing=int(nodes.sum()) / max(int(expected.sum()), 1),
    )


def spread_of(records: Iterable[TraceRecord], profiles: Profiles, first_event: int) -> Spread:
    """The spread that trace records tell of; topic t's event is first_event + t."""
    topics = profiles.topic_ids.size
    publisher = np.full(topics, NOBODY, dtype=np.int32)
    hops = np.full(profiles.topics.size, MISSED, dtype=np.int16)
    copies = np.zeros(profiles.topics.size, dtype=np.uint16)
    for record in records:
        if not 0 <= record.event - first_event < topics or record.event - first_event != record.topic:
            continue
        if record.kind == TraceKind.PUBLISHED:
            publisher[record.topic] = record.node
        own = profiles.topics_of(record.node)
        row = int(np.searchsorted(own, record.topic))
        if row == own.size or own[row] != record.topic:
            continue
        row += int(profiles.beg[record.node])
        if record.kind == TraceKind.DELIVERED:
            hops[row] = record.hops
        elif record.kind in (TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN):
            copies[row] += 1
    return Spread(publisher, hops, copies)


def publish_and_measure(
    engine: "SweepEngine",
    epoch: int,
    expected: NDArray[np.bool_],
    fanout: int | None = None,
    shortcuts: str | None = None,
) -> tuple[Spread, SpreadStats]:
    """One event for every topic on the overlay as it stands, and what became of it."""
    sweep = engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    publication = sweep.publish(epoch, fanout, shortcuts)
    engine.divide(sweep.nodes, publication.draw)
    engine.divide(publication.topics, publication.disseminate)
    return publication.spread, spread_stats(publication.spread, sweep.profiles, expected)


def topic_row(engine: "SweepEngine", cycle: int, online: NDArray[np.bool_]) -> dict[str, float]:
    """All of it for one cycle of a run."""
    sweep = engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    rings = ring_state(sweep, ring_targets(sweep.profiles, online))
    _, stats = publish_and_measure(engine, cycle, online)
    return {**asdict(rings), **{name: float(value) for name, value in asdict(stats).items()}}
