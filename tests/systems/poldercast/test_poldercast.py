"""What is PolderCast's own: its layers' periods, coverage, shortcuts, hostile events, configuration.

What every topic system must do is in test_conformance; that the sweep is the same, in test_poldercast_parity.
"""

import contextlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from support.paths import TESTS
from support.systems.conformance import Trial, filter_sets
from support.systems.conformance_systems import POLDERCAST, poldercast_config
from support.systems.poldercast_node import PEERS, TOPICS, make_node, meet_on_rings
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, make_scratch
from vinecast.core.config import as_table, read
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    PeerLost,
    Received,
    SetTimer,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.rings import RingsConfig, RingsRequest
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.sim.workload.subscriptions import pattern
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.registry import SYSTEMS

# Timers.


def test_the_layers_begin_a_third_of_a_cycle_apart() -> None:
    node = make_node(5)
    assert node.handle(Start(), 0) == [
        SetTimer("cyclon", 0),
        SetTimer("vicinity", 333_333),
        SetTimer("rings", 666_666),
    ]


def config_of(cyclon_s: float, vicinity_s: float, rings_s: float) -> PolderCastConfig:
    return PolderCastConfig(
        cyclon=CyclonConfig(period_s=cyclon_s),
        vicinity=VicinityConfig(period_s=vicinity_s),
        rings=RingsConfig(period_s=rings_s),
    )


@pytest.mark.parametrize("periods", [(1.0, 2.0, 0.5), (2.0, 0.5, 1.0)])
def test_each_layer_keeps_its_own_period(periods: tuple[float, float, float]) -> None:
    trial = Trial(
        POLDERCAST, pattern("random", 1, 20, topics=6, subscriptions=3), 1, config=config_of(*periods)
    )
    trial.run(20)
    now_s = trial.engine.now_us / 1e6
    for node in trial.engine.machines:
        assert isinstance(node, PolderCast)
        cycles = (node.cyclon.cycle, node.vicinity.cycle, node.rings.cycle)
        for part, period in enumerate(periods):
            assert cycles[part] == int((now_s - part * periods[0] / 3) / period) + 1
    trial.check(trial.publish_everything())


def test_without_vicinity_there_are_two_layers() -> None:
    config = poldercast_config(with_vicinity=False)
    trial = Trial(POLDERCAST, pattern("random", 2, 20, topics=6, subscriptions=3), 2, config=config)
    trial.run(25)
    assert not [name for name in trial.engine.counters if "vicinity" in name]
    trial.check(trial.publish_everything())


def test_a_timer_of_nobody_is_ignored_and_everybody_hears_of_a_lost_peer() -> None:
    node = make_node(5, contacts=(4, 6))
    meet_on_rings(node, [4, 6])
    node.handle(TimerFired("vicinity"), 0)
    assert node.handle(TimerFired("somebody else's"), 0) == []
    assert node.handle(Stop(), 0) == []
    node.handle(PeerLost(4), 0)
    known = np.concatenate([node.cyclon.view, node.vicinity.peers, node.rings.peers.ravel()])
    assert 4 not in known
    assert 6 in known


# Coverage.


def test_coverage_is_published_once_a_cycle() -> None:
    node = make_node(5)
    meet_on_rings(node, [4, 6, 7])
    assert node.profiles.coverage_of(5).tolist() == [0]
    for name in ("vicinity", "rings"):
        node.handle(TimerFired(name), 0)
    assert node.profiles.coverage_of(5).tolist() == [0]
    meet_on_rings(node, [4, 6, 7])  # Rings has asked one of them
    node.handle(TimerFired("cyclon"), 0)
    assert node.profiles.coverage_of(5).tolist() == [3]


def test_changed_subscriptions_are_published_at_once_and_keep_their_rings() -> None:
    lists = [[0, 2] for _ in range(PEERS)]
    node = make_node(5, lists)
    meet_on_rings(node, [4, 6])
    node.handle(Subscribe(1), 0)
    assert node.profiles.topics_of(5).tolist() == [0, 1, 2]
    assert node.profiles.coverage_of(5).tolist() == [2, 0, 2]
    node.handle(Unsubscribe(0), 0)
    assert node.profiles.topics_of(5).tolist() == [1, 2]
    assert node.rings.peers.tolist() == [[NOBODY] * 4, [4, 6, 6, 4]]
    node.handle(Unsubscribe(3), 0)
    assert node.profiles.topics_of(5).tolist() == [1, 2]


