"""PolderCast with regular rings: every event arrives, over both rings, also across slots, clocks and
topics."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.systems.conformance import PERIOD_US, Trial, filter_sets
from support.systems.conformance_systems import POLDERCAST, poldercast_config
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import Grid, Patterns
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.errors import InputError
from vinecast.core.events import Received, Send, TimerFired
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.regularity import RegularityConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.victor import VictorConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.engine.wire import entry_bytes, profile_topic_bytes
from vinecast.sim.measure.metrics import dissemination_stats, ring_targets
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import resolve
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.systems.grid.machine import GridConfig
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCastEvent
from vinecast.systems.poldercast_regular.machine import (
    PolderCastRegular,
    PolderCastRegularConfig,
    slots_around,
)
from vinecast.systems.poldercast_regular.rings import RegularProfiles
from vinecast.systems.poldercast_regular.sweep import PolderCastRegularSweep
from vinecast.systems.registry import SYSTEMS

PERIOD_S = PERIOD_US / 1e6


def config_of(fanout: int = 2, slot_s: int = 8, slots: int = 3, **rest: Any) -> PolderCastRegularConfig:
    """Cycles of a second, slots of a few, and nobody who was there most of the time is not regular."""
    plain = poldercast_config(fanout=fanout)
    layers = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    regularity = RegularityConfig(
        cycle_s=slot_s * slots, slot_s=slot_s, threshold=60, refresh="cycle", clock_skew_s=0.5
    )
    return PolderCastRegularConfig(
        **{
            **layers,
            "regular": RingsConfig(period_s=PERIOD_S),
            "grid": GridConfig(regularity, VictorConfig(period_s=PERIOD_S)),
            **rest,
        }
    )


REGULAR = dataclasses.replace(
    POLDERCAST, build=SYSTEMS["poldercast_regular"].machines, config=config_of(), settle=30, recover=20
)
"""For the conformance suite's trials."""


def crowd(seed: int, nodes: int = 30) -> Subscriptions:
    return pattern("random", seed, nodes, topics=12, subscriptions=4)


@pytest.mark.parametrize("fanout", [1, 2, 4])
def test_in_a_static_network_every_event_reaches_every_subscriber_once(fanout: int) -> None:
    trial = Trial(REGULAR, crowd(1), 1, config=config_of(fanout))
    trial.settle()
    events = trial.publish_everything() + trial.publish_everything()
    trial.check(events)
    trial.check_views()
    trial.check_no_relays(events)


def test_events_arrive_in_every_slot_while_patterns_come_about() -> None:
    trial = Trial(REGULAR, crowd(2, 20), 2)
    trial.run(12)
    for _ in range(24):
        trial.check(trial.publish_everything())


def test_small_topics_and_nodes_that_want_nothing() -> None:
    lists = [[0] for _ in range(12)] + [[]] * 2
    lists[3], lists[5], lists[9] = [0, 1], [0, 2], [0, 2]
    trial = Trial(REGULAR, filter_sets(lists, 4), 2)
    trial.settle()
    trial.check(trial.publish_everything())


def test_topics_come_and_go() -> None:
    trial = Trial(REGULAR, crowd(3, 24), 3)
    trial.settle()
    for node in range(0, 24, 3):
        trial.subscribe(node, node % 12)
        trial.unsubscribe(node, (node + 5) % 12)
    trial.run(25)
    trial.check(trial.publish_everything())
    trial.check_views()
    for machine in trial.engine.machines:
        assert isinstance(machine, PolderCastRegular)
        assert machine.regular.stored.shape[0] == machine.profiles.topics_of(machine.me).size
        assert machine.peers_in_use() <= set(range(24))


def test_everybody_is_still_reached_after_a_third_has_gone() -> None:
    trial = Trial(REGULAR, crowd(4, 30), 4)
    trial.settle()
    for node in range(0, 30, 3):
        trial.engine.crash(node, trial.engine.now_us)
    trial.recover()
    trial.check(trial.publish_everything())


