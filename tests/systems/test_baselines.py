"""The baselines: what they send, to whom, and what they cannot promise. Conformance is elsewhere."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.paths import SCENARIOS
from support.systems.conformance import Trial, filter_sets
from support.systems.conformance_systems import SYSTEMS
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Deliver,
    Observe,
    Publish,
    Received,
    Send,
    Start,
    Subscribe,
    TimerFired,
)
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import read_scenario, resolve
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.systems.common.recent import RecentEvents
from vinecast.systems.direct.machine import Direct, DirectConfig, DirectEvent
from vinecast.systems.flooding.machine import Flooding, FloodingConfig, FloodingEvent


def profiles_of(subscriptions: Subscriptions) -> Profiles:
    return Profiles.simulated(1, subscriptions.start, subscriptions.topics, subscriptions.topic_count)


def sends(effects: list[Any]) -> list[tuple[int, Any]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


# Flooding.


def flooder(relays: bool = False) -> Flooding:
    """Node 0 reads topic 0, as do 1, 2 and 3; its links are 1 to 4, and 4 does not."""
    table = profiles_of(filter_sets([[0], [0], [0], [0], [1], [0]], 2))
    machine = Flooding(FloodingConfig(relays=relays), 1, 0, table)
    machine.handle(Start((1, 2, 3, 4)), 0)
    return machine


def test_an_event_goes_to_every_link_that_subscribes_but_its_sender_and_its_publisher() -> None:
    machine = flooder()
    effects = machine.handle(Received(1, FloodingEvent(0, 7, 2, 3)), 0)
    assert sends(effects) == [(2, FloodingEvent(0, 7, 3, 3))]
    assert Deliver(0, 7, 2) in effects
    again = machine.handle(Received(2, FloodingEvent(0, 7, 4, 3)), 0)
    assert [type(effect) for effect in again] == [Observe]


def test_the_publisher_sends_to_every_link_that_subscribes() -> None:
    effects = flooder().handle(Publish(0, 7), 0)
    assert sorted(sends(effects), key=str) == [(peer, FloodingEvent(0, 7, 1, 0)) for peer in (1, 2, 3)]
    assert Deliver(0, 7, 0) in effects


def test_relays_pass_on_what_they_do_not_want() -> None:
    event = Received(4, FloodingEvent(1, 7, 1, 4))
    kept = flooder().handle(event, 0)
    assert sends(kept) == []
    assert Count("flooding.not subscribed") in kept
    passed = flooder(relays=True).handle(event, 0)
    assert sorted(to for to, _ in sends(passed)) == [1, 2, 3]
    assert not any(isinstance(effect, Deliver) for effect in passed)


def test_links_that_change_their_minds_are_noticed() -> None:
    machine = flooder()
    assert len(sends(machine.handle(Publish(0, 7), 0))) == 3
    Flooding(FloodingConfig(), 1, 4, machine.profiles).handle(Subscribe(0), 0)
    assert len(sends(machine.handle(Publish(0, 8), 0))) == 4
    machine.handle(TimerFired("cyclon"), 0)  # the partner leaves the view
    assert len(sends(machine.handle(Publish(0, 9), 0))) == 3


def hit(system: str, links: int, seed: int) -> float:
    """The share of a rare topic's subscribers that its events reach, in 120 nodes."""
    lists = [[0, 1] if node % 30 == 0 else [0] for node in range(120)]
    view = CyclonConfig(period_s=1.0, view_size=links, gossip_size=links // 2)
    config = FloodingConfig(relays=system == "flooding-relays", cyclon=view)
    trial = Trial(SYSTEMS[system], filter_sets(lists, 2), seed, config=config, contacts=links)
    trial.settle()
    events = [trial.publish(node, 1) for node in (0, 30, 60, 90)]
    trial.run(1)
    return sum(len(trial.received(event)) for event in events) / 16


def test_flooding_among_subscribers_misses_rare_topics_and_relays_do_not() -> None:
    """The guarantee that floodsub lacks: four subscribers with ten random links each hardly ever meet."""
    assert hit("flooding", 10, 1) < 0.6
    assert hit("flooding-relays", 10, 1) == 1.0


# Direct sending.


def test_one_message_a_subscriber_all_from_the_publisher() -> None:
    trial = Trial(SYSTEMS["direct"], pattern("random", 1, 30, topics=12, subscriptions=4), 1)
    trial.settle()
    events = trial.publish_everything()
    trial.check(events)
    for event in events:
        carried = [record for record in trial.carried if record.event == event]
        assert len(carried) == len(trial.published[event][1]) - 1
        assert len({record.node for record in carried}) == 1
    assert not any(name.startswith("sent.") for name in trial.engine.counters if name != "sent.direct.event")


def test_who_is_away_does_without() -> None:
    trial = Trial(SYSTEMS["direct"], filter_sets([[0]] * 6, 1), 1)
    trial.settle()
    trial.engine.crash(3, trial.engine.now_us)
    event = trial.publish(0, 0)
    trial.run(1)
    trial.engine.start(3, trial.engine.now_us)
    trial.run(5)
    assert trial.received(event) == [0, 1, 2, 4, 5]


def test_topics_that_do_not_exist() -> None:
    table = profiles_of(filter_sets([[0], [0]], 1))
    for machine in (Direct(DirectConfig(), 0, table), Flooding(FloodingConfig(), 1, 0, table)):
        for topic in (-1, 1, 2**40):
            assert [type(effect) for effect in machine.handle(Publish(topic, 5 + topic), 0)][-1] is Observe
            counted = machine.handle(Subscribe(topic), 0)
            assert [effect.name.partition(".")[2] for effect in counted if isinstance(effect, Count)] == [
                "refused subscription"
            ]
        stray = Received(
            1, DirectEvent(2**40, 9) if isinstance(machine, Direct) else FloodingEvent(-5, 9, 1, 1)
        )
        assert sends(machine.handle(stray, 0)) == []


# Both.


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60), st.integers(1, 5))
def test_what_is_recent_is_what_was_taken_lately(steps: list[tuple[int, int]], size: int) -> None:
    """Against a list: never more than there is room for, and nothing recent is ever forgotten."""
    recent, now, taken = RecentEvents(size, 3, "x"), 0, Counter[int]()
    for event, wait in steps:
        now += wait
        young = [e for e, at in taken.items() if now - at < 3]
        assert all(e in recent for e in young)
        before = event in recent
        if recent.take(event, now):
            taken[event] = now
        else:
            assert not before
            assert len(young) == size
        assert len(recent) <= size


