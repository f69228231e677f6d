"""The simulated twin of a live network."""

import random
from dataclasses import replace

import pytest

from vinecast.core.errors import InputError
from vinecast.peer.config import PeerConfig
from vinecast.sim.measure.peer_runs import JudgedEvent
from vinecast.sim.scenario import live_comparison
from vinecast.sim.scenario.live_comparison import (
    DIFFERENT_MAX,
    ComparedNode,
    ComparedRun,
    Difference,
    Publication,
    Recipients,
    run_comparison,
    who_got_what,
)

DRAW = random.Random(7)
TOPICS = [f"topic/{i}" for i in range(3)]
NODES = [
    ComparedNode(DRAW.randbytes(32), tuple(DRAW.sample(TOPICS, 2)), i / 10, tuple(range(max(0, i - 2), i)))
    for i in range(6)
]
PUBLICATIONS = [Publication(15 + i / 10, i % 6, NODES[i % 6].topics[i % 2]) for i in range(20)]
RUN = ComparedRun(NODES, PUBLICATIONS, PeerConfig(period_s=0.5, traced=True), "local", 2.0, 2.0, 20.0)


@pytest.mark.parametrize("system", ["poldercast", "pulsarcast"])
def test_everybody_gets_what_it_subscribed_to_and_nothing_else(system: str) -> None:
    run = replace(RUN, config=PeerConfig(system=system, period_s=0.5, traced=True))
    found = run_comparison(run, seed=1)
    due = sum(one.topic in node.topics for one in PUBLICATIONS for node in NODES)
    assert (found.expected, found.got, found.repeated, found.strays) == (due, due, 0, 0)
    assert 1 <= found.measures["hops_mean"] < 4
    assert 0.5 < found.measures["duplication"] <= 2
    assert found.measures["control_messages"] > 5
    assert sum(messages for messages, _ in found.control.values()) > 100
    assert found == run_comparison(run, seed=1)
    for one, reached in zip(PUBLICATIONS, found.reached, strict=True):
        subscribers = {number for number, node in enumerate(NODES) if one.topic in node.topics}
        assert reached is not None
        assert reached.due == subscribers
        assert reached.got == subscribers | {one.node}
    others = run_comparison(run, seed=1, draws=2)
    assert others != found  # nodes draw otherwise
    assert who_got_what([one for one in found.reached if one], others.reached).equal == len(PUBLICATIONS)


def test_nobody_publishes_and_two_are_the_same() -> None:
    found = run_comparison(replace(RUN, publications=[], end_s=3.0), seed=1)
    assert (found.expected, found.measures["hit_ratio"]) == (0, None)
    with pytest.raises(InputError, match="two nodes have the same id"):
        run_comparison(replace(RUN, nodes=[NODES[0], NODES[0]]), seed=1)


def test_a_publisher_that_waits_for_subscribers_publishes_later() -> None:
    alone = replace(NODES[0], topics=("alone",))
    publications = [Publication(2.0, 0, "alone"), Publication(15.0, 0, "alone")]
    found = run_comparison(replace(RUN, nodes=[alone, *NODES[1:]], publications=publications), seed=1)
    assert found.reached == (Recipients(frozenset({0}), frozenset({0})),) * 2


def test_nodes_are_as_far_apart_whatever_they_draw() -> None:
    def way_us(draws: int) -> int:
        world = live_comparison._world_of(RUN, 1, draws, live_comparison._Measured())
        return world.links._way_us(0, 1)

    assert way_us(1) == way_us(2)


def test_idle_connections_are_closed_when_live_ones_are() -> None:
    found = [run_comparison(replace(RUN, idle_s=idle_s), seed=1).control for idle_s in (1.0, 10.0)]
    introductions = [control["peer.introduction"][0] for control in found]
    assert introductions[0] > introductions[1] > 0


def reached(due: str, got: str) -> Recipients:
    return Recipients(frozenset(map(int, due)), frozenset(map(int, got)))


@pytest.mark.parametrize(
    ("live", "simulated", "equal", "left_out"),
    [
        (reached("012", "012"), reached("012", "012"), 1, 0),
        (reached("012", "01"), reached("012", "01"), 1, 0),
        (reached("012", "012"), reached("012", "01"), 0, 0),
        (reached("012", "02"), reached("012", "01"), 0, 0),  # as many, but not the same
        (reached("012", "012"), reached("01", "01"), 1, 1),
        (reached("012", "012"), reached("01", "012"), 1, 1),
        (reached("02", "01"), reached("01", "0"), 1, 2),
        (reached("01", "012"), reached("01", "01"), 0, 0),  # due nowhere, and got
        (reached("01", "01"), None, 0, 0),
    ],
)
def test_who_got_what(live: Recipients, simulated: Recipients | None, equal: int, left_out: int) -> None:
    alike = reached("3", "3")
    found = who_got_what([alike, live], [alike, simulated])
    assert (found.events, found.equal, found.left_out) == (2, 1 + equal, left_out)
    assert [one.number for one in found.different] == [1] * (1 - equal)


def test_what_differs_is_named_and_bounded() -> None:
    live, simulated = [reached("0123", "01")] * 30, [reached("0123", "02")] * 30
    found = who_got_what(live, simulated)
    assert (found.equal, len(found.different)) == (0, DIFFERENT_MAX)
    assert found.different[3] == Difference(3, (1,), (2,), (0, 1), (0, 2))


def test_an_event_is_matched_by_its_publisher_topic_and_time() -> None:
    first, second, third = Publication(1.5, 0, "t"), Publication(1.5, 1, "t"), Publication(1.5, 0, "t")

    def judged(event: int, publisher: int, got: int) -> JudgedEvent:
        at_us = live_comparison._at_us(1.5)
        return JudgedEvent(event, "t", publisher, at_us, 1, 1, 1.0, frozenset({got}), frozenset())

    events = [judged(7, 1, 5), judged(9, 0, 6)]
    found = live_comparison._in_order([first, second, third], events)
    assert found == (reached("", "6"), reached("", "5"), None)
