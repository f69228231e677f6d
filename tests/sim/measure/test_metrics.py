"""The metrics of topic systems on networks small enough to check by hand."""

import numpy as np
import pytest

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.machine import NOBODY
from vinecast.sim.measure.metrics import (
    class_means,
    class_rows,
    dissemination_stats,
    reach_of,
    relays,
    ring_state,
    ring_targets,
)
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.sweep import PolderCastSweep

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
    dissemination = Dissemination(
        publisher=np.array([0, 2, NOBODY], dtype=np.int32),
        hops=np.array([0, 1, -1, 2, 0, -1], dtype=np.int16),
        copies=np.array([0, 1, 0, 2, 0, 0], dtype=np.uint16),
    )
    stats = dissemination_stats(dissemination, profiles(), EVERYONE)
    assert stats.hit_ratio == pytest.approx(4 / 5)
    assert stats.hit_by_topic == pytest.approx((2 / 3 + 2 / 2) / 2)
    assert stats.hops_mean == pytest.approx(1.5)
    assert stats.hops_max == 2
    assert stats.duplication == pytest.approx(3 / 4)
    assert stats.disconnected_topics == pytest.approx(1 / 2)
    assert stats.nodes_missing == pytest.approx(1 / 4)
    without_the_young = dissemination_stats(dissemination, profiles(), np.array([True, False, True, True]))
    assert without_the_young.hit_ratio == 1.0


# By class.


def random_profiles(seed: int, nodes: int = 40, topics: int = 25) -> Profiles:
    rng = np.random.default_rng(seed)
    wanted = rng.random((nodes, topics)) < rng.random(topics) ** 2
    start = np.concatenate([[0], np.cumsum(wanted.sum(axis=1))])
    return Profiles.simulated(seed, start, np.nonzero(wanted)[1].astype(np.int32), topics)


def random_spread(seed: int, found: Profiles) -> Dissemination:
    rng = np.random.default_rng(seed)
    pool = found.topics.size
    publisher = np.where(rng.random(found.topic_ids.size) < 0.8, 0, NOBODY).astype(np.int32)
    hops = rng.integers(-1, 6, pool).astype(np.int16)
    hops[publisher[found.topics] == NOBODY] = -1
    copies = np.where(hops > 0, rng.integers(1, 5, pool), 0).astype(np.uint16)
    return Dissemination(publisher, hops, copies)


@pytest.mark.parametrize("seed", range(5))
def test_classes_against_their_obvious_twin(seed: int) -> None:
    found = random_profiles(seed)
    dissemination, expected = (
        random_spread(seed, found),
        np.random.default_rng(seed).random(found.peers) < 0.7,
    )
    owner, subscribers = found.owners(), np.bincount(found.topics, minlength=found.topic_ids.size)
    reach = reach_of(dissemination, found, expected)
    rows = class_rows(reach.tally, None)
    for by, size in (("popularity", subscribers[found.topics]), ("subscriptions", found.cnt[owner])):
        mine = {row["from"]: row for row in rows if row["by"] == by}
        published = dissemination.publisher[found.topics] != NOBODY
        for low in (2**c for c in range(8)):
            inside = published & (size >= low) & (size < 2 * low)
            assert (low in mine) == bool(inside.any())
            if not inside.any():
                continue
            due, got = inside & expected[owner], inside & (dissemination.hops >= 0)
            assert mine[low]["due"] == due.sum()
            if due.any():
                assert mine[low]["hit_ratio"] == pytest.approx((due & got).sum() / due.sum())
            if (got & (dissemination.hops > 0)).any():
                assert mine[low]["hops_mean"] == pytest.approx(
                    dissemination.hops[got & (dissemination.hops > 0)].mean()
                )
            if got.any():
                assert mine[low]["duplication"] == pytest.approx(
                    dissemination.copies[inside].sum() / got.sum()
                )
    stats = reach.stats()
    missed = (dissemination.publisher[found.topics] != NOBODY) & expected[owner] & (dissemination.hops < 0)
    assert stats.nodes_missing == pytest.approx(np.unique(owner[missed]).size / expected.sum())
    topics = np.unique(found.topics[missed]).size
    assert stats.disconnected_topics == pytest.approx(topics / (dissemination.publisher != NOBODY).sum())
    due = (dissemination.publisher[found.topics] != NOBODY) & expected[owner]
    ratios = [
        (dissemination.hops[due & (found.topics == t)] >= 0).mean() for t in np.unique(found.topics[due])
    ]
    assert stats.hit_by_topic == pytest.approx(np.mean(ratios))


def test_where_nobody_is_held_to_an_event_none_is_missed() -> None:
    found = random_profiles(1)
    nobody = dissemination_stats(random_spread(1, found), found, np.zeros(found.peers, dtype=np.bool_))
    assert (nobody.hit_ratio, nobody.hit_by_topic) == (1.0, 1.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_targets_against_their_obvious_twin(seed: int, share: float) -> None:
    found = random_profiles(seed)
    online = np.random.default_rng(seed).random(found.peers) < share
    targets, owner = ring_targets(found, online), found.owners()
    for row, (node, topic) in enumerate(zip(owner.tolist(), found.topics.tolist(), strict=True)):
        ring = [n for n in range(found.peers) if online[n] and topic in found.topics_of(n)]
        if node not in ring or len(ring) < 2:
            assert (targets.lower[row], targets.higher[row]) == (NOBODY, NOBODY)
            continue
        place = ring.index(node)
        assert targets.lower[row] == ring[place - 1]
        assert targets.higher[row] == ring[(place + 1) % len(ring)]


def test_missing_links_by_class() -> None:
    sweep = closed()
    sweep.ring_peers[0, 2] = NOBODY
    targets = ring_targets(sweep.profiles, EVERYONE)
    tally = ring_state(sweep, targets).tally
    assert tally[0, 1].tolist() == [10, 1]  # topics 0 and 1 have three and two subscribers
    assert tally[1, 1].tolist() == [8, 1]  # nodes 0 and 2 have two subscriptions
    assert tally[1, 0].tolist() == [2, 0]


def test_the_ring_degree_counts_a_neighbour_once() -> None:
    assert closed().degrees().tolist() == [2, 2, 2, 0]


def test_means_of_classes() -> None:
    size, values = np.array([0, 1, 2, 3, 4, 7]), np.array([9.0, 1.0, 2.0, 4.0, 5.0, 7.0])
    assert class_means(size, values) == {1: 1.0, 2: 3.0, 4: 6.0}
    assert class_means(size, values, np.array([0, 2, 1, 1, 4, 0])) == {1: 0.5, 2: 3.0, 4: 3.0}
