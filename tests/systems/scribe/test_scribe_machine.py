"""Scribe's machine: how its layers are wired, how it is configured, and whatever peers send it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import as_table, read
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
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
    Unsubscribe,
)
from vinecast.core.events import TimerFired as Fired
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.multicast_tree import TreeEvent, TreeHeartbeat, TreeJoin, TreePublish
from vinecast.protocols.pastry import (
    PastryAnnounce,
    PastryConfig,
    PastryExchange,
    PastryGoodbye,
    PastryWelcome,
)
from vinecast.systems.scribe.machine import Scribe, ScribeConfig

SECOND = 1_000_000
CONFIG = ScribeConfig.of_period(1.0)


def profiles(nodes: int = 10, topics: int = 4, each: NDArray[np.int32] | None = None) -> Profiles:
    wanted = np.zeros(0, dtype=np.int32) if each is None else np.tile(each, nodes)
    start = np.arange(nodes + 1) * (wanted.size // nodes)
    return Profiles.simulated(1, start, wanted, topics)


def alone(me: int = 3) -> Scribe:
    node = Scribe(CONFIG, 1, me, profiles())
    node.handle(Start(), 0)
    return node


def kinds(effects: list[Effect]) -> list[tuple[int, str]]:
    return [(effect.to, effect.message.kind) for effect in effects if isinstance(effect, Send)]


def test_a_node_begins_with_the_topics_of_its_profile_once() -> None:
    node = Scribe(CONFIG, 1, 3, profiles(each=np.array([1, 2], dtype=np.int32)))
    node.handle(Start(), 0)
    assert list(node.tree.branches) == [1, 2]
    node.handle(Unsubscribe(2), 1)
    node.handle(Start(), 5)
    assert list(node.tree.branches) == [1]
    assert list(node.tree.roots) == [1]


def test_trees_begin_to_grow_when_the_node_has_joined_and_settled() -> None:
    node = Scribe(CONFIG, 1, 0, profiles(each=np.array([0, 1, 2, 3], dtype=np.int32)))
    effects = node.handle(Start((5,)), 0)
    assert kinds(effects) == [(5, "pastry.join")]
    assert list(node.tree.stranded) == [0, 1, 2, 3]
    assert node.handle(Publish(0, 9), 1) == [Observe(TraceKind.PUBLISHED, 0, 9)]
    effects = node.handle(Received(5, PastryWelcome(1, np.arange(10, dtype=np.int32))), 2)
    assert SetTimer("scribe.settle", SECOND // 4) in effects
    assert "tree.join" not in {kind for _, kind in kinds(effects)}
    effects = node.handle(Fired("scribe.settle"), SECOND // 4)
    assert not node.tree.stranded
    assert {kind for _, kind in kinds(effects)} <= {"tree.join", "tree.publish"}
    assert sum(kind == "tree.join" for _, kind in kinds(effects)) + len(node.tree.roots) == 4


def test_without_settling_trees_grow_at_once() -> None:
    hasty = ScribeConfig(settle_s=0.0)
    node = Scribe(hasty, 1, 0, profiles(each=np.array([0, 1, 2, 3], dtype=np.int32)))
    node.handle(Start((5,)), 0)
    node.handle(Received(5, PastryWelcome(1, np.arange(10, dtype=np.int32))), 2)
    assert not node.tree.stranded


def test_a_silent_parent_is_routed_around() -> None:
    node = alone(3)
    for peer in range(10):
        if peer != 3:
            node.handle(Received(peer, PastryAnnounce()), 0)
    topic = next(t for t in range(4) if node.next_hop(t) != 3)
    parent = node.next_hop(topic)
    node.handle(Subscribe(topic), 1)
    effects = node.handle(Fired("tree"), SECOND)
    assert parent not in node.pastry.known
    assert parent in node.pastry.gone
    assert node.next_hop(topic) != parent
    assert Count("scribe.silent_parents") in effects
    assert (parent, "tree.join") not in kinds(effects)
    assert "pastry.gone" in {kind for _, kind in kinds(effects)}


def test_any_message_shows_that_its_sender_is_there() -> None:
    node = alone(3)
    node.handle(Received(4, PastryAnnounce()), 0)
    node.handle(Fired("pastry"), SECOND)
    assert 4 in node.pastry.asked
    node.handle(Received(4, TreeHeartbeat(())), SECOND + 1)
    node.handle(Fired("pastry"), 2 * SECOND)
    assert 4 in node.pastry.known


def test_both_layers_hear_of_a_lost_peer_and_of_the_end() -> None:
    node = alone(3)
    node.handle(Received(4, PastryAnnounce()), 0)
    topic = 0
    node.handle(Received(4, TreeJoin(topic)), 0)
    assert {kind for _, kind in kinds(node.handle(Stop(), 1))} >= {"pastry.goodbye", "tree.part"}
    node.handle(PeerLost(4), 2)
    assert not node.pastry.known
    assert not node.tree.branches
    node.handle(Received(4, TreeJoin(topic)), 3)
    node.handle(Received(4, PastryGoodbye()), 4)
    assert not node.tree.branches


@pytest.mark.parametrize("topic", [-1, 4, 10**9])
def test_topics_that_do_not_exist(topic: int) -> None:
    node = alone()
    for command in (Publish(topic, 1), Subscribe(topic), Unsubscribe(topic)):
        assert node.handle(command, 0) == [Count("scribe.unknown_topics")]
    assert kinds(node.handle(Received(4, TreeJoin(topic)), 0)) == [(4, "tree.part")]
    node.handle(Received(4, TreePublish(topic, 1, 1)), 0)
    node.handle(Received(4, TreeEvent(topic, 1, 1)), 0)
    assert not node.tree.branches


def test_its_view_is_a_row_of_fixed_length() -> None:
    node = alone(3)
    assert node.peers.shape == (288,)
    assert (node.peers == NOBODY).all()
    node.handle(Received(4, PastryAnnounce()), 0)
    assert node.peers[node.peers != NOBODY].tolist() == [4]


def test_configuration_is_nested_and_read_from_tables() -> None:
    assert ScribeConfig().period_us == 60 * SECOND
    assert ScribeConfig().pastry == PastryConfig(digit_bits=4, leaf_size=32)
    config = read(ScribeConfig, {"settle_s": 0.5, "pastry": {"leaf_size": 16}, "tree": {"period_s": 2.0}})
    assert (config.pastry.leaf_size, config.period_us) == (16, 2 * SECOND)
    assert read(ScribeConfig, as_table(config)) == config
    assert ScribeConfig.of_period(1.0).period_us == SECOND
    assert ScribeConfig.of_period(60.0) == ScribeConfig()
    with pytest.raises(InputError, match="settle_s must be at most"):
        ScribeConfig(settle_s=90.0)
    with pytest.raises(InputError, match="node 10 has no profile"):
        Scribe(CONFIG, 1, 10, profiles())


hostile = st.one_of(
    st.builds(TreeJoin, st.integers(-1, 5)),
    st.builds(TreePublish, st.integers(-1, 5), st.integers(0, 5), st.integers(-1, 3)),
    st.builds(TreeEvent, st.integers(-1, 5), st.integers(0, 5), st.integers(-1, 3)),
    st.builds(TreeHeartbeat, st.lists(st.integers(-1, 5), max_size=4).map(tuple)),
    st.builds(PastryAnnounce),
    st.builds(PastryGoodbye),
    st.lists(st.integers(-5, 15), max_size=10).map(lambda p: PastryExchange(np.array(p, dtype=np.int32))),
)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 2) | st.integers(4, 9), hostile), max_size=25))
def test_whatever_peers_send_it_lives_on(conversation: list[tuple[int, Any]]) -> None:
    node = alone(3)
    node.handle(Subscribe(1), 0)
    for step, (sender, message) in enumerate(conversation):
        effects = node.handle(Received(sender, message), step * SECOND // 2)
        if step % 3 == 2:
            effects += node.handle(Fired("tree"), step * SECOND // 2)
            effects += node.handle(Fired("pastry"), step * SECOND // 2)
        assert all(to not in (3, NOBODY) for to, _ in kinds(effects))
        assert node.tree.subscribed(1)
        assert len(node.tree.branches) <= 4
