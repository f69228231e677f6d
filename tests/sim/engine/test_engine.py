"""The event engine: order, accidents, clocks, traces; and thousands of exchanges under seeded faults."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from support.flooding import Flooder
from vinecast.core.errors import Bug
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
)
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.sim.engine.engine import EventEngine, SkewedClock
from vinecast.sim.engine.network import Network, NetworkConfig, Partition
from vinecast.sim.measure.overlay import measure, random_views

SECOND = 1_000_000


def flooders(
    nodes: int, links: dict[int, list[int]], trace: list[TraceRecord] | None = None, **network: Any
) -> EventEngine:
    config = NetworkConfig(**{"latency_ms": 10.0, **network})
    engine = EventEngine(
        lambda node: Flooder(links.get(node, [])),
        nodes,
        1,
        Network(config, 1, nodes),
        trace=None if trace is None else trace.append,
    )
    for node in range(nodes):
        engine.start(node, 0)
    return engine


def flooder(engine: EventEngine, node: int) -> Flooder:
    machine = engine.machines[node]
    assert isinstance(machine, Flooder)
    return machine


LINE = {0: [1], 1: [0, 2], 2: [1, 3], 3: [2]}


def test_an_event_travels_and_leaves_traces() -> None:
    trace: list[TraceRecord] = []
    engine = flooders(4, LINE, trace)
    for node in (1, 3):
        engine.command(node, 0, Subscribe(7))
    engine.command(0, 100, Publish(7, 42))
    engine.run(SECOND // 2)
    kinds = [(r.time_us, r.node, r.kind.name, r.hops) for r in trace if r.kind != TraceKind.SENT]
    assert kinds == [
        (100, 0, "PUBLISHED", 0),
        (10_100, 1, "RECEIVED_FIRST", 1),
        (10_100, 1, "DELIVERED", 1),
        (20_100, 2, "RECEIVED_FIRST", 2),
        (30_100, 3, "RECEIVED_FIRST", 3),
        (30_100, 3, "DELIVERED", 3),
    ]
    sent = [(r.node, r.peer, r.message, r.topic, r.event) for r in trace if r.kind == TraceKind.SENT]
    assert sent == [(0, 1, "flood", 7, 42), (1, 2, "flood", 7, 42), (2, 3, "flood", 7, 42)]


def test_a_second_copy_is_traced_as_such() -> None:
    trace: list[TraceRecord] = []
    engine = flooders(3, {0: [1, 2], 1: [0, 2], 2: [0, 1]}, trace)
    engine.command(0, 0, Publish(1, 5))
    engine.run(SECOND // 2)
    assert sum(r.kind == TraceKind.RECEIVED_AGAIN for r in trace) == 2


def test_a_message_to_somebody_who_is_off_line_is_dropped_and_counted() -> None:
    trace: list[TraceRecord] = []
    engine = flooders(2, {0: [1]}, trace)
    engine.crash(1, 5)
    engine.command(0, 10, Publish(1, 5))
    engine.run(SECOND // 2)
    assert engine.counters["dropped.offline"] == [0, 1]
    dropped = [(r.node, r.peer, r.reason) for r in trace if r.kind == TraceKind.DROPPED]
    assert dropped == [(1, 0, "offline")]


def test_what_a_crashed_node_sent_still_arrives() -> None:
    engine = flooders(2, {0: [1]})
    engine.command(0, 0, Publish(1, 5))
    engine.crash(0, 1)
    engine.run(SECOND // 2)
    assert flooder(engine, 1).seen == [5]


def test_a_leaver_says_goodbye_and_a_crasher_does_not() -> None:
    engine = flooders(3, {0: [2], 1: [2]})
    engine.leave(0, 10)
    engine.crash(1, 10)
    engine.run(SECOND // 2)
    assert flooder(engine, 2).heard == [(0, "goodbye")]
    assert engine.online == [False, False, True]


def test_timers_die_with_their_node_and_a_restart_may_keep_the_state() -> None:
    engine = flooders(2, {})
    for node in (0, 1):
        engine.command(node, 0, Publish(1, 5))
        engine.crash(node, SECOND // 2)
        engine.start(node, 3 * SECOND, keep_state=node == 0)
    engine.run(5 * SECOND - 1)
    assert flooder(engine, 0).seen == [5]
    assert flooder(engine, 1).seen == []
    assert flooder(engine, 0).rang == flooder(engine, 1).rang == [4 * SECOND]


def test_starting_twice_changes_nothing() -> None:
    engine = flooders(1, {})
    engine.start(0, 10)
    engine.run(SECOND)
    assert flooder(engine, 0).rang == [SECOND]


def test_commands_to_somebody_off_line_do_nothing() -> None:
    engine = flooders(1, {})
    engine.crash(0, 1)
    engine.command(0, 2, Publish(1, 5))
    engine.run(SECOND)
    assert flooder(engine, 0).seen == []


@dataclass(frozen=True, slots=True)
class Note:
    kind: ClassVar[str] = "note"
    text: str


class Sender:
    """Sends what it is asked to publish to node 1, else to node 2."""

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Publish(_, number):
                return [Send(1, Note(str(number)), 2 if number else NOBODY)]
            case Received(_, Note(text)):
                return [Count("heard " + text)]
            case _:
                return []


def test_who_stands_by_gets_what_cannot_be_sent_to_somebody_off_line() -> None:
    """What counts is who is off line when it is sent; nobody stands by for who stands by."""
    sent: list[int] = []
    network = Network(NetworkConfig(latency_ms=10.0), 1, 3)
    engine = EventEngine(
        lambda node: Sender(), 3, 1, network, on_send=lambda sender, to, message: sent.append(to)
    )
    for node in range(3):
        engine.start(node, 0)
    engine.command(0, 1000, Publish(0, 1))  # both there
    engine.command(0, 30_000, Publish(0, 2))  # 1 leaves while it is on its way
    engine.crash(1, 35_000)
    engine.command(0, 50_000, Publish(0, 3))  # 1 is gone
    engine.command(0, 50_000, Publish(0, 0))  # … and nobody stands by
    engine.crash(2, 80_000)
    engine.command(0, 90_000, Publish(0, 4))  # both are gone
    engine.run(SECOND)
    assert sent == [1, 1, 2, 1, 2]
    heard = {name: counts for name, counts in engine.counters.items() if name.startswith("heard")}
    assert heard == {"heard 1": [0, 1, 0], "heard 3": [0, 0, 1]}
    assert engine.counters["dropped.offline"] == [0, 2, 1]


class Scribe:
    """Writes down who did what when, for everybody together."""

    def __init__(self, me: int, diary: list[str]) -> None:
        self.me, self.diary = me, diary

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Start():
                return [SetTimer("t", 1000)]
            case TimerFired():
                self.diary.append(f"{self.me} rings")
                return [Send((self.me + 1) % 3, Note("hello"))]
            case Received(sender, Note(text)):
                self.diary.append(f"{self.me} hears {text} from {sender}")
                return [Send(sender, Note("thanks"))] if text == "hello" else []
            case _:
                return []


def diary_of(latency_ms: float, seed: int = 1) -> list[str]:
    diary: list[str] = []
    network = Network(NetworkConfig(latency_ms=latency_ms), seed, 3)
    engine = EventEngine(lambda node: Scribe(node, diary), 3, seed, network)
    for node in (2, 0, 1):
        engine.start(node, 0)
    engine.run(SECOND)
    return diary


def test_without_latency_an_exchange_is_atomic() -> None:
    diary = diary_of(0.0)
    for i in range(0, len(diary), 3):
        me = diary[i].split()[0]
        assert diary[i].endswith("rings")
        assert diary[i + 1].endswith(f"hears hello from {me}")
        assert diary[i + 2].startswith(f"{me} hears thanks")


def test_messages_of_one_instant_come_in_the_order_of_their_senders() -> None:
    diary = diary_of(1.0)
    assert [line.split()[1] for line in diary[:3]] == ["rings"] * 3
    senders = [line.split()[-1] for line in diary[3:6]]
    assert senders == sorted(senders)


def test_timers_of_one_instant_ring_in_a_keyed_order() -> None:
    orders = {tuple(diary_of(1.0, seed)[:3]) for seed in range(20)}
    assert len(orders) > 2


def test_clocks_may_be_ahead_and_run_fast() -> None:
    clocks = [SkewedClock(), SkewedClock(offset_us=5 * SECOND), SkewedClock(drift=0.1)]
    engine = EventEngine(
        lambda node: Flooder([]), 3, 1, Network(NetworkConfig(), 1, 3), clocks=lambda node: clocks[node]
    )
    for node in range(3):
        engine.start(node, 0)
    engine.run(10 * SECOND - 1)
    assert len(flooder(engine, 0).rang) == len(flooder(engine, 1).rang) == 9
    assert flooder(engine, 1).rang[0] == 6 * SECOND
    assert len(flooder(engine, 2).rang) == 10  # a fast clock's second is over sooner
    assert abs(flooder(engine, 2).rang[-1] - 10 * SECOND) < 100


def test_a_failing_machine_is_a_bug_that_names_node_and_event() -> None:
    class Broken:
        def handle(self, event: Event, now_us: int) -> list[Effect]:
            raise ValueError("oops")

    engine = EventEngine(lambda node: Broken(), 1, 1, Network(NetworkConfig(), 1, 1))
    engine.start(0, 7)
    with pytest.raises(Bug, match=r"node 0 failed on Start.*at 7 µs.*oops"):
        engine.run(10)


def cyclon_under(network: NetworkConfig, seed: int, nodes: int = 150) -> EventEngine:
    config = CyclonConfig(period_s=1.0)
    engine = EventEngine(lambda node: Cyclon(config, seed, node), nodes, seed, Network(network, seed, nodes))
    views = random_views(seed, nodes, 10)
    for node in range(nodes):
        engine.start(node, node * SECOND // nodes, tuple(views[node].tolist()))
    return engine


def check_views(engine: EventEngine) -> np.ndarray[Any, Any]:
    """Invariants that no accident may break."""
    rows = []
    for node, machine in enumerate(engine.machines):
        assert isinstance(machine, Cyclon)
        view = machine.view.tolist()
        assert node not in view
        assert len(set(view)) == len(view) <= 20
        assert all(0 <= peer < engine.nodes for peer in view)
        rows.append(machine.peers)
    return np.stack(rows)


@pytest.mark.parametrize("seed", range(4))
def test_cyclon_survives_loss_duplication_and_reordering(seed: int) -> None:
    network = NetworkConfig(
        latency="sampled", latency_ms=1.0, latency_ms_max=400.0, loss=0.3, duplication=0.2, reordering=0.2
    )
    engine = cyclon_under(network, seed)
    for second in range(5, 41, 5):
        engine.run(second * SECOND)
        views = check_views(engine)
    stats = measure(views, np.ones(engine.nodes, dtype=np.bool_), seed=seed)
    assert stats.components == 1
    assert engine.counters["dropped.loss"] != [0] * engine.nodes


@pytest.mark.parametrize("seed", range(4))
def test_cyclon_survives_the_crash_of_half_and_their_return(seed: int) -> None:
    engine = cyclon_under(NetworkConfig(), seed)
    half = range(0, engine.nodes, 2)
    for node in half:
        engine.crash(node, 20 * SECOND)
        engine.start(node, 70 * SECOND, (1,), keep_state=node % 4 == 0)
    engine.run(65 * SECOND)
    alive = np.arange(engine.nodes) % 2 == 1
    stats = measure(check_views(engine), alive, seed=seed)
    assert stats.components == 1
    assert stats.dead_links == 0
    engine.run(120 * SECOND)
    stats = measure(check_views(engine), np.ones(engine.nodes, dtype=np.bool_), seed=seed)
    assert stats.components == 1
    assert stats.in_degree_min > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_short_partition_heals(seed: int) -> None:
    """Each side drops links to the other as they fall due; what is left of them joins the halves again."""
    cut = Partition(from_s=20.0, to_s=28.0)
    engine = cyclon_under(NetworkConfig(partitions=(cut,)), seed)
    engine.run(60 * SECOND)
    stats = measure(check_views(engine), np.ones(engine.nodes, dtype=np.bool_), seed=seed)
    assert sum(engine.counters["dropped.partition"]) > 0
    assert stats.components == 1


def test_the_same_seed_gives_the_same_run() -> None:
    network = NetworkConfig(
        latency="sampled", latency_ms=1.0, latency_ms_max=900.0, loss=0.1, duplication=0.1
    )
    runs = []
    for _ in range(2):
        engine = cyclon_under(network, 3)
        engine.run(20 * SECOND)
        runs.append((engine.handled, check_views(engine).tobytes(), dict(engine.counters)))
    assert runs[0] == runs[1]
