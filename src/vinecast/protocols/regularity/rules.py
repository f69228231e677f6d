"""The own-regularity service's arithmetic: the log's marks summed up by slots as they come.

``times`` = (first, last): when the node first came on line, and the latest time that it knows of. Time that
has been counted is never counted again, whatever the clock does; a clock that was set back counts for nothing
until it has caught up.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.regularity import add_session, set_pattern
from vinecast.core.rule import rule

FIRST, LAST = 0, 1
NEVER = -(1 << 62)
"""The times of a node that was never on line."""

Times = NDArray[np.int64]


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
            add_session(last, now, cycle, slot, online)
        times[LAST] = now


@rule
def find_pattern(
    times: Times,
    online: Times,
    cycle: int,
    slot: int,
    threshold: int,
    observed: Times,
    pattern: NDArray[np.bool_],
) -> None:
    """Where the node is regular, by all that was observed from its first coming on line to its last mark.

    online, observed (for use in here), pattern: [slot]
    """
    observed[:] = 0
    if times[FIRST] != NEVER:
        add_session(int(times[FIRST]), int(times[LAST]), cycle, slot, observed)
    set_pattern(online, observed, threshold, pattern)
