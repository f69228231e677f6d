"""Where a lookup of a value goes next, and how a range is divided among those who are known.

``peers`` is a row of neighbours, packed at the front; ``missed`` says how many messages each has left
unanswered, and who has left more than one is passed over. Where everybody is, ``table`` says
(``core/arrays/profiles``). No two nodes are at the same place. Ranges are given by their first and last
place, both included, and never wrap around.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule

Peers = NDArray[np.int32]
Places = NDArray[np.int64]
Missed = NDArray[np.uint8]

Parts = tuple[Peers, Places, Places]
"""To whom the parts of a range go, and their first and last places: three times [part]. A plain tuple, as in
Cyclon's rules: an event is on its way."""

Near = tuple[Peers, Missed]

TRUSTED = 1  # ours: messages that a neighbour may leave unanswered; one is always just on its way


@rule
def next_hop(me: int, value: int, peers: Peers, missed: Missed, table: Table) -> int:
    """Who is next on the way to a value's owner; NOBODY if that is oneself, as far as one knows.

    From below a lookup comes nearer until nobody is; then it goes to the first node at or after the value,
    and from above only to nodes between the value and the last one. Where everybody knows its neighbours on
    the ring it ends at the owner; where not, it may come back to a node, and whoever carries it must notice.
    """
    circle = int(table.circle[0])
    mine = (int(table.place[me]) - value) % circle
    first, least = NOBODY, circle
    nearest, far = NOBODY, circle - mine
    for slot in range(peers.size):
        if peers[slot] == NOBODY:
            break
        if missed[slot] > TRUSTED:
            continue
        above = (int(table.place[peers[slot]]) - value) % circle
        if above < least:
            first, least = int(peers[slot]), above
        if min(above, circle - above) < far:
            nearest, far = int(peers[slot]), min(above, circle - above)
    if least >= mine:
        return NOBODY
    if mine <= circle // 2 or nearest == NOBODY:
        return first
    return nearest


@rule
def _next(me: int, peers: Peers, missed: Missed, table: Table, way: int) -> int:
    """The next node going up (way = 1) or down (−1), or NOBODY."""
    circle, here = int(table.circle[0]), int(table.place[me])
    found, least = NOBODY, circle
    for slot in range(peers.size):
        if peers[slot] == NOBODY:
            break
        if missed[slot] > TRUSTED:
            continue
        along = way * (int(table.place[peers[slot]]) - here) % circle
        if along < least:
            found, least = int(peers[slot]), along
    return found


@rule
def successor(me: int, peers: Peers, missed: Missed, table: Table) -> int:
    """The next node going up, or NOBODY."""
    return _next(me, peers, missed, table, 1)


@rule
def predecessor(me: int, peers: Peers, missed: Missed, table: Table) -> int:
    """The next node going down, or NOBODY."""
    return _next(me, peers, missed, table, -1)


@rule
def shower(me: int, low: int, high: int, peers: Peers, missed: Missed, table: Table, parts: Parts) -> int:
    """Divide what a node does not own of a range among others (S2 Algorithm 10); how many parts there are.

    parts: room for two more than there are peers
    """
    near = peers, missed
    last = predecessor(me, peers, missed, table)
    if last == NOBODY:
        return 0
    circle, span = int(table.circle[0]), high - low
    before, here = (int(table.place[last]) - low) % circle, (int(table.place[me]) - low) % circle
    if before > here:  # the range begins in one's own arc; all around the circle, it may end there too
        return _divide(me, low, here + 1, min(before, span), near, table, parts, 0)
    if before >= span:
        return _divide(me, low, 0, span, near, table, parts, 0)
    count = _divide(me, low, 0, before, near, table, parts, 0)
    return _divide(me, low, here + 1, span, near, table, parts, count)


@rule
def _divide(
    me: int,
    low: int,
    begin: int,
    end: int,
    near: tuple[Peers, Missed],
    table: Table,
    parts: Parts,
    count: int,
) -> int:
    """Hand on a part of a range that is not one's own, given by distances from its beginning.

    Everybody in it gets what lies nearer to itself than to the next, which then spreads up and down the
    ring; if nobody is in it, it goes on its way as a whole.
    """
    if begin > end:
        return count
    peers, missed = near
    to, lows, highs = parts
    circle, first = int(table.circle[0]), count
    for slot in range(peers.size):
        if peers[slot] == NOBODY:
            break
        if missed[slot] > TRUSTED:
            continue
        at = (int(table.place[peers[slot]]) - low) % circle
        if begin <= at <= end:
            place = count
            while place > first and highs[place - 1] > at:
                to[place], highs[place] = to[place - 1], highs[place - 1]
                place -= 1
            to[place], highs[place] = peers[slot], at
            count += 1
    if count == first:
        to[count], highs[count] = next_hop(me, low + begin, peers, missed, table), end
        count += 1
    for part in range(first, count):
        lows[part] = low + begin
        until = (int(highs[part]) + int(highs[part + 1])) // 2 if part + 1 < count else end
        highs[part], begin = low + until, until + 1
    return count
