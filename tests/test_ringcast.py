"""Whom an event is forwarded to: every case of S0 §4.2, and shortcuts against an obvious twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.draws import mix, purpose, stream, substream
from vinecast.core.interest import begin_gathering, gather, make_scratch
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles, Table
from vinecast.protocols.ringcast import rules

LOWER, HIGHER, SENDER = 1, 2, 9
FANOUTS = range(1, 6)


def targets_of(lower: int, higher: int, sender: int, fanout: int, shortcuts: list[int]) -> list[int]:
    """As a node does it: room for ``fanout`` shortcuts, filled up with NOBODY."""
    offered = np.full(fanout, NOBODY, dtype=np.int32)
    offered[: len(shortcuts[:fanout])] = shortcuts[:fanout]
    targets = np.full(fanout + 2, -7, dtype=np.int32)
    count = rules.choose_targets(lower, higher, sender, fanout, offered, targets)
    chosen: list[int] = targets[:count].tolist()
    return chosen


SHORTCUTS = [20, 21, 22, 23, 24]


@pytest.mark.parametrize("fanout", FANOUTS)
def test_from_the_lower_neighbour_to_the_higher_and_f_less_one_others(fanout: int) -> None:
    assert targets_of(LOWER, HIGHER, LOWER, fanout, SHORTCUTS) == [HIGHER, *SHORTCUTS[: fanout - 1]]


@pytest.mark.parametrize("fanout", FANOUTS)
def test_from_the_higher_neighbour_to_the_lower_and_f_less_one_others(fanout: int) -> None:
    assert targets_of(LOWER, HIGHER, HIGHER, fanout, SHORTCUTS) == [LOWER, *SHORTCUTS[: fanout - 1]]


@pytest.mark.parametrize("sender", [SENDER, NOBODY])
@pytest.mark.parametrize("fanout", FANOUTS)
def test_from_elsewhere_or_oneself_to_both_and_f_less_two_others(fanout: int, sender: int) -> None:
    """Fan-out 1 still uses both ring neighbours, or a third node's copy would close one way round."""
    others = SHORTCUTS[: max(fanout - 2, 0)]
    assert targets_of(LOWER, HIGHER, sender, fanout, SHORTCUTS) == [LOWER, HIGHER, *others]


@pytest.mark.parametrize("fanout", FANOUTS)
def test_a_shortcut_back_to_the_sender_is_replaced_by_the_next(fanout: int) -> None:
    shortcuts = [20, SENDER, 21, 22, 23]
    expected = [20, 21, 22][: max(fanout - 2, 0)]
    assert targets_of(LOWER, HIGHER, SENDER, fanout, shortcuts) == [LOWER, HIGHER, *expected]


@pytest.mark.parametrize("fanout", FANOUTS)
def test_a_ring_of_one_has_nobody_to_tell(fanout: int) -> None:
    assert targets_of(NOBODY, NOBODY, NOBODY, fanout, []) == []
    assert targets_of(NOBODY, NOBODY, SENDER, fanout, []) == []


@pytest.mark.parametrize("fanout", FANOUTS)
def test_on_a_ring_of_two_the_other_is_told_once_and_never_answered(fanout: int) -> None:
    assert targets_of(LOWER, LOWER, NOBODY, fanout, []) == [LOWER]
    assert targets_of(LOWER, LOWER, SENDER, fanout, []) == [LOWER]
    assert targets_of(LOWER, LOWER, LOWER, fanout, []) == []


@pytest.mark.parametrize("fanout", FANOUTS)
def test_on_a_ring_of_three_everybody_hears_at_once(fanout: int) -> None:
    assert targets_of(LOWER, HIGHER, NOBODY, fanout, []) == [LOWER, HIGHER]
    assert targets_of(LOWER, HIGHER, LOWER, fanout, []) == [HIGHER]
    assert targets_of(LOWER, HIGHER, HIGHER, fanout, []) == [LOWER]


