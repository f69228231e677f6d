"""Whom to forward an event to.

Ring neighbours first, then random subscribers out of the node's views: candidates stand in a list in the
order of the views, and keyed draws pick from it without repetition. Machine and sweep have the same views in
the same order, so they pick the same, whether they call peers by their numbers or by their places in a topic.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table, row_of
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.draws import below, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule

_COIN = purpose("ringcast.coin")
_SHORTCUT = purpose("ringcast.shortcut")

Peers = NDArray[np.int32]


@inner_rule
def choose_ring(lower: int, higher: int, sender: int, targets: Peers) -> int:
    """The ring neighbours that the event did not come from; how many.

    lower, higher: the ring neighbours, or NOBODY; on a ring of two they are the same peer.
    """
    targets[0] = lower
    count = int((lower != NOBODY) & (lower != sender))  # no branches: which way they go is anybody's guess
    targets[count] = higher
    return count + int((higher != NOBODY) & (higher != sender) & (higher != lower))


@rule
def stand_by(ring: Peers, target: int, sender: int) -> int:
    """Who gets an event if a target cannot be reached, or NOBODY (S0 §5.1, §6.6).

    For the nearest on a side of the ring it is the second nearest, unless that one has sent the event or gets
    it anyway, as the nearest on the other side. ring: [place on the ring], half of them on each side
    """
    half = ring.size // 2
    side = 0 if target == ring[0] else half
    if half < 2 or target != ring[side]:
        return NOBODY
    second = int(ring[side + 1])
    return NOBODY if second == sender or second == ring[half - side] else second


@inner_rule
def shortcuts_wanted(lower: int, higher: int, sender: int, fanout: int) -> int:
    """f − 1 shortcuts if the event came along the ring, else f − 2 (S0 §4.2)."""
    along = (sender != NOBODY) & ((sender == lower) | (sender == higher))
    return max(fanout - 2 + int(along), 0)


@inner_rule
def takes_near(seed: int, event: int, me: int) -> bool:
    """Where shortcuts are mixed: whether a node takes an event's from Vicinity's view, else from Cyclon's."""
    return below(stream(seed, _COIN, event, me), 0, 2) == 0


@rule
def list_subscribers(topic: int, me: int, count: int, table: Table, scratch: Scratch) -> int:
    """Keep those of the scratch's candidates that subscribe to a topic, in their order; how many."""
    kept = 0
    for i in range(count):
        peer = int(scratch.peers[i])
        if peer != me and row_of(table, peer, topic) >= 0:
            scratch.peers[kept] = peer
            kept += 1
    return kept


@rule
def leave_out(subscribers: Peers, lower: int, higher: int, sender: int, kept: Peers) -> int:
    """Those that may be a shortcut for an event: not the ring neighbours, not the sender; how many."""
    count = 0
    for peer in subscribers:
        if peer != lower and peer != higher and peer != sender:
            kept[count] = peer
            count += 1
    return count


@inner_rule
def pick_shortcuts(
    seed: int, event: int, me: int, candidates: Peers, count: int, wanted: int, targets: Peers, filled: int
) -> int:
    """Append up to ``wanted`` random ones of the first ``count`` candidates to the targets; the new length.

    The candidates are left in another order.
    """
    key = stream(seed, _SHORTCUT, event, me)
    for i in range(min(wanted, count)):
        chosen = i + below(key, i, count - i)
        targets[filled] = candidates[chosen]
        candidates[chosen] = candidates[i]
        filled += 1
    return filled
