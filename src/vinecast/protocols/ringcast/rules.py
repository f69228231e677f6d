"""Whom to forward an event to.

Shortcuts are chosen by a keyed order that depends on the event, the node and the candidate alone, so that it
does not matter in which order candidates are met: the machine goes through a list when an event arrives, the
sweep through all nodes before any does.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import purpose, stream
from vinecast.core.interest import Scratch, tie_break
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Table
from vinecast.core.rule import rule

_SHORTCUT = purpose("ringcast.shortcut")

Peers = NDArray[np.int32]
Order = NDArray[np.uint64]


@rule
def shortcut_key(seed: int, event: int, me: int) -> int:
    """The key of a node's choice of shortcuts for an event."""
    return stream(seed, _SHORTCUT, event, me)


@rule
def consider_shortcut(shortcuts: Peers, order: Order, key: int, peer: int) -> None:
    """Keep the candidates that come first in the keyed order. shortcuts, order: [choice], first first"""
    place = tie_break(key, peer)
    at = shortcuts.size
    while at > 0 and (shortcuts[at - 1] == NOBODY or place < order[at - 1]):
        if at < shortcuts.size:
            shortcuts[at], order[at] = shortcuts[at - 1], order[at - 1]
        at -= 1
    if at < shortcuts.size:
        shortcuts[at], order[at] = peer, place


@rule
def subscribes(table: Table, peer: int, topic: int) -> bool:
    """Whether a peer's profile has the topic (binary search)."""
    low, high = table.beg[peer], table.beg[peer] + table.cnt[peer]
    while low < high:
        middle = (low + high) // 2
        if table.topics[middle] < topic:
            low = middle + 1
        else:
            high = middle
    return bool(low < table.beg[peer] + table.cnt[peer] and table.topics[low] == topic)


@rule
def choose_shortcuts(
    seed: int,
    event: int,
    topic: int,
    me: int,
    lower: int,
    higher: int,
    count: int,
    table: Table,
    scratch: Scratch,
    shortcuts: Peers,
    order: Order,
) -> None:
    """The first ``shortcuts.size`` subscribers of the topic among the scratch's candidates, ring neighbours
    left out. The rest is filled with NOBODY."""
    key = shortcut_key(seed, event, me)
    for i in range(shortcuts.size):
        shortcuts[i] = NOBODY
    for i in range(count):
        peer = int(scratch.peers[i])
        if peer != me and peer != lower and peer != higher and subscribes(table, peer, topic):
            consider_shortcut(shortcuts, order, key, peer)


@rule
def choose_targets(
    lower: int, higher: int, sender: int, fanout: int, shortcuts: Peers, targets: Peers
) -> int:
    """Whom to forward an event to, ring neighbours first; how many. The sender is never among them.

    lower, higher: the ring neighbours, or NOBODY; on a ring of two they are the same peer.
    """
    count = 0
    if lower != NOBODY and lower != sender:
        targets[count] = lower
        count += 1
    if higher != NOBODY and higher != sender and higher != lower:
        targets[count] = higher
        count += 1
    along = sender != NOBODY and (sender == lower or sender == higher)
    left = fanout - (1 if along else 2)
    for i in range(shortcuts.size):
        if left <= 0 or shortcuts[i] == NOBODY:
            break
        if shortcuts[i] != sender:
            targets[count] = shortcuts[i]
            count += 1
            left -= 1
    return count
