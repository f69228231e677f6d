"""The memory of who was silent: what it believes, what it forgets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.arrays.suspicion import PLACES, SuspicionMemory, believes, forgive, make_suspicion, note
from vinecast.core.arrays.topic_overlap import begin_gathering, make_scratch
from vinecast.core.machine import NOBODY


def test_who_was_never_silent_is_believed() -> None:
    assert believes(make_suspicion(1), 0, 100, 7, 65535)


def test_word_of_a_silent_peer_must_be_younger_than_the_silence() -> None:
    suspicion = make_suspicion(2)
    note(suspicion, 1, 7, 10)
    assert not believes(suspicion, 1, 10, 7, 0)  # in the cycle of the silence nothing is news
    assert not believes(suspicion, 1, 15, 7, 5)
    assert believes(suspicion, 1, 15, 7, 4)
    assert believes(suspicion, 0, 15, 7, 5)  # another node's memory
    assert believes(suspicion, 1, 15, 8, 5)  # another peer


def test_a_later_silence_counts() -> None:
    suspicion = make_suspicion(1)
    note(suspicion, 0, 7, 10)
    note(suspicion, 0, 7, 20)
    assert not believes(suspicion, 0, 22, 7, 4)
    assert (suspicion.peers == 7).sum() == 1


def test_who_is_heard_from_is_forgiven() -> None:
    suspicion = make_suspicion(1)
    note(suspicion, 0, 7, 10)
    forgive(suspicion, 0, 7)
    assert believes(suspicion, 0, 10, 7, 50)
    assert (suspicion.peers == NOBODY).all()


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=120))
def test_it_remembers_the_latest_ones(what: list[tuple[int, bool]]) -> None:
    suspicion = make_suspicion(1)
    expected: dict[int, int] = {}
    for cycle, (peer, silent) in enumerate(what):
        if silent:
            note(suspicion, 0, peer, cycle)
            expected[peer] = cycle
            if len(expected) > PLACES:
                del expected[min(expected, key=lambda known: expected[known])]
        else:
            forgive(suspicion, 0, peer)
            expected.pop(peer, None)
    known = [int(peer) for peer in suspicion.peers[0] if peer != NOBODY]
    assert len(known) == len(set(known))
    assert {
        peer: int(suspicion.since[0, suspicion.peers[0].tolist().index(peer)]) for peer in known
    } == expected


def test_candidates_are_sifted() -> None:
    memory, scratch = SuspicionMemory(), make_scratch(10, 1, 1, 10)
    memory.cycle = 10
    memory.note(3)
    memory.note(4)
    memory.cycle = 15
    peers, ages = np.array([3, 4, 5, NOBODY, 5], np.int32), np.array([9, 2, 30, 0, 1], np.uint16)
    count = memory.gather(scratch, begin_gathering(scratch), peers, ages)
    assert list(zip(scratch.peers[:count].tolist(), scratch.ages[:count].tolist(), strict=True)) == [
        (4, 2),
        (5, 30),
    ]
    memory.clear()
    assert memory.gather(scratch, begin_gathering(scratch), peers, ages) == 3
