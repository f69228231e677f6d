"""Trees the PulsarCast way, over a routing that is a toy: searching, links both ways, and ancestors."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.core.events import (
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
from vinecast.protocols.multicast_tree import (
    RecruitingConfig,
    RecruitingTree,
    TreeAbove,
    TreeAccept,
    TreeAlive,
    TreeEvent,
    TreeHeartbeat,
    TreeJoin,
    TreeMember,
    TreePart,
    TreePublish,
    TreeSearch,
)

SECOND = 1_000_000
TIMEOUT = 200_000
ME = 5
KEEP_UP, END_SEARCH = Fired("tree"), Fired("tree.search")


class Toy:
    """Peers with lower numbers are nearer to every key; those in ``known`` are known."""

    def __init__(self, *known: int) -> None:
        self.known = sorted(known)
        self.suspected: list[int] = []

    def next_hop(self, topic: int) -> int:
        return next(iter(self.ways(topic, 1)), ME) if topic >= 0 else NOBODY

    def suspect(self, peer: int) -> None:
        self.suspected.append(peer)
        if peer in self.known:
            self.known.remove(peer)

    def ways(self, topic: int, count: int) -> list[int]:
        return [peer for peer in self.known if peer < ME][:count] if topic >= 0 else []

    def is_nearer(self, topic: int, peer: int) -> bool:
        return 0 <= peer < ME

    def heirs(self, topic: int, count: int) -> list[int]:
        return self.known[:count]


def tree(*known: int, **config: Any) -> RecruitingTree:
    made = RecruitingTree(
        RecruitingConfig(**{"period_s": 1.0, "timeout_s": 0.2, "searched": 3, **config}), ME, Toy(*known)
    )
    made.handle(Start(), 0)
    return made


def said(effects: list[Effect]) -> list[tuple[int, Any]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def hear(node: RecruitingTree, sender: int, message: Any, now_us: int = 0) -> list[Effect]:
    return node.handle(Received(sender, message), now_us)


def child_of(parent: int, *known: int, **config: Any) -> RecruitingTree:
    """A subscriber that its parent has accepted."""
    node = tree(parent, **config)
    node.handle(Subscribe(7), 0)
    hear(node, parent, TreeAccept(7))
    assert isinstance(node.routing, Toy)
    node.routing.known = sorted({parent, *known})
    check(node)
    return node


# Growing.


def test_several_on_the_way_are_asked_and_the_first_member_is_the_parent() -> None:
    node = tree(1, 2, 3, 4, 8)
    effects = node.handle(Subscribe(7), 0)
    assert said(effects) == [(peer, TreeSearch(7)) for peer in (1, 2, 3)]
    assert SetTimer("tree.search", TIMEOUT) in effects
    assert hear(node, 1, TreeMember(7, False)) == []
    assert hear(node, 9, TreeMember(7, True)) == []  # nobody asked it
    assert hear(node, 3, TreeMember(7, True)) == [Send(3, TreeJoin(7))]
    assert hear(node, 2, TreeMember(7, True)) == []  # too late
    hear(node, 3, TreeAccept(7))
    assert node.branches[7].parent == 3
    check(node)


def test_a_search_ends_in_time_though_others_begin() -> None:
    """Where a timer that is set again runs out once, as on a live node: a search must not put it off."""
    node = tree(1, 2, 3)
    half = TIMEOUT // 2
    assert SetTimer("tree.search", TIMEOUT) in node.handle(Subscribe(7), 0)
    assert not [effect for effect in node.handle(Subscribe(8), half) if isinstance(effect, SetTimer)]
    assert node.handle(END_SEARCH, TIMEOUT) == [Send(1, TreeJoin(7)), SetTimer("tree.search", half)]
    assert node.handle(END_SEARCH, TIMEOUT + half) == [Send(1, TreeJoin(8))]
    assert SetTimer("tree.search", TIMEOUT) in node.handle(Subscribe(9), 2 * TIMEOUT)
    check(node)


def test_when_nobody_is_in_the_tree_the_nearest_that_answered_is_recruited() -> None:
    node = tree(1, 2, 3)
    node.handle(Subscribe(7), 0)
    hear(node, 3, TreeMember(7, False))
    hear(node, 2, TreeMember(7, False))
    assert node.handle(END_SEARCH, TIMEOUT // 2) == [SetTimer("tree.search", TIMEOUT - TIMEOUT // 2)]
    check(node)
    assert node.handle(END_SEARCH, TIMEOUT) == [Send(2, TreeJoin(7))]  # 1 has not answered
    check(node)
    silent = tree(1, 2, 3)
    silent.handle(Subscribe(7), 0)
    assert silent.handle(END_SEARCH, TIMEOUT) == [Send(1, TreeJoin(7))]
    all_of_them = tree(1, 2)
    all_of_them.handle(Subscribe(7), 0)
    hear(all_of_them, 2, TreeMember(7, False))
    assert hear(all_of_them, 1, TreeMember(7, False)) == [Send(1, TreeJoin(7))]


def test_who_is_recruited_goes_on_in_the_same_way() -> None:
    node = tree(1, 2, 3)
    assert said(hear(node, 9, TreeSearch(7))) == [(9, TreeMember(7, False))]
    effects = said(hear(node, 9, TreeJoin(7)))
    assert effects == [(9, TreeAccept(7)), *((peer, TreeSearch(7)) for peer in (1, 2, 3))]
    assert said(hear(node, 8, TreeSearch(7))) == [(8, TreeMember(7, True))]
    check(node)


def test_with_one_way_there_is_nothing_to_search_and_with_none_it_is_the_root() -> None:
    assert said(tree(3, 8).handle(Subscribe(7), 0)) == [(3, TreeJoin(7))]
    root = tree(8)
    assert root.handle(Subscribe(7), 0) == []
    assert list(root.roots) == [7]
    stranded = tree(3)
    stranded.handle(Subscribe(-1), 0)
    assert list(stranded.stranded) == [-1]


def test_who_leaves_while_searching_searches_no_longer() -> None:
    node = tree(1, 2, 3)
    node.handle(Subscribe(7), 0)
    node.handle(Unsubscribe(7), 0)
    assert not node.searches
    assert hear(node, 1, TreeMember(7, True)) == []
    assert node.handle(END_SEARCH, TIMEOUT) == []
    node.handle(Subscribe(7), 0)
    node.handle(Start(), 0)
    check(node)


# Mending.


def test_children_are_told_who_stands_above_and_turn_there_when_their_parent_is_silent() -> None:
    node = child_of(4, 1, 2, 3)
    hear(node, 4, TreeAbove(7, (3, 2, 1)))
    assert node.above[7] == (3, 2)  # two levels
    hear(node, 9, TreeAbove(7, (8,)))
    assert node.above[7] == (3, 2)  # a stranger's word
    effects = said(node.handle(KEEP_UP, 3 * SECOND))
    assert (3, TreeJoin(7)) in effects
    assert isinstance(node.routing, Toy)
    assert node.routing.suspected == [4]
    assert not node.searches
    check(node)
    effects = said(node.handle(KEEP_UP, 4 * SECOND))  # who stood above is silent too: it searches
    assert [to for to, message in effects if message == TreeSearch(7)] == [1, 2]
    check(node)


def test_a_goodbye_of_the_parent_leads_above_too() -> None:
    node = child_of(4, 1, 2)
    hear(node, 4, TreeAbove(7, (3, 2)))
    assert hear(node, 4, TreePart(7)) == [Send(3, TreeJoin(7))]
    lost = child_of(4, 1, 2)
    hear(lost, 4, TreeAbove(7, (9, -3, 2)))  # who is not nearer than the node is no parent for it
    assert lost.handle(PeerLost(4), 0)[0] == Send(1, TreeSearch(7))


def test_ancestors_are_handed_down_and_above_a_root_stand_its_heirs() -> None:
    node = child_of(4, 1)
    assert (9, TreeAbove(7, (4,))) in said(hear(node, 9, TreeJoin(7)))
    hear(node, 4, TreeAbove(7, (3, 2)))
    assert (9, TreeAbove(7, (4, 3))) in said(node.handle(KEEP_UP, SECOND))
    assert not [
        message for _, message in said(node.handle(KEEP_UP, SECOND)) if isinstance(message, TreeAbove)
    ]
    root = tree(6, 8, 9)
    assert said(hear(root, 9, TreeJoin(7))) == [(9, TreeAccept(7)), (9, TreeAbove(7, (6, 8)))]


# Publishing.


def test_an_event_goes_through_all_links_but_the_one_it_came_by() -> None:
    node = child_of(4)
    hear(node, 8, TreeJoin(7))
    hear(node, 9, TreeJoin(7))
    assert said(node.handle(Publish(7, 1), 0)) == [(peer, TreeEvent(7, 1, 1)) for peer in (8, 9, 4)]
    from_below = hear(node, 8, TreeEvent(7, 2, 3))
    assert said(from_below) == [(9, TreeEvent(7, 2, 4)), (4, TreeEvent(7, 2, 4))]
    assert Deliver(7, 2, 3) in from_below
    assert said(hear(node, 4, TreeEvent(7, 3, 3))) == [(8, TreeEvent(7, 3, 4)), (9, TreeEvent(7, 3, 4))]
    again = hear(node, 4, TreeEvent(7, 2, 9))
    assert not said(again)
    assert Deliver(7, 2, 9) not in again
    stranger = hear(node, 3, TreeEvent(7, 4, 1))
    assert (3, TreePart(7)) in said(stranger)


def test_a_stranger_sends_towards_the_key_until_a_member_is_met() -> None:
    assert said(tree(1, 2).handle(Publish(7, 1), 0)) == [(1, TreePublish(7, 1, 1))]
    assert said(hear(tree(1, 2), 9, TreePublish(7, 1, 1))) == [(1, TreePublish(7, 1, 2))]
    node = child_of(4)
    hear(node, 8, TreeJoin(7))
    assert said(hear(node, 9, TreePublish(7, 1, 2))) == [(8, TreeEvent(7, 1, 3)), (4, TreeEvent(7, 1, 3))]
    assert not said(hear(node, 3, TreePublish(7, 1, 2)))
    (dropped,) = [e for e in tree().handle(Publish(7, 1), 0)[1:] if isinstance(e, Observe)]
    assert dropped.reason == "no subscribers"


def test_who_is_still_searching_sends_towards_the_key_and_down() -> None:
    node = tree(1, 2, 3)
    hear(node, 9, TreeJoin(7))
    assert said(node.handle(Publish(7, 1), 0)) == [(1, TreePublish(7, 1, 1)), (9, TreeEvent(7, 1, 1))]
    hear(node, 2, TreeMember(7, True))  # it joins there, and waits to be accepted
    assert said(hear(node, 9, TreeEvent(7, 2, 1))) == [(1, TreePublish(7, 2, 2))]


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError):
        RecruitingConfig(searched=0)
    with pytest.raises(InputError):
        RecruitingConfig(period_s=0.0)


# Whatever peers send.


def check(node: RecruitingTree) -> None:
    """A topic is in one state only, and the books hold nothing of topics that are not the node's."""
    for topic, branch in node.branches.items():
        assert branch.subscribed or branch.children
        assert branch.parent not in branch.children
        parent = branch.parent != NOBODY
        states = [topic in node.roots, topic in node.stranded, topic in node.searches, parent]
        assert sum(states) == 1
        if parent:
            assert branch.parent < ME
            assert topic in node.parents[branch.parent].topics
        assert parent or topic not in node.above
    for books in (node.roots, node.stranded, node.searches, node.above, node.asking):
        assert set(books) <= set(node.branches)
    assert all(len(above) <= node.levels for above in node.above.values())
    assert node.links == sum(len(branch.children) for branch in node.branches.values())


