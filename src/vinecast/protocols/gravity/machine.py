"""Gravity on one node: its neighbours, their homes, and its own.

Peers send homes when they like; nothing they send costs more than a filter's worth of work or memory. A home
of another size, an outdated one, a difference to something that is not here: counted and dropped, the last
with a question for all of it. Levels of a home that are too full are kept, for the next difference, and not
used.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bloom import (
    Attenuated,
    apply_difference,
    difference,
    fill_of,
    from_bytes,
    new_filter,
    to_bytes,
)
from vinecast.core.errors import RemoteError
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerLost,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from vinecast.core.machine import NOBODY
from vinecast.protocols.gravity.messages import (
    GravityAsk,
    GravityConfig,
    GravityLeave,
    GravityRefuse,
    GravityUpdate,
)
from vinecast.protocols.gravity.rules import Homes, Levels, Peers, believed, hold_next, hold_own

TIMER = "gravity"


class Gravity:
    """The machine. ``items`` are what level 0 holds, the node's id among them; whoever wires it keeps them.

    homes: [slot, level, word], what neighbours said, believed or not; a neighbour keeps its slot.
    """

    def __init__(self, config: GravityConfig, me: int) -> None:
        shape = (config.degree, config.depth, config.filter_bytes // 8)
        self.config = config
        self.me = me
        self.items: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self.home: Attenuated = new_filter(config.filter_bytes, config.depth)
        self.version = 0
        self.homes: Homes = np.zeros(shape, dtype=np.uint64)
        self._usable = np.zeros(shape[:2], dtype=np.bool_)
        """[slot, level], whether it is believed"""
        self._fill = np.zeros(shape[:2])
        self._slot_of: dict[int, int] = {}
        self._free = list(reversed(range(config.degree)))
        self._version = [0] * config.degree
        """Of a neighbour's home; 0: none has come."""
        self._told = [0] * config.degree
        """The version of this node's home that a neighbour was sent last."""
        self._heard_us = [0] * config.degree
        self._peers: Peers = np.zeros(0, dtype=np.int32)
        self._rows: Peers = np.zeros(0, dtype=np.int32)
        self._levels: Levels = np.zeros(0, dtype=np.uint8)

    @property
    def links(self) -> list[int]:
        """The neighbours, whether or not their homes have come."""
        return list(self._slot_of)

    @property
    def neighbours(self) -> tuple[Peers, Peers, Levels]:
        """Neighbours whose homes have come, ascending; the rows of their homes in ``homes``; and which levels
        of each are believed: bit n for level n."""
        return self._peers, self._rows, self._levels

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, GravityUpdate() as update):
                return self._take(sender, update, now_us)
            case TimerFired(name) if name == TIMER:
                return [SetTimer(TIMER, self.config.period_us), *self.tell_all(now_us)]
            case Received(sender, GravityAsk()):
                return self._answer(sender)
            case Received(sender, GravityRefuse() | GravityLeave()) | PeerLost(sender):
                self.drop(sender)
                return []
            case Start():
                self._heard_us = [now_us] * self.config.degree
                return [SetTimer(TIMER, 0)]
            case Stop():
                return [Send(peer, GravityLeave()) for peer in self._slot_of]
            case _:
                return []

    def link(self, peer: int, now_us: int) -> bool:
        """Make a peer a neighbour; False if it is one, or there is no room."""
        if peer in (self.me, NOBODY) or peer in self._slot_of or not self._free:
            return False
        slot = self._free.pop()
        self._slot_of[peer] = slot
        self._heard_us[slot], self._told[slot], self._version[slot] = now_us, 0, 0
        self.homes[slot], self._usable[slot] = 0, False
        return True

    def drop(self, peer: int) -> None:
        """Forget a neighbour."""
        if peer in self._slot_of:
            self._free.append(self._slot_of.pop(peer))
            self._list_neighbours()

    def _list_neighbours(self) -> None:
        known = sorted((peer, slot) for peer, slot in self._slot_of.items() if self._version[slot])
        self._peers = np.array([peer for peer, _ in known], dtype=np.int32)
        self._rows = np.array([slot for _, slot in known], dtype=np.int32)
        bits = np.uint8(1) << np.arange(self.config.depth, dtype=np.uint8)
        self._levels = (self._usable[self._rows] * bits).sum(axis=1, dtype=np.uint8)

    # The node's own home.

    def tell_all(self, now_us: int) -> list[Effect]:
        """Tell all neighbours what the home is now."""
        effects: list[Effect] = []
        for peer, slot in list(self._slot_of.items()):
            if now_us - self._heard_us[slot] > self.config.fresh_us:
                self.drop(peer)
                effects.append(Count("gravity.silent"))
        old, base = self.home, self.version
        self.home, self.version = self._gather(), max(self.version + 1, now_us)
        whole, changes = to_bytes(self.home), difference(old, self.home)
        for peer, slot in self._slot_of.items():
            differs = base > 0 and self._told[slot] == base and len(changes) < len(whole)
            update = GravityUpdate(self.version, base if differs else 0, changes if differs else whole)
            self._told[slot] = self.version
            effects.append(Send(peer, update))
        return effects

    def _gather(self) -> Attenuated:
        config = self.config
        home = new_filter(config.filter_bytes, config.depth)
        hold_own(home[0], self.items, config.hashes)
        for level in range(1, config.depth):
            rows = self._rows[self._usable[self._rows, level - 1]]
            hold_next(home[level], self.homes, rows, rows.size, level - 1)
        return home

    def _answer(self, sender: int) -> list[Effect]:
        return self.tell(sender) or [Count("gravity.stranger")]

    def tell(self, peer: int) -> list[Effect]:
        """Tell a neighbour all of it now, if there is something to tell."""
        slot = self._slot_of.get(peer)
        if slot is None or not self.version:
            return []
        self._told[slot] = self.version
        return [Send(peer, GravityUpdate(self.version, 0, to_bytes(self.home)))]

    # The neighbours'.

    def _take(self, sender: int, update: GravityUpdate, now_us: int) -> list[Effect]:
        if sender not in self._slot_of and not self.link(sender, now_us):
            return [Count("gravity.no room"), Send(sender, GravityRefuse())]
        slot = self._slot_of[sender]
        if update.version <= self._version[slot]:
            return [Count("gravity.outdated")]
        if update.base and update.base != self._version[slot]:
            return [Count("gravity.gap"), Send(sender, GravityAsk())]
        config = self.config
        try:
            if update.base:
                said = apply_difference(self.homes[slot], update.data)
            else:
                said = from_bytes(update.data, config.filter_bytes, config.depth)
        except RemoteError:
            return [Count("gravity.wrong size")]
        self._version[slot], self._heard_us[slot] = update.version, now_us
        self.homes[slot], self._fill[slot] = said, fill_of(said)
        usable = believed(self._fill[slot], self._fill[self._others(slot)], config.calm, config.crowded)
        self._usable[slot] = usable
        self._list_neighbours()
        return [] if usable.all() else [Count("gravity.too full")]

    def _others(self, slot: int) -> Peers:
        others: Peers = self._rows[self._rows != slot]
        return others
