"""Multicast trees over a routing that is a toy: mending, whatever peers send, and a population."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.protocols.toy_tree import (
    AGAIN,
    KEEP_UP,
    SECOND,
    Toy,
    check,
    child_of,
    delivered,
    hear,
    said,
    toy,
    tree,
)
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Event,
    Observe,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    Subscribe,
    Unsubscribe,
)
from vinecast.core.events import TimerFired as Fired
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.protocols.multicast_tree import (
    MESSAGES,
    MulticastTree,
    TreeAccept,
    TreeAlive,
    TreeConfig,
    TreeEvent,
    TreeHeartbeat,
    TreeJoin,
    TreePart,
    TreePublish,
)
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig

# Mending.


def test_one_heartbeat_message_for_all_topics_of_a_child_and_one_count_a_topic() -> None:
    node = tree(dict.fromkeys(range(4), 5))
    for topic in range(4):
        hear(node, 9, TreeJoin(topic))
    hear(node, 8, TreeJoin(2))
    effects = node.handle(KEEP_UP, SECOND)
    assert effects[0] == SetTimer("tree", SECOND)
    assert said(effects) == [(9, TreeHeartbeat((0, 1, 2, 3))), (8, TreeHeartbeat((2,)))]
    assert effects[-1] == Count("tree.heartbeats", 5)


def test_a_heartbeat_is_answered_and_what_is_not_so_refused() -> None:
    node = child_of(3)
    effects = hear(node, 3, TreeHeartbeat((7, 8)), 5)
    assert said(effects) == [(3, TreeAlive((8,)))]
    assert Count("tree.heartbeats_received", 2) in effects
    assert Count("tree.heartbeats_unwanted", 1) in effects
    assert said(hear(node, 4, TreeHeartbeat((7,)), 5)) == [(4, TreeAlive((7,)))]
    assert node.branches[7].parent == 3


def test_a_parent_that_forgot_its_child_is_asked_again() -> None:
    node = child_of(3)
    toy(node).hops[8] = 3
    node.handle(Subscribe(8), 5)
    early = said(hear(node, 3, TreeHeartbeat((7,)), 6))
    assert early == [(3, TreeAlive(()))]  # it may not have heard of 8 yet
    assert said(hear(node, 3, TreeHeartbeat((8,)), 7)) == [(3, TreeAlive(())), (3, TreeJoin(7))]
    assert 8 not in node.asking
    check(node)


def test_a_silent_parent_is_given_up_and_suspected() -> None:
    node = child_of(3)
    assert not said(node.handle(KEEP_UP, SECOND))
    toy(node).hops[7] = 4
    effects = node.handle(KEEP_UP, 2 * SECOND)
    assert toy(node).suspected == [3]
    assert said(effects) == [(4, TreeJoin(7))]
    assert Count("tree.silent_parents") in effects
    check(node)


def test_a_parent_that_never_answered_is_given_up_in_the_next_round() -> None:
    node = tree({7: 3})
    node.handle(Subscribe(7), SECOND - 1)
    assert not toy(node).suspected
    node.handle(KEEP_UP, SECOND)  # asked a moment ago
    assert not toy(node).suspected
    node.handle(KEEP_UP, 2 * SECOND)
    assert toy(node).suspected == [3]


def test_a_parent_that_speaks_but_missed_the_question_is_only_asked_again() -> None:
    node = child_of(3)
    toy(node).hops[8] = 3
    node.handle(Subscribe(8), 5)
    hear(node, 3, TreeHeartbeat((7,)), SECOND // 2)
    assert said(node.handle(KEEP_UP, SECOND)) == [(3, TreeJoin(8))]
    assert not toy(node).suspected


def test_a_silent_child_is_dropped_and_a_speaking_one_stays() -> None:
    node = tree({7: 3})
    for child in (8, 9):
        hear(node, child, TreeJoin(7))
    hear(node, 3, TreeAccept(7))
    for second in (1, 2, 3):
        node.handle(KEEP_UP, second * SECOND)
        hear(node, 3, TreeHeartbeat((7,)), second * SECOND)
        hear(node, 8, TreeAlive(()), second * SECOND + 1)
    assert list(node.branches[7].children) == [8]
    assert hear(node, 8, TreeAlive((7, 99)), 4 * SECOND) == [Send(3, TreePart(7))]
    assert not node.branches
    check(node)


def test_a_lost_peer_is_neither_parent_nor_child_any_more() -> None:
    node = child_of(3)
    toy(node).hops[8] = 5
    hear(node, 3, TreeJoin(8))
    toy(node).hops[7] = 4
    assert node.handle(PeerLost(3), 9) == [Send(4, TreeJoin(7))]
    assert list(node.branches) == [7]
    check(node)


def test_a_root_that_learns_of_a_nearer_node_becomes_its_child() -> None:
    node = tree({7: 5})
    hear(node, 9, TreeJoin(7))
    assert node.reroute(1) == []
    toy(node).hops[7] = 3
    assert node.reroute(2) == [Send(3, TreeJoin(7))]
    assert not node.roots
    assert said(hear(node, 3, TreeEvent(7, 42, 2), 3)) == [(9, TreeEvent(7, 42, 3))]
    check(node)


def test_an_answer_that_comes_too_late_is_parted_with() -> None:
    node = child_of(3)
    assert hear(node, 4, TreeAccept(7)) == [Send(4, TreePart(7))]
    assert hear(node, 4, TreeAccept(8)) == [Send(4, TreePart(8))]


def test_a_leaver_parts_with_parents_and_children() -> None:
    node = child_of(3)
    hear(node, 9, TreeJoin(7))
    assert said(node.handle(Stop(), 1)) == [(3, TreePart(7)), (9, TreePart(7))]


def test_a_restart_keeps_subscriptions_and_nothing_else() -> None:
    node = child_of(3)
    toy(node).hops[8] = 3
    hear(node, 9, TreeJoin(7))
    hear(node, 9, TreeJoin(8))
    hear(node, 3, TreeEvent(7, 42, 2))
    assert node.handle(Start(), 50) == [SetTimer("tree", SECOND), Send(3, TreeJoin(7))]
    assert list(node.branches) == [7]
    assert not node.children
    assert node.links == 0
    assert hear(node, 3, TreeEvent(7, 42, 2)) == [Observe(AGAIN, 7, 42, 3, 2)]
    check(node)


def test_two_machines_back_to_back() -> None:
    a = MulticastTree(TreeConfig(), 0, Toy({7: 0}), name="scribe")
    b = MulticastTree(TreeConfig(), 1, Toy({7: 0}), name="scribe")
    nodes = {0: a, 1: b}

    def settle(me: int, effects: list[Effect]) -> list[Deliver]:
        delivered = [effect for effect in effects if isinstance(effect, Deliver)]
        for to, message in said(effects):
            delivered += settle(to, nodes[to].handle(Received(me, message), 0))
        return delivered

    for me, node in nodes.items():
        settle(me, node.handle(Start(), 0))
        settle(me, node.handle(Subscribe(7), 0))
    assert settle(1, b.handle(Publish(7, 42), 0)) == [Deliver(7, 42, 1), Deliver(7, 42, 2)]
    assert settle(0, a.handle(KEEP_UP, 5)) == []
    assert a.children[1].heard_us == 0
    assert Count("scribe.heartbeats", 1) in a.handle(KEEP_UP, 6)


@pytest.mark.parametrize("event", [Fired("somebody else's"), Received(3, SetTimer("no message", 1))])  # type: ignore[arg-type]
def test_what_does_not_concern_it_is_ignored(event: Event) -> None:
    assert child_of(3).handle(event, 0) == []


def test_a_wrong_configuration_is_refused() -> None:
    with pytest.raises(InputError, match="period_s must be at least"):
        TreeConfig(period_s=0.0)


# Whatever peers send.

topics = st.integers(0, 3) | st.integers(-1, 5) | st.integers(-(2**63), 2**63 - 1)
many = st.lists(topics, max_size=8).map(tuple)
peers = st.integers(0, 4) | st.integers(6, 8)
hostile = st.one_of(
    st.builds(TreeJoin, topics),
    st.builds(TreeAccept, topics),
    st.builds(TreePart, topics),
    st.builds(TreeHeartbeat, many),
    st.builds(TreeAlive, many),
    st.builds(TreePublish, topics, st.integers(0, 9), st.integers(-2, 1002)),
    st.builds(TreeEvent, topics, st.integers(0, 9), st.integers(-2, 1002)),
)
commands = st.one_of(
    st.builds(Subscribe, st.integers(0, 5)),
    st.builds(Unsubscribe, st.integers(0, 5)),
    st.builds(Publish, st.integers(0, 5), st.integers(0, 9)),
    st.builds(PeerLost, peers),
    st.just(KEEP_UP),
    st.just(Start()),
    st.just(Stop()),
)
changes = st.tuples(st.integers(0, 3), st.sampled_from([NOBODY, 3, 4, 5, 6]))


@settings(max_examples=400)
@given(st.lists(st.one_of(st.builds(Received, peers, hostile), commands, changes), max_size=40))
def test_whatever_happens_the_books_agree(story: list[Any]) -> None:
    node = tree({0: 3, 1: 4, 2: 5, 3: 6}, memory_size=6, topics_max=4, children_max=6)
    for step, event in enumerate(story):
        now_us = step * SECOND // 3
        if isinstance(event, tuple):
            toy(node).hops[event[0]] = event[1]
            effects = node.reroute(now_us)
        else:
            effects = node.handle(event, now_us)
            if isinstance(event, Received):
                assert isinstance(event.message, MESSAGES)
        for effect in effects:
            if isinstance(effect, Send):
                assert effect.to not in (5, NOBODY)
            if isinstance(effect, Deliver):
                assert node.subscribed(effect.topic)
        check(node)


# A population whose routing is a binary heap: the parent of n on the way to any key is n // 2, the root is 1.


class Heap:
    def __init__(self, me: int, dead: set[int]) -> None:
        self.me, self.dead = me, dead

    def next_hop(self, topic: int) -> int:
        hop = self.me // 2
        while hop in self.dead:
            hop //= 2
        return hop or self.me

    def suspect(self, peer: int) -> None:
        self.dead.add(peer)


def heap_of(nodes: int, trace: list[TraceRecord], network: NetworkConfig | None = None) -> EventEngine:
    config = TreeConfig(period_s=1.0, timeout_s=0.5)
    engine = EventEngine(
        lambda me: MulticastTree(config, me, Heap(me, set())),
        nodes,
        1,
        Network(network or NetworkConfig(latency_ms=10.0), 1, nodes),
        trace=trace.append,
    )
    for me in range(1, nodes):
        engine.start(me, me * SECOND // nodes)
        if me % 3 == 0:
            engine.command(me, SECOND, Subscribe(7))
    return engine


def test_every_subscriber_gets_every_event_once_and_nobody_else_any() -> None:
    trace: list[TraceRecord] = []
    engine = heap_of(100, trace)
    for event in range(20):
        engine.command(1 + event * 5, 2 * SECOND + event * 1000, Publish(7, event))
    engine.run(5 * SECOND)
    for event in range(20):
        assert delivered(trace, event) == [*range(3, 100, 3)]
    hops = {r.node: r.hops for r in trace if r.kind == TraceKind.DELIVERED and r.event == 1}
    assert hops == {me: 2 + me.bit_length() - 1 for me in range(3, 100, 3)}  # from 6: two up, and down again
    again = [r for r in trace if r.kind == AGAIN and r.event == 1]
    assert [(r.node, r.hops) for r in again] == [(3, 3)]  # it was on the way up


def test_the_fall_of_a_forwarder_is_mended() -> None:
    trace: list[TraceRecord] = []
    engine = heap_of(100, trace)
    engine.run(3 * SECOND)
    engine.crash(2, 3 * SECOND + 1)
    engine.command(9, 3 * SECOND + 5, Publish(7, 1))
    engine.command(9, 8 * SECOND, Publish(7, 2))
    engine.run(10 * SECOND)
    assert delivered(trace, 1) == []  # 9 sends through 4, and 4 through 2
    assert delivered(trace, 2) == [*range(3, 100, 3)]


def test_a_returning_forwarder_is_used_again_only_when_asked() -> None:
    trace: list[TraceRecord] = []
    engine = heap_of(64, trace)
    engine.crash(2, 3 * SECOND)
    engine.start(2, 9 * SECOND)
    engine.command(33, 12 * SECOND, Publish(7, 1))
    engine.run(15 * SECOND)
    assert delivered(trace, 1) == [*range(3, 64, 3)]
    node = engine.machines[2]
    assert isinstance(node, MulticastTree)
    assert not node.branches
