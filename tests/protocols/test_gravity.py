"""Gravity: homes, differences, links; and what becomes of peers that send rubbish."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.arrays.bloom import holds, insert, levels_with, new_filter, to_bytes
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, PeerLost, Received, Send, Start, Stop, TimerFired
from vinecast.core.rule import word
from vinecast.protocols.gravity import (
    Gravity,
    GravityAsk,
    GravityConfig,
    GravityLeave,
    GravityRefuse,
    GravityUpdate,
)
from vinecast.protocols.gravity.machine import TIMER
from vinecast.protocols.gravity.rules import believed

CONFIG = GravityConfig(filter_bytes=64, degree=4, period_s=1.0)
PERIOD = CONFIG.period_us


def item_of(node: int) -> int:
    return word(1000 + node)


class Line:
    """Nodes linked to those next to them, whose messages arrive at once."""

    def __init__(self, nodes: int, config: GravityConfig = CONFIG) -> None:
        self.machines = [Gravity(config, node) for node in range(nodes)]
        self.now_us = 0
        self.sent: list[tuple[int, int, object]] = []
        self.counted: list[str] = []
        self.lost: Callable[[object], bool] = lambda message: False
        for node, machine in enumerate(self.machines):
            machine.items = np.array([item_of(node)], dtype=np.uint64)
            if node:
                machine.link(node - 1, 0)
            machine.handle(Start(), 0)

    def carry_out(self, node: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append((node, effect.to, effect.message))
                if not self.lost(effect.message):
                    answer = self.machines[effect.to].handle(Received(node, effect.message), self.now_us)
                    self.carry_out(effect.to, answer)
            elif isinstance(effect, Count):
                self.counted.append(effect.name)

    def period(self, nodes: list[int] | None = None) -> None:
        self.now_us += PERIOD
        self.sent.clear()
        for node in range(len(self.machines)) if nodes is None else nodes:
            self.carry_out(node, self.machines[node].handle(TimerFired(TIMER), self.now_us))

    def seen(self, node: int, neighbour: int, other: int) -> list[int]:
        """The levels of a neighbour's home, as a node has it, that hold another node."""
        peers, rows, _ = self.machines[node].neighbours
        home = self.machines[node].homes[rows[peers.tolist().index(neighbour)]]
        mask = levels_with(home, item_of(other), CONFIG.hashes)
        return [level for level in range(CONFIG.depth) if mask >> level & 1]


def test_level_n_holds_what_is_n_hops_away() -> None:
    line = Line(6)
    for _ in range(4):
        line.period()
    assert line.machines[2].neighbours[0].tolist() == [1, 3]
    assert line.seen(2, 3, 3) == [0, 2]  # itself, and by way of its neighbours
    assert line.seen(2, 3, 4) == [1]
    assert line.seen(2, 3, 5) == [2]
    assert line.seen(0, 1, 4) == []  # too far


def test_what_has_not_changed_is_told_in_few_bytes() -> None:
    line = Line(4)
    for _ in range(6):
        line.period()
    updates = [message for _, _, message in line.sent if isinstance(message, GravityUpdate)]
    assert len(updates) == 6
    assert all(update.base and update.data == b"" for update in updates)
    line.machines[3].items = np.append(line.machines[3].items, np.uint64(77))
    line.period()
    changed = [message.data for node, _, message in line.sent if node == 3]  # type: ignore[attr-defined]
    assert [0 < len(data) <= 3 * CONFIG.hashes for data in changed] == [True]
    assert line.machines[2].homes[line.machines[2].neighbours[1][1], 0].any()


def test_a_lost_update_is_made_up_for() -> None:
    line = Line(3)
    for _ in range(4):
        line.period()
    line.machines[2].items = np.append(line.machines[2].items, np.uint64(77))
    line.lost = lambda message: isinstance(message, GravityUpdate)
    line.period()
    line.lost = lambda message: False
    line.period()
    assert "gravity.gap" in line.counted
    assert any(isinstance(message, GravityAsk) for _, _, message in line.sent)
    home = line.machines[1].homes[line.machines[1].neighbours[1][1]]
    assert holds(home[0], word(77), CONFIG.hashes)


def test_who_is_not_heard_from_is_forgotten_after_t() -> None:
    line = Line(3)
    for _ in range(3):
        line.period()
    for _ in range(3):
        line.period([0, 1])
        assert line.machines[1].links == [0, 2]
    line.period([0, 1])
    assert line.machines[1].links == [0]
    assert line.counted.count("gravity.silent") == 1


def test_leaving_and_a_broken_link_end_it_at_once() -> None:
    line = Line(3)
    line.period()
    line.carry_out(2, line.machines[2].handle(Stop(), line.now_us))
    assert line.machines[1].links == [0]
    line.machines[1].handle(PeerLost(0), line.now_us)
    assert line.machines[1].links == []
    assert line.machines[1].neighbours[0].size == 0


