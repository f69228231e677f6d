"""A process of the benchmark: one member of a network, ours or somebody else's, that does what it is told.

Started as ``python -m vinecast.lab.bench.member SETTINGS``. Orders come on standard input, answers go
to standard output, both as lines of JSON. Every member counts in the same way: an event's payload says which
run it belongs to, its number there and when it was sent, and each number counts once.
"""

import asyncio
import json
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from vinecast.core.errors import VinecastError
from vinecast.node.runtime.loop import run

TOPIC = "bench"
PAYLOAD_BYTES = 256
WAITING = 1_000_000  # ours: events that may wait for the reader; what is measured is not how readers are slow
HAND_MAX = 256  # ours: events that a publisher takes in hand at the most
_mark = struct.Struct(">IIQ")
_FILL = bytes(PAYLOAD_BYTES - _mark.size)

Read = Callable[[], Awaitable[str]]
"""The next line of the input; empty at its end."""
Sleep = Callable[[float], Awaitable[object]]
Publish = Callable[["BenchMember", Sleep, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Does what an order to publish says; what became of it, for the parent."""


class BenchMember(Protocol):
    """A node, of Vinecast or of a rival, as a benchmark drives it."""

    async def join(self, peers: list[str]) -> None:
        """Get to know those who were there before."""

    async def ready(self, members: int) -> None:
        """Wait until events would reach all members."""

    async def publish(self, payloads: list[bytes]) -> None:
        """Publish these; together, if there are several and that makes a difference."""


class ArrivalTally:
    """What arrived of one run."""

    def __init__(self) -> None:
        self._run, self._wanted, self._timed = -1, 0, False
        self._seen: set[int] = set()
        self._took_us: list[int] = []
        self._last_s = 0.0

    def expect(self, run: int, events: int, timed: bool) -> None:
        """From now on only events of this run count; ``timed``: note how long each was under way."""
        self._run, self._wanted, self._timed = run, events, timed
        self._seen, self._took_us = set(), []

    def take(self, payload: bytes) -> None:
        """An event reached the application."""
        run, number, sent_us = _mark.unpack_from(payload)
        if run == self._run:
            if self._timed:
                self._took_us.append(time.time_ns() // 1000 - sent_us)
            self._seen.add(number)
            self._last_s = time.monotonic()
            if len(self._seen) == self._wanted:
                self._wanted = -1
                say({"is": "got", "run": run})

    @property
    def count(self) -> int:
        """How many events."""
        return len(self._seen)

    def told(self) -> dict[str, Any]:
        """For the parent."""
        took = sorted(self._took_us)
        times = {f"p{share}_ms": took[len(took) * share // 100] / 1e3 for share in (50, 99)} if took else {}
        last_s = self._last_s  # on the clock that all processes of a machine share
        return {"events": len(self._seen), "cpu_s": time.process_time(), "last_s": last_s, **times}


def payloads_of(run: int, first: int, count: int) -> list[bytes]:
    """So many payloads, sent now, numbered from the first."""
    now_us = time.time_ns() // 1000
    return [_mark.pack(run, first + i, now_us) + _FILL for i in range(count)]


def say(what: dict[str, Any]) -> None:
    """Tell the parent."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def serve(
    member: BenchMember, tally: ArrivalTally, read: Read, sleep: Sleep, publish: Publish | None = None
) -> None:
    """Do what the parent says, on whatever event loop; until it has nothing more to say. ``publish``: another
    way to publish a run's events than the usual."""
    publish = publish or _publish
    while line := await read():
        order = json.loads(line)
        match order["do"]:
            case "join":
                await member.join(order["peers"])
                say({"is": "joined"})
            case "ready":
                await member.ready(order["members"])
                say({"is": "ready"})
            case "expect":
                tally.expect(order["run"], order["events"], order["timed"])
                say({"is": "expecting"})
            case "publish":
                say({"is": "published", **await publish(member, sleep, order)})
            case "count":
                say({"is": "count", "events": tally.count})
            case "tell":
                say({"is": "told", **tally.told()})


async def _publish(member: BenchMember, sleep: Sleep, order: dict[str, Any]) -> dict[str, Any]:
    """Publish a run's events, by the clock or as fast as it goes; how many could be."""
    events, rate = order["events"], order["rate"]
    begin, sent = time.perf_counter(), 0
    while sent < events:
        hand = min(order["hand"], events - sent)
        if rate:
            elapsed = time.perf_counter() - begin
            if elapsed > order["patience_s"]:
                break
            hand = min(int(elapsed * rate) + 1, events, sent + HAND_MAX) - sent
            if hand <= 0:
                await sleep(sent / rate - elapsed)
                continue
        try:
            await member.publish(payloads_of(order["run"], sent, hand))
        except VinecastError:
            break
        sent += hand
    return {"events": sent}


async def read_line() -> str:
    """A line of the input, read beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def _main(settings: dict[str, Any]) -> None:
    from vinecast.lab.bench.vinecast_member import vinecast_node

    await vinecast_node(settings)


if __name__ == "__main__":
    run(_main(json.loads(sys.argv[1])))
