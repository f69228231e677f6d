"""Kademlia's parts against obvious twins: buckets, lookups and what is kept for others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia import KademliaConfig, key_of_point, point_of
from vinecast.protocols.kademlia.buckets import Buckets, Keys
from vinecast.protocols.kademlia.lookup import Lookup
from vinecast.protocols.kademlia.storage import RECORD_BYTES, Held, Storage

words = st.integers(0, 2**64 - 1)
populations = st.lists(words, min_size=2, max_size=80, unique=True)


def as_keys(points: list[int]) -> Keys:
    return np.array(points, dtype=np.uint64)


@given(words)
def test_a_point_is_the_beginning_of_its_key(point: int) -> None:
    assert point_of(key_of_point(point)) == point
    assert len(key_of_point(point)) == 32


# Buckets.


@settings(max_examples=200)
@given(populations, words, st.integers(1, 30), st.data())
def test_the_nearest_are_those_of_all_it_knows(
    points: list[int], target: int, count: int, data: st.DataObject
) -> None:
    buckets = Buckets(as_keys(points), 0, size=5)
    for peer in data.draw(st.lists(st.integers(-2, len(points) + 2), max_size=80)):
        if data.draw(st.booleans()):
            buckets.drop(peer)
        else:
            buckets.meet(peer, 1)
    in_order = sorted(buckets.known, key=lambda peer: points[peer] ^ target)
    nearer = [peer for peer in in_order if points[peer] ^ target < points[0] ^ target]
    assert buckets.closest(target, count) == in_order[:count]
    assert buckets.nearer(target, count) == nearer[:count]
    assert buckets.count_nearer(target) == len(nearer)


@given(populations, st.data())
def test_a_bucket_holds_those_at_its_distance_the_least_recently_seen_first(
    points: list[int], data: st.DataObject
) -> None:
    buckets = Buckets(as_keys(points), 0, size=80)
    met = data.draw(st.lists(st.integers(0, len(points) - 1), max_size=120))
    for now_us, peer in enumerate(met):
        assert buckets.meet(peer, now_us) == NOBODY
    last = {peer: now_us for now_us, peer in enumerate(met) if peer != 0}
    assert buckets.heard_us == last
    for row, peers in enumerate(buckets.rows):
        assert peers == sorted(peers, key=lambda peer: last[peer])
        assert all(2**row <= points[peer] ^ points[0] < 2 ** (row + 1) for peer in peers)
    assert sorted(buckets.known) == sorted(last)
    depths = [(points[peer] ^ points[0]).bit_length() - 1 for peer in last]
    assert buckets.depth == min(depths, default=64)


def test_a_full_bucket_keeps_whom_it_has_and_others_wait() -> None:
    keys = as_keys([0, *[2**63 + i for i in range(9)]])  # all in one bucket
    buckets = Buckets(keys, 0, size=3)
    assert [buckets.meet(peer, peer) for peer in (1, 2, 3)] == [NOBODY] * 3
    assert [buckets.meet(peer, peer) for peer in (4, 5, 6, 7)] == [1] * 4  # the least recently seen
    assert buckets.rows[63] == [1, 2, 3]
    assert buckets.spare[63] == [5, 6, 7]
    assert buckets.meet(1, 8) == NOBODY
    assert buckets.meet(5, 9) == 2
    changes = buckets.changes
    buckets.drop(2)
    assert buckets.rows[63] == [3, 1, 5]  # the last that was heard from comes in
    buckets.drop(6)
    assert buckets.spare[63] == [7]
    assert buckets.changes == changes + 1
    assert set(buckets.heard_us) == {1, 3, 5, 7}


def test_nobody_is_met_who_does_not_exist_or_is_the_node_itself() -> None:
    buckets = Buckets(as_keys([7, 7, 9]), 0, size=3)
    for peer in (0, 1, -1, 3, 10**12):
        assert buckets.meet(peer, 0) == NOBODY
        buckets.drop(peer)
        assert peer not in buckets
    assert buckets.known == []


# Lookups.


def is_done(lookup: Lookup) -> bool:
    return lookup.done


@settings(max_examples=100, deadline=None)
@given(
    populations,
    words,
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(0, 2**32),
    st.sets(st.integers(0, 79)),
)
def test_where_all_know_their_neighbourhood_a_lookup_finds_the_nearest_that_are_there(
    points: list[int], target: int, size: int, parallel: int, seed: int, dead: set[int]
) -> None:
    """Everybody's buckets are filled with random peers that fit; the dead are known, and do not answer."""
    keys, everybody = as_keys(points), range(len(points))
    dead.discard(0)
    shuffled = np.random.default_rng(seed)
    tables = []
    for me in everybody:
        tables.append(Buckets(keys, me, size))
        for peer in shuffled.permutation(len(points)).tolist():
            if peer not in dead:
                tables[me].meet(peer, 0)
    lookup = Lookup(keys, 0, target, size, parallel, 1000)
    lookup.offer(tables[0].closest(target, size))
    lookup.offer(sorted(dead & set(everybody)))
    waiting = lookup.take_next()
    while not lookup.done:
        assert 0 < len(waiting) <= parallel
        peer = waiting.pop(int(shuffled.integers(len(waiting))))
        if peer in dead:
            lookup.fail(peer)
        else:
            lookup.answer(peer)
            lookup.offer(tables[peer].closest(target, size))
        waiting += lookup.take_next()
    alive = [peer for peer in everybody if peer not in dead]
    assert lookup.nearest == sorted(alive, key=lambda peer: points[peer] ^ target)[:size]


