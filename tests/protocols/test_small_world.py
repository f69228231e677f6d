"""Small worlds: links against an obvious twin, lengths of long links, and lookups that agree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles, Table
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, make_scratch
from vinecast.core.circle import distance
from vinecast.core.machine import NOBODY
from vinecast.protocols.small_world import LinkChoice, next_hop, select_links, topic_places
from vinecast.protocols.small_world.rules import far_from, long_distance


def circle_of(population: int) -> Table:
    """Nobody has a topic, but everybody a place."""
    return Profiles(np.arange(population, dtype=np.uint64), np.zeros(0, dtype=np.uint64)).table


def candidates(scratch: Scratch, peers: list[int]) -> int:
    row = np.array(peers, dtype=np.int32)
    return gather(scratch, begin_gathering(scratch), row, np.zeros(row.size, dtype=np.uint16))


def links_of(me: int, peers: list[int], long_links: int, population: int, seed: int = 1) -> list[int]:
    """Whom the rule chooses, in its order."""
    scratch = make_scratch(population, 0, 0, max(population, 4))
    count = candidates(scratch, peers)
    chosen = select_links(LinkChoice(me, seed, long_links), count, circle_of(population), scratch)
    number = scratch.weight[:count].tolist()
    assert sorted(n for n in number if n) == list(range(1, chosen + 1))
    return [peers[number.index(n)] for n in range(1, chosen + 1)]


@settings(max_examples=200)
@given(st.integers(2, 60), st.integers(0, 5), st.integers(0, 99), st.data())
def test_links_are_the_ring_and_whoever_is_nearest_to_each_draw(
    population: int, long_links: int, seed: int, data: st.DataObject
) -> None:
    me = data.draw(st.integers(0, population - 1))
    others = [peer for peer in range(population) if peer != me]
    peers = data.draw(st.lists(st.sampled_from(others), unique=True, max_size=20))
    left, wanted = list(peers), []
    if left:
        wanted.append(min(left, key=lambda peer: (peer - me) % population))
        left.remove(wanted[0])
    if left:
        wanted.append(min(left, key=lambda peer: (me - peer) % population))
        left.remove(wanted[1])
        gap = max((((wanted[0] - me) % population) + ((me - wanted[1]) % population)) // 2, 1)
        for link in range(long_links):
            if not left:
                break
            target = (me + long_distance(seed, me, link, gap, population)) % population
            wanted.append(min(left, key=lambda peer: far_from(peer, target, population)))
            left.remove(wanted[-1])
    assert links_of(me, peers, long_links, population, seed) == wanted


def test_long_links_are_as_often_short_as_an_octave_longer_and_lead_both_ways() -> None:
    lengths = np.array([long_distance(7, me, link, 1, 1 << 12) for me in range(600) for link in range(5)])
    octave = np.floor(np.log2(np.abs(lengths))).astype(int)
    counts = np.bincount(octave)
    assert counts.size == 11  # from 1 to just below half of the circle
    assert counts.min() > 0.8 * lengths.size / 11
    assert 0.45 < (lengths > 0).mean() < 0.55


@given(st.integers(1, 50), st.integers(0, 49), st.integers(0, 49), st.integers(0, 49))
def test_no_two_places_are_equally_far(circle: int, a: int, b: int, target: int) -> None:
    a, b, target = a % circle, b % circle, target % circle
    far = [far_from(place, target, circle) for place in (a, b)]
    assert (far[0] == far[1]) == (a == b)
    assert [f // 2 for f in far] == [min((p - target) % circle, (target - p) % circle) for p in (a, b)]


@settings(max_examples=100)
@given(st.integers(2, 80), st.integers(0, 3), st.integers(0, 10_000), st.data())
def test_lookups_from_everywhere_end_at_the_same_node(
    population: int, long_links: int, seed: int, data: st.DataObject
) -> None:
    """Some are off line; the tables of the others are at rest."""
    there = data.draw(st.sets(st.integers(0, population - 1), min_size=1))
    target = data.draw(st.integers(0, population - 1))
    table, rows = circle_of(population), {}
    for me in there:
        chosen = links_of(me, sorted(there - {me}), long_links, population, seed)
        rows[me] = np.array([*chosen, NOBODY], dtype=np.int32)
    ends = set()
    for start in there:
        at, hops = start, 0
        while (peer := next_hop(at, target, rows[at], table)) != NOBODY:
            assert far_from(peer, target, population) < far_from(at, target, population)
            at, hops = peer, hops + 1
        ends.add(at)
    assert ends == {min(there, key=lambda peer: far_from(peer, target, population))}


def test_long_links_make_lookups_short() -> None:
    population = 2000
    table, everybody = circle_of(population), list(range(population))
    scratch = make_scratch(population, 0, 0, population)

    def hops(long_links: int) -> float:
        taken = 0
        rows: dict[int, list[int]] = {}
        for lookup in range(60):
            at, target = lookup * 31 % population, lookup * 977 % population
            while True:
                if at not in rows:
                    count = candidates(scratch, everybody[:at] + everybody[at + 1 :])
                    select_links(LinkChoice(at, 3, long_links), count, table, scratch)
                    rows[at] = scratch.peers[:count][scratch.weight[:count] > 0].tolist()
                peer = next_hop(at, target, np.array(rows[at], dtype=np.int32), table)
                if peer == NOBODY:
                    break
                at, taken = peer, taken + 1
        return taken / 60

    one, many = hops(1), hops(13)
    assert many < 10  # of a thousand that the ring alone would take on average
    assert many < one < 60


@given(st.integers(0, 100), st.integers(1, 30))
def test_topics_have_the_place_of_whoever_is_nearest(seed: int, nodes: int) -> None:
    profiles = Profiles.simulated(seed, np.zeros(nodes + 1, np.int64), np.zeros(0, np.int32), 20)
    for place, point in zip(topic_places(profiles).tolist(), profiles.topic_ids.tolist(), strict=True):
        assert place == min(range(nodes), key=lambda peer: distance(int(profiles.ids[peer]), point))


def test_nobody_is_nobodys_rendezvous() -> None:
    profiles = Profiles.simulated(1, np.zeros(1, np.int64), np.zeros(0, np.int32), 3)
    assert topic_places(profiles).tolist() == [0, 0, 0]


@pytest.mark.parametrize("long_links", [0, 3])
def test_few_candidates_make_few_links(long_links: int) -> None:
    assert links_of(0, [], long_links, 10) == []
    assert links_of(0, [4], long_links, 10) == [4]
    assert links_of(0, [4, 7], long_links, 10) == [4, 7]
