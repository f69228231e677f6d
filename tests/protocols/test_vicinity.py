"""Vicinity: its rules one by one, the choice of the best against an obvious twin, and the machine."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, make_scratch
from vinecast.core.draws import mix, purpose, stream, substream
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
    TimerFired,
)
from vinecast.core.exchange import Turn
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.vicinity import Vicinity, VicinityAnswer, VicinityConfig, VicinityRequest, rules
from vinecast.protocols.vicinity.rules import AGE_MAX, Ages, Peers

Entries = list[tuple[int, int]]
PEERS, TOPICS = 12, 8


def arrays_of(entries: Entries, capacity: int = 0) -> tuple[Peers, Ages]:
    peers = np.full(max(capacity, len(entries)), NOBODY, dtype=np.int32)
    ages = np.zeros(max(capacity, len(entries)), dtype=np.uint16)
    for slot, (peer, age) in enumerate(entries):
        peers[slot], ages[slot] = peer, age
    return peers, ages


def entries_of(peers: Peers, ages: Ages) -> Entries:
    pairs = zip(peers.tolist(), ages.tolist(), strict=True)
    return [(peer, age) for peer, age in pairs if peer != NOBODY]


def profiles_of(topics: dict[int, dict[int, int]], peers: int = PEERS) -> Profiles:
    """topics: peer -> its topics -> how well each is covered"""
    profiles = Profiles(np.arange(peers, dtype=np.uint64), np.arange(TOPICS, dtype=np.uint64))
    for peer, coverage in topics.items():
        names = np.array(sorted(coverage), dtype=np.int32)
        profiles.set_topics(peer, names, np.array([coverage[t] for t in names.tolist()], dtype=np.uint8))
    return profiles


def room(most: int = 30) -> Scratch:
    return make_scratch(PEERS, TOPICS, TOPICS, most)


# The rules.


def test_the_oldest_is_taken_out_and_the_rest_are_a_cycle_older() -> None:
    peers, ages = arrays_of([(1, 3), (2, 9), (3, 4)], 5)
    assert rules.take_oldest(peers, ages) == 2
    assert entries_of(peers, ages) == [(1, 4), (3, 5)]
    assert peers.tolist()[2:] == [NOBODY] * 3


def test_the_first_among_equally_old_is_taken() -> None:
    assert rules.take_oldest(*arrays_of([(5, 2), (4, 2), (3, 2)])) == 5


def test_ages_stop_at_the_top() -> None:
    peers, ages = arrays_of([(1, AGE_MAX), (2, AGE_MAX), (3, AGE_MAX - 1)])
    assert rules.take_oldest(peers, ages) == 1
    assert sorted(entries_of(peers, ages)) == [(2, AGE_MAX), (3, AGE_MAX)]


def test_nobody_is_taken_out_of_an_empty_view() -> None:
    assert rules.take_oldest(*arrays_of([], 4)) == NOBODY


def test_hearing_from_a_peer_zeroes_its_age_alone() -> None:
    peers, ages = arrays_of([(1, 3), (2, 9)], 4)
    rules.hear_from(peers, ages, 2)
    rules.hear_from(peers, ages, 7)
    assert entries_of(peers, ages) == [(1, 3), (2, 0)]


def test_a_peer_that_is_gone_leaves_no_hole() -> None:
    peers, ages = arrays_of([(1, 3), (2, 9), (3, 4)], 4)
    rules.remove(peers, ages, 1)
    rules.remove(peers, ages, 8)
    assert sorted(entries_of(peers, ages)) == [(2, 9), (3, 4)]
    assert rules.size_of(peers) == 2


def test_the_size_of_a_view_is_its_entries() -> None:
    assert [rules.size_of(arrays_of([(p, 0) for p in range(n)], 3)[0]) for n in range(4)] == [0, 1, 2, 3]


def test_what_was_chosen_becomes_the_view_or_a_message() -> None:
    scratch = room()
    gather(scratch, begin_gathering(scratch), *arrays_of([(4, 1), (5, 2), (6, 3)]))
    scratch.best[:2] = [2, 0]
    peers, ages = arrays_of([(1, 1), (2, 2), (3, 3), (7, 7)])
    rules.keep(peers, ages, scratch, 2)
    assert peers.tolist() == [6, 4, NOBODY, NOBODY]
    assert ages.tolist() == [3, 1, 0, 0]
    out = arrays_of([], 2)
    rules.write_out(scratch, 2, *out)
    assert entries_of(*out) == [(6, 3), (4, 1)]


def best_of(
    target: int, seed: int, cycle: int, wanted: int, candidates: Entries, most: int,
    topics: dict[int, dict[int, int]],
) -> Entries:  # fmt: skip
    """The twin: sort all by S0 §5.2's order and take the first."""

    def place(entry: tuple[int, int]) -> tuple[list[int], int]:
        shared = [topics[target][t] for t in topics.get(entry[0], {}) if t in topics.get(target, {})]
        lacks = [max(wanted - covered, 0) for covered in shared]
        counts = [lacks.count(lack) for lack in range(wanted, -1, -1)]
        return [-count for count in counts], int(mix(substream(key, entry[0])))

    key = stream(seed, purpose("vicinity.ties"), cycle, target)
    return sorted((entry for entry in candidates if entry[0] != target), key=place)[:most]