def test_clocks_that_are_apart_do_no_harm() -> None:
    """Everybody starts at another moment of the cycle, and half of all clocks are late by less than α."""
    tables: dict[str, Any] = {
        "name": "skewed", "seed": 5, "nodes": 25, "cycles": 60, "system": "poldercast_regular",
        "engine": "event",
        "event": {"timers": "spread", "clock_offset_ms": 400.0, "records": False},
        "workload": {"kind": "random", "topics": 10, "subscriptions": 4},
        "network": {"latency_ms": 10.0}, "publish": {"every": 3, "warm_up": 0},
        "measure": {"every": 3},
        "poldercast_regular": {
            layer: {"period_s": 1.0} for layer in ("cyclon", "vicinity", "rings", "regular")
        }
        | {
            "grid": {
                "victor": {"period_s": 1.0},
                "regularity": {"cycle_s": 24, "slot_s": 8, "refresh": "cycle", "clock_skew_s": 1.0},
            }
        },
    }  # fmt: skip
    outcome = simulate(resolve(tables, Path()))
    hits = [row["hit_ratio"] for row in outcome.rows[10:]]
    assert np.mean(hits) > 0.999
    assert outcome.summary["counters"]["sent.rings_regular.request"] > 25 * 30
    assert outcome.rows[-1]["traffic_overhead"] == 0.0


# What the second ring is made of, and what it does.


def sweep_of(
    nodes: int, seed: int, config: PolderCastRegularConfig
) -> tuple[PolderCastRegularSweep, SweepEngine]:
    found = crowd(seed, nodes)
    sweep = PolderCastRegularSweep(
        config, seed, Profiles.simulated(seed, found.start, found.topics, found.topic_count)
    )
    engine = SweepEngine(sweep, config.period_us, "synchronous")
    sweep.start(np.arange(nodes), random_views(seed, nodes, 6))
    return sweep, engine


def test_the_regular_rings_close() -> None:
    sweep, engine = sweep_of(60, 6, config_of(slot_s=60, slots=1))
    half = np.zeros((60, 1), dtype=np.bool_)
    half[::2] = True
    sweep.patterns.give(half)
    engine.run(30)
    targets = ring_targets(sweep.profiles, half[:, 0])
    there = targets.higher != NOBODY
    assert there.any()
    assert np.array_equal(sweep.regular_peers[there, 0], targets.lower[there])
    assert np.array_equal(sweep.regular_peers[there, 2], targets.higher[there])
    others = np.isin(sweep.profiles.owners(), np.flatnonzero(~half[:, 0]))
    assert (sweep.regular_peers[others] == NOBODY).all()


@pytest.mark.parametrize("fanout", [1, 2, 3])
def test_nobody_forwards_more_than_f_times_on_each_ring(fanout: int) -> None:
    sweep, engine = sweep_of(60, 7, config_of(fanout, slot_s=60, slots=1))
    sweep.patterns.give(np.ones((60, 1), dtype=np.bool_))
    engine.run(30)
    twice = dissemination_stats(sweep.publish(1).run(engine.divide), sweep.profiles, sweep.online)
    sweep.patterns.regular[:] = False
    once = dissemination_stats(sweep.publish(1).run(engine.divide), sweep.profiles, sweep.online)
    assert twice.hit_ratio == once.hit_ratio == 1.0
    assert once.duplication <= max(fanout, 2)
    assert once.duplication < twice.duplication <= 2 * max(fanout, 2)
    assert twice.hops_mean < once.hops_mean


def test_a_broken_ring_is_mended_by_the_regular() -> None:
    """A third leaves at once; with the second ring less is missed before anybody has noticed."""
    missed = []
    for regular in (False, True):
        sweep, engine = sweep_of(90, 8, config_of(1, slot_s=60, slots=1, stand_by=False))
        stay = np.arange(90) % 3 != 0
        sweep.patterns.give((stay & regular)[:, None])
        engine.run(30)
        sweep.stop(np.flatnonzero(~stay))
        dissemination = sweep.publish(1).run(engine.divide)
        missed.append(1 - dissemination_stats(dissemination, sweep.profiles, sweep.online).hit_ratio)
    assert missed[1] < missed[0] / 2


