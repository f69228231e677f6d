"""Populations of Pastry under accidents."""

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from support.protocols.pastry import SECOND, check_tables, nearest_of, profiles_of
from vinecast.core.circle import simulated_ids
from vinecast.protocols.pastry import Pastry, PastryConfig
from vinecast.protocols.pastry.rules import HIGHER
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig, Partition
from vinecast.sim.measure.overlay import random_views

# Populations.


def population(
    nodes: int, seed: int, network: NetworkConfig | None = None, *, at_once: bool = True, **config: Any
) -> EventEngine:
    """Nodes that all start together knowing ten random others, or one after the other knowing an earlier."""
    made = PastryConfig(**{"period_s": 1.0, "timeout_s": 0.5, "leaf_size": 16, **config})
    table = profiles_of(nodes, seed)
    engine = EventEngine(
        lambda me: Pastry(made, seed, me, table),
        nodes,
        seed,
        Network(network or NetworkConfig(), seed, nodes),
    )
    contacts = random_views(seed, nodes, min(10, nodes - 1))
    order = np.random.default_rng(seed).permutation(nodes).tolist()
    for place, me in enumerate(order):
        if at_once:
            engine.start(me, 0, tuple(contacts[me].tolist()))
        else:
            engine.start(me, place * SECOND // 50, (order[place * 7 // 11],) if place else ())
    return engine


def pastry(engine: EventEngine, me: int) -> Pastry:
    node = engine.machines[me]
    assert isinstance(node, Pastry)
    return node


def wrong_leafs(engine: EventEngine) -> int:
    """How many nodes on line have another leaf set than they should."""
    alive = [me for me, online in enumerate(engine.online) if online]
    wrong = 0
    for place, me in enumerate(alive):
        node = pastry(engine, me)
        check_tables(node, engine.nodes)
        size = min(node.leafs.shape[1], len(alive) - 1)
        lower = [alive[(place - i - 1) % len(alive)] for i in range(size)]
        higher = [alive[(place + i + 1) % len(alive)] for i in range(size)]
        wrong += node.leafs[:, :size].tolist() != [lower, higher]
    return wrong


def walk(engine: EventEngine, start: int, key: int) -> list[int]:
    way = [start]
    while (hop := pastry(engine, way[-1]).next_hop(key)) != way[-1]:
        way.append(hop)
    return way


def check_ways(engine: EventEngine, seed: int) -> float:
    """From everywhere to anywhere the way ends at the nearest node on line. Returns the mean hops."""
    alive = [me for me, online in enumerate(engine.online) if online]
    points = pastry(engine, alive[0]).profiles.ids.tolist()
    hops = []
    for me, key in zip(alive * 2, simulated_ids(seed + 77, 2 * len(alive)).tolist(), strict=True):
        way = walk(engine, me, key)
        assert way[-1] == nearest_of(points, key, alive)
        for here, there in pairwise(way):
            assert nearest_of(points, key, [here, there]) == there
        hops.append(len(way) - 1)
    return float(np.mean(hops))


@pytest.mark.parametrize(
    ("nodes", "at_once"), [(5, True), (100, True), (300, True), (100, False), (300, False)]
)
def test_leaf_sets_become_the_true_neighbours_and_ways_are_short(nodes: int, at_once: bool) -> None:
    engine = population(nodes, 1, at_once=at_once)
    engine.run((6 if at_once else 6 + nodes // 50) * SECOND)
    assert wrong_leafs(engine) == 0
    assert check_ways(engine, 1) < np.log(nodes) / np.log(16) + 0.5


@pytest.mark.parametrize("seed", range(2))
def test_after_the_crash_of_half_the_others_find_each_other(seed: int) -> None:
    engine = population(100, seed)
    engine.run(8 * SECOND)
    for me in range(0, 100, 2):
        engine.crash(me, 8 * SECOND + 1)
        engine.start(me, 45 * SECOND, (1,), keep_state=me % 4 == 0)
    engine.run(40 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, seed)
    dead = sum(peer % 2 == 0 for me in range(1, 100, 2) for peer in pastry(engine, me).known)
    assert dead == 0
    engine.run(60 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, seed)


def test_joins_while_others_come_and_go() -> None:
    engine = population(120, 3, at_once=False)
    fates = np.random.default_rng(3)
    for second in range(4, 24):
        for me in fates.choice(120, 4, replace=False).tolist():
            engine.crash(me, second * SECOND)
            engine.start(me, (second + 3) * SECOND, (int(fates.integers(120)), int(fates.integers(120))))
    engine.run(27 * SECOND)
    joined = [pastry(engine, me).joined for me in range(120)]
    assert sum(joined) >= 115
    engine.run(50 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, 3)


@pytest.mark.parametrize("seed", range(2))
def test_loss_duplication_and_reordering_are_survived(seed: int) -> None:
    bad = NetworkConfig(
        latency="sampled", latency_ms=1.0, latency_ms_max=200.0, loss=0.3, duplication=0.2, reordering=0.2
    )
    engine = population(80, seed, bad, patience=3)
    for second in range(5, 31, 5):
        engine.run(second * SECOND)
        wrong_leafs(engine)
    assert all(pastry(engine, me).joined for me in range(80))
    neighbours = [pastry(engine, me).leafs[HIGHER, 0] == (me + 1) % 80 for me in range(80)]
    assert sum(neighbours) > 60
    engine.network = Network(NetworkConfig(), seed, 80)
    engine.run(45 * SECOND)
    assert wrong_leafs(engine) == 0
    check_ways(engine, seed)


def test_a_partition_heals() -> None:
    """Each side closes its own circle; who looks itself up through the other side joins them again."""
    engine = population(100, 2, NetworkConfig(partitions=(Partition(from_s=10.0, to_s=30.0),)))
    engine.run(30 * SECOND)
    assert wrong_leafs(engine) > 50
    engine.run(60 * SECOND)
    assert wrong_leafs(engine) == 0


def digest_of_a_run() -> str:
    """Everything that a small network under accidents comes to, in a few letters."""
    bad = NetworkConfig(latency="sampled", latency_ms=1.0, latency_ms_max=300.0, loss=0.1, duplication=0.1)
    engine = population(40, 5, bad)
    engine.crash(3, 3 * SECOND)
    engine.run(6 * SECOND)
    tables = b"".join(pastry(engine, me).peers.tobytes() for me in range(40))
    return hashlib.sha256(tables + repr((engine.handled, dict(engine.counters))).encode()).hexdigest()


def test_the_same_seed_gives_the_same_run_with_and_without_numba() -> None:
    here = digest_of_a_run()
    assert digest_of_a_run() == here
    plain = subprocess.run(
        [sys.executable, "-c", f"import {__name__} as tests; print(tests.digest_of_a_run())"],
        env={
            **os.environ,
            "VINECAST_COMPILE": "0",
            "PYTHONHASHSEED": "77",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert plain.stdout.strip() == here
