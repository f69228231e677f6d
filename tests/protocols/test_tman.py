"""T-Man: tables, profiles and fans, and two machines back to back."""

from collections import deque
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.suspicion import SuspicionMemory, make_suspicion
from vinecast.core.arrays.topic_overlap import Scratch, make_scratch
from vinecast.core.arrays.view import Ages, Peers, View
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, PeerLost, Publish, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.tman import TMan, TManAnswer, TManConfig, TManEcho, TManProfile, TManRequest, rules
from vinecast.protocols.tman.machine import PROFILE_TIMER, TIMER

PEERS = 20
SIZE = 4


def row(entries: list[tuple[int, int]], size: int = SIZE) -> tuple[Peers, Ages, rules.Missed]:
    """A table with these peers and ages."""
    peers, ages = np.full(size, NOBODY, dtype=np.int32), np.zeros(size, dtype=np.uint16)
    for slot, (peer, age) in enumerate(entries):
        peers[slot], ages[slot] = peer, age
    return peers, ages, np.zeros(size, dtype=np.uint8)


class Nodes:
    """Machines that want the lowest numbers, and messages that arrive at once."""

    def __init__(self, count: int, contacts: Callable[[int], list[int]], **rest: object) -> None:
        self.scratch: Scratch = make_scratch(PEERS, 0, 0, 40)
        self.suspicion = [SuspicionMemory() for _ in range(count)]
        self.contacts = [contacts(me) for me in range(count)]
        self.nodes = [self._machine(me, rest) for me in range(count)]
        self.deaf: set[int] = set()
        self.counted: list[str] = []

    def _machine(self, me: int, rest: dict[str, object]) -> TMan:
        def sample() -> View:
            known = self.contacts[me]
            return View(np.array(known, dtype=np.int32), np.zeros(len(known), dtype=np.uint16))

        def select(count: int) -> int:
            order = np.argsort(self.scratch.peers[:count], kind="stable")[:SIZE]
            self.scratch.best[: order.size] = order
            return int(order.size)

        config = TManConfig(table_size=SIZE, threshold=2, period_s=1.0, **rest)  # type: ignore[arg-type]
        return TMan(config, Host(1, me, self.scratch, self.suspicion[me], 10), sample, select, 2 * SIZE)

    def carry(self, sender: int, effects: list[Effect]) -> None:
        queue = deque((sender, effect) for effect in effects)
        while queue:
            at, effect = queue.popleft()
            if isinstance(effect, Count):
                self.counted.append(effect.name)
            if isinstance(effect, Send) and effect.to not in self.deaf:
                event = Received(at, effect.message)
                queue.extend((effect.to, more) for more in self.nodes[effect.to].handle(event, 0))

    def cycle(self) -> None:
        there = [me for me in range(len(self.nodes)) if me not in self.deaf]
        for me in there:
            self.suspicion[me].cycle += 1
        for me in there:
            self.carry(me, self.nodes[me].handle(TimerFired(TIMER), 0))
        for me in there:
            self.carry(me, self.nodes[me].exchange_profiles())


# Rules.


@settings(max_examples=200)
@given(
    st.lists(st.integers(1, PEERS - 1), unique=True, max_size=SIZE),
    st.lists(st.tuples(st.integers(0, PEERS - 1), st.integers(0, 9)), max_size=6),
    st.lists(st.tuples(st.integers(0, PEERS - 1), st.integers(0, 9)), max_size=6),
    st.integers(0, 9),
)
def test_candidates_are_the_table_then_everybody_else_once(
    table: list[int], sample: list[tuple[int, int]], told: list[tuple[int, int]], news_max: int
) -> None:
    scratch, suspicion = make_scratch(PEERS, 0, 0, 40), make_suspicion(1)
    peers, ages, _ = row([(peer, 1) for peer in table])
    known = [np.array(column, dtype=np.int32) for column in zip(*sample, strict=True)] or [
        np.zeros(0, np.int32)
    ] * 2
    new = [np.array(column, dtype=np.int32) for column in zip(*told, strict=True)] or [
        np.zeros(0, np.int32)
    ] * 2
    nobody = np.full(2, NOBODY, dtype=np.int32)
    count = rules.gather_known(
        0, View(peers, ages), View(known[0], known[1].astype(np.uint16)),
        View(nobody, nobody.astype(np.uint16)), suspicion, 0, 5, scratch,
    )  # fmt: skip
    new_told = View(new[0], new[1].astype(np.uint16))
    count = rules.gather_told(7, new_told, news_max, suspicion, 0, 5, count, scratch)
    told = [(peer, age) for peer, age in told if age <= news_max]
    wanted = dict.fromkeys([*table, *(p for p, _ in sample), 7, *(p for p, _ in told)])
    wanted.pop(0, None)
    assert scratch.peers[:count].tolist() == list(wanted)


def test_word_of_the_silent_is_believed_only_if_it_is_younger() -> None:
    scratch, suspicion = make_scratch(PEERS, 0, 0, 40), make_suspicion(1)
    peers, ages, missed = row([(3, 4), (5, 0)])
    missed[0] = 9
    assert rules.drop_stale(peers, ages, missed, 2, suspicion, 0, 10) == 1
    assert peers.tolist() == [5, NOBODY, NOBODY, NOBODY]
    for age, believed in ((1, True), (2, False)):
        new = np.array([3], dtype=np.int32), np.array([age], dtype=np.uint16)
        count = rules.gather_told(7, View(*new), 30, suspicion, 0, 12, rules_begin(scratch), scratch)
        assert (3 in scratch.peers[:count].tolist()) == believed


