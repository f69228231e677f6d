"""Where a disk cannot be read its peer is told so as a live one is, and only of what lies on the disk."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from support.stream_events import chain
from vinecast.core.errors import InputError
from vinecast.lab.campaign.draw import draw_plan
from vinecast.lab.campaign.plan import FAULTS, BeginStep, PeerPlan, Plan, ReadsFailStep, ends_s, told
from vinecast.lab.campaign.run import PlanRun
from vinecast.node.storage.streams_reader import StreamsReader
from vinecast.node.storage.streams_store import StreamStore
from vinecast.peer.streams.ports import StreamPlace
from vinecast.sim.peers.disk import DiskConfig, SimulatedDisk
from vinecast.sim.peers.stream_port import StreamPort

KEPT, COMING, OTHER = chain(4), chain(6)[4:], chain(2, topic="other")

READS: MappingProxyType[str, Callable[[StreamPlace], Any]] = MappingProxyType(
    {
        "topics": lambda store: store.topics(),
        "state": lambda store: store.state("t"),
        "state of one not looked at": lambda store: store.state("other"),
        "state of none": lambda store: store.state("none"),
        "state of no name": lambda store: store.state("#"),
        "weight": lambda store: store.weight("t"),
        "weight of one not looked at": lambda store: store.weight("other"),
        "height of a head": lambda store: store.height_of("t", KEPT[3].cid),
        "height of another": lambda store: store.height_of("t", KEPT[0].cid),
        "height of nothing": lambda store: store.height_of("t", bytes(36)),
        "height in a stream not looked at": lambda store: store.height_of("other", KEPT[0].cid),
        "get": lambda store: store.get(KEPT[0].cid),
        "get nothing": lambda store: store.get(bytes(36)),
        "position": lambda store: store.position_of(KEPT[0].cid),
        "after": lambda store: store.after("t", 1, 9),
        "after the last": lambda store: store.after("t", 9, 9),
        "in order": lambda store: store.in_order("t", (0, b""), 9),
        "in order, none": lambda store: store.in_order("t", (0, b""), 0),
        "in order, of none": lambda store: store.in_order("#", (0, b""), 9),
        "offset": lambda store: store.offset("reader", "t"),
        "offset in one not looked at": lambda store: store.offset("reader", "other"),
        "consumers": lambda store: store.consumers("t"),
        "consumers of one not looked at": lambda store: store.consumers("other"),
        "ack": lambda store: store.ack("reader", "t", 2),
        "ack in one not looked at": lambda store: store.ack("reader", "other", 1),
        "drop consumer": lambda store: store.drop_consumer("nobody", "t"),
        "floor": lambda store: store.set_floor("t", 1),
        "keep": lambda store: store.keep(COMING, 1),
        "keep what is there": lambda store: store.keep(KEPT, 1),
    }
)


def outcome(read: Callable[[StreamPlace], Any], store: StreamPlace) -> Any:
    """What comes of it, as far as the same is asked of both."""
    try:
        return read(store)
    except InputError:
        return "fails"


def simulated() -> tuple[SimulatedDisk, StreamPort]:
    disk = SimulatedDisk(DiskConfig(), lambda after_us, action: None, lambda cids: None)
    disk.keep([*KEPT, *OTHER], 0)
    disk.sync()
    return disk, StreamPort(disk)


@pytest.mark.parametrize("name", READS)
def test_simulated_reads_fail_where_live_ones_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(compare(READS[name], tmp_path, monkeypatch))


async def compare(
    read: Callable[[StreamPlace], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, port = simulated()
    node = bytes(32)
    live = await StreamStore.open(tmp_path, node)
    live.keep([*KEPT, *OTHER], 0)
    await live.close()
    live = await StreamStore.open(tmp_path, node)
    stores: list[StreamPlace] = [live, port]
    try:
        assert live.state("t") == port.state("t")
        with monkeypatch.context() as patch:
            for method in vars(StreamsReader):
                if not method.startswith("_") and method != "close":
                    patch.setattr(StreamsReader, method, _fail)
            disk.reads_fail = True
            at_live, at_ours = (outcome(read, store) for store in stores)
            assert at_ours == at_live
        disk.reads_fail = False
        assert outcome(read, live) == outcome(read, port) != "fails"
    finally:
        await live.close()


def _fail(self: StreamsReader, *asked: object) -> None:
    raise InputError("the store cannot be used: disk I/O error")


def test_what_is_not_committed_is_in_memory() -> None:
    disk, port = simulated()
    port.keep(COMING, 0)
    disk.reads_fail = True
    assert port.get(COMING[0].cid) == COMING[0]
    assert port.position_of(COMING[1].cid) == 6
    assert port.height_of("t", COMING[0].cid) == 5
    port.keep(COMING, 0)
    with pytest.raises(InputError):
        port.get(KEPT[0].cid)
    assert disk.get(KEPT[0].cid) == KEPT[0], "who observes a run sees all"


def test_new_life_has_nothing_in_memory() -> None:
    disk, port = simulated()
    port.state("t")
    disk.reads_fail = True
    assert port.state("t").last == 4
    with pytest.raises(InputError):
        StreamPort(disk).state("t")


def plan_of(*steps: ReadsFailStep, memory: bool = False) -> Plan:
    nodes = (PeerPlan(memory=memory), PeerPlan())
    return Plan(1, "poldercast", nodes, (BeginStep(0.1, 0, (1,)), BeginStep(0.1, 1, (0,)), *steps))


def test_step_of_a_plan_makes_reads_fail_for_a_while() -> None:
    step = ReadsFailStep(2.0, 0, 3.0)
    assert isinstance(step, FAULTS)
    assert ends_s(step) == 5.0
    assert told(step) == "   2.00 s  ReadsFail(node=0, for_s=3.0)"
    for memory in (False, True):
        run = PlanRun(plan_of(step, memory=memory), tells=True)
        seen = []
        for at_s in (1.0, 3.0, 6.0):
            run.world.run(at_s)
            seen.append(run.world.nodes[0].disk.reads_fail)
        assert seen == [False, not memory, False]
        assert told(step) in run.story


def test_node_does_not_come_up_before_its_disk_can_be_read() -> None:
    run = PlanRun(plan_of(ReadsFailStep(0.0, 0, 3.0)))
    run.world.run(2.9)
    assert [node.is_up for node in run.world.nodes] == [False, True]
    run.world.run(5)
    assert run.world.nodes[0].is_up


def test_some_plans_have_it_and_their_other_draws_are_as_without() -> None:
    plans = [draw_plan(seed) for seed in range(400)]
    having = [plan for plan in plans if plan.of(ReadsFailStep)]
    assert 8 <= len(having) <= 30
    assert all(len(plan.of(ReadsFailStep)) == 1 and len(plan.of(*FAULTS)) > 1 for plan in having)