def test_links_lead_both_ways_and_are_refused_without_room() -> None:
    middle = Gravity(CONFIG, 0)
    update = GravityUpdate(5, 0, to_bytes(new_filter(64, 3)))
    for peer in range(1, 5):
        assert middle.handle(Received(peer, update), 0) == []
    refused = middle.handle(Received(9, update), 0)
    assert refused == [Count("gravity.no room"), Send(9, GravityRefuse())]
    assert middle.links == [1, 2, 3, 4]
    other = Gravity(CONFIG, 9)
    assert other.link(0, 0)
    assert not other.link(0, 0)
    assert not other.link(9, 0)
    other.handle(Received(0, GravityRefuse()), 0)
    assert other.links == []
    other.handle(Received(0, GravityLeave()), 0)


# Bad input.


def started(neighbours: int = 4) -> Gravity:
    """A node whose neighbours have few items each."""
    machine = Gravity(CONFIG, 0)
    for peer in range(1, neighbours + 1):
        home = new_filter(64, 3)
        for level in range(3):
            insert(home[level], item_of(peer), CONFIG.hashes)
        machine.handle(Received(peer, GravityUpdate(1, 0, to_bytes(home))), 0)
    return machine


def test_a_full_filter_attracts_nothing() -> None:
    machine = started()
    everything = b"\xff" * 192
    assert machine.handle(Received(2, GravityUpdate(2, 0, everything)), 0) == [Count("gravity.too full")]
    peers, _, levels = machine.neighbours
    assert dict(zip(peers.tolist(), levels.tolist(), strict=True)) == {1: 7, 2: 0, 3: 7, 4: 7}
    machine.items = np.array([item_of(0)], dtype=np.uint64)
    machine.handle(TimerFired(TIMER), 1)
    assert np.bitwise_count(machine.home).sum(axis=1).max() <= 3 * CONFIG.hashes  # and poisons nobody
    healed = machine.handle(Received(2, GravityUpdate(3, 0, to_bytes(new_filter(64, 3)))), 1)
    assert healed == []


def test_a_difference_can_fill_a_filter_no_further_than_a_whole_one() -> None:
    machine = started()
    changes = b"".join(place.to_bytes(2, "little") + b"\xff" for place in range(192))
    assert machine.handle(Received(3, GravityUpdate(2, 1, changes)), 0) == [Count("gravity.too full")]
    assert machine.neighbours[2].tolist() == [7, 7, 0, 7]
    sparse = b"".join(place.to_bytes(2, "little") + b"\x00" for place in range(192))
    assert machine.handle(Received(3, GravityUpdate(3, 2, sparse)), 0) == []  # and back again
    assert machine.neighbours[2].tolist() == [7, 7, 7, 7]


def test_levels_may_be_as_full_as_is_usual_but_level_0_may_not() -> None:
    usual = np.full((5, 3), 0.6)
    assert believed(np.array([0.3, 0.7, 0.79]), usual, 0.4, 0.8).tolist() == [True, True, True]
    assert believed(np.array([0.5, 0.81, 0.3]), usual, 0.4, 0.8).tolist() == [False, False, True]
    sparse = np.full((5, 3), 0.01)
    assert believed(np.array([0.1, 0.39, 0.5]), sparse, 0.4, 0.8).tolist() == [True, True, False]
    assert believed(np.array([0.1, 0.1, 0.6]), usual[:2], 0.4, 0.8).tolist() == [True, True, False]


@pytest.mark.parametrize("data", [b"", b"\x00" * 191, b"\x00" * 193, b"\x01" * 100_000])
def test_a_filter_of_another_size_is_dropped(data: bytes) -> None:
    machine = started()
    before = machine.homes.copy()
    assert machine.handle(Received(1, GravityUpdate(2, 0, data)), 0) == [Count("gravity.wrong size")]
    assert np.array_equal(machine.homes, before)


def test_outdated_updates_are_dropped_and_keep_nobody_fresh() -> None:
    machine = started()
    update = GravityUpdate(1, 0, to_bytes(new_filter(64, 3)))
    machine.handle(Start(), 0)
    for period in range(1, 5):
        assert machine.handle(Received(1, update), period * PERIOD) == [Count("gravity.outdated")]
        machine.handle(TimerFired(TIMER), period * PERIOD)
    assert machine.links == []


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**64), st.integers(0, 3), st.binary(max_size=200)))
)
def test_nothing_that_peers_send_breaks_or_grows_it(messages: list[tuple[int, int, int, bytes]]) -> None:
    machine = Gravity(CONFIG, 0)
    for sender, version, base, data in messages:
        effects = machine.handle(Received(sender, GravityUpdate(version, base, data)), 0)
        assert len(effects) <= 2
        machine.handle(Received(sender, GravityAsk()), 0)
    assert len(machine.links) <= CONFIG.degree
    machine.handle(TimerFired(TIMER), PERIOD)


@pytest.mark.parametrize(
    "settings", [{"filter_bytes": 100}, {"depth": 0}, {"filter_bytes": 32_768, "depth": 3}, {"degree": 1}]
)
def test_impossible_configurations_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InputError):
        GravityConfig(**settings)


def test_the_papers_filters_take_22_kb() -> None:
    assert GravityConfig().state_bytes <= 22_000
