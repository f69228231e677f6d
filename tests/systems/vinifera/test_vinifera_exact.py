"""Vinifera and Ferry* deliver exactly what a central matcher would, at rest (issue: conformance)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.content import events, filters, schemas
from support.systems.content_net import ContentNet
from vinecast.core.content.filters import Filter, make_filter
from vinecast.core.content.schemas import Attribute, Event, Schema
from vinecast.core.events import PeerFound
from vinecast.core.machine import NOBODY

Story = tuple[list[Schema], list[list[Filter]], list[tuple[int, Event]]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """One or two schemas, everybody's filters over them, and events near the ends of these."""
    found = draw(st.lists(schemas(), min_size=1, max_size=2))
    known = [Schema(f"drawn{i}", schema.attributes) for i, schema in enumerate(found)]
    some = [one for schema in known for one in draw(st.lists(filters(schema), min_size=1, max_size=6))]
    nodes = draw(st.integers(2, 9))
    wants = [draw(st.lists(st.sampled_from(some), max_size=3, unique=True)) for _ in range(nodes)]
    drawn = []
    for number, schema in enumerate(known):
        near = [one for one in some if one.schema == schema]
        drawn += [(number, event) for event in draw(st.lists(events(schema, near), min_size=1, max_size=6))]
    return known, wants, drawn


@pytest.mark.parametrize("system", ["vinifera", "ferry"])
@settings(max_examples=120)
@given(
    story=stories(), seed=st.integers(0, 1000), shuffles=st.booleans(), on_the_way=st.booleans(),
    to_friends=st.booleans(),
)  # fmt: skip
def test_what_is_delivered_is_what_a_central_matcher_finds(
    system: str, story: Story, seed: int, shuffles: bool, on_the_way: bool, to_friends: bool
) -> None:
    known, wants, drawn = story
    net = ContentNet(system, known, wants, seed, shuffles, on_the_way=on_the_way, to_friends=to_friends)
    net.turn()
    net.run()
    for i, (schema, event) in enumerate(drawn):
        net.publish((seed + i) % net.nodes, schema, event)
    net.run()
    net.check()


@settings(max_examples=60)
@given(
    story=stories(), seed=st.integers(0, 1000), steps=st.lists(st.integers(0, 12), min_size=1, max_size=30)
)
def test_no_event_is_lost_while_nodes_move(story: Story, seed: int, steps: list[int]) -> None:
    """Requests, moves and events in any order, with events in between: who owns what changes under way."""
    known, wants, drawn = story
    net = ContentNet("vinifera", known, wants, seed, shuffles=True, beta=1)
    net.turn()
    net.run()
    for i, pause in enumerate(steps):
        schema, event = drawn[i % len(drawn)]
        net.publish((seed + i) % net.nodes, schema, event)
        if i % 5 == 4:
            net.machines[i % net.nodes].balance.load = 1000  # so that the one before moves
            net.turn()
        for _ in range(pause):
            net.step()
    net.run()
    net.check()


PRICES = Schema("prices", (Attribute("price", "number", 0, 1000),))
WIDE, NARROW = (make_filter(PRICES, {"price": ends}) for ends in ((0, 999), (400, 410)))


@pytest.mark.parametrize(
    "wants",
    [
        [[NARROW], [NARROW], [NARROW], [WIDE], [WIDE], [WIDE]],
        [[], [], [], [WIDE], [], []],  # the successor's own filter, which it need not ask anybody for
        [[WIDE], [], [], [], [], []],  # somebody else's
    ],
)
def test_nodes_do_move(wants: list[list[Filter]]) -> None:
    """The test above would be in vain if they did not. Nobody asks anew between the move and the events."""
    net = ContentNet("vinifera", [PRICES], wants, 1, beta=1)
    net.turn()
    net.run()
    before = net.profiles.place.copy()
    net.machines[3].balance.load = 1000
    net.turn()
    net.turn()
    net.run()
    assert (net.profiles.place != before).sum() == 1
    for price in range(0, 1001, 10):
        for node in range(6):
            net.publish(node, 0, (float(price),))
    net.run()
    net.check()


@pytest.mark.parametrize("subscriber", range(6))
@pytest.mark.parametrize("newcomer", [0, 2, 5])
def test_a_newcomer_is_handed_what_is_asked_of_its_arc(newcomer: int, subscriber: int) -> None:
    """As soon as its successor has heard of it, and before anybody asks anew."""
    wants: list[list[Filter]] = [[WIDE] if node == subscriber != newcomer else [] for node in range(6)]
    net = ContentNet("vinifera", [PRICES], wants, 1)
    net.turn(absent=newcomer)
    net.run()
    net.link()
    net.handle((newcomer + 1) % 6, PeerFound(newcomer))
    net.run()
    for price in range(0, 1001, 10):
        net.publish(newcomer, 0, (float(price),))
    net.run()
    net.check()


@settings(max_examples=40)
@given(story=stories(), seed=st.integers(0, 1000))
def test_with_broken_rings_everything_comes_to_rest(story: Story, seed: int) -> None:
    known, wants, drawn = story
    net = ContentNet("vinifera", known, wants, seed, shuffles=True)
    net.turn()
    net.run()
    for node, machine in enumerate(net.machines):
        machine.tman.peers[:2] = machine.tman.peers[2:4]
        machine.tman.peers[2:] = NOBODY
        if machine.tman.peers[0] == NOBODY:
            machine.tman.peers[0] = (node + 2) % net.nodes if (node + 2) % net.nodes != node else NOBODY
    for i, (schema, event) in enumerate(drawn):
        net.publish((seed + i) % net.nodes, schema, event)
    net.run()
    assert all(count == 1 for count in net.delivered.values())
