"""The table of profiles: ids in order, topics that come and go, and what rules see of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.circle import simulated_ids
from vinecast.core.errors import Bug
from vinecast.sim.workload.subscriptions import pattern


def words(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


def set_topics(profiles: Profiles, peer: int, topics: list[int], coverage: list[int] | None = None) -> None:
    covered = [0] * len(topics) if coverage is None else coverage
    profiles.set_topics(peer, np.array(topics, dtype=np.int32), np.array(covered, dtype=np.uint8))


def test_a_new_table_has_peers_without_topics() -> None:
    profiles = Profiles(words(1, 5, 2**64 - 1), words(9))
    assert profiles.peers == 3
    assert [profiles.topics_of(peer).tolist() for peer in range(3)] == [[], [], []]


@pytest.mark.parametrize("ids", [(5, 1), (1, 5, 5), (0, 2**64 - 1, 2**63)])
def test_ids_that_do_not_ascend_are_a_bug(ids: tuple[int, ...]) -> None:
    with pytest.raises(Bug, match="ascend"):
        Profiles(words(*ids), words())


def test_a_simulated_table_is_the_workload_with_ids_in_order() -> None:
    subscriptions = pattern("random", 3, 50, topics=30, subscriptions=6)
    profiles = Profiles.simulated(3, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    assert profiles.peers == 50
    assert (profiles.ids[1:] > profiles.ids[:-1]).all()
    assert set(profiles.ids.tolist()) == set(simulated_ids(3, 50).tolist())
    assert np.unique(profiles.topic_ids).size == 30
    for node in range(50):
        assert profiles.topics_of(node).tolist() == subscriptions.of(node).tolist()
        assert profiles.coverage_of(node).tolist() == [0] * 6


def test_two_simulated_tables_share_nothing() -> None:
    subscriptions = pattern("random", 3, 10, topics=30, subscriptions=6)
    a, b = (Profiles.simulated(3, subscriptions.start, subscriptions.topics, 30) for _ in range(2))
    a.coverage_of(4)[:] = 3
    set_topics(a, 2, [1])
    assert b.coverage_of(4).tolist() == [0] * 6
    assert b.topics_of(2).tolist() == subscriptions.of(2).tolist()


def test_fewer_topics_stay_where_they_were_and_more_of_them_move() -> None:
    profiles = Profiles(words(1, 2), words(*range(10)))
    set_topics(profiles, 0, [2, 4, 6], [1, 2, 3])
    set_topics(profiles, 1, [4], [4])
    begin, size = int(profiles.beg[0]), profiles.topics.size
    set_topics(profiles, 0, [4, 6], [2, 3])
    assert (int(profiles.beg[0]), profiles.topics.size) == (begin, size)
    set_topics(profiles, 0, [1, 4, 6, 8], [0, 2, 3, 0])
    assert profiles.topics_of(0).tolist() == [1, 4, 6, 8]
    assert profiles.coverage_of(0).tolist() == [0, 2, 3, 0]
    assert (profiles.topics_of(1).tolist(), profiles.coverage_of(1).tolist()) == ([4], [4])


def test_what_a_peer_says_of_its_coverage_is_seen_by_all() -> None:
    profiles = Profiles(words(1, 2), words(*range(10)))
    set_topics(profiles, 1, [3, 5])
    table = profiles.table
    profiles.coverage_of(1)[:] = [2, 4]
    assert table.coverage[table.beg[1] : table.beg[1] + table.cnt[1]].tolist() == [2, 4]


Change = st.tuples(st.integers(0, 4), st.dictionaries(st.integers(0, 20), st.integers(0, 4), max_size=8))


@given(st.lists(Change, max_size=12))
def test_after_any_changes_the_table_is_what_was_last_said(changes: list[tuple[int, dict[int, int]]]) -> None:
    profiles = Profiles(words(*range(5)), words(*range(21)))
    said: dict[int, dict[int, int]] = {peer: {} for peer in range(5)}
    for peer, coverage in changes:
        said[peer] = dict(sorted(coverage.items()))
        set_topics(profiles, peer, list(said[peer]), list(said[peer].values()))
        table = profiles.table
        for other in range(5):
            own = slice(int(table.beg[other]), int(table.beg[other]) + int(table.cnt[other]))
            assert table.topics[own].tolist() == profiles.topics_of(other).tolist() == list(said[other])
            assert table.coverage[own].tolist() == list(said[other].values())
            assert profiles.coverage_of(other).tolist() == list(said[other].values())


@given(st.lists(Change, max_size=12))
def test_the_subscribers_of_every_topic(changes: list[tuple[int, dict[int, int]]]) -> None:
    profiles = Profiles(words(*range(5)), words(*range(21)))
    for peer, coverage in changes:
        set_topics(profiles, peer, sorted(coverage))
        found, owner = profiles.subscribers(), profiles.owners()
        assert (owner[found.row] == found.node).all()
        for topic in range(21):
            own = slice(int(found.start[topic]), int(found.start[topic + 1]))
            expected = [p for p in range(5) if topic in profiles.topics_of(p)]
            assert found.node[own].tolist() == expected
            assert (profiles.topics[found.row[own]] == topic).all()
        assert (owner >= 0).sum() == found.node.size


def test_subscribers_are_looked_up_once_until_somebody_changes_its_topics() -> None:
    profiles = Profiles(words(1, 2), words(*range(10)))
    set_topics(profiles, 1, [3, 5])
    before = profiles.subscribers()
    assert profiles.subscribers() is before
    set_topics(profiles, 0, [3])
    assert profiles.subscribers().node.tolist() == [0, 1, 1]


def test_the_pool_stays_small_however_often_topics_change() -> None:
    """Twenty peers with up to 40 topics each, for ever coming and going: it settles, and stays."""
    profiles = Profiles(words(*range(20)), words(*range(100)))
    sizes = []
    for step in range(6000):
        peer, many = step * 7 % 20, step * step % 41
        set_topics(profiles, peer, list(range(step % 50, step % 50 + many)))
        sizes.append(profiles.topics.size)
    assert sizes[-1] == sizes[1000]
    assert sizes[-1] <= 4 * 20 * 40
    assert profiles.topics.size == profiles.coverage.size == profiles.gaps.size


def test_one_more_and_one_less_topic_does_not_move_a_simulated_peer_twice() -> None:
    subscriptions = pattern("random", 3, 50, topics=30, subscriptions=6)
    profiles = Profiles.simulated(3, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    more, fewer = list(range(7)), list(range(6))
    set_topics(profiles, 4, more)
    begin, size = int(profiles.beg[4]), profiles.topics.size
    for _ in range(1000):
        set_topics(profiles, 4, fewer)
        set_topics(profiles, 4, more)
    assert (int(profiles.beg[4]), profiles.topics.size) == (begin, size)
    assert profiles.topics_of(5).tolist() == subscriptions.of(5).tolist()


def test_a_place_left_is_taken_by_the_next_that_fits() -> None:
    profiles = Profiles(words(1, 2), words(*range(20)))
    set_topics(profiles, 0, [1, 2, 3, 4])
    set_topics(profiles, 0, [1, 2, 3, 4, 5])
    set_topics(profiles, 1, [7, 8, 9])
    assert int(profiles.beg[1]) == 0
    assert [profiles.topics_of(peer).tolist() for peer in range(2)] == [[1, 2, 3, 4, 5], [7, 8, 9]]
