"""Vitis: utility, rates, notices, and a small population from end to end."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import begin_gathering, gather, make_scratch
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Observe,
    Publish,
    Received,
    Send,
    SetTimer,
    Subscribe,
    Unsubscribe,
)
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.small_world import LinkChoice
from vinecast.protocols.tman import TManConfig
from vinecast.sim.engine.sweep import SweepEngine
from vinecast.sim.measure.metrics import dissemination_stats
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.workload.subscriptions import pattern, subscribe
from vinecast.systems.common.notices import ASKED_MAX, Notice, Notices, Pull, PulledEvent, SeekingEvent
from vinecast.systems.common.recent import RecentEvents
from vinecast.systems.rvr.machine import RvrConfig
from vinecast.systems.tman_sweep.events import TManPublication
from vinecast.systems.tman_sweep.sweep import TManSweep
from vinecast.systems.vitis.machine import VitisConfig, VitisProfiles, vitis_machines
from vinecast.systems.vitis.rules import (
    SCALE,
    UNSEEN,
    WEIGHT_MAX,
    Weights,
    estimate_rates,
    select_neighbours,
    utility,
)

TOPICS = 8


# Utility and rates.


def test_utility_is_the_papers_example() -> None:
    """S2 §3.2.2: p has A, B, C; q has C, D; r has C, D, E, F, G, H."""
    assert utility(1, 3, 2) == (1 << 30) // 4
    assert utility(1, 3, 6) == (1 << 30) // 8
    assert utility(2, 2, 6) == (2 << 30) // 6
    assert utility(0, 0, 0) == 0


@settings(max_examples=200)
@given(
    st.lists(st.sets(st.integers(0, TOPICS - 1)), min_size=4, max_size=12),
    st.lists(st.integers(1, 1000), min_size=TOPICS, max_size=TOPICS),
    st.integers(4, 8),
    st.integers(0, 2),
)
def test_friends_are_those_of_the_highest_utility(
    topics: list[set[int]], rates: list[int], most: int, long_links: int
) -> None:
    nodes = len(topics)
    pairs = [(node, topic) for node in range(nodes) for topic in topics[node]]
    owner, topic = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(2))
    found = subscribe(owner, topic, nodes, TOPICS)
    profiles = Profiles.simulated(1, found.start, found.topics, TOPICS)
    weight = np.array(rates, dtype=np.uint32)[found.topics]
    total = np.array([sum(rates[t] for t in own) for own in topics], dtype=np.uint64)
    scratch = make_scratch(nodes, TOPICS, 0, 20)
    row = np.arange(1, nodes, dtype=np.int32)
    count = gather(scratch, begin_gathering(scratch), row, np.zeros(row.size, dtype=np.uint16))
    choice, weights = LinkChoice(0, 1, long_links), Weights(weight, total)
    chosen = select_neighbours(choice, count, most, profiles.table, weights, scratch)
    peers = scratch.peers[scratch.best[:chosen]].tolist()
    assert len(set(peers)) == chosen == min(most, nodes - 1)
    assert peers[:2] == [1, nodes - 1]  # the ring

    def worth(peer: int) -> int:
        shared = sum(rates[t] for t in topics[0] & topics[peer])
        both = sum(rates[t] for t in topics[0] | topics[peer])
        return (shared << 30) // both if both else 0

    links = min(2 + long_links, chosen)
    friends = [worth(peer) for peer in peers[links:]]
    left = [worth(peer) for peer in range(1, nodes) if peer not in peers]
    assert friends == sorted(friends, reverse=True)
    assert not left or not friends or max(left) <= friends[-1]
    assert not scratch.mark.any()


def test_rates_follow_what_is_seen() -> None:
    rate, seen = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    weight = np.zeros(3, dtype=np.uint32)
    for _ in range(60):
        seen[:] = 0, 1, 10
        total = estimate_rates(rate, seen, weight, 0, 3)
        assert not seen.any()
    assert weight[0] == UNSEEN
    assert SCALE * 0.8 < weight[1] <= SCALE
    assert SCALE * 9.8 < weight[2] <= SCALE * 10
    assert total == weight.sum()
    for _ in range(100):
        estimate_rates(rate, seen, weight, 0, 3)
    assert weight.tolist() == [UNSEEN] * 3
    seen[:] = 1 << 40
    for _ in range(99):
        seen[:] = 1 << 40
        estimate_rates(rate, seen, weight, 0, 3)
    assert weight.tolist() == [WEIGHT_MAX] * 3


# Notices.


def notices(links: list[int], wants: bool = True, next_hop: int = NOBODY, memory: int = 8) -> Notices:
    recent = RecentEvents(memory, 1000, "vitis")
    return Notices(
        "vitis", recent, 100, memory, lambda topic: wants, lambda topic: links, lambda topic: next_hop,
        lambda topic: None,
    )  # fmt: skip


def sends(effects: list[Effect]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def test_an_event_is_told_asked_for_and_carried_once() -> None:
    publisher, subscriber = notices([1]), notices([0, 2])
    (told,) = sends(publisher.publish(3, 77, 0))
    assert told == Send(1, Notice(3, 77, 1, False))
    asked = subscriber.hear(0, Notice(3, 77, 1, False), 0)
    assert asked == [Send(0, Pull(3, 77, 1, False)), SetTimer("notices.pull", 100)]
    assert subscriber.hear(2, Notice(3, 77, 2, False), 0) == []  # it is on its way already
    assert publisher.hear(1, Pull(3, 77, 1, False), 0) == [Send(1, PulledEvent(3, 77, 1))]
    got = subscriber.hear(0, PulledEvent(3, 77, 1), 0)
    assert got == [
        Observe(TraceKind.RECEIVED_FIRST, 3, 77, 0, 1),
        Deliver(3, 77, 1),
        Send(2, Notice(3, 77, 2, False)),
    ]
    assert subscriber.hear(2, Notice(3, 77, 3, False), 0) == []
    assert subscriber.hear(0, PulledEvent(3, 77, 1), 0) == [Observe(TraceKind.RECEIVED_AGAIN, 3, 77, 0, 1)]


def test_who_does_not_answer_is_followed_by_the_next_who_told() -> None:
    node = notices([])
    node.hear(1, Notice(0, 5, 1, False), 0)
    node.hear(2, Notice(0, 5, 4, False), 10)
    assert sends(node.wake(100)) == [Send(2, Pull(0, 5, 4, False))]
    assert node.wake(200) == [Count("vitis.pull unanswered")]  # nobody is left
    assert sends(node.hear(1, Notice(0, 5, 1, False), 300)) == [Send(1, Pull(0, 5, 1, False))]


def test_what_is_not_here_is_not_sent() -> None:
    assert notices([]).hear(1, Pull(0, 5, 1, False), 0) == [Count("vitis.asked in vain")]


def test_an_event_without_a_subscriber_in_sight_seeks_the_rendezvous() -> None:
    stranger = notices([], wants=False, next_hop=4)
    assert sends(stranger.publish(0, 5, 0)) == [Send(4, Notice(0, 5, 1, True))]
    end = notices([], wants=False)
    end.hear(1, Notice(0, 5, 3, True), 0)
    assert end.hear(1, SeekingEvent(0, 5, 3), 0)[-1] == Observe(
        TraceKind.DROPPED, 0, 5, hops=3, reason="no subscriber known"
    )
    end.hear(1, Notice(0, 6, 3, False), 0)
    assert end.hear(1, PulledEvent(0, 6, 3), 0)[-1] == Count("vitis.not subscribed")


def test_no_more_events_are_awaited_than_remembered() -> None:
    node = notices([], memory=2)
    for event in range(2):
        assert sends(node.hear(1, Notice(0, event, 1, False), 0))
    assert not sends(node.hear(1, Notice(0, 9, 1, False), 0))


def test_who_tells_of_more_than_it_sends_is_not_asked_for_more() -> None:
    node = notices([], memory=2 * ASKED_MAX)
    for event in range(ASKED_MAX):
        assert sends(node.hear(1, Notice(0, event, 1, False), 0))
    assert node.hear(1, Notice(0, ASKED_MAX, 1, False), 0) == [Count("vitis.told too much")]
    assert sends(node.hear(2, Notice(0, ASKED_MAX, 1, False), 0))
    assert node.peers() == {1, 2}
    node.hear(1, PulledEvent(0, 7, 1), 0)
    assert sends(node.hear(1, Notice(0, ASKED_MAX + 1, 1, False), 0))
    node.wake(100)
    assert node.peers() == set()


def test_who_tells_twice_is_asked_once() -> None:
    node = notices([])
    for sender in (1, 1, 2, 2):
        node.hear(sender, Notice(0, 5, 1, False), 0)
    assert [send.to for now_us in (100, 200, 300) for send in sends(node.wake(now_us))] == [2]


def test_what_came_by_other_means_is_not_asked_for() -> None:
    node = notices([3])
    node.hear(1, Notice(0, 5, 1, False), 0)
    node.note(5, 0)
    assert node.peers() == set()
    assert node.hear(2, Notice(0, 5, 1, False), 0) == []
    assert sends(node.hear(1, PulledEvent(0, 5, 1), 0)) == []  # nor passed on


# Configuration.


def test_a_table_without_room_for_its_links_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"long_links \+ 2 must be at most tman.table_size \(15\), not 16"):
        VitisConfig(long_links=14)
    assert VitisConfig(long_links=13).long_links == 13
    with pytest.raises(InputError, match="period_s must be the same"):
        VitisConfig(cyclon=CyclonConfig(period_s=1.0))
    with pytest.raises(InputError, match="period_s must be the same"):
        RvrConfig(tman=TManConfig(period_s=1.0))


# One machine.


def test_topics_come_and_go() -> None:
    found = pattern("random", 1, 6, topics=TOPICS, subscriptions=2)
    profiles = Profiles.simulated(1, found.start, found.topics, TOPICS)
    node = vitis_machines(VitisConfig(), 1, profiles)(0)
    before = profiles.topics_of(0).tolist()
    new = next(topic for topic in range(TOPICS) if topic not in before)
    node._rate[:] = 5, 6
    assert node.handle(Subscribe(new), 0) == []
    assert node.subscribes(new)
    assert node.proposed.gateway[node._row(new)] == node.me
    kept = dict(zip(before, (5, 6), strict=True)) | {new: 0}
    assert node._rate.tolist() == [kept[topic] for topic in sorted(kept)]
    assert node.shared.weights.total[0] == 5 + 6 + UNSEEN
    assert node.handle(Unsubscribe(before[0]), 0) == []
    assert node._rate.tolist() == [kept[topic] for topic in sorted({before[1], new})]
    assert node.handle(Subscribe(TOPICS), 0) == [Count("vitis.refused subscription")]
    assert node.handle(Publish(-1, 5), 0) == [Count("vitis.unknown_topics")]
    assert node.handle(Received(1, Notice(TOPICS, 5, 1, False)), 0) == [Count("vitis.unknown_topics")]
    assert node._row(before[0]) < 0


# A population.


def settled(config: VitisConfig | RvrConfig, kind: str) -> tuple[SweepEngine, TManSweep, Profiles]:
    found = pattern(kind, 1, 400, topics=500, subscriptions=10)
    profiles = Profiles.simulated(1, found.start, found.topics, found.topic_count)
    sweep = TManSweep(config, 1, profiles)
    engine = SweepEngine(sweep, config.period_us, "synchronous", 1)
    sweep.start(np.arange(400), random_views(1, 400, 20))
    engine.run(40)
    return engine, sweep, profiles


@pytest.mark.parametrize("kind", ["random", "high"])
def test_everything_arrives_and_friends_spare_traffic(kind: str) -> None:
    unwanted = []
    for config in (VitisConfig(), RvrConfig()):
        engine, sweep, profiles = settled(config, kind)
        assert np.array_equal(sweep.tables.peers[:, 0], (np.arange(400) + 1) % 400)
        assert np.array_equal(sweep.tables.peers[:, 1], (np.arange(400) - 1) % 400)
        publication = TManPublication(sweep, 0)
        stats = dissemination_stats(publication.run(engine.divide), profiles, sweep.online)
        assert stats.hit_ratio == 1.0
        unwanted.append(publication.received[0].sum())
    assert unwanted[0] < unwanted[1]


def test_without_introductions_the_ring_takes_longer() -> None:
    missing = []
    for introduces in (True, False):
        found = pattern("random", 1, 400, topics=500, subscriptions=10)
        profiles = Profiles.simulated(1, found.start, found.topics, found.topic_count)
        config = VitisConfig(tman=dataclasses.replace(TManConfig(), introduces=introduces))
        sweep = TManSweep(config, 1, profiles)
        sweep.start(np.arange(400), random_views(1, 400, 20))
        SweepEngine(sweep, config.period_us, "synchronous", 1).run(8)
        missing.append(int((sweep.tables.peers[:, 0] != (np.arange(400) + 1) % 400).sum()))
    assert missing[0] < missing[1] / 2


def test_shared_profiles_begin_with_everybody_proposing_itself() -> None:
    found = pattern("random", 1, 6, topics=TOPICS, subscriptions=2)
    profiles = Profiles.simulated(1, found.start, found.topics, TOPICS)
    shared = VitisProfiles(profiles)
    assert shared.proposals.said.gateway.tolist() == profiles.owners().tolist()
    assert shared.weights.total.tolist() == [2 * UNSEEN] * 6
