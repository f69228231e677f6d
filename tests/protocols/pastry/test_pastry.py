"""Pastry's machine: alone, back to back, and whatever peers send."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.protocols.pastry import SECOND, check_tables, profiles_of, some
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
)
from vinecast.core.events import TimerFired as Fired
from vinecast.core.machine import NOBODY
from vinecast.protocols.pastry import (
    MESSAGES,
    Pastry,
    PastryAnnounce,
    PastryAnswer,
    PastryConfig,
    PastryExchange,
    PastryGone,
    PastryGoodbye,
    PastryJoin,
    PastryProbe,
    PastryRow,
    PastryWelcome,
)
from vinecast.protocols.pastry.machine import GATHERED_MAX, GONE_MAX
from vinecast.protocols.pastry.rules import HIGHER, LOWER

# The machine.

KEEP_UP = Fired("pastry")


def machine(me: int, nodes: int = 20, contacts: tuple[int, ...] = (), **config: Any) -> Pastry:
    made = Pastry(PastryConfig(**{"period_s": 1.0, "timeout_s": 0.2, **config}), 1, me, profiles_of(nodes))
    made.handle(Start(contacts), 0)
    return made


def sends(effects: list[Effect], kind: type) -> list[int]:
    return [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def settle(nodes: dict[int, Pastry], effects: list[tuple[int, Effect]], now_us: int = 0) -> None:
    """Deliver everything at once, and what comes of it."""
    while effects:
        sender, effect = effects.pop(0)
        if isinstance(effect, Send) and effect.to in nodes:
            replies = nodes[effect.to].handle(Received(sender, effect.message), now_us)
            effects += [(effect.to, reply) for reply in replies]


def test_the_first_node_is_alone_and_nearest_to_everything() -> None:
    node = Pastry(PastryConfig(), 1, 3, profiles_of(20))
    assert node.next_hop(5) == NOBODY
    assert node.handle(Start(), 0) == [SetTimer("pastry", 60_000_000)]
    assert node.next_hop(5) == 3
    assert node.handle(KEEP_UP, 0) == [SetTimer("pastry", 60_000_000)]


def test_two_machines_back_to_back_know_each_other() -> None:
    a, b = machine(4), Pastry(PastryConfig(), 1, 9, profiles_of(20))
    started = b.handle(Start((4, 9, -1, 99)), 0)
    assert sends(started, PastryJoin) == [4]
    assert b.next_hop(0) == NOBODY
    settle({4: a, 9: b}, [(9, effect) for effect in started])
    assert b.joined
    assert a.known == [9]
    assert b.known == [4]
    assert b.leafs[LOWER, 0] == b.leafs[HIGHER, 0] == 4


def test_a_join_that_is_not_answered_is_tried_through_the_next_contact() -> None:
    node = Pastry(PastryConfig(), 1, 0, profiles_of(20))
    first = node.handle(Start((5, 6)), 0)
    assert SetTimer("pastry.join", 3_000_000) in first
    assert sends(first, PastryJoin) == [5]
    again = node.handle(Fired("pastry.join"), 3_000_000)
    assert sends(again, PastryJoin) == [6]
    stale = PastryWelcome(1, some(7, 8))
    assert node.handle(Received(8, stale), 1) == [Count("pastry.late")]
    node.handle(Received(8, PastryWelcome(2, some(7, 8))), 1)
    assert node.joined
    assert node.handle(Fired("pastry.join"), 6_000_000) == []


def test_a_newcomer_announces_itself_to_all_it_was_told_of() -> None:
    node = Pastry(PastryConfig(), 1, 0, profiles_of(60))
    node.handle(Start((5,)), 0)
    effects = node.handle(Received(9, PastryWelcome(1, np.arange(60, dtype=np.int32))), 1)
    told = sends(effects, PastryAnnounce) + sends(effects, PastryExchange)
    assert sorted(set(told)) == sorted(node.known)
    assert {1, 59} <= set(sends(effects, PastryExchange))


def test_a_restart_joins_again_through_whom_it_knew() -> None:
    node = machine(0, contacts=(5, 6))
    node.handle(Received(5, PastryWelcome(1, some(7))), 1)
    node.handle(PeerLost(5), 2)
    effects = node.handle(Start((9,)), 10)
    assert not node.joined
    assert node.contacts == [9, 6, 7] or set(node.contacts) == {9, 6, 7}
    assert len(sends(effects, PastryJoin)) == 1
    assert not node.asked
    assert not node.gone


def met(node: Pastry, *peers: int) -> Pastry:
    for peer in peers:
        node.handle(Received(peer, PastryAnnounce()), 0)
    return node


def test_a_silent_neighbour_is_gone_after_a_period_and_the_leafs_are_told() -> None:
    node = met(machine(10, probes=0, leaf_size=4), 8, 9, 11, 12)
    asked = node.handle(KEEP_UP, SECOND)
    assert {9, 11} <= set(sends(asked, PastryExchange))
    node.handle(Received(11, PastryAnswer(some(13))), SECOND + 5)
    effects = node.handle(KEEP_UP, 2 * SECOND)
    assert 9 not in node.known
    assert 11 in node.known
    assert set(sends(effects, PastryGone)) == set(node.leafs.ravel().tolist()) - {NOBODY}
    assert node.leafs[LOWER, 0] == 8
    node.handle(Received(8, PastryAnswer(some(9))), 2 * SECOND)
    assert 9 not in node.known  # the neighbour has not noticed yet
    node.handle(Received(9, PastryAnnounce()), 2 * SECOND)
    assert node.leafs[LOWER, 0] == 9  # it speaks for itself


def test_nobody_is_called_silent_who_was_asked_a_moment_ago() -> None:
    node = met(machine(10, probes=0), 9, 11)
    node.handle(KEEP_UP, SECOND)
    node.handle(KEEP_UP, SECOND + 100_000)
    assert node.known == [9, 11]
    patient = met(machine(10, probes=0, patience=3), 9, 11)
    for second in (1, 2, 3):
        patient.handle(KEEP_UP, second * SECOND)
        assert len(patient.known) == 2
    patient.hear(9, 0)
    patient.handle(KEEP_UP, 4 * SECOND)
    assert patient.known == [9]


def test_a_rumour_is_verified_and_not_believed() -> None:
    node = met(machine(10, probes=0, leaf_size=4), 7, 8, 9, 11, 12)
    effects = node.handle(Received(9, PastryGone(some(8, 8, 15, -4, 12))), SECOND)
    assert sends(effects, PastryProbe) == [8, 12]
    node.handle(Received(8, PastryRow(some())), SECOND)
    effects = node.handle(KEEP_UP, 2 * SECOND)
    assert 8 in node.known
    assert 12 not in node.known
    assert not sends(effects, PastryGone)  # whoever found it out has told everybody


@pytest.mark.parametrize("event", [PeerLost(9), Received(9, PastryGoodbye())])
def test_who_is_lost_or_says_goodbye_is_forgotten_at_once(event: Event) -> None:
    node = met(machine(10), 8, 9, 11)
    before = node.changes
    effects = node.handle(event, 5)
    assert sorted(node.known) == [8, 11]
    assert node.changes > before
    if isinstance(event, PeerLost):
        assert 8 in sends(effects, PastryExchange)
        assert set(sends(effects, PastryGone)) == {8, 11}


def test_a_leaver_says_goodbye_to_all_it_knows() -> None:
    assert sorted(sends(met(machine(10), 8, 9).handle(Stop(), 1), PastryGoodbye)) == [8, 9]


def test_others_are_asked_for_rows_in_turn() -> None:
    node = met(machine(10, probes=2), *range(5))
    asked = []
    for second in range(1, 4):
        effects = node.handle(KEEP_UP, second * SECOND)
        asked += sends(effects, PastryProbe)
        for peer in node.known:
            node.hear(peer, 0)
    assert set(asked) == {*range(5)}
    effects = node.handle(Received(3, PastryProbe(0)), 9 * SECOND)
    (sent,) = [e for e in effects if isinstance(e, Send)]
    assert isinstance(sent.message, PastryRow)
    assert set(sent.message.peers.tolist()) <= set(node.known)


@pytest.mark.parametrize("event", [Publish(1, 2), Fired("somebody else's")])
def test_what_does_not_concern_it_is_ignored(event: Event) -> None:
    assert machine(0, contacts=(1,)).handle(event, 0) == []


numbers = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 22)
lists = st.lists(numbers, max_size=40).map(lambda peers: some(*peers))
big = st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 20)
messages = st.one_of(
    st.builds(PastryJoin, numbers, big, big, big, lists),
    st.builds(PastryJoin, numbers, big, st.just(0), st.just(1), lists),
    st.builds(PastryWelcome, big, lists),
    st.builds(PastryAnnounce),
    st.builds(PastryGoodbye),
    st.builds(PastryExchange, lists),
    st.builds(PastryAnswer, lists),
    st.builds(PastryProbe, big),
    st.builds(PastryRow, lists),
    st.builds(PastryGone, lists),
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 6) | st.integers(8, 19), messages), max_size=20), st.booleans())
def test_whatever_peers_send_the_tables_stay_sound(conversation: list[tuple[int, Any]], in_it: bool) -> None:
    node = machine(7, contacts=(1, 2) if in_it else (), leaf_size=4)
    for step, (sender, message) in enumerate(conversation):
        assert isinstance(message, MESSAGES)
        effects = node.handle(Received(sender, message), step * SECOND // 3)
        if step % 4 == 3:
            effects += node.handle(KEEP_UP, step * SECOND // 3)
        for effect in effects:
            if isinstance(effect, Send):
                assert 0 <= effect.to < 20
                assert effect.to != 7
                assert getattr(effect.message, "peers", some()).size <= GATHERED_MAX
        check_tables(node, 20)
        assert len(node.gone) <= GONE_MAX
        assert len(node.asked) <= 20


def test_a_message_that_is_too_long_is_cut_or_refused() -> None:
    node = machine(7)
    flood = np.zeros(100_000, dtype=np.int32)
    assert node.handle(Received(1, PastryJoin(2, 1, 0, 1, flood)), 0) == [Count("pastry.refused")]
    assert node.handle(Received(1, PastryJoin(2, 1, 0, 64, some())), 0) == [Count("pastry.refused")]
    assert node.handle(Received(1, PastryProbe(99)), 0) == [Count("pastry.refused")]
    node.handle(Received(1, PastryExchange(flood)), 0)
    assert sorted(node.known) == [0, 1]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"digit_bits": 3}, "digit_bits must divide 64"),
        ({"leaf_size": 7}, "leaf_size must be even"),
        ({"leaf_size": 0}, "leaf_size must be at least 2"),
        ({"period_s": 0.0}, "period_s must be at least"),
        ({"patience": 0}, "patience must be at least 1"),
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        PastryConfig(**wrong)