@given(populations, st.integers(0, 2**32), st.integers(1, 20))
def test_liars_make_no_lookup_endless(points: list[int], seed: int, asked_max: int) -> None:
    lies = np.random.default_rng(seed)
    lookup = Lookup(as_keys(points), 0, points[-1], 3, 2, asked_max)
    lookup.offer([1])
    asked = []
    while not lookup.done:
        now = lookup.take_next()
        assert now
        for peer in now:
            lookup.answer(peer)
            lookup.offer(lies.integers(-5, len(points) + 5, 100).tolist())
        asked += now
        assert len(lookup.involved) <= 12
    assert len(asked) <= asked_max
    assert len(set(asked)) == len(asked)


def test_who_is_slow_makes_room_for_others_but_may_still_answer() -> None:
    lookup = Lookup(as_keys([100, 1, 2, 3, 4]), 0, 0, 3, 2, 100)
    lookup.offer([1, 2, 3, 4])
    assert lookup.take_next() == [1, 2]
    assert lookup.take_next() == []
    lookup.slow(1)
    assert lookup.take_next() == [3]
    lookup.answer(2)
    lookup.answer(3)
    assert not is_done(lookup)
    lookup.answer(1)
    assert is_done(lookup)
    assert lookup.nearest == [1, 2, 3]


def test_one_can_be_asked_however_far_it_is() -> None:
    lookup = Lookup(as_keys([100, 1, 2, 3, 200]), 0, 0, 2, 2, 100, through=4)
    lookup.offer([1, 2, 3])
    assert lookup.take_next() == [4, 1]
    lookup.answer(1)
    assert lookup.take_next() == [2]
    lookup.answer(2)
    assert not is_done(lookup)
    lookup.fail(4)
    assert is_done(lookup)
    assert lookup.nearest == [1, 2]


# What is kept for others.


def held(point: int, sender: int, size: int = 0, provider: int = NOBODY, expires_us: int = 100) -> Held:
    return Held(key_of_point(point), bytes(size), provider, sender, expires_us)


def storage(**config: Any) -> Storage:
    return Storage(KademliaConfig(**config), 0)


def check(kept: Storage) -> None:
    """The books agree."""
    accounts = [held for account in kept._accounts.values() for held in account.values()]
    listed = [held for providers in kept._providers.values() for held in providers.values()]
    assert sorted(map(id, accounts)) == sorted(map(id, [*kept.values, *listed]))
    assert kept.records == len(accounts)
    assert kept.weight == sum(held.weight for held in accounts) == sum(kept._weights.values())
    assert kept._weights.keys() == kept._accounts.keys()


@settings(max_examples=200)
@given(st.data())
def test_whatever_is_sent_stays_within_its_bounds(data: st.DataObject) -> None:
    kept = storage(records_max=8, bytes_max=3000, providers_max=3)
    for _ in range(data.draw(st.integers(0, 40))):
        number = data.draw(st.integers(0, 12))
        if data.draw(st.booleans()):
            one = held(number, data.draw(st.integers(1, 4)), data.draw(st.integers(0, 4000)))
        else:
            provider = data.draw(st.integers(1, 6))
            one = held(number % 3, provider, 0, provider, data.draw(st.integers(1, 50)))
        taken = kept.keep(one)
        assert taken == (kept.value(one.key) is one or one in kept.providers(one.key))
        assert kept.records <= 8
        assert kept.weight <= 3000
        assert len(kept.providers(one.key)) <= 3
        check(kept)
    kept.expire(50)
    assert all(one.expires_us > 50 for one in kept.values)
    check(kept)
    kept.expire(100)
    assert (kept.records, kept.weight) == (0, 0)


def test_a_flood_pushes_out_only_its_own_the_farthest_first() -> None:
    kept = storage(records_max=10)
    for point in (10_000, 20_000, 30_000):
        assert kept.keep(held(point, sender=1))
    for point in range(100):
        kept.keep(held(500 - point, sender=2))
    assert sorted(point_of(one.key) for one in kept.values) == [*range(401, 408), 10_000, 20_000, 30_000]
    assert not kept.keep(held(600, sender=2))  # farther than what it has
    assert kept.keep(held(40_000, sender=1))
    assert kept.records == 10


def test_a_large_value_takes_the_room_of_its_senders_small_ones() -> None:
    kept = storage(bytes_max=10 * RECORD_BYTES)
    for point in range(4):
        kept.keep(held(point, sender=1))
    for point in range(4, 10):
        kept.keep(held(point, sender=2))
    assert kept.keep(held(1, sender=2, size=4 * RECORD_BYTES))  # its own, in the place of another's value
    assert kept.value(key_of_point(0)) is not None
    assert sorted(one.sender for one in kept.values) == [1, 1, 1, 2, 2, 2]
    assert not kept.keep(held(11, sender=3, size=11 * RECORD_BYTES))
    check(kept)


def test_the_last_to_say_so_are_a_keys_providers() -> None:
    kept = storage(providers_max=2)
    for provider in (5, 6, 7, 6):
        assert kept.keep(held(1, 10 + provider, provider=provider))
    assert [one.provider for one in kept.providers(key_of_point(1))] == [6, 7]
    assert kept.value(key_of_point(1)) is None


@pytest.mark.parametrize("config", [{"nearest": 1}, {"expire_s": 100.0, "republish_s": 60.0}, {"tries": 0}])
def test_settings_that_make_no_sense_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        KademliaConfig(**config)
