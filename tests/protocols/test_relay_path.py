"""Relay paths: what requests leave behind, how it is refreshed, and how it goes."""

from collections import deque
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.events import Count, Effect, Send
from vinecast.core.machine import NOBODY
from vinecast.protocols.relay_path import RelayPaths, RelayRequest

TOPICS = 10


def down(me: int) -> Callable[[int], int]:
    """Node 0 is everybody's rendezvous, and half of one's number is the next hop."""
    return lambda topic: me // 2 if me else NOBODY


def carry(nodes: list[RelayPaths], sender: int, effects: list[Effect]) -> int:
    """Deliver what is sent, and what that sets off; how many messages."""
    queue, carried = deque((sender, effect) for effect in effects), 0
    while queue:
        at, effect = queue.popleft()
        if isinstance(effect, Send):
            assert isinstance(effect.message, RelayRequest)
            carried += 1
            queue.extend((effect.to, more) for more in nodes[effect.to].hear(at, effect.message, TOPICS))
    return carried


def test_two_machines_back_to_back() -> None:
    gateway, rendezvous = RelayPaths(lambda topic: 1), RelayPaths(lambda topic: NOBODY)
    sent = gateway.ask([3, 5])
    assert sent == [Send(1, RelayRequest((3, 5)))]
    assert rendezvous.hear(0, RelayRequest((3, 5)), TOPICS) == []
    assert gateway.links(3) == [1]
    assert rendezvous.links(3) == rendezvous.links(5) == [0]
    assert rendezvous.links(4) == []


@settings(max_examples=100)
@given(st.sets(st.integers(0, 30)))
def test_paths_unite_into_a_tree(askers: set[int]) -> None:
    nodes = [RelayPaths(down(me)) for me in range(31)]
    carried = sum(carry(nodes, me, nodes[me].ask([7])) for me in sorted(askers))
    on_path = {at >> hops for at in askers for hops in range(6)}
    assert carried == len(on_path - {0})  # everybody on the way asks once
    for me in range(31):
        wanted = {peer for peer in on_path if peer and peer // 2 == me}
        if me in on_path and me:
            wanted.add(me // 2)
        assert nodes[me].links(7) == sorted(wanted)


def test_what_is_not_refreshed_is_forgotten_after_two_turns() -> None:
    nodes = [RelayPaths(down(me)) for me in range(8)]
    carry(nodes, 7, nodes[7].ask([1]))
    for links in ([1, 7], [1, 7], []):
        assert nodes[3].links(1) == links
        for node in nodes:
            node.turn()


def test_a_refreshed_path_stays_and_an_abandoned_branch_goes() -> None:
    nodes = [RelayPaths(down(me)) for me in range(8)]
    for turn in range(4):
        for node in nodes:
            node.turn()
        for me in (6, 7) if turn == 0 else (7,):
            carry(nodes, me, nodes[me].ask([1]))
    assert nodes[3].links(1) == [1, 7]


def test_a_path_that_changes_keeps_the_old_one_for_a_turn() -> None:
    hop = {"next": 1}
    node = RelayPaths(lambda topic: hop["next"])
    node.ask([0])
    node.turn()
    hop["next"] = 2
    node.ask([0])
    assert node.links(0) == [1, 2]
    node.turn()
    assert node.links(0) == [2]


def test_requests_within_a_turn_are_passed_on_once() -> None:
    node = RelayPaths(lambda topic: 9)
    assert node.hear(1, RelayRequest((0, 1)), TOPICS) == [Send(9, RelayRequest((0, 1)))]
    assert node.hear(2, RelayRequest((1, 2)), TOPICS) == [Send(9, RelayRequest((2,)))]
    assert node.links(1) == [1, 2, 9]


def test_unknown_topics_are_refused_and_counted() -> None:
    node = RelayPaths(lambda topic: NOBODY)
    assert node.hear(1, RelayRequest((-1, 3, TOPICS)), TOPICS) == [Count("relay_path.refused", 2)]
    assert node.links(3) == [1]
    assert node.links(-1) == []


def test_a_lost_peer_is_on_no_path() -> None:
    node = RelayPaths(lambda topic: 9)
    node.hear(1, RelayRequest((0,)), TOPICS)
    node.turn()
    node.hear(2, RelayRequest((0,)), TOPICS)
    node.forget(1)
    node.forget(9)
    assert node.links(0) == [2]
    node.clear()
    assert node.links(0) == []