@pytest.mark.parametrize("fanout", FANOUTS)
def test_one_side_unknown_leaves_the_other_and_the_shortcuts(fanout: int) -> None:
    assert targets_of(NOBODY, HIGHER, HIGHER, fanout, SHORTCUTS) == SHORTCUTS[: fanout - 1]
    assert targets_of(LOWER, NOBODY, SENDER, fanout, SHORTCUTS) == [LOWER, *SHORTCUTS[: max(fanout - 2, 0)]]


Peer = st.integers(NOBODY, 12)


@settings(max_examples=300)
@given(Peer, Peer, Peer, st.integers(1, 5), st.lists(st.integers(0, 12), unique=True))
def test_never_the_sender_never_nobody_never_twice(
    lower: int, higher: int, sender: int, fanout: int, others: list[int]
) -> None:
    shortcuts = [peer for peer in others if peer not in (lower, higher)]
    targets = targets_of(lower, higher, sender, fanout, shortcuts)
    assert len(set(targets)) == len(targets)
    assert sender not in targets
    assert NOBODY not in targets
    assert {lower, higher} - {sender, NOBODY} <= set(targets)
    assert len(targets) <= max(fanout, 2)


# Shortcuts.

PEERS, TOPICS = 14, 4


def table_of(topics: list[set[int]]) -> Table:
    profiles = Profiles(np.arange(len(topics), dtype=np.uint64), np.arange(TOPICS, dtype=np.uint64))
    for peer, names in enumerate(topics):
        profiles.set_topics(
            peer, np.array(sorted(names), dtype=np.int32), np.zeros(len(names), dtype=np.uint8)
        )
    return profiles.table


def shortcuts_of(
    seed: int, event: int, topic: int, ring: tuple[int, int], candidates: list[int], most: int, table: Table
) -> list[int]:
    scratch = make_scratch(PEERS, TOPICS, TOPICS, PEERS)
    peers = np.array(candidates, dtype=np.int32)
    count = gather(scratch, begin_gathering(scratch), peers, np.zeros(peers.size, dtype=np.uint16))
    chosen, order = np.full(most, -7, dtype=np.int32), np.zeros(most, dtype=np.uint64)
    rules.choose_shortcuts(seed, event, topic, 0, *ring, count, table, scratch, chosen, order)
    return chosen.tolist()


Topics = st.lists(st.sets(st.integers(0, TOPICS - 1)), min_size=PEERS, max_size=PEERS)
Candidates = st.lists(st.integers(0, PEERS - 1), max_size=PEERS, unique=True)


@settings(max_examples=200)
@given(
    Topics, Candidates, st.tuples(Peer, Peer), st.integers(1, 5), st.integers(0, 2**62), st.integers(0, 2**31)
)
def test_shortcuts_are_the_first_subscribers_in_the_events_own_order(
    topics: list[set[int]], candidates: list[int], ring: tuple[int, int], most: int, seed: int, event: int
) -> None:
    table = table_of(topics)
    key = stream(seed, purpose("ringcast.shortcut"), event, 0)
    usable = [p for p in candidates if 2 in topics[p] and p not in (0, *ring)]
    first = sorted(usable, key=lambda peer: int(mix(substream(key, peer))))[:most]
    expected = first + [NOBODY] * (most - len(first))
    assert shortcuts_of(seed, event, 2, ring, candidates, most, table) == expected
    assert shortcuts_of(seed, event, 2, ring, candidates[::-1], most, table) == expected


@given(Topics, st.integers(0, PEERS - 1), st.integers(-1, TOPICS))
def test_who_subscribes_is_read_from_the_profile(topics: list[set[int]], peer: int, topic: int) -> None:
    assert rules.subscribes(table_of(topics), peer, topic) == (topic in topics[peer])


def test_different_events_take_different_shortcuts() -> None:
    table = table_of([{0}] * PEERS)
    everybody = list(range(PEERS))
    chosen = {tuple(shortcuts_of(1, event, 0, (1, 2), everybody, 2, table)) for event in range(100)}
    assert len(chosen) > 30
    assert {peer for pair in chosen for peer in pair} == set(range(3, PEERS))