@pytest.mark.parametrize("system", ["flooding", "direct"])
def test_a_scenario_runs_and_is_measured(system: str) -> None:
    path = SCENARIOS / "flooding-start.toml"
    outcome = simulate(read_scenario(path, {"system": system, "nodes": 40, "cycles": 4}))
    final = outcome.rows[-1]
    assert final["traffic_overhead"] == 0
    if system == "direct":
        assert final["hit_ratio"] == 1.0
        assert final["hops_max"] == 1
        assert final["control_messages"] == 0
        assert final["duplication"] < 1
    else:
        assert 0.5 < final["hit_ratio"] <= 1.0
        assert final["control_messages"] > 1
        assert final["duplication"] > 1
    assert outcome.summary["counters"][f"sent.{system}.event"] > 0


def test_a_sweep_is_not_offered() -> None:
    with pytest.raises(InputError, match="not offered by flooding"):
        resolve({"name": "x", "seed": 1, "nodes": 5, "cycles": 1, "system": "flooding"}, Path())


def test_the_reddit_scenario(data_folder: Path) -> None:
    resolved = read_scenario(SCENARIOS / "flooding-reddit.toml", {"cycles": 4})
    outcome = simulate(resolved, data=data_folder)
    assert outcome.summary["topics"] == 23
    assert outcome.rows[-1]["hit_ratio"] > 0.9
    assert np.isclose(outcome.summary["subscriptions_mean"], 7.0, atol=0.2)
