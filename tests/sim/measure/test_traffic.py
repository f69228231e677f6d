"""Traffic about topics: the definition by hand, and the meter on both systems."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from vinecast.core.arrays.profiles import Profiles, choose_publishers
from vinecast.core.events import Publish
from vinecast.core.traffic import Traffic, unwanted_overall, unwanted_share
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.measure.traffic import Meter
from vinecast.sim.workload.subscriptions import pattern
from vinecast.systems.registry import SYSTEMS


@dataclass(frozen=True)
class AnEvent:
    topic: int
    event: int


@dataclass(frozen=True)
class AJoin:
    topic: int


@dataclass(frozen=True)
class AHeartbeat:
    topics: tuple[int, ...]


@dataclass(frozen=True)
class Gossip:
    peers: tuple[int, ...]


def test_what_counts_as_what() -> None:
    meter = Meter(3, lambda node, topic: topic == node)
    for message in (AnEvent(1, 7), AnEvent(0, 8), AJoin(1), AHeartbeat((0, 1, 2)), Gossip((1, 2)), object()):
        meter.message(0, 1, message)
    traffic = meter.take()
    assert traffic.events_sent.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert traffic.events_received.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert traffic.control_sent.tolist() == [[3, 0, 0], [1, 0, 0]]
    assert traffic.control_received.tolist() == [[0, 2, 0], [0, 2, 0]]
    assert traffic.received.tolist() == [[0, 3, 0], [0, 3, 0]]
    assert traffic.passing.tolist() == [[4, 3, 0], [2, 3, 0]]
    assert meter.take().passing.sum() == 0


def test_shares() -> None:
    counts = np.array([[3, 0, 0], [1, 2, 0]])
    assert unwanted_share(counts).tolist() == [0.75, 0.0, 0.0]
    assert unwanted_overall(counts) == 0.5
    assert unwanted_overall(np.zeros((2, 3), dtype=np.int64)) == 0.0


def metered(system: str, config: Any, nodes: int, cycles: int) -> Traffic:
    """What one event a topic and a cycle of upkeep cost a network that has settled."""
    found = pattern("random", 1, nodes, 12, 3)
    profiles = Profiles.simulated(1, found.start, found.topics, found.topic_count)
    meter = Meter(nodes, lambda node, topic: topic in profiles.topics_of(node))
    network = Network(NetworkConfig(latency_ms=10.0), 1, nodes)
    engine = EventEngine(
        SYSTEMS[system].machines(config, 1, profiles), nodes, 1, network, on_send=meter.message
    )
    for node, contacts in enumerate(random_views(1, nodes, 8).tolist()):
        engine.start(node, 0, tuple(contacts))
    engine.run(cycles * config.period_us)
    meter.take()
    publishers = choose_publishers(1, 0, profiles, np.ones(nodes, dtype=np.bool_))
    for topic, node in enumerate(publishers.tolist()):
        engine.command(node, engine.now_us, Publish(topic, topic))
    engine.run((cycles + 1) * config.period_us)
    return meter.take()


def test_poldercast_has_no_unwanted_traffic() -> None:
    traffic = metered("poldercast", SYSTEMS["poldercast"].config(), 40, 15)
    assert traffic.events_received[1].sum() >= 40 * 3 - 12
    assert traffic.passing[0].sum() == 0
    assert traffic.control_sent.sum() == 0  # its gossip is about no topic in particular


def test_scribe_has() -> None:
    traffic = metered("scribe", SYSTEMS["scribe"].config(), 60, 5)
    for counts in (traffic.events_received, traffic.events_sent, traffic.control_received):
        assert 0.05 < unwanted_overall(counts) < 0.9
    assert traffic.events_received.sum() == traffic.events_sent.sum()
    assert unwanted_share(traffic.passing).max() <= 1.0
    assert unwanted_overall(traffic.passing) == pytest.approx(
        float(traffic.passing[0].sum()) / float(traffic.passing.sum())
    )
