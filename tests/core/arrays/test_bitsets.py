"""Sets with a bit a member: held against Python's own sets, and the choices made with them against those made
with lists of topics."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.bitsets import (
    PEERS_MAX,
    WORDS_MAX,
    Members,
    count_common,
    highest,
    join,
    lowest,
    make_sets,
    ones,
    take_above,
    take_below,
    words_for,
)
from vinecast.core.arrays.profiles import Profiles, Table
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.regularity_overlap import in_common, score_regular
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather_one, make_scratch
from vinecast.core.exchange import Turn
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.protocols.rings.rules import consider, select_for
from vinecast.protocols.vicinity.rules import NOTHING_KNOWN, select_best

TOPICS, MOST = 70, 300
WORD = st.one_of(st.integers(0, 63).map(lambda bit: 1 << bit), st.integers(1, (1 << 64) - 1))


def members_of(chosen: set[int], of: int) -> Members:
    found = np.zeros(words_for(of), dtype=np.uint64)
    for one in chosen:
        join(found, one)
    return found


@rule
def ask(words: Members, found: NDArray[np.int64]) -> None:
    """found: [word, (ones, lowest, highest)]"""
    for at in range(words.size):
        found[at, 0], found[at, 1], found[at, 2] = ones(words[at]), lowest(words[at]), highest(words[at])


@settings(max_examples=100)
@given(st.lists(WORD, min_size=1, max_size=20))
def test_bits_are_counted_and_found(words: list[int]) -> None:
    found = np.zeros((len(words), 3), dtype=np.int64)
    ask(np.array(words, dtype=np.uint64), found)
    for value, row in zip(words, found.tolist(), strict=True):
        assert row == [value.bit_count(), (value & -value).bit_length() - 1, value.bit_length() - 1]


@rule
def take(fans: Members, candidates: Members, at: int, row: NDArray[np.int32]) -> None:
    """Half of the row below, half above."""
    take_below(fans, candidates, at, row, 0, row.size // 2)
    take_above(fans, candidates, at, row, row.size // 2, row.size)


@settings(max_examples=200)
@given(st.data(), st.integers(1, 200), st.sampled_from((2, 4, 8)))
def test_the_nearest_on_either_side_are_found_around_the_circle(
    data: st.DataObject, peers: int, places: int
) -> None:
    at = data.draw(st.integers(0, peers - 1))
    fans, candidates = (data.draw(st.sets(st.integers(0, peers - 1))) for _ in range(2))
    candidates -= {at}
    row = np.full(places, NOBODY, dtype=np.int32)
    take(members_of(fans, peers), members_of(candidates, peers), at, row)
    both, half = fans & candidates, places // 2
    below = sorted(both, key=lambda peer: (at - peer) % peers)[:half]
    above = sorted(both, key=lambda peer: (peer - at) % peers)[:half]
    empty = [NOBODY] * half
    assert row.tolist() == (below + empty)[:half] + (above + empty)[:half]
    assert count_common(members_of(fans, peers), members_of(candidates, peers)) == len(both)


def population(data: st.DataObject, peers: int) -> Profiles:
    topics = st.sets(st.integers(0, TOPICS - 1), max_size=12)
    chosen = [sorted(data.draw(topics)) for _ in range(peers)]
    start = np.cumsum([0, *map(len, chosen)]).astype(np.int64)
    flat = np.array([topic for each in chosen for topic in each], dtype=np.int32)
    profiles = Profiles.simulated(1, start, flat, TOPICS)
    covered = data.draw(st.lists(st.integers(0, 4), min_size=flat.size, max_size=flat.size))
    profiles.coverage[:] = covered
    return profiles


def rooms(profiles: Profiles, candidates: list[tuple[int, int]]) -> tuple[Scratch, Scratch, int]:
    """Without sets and with them, both with these candidates."""
    subscribers = profiles.subscribers()
    sets = make_sets(subscribers.start, subscribers.node, profiles.peers)
    assert min(sets.fans.size, sets.tastes.size) > 0
    found = [make_scratch(profiles.peers, TOPICS, TOPICS, MOST, sets=each) for each in (None, sets)]
    for scratch in found:
        count = begin_gathering(scratch)
        for peer, age in candidates:
            count = gather_one(scratch, count, peer, age)
    return found[0], found[1], count


def some_leave(data: st.DataObject, table: Table) -> Table:
    """Nobody has topics but those who take part, as in the regular rings."""
    there = data.draw(st.lists(st.booleans(), min_size=table.cnt.size, max_size=table.cnt.size))
    return table._replace(cnt=np.where(there, table.cnt, 0).astype(np.int32))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(3, 150))
def test_the_same_is_chosen_with_sets_as_with_lists(data: st.DataObject, peers: int) -> None:
    profiles = population(data, peers)
    assume(profiles.topics.size >= 2 * peers)  # else there are no sets
    peer = st.integers(0, peers - 1)
    candidates = data.draw(st.lists(st.tuples(peer, st.integers(0, 9)), max_size=60))
    me, target = data.draw(st.tuples(peer, peer).filter(lambda both: both[0] != both[1]))
    table = some_leave(data, profiles.table)
    plain, small, count = rooms(profiles, candidates)

    common = select_for(target, me, count, table, plain)
    assert select_for(target, me, count, table, small) == common
    assert small.near[:common].tolist() == plain.near[:common].tolist()
    there = plain.near[:common] != NOBODY
    assert small.near_ages[:common][there].tolist() == plain.near_ages[:common][there].tolist()

    rows = int(table.cnt[me])
    filled = []
    for scratch in (plain, small):
        ring = np.full((rows, 4), NOBODY, dtype=np.int32), np.zeros((rows, 4), dtype=np.uint16)
        consider(me, count, *ring, table, scratch)
        filled.append([part.tolist() for part in ring])
    assert filled[0] == filled[1]

    for most in (3, MOST):
        best = [
            (select_best(Turn(7, 1, target, target), 4, count, most, table, scratch, NOTHING_KNOWN), scratch)
            for scratch in (plain, small)
        ]
        chosen = [scratch.best[:found].tolist() for found, scratch in best]
        assert chosen[0] == chosen[1]

    patterns = Patterns(peers, 24)
    regular = data.draw(st.lists(st.integers(0, 2**24 - 1), min_size=peers, max_size=peers))
    patterns.give(np.array([[bits >> slot & 1 for slot in range(24)] for bits in regular], dtype=np.bool_))
    scores = [np.zeros(MOST, dtype=np.uint64) for _ in range(2)]
    for scratch, found in zip((plain, small), scores, strict=True):
        score_regular(target, 4, count, table, patterns.packed, scratch, found)
    assert scores[0].tolist() == scores[1].tolist()
    assert in_common(patterns.packed, me, target) == (regular[me] & regular[target]).bit_count()
    for scratch in (plain, small):
        for left in (scratch.candidates, scratch.lacking, scratch.mark, scratch.row_of):
            assert not left.any()


@pytest.mark.parametrize(
    ("peers", "topics", "each", "pays"),
    [
        (1000, 1000, 16, True),
        (1000, 1000, 15, False),  # sixteen words, instead of fifteen topics
        (PEERS_MAX + 1, 64, 64, False),
        (64, WORDS_MAX + 64, 4100, False),
        (5, 0, 0, False),
        (0, 5, 0, False),
    ],
)
def test_there_are_sets_where_they_pay(peers: int, topics: int, each: int, pays: bool) -> None:
    chosen = (np.arange(peers)[:, None] + np.arange(each)).ravel() % max(topics, 1)
    start = np.cumsum([0, *np.bincount(chosen, minlength=topics)]).astype(np.int64)
    node = (np.argsort(chosen, kind="stable") // max(each, 1)).astype(np.int32)
    sets = make_sets(start, node, peers)
    assert (sets.fans.size > 0) == (sets.tastes.size > 0) == pays
