"""The own-regularity services of a whole population: the same rules, applied to every node's row.

All clocks show the same time, so that everybody is in the same slot.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import Patterns, pack
from vinecast.core.rule import rule
from vinecast.protocols.regularity import rules
from vinecast.protocols.regularity.config import RegularityConfig
from vinecast.protocols.regularity.rules import Times

Flags = NDArray[np.bool_]


class RegularityLayer(NamedTuple):
    """Everybody's log and pattern, and how time is divided."""

    times: Times
    """[node, 4]"""
    online_us: Times
    """[node, slot]"""
    last_slot: NDArray[np.int32]
    """[node], the slot in which its pattern was found, or −1"""
    stale: Flags
    """[node], whether the pattern is to be found anew"""
    regular: Flags
    """[node, slot]"""
    packed: NDArray[np.uint64]
    """[node, word]"""
    cycle: int
    slot: int


class RegularitySweep:
    """A population of services. times: [node, 4]; online_us: [node, slot]; slot, round: of the present
    period."""

    def __init__(self, config: RegularityConfig, patterns: Patterns, gap_us_max: int) -> None:
        nodes, slots = patterns.regular.shape
        self.config = config
        self.patterns = patterns
        self.slot = -1
        self.round = 0
        self.times = rules.make_times((nodes,))
        self.online_us: Times = np.zeros((nodes, slots), dtype=np.int64)
        self.last_slot: NDArray[np.int32] = np.full(nodes, -1, dtype=np.int32)
        self.stale: Flags = np.ones(nodes, dtype=np.bool_)
        self._grid = config.grid
        self._gap_us_max = gap_us_max

    @property
    def _layer(self) -> RegularityLayer:
        patterns, grid = self.patterns, self._grid
        return RegularityLayer(
            self.times, self.online_us, self.last_slot, self.stale, patterns.regular, patterns.packed,
            grid.cycle, grid.slot,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of all of it, patterns included."""
        arrays = (
            self.times,
            self.online_us,
            self.last_slot,
            self.stale,
            self.patterns.regular,
            self.patterns.packed,
        )
        return sum(array.nbytes for array in arrays)

    def start(self, nodes: NDArray[np.int64], now_us: int) -> None:
        """Nodes come on line: each notes it in its log."""
        start_nodes(self.times, self.stale, nodes, now_us)

    def forget_state(self, nodes: NDArray[np.int64]) -> None:
        """Lose the log, and the pattern with it."""
        self.times[nodes] = rules.make_times()
        self.online_us[nodes], self.last_slot[nodes] = 0, -1
        self.stale[nodes] = True

    def mark_still_on(self, online: Flags, now_us: int, begin: int, end: int) -> None:
        """BO for the nodes begin … end−1 that are on line."""
        mark_nodes(self._layer, online, now_us, self._gap_us_max, begin, end)

    def begin_period(self, now_us: int) -> None:
        """Look at the clock: everybody's slot from now on."""
        self.slot, self.round = self._grid.slot_at(now_us), now_us // self._grid.cycle

    def refresh(self, online: Flags, begin: int, end: int) -> None:
        """Find the patterns of the nodes begin … end−1 that are on line, where that is due."""
        always, given, threshold = self.config.refresh == "cycle", self.patterns.given, self.config.threshold
        refresh_nodes(self._layer, online, self.slot, always, given, threshold, begin, end)


@rule
def start_nodes(times: Times, stale: Flags, nodes: NDArray[np.int64], now: int) -> None:
    """``mark_on`` for each of ``nodes``."""
    for i in range(nodes.size):
        rules.mark_on(times[nodes[i]], now)
        stale[nodes[i]] = True


@rule
def mark_nodes(layer: RegularityLayer, online: Flags, now: int, gap_max: int, begin: int, end: int) -> None:
    """``mark_still_on`` for whoever is on line."""
    for p in range(begin, end):
        if online[p]:
            rules.mark_still_on(layer.times[p], layer.online_us[p], now, gap_max, layer.cycle, layer.slot)


@rule
def refresh_nodes(
    layer: RegularityLayer,
    online: Flags,
    present: int,
    always: bool,
    given: bool,
    threshold: int,
    begin: int,
    end: int,
) -> None:
    """``begin_period``, after the mark, for whoever is on line."""
    cycle, slot = layer.cycle, layer.slot
    times, online_us, regular, packed = layer.times, layer.online_us, layer.regular, layer.packed
    observed = np.zeros(online_us.shape[1], dtype=np.int64)
    for p in range(begin, end):
        if not online[p]:
            continue
        if not given and (always or layer.stale[p] or layer.last_slot[p] != present):
            rules.find_pattern(times[p], online_us[p], cycle, slot, threshold, always, observed, regular[p])
            pack(regular[p], packed[p])
        layer.last_slot[p], layer.stale[p] = present, False