def test_nobody_is_sent_an_event_twice_by_the_same_node() -> None:
    profiles = Profiles(np.arange(6, dtype=np.uint64), np.arange(1, dtype=np.uint64))
    for peer in range(6):
        profiles.set_topics(peer, np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.uint8))
    patterns = Patterns(6, 3)
    patterns.give(np.ones((6, 3), dtype=np.bool_))
    config = config_of(3)
    room = make_scratch(6, 1, 1, config.most)
    machine = PolderCastRegular(config, 1, 2, profiles, room, RegularProfiles(profiles, patterns))
    machine.rings.peers[0] = [1, 0, 3, 4]
    machine.cyclon.peers[:5] = [0, 1, 3, 4, 5]
    machine.grid.begin_period(0)
    machine.handle(TimerFired("grid"), 0)
    machine.regular.rows[0] = [1, 0, 3, 4]
    effects = machine.handle(Received(1, PolderCastEvent(0, 7, 1)), 0)
    told = [effect.to for effect in effects if isinstance(effect, Send)]
    assert sorted(told) == [0, 3, 4, 5], "all but itself and the sender, who are all that there are"


def test_the_slots_around_an_instant() -> None:
    time = Grid(100, 25)
    assert slots_around(time, 10, 5, 0) == ()
    assert slots_around(time, 22, 5, 0) == (1,)
    assert slots_around(time, 26, 5, 1) == (0,)
    assert slots_around(time, 98, 5, 3) == (0,)
    assert slots_around(time, 30, 1, 0) == (1,), "whose rows are still those of the slot before"


# As a scenario.


def scenario(**more: Any) -> dict[str, Any]:
    return {
        "name": "regular", "seed": 1, "nodes": 40, "cycles": 20, "system": "poldercast_regular",
        "workload": {"kind": "random", "topics": 12, "subscriptions": 4},
        "churn": {"kind": "onoff", "mean_on_s": 900.0, "mean_off_s": 300.0},
        "poldercast_regular": {"grid": {"regularity": {"cycle_s": 480, "slot_s": 120}}},
        **more,
    }  # fmt: skip


@pytest.mark.parametrize("keep_state", [True, False])
def test_both_engines_run_it_as_a_scenario(keep_state: bool) -> None:
    churn = {"kind": "onoff", "mean_on_s": 900.0, "mean_off_s": 300.0, "keep_state": keep_state}
    by_sweep = simulate(resolve(scenario(churn=churn), Path()))
    event = {"event": {"timers": "synchronised", "records": False}, "network": {"latency_ms": 20.0}}
    by_machines = simulate(resolve(scenario(churn=churn, engine="event", **event), Path()))
    for one, other in zip(by_sweep.rows, by_machines.rows, strict=True):
        for name in ("online", "hit_ratio", "hops_mean", "duplication", "control_messages", "control_bytes"):
            assert one[name] == other[name], name
    assert by_sweep.summary["state_bytes_per_node"] > 0


def test_profiles_weigh_more_with_patterns() -> None:
    week = PolderCastRegularConfig(grid=GridConfig(RegularityConfig(cycle_s=604_800)))
    assert entry_bytes(week) - entry_bytes(PolderCastConfig()) == 21
    assert entry_bytes(PolderCastRegularConfig()) - entry_bytes(PolderCastConfig()) == 3
    assert profile_topic_bytes(week) == profile_topic_bytes(PolderCastConfig()) + 5


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"grid": {"regularity": {"slot_s": 7000}}}, "poldercast_regular.grid.regularity: slot_s .* divide"),
        ({"regular": {"size": 2}}, "regular.size"),
        ({"grid": {"victor": {"period_s": 7.0}}}, "same period_s"),
        ({"grid": {"regularity": {"gamma": 70}}}, "unknown key"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        simulate(resolve(scenario(poldercast_regular=wrong), Path()))


def test_too_many_topics_are_refused() -> None:
    profiles = Profiles(np.arange(2, dtype=np.uint64), np.arange(5000, dtype=np.uint64))
    profiles.set_topics(0, np.arange(4096, dtype=np.int32), np.zeros(4096, dtype=np.uint8))
    config = PolderCastRegularConfig(cyclon=CyclonConfig())
    shared = RegularProfiles(profiles, Patterns(2, 24))
    with pytest.raises(InputError, match="4,095 topics"):
        PolderCastRegular(config, 1, 0, profiles, make_scratch(2, 5000, 4096, config.most), shared)
    with pytest.raises(InputError, match="4,095 topics"):
        PolderCastRegularSweep(config, 1, profiles)
