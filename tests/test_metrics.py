"""The metrics of topic systems on networks small enough to check by hand."""

import numpy as np
import pytest

from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles
from vinecast.sim.metrics import relays, ring_state, ring_targets, spread_stats
from vinecast.systems.poldercast import PolderCastConfig
from vinecast.systems.poldercast_sweep import PolderCastSweep, Spread

# Node 0 wants topics 0 and 1, node 1 topic 0, node 2 topics 0 and 1, node 3 nothing but topic 2.
START, TOPICS = np.array([0, 2, 3, 5, 6]), np.array([0, 1, 0, 0, 1, 2], dtype=np.int32)
EVERYONE = np.ones(4, dtype=np.bool_)


def profiles() -> Profiles:
    return Profiles.simulated(1, START, TOPICS, 3)


def closed() -> PolderCastSweep:
    """A population whose rings are all as they should be."""
    sweep = PolderCastSweep(PolderCastConfig(), 1, profiles())
    targets = ring_targets(sweep.profiles, EVERYONE)
    sweep.ring_peers[:, 0], sweep.ring_peers[:, 2] = targets.lower, targets.higher
    return sweep


def test_targets_are_the_nearest_on_line_subscribers_on_either_side() -> None:
    targets = ring_targets(profiles(), EVERYONE)
    assert targets.lower.tolist() == [2, 2, 0, 1, 0, NOBODY]
    assert targets.higher.tolist() == [1, 2, 2, 0, 0, NOBODY]


def test_whoever_is_off_line_is_in_no_ring() -> None:
    targets = ring_targets(profiles(), np.array([True, False, True, True]))
    assert targets.higher.tolist() == [2, 2, NOBODY, 0, 0, NOBODY]
    nobody = ring_targets(profiles(), ~EVERYONE)
    assert set(nobody.lower.tolist()) == {NOBODY}


def test_a_missing_link_opens_its_ring_and_no_other() -> None:
    sweep = closed()
    targets = ring_targets(sweep.profiles, EVERYONE)
    assert ring_state(sweep, targets).missing_links == 0
    sweep.ring_peers[0, 2] = NOBODY
    state = ring_state(sweep, targets)
    assert state.missing_links == pytest.approx(1 / 10)  # five subscriptions are in a ring, two links each
    assert state.incomplete_rings == pytest.approx(1 / 2)


def test_a_link_to_somebody_who_does_not_subscribe_is_a_relay() -> None:
    sweep = closed()
    assert relays(sweep) == 0
    sweep.ring_peers[0, 2] = 3
    assert relays(sweep) == 1


def test_hits_hops_and_copies() -> None:
    """Topic 0 from node 0 reaches only node 2, twice; topic 1 from node 2 reaches 0; topic 2 is silent."""
    spread = Spread(
        publisher=np.array([0, 2, NOBODY], dtype=np.int32),
        hops=np.array([0, 1, -1, 2, 0, -1], dtype=np.int16),
        copies=np.array([0, 1, 0, 2, 0, 0], dtype=np.uint16),
    )
    stats = spread_stats(spread, profiles(), EVERYONE)
    assert stats.hit_ratio == pytest.approx(4 / 5)
    assert stats.hops_mean == pytest.approx(1.5)
    assert stats.hops_max == 2
    assert stats.duplication == pytest.approx(3 / 4)
    assert stats.disconnected_topics == pytest.approx(1 / 2)
    assert stats.nodes_missing == pytest.approx(1 / 4)
    without_the_young = spread_stats(spread, profiles(), np.array([True, False, True, True]))
    assert without_the_young.hit_ratio == 1.0