def test_more_topics_than_can_be_counted_are_refused() -> None:
    wishes = filter_sets([list(range(TOPICS_MAX)), [0]], TOPICS_MAX + 1)
    profiles = Profiles.simulated(1, wishes.start, wishes.topics, wishes.topic_count)
    config = PolderCastConfig()
    node = PolderCast(config, 1, 0, profiles, make_scratch(2, TOPICS_MAX + 1, TOPICS_MAX + 1, config.most))
    assert node.handle(Subscribe(TOPICS_MAX), 0) == [Count("poldercast.refused subscription")]
    assert node.profiles.topics_of(0).size == TOPICS_MAX


def test_a_node_that_begins_with_too_many_topics_is_refused() -> None:
    wishes = filter_sets([list(range(TOPICS_MAX + 1)), [0]], TOPICS_MAX + 1)
    profiles = Profiles.simulated(1, wishes.start, wishes.topics, wishes.topic_count)
    config = PolderCastConfig()
    scratch = make_scratch(2, TOPICS_MAX + 1, TOPICS_MAX + 1, config.most)
    with pytest.raises(InputError, match=r"^a node can subscribe to 8,191 topics at the most$"):
        PolderCast(config, 1, 0, profiles, scratch)
    assert PolderCast(config, 1, 1, profiles, scratch)


@pytest.mark.parametrize("topic", [TOPICS, -1, 10**6])
def test_a_topic_that_does_not_exist_is_not_subscribed_to(topic: int) -> None:
    node = make_node(5)
    with contextlib.suppress(InputError):
        node.handle(Subscribe(topic), 0)
    assert node.profiles.topics_of(5).tolist() == [0]


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from support.systems.conformance import *
from support.systems.conformance_systems import *
from vinecast.core.errors import InputError
wishes = filter_sets([[0]] * 6, 4)
profiles = Profiles.simulated(1, wishes.start, wishes.topics, 4)
config = poldercast_config()
scratch = make_scratch(6, 4, 1, config.most)  # what a workload with one topic a node asks for
engine = EventEngine(lambda n: PolderCast(config, 1, n, profiles, scratch), 6, 1, Network(CALM, 1, 6))
for node in range(6):
    engine.start(node, 0, tuple(p for p in range(6) if p != node))
engine.run(1)
try:
    for node in range(6):
        for topic in (1, 2, 3):
            engine.machines[node].handle(Subscribe(topic), 0)
except InputError:
    sys.exit(0)
