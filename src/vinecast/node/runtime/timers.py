"""The timers of a live node, and the cycles that they make."""

import asyncio
from collections import Counter
from collections.abc import Callable

from vinecast.core.machine import NOBODY
from vinecast.systems.common.wire import PATIENCE_PERIODS

DIAL_PERIODS = 2
"""Periods that a partner may take for its answer if there is no connection to it yet: it may not exist
(ours)."""
LOOKS_A_PERIOD = 8
"""How often it is looked whether it came (ours)."""


class Timers:
    """The timers of one node's machine. ``fire`` is told when a timer runs out, ``partner_of`` says whom the
    layer of a timer has asked and not heard from, ``is_connected`` whether there is a connection to a
    peer."""

    def __init__(
        self,
        period_us: int,
        now_us: Callable[[], int],
        fire: Callable[[str], None],
        partner_of: Callable[[str], int],
        is_connected: Callable[[int], bool],
        counters: Counter[str],
    ) -> None:
        self._period_us, self._now_us, self._fire = period_us, now_us, fire
        self._partner_of, self._is_connected, self._counters = partner_of, is_connected, counters
        self._running = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._fired_us: dict[str, int] = {}
        """Layer → when it last began an exchange."""
        self._gone: set[int] = set()
        """Partners that said goodbye or could not be reached, lately."""

    def start(self) -> None:
        """Timers can be set from now on."""
        self._running = True

    def stop(self) -> None:
        """No timer runs out any more, and nobody waits for a cycle."""
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.complete()

    def set_timer(self, name: str, after_us: int) -> None:
        """Have a timer run out after so long, and not when it was to before."""
        if not self._running:
            return
        earlier = self._timers.get(name)
        if earlier is not None:
            earlier.cancel()
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(after_us / 1e6, self.ring, name)

    def ring(self, name: str) -> None:
        """A timer has run out."""
        if self._waits_for(name):
            self._counters["exchanges held back"] += 1
            self.set_timer(name, self._period_us // LOOKS_A_PERIOD)
            return
        self._fired_us[name] = self._now_us()
        self._gone.discard(self._partner_of(name))
        self._fire(name)

    def _waits_for(self, layer: str) -> bool:
        """Whether a layer's partner may still answer: it was not asked long ago, and is not known to be gone.

        Where a machine is overloaded answers come late. To gossip more slowly then is better than to take
        everybody for dead.
        """
        partner = self._partner_of(layer)
        if partner == NOBODY or partner in self._gone:
            return False
        waited_us = self._now_us() - self._fired_us.get(layer, 0)
        return (
            waited_us < (PATIENCE_PERIODS if self._is_connected(partner) else DIAL_PERIODS) * self._period_us
        )

    def lose(self, peer: int) -> None:
        """A peer is gone: nobody waits for its answer."""
        if any(self._partner_of(layer) == peer for layer in self._fired_us):
            self._gone.add(peer)

    def complete(self) -> None:
        """A cycle is complete: let those go on who wait for that."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next(self) -> bool:
        """Wait until all layers had their turn once more; False when the node leaves instead."""
        if not self._running:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future
        return self._running