def rules_begin(scratch: Scratch) -> int:
    """No candidates yet."""
    scratch.stamp[0] += 1
    return 0


def test_who_stays_keeps_what_it_missed() -> None:
    scratch = make_scratch(PEERS, 0, 0, 40)
    peers, ages, missed = row([(3, 1), (5, 2), (8, 3)])
    missed[:3] = 7, 8, 9
    scratch.peers[:4], scratch.ages[:4] = [3, 5, 8, 11], [1, 2, 3, 0]
    scratch.best[:3] = 2, 3, 0
    rules.keep(peers, ages, missed, scratch, 3)
    assert peers.tolist() == [8, 11, 3, NOBODY]
    assert missed.tolist() == [9, 0, 7, 0]
    assert ages.tolist() == [3, 0, 1, 0]


@given(st.lists(st.integers(1, PEERS - 1), unique=True, max_size=SIZE), st.integers(1, PEERS - 1))
def test_removal_keeps_the_others_in_order(table: list[int], gone: int) -> None:
    peers, ages, missed = row([(peer, peer) for peer in table])
    rules.remove(peers, ages, missed, gone)
    left = [peer for peer in table if peer != gone]
    assert peers.tolist() == left + [NOBODY] * (SIZE - len(left))
    assert ages.tolist() == left + [0] * (SIZE - len(left))


def test_partners_are_drawn_from_the_whole_table() -> None:
    peers, _, _ = row([(3, 0), (5, 0), (8, 0)])
    nobody = np.full(2, NOBODY, dtype=np.int32)
    drawn = [rules.choose_partner(1, cycle, 0, peers, nobody) for cycle in range(300)]
    assert all(70 < drawn.count(peer) < 130 for peer in (3, 5, 8))
    assert rules.choose_partner(1, 1, 0, nobody, peers) in (3, 5, 8)
    assert rules.choose_partner(1, 1, 0, nobody, nobody) == NOBODY


# Machines.


def test_two_machines_back_to_back() -> None:
    pair = Nodes(2, lambda me: [1 - me])
    first, second = pair.nodes
    assert first.handle(Start(), 0) == [SetTimer(TIMER, 10), SetTimer(PROFILE_TIMER, 20)]
    asked = first.handle(TimerFired(TIMER), 0)
    assert asked[0] == SetTimer(TIMER, 1_000_000)
    assert isinstance(asked[1], Send)
    request = asked[1].message
    assert isinstance(request, TManRequest)
    assert request.peers.tolist() == [0, 1]
    (answer,) = second.handle(Received(0, request), 0)
    assert isinstance(answer, Send)
    assert isinstance(answer.message, TManAnswer)
    assert first.handle(Received(1, answer.message), 0) == []
    assert (first.table.tolist(), second.table.tolist()) == ([1], [0])
    assert first.handle(Received(1, answer.message), 0) == [Count("tman.late")]
    timer, told = first.exchange_profiles()
    assert timer == SetTimer(PROFILE_TIMER, 1_000_000)
    assert isinstance(told, Send)
    assert isinstance(told.message, TManProfile)
    (echo,) = second.handle(Received(0, told.message), 0)
    assert isinstance(echo, Send)
    assert isinstance(echo.message, TManEcho)
    assert first.missed.tolist() == [1, 0, 0, 0]
    first.handle(Received(1, echo.message), 0)
    assert first.missed.tolist() == [0, 0, 0, 0]


def test_everybody_finds_whom_it_wants() -> None:
    crowd = Nodes(12, lambda me: [(me + 1) % 12])
    for _ in range(30):
        crowd.cycle()
    for me, node in enumerate(crowd.nodes):
        assert node.table.tolist() == [peer for peer in range(5) if peer != me][:4]
    assert crowd.nodes[0].neighbours() == list(range(1, 12))  # all others have chosen it
    assert crowd.nodes[11].neighbours() == [0, 1, 2, 3]


def test_the_silent_leave_all_tables_and_do_not_come_back() -> None:
    crowd = Nodes(12, lambda me: [peer for peer in range(12) if peer != me])
    for _ in range(10):
        crowd.cycle()
    crowd.deaf = {0}
    crowd.contacts = [[peer for peer in range(1, 12) if peer != me] for me in range(12)]
    seen = []
    for _ in range(12):
        crowd.cycle()
        seen.append(any(0 in node.table.tolist() for node in crowd.nodes[1:]))
    assert seen[:2] == [True, True]
    assert not any(seen[5:])
    assert crowd.counted.count("tman.stale") >= 11
    assert all(0 not in node.neighbours() for node in crowd.nodes[1:])


def test_a_restart_clears_what_others_said_and_keeps_the_table() -> None:
    crowd = Nodes(5, lambda me: [peer for peer in range(5) if peer != me])
    for _ in range(4):
        crowd.cycle()
    node = crowd.nodes[2]
    table = node.table.tolist()
    node.handle(Start(), 0)
    assert node.neighbours() == node.table.tolist() == table


def test_a_lost_peer_is_no_neighbour() -> None:
    crowd = Nodes(5, lambda me: [peer for peer in range(5) if peer != me])
    for _ in range(4):
        crowd.cycle()
    crowd.nodes[2].handle(PeerLost(0), 0)
    assert 0 not in crowd.nodes[2].neighbours()
    assert crowd.nodes[2].handle(Publish(0, 0), 0) == []


@pytest.mark.parametrize("size", [3, 1001])
def test_tables_of_no_use_are_refused_by_name(size: int) -> None:
    with pytest.raises(InputError, match="table_size must be at"):
        TManConfig(table_size=size)
