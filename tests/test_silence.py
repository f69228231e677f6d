"""The memory of who was silent: what it believes, what it forgets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.interest import begin_gathering, make_scratch
from vinecast.core.machine import NOBODY
from vinecast.core.silence import PLACES, SilenceMemory, believes, forgive, make_silence, note


def test_who_was_never_silent_is_believed() -> None:
    assert believes(make_silence(1), 0, 100, 7, 65535)


def test_word_of_a_silent_peer_must_be_younger_than_the_silence() -> None:
    silence = make_silence(2)
    note(silence, 1, 7, 10)
    assert not believes(silence, 1, 10, 7, 0)  # in the cycle of the silence nothing is news
    assert not believes(silence, 1, 15, 7, 5)
    assert believes(silence, 1, 15, 7, 4)
    assert believes(silence, 0, 15, 7, 5)  # another node's memory
    assert believes(silence, 1, 15, 8, 5)  # another peer


def test_a_later_silence_counts() -> None:
    silence = make_silence(1)
    note(silence, 0, 7, 10)
    note(silence, 0, 7, 20)
    assert not believes(silence, 0, 22, 7, 4)
    assert (silence.peers == 7).sum() == 1


def test_who_is_heard_from_is_forgiven() -> None:
    silence = make_silence(1)
    note(silence, 0, 7, 10)
    forgive(silence, 0, 7)
    assert believes(silence, 0, 10, 7, 50)
    assert (silence.peers == NOBODY).all()


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=120))
def test_it_remembers_the_latest_ones(what: list[tuple[int, bool]]) -> None:
    silence = make_silence(1)
    expected: dict[int, int] = {}
    for cycle, (peer, silent) in enumerate(what):
        if silent:
            note(silence, 0, peer, cycle)
            expected[peer] = cycle
            if len(expected) > PLACES:
                del expected[min(expected, key=lambda known: expected[known])]
        else:
            forgive(silence, 0, peer)
            expected.pop(peer, None)
    known = [int(peer) for peer in silence.peers[0] if peer != NOBODY]
    assert len(known) == len(set(known))
    assert {peer: int(silence.since[0, silence.peers[0].tolist().index(peer)]) for peer in known} == expected


def test_candidates_are_sifted() -> None:
    memory, scratch = SilenceMemory(), make_scratch(10, 1, 1, 10)
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