Topics = st.dictionaries(st.integers(0, TOPICS - 1), st.integers(0, 4), max_size=TOPICS)


@settings(max_examples=200)
@given(
    st.dictionaries(st.integers(0, PEERS - 1), Topics, max_size=PEERS),
    st.lists(
        st.tuples(st.integers(0, PEERS - 1), st.integers(0, 99)), max_size=PEERS, unique_by=lambda e: e[0]
    ),
    st.integers(0, PEERS - 1),
    st.integers(1, 4),
    st.integers(1, PEERS + 2),
    st.integers(0, 2**63 - 1),
)
def test_the_best_are_those_of_the_obvious_twin(
    topics: dict[int, dict[int, int]], candidates: Entries, target: int, wanted: int, most: int, seed: int
) -> None:
    scratch = room()
    count = gather(scratch, begin_gathering(scratch), *arrays_of(candidates))
    table = profiles_of(topics).table
    turn, known = Turn(seed, 3, target, target), rules.NOTHING_KNOWN
    found = rules.select_best(turn, wanted, count, most, table, scratch, known)
    chosen = [(int(scratch.peers[i]), int(scratch.ages[i])) for i in scratch.best[:found]]
    assert chosen == best_of(target, seed, 3, wanted, candidates, most, topics)
    assert not scratch.mark.any()


def test_the_best_do_not_depend_on_the_order_of_candidates() -> None:
    candidates = [(peer, peer) for peer in range(1, PEERS)]
    table = profiles_of({peer: {peer % 3: 0} for peer in range(PEERS)}).table
    chosen = []
    for order in (candidates, candidates[::-1], candidates[5:] + candidates[:5]):
        scratch = room()
        count = gather(scratch, begin_gathering(scratch), *arrays_of(order))
        found = rules.select_best(Turn(1, 1, 0, 0), 4, count, 6, table, scratch, rules.NOTHING_KNOWN)
        chosen.append(scratch.peers[scratch.best[:found]].tolist())
    assert chosen[0] == chosen[1] == chosen[2]
    assert set(chosen[0]) >= {3, 6, 9}


# The machine.

EVERYBODY: dict[int, dict[int, int]] = {peer: {0: 0, 1 + peer % 3: 0} for peer in range(PEERS)}


def beside(scratch: Scratch, entries: Entries) -> Callable[[int], int]:
    """What the other layers know."""
    return lambda count: gather(scratch, count, *arrays_of(entries))


def machine(
    me: int, others: Entries, topics: dict[int, dict[int, int]] | None = None, **config: float
) -> Vicinity:
    scratch = room()
    settings_of = VicinityConfig(**{"view_size": 4, "gossip_size": 2, **config})  # type: ignore[arg-type]
    profiles = profiles_of(EVERYBODY if topics is None else topics)
    made = Vicinity(settings_of, Host(5, me, scratch), profiles, beside(scratch, others))
    made.handle(Start(), 0)
    return made


