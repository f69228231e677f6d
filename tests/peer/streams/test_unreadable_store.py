"""A store that cannot be read for a while: who is told, what is left undone, and that it is done later."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.lone_peer import LonePeer, of_type
from support.recorded_peers import Outputs, config_of, record_nodes, replace_peers, replayed
from support.stream_events import chain
from vinecast.core.errors import InputError, OverloadedError
from vinecast.core.events import SetTimer, TimerFired
from vinecast.core.log.retention import Retention
from vinecast.core.log.streams import SetFloor
from vinecast.peer import inputs as given
from vinecast.peer.address import Address
from vinecast.peer.config import PeerConfig
from vinecast.peer.outputs import Answered, CycleEnded, PeerOutput
from vinecast.peer.publisher import LOOK_TIMER, SETTLE_TIMER, UNREAD
from vinecast.peer.receipt import Receipt
from vinecast.protocols.streams.machine import ASK, PERIOD, UNREADABLE
from vinecast.sim.peers import node as simulated
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld

READS = ("state", "topics", "height_of", "get", "after", "in_order", "position_of", "weight")
WRITES = ("keep", "set_floor")
"""They read before they write."""


def fail(*asked: Any) -> Any:
    raise InputError("the store of the node cannot be used: disk I/O error")


@contextmanager
def unreadable(store: Any, *names: str) -> Iterator[None]:
    """A store that cannot be read, or cannot be asked some things."""
    names = names or READS + WRITES
    for name in names:
        setattr(store, name, fail)
    try:
        yield
    finally:
        for name in names:
            delattr(store, name)


def answers(out: list[PeerOutput]) -> list[Any]:
    """What the publishers in some outputs are told."""
    return [one.value for one in of_type(Answered, out)]


def publishes_at_once(lone: LonePeer, events: int = 1, request: int = 2) -> list[PeerOutput]:
    """Publish events of a stream, without waiting for what others have of it."""
    drafts = tuple(given.Draft(b"x", {}, 100 * request + n, 1) for n in range(events))
    return lone.feed(given.PublishTurn((given.PublishDrafts(request, "news", drafts, durable=True),)))


def stored(lone: LonePeer, topic: str = "news") -> list[PeerOutput]:
    """All that the store keeps of a topic is safe."""
    kept = lone.peer.streams.store.in_order(topic, (0, b""), 99)
    return lone.feed(given.EventsStored(tuple(one.signed.cid for one in kept)))


def test_gap_repair_goes_on() -> None:
    lone = LonePeer(PeerConfig())
    lone.feed(given.OpenSubscription(1, 1, "news", "now"))
    with unreadable(lone.peer.streams.store):
        for turn in (1, 2, 3):
            out = lone.feed(TimerFired(PERIOD))
            assert PERIOD in {one.name for one in of_type(SetTimer, out)}
            assert lone.peer.counters[UNREADABLE] == turn
    assert PERIOD in {one.name for one in of_type(SetTimer, lone.feed(TimerFired(PERIOD)))}
    assert lone.peer.counters[UNREADABLE] == 3


def test_a_topic_that_cannot_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    lone = LonePeer(PeerConfig())
    lone.introduce("a", "b", "c")
    for number, topic in enumerate("abc"):
        lone.feed(given.OpenSubscription(number, number, topic, "now"))
    store, told = lone.peer.streams.store, lone.peer.streams.repair.topics
    state = store.state
    monkeypatch.setattr(store, "state", lambda topic: fail() if topic == "a" else state(topic))
    before = {topic: told[topic].waited for topic in "abc"}
    lone.feed(TimerFired(PERIOD))
    assert [topic for topic in "abc" if told[topic].waited > before[topic]] == ["b", "c"]


def test_timers_that_were_lost_are_set_once_more() -> None:
    lone = LonePeer(PeerConfig())
    repair = lone.peer.streams.repair
    repair._set.add(ASK)
    repair.cut_short()
    lone.feed(TimerFired(PERIOD))
    assert ASK not in repair._set


def test_publishers_are_told_and_those_behind_them_go_on() -> None:
    lone = LonePeer(PeerConfig(holders=0))
    with unreadable(lone.peer.streams.store):
        told = answers(publishes_at_once(lone, 3))
        assert [[type(one) for one in told] for told in told] == [[OverloadedError] * 3]
        assert str(told[0][0]) == UNREAD
    assert lone.peer.counters[UNREADABLE] >= 1
    assert not answers(publishes_at_once(lone, 2, request=3))
    (told,) = answers(stored(lone))
    assert [type(one) for one in told] == [Receipt, Receipt]


def test_those_that_wait_in_line_are_told_too() -> None:
    lone = LonePeer(PeerConfig(holders=0))
    lone.introduce("news")
    publishes_at_once(lone)
    publishes_at_once(lone, request=3)
    assert lone.peer.publishing._waiting, "they ask for the stream first"
    out: list[PeerOutput] = []
    with unreadable(lone.peer.streams.store):
        for _ in range(2000):
            lone.now_us += 5_000
            out += lone.feed(TimerFired(LOOK_TIMER))
    assert sorted(one.request for one in of_type(Answered, out)) == [2, 3]
    assert all(isinstance(one.value[0], OverloadedError) for one in of_type(Answered, out))


def test_an_event_that_finds_no_place_once_it_is_signed_is_not_published() -> None:
    lone = LonePeer(PeerConfig(holders=0))
    store = lone.peer.streams.store
    publishes_at_once(lone)
    stored(lone)
    lone.feed(TimerFired(SETTLE_TIMER))
    lone.peer.streams.repair.topics.clear()  # so that the stream is looked at once more
    with unreadable(store, "height_of"):
        assert lone.peer.streams.place("news")[1] == 2
        (told,) = answers(publishes_at_once(lone, 2, request=3))
    assert [type(one) for one in told] == [OverloadedError] * 2
    assert not lone.peer.publishing.outstanding
    assert not lone.peer.publishing.has_in_hand
    assert len(store.in_order("news", (0, b""), 9)) == 1


def test_what_could_not_be_kept_is_kept_later_in_order() -> None:
    lone = LonePeer(PeerConfig(holders=0))
    store = lone.peer.streams.store
    with unreadable(store, "keep"):
        assert not answers(publishes_at_once(lone, 3))
        assert not store.in_order("news", (0, b""), 9)
    lone.feed(TimerFired(PERIOD))
    kept = store.after("news", 0, 9)
    assert [one.signed.record.height for one in kept] == [1, 2, 3]
    (told,) = answers(stored(lone))
    assert [type(one) for one in told] == [Receipt] * 3
    assert not lone.peer.streams.writes._unsafe


def test_what_was_kept_before_reading_failed_is_known() -> None:
    lone, events = LonePeer(PeerConfig()), chain(3)
    writes = lone.peer.streams.writes
    store: Any = lone.peer.streams.store
    keep = store.keep

    def keep_one(some: Any, now_us: int) -> None:
        keep(some[:1], now_us)
        fail()

    store.keep = keep_one
    writes.keep(events)
    assert writes.position(events[0].cid) == 1
    assert not writes.position(events[1].cid)
    store.keep = fail
    writes.set_floor(SetFloor("t", 1))
    assert store.state("t").floor == 0, "it waits behind the events"
    del store.keep
    writes.go_on()
    assert [writes.position(one.cid) for one in events] == [1, 2, 3]
    assert store.state("t").floor == 1
    assert not writes._waiting_bytes


def test_a_node_comes_up_and_takes_part_later() -> None:
    lone = LonePeer(PeerConfig())
    peer = lone.peer
    with unreadable(peer.streams.store):
        lone.feed(given.NodeBegins(Address("memory", 1), (), topics=("news", "sports")))
        assert peer.subscribes("news")
        assert not peer.streams.repair.topics
    lone.feed(TimerFired(PERIOD))
    assert sorted(peer.streams.repair.topics) == ["news", "sports"]
    assert all(topic.reads for topic in peer.streams.repair.topics.values())


def test_a_pattern_takes_up_what_can_be_read() -> None:
    lone = LonePeer(PeerConfig())
    store = lone.peer.streams.store
    state = store.state
    store.state = lambda topic: fail() if topic == "a/1" else state(topic)  # type: ignore[method-assign]
    lone.feed(given.OpenSubscription(1, 1, "a/#", "now"))
    lone.introduce("a/1", "a/2")
    last = lone.peer.system.row.last_timer
    lone.now_us += 10_000_000
    assert of_type(CycleEnded, lone.feed(TimerFired(last)))
    assert lone.peer.subscribes("a/2")
    assert not lone.peer.subscribes("a/1")
    del store.state
    lone.now_us += 10_000_000
    lone.feed(TimerFired(last))
    assert lone.peer.subscribes("a/1")


# A small network.


class FailingStore:
    """The store of a node that cannot be read while ``fails``."""

    fails = False

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return fail if type(self).fails and name in READS + WRITES else getattr(self._store, name)


class Told(Outputs):
    """What publishers were told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[tuple[int, int], Any] = {}

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[PeerOutput]) -> None:
        super().after(node, what, outputs)
        for one in of_type(Answered, outputs):
            self.told[node.number, one.request] = one.error or one.value


