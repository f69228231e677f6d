"""The conformance suite: what any topic system must do, on the event engine and as live nodes."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.systems.conformance import CALM, MEMORY, PERIOD_US, AnyTrial, TopicSystem, Trial, filter_sets
from support.systems.conformance_live import LIVE, LIVE_SYSTEMS, live_config, over_tls
from support.systems.conformance_systems import POLDERCAST, SYSTEMS
from support.systems.conformance_systems import poldercast_config as poldercast
from vinecast.core.machine import SECOND_US
from vinecast.sim.engine.network import Network, NetworkConfig, Partition
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.systems.poldercast.config import SHORTCUTS

every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS.keys())
ANYWHERE = SYSTEMS | LIVE_SYSTEMS
everywhere = pytest.mark.parametrize("system", ANYWHERE.values(), ids=ANYWHERE.keys())
RELAY_FREE = {name: system for name, system in ANYWHERE.items() if system.relay_free}
relay_free = pytest.mark.parametrize("system", RELAY_FREE.values(), ids=RELAY_FREE.keys())
VARIANTS: dict[str, tuple[TopicSystem, Any]] = {
    f"poldercast-{f}-{s}": (POLDERCAST, poldercast(fanout=f, shortcuts=s))
    for f in (1, 2, 3, 4)
    for s in SHORTCUTS
} | {name: (system, system.config) for name, system in SYSTEMS.items() if name != "poldercast"}
VARIANTS |= {f"live-{f}": (LIVE, live_config(fanout=f)) for f in (1, 2, 3, 4)}
VARIANTS |= {"live-2-cyclon": (LIVE, live_config(shortcuts="cyclon"))}
VARIANTS |= {name: (system, system.config) for name, system in LIVE_SYSTEMS.items() if system is not LIVE}
VARIANTS |= {f"{name}-over-TLS": (over_tls(one), one.config) for name, one in LIVE_SYSTEMS.items()}

Begin = Callable[..., AnyTrial]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begins trials, and ends them all."""
    with contextlib.ExitStack() as trials:

        def begin_one(system: TopicSystem, subscriptions: Subscriptions, seed: int, **rest: Any) -> AnyTrial:
            where: Any = system.where or Trial
            trial: AnyTrial = trials.enter_context(where(system, subscriptions, seed, **rest))
            return trial

        yield begin_one


def crowd(seed: int, nodes: int = 30) -> Subscriptions:
    """Everybody wants four of twelve topics."""
    return pattern("random", seed, nodes, topics=12, subscriptions=4)


# A static network.


@pytest.mark.parametrize(("system", "config"), VARIANTS.values(), ids=VARIANTS.keys())
def test_in_a_static_network_every_event_reaches_every_subscriber_once(
    system: TopicSystem, config: Any, begin: Begin
) -> None:
    trial = begin(system, crowd(1, system.nodes), 1, config=config)
    trial.settle()
    events = trial.publish_everything() + trial.publish_everything()
    trial.check(events)
    trial.check_views()
    if system.relay_free:
        trial.check_no_relays(events)


@everywhere
def test_small_and_large_topics_side_by_side(system: TopicSystem, begin: Begin) -> None:
    """Topics of one, two, three and of all the subscribers; and nodes that want nothing."""
    lists = [[0] for _ in range(system.nodes)] + [[]] * 3
    lists[3] = [0, 1]
    lists[5] = [0, 2]
    lists[9] = [0, 2, 3]
    lists[1] = lists[7] = [0, 3]
    trial = begin(system, filter_sets(lists, 5), 2)
    trial.settle()
    events = trial.publish_everything()
    assert len(events) == 4
    trial.check(events)
    assert trial.received(events[1]) == [3]


@everywhere
def test_a_burst_of_events_arrives_whole(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, crowd(3, min(25, system.nodes)), 3)
    trial.settle()
    wanted = [(topic, trial.subscribers(topic)) for topic in trial.topics if trial.subscribers(topic)]
    events = [trial.publish(nodes[i % len(nodes)], topic) for i in range(3) for topic, nodes in wanted]
    trial.run(1)
    trial.check(events)


@every_system
def test_the_same_seed_gives_the_same_run(system: TopicSystem) -> None:
    runs = []
    for _ in range(2):
        trial = Trial(system, crowd(4, 20), 4, network=NetworkConfig(latency_ms=10.0, loss=0.1))
        trial.run(8)
        trial.publish_everything()
        runs.append((trial.engine.handled, trial.delivered, [str(r) for r in trial.carried]))
    assert runs[0] == runs[1]