TIMER = TimerFired("vicinity")


def sent(effects: list[Effect]) -> Send:
    found = [effect for effect in effects if isinstance(effect, Send)]
    assert len(found) == 1
    return found[0]


def message_entries(send: Send) -> Entries:
    assert isinstance(send.message, VicinityRequest | VicinityAnswer)
    return entries_of(send.message.peers, send.message.ages)


def view_of(node: Vicinity) -> Entries:
    return entries_of(node.peers, node.ages)


def answer(cycle: int, entries: Entries) -> VicinityAnswer:
    return VicinityAnswer(cycle, *arrays_of(entries))


def test_it_begins_when_told_and_then_every_period() -> None:
    scratch = room()
    node = Vicinity(
        VicinityConfig(period_s=2.5),
        Host(5, 0, scratch, first_after_us=7),
        profiles_of({}),
        beside(scratch, []),
    )
    assert node.handle(Start(), 0) == [SetTimer("vicinity", 7)]
    assert node.handle(TIMER, 0) == [SetTimer("vicinity", 2_500_000)]  # it knows nobody to ask


def test_its_turn_looks_through_all_views_and_asks_the_oldest() -> None:
    node = machine(0, [(1, 4), (2, 9), (3, 1)])
    asked = sent(node.handle(TIMER, 0))
    assert asked.to == 2
    assert sorted(view_of(node)) == [(1, 5), (3, 2)]


def test_the_partner_is_sent_what_is_best_for_it_and_oneself_is_a_candidate() -> None:
    topics = {0: {0: 0}, 1: {1: 0}, 2: {1: 0}, 3: {1: 0, 0: 0}, 4: {0: 0}}
    node = machine(0, [(1, 9), (2, 1), (3, 1), (4, 1)], topics)
    asked = sent(node.handle(TIMER, 0))
    assert asked.to == 1  # the oldest, though it is worth nothing to the node itself
    assert {peer for peer, _ in message_entries(asked)} == {2, 3}
    lonely = machine(0, [(1, 9)], {0: {0: 0}, 1: {0: 0}})
    assert message_entries(sent(lonely.handle(TIMER, 0))) == [(0, 0)]


def test_two_machines_back_to_back_exchange_what_is_best_for_the_other() -> None:
    a, b = machine(0, [(1, 5), (2, 3), (3, 3)]), machine(1, [(4, 2), (6, 2), (9, 2)])
    asked = sent(a.handle(TIMER, 0))
    assert asked.to == 1
    answered = sent(b.handle(Received(0, asked.message), 1))
    assert answered.to == 0
    assert a.handle(Received(1, answered.message), 2) == []
    assert (1, 0) in view_of(a)  # whoever answers is there anew
    assert (0, 0) in view_of(b)
    assert {peer for peer, _ in message_entries(answered)} == {6, 9}  # they share two topics with 0
    assert {6, 9} <= {peer for peer, _ in view_of(a)}
    assert a.partner == NOBODY


def test_answering_hands_out_what_it_knew_before_the_merge() -> None:
    node = machine(0, [])
    reply = sent(node.handle(Received(3, VicinityRequest(1, *arrays_of([(6, 1), (9, 1)]))), 0))
    assert message_entries(reply) == [(0, 0)]
    assert {peer for peer, _ in view_of(node)} == {3, 6, 9}


