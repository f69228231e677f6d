"""Simulated disks lose what was not synced, fill up, fail and flip bits."""

import heapq
from collections.abc import Callable

import pytest

from support.stream_events import chain
from vinecast.core.errors import InputError
from vinecast.core.log.retention import Retention
from vinecast.sim.peers.disk import REFUSED, DiskConfig, SimulatedDisk


class Machine:
    """Time, for one disk."""

    def __init__(self, config: DiskConfig | None = None) -> None:
        self.now_us = 0
        self.kept: list[bytes] = []
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self.disk = SimulatedDisk(config or DiskConfig(), self.later, self.kept.extend)

    def later(self, after_us: int, action: Callable[[], object]) -> None:
        heapq.heappush(self._queue, (self.now_us + after_us, len(self.kept) + len(self._queue), action))

    def run(self, for_s: float) -> None:
        until_us = self.now_us + round(for_s * 1e6)
        while self._queue and self._queue[0][0] <= until_us:
            self.now_us, _, action = heapq.heappop(self._queue)
            action()
        self.now_us = until_us


def test_what_is_kept_is_read_at_once_and_safe_later() -> None:
    machine, events = Machine(), chain(3)
    disk = machine.disk
    disk.keep(events, 0)
    assert [one.signed for one in disk.after("t", 0, 10)] == events
    assert not disk.is_safe(events[0].cid)
    machine.run(0.01)
    assert machine.kept == []
    machine.run(0.01)
    assert machine.kept == [one.cid for one in events]
    assert disk.is_safe(events[0].cid)
    assert disk.synced == {one.cid for one in events}


def test_crash_loses_what_was_not_synced_and_nothing_else() -> None:
    machine, events = Machine(), chain(4)
    disk = machine.disk
    disk.keep(events[:2], 0)
    disk.notes.card_version = 5
    machine.run(1)
    disk.keep(events[2:], 0)
    disk.ack("reader", "t", 2)
    disk.notes.card_version = 9
    disk.notes.subscriptions["t"] = None
    disk.begin()
    assert [one.signed for one in disk.after("t", 0, 10)] == events[:2]
    assert disk.offset("reader", "t") == 0
    assert disk.notes.card_version == 5
    assert disk.notes.subscriptions == {}
    machine.run(1)
    assert machine.kept == [one.cid for one in events[:2]], "the commit of the life before is not made up for"


def test_commit_covers_what_was_there_when_it_began() -> None:
    machine, events = Machine(DiskConfig(gather_s=0.005, commit_s=0.01)), chain(4)
    disk = machine.disk
    disk.keep(events[:2], 0)
    disk.notes.card_version = 1
    machine.run(0.01)
    disk.keep(events[2:3], 0)
    disk.ack("reader", "t", 2)
    disk.notes.card_version = 2
    machine.run(0.006)
    assert machine.kept == [one.cid for one in events[:2]], "the third came while the commit was under way"
    assert [disk.is_safe(one.cid) for one in events[:3]] == [True, True, False]
    disk.keep(events[3:], 0)
    machine.run(0.005)
    disk.begin()
    assert [one.signed for one in disk.after("t", 0, 10)] == events[:2]
    assert (disk.offset("reader", "t"), disk.notes.card_version) == (0, 1)
    machine.run(1)
    assert len(machine.kept) == 2


def test_what_waited_for_a_commit_has_the_next_one() -> None:
    machine, events = Machine(DiskConfig(gather_s=0.005, commit_s=0.01)), chain(3)
    machine.disk.keep(events[:1], 0)
    machine.run(0.01)
    machine.disk.keep(events[1:], 0)
    machine.run(0.019)
    assert len(machine.kept) == 1
    machine.run(0.002)
    assert machine.kept == [one.cid for one in events]
    machine.run(1)
    assert machine.disk.counters["commits"] == 2