topics = st.integers(0, 3) | st.integers(-(2**63), 2**63 - 1)
peers = st.integers(0, 4) | st.integers(6, 8)
many = st.lists(topics, max_size=5).map(tuple)
hostile = st.one_of(
    st.builds(TreeJoin, topics),
    st.builds(TreeAccept, topics),
    st.builds(TreePart, topics),
    st.builds(TreeHeartbeat, many),
    st.builds(TreeAlive, many),
    st.builds(TreePublish, topics, st.integers(0, 3), st.integers(-1, 5)),
    st.builds(TreeEvent, topics, st.integers(0, 3), st.integers(-1, 5)),
    st.builds(TreeSearch, topics),
    st.builds(TreeMember, topics, st.booleans()),
    st.builds(TreeAbove, topics, st.lists(st.integers(-3, 10), max_size=9).map(tuple)),
)
happenings = st.one_of(
    st.builds(Received, peers, hostile),
    st.builds(Subscribe, st.integers(0, 3)),
    st.builds(Unsubscribe, st.integers(0, 3)),
    st.builds(Publish, st.integers(0, 3), st.integers(0, 3)),
    st.builds(PeerLost, peers),
    st.sampled_from([KEEP_UP, END_SEARCH, Start(), Stop()]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(happenings, max_size=50), st.sets(peers, max_size=6))
def test_whatever_peers_send_the_books_are_in_order(events: list[Event], known: set[int]) -> None:
    node = tree(*known, topics_max=3, memory_size=5, children_max=4)
    for number, event in enumerate(events):
        node.handle(event, number * 100_000)
        check(node)