def run_network(observer: Told) -> tuple[PeerWorld, list[tuple[int, int]]]:
    """Nodes that read and publish while, from second 4 to 7, no store can be read; the requests."""
    world, asked = PeerWorld(3, LinkConfig(), observer), []
    for number in range(4):
        world.add(config_of("poldercast"), network="test", disk=DiskConfig(), retention=Retention())
        world.at_s(0.1 * number, world.start, number, [0] if number else [])
        world.at_s(1, world.nodes[number].ask, lambda n: given.OpenSubscription(n, 1, "news", "earliest"))

    def publish(turn: int) -> None:
        node = world.nodes[turn % 4]
        draft = given.Draft(b"%d" % turn, {}, 1000 + turn, 1)
        number = node.publish(lambda n: given.PublishDrafts(n, "news", (draft,), durable=True))
        asked.append((node.number, number))

    for turn in range(90):
        world.at_s(2 + 0.1 * turn, publish, turn)
    world.at_s(4, setattr, FailingStore, "fails", True)
    world.at_s(7, setattr, FailingStore, "fails", False)
    world.run(40)
    return world, asked


def make_stores_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the nodes of worlds that are made from now on have stores that may fail."""
    made = vars(simulated)["Peer"]
    replace_peers(
        monkeypatch,
        lambda public, network, seed, config, ports, *rest: made(
            public, network, seed, config, ports._replace(store=FailingStore(ports.store)), *rest
        ),
    )


def test_a_network_goes_on_when_its_disks_heal(monkeypatch: pytest.MonkeyPatch) -> None:
    make_stores_fail(monkeypatch)
    observer = Told()
    world, asked = run_network(observer)
    told = [observer.told.get(one) for one in asked]
    assert None not in told, "every publisher is told"
    kinds = [type(one[0]) if isinstance(one, tuple) else type(one) for one in told]
    assert kinds[:18] + kinds[-30:] == [Receipt] * 48
    assert OverloadedError in kinds
    published = {one[0].cid for one in told if isinstance(one, tuple) and isinstance(one[0], Receipt)}
    for node in world.nodes:
        assert node.peer is not None
        assert node.peer.counters[UNREADABLE] > 0
        kept = {one.cid for one in node.disk.readable()}
        assert published <= kept
        assert node.peer.streams.repair.is_level("news")


def test_reads_that_failed_are_had_again_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = record_nodes(monkeypatch, with_payloads=True, every=400)
    make_stores_fail(monkeypatch)
    world, _ = run_network(Told())
    assert all(node.peer is not None and node.peer.counters[UNREADABLE] for node in world.nodes)
    monkeypatch.undo()
    shown = replayed(segments)
    assert not shown.found
    assert shown.entries > 1000
