"""Pastry's decisions, over one node's leaf set and routing table.

``ids`` [peer] are the points of all peers that have a number. What a node keeps of them is two arrays:

``leafs`` [side, slot]    the nearest peers on the circle, LOWER and HIGHER ids, nearest first, packed
``table`` [row, column]   row r holds peers that share exactly r leading digits with the node, column c those
                          of them whose next digit is c

Empty slots hold NOBODY. An id has as many digits as the table has rows. With few peers the two sides overlap,
as the circle does: then everybody is in both.

A hop brings a message *strictly nearer* to its key, whatever the tables hold. Pastry's paper lets a longer
shared prefix count for as much as a smaller distance; then tables that disagree can send a message round in
circles. The price of our order is nothing where the tables are right: the rare longer prefix that is farther
away is replaced by the nearest peer known.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.circle import BITS, clockwise, distance
from vinecast.core.draws import draw, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule, word

LOWER, HIGHER = 0, 1
"""The sides of a leaf set."""

LEAF, NEAREST = 1, 2
"""What a change was: some leaf is another, the nearest one of a side is another."""

_TABLE = purpose("pastry.table")

Ids = NDArray[np.uint64]
Peers = NDArray[np.int32]


@rule
def digit(point: int, row: int, rows: int) -> int:
    """The digit number ``row`` of an id that has ``rows`` digits, the highest first."""
    bits = BITS // rows
    return int((word(point) >> word(BITS - bits * (row + 1))) & word((1 << bits) - 1))


@rule
def shared_digits(a: int, b: int, rows: int) -> int:
    """How many leading digits two ids have in common."""
    row = 0
    while row < rows and digit(a, row, rows) == digit(b, row, rows):
        row += 1
    return row


@rule
def nearer(ids: Ids, key: int, a: int, b: int) -> bool:
    """Whether peer a is nearer to the key than peer b; of two that are as near it is the lower number."""
    to_a = distance(ids[a], key)
    to_b = distance(ids[b], key)
    return to_a < to_b or (to_a == to_b and a < b)


@rule
def reach(ids: Ids, me: int, side: int, peer: int) -> int:
    """How far it is to a peer, going to one side."""
    return clockwise(ids[me], ids[peer]) if side == HIGHER else clockwise(ids[peer], ids[me])


@rule
def covers(ids: Ids, me: int, leafs: Peers, key: int) -> bool:
    """Whether the leaf set spans the key: then the nearest peer known is a leaf, or the node itself.

    A side that is not full holds everybody known.
    """
    last = leafs.shape[1] - 1
    lower, higher = leafs[LOWER, last], leafs[HIGHER, last]
    if NOBODY in (lower, higher):
        return True
    up = clockwise(ids[me], key) <= reach(ids, me, HIGHER, higher)
    return up or clockwise(key, ids[me]) <= reach(ids, me, LOWER, lower)


@rule
def next_hop(ids: Ids, me: int, leafs: Peers, table: Peers, key: int, skip: int) -> int:
    """The next peer on the way to a key, or the node itself when it knows nobody nearer.

    The leaf set decides where it spans the key, else the table's peer with one more digit of the key, else
    whoever is nearest (Pastry §2.3). ``skip`` is a peer that must not be taken, or NOBODY.
    """
    nearest = me
    if not covers(ids, me, leafs, key):
        rows = table.shape[0]
        row = shared_digits(ids[me], key, rows)
        peer = int(table[row, digit(key, row, rows)])
        if peer not in (NOBODY, skip) and nearer(ids, key, peer, me):
            return peer
        for row in range(rows):
            for column in range(table.shape[1]):
                peer = int(table[row, column])
                if peer not in (NOBODY, skip) and nearer(ids, key, peer, nearest):
                    nearest = peer
    for side in range(2):
        for slot in range(leafs.shape[1]):
            peer = int(leafs[side, slot])
            if peer == NOBODY:
                break
            if peer != skip and nearer(ids, key, peer, nearest):
                nearest = peer
    return nearest


@rule
def insert_leaf(ids: Ids, me: int, leafs: Peers, side: int, peer: int) -> int:
    """Let a peer into one side of the leaf set if it is among the nearest; what changed."""
    last = leafs.shape[1] - 1
    far = reach(ids, me, side, peer)
    if leafs[side, last] != NOBODY and far >= reach(ids, me, side, leafs[side, last]):
        return 0
    slot = 0
    while slot < last and leafs[side, slot] != NOBODY and reach(ids, me, side, leafs[side, slot]) < far:
        slot += 1
    if leafs[side, slot] == peer:
        return 0
    for i in range(last, slot, -1):
        leafs[side, i] = leafs[side, i - 1]
    leafs[side, slot] = peer
    return LEAF | NEAREST if slot == 0 else LEAF


@rule
def file_entry(ids: Ids, me: int, seed: int, table: Peers, peer: int, may_replace: bool) -> None:
    """Put a peer into its place in the table, which may be taken.

    Pastry's paper prefers the peer that is nearer in the network. We know no latencies: every node has an
    order of preference of its own, by keyed draw. That spreads the load as evenly as proximity would, and a
    table depends on whom a node has met, not on the order in which it met them.
    """
    rows = table.shape[0]
    row = shared_digits(ids[me], ids[peer], rows)
    if row == rows:  # the same id twice: a bug or a forgery, and no place for it
        return
    column = digit(ids[peer], row, rows)
    holder = int(table[row, column])
    if holder == NOBODY:
        table[row, column] = peer
    elif may_replace and holder != peer:
        key = stream(seed, _TABLE, 0, me)
        if draw(key, peer) < draw(key, holder):
            table[row, column] = peer


@rule
def listed(peers: Peers, peer: int) -> bool:
    """Whether a packed list holds a peer."""
    for i in range(peers.size):
        if peers[i] == NOBODY:
            return False
        if peers[i] == peer:
            return True
    return False


@rule
def learn(
    ids: Ids, me: int, seed: int, leafs: Peers, table: Peers, gone: Peers, peers: Peers, direct: bool
) -> int:
    """Take note of peers: all of them were heard from (``direct``), or somebody spoke of them.

    Hearsay fills the leaf set and empty places, but neither replaces an entry of the table nor brings back
    a peer that was found ``gone``: the dead live on in other nodes' tables for a while. Numbers that nobody
    has are passed over. Returns what changed in the leaf set.
    """
    changes = 0
    for i in range(peers.size):
        peer = int(peers[i])
        if peer < 0 or peer >= ids.size or peer == me:
            continue
        if not direct and listed(gone, peer):
            continue
        changes |= insert_leaf(ids, me, leafs, LOWER, peer) | insert_leaf(ids, me, leafs, HIGHER, peer)
        file_entry(ids, me, seed, table, peer, direct)
    return changes


@rule
def refill_leafs(ids: Ids, me: int, leafs: Peers, table: Peers) -> None:
    """Fill a side of the leaf set from the table and, where the circle is small, from the other side."""
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            peer = int(table[row, column])
            if peer != NOBODY:
                insert_leaf(ids, me, leafs, LOWER, peer)
                insert_leaf(ids, me, leafs, HIGHER, peer)
    for side in range(2):
        for slot in range(leafs.shape[1]):
            if leafs[1 - side, slot] != NOBODY:
                insert_leaf(ids, me, leafs, side, int(leafs[1 - side, slot]))


@rule
def forget(ids: Ids, me: int, seed: int, leafs: Peers, table: Peers, peer: int) -> int:
    """Drop a peer, and fill its places from what else is known. Returns what changed in the leaf set."""
    if peer < 0 or peer >= ids.size or peer == me:
        return 0
    rows, last, changes = table.shape[0], leafs.shape[1] - 1, 0
    for side in range(2):
        for slot in range(last + 1):
            if leafs[side, slot] != peer:
                continue
            for i in range(slot, last):
                leafs[side, i] = leafs[side, i + 1]
            leafs[side, last] = NOBODY
            changes |= LEAF | NEAREST if slot == 0 else LEAF
    row = shared_digits(ids[me], ids[peer], rows)
    if row < rows and table[row, digit(ids[peer], row, rows)] == peer:
        table[row, digit(ids[peer], row, rows)] = NOBODY
        for side in range(2):
            for slot in range(last + 1):
                if leafs[side, slot] != NOBODY:
                    file_entry(ids, me, seed, table, int(leafs[side, slot]), False)
    if changes:
        refill_leafs(ids, me, leafs, table)
    return changes


@rule
def collect_rows(
    ids: Ids, me: int, table: Peers, joiner: int, first: int, out: Peers, count: int
) -> tuple[int, int]:
    """What a node on a joiner's way has for it: itself and its rows ``first`` up to their shared digits.

    The rows before were handed over by the nodes before (Pastry §2.4). Written to ``out`` after ``count``
    others, as far as there is room. Returns (count, first row for the next node).
    """
    rows = table.shape[0]
    shared = min(shared_digits(ids[me], ids[joiner], rows), rows - 1)
    if count < out.size:
        out[count] = me
        count += 1
    for row in range(first, shared + 1):
        for column in range(table.shape[1]):
            if count < out.size and table[row, column] not in (NOBODY, joiner):
                out[count] = table[row, column]
                count += 1
    return count, max(first, shared + 1)