def test_a_silent_partner_is_gone_and_counted() -> None:
    scratch = room()
    others: Entries = [(1, 4)]
    node = Vicinity(
        VicinityConfig(), Host(5, 0, scratch), profiles_of(EVERYBODY),
        lambda count: gather(scratch, count, *arrays_of(others)),
    )  # fmt: skip
    node.handle(Start(), 0)
    assert sent(node.handle(TIMER, 0)).to == 1
    others.clear()  # the other layers have given up on it too
    effects = node.handle(TIMER, 1)
    assert Count("vicinity.silent") in effects
    assert not [effect for effect in effects if isinstance(effect, Send)]
    assert view_of(node) == []


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    node = machine(0, [(1, 4), (2, 3)])
    assert node.handle(Received(9, answer(0, [(7, 0)])), 0) == [Count("vicinity.late")]
    first = sent(node.handle(TIMER, 0))
    second = sent(node.handle(TIMER, 1))
    late = [(first.to, 1), (second.to, 1), (9, 2)]  # an old exchange, an old number, a stranger
    for sender, cycle in late:
        assert node.handle(Received(sender, answer(cycle, [(7, 0)])), 2) == [Count("vicinity.late")]
    assert 7 not in node.peers
    assert node.handle(Received(second.to, answer(2, [(7, 0)])), 2) == []
    assert 7 in node.peers
    again = node.handle(Received(second.to, answer(2, [(8, 0)])), 2)  # twice on the wire
    assert again == [Count("vicinity.late")]


def test_a_restart_keeps_the_view_and_forgets_the_exchange() -> None:
    node = machine(0, [(1, 4), (2, 3), (3, 2)])
    asked = sent(node.handle(TIMER, 0))
    before = view_of(node)
    node.handle(Start(), 5)
    assert view_of(node) == before
    assert node.handle(Received(asked.to, answer(1, [(7, 0)])), 6) == [Count("vicinity.late")]
    assert Count("vicinity.silent") not in node.handle(TIMER, 7)


def test_a_copy_does_not_make_an_entry_younger_but_contact_does() -> None:
    node = machine(0, [(1, 4), (2, 3)])
    node.handle(TIMER, 0)
    assert view_of(node) == [(2, 4)]
    node.handle(Received(5, VicinityRequest(1, *arrays_of([(2, 0)]))), 1)
    assert (2, 4) in view_of(node)
    node.handle(Received(2, VicinityRequest(1, *arrays_of([]))), 1)
    assert (2, 0) in view_of(node)


def test_a_lost_peer_leaves_the_view() -> None:
    node = machine(0, [(1, 4), (2, 3), (3, 2)])
    node.handle(TIMER, 0)
    assert node.handle(PeerLost(2), 0) == []
    assert view_of(node) == [(3, 3)]


@pytest.mark.parametrize("event", [Stop(), Publish(1, 2), TimerFired("somebody else's")])
def test_what_does_not_concern_it_is_ignored(event: Event) -> None:
    assert machine(0, [(1, 4)]).handle(event, 0) == []


Hostile = st.tuples(
    st.integers(0, PEERS - 1),
    st.sampled_from(["request", "answer", "timer"]),
    st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4),
    st.lists(st.tuples(st.integers(-1, PEERS - 1), st.integers(0, AGE_MAX)), max_size=50),
)


@given(st.lists(Hostile, max_size=20))
def test_whatever_peers_send_the_view_stays_sound(messages: list[tuple[int, str, int, Entries]]) -> None:
    node = machine(0, [(1, 4), (2, 3), (3, 2), (0, 1)])
    for sender, what, cycle, entries in messages:
        event: Event = TIMER
        if what == "request":
            event = Received(sender, VicinityRequest(cycle, *arrays_of(entries)))
        elif what == "answer":
            event = Received(sender, answer(cycle, entries))
        for effect in node.handle(event, 0):
            if isinstance(effect, Send):
                peers = [peer for peer, _ in message_entries(effect)]
                assert len(set(peers)) == len(peers) <= 2
                assert effect.to not in peers
        view = [peer for peer, _ in view_of(node)]
        assert len(set(view)) == len(view) <= 4
        assert 0 not in view
        assert view == node.peers[: len(view)].tolist()  # packed at the front


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"view_size": 0}, "view_size must be at least 1"),
        ({"view_size": 4, "gossip_size": 5}, "must not exceed view_size"),
        ({"wanted": 0}, "wanted must be at least 1"),
        ({"wanted": 5}, "wanted must be at most 4"),
        ({"period_s": 0.0}, "period_s must be at least"),
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        VicinityConfig(**wrong)  # type: ignore[arg-type]
