"""A part of a local network is killed while the others publish, and comes back: what that does to deliveries.

Whole processes are killed, as a system kills them, so their nodes say no goodbye; the others have to find
out. Later the processes are started again. Their nodes are told neither who they are nor what they read nor
whom to join: their folders know.
"""

import asyncio
from collections.abc import Iterable
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vinecast.lab.localnet.network import LocalNetwork

BEFORE_CYCLES = 10  # ours: publishing for so long before the crash
AWAY_CYCLES = 25  # ours: how long the dead stay away
AFTER_CYCLES = 15  # ours: publishing for so long after all are back
BACK_CYCLES = 120  # ours: for all of them to be ready again


class Crash:
    """One crash of a network. ``killed``: the nodes, once they are."""

    NAME = "crash"
    doing = ""

    def __init__(self, network: "LocalNetwork") -> None:
        self.killed: dict[int, tuple[int, tuple[str, ...]]] = {}
        """Node → its point on the circle and its topics, before."""
        self.done = asyncio.Event()
        self._network = network
        self._killed_s = self._back_s = float("inf")
        self._same_point: set[int] = set()
        self._same_topics: set[int] = set()

    async def run(self) -> None:
        """Wait, kill, wait, start again, wait."""
        network, config = self._network, self._network.config
        await network.started.wait()
        await asyncio.sleep(BEFORE_CYCLES * config.period_s)
        doomed = range(config.processes - config.killed, config.processes)
        nodes = [number for process in doomed for number in network.numbers_of(process)]
        members = network.tally.members
        self.killed = {number: (members[number].point, members[number].topics) for number in nodes}
        for number in nodes:
            network.lose(number)
        self._killed_s = network.elapsed_s
        await asyncio.gather(*(network.processes.kill(process) for process in doomed))
        await asyncio.sleep(AWAY_CYCLES * config.period_s)
        await asyncio.gather(*(network.processes.spawn(process) for process in doomed))
        self._back_s = network.elapsed_s
        await asyncio.gather(*map(network.start_node, nodes))
        for _ in range(BACK_CYCLES):
            if all(members[number].ready for number in nodes):
                break
            await asyncio.sleep(config.period_s)
        await asyncio.sleep(AFTER_CYCLES * config.period_s)
        self.done.set()

    def on_up(self, number: int, point: int, topics: Iterable[str]) -> None:
        """A node came up; if it was killed before, see whether it is still the same."""
        before = self.killed.get(number)
        if before is not None:
            if point == before[0]:
                self._same_point.add(number)
            if tuple(sorted(topics)) == before[1]:
                self._same_topics.add(number)

    def summary(self) -> dict[str, Any]:
        """What came of it. An event counts for the survivors if it was published while they were alone."""
        config = self._network.config
        events = self._network.tally.judged
        alone = [event for event in events if self._killed_s <= event.at_s < self._back_s]
        missed_s = [event.at_s - self._killed_s for event in alone if event.got < event.due]
        later = [event for event in events if event.at_s >= self._back_s]
        return {
            "killed": len(self.killed),
            "events": len(alone),
            "due": sum(event.due for event in alone),
            "got": sum(event.got for event in alone),
            "events_missed_by_somebody": len(missed_s),
            "whole_again_after_cycles": ceil(max(missed_s, default=0.0) / config.period_s),
            "came_back": sum(self._network.tally.members[number].ready for number in self.killed),
            "with_their_identity": len(self._same_point),
            "with_their_subscriptions": len(self._same_topics),
            "due_after_return": sum(event.due for event in later),
            "got_after_return": sum(event.got for event in later),
        }
