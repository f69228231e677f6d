"""Cyclon's rules one by one, and a whole exchange against a slow, obvious twin."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.draws import below, purpose, stream, substream
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import rules
from vinecast.protocols.cyclon.rules import AGE_MAX, SENT, SIZE, Ages, Extent, Peers

VIEW, GOSSIP = 6, 3


class Row:
    """A view as the rules see it."""

    def __init__(self, entries: list[tuple[int, int]], capacity: int = VIEW) -> None:
        self.peers: Peers = np.full(capacity, NOBODY, dtype=np.int32)
        self.ages: Ages = np.zeros(capacity, dtype=np.uint16)
        self.extent: Extent = np.array([len(entries), 0], dtype=np.int16)
        self.row = self.peers, self.ages, self.extent
        for slot, (peer, age) in enumerate(entries):
            self.peers[slot], self.ages[slot] = peer, age

    @property
    def entries(self) -> list[tuple[int, int]]:
        size = self.extent[SIZE]
        return list(zip(self.peers[:size].tolist(), self.ages[:size].tolist(), strict=True))

    def begin(self, me: int, cycle: int, seed: int = 1) -> tuple[int, list[tuple[int, int]]]:
        peers, ages = np.zeros(GOSSIP, dtype=np.int32), np.zeros(GOSSIP, dtype=np.uint16)
        partner, count = rules.begin_exchange(self.row, seed, cycle, me, (peers, ages))
        return partner, list(zip(peers[:count].tolist(), ages[:count].tolist(), strict=True))

    def answer(
        self, me: int, sender: int, cycle: int, asked: list[tuple[int, int]], seed: int = 1
    ) -> list[tuple[int, int]]:
        peers, ages = np.zeros(GOSSIP, dtype=np.int32), np.zeros(GOSSIP, dtype=np.uint16)
        new = Row(asked, max(len(asked), 1))
        told = new.peers[: len(asked)], new.ages[: len(asked)]
        count = rules.answer_request(self.row, seed, cycle, me, sender, told, (peers, ages))
        return list(zip(peers[:count].tolist(), ages[:count].tolist(), strict=True))

    def end(self, me: int, partner: int, given: list[tuple[int, int]]) -> None:
        new = Row(given, max(len(given), 1))
        rules.end_exchange(self.row, me, partner, (new.peers[: len(given)], new.ages[: len(given)]))


def test_the_partner_is_the_oldest_and_leaves_the_view() -> None:
    row = Row([(1, 3), (2, 9), (3, 4)])
    partner, sent = row.begin(me=0, cycle=1)
    assert partner == 2
    assert sent[0] == (0, 0)
    assert 2 not in dict(row.entries)


def test_ages_grow_by_one_a_cycle_and_stop_at_the_top() -> None:
    row = Row([(1, 3), (2, AGE_MAX), (3, AGE_MAX - 1)])
    row.begin(me=0, cycle=1)
    assert sorted(row.entries) == [(1, 4), (3, AGE_MAX)]


def test_the_first_among_equally_old_is_asked() -> None:
    assert Row([(5, 2), (4, 2), (3, 2)]).begin(me=0, cycle=1)[0] == 5


def test_an_empty_view_asks_nobody() -> None:
    row = Row([])
    assert row.begin(me=0, cycle=1) == (NOBODY, [])
    assert row.extent[SENT] == 0


def test_what_is_sent_is_oneself_and_others_with_their_ages() -> None:
    row = Row([(1, 1), (2, 2), (3, 3), (4, 4)])
    _, sent = row.begin(me=9, cycle=1)
    assert len(sent) == GOSSIP
    assert set(sent[1:]) <= {(1, 2), (2, 3), (3, 4)}


def test_an_entry_in_flight_is_neither_handed_out_nor_replaced() -> None:
    row = Row([(p, p) for p in range(1, 7)])
    _, sent = row.begin(me=0, cycle=1)
    locked = sent[1:]
    answer = row.answer(me=0, sender=20, cycle=1, asked=[(20, 0), (21, 1), (22, 2)])
    assert not set(answer) & set(locked)
    assert set(locked) <= set(row.entries)
    assert row.extent[SIZE] == VIEW - 1  # the place that the partner left waits for its answer


def test_the_answer_takes_the_place_of_what_was_sent() -> None:
    row = Row([(p, p) for p in range(1, 7)])
    _, sent = row.begin(me=0, cycle=1)
    kept = set(row.entries) - set(sent)
    row.end(me=0, partner=6, given=[(30, 1), (31, 2), (32, 3)])
    assert set(row.entries) == kept | {(30, 1), (31, 2), (32, 3)}
    assert row.extent[SENT] == 0


def test_empty_slots_are_filled_before_anything_is_replaced() -> None:
    row = Row([(1, 1), (2, 2)])
    row.answer(me=0, sender=7, cycle=1, asked=[(7, 0), (8, 4)])
    assert sorted(row.entries) == [(1, 1), (2, 2), (7, 0), (8, 4)]


def test_itself_and_known_peers_are_left_out_but_the_sender_is_refreshed() -> None:
    row = Row([(1, 5), (7, 9)])
    row.answer(me=0, sender=7, cycle=1, asked=[(7, 0), (0, 3), (1, 1), (NOBODY, 0)])
    assert sorted(row.entries) == [(1, 5), (7, 0)]


def test_answering_hands_out_the_state_before_the_merge() -> None:
    row = Row([(1, 1)])
    assert row.answer(me=0, sender=7, cycle=1, asked=[(7, 0)]) == [(1, 1)]


def test_a_contact_is_met_once_and_never_oneself() -> None:
    row = Row([(1, 5)], capacity=2)
    for contact in (0, 1, NOBODY, 2, 3):
        rules.meet(row.row, 0, contact)
    assert row.entries == [(1, 5), (2, 0)]


def test_a_peer_that_was_found_takes_the_last_place_of_a_full_view() -> None:
    row = Row([(1, 5), (2, 6)], capacity=2)
    for contact in (0, 1, NOBODY, 3):
        rules.admit(row.row, 0, contact)
    assert row.entries == [(1, 5), (3, 0)]
    _, sent = row.begin(me=0, cycle=1)
    rules.admit(row.row, 0, 9)
    assert row.entries == sent[1:]  # what is in flight stays, and its partner's place is kept


def test_a_lost_peer_is_forgotten_unless_it_is_in_flight() -> None:
    row = Row([(1, 1), (2, 2), (3, 3)])
    rules.forget(row.row, 2)
    assert sorted(row.entries) == [(1, 1), (3, 3)]
    _, sent = row.begin(me=0, cycle=1)
    rules.forget(row.row, sent[1][0])
    assert row.entries == sent[1:]


@dataclass
class Obvious:
    """Cyclon with lists, as one would explain it on a whiteboard. Same draws, no packed rows."""

    me: int
    capacity: int
    free: list[tuple[int, int]] = field(default_factory=list)
    flying: list[tuple[int, int]] = field(default_factory=list)
    waiting: bool = False

    def everything(self) -> list[tuple[int, int]]:
        return self.flying + self.free

    def pick(self, key: int, pool: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
        """A partial shuffle: what is chosen comes to the front."""
        for i in range(min(count, len(pool))):
            j = i + below(key, i, len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]

    def begin(self, seed: int, cycle: int) -> tuple[int, list[tuple[int, int]]]:
        view = [(peer, min(age + 1, AGE_MAX)) for peer, age in self.everything()]
        self.free, self.flying, self.waiting = view, [], False
        if not view:
            return NOBODY, []
        oldest = max(range(len(view)), key=lambda i: (view[i][1], -i))
        partner = view[oldest][0]
        view[oldest] = view[-1]
        view.pop()
        chosen = self.pick(stream(seed, purpose("cyclon.request"), cycle, self.me), view, GOSSIP - 1)
        self.flying, self.free, self.waiting = list(chosen), view[len(chosen) :], True
        return partner, [(self.me, 0), *chosen]

    def answer(
        self, seed: int, cycle: int, sender: int, asked: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        self.refresh(sender)
        key = substream(stream(seed, purpose("cyclon.answer"), cycle, self.me), sender)
        given = list(self.pick(key, self.free, GOSSIP))
        self.free = self.merge(self.free, self.flying, len(given), self.capacity - self.waiting, asked)
        return given

    def end(self, partner: int, given: list[tuple[int, int]]) -> None:
        self.refresh(partner)
        replaceable = len(self.flying)
        self.free = self.merge(self.everything(), [], replaceable, self.capacity, given)
        self.flying, self.waiting = [], False

    def refresh(self, peer: int) -> None:
        self.free = [(p, 0 if p == peer else a) for p, a in self.free]
        self.flying = [(p, 0 if p == peer else a) for p, a in self.flying]

    def merge(
        self,
        view: list[tuple[int, int]],
        others: list[tuple[int, int]],
        replaceable: int,
        room: int,
        new: list[tuple[int, int]],
    ) -> list[tuple[int, int]]:
        used = 0
        for entry in new:
            if entry[0] in (self.me, NOBODY) or entry[0] in dict(view + others):
                continue
            if len(view) + len(others) < room:
                view.append(entry)
            elif used < replaceable:
                view[used] = entry
                used += 1
        return view


Entries = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=GOSSIP)
Step = st.tuples(st.sampled_from(["begin", "answer", "end"]), st.integers(1, 12), Entries)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 30)), max_size=VIEW, unique_by=lambda e: e[0]),
    st.lists(Step, max_size=12),
    st.integers(0, 2**63 - 1),
)
def test_any_conversation_equals_the_obvious_twin(
    start: list[tuple[int, int]], steps: list[tuple[str, int, list[tuple[int, int]]]], seed: int
) -> None:
    row, twin = Row(start), Obvious(0, VIEW, list(start))
    for cycle, (what, peer, entries) in enumerate(steps):
        if what == "begin":
            assert row.begin(0, cycle, seed) == twin.begin(seed, cycle)
        elif what == "answer":
            assert row.answer(0, peer, cycle, entries, seed) == twin.answer(seed, cycle, peer, entries)
        elif twin.waiting:
            row.end(0, peer, entries)
            twin.end(peer, entries)
        assert row.entries == twin.everything()
        known = [peer for peer, _ in row.entries]
        assert len(set(known)) == len(known) <= VIEW
        assert 0 not in known
        assert NOBODY not in known
        assert (row.peers[row.extent[SIZE] :] == NOBODY).all()
