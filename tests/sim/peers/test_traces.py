"""The trace of whole peers is complete: what goes out comes, every delivery can be followed to its
publication, and all names mean the same on every node."""

from collections import Counter, defaultdict
from functools import cache

import pytest

from support.traced_peers import EVENTS, NODES, TOPICS, TracedRun, run_traced, topics_of
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.peer.message_reader import INTRODUCTION, LEAVING, UNREADABLE
from vinecast.peer.tracing import CANNOT_TAKE
from vinecast.systems.registry import LIVE_SYSTEMS, live_system

SENT, DELIVERED, DROPPED = TraceKind.SENT, TraceKind.DELIVERED, TraceKind.DROPPED
FIRST, AGAIN, PUBLISHED = TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN, TraceKind.PUBLISHED

traced = cache(run_traced)
systems = pytest.mark.parametrize("system", LIVE_SYSTEMS)
pytestmark = pytest.mark.xdist_group("traced peers")  # so that each system runs once


def copies(run: TracedRun, kind: TraceKind) -> list[NamedRecord]:
    """The records of a kind about a copy of an event."""
    return [one for one in run.of(kind) if one.event >= 0 and one.message]


@systems
def test_every_copy_that_goes_out_comes_and_nothing_else_does(system: str) -> None:
    run = traced(system)
    sent = Counter((one.node, one.peer, *one[4:8]) for one in copies(run, SENT))
    came = Counter(
        (one.peer, one.node, *one[4:8]) for kind in (FIRST, AGAIN, DROPPED) for one in copies(run, kind)
    )
    assert sent == came
    assert len(sent) > EVENTS


@systems
def test_a_node_has_an_event_for_the_first_time_once(system: str) -> None:
    run = traced(system)
    first = Counter((one.node, one.event) for one in run.of(PUBLISHED, FIRST))
    assert set(first.values()) == {1}
    late = [one for one in run.of(AGAIN) if not first[one.node, one.event]]
    assert not late


@systems
def test_every_delivery_can_be_followed_to_its_publication(system: str) -> None:
    """From the reader back over whoever sent the first copy, link by link, in time."""
    run = traced(system)
    origin = {(one.node, one.event): one for one in run.of(PUBLISHED, FIRST)}
    sent: dict[tuple[bytes, bytes, int], list[int]] = defaultdict(list)
    for one in run.of(SENT):
        sent[one.node, one.peer, one.event].append(one.time_us)
    assert len(run.of(DELIVERED)) == run.handed > 0
    for delivery in run.of(DELIVERED):
        at, links, is_carried = origin[delivery.node, delivery.event], 0, True
        assert at.time_us <= delivery.time_us
        while at.kind is not PUBLISHED:
            links += 1
            is_carried &= at.hops > 0
            assert min(sent[at.peer, at.node, at.event]) < at.time_us
            before = origin[at.peer, at.event]
            assert before.time_us < at.time_us
            at = before
        if is_carried:  # whoever was pushed it first may deliver a copy that came a longer way
            assert delivery.hops <= links  # PolderCast counts from the first subscriber on
        assert at.topic == delivery.topic


@systems
def test_everybody_gets_what_is_due_to_whoever_joined(system: str) -> None:
    run = traced(system)
    joined = [(one.node, one.topic) for one in run.of(TraceKind.JOINED)]
    own = [(run.ids[number], topic) for number in range(NODES) for topic in ["", *topics_of(number)]]
    assert sorted(joined) == sorted(own)
    assert sorted((one.node, one.topic) for one in run.of(TraceKind.LEFT)) == sorted(own)
    due = Counter(topic for _, topic in own if topic)
    for published in run.of(PUBLISHED):
        got = [one for one in run.of(DELIVERED) if one.event == published.event]
        assert len(got) == len({one.node for one in got}) == due[published.topic]
    assert len(run.of(PUBLISHED)) == EVENTS


@systems
def test_ids_mean_the_same_on_every_node(system: str) -> None:
    run = traced(system)
    assert {one.node for one in run.records} == set(run.ids)
    assert {one.peer for one in run.records} == {b"", *run.ids}
    named = {one.event: one.topic for one in run.of(PUBLISHED)}
    assert set(named.values()) == set(TOPICS)
    assert all(one.topic == named[one.event] for one in run.records if one.event >= 0)
    assert {one.topic for one in run.records if one.event < 0} <= {"", *TOPICS}


@systems
def test_every_message_of_every_layer_leaves_a_record_and_its_weight(system: str) -> None:
    run = traced(system)
    late = Counter(
        (one.time_us, *one[1:2], *one[3:6]) for one in run.of(DROPPED) if one.reason == CANNOT_TAKE
    )
    went = [one for one in run.of(SENT) if (one.time_us, *one[1:2], *one[3:6]) not in late]
    assert sum(one.size for one in went) == run.sent_bytes
    assert sum(late.values()) < 10, "to those who have just left, and not in any other case"
    assert len(run.of(SENT)) >= run.frames
    kinds, live = {one.message for one in run.of(SENT)}, live_system(system)
    assert UNREADABLE not in kinds
    assert {INTRODUCTION, LEAVING, "streams.heads", "durable.event"} <= kinds
    assert any(message.kind in kinds for message in live.carries)
    assert {message.kind for message in live.gossip if "regular" not in message.kind} <= kinds
    dropped = [one for one in run.of(DROPPED) if one.reason not in ("the node has left", CANNOT_TAKE)]
    assert not dropped


def test_a_run_leaves_the_same_trace_again_and_none_where_it_is_off() -> None:
    assert run_traced("poldercast").records == traced("poldercast").records
    quiet = run_traced("poldercast", traced=False)
    assert not quiet.records
    assert (quiet.handed, quiet.sent_bytes) == (traced("poldercast").handed, traced("poldercast").sent_bytes)
