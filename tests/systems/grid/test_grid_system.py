"""GRID finds who is regular when, for whatever an application wants: people of days and nights, and
replicas."""

import numpy as np
import pytest

from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.events import Stop
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.regularity import RegularityConfig
from vinecast.protocols.victor import VictorConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import resolve
from vinecast.systems.grid.machine import GridConfig, GridNode, GridNodeConfig
from vinecast.systems.grid.replicas import RegularReplicas, ReplicasConfig

PERIOD_S, SLOT_S, SLOTS = 10, 60, 4
NODES = 24
PERIOD_US, SLOT_US = PERIOD_S * 1_000_000, SLOT_S * 1_000_000
LAYERS = {
    "cyclon": CyclonConfig(view_size=8, gossip_size=4, period_s=PERIOD_S),
    "grid": GridConfig(
        RegularityConfig(cycle_s=SLOT_S * SLOTS, slot_s=SLOT_S, threshold=60, clock_skew_s=0.0),
        VictorConfig(view_size=6, gossip_size=3, period_s=PERIOD_S),
    ),
}
HOURS = ({0, 1}, {2, 3}, {0, 1, 2, 3})
"""The slots in which nodes are on line: by day, by night, always. Node i keeps the hours of i mod 3."""


def hours_of(node: int) -> set[int]:
    return HOURS[node % 3]


def live(engine: EventEngine, slots: int, first: int = 0) -> None:
    """Everybody keeps its hours for so many slots."""
    contacts = random_views(1, NODES, 5)
    for number in range(first, first + slots):
        at_us = number * SLOT_US
        for node in range(NODES):
            wanted = number % SLOTS in hours_of(node)
            if wanted and not engine.online[node]:
                engine.start(node, at_us, tuple(contacts[node].tolist()))
            elif not wanted and engine.online[node]:
                engine.leave(node, at_us)
        engine.run(at_us + SLOT_US - 1)


def network_of() -> Network:
    return Network(NetworkConfig(latency_ms=20.0), 1, NODES)


def test_patterns_are_found_and_told() -> None:
    patterns, room = Patterns(NODES, SLOTS), make_scratch(NODES, 0, 0, 8)
    config = GridNodeConfig(**LAYERS)  # type: ignore[arg-type]
    engine = EventEngine(lambda node: GridNode(config, 1, node, patterns, room), NODES, 1, network_of())
    live(engine, 2 * SLOTS + 1)
    for node, machine in enumerate(engine.machines):
        assert isinstance(machine, GridNode)
        descriptor = machine.grid.own_descriptor()
        assert descriptor.peer == node
        assert {slot for slot in range(SLOTS) if descriptor.pattern[slot]} == hours_of(node)


def test_regular_nodes_are_regular_and_found_for_every_slot_that_a_node_sees() -> None:
    patterns, room = Patterns(NODES, SLOTS), make_scratch(NODES, 0, 0, 8)
    config = GridNodeConfig(**LAYERS)  # type: ignore[arg-type]
    engine = EventEngine(lambda node: GridNode(config, 1, node, patterns, room), NODES, 1, network_of())
    live(engine, 4 * SLOTS)
    for node, machine in enumerate(engine.machines):
        assert isinstance(machine, GridNode)
        for slot in range(SLOTS):
            found = machine.grid.regular_nodes(slot).tolist()
            assert node not in found
            assert len(found) == len(set(found))
            assert all(slot in hours_of(peer) for peer in found)
            if slot in hours_of(node):
                assert len(found) >= 5
    always = engine.machines[2]
    assert isinstance(always, GridNode)
    by_night = always.grid.regular_nodes(3).tolist()
    assert all(peer % 3 == 2 for peer in by_night), "most slots in common, by the utility that is the default"


def test_a_node_off_line_knows_of_others_slots_by_those_it_met() -> None:
    """S4 §5.6: whoever is on line in both can be told of by who is there in one."""
    patterns, room = Patterns(NODES, SLOTS), make_scratch(NODES, 0, 0, 8)
    config = GridNodeConfig(**LAYERS)  # type: ignore[arg-type]
    engine = EventEngine(lambda node: GridNode(config, 1, node, patterns, room), NODES, 1, network_of())
    live(engine, 4 * SLOTS)
    by_day = engine.machines[0]
    assert isinstance(by_day, GridNode)
    assert any(peer % 3 == 2 for peer in by_day.grid.regular_nodes(3).tolist())


@pytest.mark.parametrize(("placement", "covered"), [("regular", 1.0), ("complement", 1.0)])
def test_replicas_are_to_be_had_at_any_hour(placement: str, covered: float) -> None:
    patterns, room = Patterns(NODES, SLOTS), make_scratch(NODES, 0, 0, 8)
    config = ReplicasConfig(placement=placement, copies=2, **LAYERS)  # type: ignore[arg-type]
    engine = EventEngine(
        lambda node: RegularReplicas(config, 1, node, patterns, room), NODES, 1, network_of()
    )
    live(engine, 4 * SLOTS)
    for node, machine in enumerate(engine.machines):
        assert isinstance(machine, RegularReplicas)
        holders = machine.holders()
        assert len(holders) == len(set(holders)) == 2
        assert node not in holders
        assert machine.slots_covered() == covered
        if placement == "complement" and node % 3 == 0:
            assert hours_of(holders[0]) >= {2, 3}


def test_holders_complement_each_other_before_they_repeat() -> None:
    """By the book: the first adds most, the next what is left."""
    patterns, room = Patterns(4, SLOTS), make_scratch(4, 0, 0, 8)
    patterns.give(np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]], dtype=np.bool_))
    config = ReplicasConfig(copies=2, **LAYERS)  # type: ignore[arg-type]
    replicas = RegularReplicas(config, 1, 0, patterns, room)
    replicas.node.grid.victor.buckets.peers[1, :2] = [1, 2]
    replicas.node.grid.victor.buckets.peers[3, 0] = 3
    assert replicas.known() == [1, 2, 3]
    assert replicas.holders() == [2, 3]
    assert replicas.slots_covered() == 1.0


def test_leaving_in_good_order_counts_to_the_end() -> None:
    patterns, room = Patterns(1, SLOTS), make_scratch(1, 0, 0, 8)
    node = GridNode(GridNodeConfig(**LAYERS), 1, 0, patterns, room)  # type: ignore[arg-type]
    node.grid.own.mark_on(0)
    node.handle(Stop(), 15 * 1_000_000)
    assert node.grid.own.shares()[0] == 1.0


def test_grid_runs_as_a_scenario_of_its_own() -> None:
    from pathlib import Path

    tables = {"name": "grid", "seed": 1, "nodes": 12, "cycles": 4, "system": "grid", "engine": "event"}
    outcome = simulate(resolve({**tables, "event": {"records": False}}, Path()))
    assert outcome.summary["connected_throughout"]
