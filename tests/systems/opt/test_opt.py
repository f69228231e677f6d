"""OPT: covering topics with few neighbours, and what a bound does to that."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import begin_gathering, gather, make_scratch
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.tman import TManConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.metrics import dissemination_stats
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.subscriptions import Subscriptions, pattern, subscribe
from vinecast.systems.opt.machine import OptConfig
from vinecast.systems.opt.rules import select_covering
from vinecast.systems.tman_sweep.events import TManPublication
from vinecast.systems.tman_sweep.sweep import TManSweep

TOPICS = 6


def profiles_of(found: Subscriptions) -> Profiles:
    return Profiles.simulated(1, found.start, found.topics, found.topic_count)


def greedy(me: int, peers: list[int], topics: list[set[int]], coverage: int, most: int) -> list[int]:
    """The twin: whoever covers most of what still lacks, again and again."""
    lacks = dict.fromkeys(topics[me], coverage)
    left = list(peers)
    chosen: list[int] = []
    while left and len(chosen) < most:
        adds = [sum(lacks.get(topic, 0) > 0 for topic in topics[peer]) for peer in left]
        if max(adds) == 0:
            break
        best = left.pop(adds.index(max(adds)))
        chosen.append(best)
        for topic in topics[best] & lacks.keys():
            lacks[topic] = max(lacks[topic] - 1, 0)
    return chosen


@settings(max_examples=200)
@given(
    st.lists(st.sets(st.integers(0, TOPICS - 1)), min_size=2, max_size=12),
    st.integers(1, 3),
    st.integers(1, 8),
)
def test_the_choice_is_greedy(topics: list[set[int]], coverage: int, most: int) -> None:
    nodes = len(topics)
    pairs = [(node, topic) for node in range(nodes) for topic in topics[node]]
    owner, topic = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(2))
    table = profiles_of(subscribe(owner, topic, nodes, TOPICS)).table
    scratch = make_scratch(nodes, TOPICS, 0, nodes)
    row = np.arange(1, nodes, dtype=np.int32)
    count = gather(scratch, begin_gathering(scratch), row, np.zeros(row.size, dtype=np.uint16))
    found = select_covering(0, coverage, count, most, table, scratch)
    assert scratch.peers[scratch.best[:found]].tolist() == greedy(0, row.tolist(), topics, coverage, most)
    assert not scratch.mark.any()


def test_a_bound_costs_deliveries_and_none_costs_links() -> None:
    found = pattern("random", 1, 300, topics=100, subscriptions=20)
    hits, degrees = [], []
    for size in (4, 200):
        config = OptConfig(cyclon=CyclonConfig(), tman=TManConfig(table_size=size))
        profiles = profiles_of(found)
        sweep = TManSweep(config, 1, profiles)
        engine = SweepEngine(sweep, config.period_us, "synchronous", 1)
        sweep.start(np.arange(300), random_views(1, 300, 20))
        engine.run(20)
        publication = TManPublication(sweep, 0)
        stats = dissemination_stats(publication.run(engine.divide), profiles, sweep.online)
        hits.append(stats.hit_ratio)
        degrees.append(sweep.degrees().mean())
        assert publication.received[0].sum() == 0  # nobody relays
    assert hits[0] < 0.9
    assert hits[1] == 1.0
    assert degrees[0] < 10 < degrees[1]
