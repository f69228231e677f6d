"""A run of whole peers is measured by its records alone, however they are handed over."""

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from statistics import median_low
from typing import Any

import pytest

from support.traced_peers import TracedRun, run_traced
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.sim.measure import reduction
from vinecast.sim.measure.peer_runs import EARLY_US, JudgedEvent, PeerRunMeter
from vinecast.sim.measure.reduction import RunFacts, TraceReducer

PATIENCE_US, PERIOD_US = 1_000_000, 500_000
NODES = [bytes([number]) * 32 for number in range(4)]
BEGIN_US, LATER_US = 1000, 10_000_000

traced = cache(run_traced)


def measured(run: TracedRun, cuts: Iterable[int] = (), processes: int = 1) -> PeerRunMeter:
    """The run, with its records divided over so many processes, which hand over what they have when so many
    records have been left."""
    meter = PeerRunMeter(PATIENCE_US, PERIOD_US)
    number = {node: at for at, node in enumerate(run.ids)}
    for node, at in number.items():
        meter.know(node, at)
    reducers = [TraceReducer() for _ in range(processes)]
    begin = 0
    for end in (*cuts, len(run.records)):
        for record in run.records[begin:end]:
            at = number[record.node]
            reducers[at % processes].take(at, [record])
        upto_us = run.records[end - 1].time_us
        for reducer in reversed(reducers):
            meter.add(reducer.facts(upto_us))
        meter.judge(upto_us)
        begin = end
    meter.finish()
    return meter


def obvious(run: TracedRun) -> dict[str, Any]:
    """The metrics by their definitions, with all records at hand; nobody leaves before the end."""
    of = run.of
    subscribers = {(one.node, one.topic) for one in of(TraceKind.JOINED) if one.topic}
    at = {one.event: one for one in of(TraceKind.PUBLISHED)}
    due = [(event, node) for event, one in at.items() for node, topic in subscribers if topic == one.topic]
    got = {(one.event, one.node): one for one in reversed(of(TraceKind.DELIVERED))}
    copies = Counter(
        (one.event, one.node)
        for one in of(TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN)
        if (one.node, one.topic) in subscribers and one.time_us < at[one.event].time_us + PATIENCE_US
    )
    away = [one for one in got.values() if one.hops > 0]
    sent = [one for one in of(TraceKind.SENT) if one.event >= 0]
    control = [one for one in of(TraceKind.SENT) if one.event < 0]
    times = {node: [one.time_us for one in run.records if one.node == node] for node in run.ids}
    cycles = sum(max(found) - min(found) for found in times.values()) / PERIOD_US
    return {
        "due": len(due),
        "hits": len(set(due) & set(got)),
        "have": len(got),
        "copies": copies.total(),
        "published": len(at),
        "hit_ratio": len(set(due) & set(got)) / len(due),
        "hops_mean": sum(one.hops for one in away) / len(away),
        "hops_max": max(one.hops for one in away),
        "duplication": copies.total() / len(got),
        "copies_p50": sorted(copies[key] for key in got)[(len(got) - 1) // 2],
        "latency_ms_p50": median_low([(one.time_us - at[one.event].time_us) / 1000 for one in away]),
        "traffic_overhead": sum((one.peer, one.topic) not in subscribers for one in sent) / len(sent),
        "control_messages": len(control) / cycles,
        "control_bytes": sum(one.size for one in control) / cycles,
    }


@pytest.mark.parametrize("system", ["poldercast", "flooding"])
def test_a_run_is_measured_as_the_definitions_say(system: str) -> None:
    wanted, found = obvious(traced(system)), measured(traced(system)).measures()
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=0.005)
    exact = [name for name in wanted if "latency" not in name]
    assert {name: found[name] for name in exact} == {name: wanted[name] for name in exact}
    assert found["miss_ratio"] == 0 < found["latency_ms_mean"] <= found["latency_ms_max"]


def test_it_does_not_matter_who_hands_what_over_when() -> None:
    run, draw = traced("poldercast"), random.Random(3)
    whole = measured(run)
    for processes in (1, 3, 6):
        cuts = sorted(draw.sample(range(1, len(run.records)), 20))
        parts = measured(run, cuts, processes)
        assert parts.measures() == whole.measures()
        assert (parts.control(), parts.dropped) == (whole.control(), whole.dropped)
        assert (parts.repeated, parts.late, parts.strangers) == (0, 0, 0)


# Small stories.


class Story:
    """Records told by hand: (time, node, kind) and what else there is."""

    def __init__(self, joined: str = "012") -> None:
        self.meter, self.reducer = PeerRunMeter(PATIENCE_US, PERIOD_US), TraceReducer()
        for number, node in enumerate(NODES):
            self.meter.know(node, number)
        for one in joined:
            self.tell(0, int(one), TraceKind.JOINED, topic="")
            self.tell(BEGIN_US, int(one), TraceKind.JOINED)

    def tell(self, time_us: int, node: int, kind: TraceKind, topic: str = "t", **rest: Any) -> None:
        self.reducer.take(node, [NamedRecord(time_us, NODES[node], kind, topic=topic, **rest)])

    def publish(self, time_us: int = BEGIN_US, node: int = 0, event: int = 7) -> None:
        self.tell(time_us, node, TraceKind.PUBLISHED, event=event, hops=0)

    def deliver(self, time_us: int, node: int, hops: int = 1, event: int = 7) -> None:
        self.tell(time_us, node, TraceKind.RECEIVED_FIRST, event=event, hops=hops)
        self.tell(time_us, node, TraceKind.DELIVERED, event=event, hops=hops)

    def end(self, upto_us: int = LATER_US) -> tuple[JudgedEvent, ...]:
        self.meter.add(self.reducer.facts(upto_us))
        return tuple(self.meter.judge(upto_us))

    def hits(self) -> tuple[int, int]:
        found = self.meter.totals()
        return found["hits"], found["due"]


