"""The own-regularity service's arithmetic: the log's marks summed up by slots as they come.

``times`` = (first, last, window, running): when the node first came on line, the latest time that it knows
of, the number of the slot's window that this lies in, counted from time 0, and the on-line time in this
window so far. Time that has been counted is never counted again, whatever the clock does; a clock that was
set back counts for nothing until it has caught up.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import add_session, set_pattern
from vinecast.core.rule import rule

FIRST, LAST, WINDOW, RUNNING = range(4)
NEVER = -(1 << 62)
"""The times of a node that was never on line."""

Times = NDArray[np.int64]


def make_times(shape: tuple[int, ...] = ()) -> Times:
    """Of a node, or of so many, that was never on line. [4] or [node, 4]"""
    times = np.full((*shape, 4), NEVER, dtype=np.int64)
    times[..., RUNNING] = 0
    return times


@rule
def mark_on(times: Times, now: int) -> None:
    """ON: whatever has passed since the last mark was off line. times: [2]"""
    if times[FIRST] == NEVER:
        times[FIRST] = now
    times[LAST] = max(int(times[LAST]), now)


@rule
def mark_still_on(times: Times, online: Times, now: int, gap_max: int, cycle: int, slot: int) -> None:
    """BO or OFF: the node was on line since the last mark, unless that is so long ago that the machine must
    have slept, or the clock jumped ahead. online: [slot]"""
    last = int(times[LAST])
    if last < now:
        if now - last <= gap_max:
            count(times, online, last, now, cycle, slot)
        times[LAST] = now


@rule
def count(times: Times, online: Times, on: int, off: int, cycle: int, slot: int) -> None:
    """Count a stretch of time on line; what lies in the last window is remembered besides."""
    add_session(on, off, cycle, slot, online)
    window = off // slot
    if times[WINDOW] != window:
        times[WINDOW], times[RUNNING] = window, 0
    times[RUNNING] += off - max(on, window * slot)


@rule
def find_pattern(
    times: Times,
    online: Times,
    cycle: int,
    slot: int,
    threshold: int,
    with_running: bool,
    observed: Times,
    pattern: NDArray[np.bool_],
) -> None:
    """Where the node is regular, by all that was observed from its first coming on line to its last mark.

    Unless ``with_running``, the window that is running now does not count.
    online, observed (for use in here), pattern: [slot]
    """
    observed[:] = 0
    if times[FIRST] == NEVER:
        set_pattern(online, observed, threshold, pattern)
        return
    first, last = int(times[FIRST]), int(times[LAST])
    window, running = last // slot, 0
    if not with_running:
        last = window * slot
        running = int(times[RUNNING]) if times[WINDOW] == window else 0
    if first < last:
        add_session(first, last, cycle, slot, observed)
    present = window * slot % cycle // slot
    online[present] -= running
    set_pattern(online, observed, threshold, pattern)
    online[present] += running
