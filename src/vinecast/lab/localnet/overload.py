"""A node of a local network publishes more than can be read, and then more than can be carried: what becomes
of every event.

One topic has two subscribers, a publisher and a reader whose application rests after each event, so that an
event has one way to go. Each one is read, or it found no room to wait for the reader, or no neighbour took
it, or the publisher was told that it could not be published: nothing else can happen to it, and the sums
must be exact.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vinecast.lab.localnet.messages import Following, FollowTopic, PublishedMuch, PublishMuch

if TYPE_CHECKING:
    from vinecast.lab.localnet.network import LocalNetwork

TOPIC = "overload"
PAUSE_S = 0.02  # ours: what the reader rests
FASTER = 10.0  # so many times faster than it reads are events published
STEPS = 2
STEP_S = 3.0  # ours: how long each step takes
SMALL, LARGE, AT_ONCE = 100, 50_000, 64  # ours: bytes of an event, and publishers that want the network full
SETTLE_S = 20.0  # ours: for the last events to arrive and be read


@dataclass(frozen=True, slots=True)
class OverloadStep:
    """What was published in one step, and what the reader had of it."""

    name: str
    told: PublishedMuch
    read: int
    dropped: int

    def summary(self) -> dict[str, Any]:
        """Every event of the step, by what became of it."""
        told = self.told
        return {
            "step": self.name,
            "seconds": round(told.seconds, 3),
            "published": told.published,
            "published_per_s": round(told.published / (told.seconds or 1.0), 1),
            "refused_to_the_publisher": told.refused,
            "due": told.published,
            "delivered": self.read,
            "dropped": {"subscriber too slow": self.dropped, "no neighbour took it": told.unheard},
            "unaccounted": told.published - self.read - self.dropped - told.unheard,
        }


class Overload:
    """All steps. ``publisher`` and ``reader``: the nodes; ``doing``: which step it is."""

    NAME = "overload"

    def __init__(self, network: "LocalNetwork") -> None:
        self.publisher, self.reader = 0, network.config.nodes - 1
        self.doing = ""
        self.done = asyncio.Event()
        self._network = network
        self._steps: list[OverloadStep] = []
        self._before_bytes = 0

    async def run(self) -> None:
        """Make the two nodes follow the topic, then overload first the reader, then the network."""
        network = self._network
        await network.started.wait()
        await asyncio.gather(
            network.tell_and_wait(FollowTopic(self.publisher, TOPIC, 0.0), Following),
            network.tell_and_wait(FollowTopic(self.reader, TOPIC, PAUSE_S), Following),
        )
        self._before_bytes = self._resident_bytes()
        network.tally.highest_bytes.clear()
        rate = FASTER / PAUSE_S
        await self._step("faster than the reader", PublishMuch(self.publisher, TOPIC, STEP_S, SMALL, rate, 0))
        await self._step(
            "faster than the network", PublishMuch(self.publisher, TOPIC, STEP_S, LARGE, 0, AT_ONCE)
        )
        self.doing = ""
        self.done.set()

    async def _step(self, name: str, order: PublishMuch) -> None:
        self.doing = name
        before, _, before_dropped = self._reading()
        told = await self._network.tell_and_wait(order, PublishedMuch)
        if told is None:  # its process is gone
            return
        due = told.published - told.unheard
        end = asyncio.get_running_loop().time() + SETTLE_S
        while True:
            await self._network.hear_from(self.reader % self._network.config.processes, 1)
            read, waiting, dropped = self._reading()
            read, dropped = read - before, dropped - before_dropped
            if asyncio.get_running_loop().time() > end or (waiting == 0 and read + dropped == due):
                break
        self._steps.append(OverloadStep(name, told, read, dropped))

    def _reading(self) -> tuple[int, int, int]:
        """What the reader has read, what waits for it, and what was dropped."""
        report = self._network.tally.reports[self.reader % self._network.config.processes]
        return next(((r, w, d) for node, r, w, d in report.followed if node == self.reader), (0, 0, 0))

    def _resident_bytes(self) -> int:
        return sum(report.resident_bytes for report in self._network.tally.reports.values())

    def summary(self) -> dict[str, Any]:
        """What came of it."""
        return {
            "finished": len(self._steps) == STEPS,
            "publisher": self.publisher,
            "reader": self.reader,
            "reads_per_s_max": round(1 / PAUSE_S, 1),
            "waiting_max": self._network.config.node.waiting,
            "steps": [step.summary() for step in self._steps],
            "resident_mb": {
                "before": round(self._before_bytes / 1e6, 1),
                "highest": round(sum(self._network.tally.highest_bytes.values()) / 1e6, 1),
                "after": round(self._resident_bytes() / 1e6, 1),
            },
        }