# Subscriptions that change.


@everywhere
def test_who_unsubscribes_gets_nothing_more(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, crowd(5, system.nodes), 5)
    trial.settle()
    topic = 3
    leavers = trial.subscribers(topic)[::3]
    for node in leavers:
        trial.unsubscribe(node, topic)
    event = trial.publish(trial.subscribers(topic)[0], topic)
    trial.run(1)
    assert not set(trial.received(event)) & set(leavers)  # from that very moment
    trial.recover()
    trial.check(trial.publish_everything())
    trial.check_views()


@relay_free
def test_after_a_while_nothing_is_sent_to_who_unsubscribed(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, crowd(6, system.nodes), 6)
    trial.settle()
    for node in trial.subscribers(3)[::3]:
        trial.unsubscribe(node, 3)
    trial.recover()
    trial.check_no_relays(trial.publish_everything())


@everywhere
def test_a_late_subscriber_gets_what_is_published_from_then_on(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, crowd(7, system.nodes), 7)
    trial.settle()
    topic = 3
    late = [node for node, wants in enumerate(trial.wants) if topic not in wants][:4]
    before = trial.publish_everything()
    for node in late:
        trial.subscribe(node, topic)
    trial.recover()
    trial.check(before)  # and nothing of what was
    events = trial.publish_everything()
    trial.check(events)
    assert set(late) <= set(trial.received(events[topic]))


@everywhere
def test_subscribing_and_unsubscribing_twice_is_the_same_as_once(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, crowd(8, min(20, system.nodes)), 8)
    trial.settle()
    old = trial.subscribers(0)[0]
    new = next(node for node, wants in enumerate(trial.wants) if 0 not in wants)
    for _ in range(2):
        trial.unsubscribe(old, 0)
        trial.subscribe(new, 0)
    trial.unsubscribe(new, 5)
    trial.recover()
    trial.check(trial.publish_everything())


@everywhere
def test_the_first_subscriber_of_a_topic_and_the_last(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, filter_sets([[0] for _ in range(min(20, system.nodes))], 2), 9)
    trial.settle()
    for node in (4, 7, 11):
        trial.subscribe(node, 1)
    trial.recover()
    trial.check(trial.publish_everything())
    for node in (4, 7, 11):
        trial.unsubscribe(node, 1)
    trial.recover()
    event = trial.publish(4, 1)
    trial.run(1)
    assert trial.received(event) == []


# Publishing without subscribing.


@everywhere
def test_a_stranger_publishes_to_everybody(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, crowd(10, system.nodes), 10)
    trial.settle()
    events = []
    for topic in trial.topics:
        stranger = next(node for node, wants in enumerate(trial.wants) if topic not in wants)
        events.append(trial.publish(stranger, topic))
    trial.run(1)
    trial.check(events)
    if system.relay_free:
        trial.check_no_relays(events)


@everywhere
def test_what_reaches_nobody_is_traced_with_a_reason(system: TopicSystem, begin: Begin) -> None:
    trial = begin(system, filter_sets([[0]] * 6, 2), 11)
    trial.settle()
    event = trial.publish(2, 1)  # a topic that nobody wants
    trial.run(1)
    assert trial.received(event) == []
    assert trial.dropped == ([(1, event, system.reason_alone)] if system.reason_alone else [])


# Memory.