def test_commit_that_fails_is_tried_again_as_it_was() -> None:
    machine, events = Machine(), chain(3)
    disk = machine.disk
    disk.fails = True
    disk.keep(events[:1], 0)
    machine.run(0.1)
    disk.keep(events[1:], 0)
    disk.fails = False
    machine.run(0.43)
    assert machine.kept == [events[0].cid]
    machine.run(0.02)
    assert machine.kept == [one.cid for one in events]


def test_number_is_never_given_twice() -> None:
    machine = Machine()
    disk = machine.disk
    disk.begin()
    assert [disk.next_sequence() for _ in range(3)] == [1, 2, 3]
    disk.begin()  # nothing was committed, and it crashed
    assert disk.next_sequence() > 3
    last = disk.next_sequence()
    disk.sync()
    disk.begin()
    assert disk.next_sequence() == last + 1, "a good end skips none"
    given = [disk.next_sequence() for _ in range(200_000)]
    machine.run(1)
    disk.begin()
    assert disk.next_sequence() > given[-1]


def test_failing_disk_tries_again_ever_later() -> None:
    machine, events = Machine(), chain(2)
    disk = machine.disk
    disk.fails = True
    disk.keep(events, 0)
    machine.run(4)
    assert disk.counters["commits failed"] == 4  # after 0.015, 0.525, 1.535 and 3.545 s
    assert machine.kept == []
    disk.fails = False
    machine.run(4)
    assert machine.kept == [one.cid for one in events]


def test_disk_that_waits_too_long_takes_nothing() -> None:
    machine, events = Machine(DiskConfig(waiting_bytes_max=600)), chain(8)
    disk = machine.disk
    disk.fails = True
    for one in events:
        disk.keep([one], 0)
    assert disk.is_crowded
    assert disk.is_full
    refused = disk.counters[REFUSED]
    assert 0 < refused < 8
    assert len(disk.after("t", 0, 10)) == 8 - refused
    disk.fails = False
    machine.run(10)
    assert not disk.is_crowded


def test_flipped_bit_is_found_when_it_is_read() -> None:
    machine, events = Machine(), chain(3)
    disk = machine.disk
    disk.keep(events, 0)
    machine.run(1)
    disk.flip(events[1].cid)
    assert disk.get(events[0].cid) == events[0]
    assert disk.get(events[1].cid) is None
    with pytest.raises(InputError):
        disk.after("t", 0, 10)
    assert [one.signed for one in disk.in_order("t", (0, b""), 10)] == [events[0], events[2]]
    assert disk.after("t", 2, 10) == disk.after("t", 2, 10)
    assert disk.readable() == [events[0], events[2]]
    disk.begin()
    assert disk.get(events[1].cid) is None


def test_node_without_a_disk_has_it_safe_at_once() -> None:
    machine = Machine(DiskConfig(is_memory=True))
    machine.disk.keep(chain(1), 0)
    machine.run(0)
    assert len(machine.kept) == 1


def test_good_end_writes_all_unless_the_disk_fails() -> None:
    for fails in (False, True):
        machine, events = Machine(), chain(1)
        machine.disk.keep(events, 0)
        machine.disk.fails = fails
        machine.disk.sync()
        machine.disk.begin()
        assert len(machine.disk.after("t", 0, 1)) == (0 if fails else 1)


def test_good_end_writes_what_waits_for_the_commit_under_way() -> None:
    machine, events = Machine(), chain(2)
    machine.disk.keep(events[:1], 0)
    machine.run(0.01)
    machine.disk.keep(events[1:], 0)
    machine.disk.sync()
    assert machine.kept == [one.cid for one in events]
    machine.run(1)
    machine.disk.begin()
    assert machine.kept == [one.cid for one in events]
    assert len(machine.disk.after("t", 0, 9)) == 2


def test_retention_is_written_too() -> None:
    machine, events = Machine(), chain(5)
    machine.disk.keep(events, 0)
    machine.run(1)
    machine.disk.retain_all(Retention(events=2), machine.now_us)
    machine.run(1)
    machine.disk.begin()
    assert [one.signed for one in machine.disk.after("t", 0, 9)] == events[3:]