engine.run(5 * SECOND_US)
"""


def test_later_subscriptions_fit_into_the_working_memory() -> None:
    """As plain Python, where writing outside of an array is an error and not a crash some time later."""
    environment = {**os.environ, "VINECAST_COMPILE": "0"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(TESTS)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr


# Faults of its own.


def test_two_silent_peers_are_given_up_by_both_layers() -> None:
    """Two dead peers in both views, a cycle older in Rings: Vicinity asks 6 and Rings 4, cycle after cycle.

    Vicinity finds 6 in Rings again, Rings finds 4 in Vicinity again, with the age that it had there.
    """
    node = make_node(5)
    node.rings.peers[0], node.rings.ages[0] = [4, 6, 6, 4], 2
    node.vicinity.peers[:2], node.vicinity.ages[:2] = [4, 6], 1
    for _ in range(20):
        for name in ("cyclon", "vicinity", "rings"):
            node.handle(TimerFired(name), 0)
    assert (node.vicinity.peers == NOBODY).all()
    assert (node.rings.peers == NOBODY).all()


def test_the_dead_are_forgotten_by_all_layers() -> None:
    """S0 §5.4: ages travel with entries, so that links to the dead are chosen, and dropped, ever sooner."""
    trial = Trial(POLDERCAST, pattern("random", 24, 40, topics=12, subscriptions=4), 24)
    trial.run(25)
    dead = set(range(0, 40, 2))
    for node in dead:
        trial.engine.crash(node, trial.engine.now_us)
    trial.run(60)
    known: set[int] = set()
    for number, machine in enumerate(trial.engine.machines):
        if number not in dead:
            known |= {peer for view in POLDERCAST.views(machine) for peer in view}
    assert not known & dead


# Configuration.


def test_the_defaults_are_those_of_the_paper() -> None:
    config = read(PolderCastConfig, {})
    assert (config.fanout, config.shortcuts, config.rings.size) == (2, "both", 4)
    assert config.stand_by
    assert (config.cyclon.view_size, config.vicinity.view_size) == (20, 20)
    assert (config.cyclon.gossip_size, config.vicinity.gossip_size, config.rings.gossip_size) == (10, 10, 10)
    assert config.period_us == 60_000_000


def test_a_nested_configuration_is_read_and_written() -> None:
    table = {
        "fanout": 3,
        "shortcuts": "cyclon",
        "vicinity": {"view_size": 30, "wanted": 2},
        "rings": {"size": 2},
    }
    config = read(PolderCastConfig, table)
    assert (config.vicinity.view_size, config.vicinity.wanted, config.rings.size) == (30, 2, 2)
    assert config.most == 30
    assert read(PolderCastConfig, as_table(config)) == config


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"fanout": 0}, r"^poldercast\.fanout must be at least 1"),
        ({"remembered": 0}, r"^poldercast\.remembered must be at least 1"),
        ({"remember_s": -1.0}, r"^poldercast\.remember_s must be at least 0"),
        ({"shortcuts": "all"}, r'^poldercast\.shortcuts must be one of "both", "mixed", "cyclon", '),
        ({"fan_out": 2}, r"^unknown key poldercast\.fan_out \(did you mean fanout\?\)"),
        ({"cyclon": {"view_sise": 3}}, r"^unknown key poldercast\.cyclon\.view_sise \(did you mean"),
        ({"vicinity": {"wanted": 9}}, r"^poldercast\.vicinity\.wanted must be at most 4"),
        ({"vicinity": {"view_size": 5}}, r"^poldercast\.vicinity: gossip_size \(10\) must not exceed"),
        ({"rings": {"size": 3}}, r"^poldercast\.rings: size must be even"),
        ({"rings": {"period_s": "1"}}, r"^poldercast\.rings\.period_s must be a number, not a string"),
        ({"rings": 4}, r"^poldercast\.rings must be a table, not a whole number"),
        ({"with_vicinity": 1}, r"^poldercast\.with_vicinity must be true or false"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_path(table: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(PolderCastConfig, table, "poldercast")


def test_whoever_begins_with_nothing_can_subscribe_to_everything() -> None:
    """Built as scenarios build it: room for topics must not depend on who subscribed at the beginning."""
    nothing = Profiles.simulated(1, np.zeros(4, np.int64), np.zeros(0, np.int32), 5)
    config = PolderCastConfig()
    make = SYSTEMS["poldercast"].machines(config, 1, nothing)
    nodes = [make(node) for node in range(3)]
    for node in nodes:
        for topic in range(5):
            assert node.handle(Subscribe(topic), 0) == []
    assert nothing.cnt.tolist() == [5, 5, 5]
    for me, node in enumerate(nodes):
        entries = np.array([(me + 1) % 3], np.int32), np.zeros(1, np.uint16)
        node.handle(Received((me + 2) % 3, RingsRequest(1, *entries)), 0)
        assert isinstance(node, PolderCast)
        assert (node.rings.peers[:, 0] != NOBODY).all()


@pytest.mark.parametrize("shortcuts", ["vicinity", "mixed"])
def test_shortcuts_from_a_layer_that_is_not_there_are_refused(shortcuts: str) -> None:
    with pytest.raises(InputError, match="needs with_vicinity"):
        PolderCastConfig(with_vicinity=False, shortcuts=shortcuts)


def test_subscribing_again_changes_nothing() -> None:
    node = make_node(5, contacts=(0, 9))
    meet_on_rings(node, [4, 6])
    before = node.profiles.gaps.copy(), node.rings.peers.copy()
    assert node.handle(Subscribe(0), 0) == []
    assert np.array_equal(node.profiles.gaps, before[0])
    assert np.array_equal(node.rings.peers, before[1])
