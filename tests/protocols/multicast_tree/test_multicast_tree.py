"""Multicast trees over a routing that is a toy: growing and publishing."""

import pytest

from support.protocols.toy_tree import AGAIN, FIRST, KEEP_UP, SECOND, check, child_of, hear, said, toy, tree
from vinecast.core.events import Count, Deliver, Observe, Publish, Send, Subscribe, Unsubscribe
from vinecast.core.trace import TraceKind
from vinecast.protocols.multicast_tree import TreeAccept, TreeEvent, TreeJoin, TreePart, TreePublish

# Growing.


def test_a_subscriber_asks_the_next_hop_to_be_its_parent() -> None:
    node = tree({7: 3})
    assert node.handle(Subscribe(7), 0) == [Send(3, TreeJoin(7))]
    assert 7 in node.asking
    assert hear(node, 3, TreeAccept(7)) == []
    assert 7 not in node.asking
    assert node.subscribed(7)
    assert node.handle(Subscribe(7), 0) == []
    check(node)


def test_who_is_asked_and_not_in_the_tree_forwards_and_goes_on_asking() -> None:
    node = tree({7: 3})
    assert said(hear(node, 9, TreeJoin(7))) == [(9, TreeAccept(7)), (3, TreeJoin(7))]
    assert said(hear(node, 8, TreeJoin(7))) == [(8, TreeAccept(7))]
    assert said(hear(node, 8, TreeJoin(7))) == [(8, TreeAccept(7))]
    assert list(node.branches[7].children) == [9, 8]
    assert node.links == 2
    assert not node.subscribed(7)
    check(node)


def test_where_the_route_ends_is_the_root() -> None:
    node = tree({7: 5})
    assert said(hear(node, 9, TreeJoin(7))) == [(9, TreeAccept(7))]
    assert list(node.roots) == [7]


def test_a_forwarder_without_children_parts_and_a_subscriber_does_not() -> None:
    node = tree({7: 3, 8: 3})
    for topic in (7, 8):
        hear(node, 9, TreeJoin(topic))
    node.handle(Subscribe(8), 0)
    assert hear(node, 9, TreePart(7)) == [Send(3, TreePart(7))]
    assert hear(node, 9, TreePart(8)) == []
    assert list(node.branches) == [8]
    assert node.handle(Unsubscribe(8), 0) == [Send(3, TreePart(8))]
    assert node.handle(Unsubscribe(8), 0) == []
    assert not node.branches
    assert not node.parents
    assert not node.children
    check(node)


def test_unsubscribing_with_children_below_leaves_a_forwarder() -> None:
    node = child_of(3)
    hear(node, 9, TreeJoin(7))
    assert node.handle(Unsubscribe(7), 0) == []
    assert said(hear(node, 3, TreeEvent(7, 1, 4))) == [(9, TreeEvent(7, 1, 5))]


def test_without_a_route_subscriptions_wait_and_others_are_refused() -> None:
    node = tree({})
    assert node.handle(Subscribe(7), 0) == []
    assert list(node.stranded) == [7]
    assert hear(node, 9, TreeJoin(8)) == [Count("tree.refused"), Send(9, TreePart(8))]
    assert 8 not in node.branches
    toy(node).hops[7] = 3
    assert node.reroute(1) == [Send(3, TreeJoin(7))]
    check(node)


def test_who_is_refused_asks_again_in_the_next_round_or_where_the_route_goes_now() -> None:
    node = tree({7: 3})
    node.handle(Subscribe(7), 0)
    assert hear(node, 3, TreePart(7)) == []
    assert list(node.stranded) == [7]
    assert (3, TreeJoin(7)) in said(node.handle(KEEP_UP, SECOND))
    toy(node).hops[7] = 4
    assert hear(node, 3, TreePart(7), SECOND) == [Send(4, TreeJoin(7))]
    check(node)


def test_there_is_a_limit_to_what_it_forwards() -> None:
    node = tree(dict.fromkeys(range(10), 3), topics_max=3, children_max=4)
    for topic in range(5):
        hear(node, 9, TreeJoin(topic))
    assert list(node.branches) == [0, 1, 2]
    for child in range(10, 15):
        hear(node, child, TreeJoin(0))
    assert node.links == 4
    node.handle(Subscribe(6), 0)
    assert node.subscribed(6)  # its own wishes come first
    check(node)


def test_a_parent_cannot_become_a_child() -> None:
    node = child_of(3)
    assert said(hear(node, 3, TreeJoin(7))) == [(3, TreePart(7))]
    assert node.branches[7].parent == 3
    check(node)


def test_a_routing_that_leads_to_a_child_confuses_nobody() -> None:
    node = tree({7: 5})
    node.handle(Subscribe(7), 0)
    hear(node, 3, TreeJoin(7))
    toy(node).hops[7] = 3
    assert node.reroute(1) == [Send(3, TreeJoin(7))]
    assert not node.branches[7].children
    check(node)


