"""The simulated twin of a live network."""

import random

import pytest

from vinecast.core.errors import InputError
from vinecast.node.runtime.config import NodeConfig
from vinecast.sim.scenario.live_comparison import Publication, run_comparison
from vinecast.systems.poldercast.router import poldercast_config

CONFIG = poldercast_config(NodeConfig(period_s=0.5))
DRAW = random.Random(7)
POINTS = [DRAW.getrandbits(64) for _ in range(12)]
TOPICS = [f"topic/{i}" for i in range(4)]
SUBSCRIPTIONS = [DRAW.sample(TOPICS, 2) for _ in POINTS]
PUBLICATIONS = [Publication(i / 10, i % 12, SUBSCRIPTIONS[i % 12][i % 2]) for i in range(40)]


def test_everybody_gets_what_it_subscribed_to_and_nothing_else() -> None:
    found = run_comparison(POINTS, SUBSCRIPTIONS, PUBLICATIONS, CONFIG, 2.0, seed=1, contacts=3)
    due = sum(one.topic in topics for one in PUBLICATIONS for topics in SUBSCRIPTIONS)
    assert (found.expected, found.got, found.repeated, found.strays) == (due, due, 0, 0)
    assert 1 <= found.hops_mean < 4
    assert 0.5 < found.duplication <= 2
    assert found == run_comparison(POINTS, SUBSCRIPTIONS, PUBLICATIONS, CONFIG, 2.0, seed=1, contacts=3)


def test_nobody_publishes_and_two_are_the_same() -> None:
    assert run_comparison(POINTS, SUBSCRIPTIONS, [], CONFIG, 2.0, seed=1, contacts=3).expected == 0
    with pytest.raises(InputError, match="two nodes have the same id"):
        run_comparison([5, 5], [["a"], ["a"]], [], CONFIG, 2.0, seed=1, contacts=3)
