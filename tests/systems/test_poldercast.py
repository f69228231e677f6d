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

from support.conformance import POLDERCAST, Trial, filter_sets, poldercast_config
from support.paths import TESTS
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, make_scratch
from vinecast.core.config import as_table, read
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Observe,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.rings import RingsAnswer, RingsConfig, RingsRequest
from vinecast.protocols.vicinity import VicinityConfig, VicinityRequest
from vinecast.sim.workload.subscriptions import pattern
from vinecast.systems.poldercast.config import SHORTCUTS, PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast, PolderCastEvent
from vinecast.systems.registry import SYSTEMS

PEERS, TOPICS = 12, 4


def make_node(
    me: int, lists: list[list[int]] | None = None, contacts: tuple[int, ...] = (), **config: Any
) -> PolderCast:
    """One node among PEERS, all of whom want topic 0 unless told otherwise."""
    wishes = filter_sets([[0]] * PEERS if lists is None else lists, TOPICS)
    profiles = Profiles.simulated(1, wishes.start, wishes.topics, TOPICS)
    chosen = poldercast_config(**config)
    node = PolderCast(chosen, 1, me, profiles, make_scratch(PEERS, TOPICS, TOPICS, chosen.most))
    node.handle(Start(contacts), 0)
    return node


def sends(effects: list[Effect]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def ring_message(cycle: int, peers: list[int]) -> tuple[int, Any, Any]:
    return cycle, np.array(peers, dtype=np.int32), np.zeros(len(peers), dtype=np.uint16)


def meet_on_rings(node: PolderCast, peers: list[int]) -> None:
    """Let Rings hear of these, the first of whom says so."""
    node.handle(Received(peers[0], RingsRequest(*ring_message(1, peers[1:]))), 0)


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
from support.conformance import *
from vinecast.core.errors import InputError
wishes = interests([[0]] * 6, 4)
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


# Shortcuts.


@pytest.mark.parametrize("shortcuts", [kind for kind in SHORTCUTS if kind != "mixed"])
def test_shortcuts_come_from_the_views_that_were_chosen(shortcuts: str) -> None:
    node = make_node(5, contacts=(0, 1, 2), fanout=10, shortcuts=shortcuts)
    meet_on_rings(node, [4, 6])
    node.vicinity.peers[:4] = [2, 8, 9, 6]
    effects = node.handle(Publish(0, 7), 0)
    assert effects[:2] == [Observe(TraceKind.PUBLISHED, 0, 7), Deliver(0, 7, 0)]
    views = {"cyclon": {0, 1, 2}, "vicinity": {2, 8, 9}, "both": {0, 1, 2, 8, 9}}
    targets = [send.to for send in sends(effects)]
    assert targets[:2] == [4, 6]
    assert set(targets[2:]) == views[shortcuts]
    assert len(targets) == 2 + len(views[shortcuts])
    assert {send.message for send in sends(effects)} == {PolderCastEvent(0, 7, 1)}


def test_mixed_shortcuts_come_from_one_view_or_the_other() -> None:
    """Who stands in both is taken with either; events differ in which it is, and so do nodes."""
    chosen: dict[int, list[frozenset[int]]] = {3: [], 7: []}
    for me, by_event in chosen.items():
        node = make_node(me, contacts=(0, 1, 2), fanout=10, shortcuts="mixed")
        node.vicinity.peers[:3] = [2, 8, 9]
        for event in range(40):
            by_event.append(frozenset(send.to for send in sends(node.handle(Publish(0, event), 0))))
        assert set(by_event) == {frozenset({0, 1, 2}), frozenset({2, 8, 9})}
    assert chosen[3] != chosen[7]


def test_every_copy_along_the_ring_names_who_stands_by() -> None:
    node = make_node(5, contacts=(0, 9), fanout=3)
    meet_on_rings(node, [4, 3, 6, 7])
    expected = {9: {4: 3, 6: 7}, 4: {6: 7}, 7: {4: 3, 6: NOBODY}}
    for event, (sender, along) in enumerate(expected.items()):
        sent = sends(node.handle(Received(sender, PolderCastEvent(0, event, 1)), 0))
        assert {send.to: send.otherwise for send in sent if send.to in (4, 6)} == along
        assert {send.otherwise for send in sent if send.to not in (4, 6)} == {NOBODY}
    published = sends(node.handle(Publish(0, 8), 0))
    assert [(send.to, send.otherwise) for send in published[:2]] == [(4, 3), (6, 7)]


def test_nobody_stands_by_where_that_is_switched_off() -> None:
    node = make_node(5, stand_by=False)
    meet_on_rings(node, [4, 3, 6, 7])
    assert sends(node.handle(Publish(0, 8), 0)) == [Send(peer, PolderCastEvent(0, 8, 1)) for peer in (4, 6)]


@pytest.mark.parametrize("stand_by", [True, False])
def test_stand_bys_carry_events_past_single_failures(stand_by: bool) -> None:
    """Everybody wants one topic; two nodes that are no neighbours crash, and nobody has noticed yet."""
    config = poldercast_config(fanout=1, stand_by=stand_by)
    trial = Trial(POLDERCAST, filter_sets([[0]] * PEERS, 1), 3, config=config)
    trial.settle()
    ring = [0]
    while len(ring) < PEERS:
        machine = trial.engine.machines[ring[-1]]
        assert isinstance(machine, PolderCast)
        ring.append(int(machine.rings.peers[0, machine.rings.peers.shape[1] // 2]))
    assert len(set(ring)) == PEERS
    for dead in (ring[3], ring[8]):
        trial.engine.crash(dead, trial.engine.now_us)
    trial.engine.command(0, trial.engine.now_us, Publish(0, 99))
    trial.engine.run(trial.engine.now_us + 150_000)
    reached = {node for node, _, event in trial.delivered if event == 99}
    cut_off = set() if stand_by else set(ring[4:8])
    assert reached == set(range(PEERS)) - {ring[3], ring[8]} - cut_off


def test_only_subscribers_are_shortcuts() -> None:
    lists = [[0] if peer % 2 else [1] for peer in range(PEERS)]
    node = make_node(5, lists, contacts=tuple(p for p in range(PEERS) if p != 5), fanout=12)
    assert {send.to for send in sends(node.handle(Publish(0, 7), 0))} == {1, 3, 7, 9, 11}


@pytest.mark.parametrize("fanout", [1, 2, 3, 5])
def test_an_event_is_forwarded_along_the_ring_and_as_often_as_the_fanout_says(fanout: int) -> None:
    node = make_node(5, contacts=(0, 1, 2, 8, 9), fanout=fanout)
    meet_on_rings(node, [4, 6])
    for number, (sender, along) in enumerate([(4, [6]), (6, [4]), (9, [4, 6])]):
        effects = node.handle(Received(sender, PolderCastEvent(0, number, 3)), 0)
        assert effects[0] == Observe(TraceKind.RECEIVED_FIRST, 0, number, sender, 3)
        assert effects[1] == Deliver(0, number, 3)
        targets = [send.to for send in sends(effects)]
        assert targets[: len(along)] == along
        assert len(set(targets)) == len(targets) == max(fanout, len(along))
        assert sender not in targets
        again = node.handle(Received(6, PolderCastEvent(0, number, 9)), 0)
        assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, number, 6, 9)]


# Memory.


def test_a_full_memory_of_recent_events_turns_further_ones_away() -> None:
    node = make_node(5, remembered=3, remember_s=2.0)
    meet_on_rings(node, [4, 6])
    for number, at_us in enumerate((0, 1_000_000, 1_000_000)):
        assert sends(node.handle(Received(4, PolderCastEvent(0, number, 1)), at_us))
    assert node.handle(Received(4, PolderCastEvent(0, 3, 1)), 1_999_999) == [
        Observe(TraceKind.DROPPED, 0, 3, 4, 1, "memory full"),
        Count("poldercast.memory full"),
    ]
    assert node.handle(Publish(0, 4), 1_999_999) == [
        Observe(TraceKind.PUBLISHED, 0, 4),
        Observe(TraceKind.DROPPED, 0, 4, reason="memory full"),
        Count("poldercast.memory full"),
    ]
    again = node.handle(Received(6, PolderCastEvent(0, 0, 2)), 1_999_999)
    assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, 0, 6, 2)]  # what is known is still known
    assert sends(node.handle(Received(4, PolderCastEvent(0, 3, 1)), 2_000_000))  # in the place of event 0
    assert node.handle(Received(4, PolderCastEvent(0, 5, 1)), 2_000_000)[-1] == Count(
        "poldercast.memory full"
    )
    assert sends(node.handle(Publish(0, 5), 3_000_000))


