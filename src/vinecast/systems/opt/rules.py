"""The choice of neighbours in OPT: as few as cover all topics, taken greedily (after SpiderCast; S2 §3.6).

The next neighbour is always the one that shares most topics that still lack neighbours. What a candidate adds
only falls as others are chosen, so that one whose old value is no longer the highest need not be looked at
again.
"""

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import Scratch, unmark
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule, word

_ZERO = word(0)
_ONE = word(1)


@rule
def count_lacking(peer: int, table: Table, scratch: Scratch) -> int:
    """How many topics of a peer still lack neighbours. The scratch's marks say how many each lacks."""
    found = 0
    for row in range(table.beg[peer], table.beg[peer] + table.cnt[peer]):
        if scratch.mark[table.topics[row]] > _ZERO:
            found += 1
    return found


@rule
def select_covering(me: int, coverage: int, count: int, most: int, table: Table, scratch: Scratch) -> int:
    """Choose neighbours until every topic has ``coverage`` of them, or nobody adds anything, or there are
    ``most``. ``scratch.best`` receives the places of the chosen; how many they are. The first candidate among
    equals is taken: who is a neighbour stays one."""
    begin, end = int(table.beg[me]), int(table.beg[me]) + int(table.cnt[me])
    for row in range(begin, end):
        scratch.mark[table.topics[row]] = coverage
    for place in range(count):
        scratch.weight[place] = count_lacking(int(scratch.peers[place]), table, scratch)
    found = 0
    while found < most:
        best = NOBODY
        for place in range(count):
            if scratch.weight[place] > 0 and (best == NOBODY or scratch.weight[place] > scratch.weight[best]):
                best = place
        if best == NOBODY:
            break
        peer = int(scratch.peers[best])
        adds = count_lacking(peer, table, scratch)
        if adds < scratch.weight[best]:
            scratch.weight[best] = adds
            continue
        scratch.weight[best] = 0
        scratch.best[found] = best
        found += 1
        for row in range(table.beg[peer], table.beg[peer] + table.cnt[peer]):
            if scratch.mark[table.topics[row]] > _ZERO:
                scratch.mark[table.topics[row]] -= _ONE
    unmark(scratch.mark, table.topics[begin:end])
    return found