@every_system
def test_a_small_memory_stays_small_and_still_suppresses_copies(system: TopicSystem) -> None:
    trial = Trial(system, filter_sets([[0, 1]] * 12, 2), 12, config=system.forgetful)
    trial.settle()
    events = []
    for number in range(5 * MEMORY):
        events.append(trial.publish(number % 12, number % 2))
        trial.engine.run(trial.engine.now_us + PERIOD_US // 2)
        for machine in trial.engine.machines:
            assert system.remembered(machine) <= MEMORY
    trial.check(events)


@every_system
def test_more_events_at_once_than_are_remembered_come_to_rest(system: TopicSystem) -> None:
    """Events may be lost or delivered again, but the network must fall silent, and work again after that."""
    trial = Trial(system, filter_sets([[0]] * 12, 1), 13, config=system.forgetful)
    trial.settle()
    for number in range(MEMORY + 4):
        trial.publish(number, 0)
    trial.engine.run(trial.engine.now_us + 200_000)  # 20 hops
    carried = len(trial.carried)
    trial.engine.run(trial.engine.now_us + 50_000)
    assert len(trial.carried) == carried
    trial.run(2)
    trial.check(trial.publish_everything())


# Faults. Invariants hold all the time; some time after the fault everything arrives again.


@every_system
@pytest.mark.parametrize("seed", [20, 21])
def test_loss_doubling_and_reordering(system: TopicSystem, seed: int) -> None:
    rough = NetworkConfig(
        latency="sampled", latency_ms=1.0, latency_ms_max=60.0, loss=0.3, duplication=0.1, reordering=0.1
    )
    trial = Trial(system, crowd(seed), seed, network=rough)
    events: list[int] = []
    for _ in range(6):
        trial.run(4)
        events += trial.publish_everything()
        trial.check_views()
    assert max(trial.delivered.values()) == 1  # lossy or doubled, never twice, and never to strangers
    for event in events:
        assert set(trial.received(event)) <= set(trial.published[event][1])
    assert sum(trial.engine.counters["dropped.loss"]) > 0
    trial.engine.network = Network(CALM, seed, trial.engine.nodes)
    trial.recover()
    trial.check(trial.publish_everything())


@every_system
@pytest.mark.parametrize("seed", [22, 23])
def test_a_partition_and_its_end(system: TopicSystem, seed: int) -> None:
    begin = (system.settle + 1) * PERIOD_US / SECOND_US
    cut = Partition(from_s=begin, to_s=begin + 6.0)
    trial = Trial(system, crowd(seed), seed, network=NetworkConfig(latency_ms=10.0, partitions=(cut,)))
    trial.settle()
    for _ in range(4):
        trial.run(2)
        trial.publish_everything()
        trial.check_views()
    assert sum(trial.engine.counters["dropped.partition"]) > 0
    assert max(trial.delivered.values()) == 1
    trial.run(system.heal)
    trial.check(trial.publish_everything())


def lose_half(trial: Trial) -> range:
    half = range(0, trial.engine.nodes, 2)
    for node in half:
        trial.engine.crash(node, trial.engine.now_us)
    return half


@every_system
@pytest.mark.parametrize("seed", [24, 25])
def test_the_crash_of_half_is_overcome(system: TopicSystem, seed: int) -> None:
    trial = Trial(system, crowd(seed), seed)
    trial.settle()
    lose_half(trial)
    trial.recover()
    trial.recover()
    trial.check(trial.publish_everything())


@every_system
@pytest.mark.parametrize("seed", [24, 25])
def test_the_crash_of_half_and_their_return_with_state(system: TopicSystem, seed: int) -> None:
    trial = Trial(system, crowd(seed), seed)
    trial.settle()
    half = lose_half(trial)
    meanwhile: list[int] = []
    for _ in range(3):
        trial.run(2)
        meanwhile += trial.publish_everything()
        trial.check_views()
    for node in half:
        trial.engine.start(node, trial.engine.now_us, ((node + 1) % trial.engine.nodes,))
    trial.recover()
    trial.check(trial.publish_everything())
    trial.check_views()
    assert max(trial.delivered.values()) == 1
    for event in meanwhile:  # nobody is handed what was published while it was away
        assert set(trial.received(event)) <= set(trial.published[event][1])


@every_system
def test_a_restart_remembers_what_was_subscribed_and_what_was_seen(system: TopicSystem) -> None:
    trial = Trial(system, crowd(26, 25), 26)
    trial.settle()
    new = next(node for node, wants in enumerate(trial.wants) if 2 not in wants)
    trial.subscribe(new, 2)
    trial.recover()
    events = trial.publish_everything()
    for node in range(0, 25, 3):
        trial.engine.crash(node, trial.engine.now_us)
        trial.engine.start(node, trial.engine.now_us + PERIOD_US // 10, (1 if node != 1 else 2,))
    trial.engine.crash(new, trial.engine.now_us)
    trial.engine.start(new, trial.engine.now_us + PERIOD_US // 10, (1 if new != 1 else 2,))
    trial.recover()
    trial.check(events)
    trial.check(trial.publish_everything())


@every_system
def test_who_leaves_in_good_order_is_not_missed(system: TopicSystem) -> None:
    trial = Trial(system, crowd(27, 25), 27)
    trial.settle()
    for node in range(0, 25, 4):
        trial.engine.leave(node, trial.engine.now_us)
    trial.recover()
    trial.check(trial.publish_everything())
    trial.check_views()
