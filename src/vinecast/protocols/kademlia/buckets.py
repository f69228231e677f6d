"""Whom a node knows: one bucket of peers for every length of prefix that they share with it.

Peers and keys are points of 64 bits, and how far two are apart is their exclusive or, read as a number
(Kademlia §2.1). Bucket i holds peers at a distance of 2ⁱ up to 2ⁱ⁺¹, the least recently seen first. Only who
has spoken to the node gets in: hearsay may guide a lookup, but fills no bucket. A full bucket keeps those it
has as long as they answer, since who has been there long tends to stay (Kademlia §2.2); who comes then waits
among the *spare* for one of them to go.

Let d be the distance from the node to some key. Where bit i of d is set, all of bucket i is nearer to the key
than the node, and nearer than all of any such bucket below it; where it is not, all of the bucket is farther
than the node, and farther than those below. So the nearest peers are found bucket by bucket, and only within
one they are sorted. And where every bucket has somebody that could have, each next hop is strictly nearer,
and a way ends at the one nearest node.
"""

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from vinecast.core.circle import BITS
from vinecast.core.machine import NOBODY

Keys = NDArray[np.uint64]
"""[peer], the point of every peer that has a number"""

KEY_BYTES = 32
"""A key is a digest. Its first 64 bits are its point."""


def point_of(key: bytes) -> int:
    """Where a key is."""
    return int.from_bytes(key[: BITS // 8], "big")


def key_of_point(point: int) -> bytes:
    """A key that is at a given point."""
    return point.to_bytes(BITS // 8, "big").ljust(KEY_BYTES, b"\0")


class Buckets:
    """The buckets of one node. ``size`` peers in each, and as many spare."""

    def __init__(self, keys: Keys, me: int, size: int) -> None:
        self.keys = keys
        self.me = me
        self.point = int(keys[me])
        self.size = size
        self.rows: list[list[int]] = [[] for _ in range(BITS)]
        self.spare: list[list[int]] = [[] for _ in range(BITS)]
        self.heard_us: dict[int, int] = {}
        """When a peer in a bucket or among the spare was last heard from."""
        self.changes = 0
        """Grows with every change of a bucket: whoever is nearest to a key may be another now."""
        self._filled = 0
        """Bit i is set when bucket i has somebody."""

    def __contains__(self, peer: int) -> bool:
        return self.exists(peer) and peer in self.rows[self.row_of(peer)]

    def exists(self, peer: int) -> bool:
        """Whether a number is a peer's, and neither the node's own nor one at the same point."""
        return 0 <= peer < self.keys.size and int(self.keys[peer]) != self.point

    def row_of(self, peer: int) -> int:
        """The number of the bucket where a peer belongs."""
        return (int(self.keys[peer]) ^ self.point).bit_length() - 1

    @property
    def known(self) -> list[int]:
        """All peers in buckets, the nearest buckets first."""
        return list(chain.from_iterable(self.rows))

    @property
    def depth(self) -> int:
        """The lowest bucket that has somebody: below it the node has no neighbours, as far as it knows."""
        return (self._filled & -self._filled).bit_length() - 1 if self._filled else BITS

    def meet(self, peer: int, now_us: int) -> int:
        """A peer has spoken: it is the most recently seen. Where there is no room for it, returns the least
        recently seen of its bucket, who must answer to stay; else NOBODY."""
        if not self.exists(peer):
            return NOBODY
        at = self.row_of(peer)
        row, spare = self.rows[at], self.spare[at]
        self.heard_us[peer] = now_us
        if peer in row:
            row.remove(peer)
            row.append(peer)
            return NOBODY
        if peer in spare:
            spare.remove(peer)
        if len(row) < self.size:
            row.append(peer)
            self._note(at)
            return NOBODY
        spare.append(peer)
        if len(spare) > self.size:
            del self.heard_us[spare.pop(0)]
        return row[0]

    def drop(self, peer: int) -> None:
        """A peer is gone; the spare one that was heard from last takes its place."""
        if not self.exists(peer):
            return
        at = self.row_of(peer)
        row, spare = self.rows[at], self.spare[at]
        if peer in row:
            row.remove(peer)
            if spare:
                row.append(spare.pop())
            self._note(at)
        elif peer in spare:
            spare.remove(peer)
        self.heard_us.pop(peer, None)

    def clear(self) -> None:
        """Know nobody."""
        for peers in chain(self.rows, self.spare):
            peers.clear()
        self.heard_us.clear()
        self._filled = 0
        self.changes += 1

    def nearer(self, point: int, count: int) -> list[int]:
        """Peers that are nearer to a point than the node itself, so many at the most, the nearest first."""
        found: list[int] = []
        rows = self._filled & (point ^ self.point)
        while rows and len(found) < count:
            row = rows.bit_length() - 1
            found += self._sorted(row, point)
            rows ^= 1 << row
        return found[:count]

    def closest(self, point: int, count: int) -> list[int]:
        """The peers nearest to a point, the nearest first."""
        found = self.nearer(point, count)
        rows = self._filled & ~(point ^ self.point)
        while rows and len(found) < count:
            lowest = rows & -rows
            found += self._sorted(lowest.bit_length() - 1, point)
            rows ^= lowest
        return found[:count]

    def count_nearer(self, point: int) -> int:
        """How many known peers are nearer to a point than the node itself."""
        away = point ^ self.point
        return sum(len(peers) for row, peers in enumerate(self.rows) if away >> row & 1)

    def _sorted(self, row: int, point: int) -> list[int]:
        keys = self.keys
        return sorted(self.rows[row], key=lambda peer: int(keys[peer]) ^ point)

    def _note(self, row: int) -> None:
        """A bucket is another."""
        self.changes += 1
        bit = 1 << row
        self._filled = self._filled | bit if self.rows[row] else self._filled & ~bit