# Publishing.


def test_a_publisher_need_not_subscribe() -> None:
    node = tree({7: 3})
    effects = node.handle(Publish(7, 42), 0)
    assert effects == [Observe(TraceKind.PUBLISHED, 7, 42), Send(3, TreePublish(7, 42, 1))]


def test_a_relay_passes_an_event_up_once() -> None:
    node = tree({7: 3})
    assert hear(node, 9, TreePublish(7, 42, 2)) == [
        Observe(FIRST, 7, 42, 9, 2),
        Send(3, TreePublish(7, 42, 3)),
    ]
    assert hear(node, 8, TreePublish(7, 42, 5)) == [Observe(AGAIN, 7, 42, 8, 5)]


def test_the_root_sends_it_down_and_takes_it_itself_if_it_wants_it() -> None:
    node = tree({7: 5})
    hear(node, 9, TreeJoin(7))
    hear(node, 8, TreeJoin(7))
    down = [Send(9, TreeEvent(7, 42, 4)), Send(8, TreeEvent(7, 42, 4))]
    assert hear(node, 2, TreePublish(7, 42, 3)) == [Observe(FIRST, 7, 42, 2, 3), *down]
    assert hear(node, 2, TreePublish(7, 42, 3)) == [Observe(AGAIN, 7, 42, 2, 3)]
    node.handle(Subscribe(7), 0)
    assert node.handle(Publish(7, 43), 0)[1:] == [
        Deliver(7, 43, 0),
        Send(9, TreeEvent(7, 43, 1)),
        Send(8, TreeEvent(7, 43, 1)),
    ]


def test_a_root_without_a_tree_drops_the_event_and_says_why() -> None:
    node = tree({7: 5})
    dropped = Observe(TraceKind.DROPPED, 7, 42, hops=3, reason="no subscribers")
    assert hear(node, 2, TreePublish(7, 42, 3)) == [Observe(FIRST, 7, 42, 2, 3), dropped]


def test_a_subscriber_delivers_once_on_the_way_down() -> None:
    node = child_of(3)
    hear(node, 9, TreeJoin(7))
    assert hear(node, 9, TreePublish(7, 42, 1)) == [
        Observe(FIRST, 7, 42, 9, 1),
        Send(3, TreePublish(7, 42, 2)),
    ]
    assert hear(node, 3, TreeEvent(7, 42, 6)) == [
        Observe(AGAIN, 7, 42, 3, 6),
        Deliver(7, 42, 6),
        Send(9, TreeEvent(7, 42, 7)),
    ]
    assert hear(node, 3, TreeEvent(7, 42, 6)) == [Observe(AGAIN, 7, 42, 3, 6)]


def test_who_has_a_parent_is_not_the_root_even_if_the_routing_says_so() -> None:
    node = child_of(3)
    toy(node).hops[7] = 5
    assert said(hear(node, 9, TreePublish(7, 42, 1))) == [(3, TreePublish(7, 42, 2))]


def test_events_of_somebody_who_is_not_the_parent_are_taken_but_parted_with() -> None:
    node = child_of(3)
    effects = hear(node, 4, TreeEvent(7, 42, 6))
    assert effects == [Observe(FIRST, 7, 42, 4, 6), Send(4, TreePart(7)), Deliver(7, 42, 6)]
    stranger = hear(node, 4, TreeEvent(8, 43, 6))
    assert stranger == [Observe(FIRST, 8, 43, 4, 6), Send(4, TreePart(8))]


def test_own_events_wait_for_a_route_but_not_too_many() -> None:
    node = tree({}, pending_max=2)
    for event in (1, 2):
        assert node.handle(Publish(7, event), 0) == [Observe(TraceKind.PUBLISHED, 7, event)]
    assert node.handle(Publish(7, 3), 0)[1] == Observe(TraceKind.DROPPED, 7, 3, reason="no route")
    toy(node).hops[7] = 3
    assert said(node.reroute(1)) == [(3, TreePublish(7, 1, 1)), (3, TreePublish(7, 2, 1))]
    assert node.reroute(2) == []


def test_the_memory_for_duplicates_is_bounded() -> None:
    node = child_of(3, memory_size=10)
    for event in range(100):
        hear(node, 3, TreeEvent(7, event, 1))
        assert len(node.seen) <= 10
    assert hear(node, 3, TreeEvent(7, 95, 1)) == [Observe(AGAIN, 7, 95, 3, 1)]


@pytest.mark.parametrize("hops", [-1, 0, 1001, 2**62])
def test_impossible_hops_are_dropped(hops: int) -> None:
    node = child_of(3)
    dropped = [Observe(TraceKind.DROPPED, 7, 42, 3, reason="hops")]
    assert hear(node, 3, TreeEvent(7, 42, hops)) == dropped
    assert hear(node, 3, TreePublish(7, 42, hops)) == dropped