def test_publishing_an_event_again_needs_no_room_and_makes_it_recent() -> None:
    node = make_node(5, remembered=2, remember_s=1.0)
    meet_on_rings(node, [4, 6])
    for number, at_us in ((0, 0), (1, 500_000), (0, 900_000), (2, 1_500_000)):
        assert sends(node.handle(Publish(0, number), at_us))
    again = node.handle(Received(4, PolderCastEvent(0, 0, 1)), 1_500_000)
    assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, 0, 4, 1)]  # event 1 was the earlier


def test_an_event_is_delivered_once_however_many_are_on_their_way() -> None:
    """Beyond what is remembered events are lost, not delivered twice, and nothing circulates."""
    config = poldercast_config(fanout=4, remembered=3)
    trial = Trial(POLDERCAST, pattern("random", 3, 20, topics=4, subscriptions=3), 3, config=config)
    trial.settle()
    for number in range(40):
        trial.publish(number % 20, number % 4)
    trial.run(1)
    assert max(trial.delivered.values()) == 1
    assert len(trial.carried) <= 4 * (len(trial.delivered) + 40)
    assert {record.reason for record in trial.dropped} == {"memory full"}
    assert sum(trial.engine.counters["poldercast.memory full"]) == len(trial.dropped)


# What others may send.