def test_an_event_is_judged_when_it_had_its_time() -> None:
    story = Story()
    story.publish()
    story.deliver(BEGIN_US, 0, 0)
    assert not story.end(BEGIN_US + PATIENCE_US - 1)
    assert (story.meter.under_way, story.meter.all_arrived) == (1, False)
    story.deliver(BEGIN_US + PATIENCE_US - 1, 1)
    story.deliver(BEGIN_US + PATIENCE_US, 2)  # too late
    (judged,) = story.end(BEGIN_US + PATIENCE_US)
    assert judged == JudgedEvent(7, "t", 0, BEGIN_US, 3, 2, 1.0, frozenset({0, 1}), frozenset({0, 1, 2}))
    assert (story.hits(), story.meter.late, story.meter.missed) == ((2, 3), 1, 1)


@pytest.mark.parametrize(
    ("joins_us", "leaves_us", "due"),
    [
        (BEGIN_US + 5, None, 3),
        (BEGIN_US + 6, None, 2),
        (BEGIN_US, BEGIN_US + 5, 2),
        (BEGIN_US, BEGIN_US + 4 + PATIENCE_US, 2),
        (BEGIN_US, BEGIN_US + 5 + PATIENCE_US, 3),
    ],
)
def test_due_is_who_was_there_all_the_time(joins_us: int, leaves_us: int | None, due: int) -> None:
    story = Story("01")
    story.tell(joins_us, 2, TraceKind.JOINED)
    if leaves_us is not None:
        story.tell(leaves_us, 2, TraceKind.LEFT, topic="")
    story.publish(BEGIN_US + 5)
    story.end()
    assert story.hits() == (0, due)


def test_copies_count_at_subscribers_and_traffic_where_it_goes() -> None:
    story = Story()
    story.publish()
    for at_us in (BEGIN_US + 5, BEGIN_US + 6):
        story.tell(at_us, 3, TraceKind.RECEIVED_AGAIN, event=7, hops=1)  # a relay
        story.tell(at_us, 1, TraceKind.RECEIVED_AGAIN, event=7, hops=1)
        for to in (b"stranger", NODES[3], NODES[1], NODES[1]):
            story.tell(at_us, 0, TraceKind.SENT, event=7, peer=to, message="event")
    story.deliver(BEGIN_US + 7, 2)
    story.end()
    found = story.meter.measures()
    assert (found["copies"], found["have"]) == (3, 1)
    assert found["traffic_overhead"] == 2 / 6


def test_who_fetched_an_event_has_it_and_nobody_knows_how_far_it_came() -> None:
    story = Story()
    story.publish()
    story.deliver(BEGIN_US + 9, 1, hops=-1)
    story.deliver(BEGIN_US + 4000, 2, hops=4)
    story.end()
    found = story.meter.measures()
    assert (found["hits"], found["have"], found["received"], found["hops_mean"]) == (2, 2, 1, 4.0)
    assert found["latency_ms_max"] == 4.0


def test_what_comes_twice_is_repeated_and_what_nobody_published_is_a_strangers() -> None:
    story = Story()
    story.deliver(BEGIN_US + 5, 1, event=8)
    story.deliver(BEGIN_US + 6, 1, hops=3)
    story.deliver(BEGIN_US + 5, 1, hops=2)
    story.end(BEGIN_US)
    story.publish()  # it is told of later
    story.end(BEGIN_US + 5 + EARLY_US)
    assert (story.meter.repeated, story.meter.strangers) == (1, 1)
    assert story.meter.totals()["hops"] == 2  # the first counts
    story.deliver(LATER_US, 2)
    story.end()
    assert story.meter.late == 1


def test_on_line_is_from_joining_to_the_last_record() -> None:
    story = Story("0")
    story.tell(PERIOD_US, 0, TraceKind.SENT, topic="", message="gossip", peer=NODES[1], size=10)
    story.tell(2 * PERIOD_US, 0, TraceKind.LEFT, topic="")
    story.tell(9 * PERIOD_US, 0, TraceKind.JOINED, topic="")
    story.tell(11 * PERIOD_US, 0, TraceKind.SENT, topic="", message="gossip", peer=NODES[1], size=30)
    story.end()
    found = story.meter.measures()
    assert (found["control_messages"], found["control_bytes"]) == (2 / 4, 40 / 4)
    assert story.meter.control() == {"gossip": (2, 40)}


def test_no_more_waits_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "FACTS_MAX", 3)
    story = Story()
    story.publish()
    for node in range(3):
        story.deliver(BEGIN_US + 5, node)
    facts = story.reducer.facts(LATER_US)
    assert (len(facts.copies) + len(facts.delivered), facts.unreported) == (3, 3)
    assert story.reducer.facts(LATER_US) == RunFacts(LATER_US)


def test_only_some_topics_are_measured() -> None:
    reducer = TraceReducer(frozenset({"t"}))
    for topic in "tu":
        for kind in (TraceKind.PUBLISHED, TraceKind.DELIVERED, TraceKind.RECEIVED_FIRST):
            reducer.take(0, [NamedRecord(5, NODES[0], kind, topic=topic, event=ord(topic), hops=0)])
    facts = reducer.facts(9)
    assert [len(found) for found in (facts.published, facts.delivered, facts.copies)] == [1, 1, 1]