def test_an_event_for_somebody_else_is_counted_and_goes_no_further() -> None:
    node = make_node(5, contacts=(4, 6))
    for event, topic in enumerate((1, TOPICS, -1, 10**9)):
        effects = node.handle(Received(4, PolderCastEvent(topic, event, 1)), 0)
        assert effects == [
            Observe(TraceKind.RECEIVED_FIRST, topic, event, 4, 1),
            Count("poldercast.not subscribed"),
        ]


def test_a_second_copy_is_traced_as_such_even_by_somebody_who_is_not_interested() -> None:
    node = make_node(5, contacts=(4, 6))
    node.handle(Received(4, PolderCastEvent(1, 7, 1)), 0)
    again = node.handle(Received(6, PolderCastEvent(1, 7, 1)), 0)
    assert again[0] == Observe(TraceKind.RECEIVED_AGAIN, 1, 7, 6, 1)


def test_no_number_of_an_event_raises_out_of_the_node() -> None:
    node = make_node(5, contacts=(4, 6))
    for number in (1, 2**63 - 1, 2**63, 2**64):
        assert node.handle(Received(4, PolderCastEvent(0, number, 1)), 0)


def test_own_events_that_come_back_are_copies() -> None:
    subscriber, stranger = (
        make_node(5, contacts=(4,)),
        make_node(5, [[1] if p == 5 else [0] for p in range(PEERS)], (4,)),
    )
    for node in (subscriber, stranger):
        assert [send.to for send in sends(node.handle(Publish(0, 7), 0))] in ([4], [])
        again = node.handle(Received(4, PolderCastEvent(0, 7, 2)), 0)
        assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, 7, 4, 2)]


def test_a_stranger_hands_its_event_to_a_subscriber_in_any_view() -> None:
    lists = [[0], [1], [1], [0], [0], [1], [1], [1], [1], [1], [1], [1]]
    node = make_node(5, lists, contacts=(1, 2))
    assert node.handle(Publish(0, 7), 0) == [
        Observe(TraceKind.PUBLISHED, 0, 7),
        Observe(TraceKind.DROPPED, 0, 7, reason="no subscriber known"),
    ]
    node.vicinity.peers[0] = 3
    assert node.handle(Publish(0, 8), 0)[1:] == [Send(3, PolderCastEvent(0, 8, 0))]
    other = make_node(5, lists, contacts=(1, 4))
    assert other.handle(Publish(0, 8), 0)[1:] == [Send(4, PolderCastEvent(0, 8, 0))]


def test_messages_reach_the_layer_that_they_are_for() -> None:
    node = make_node(5)
    late = node.handle(Received(4, RingsAnswer(*ring_message(9, [6]))), 0)
    assert late == [Count("rings.late")]
    answers = sends(node.handle(Received(4, VicinityRequest(*ring_message(1, [6]))), 0))
    assert [send.message.kind for send in answers] == ["vicinity.answer"]
    assert node.rings.peers.tolist() == [[NOBODY] * 4]
    assert {4, 6} <= set(node.vicinity.peers.tolist())


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
