"""A lookup: asking towards a point until the nearest peers have answered (Kademlia §2.3).

Of the candidates known so far the nearest that were not asked yet are asked, a few at a time, for those that
they know. It is over when the ``size`` nearest candidates have all answered. Who does not answer is no
candidate any longer. Who is slow is still waited for, but others are asked meanwhile.

The node itself is a candidate that has answered: it may be one of the nearest, and then all who look for the
same point find the same peers.
"""

from bisect import insort

from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia.buckets import Keys

ROOM = 4
"""Candidates kept, in sizes (ours): more than are ever asked when nobody lies."""


class Lookup:
    """One lookup. It knows peers by number and their points from ``keys``."""

    def __init__(
        self, keys: Keys, me: int, point: int, size: int, parallel: int, asked_max: int, through: int = NOBODY
    ) -> None:
        self.point = point
        self._keys = keys
        self._size = size
        self._parallel = parallel
        self._left = asked_max
        self._through = through
        """Who is asked first and waited for, however far it is."""
        self._order: list[tuple[int, int]] = [(int(keys[me]) ^ point, me)]
        """(distance, peer), the nearest first: candidates that have not failed."""
        self._answered = {me}
        self._failed: set[int] = set()
        self._waiting: dict[int, bool] = {}
        """Peers that were asked and have not answered, and whether they are slow."""

    def offer(self, peers: list[int] | tuple[int, ...]) -> None:
        """Somebody knows these peers."""
        for peer in peers:
            if not 0 <= peer < self._keys.size or peer in self._failed:
                continue
            entry = (int(self._keys[peer]) ^ self.point, peer)
            if entry in self._order:
                continue
            insort(self._order, entry)
            if len(self._order) > ROOM * self._size:
                self._order.pop()

    def take_next(self) -> list[int]:
        """Whom to ask now."""
        chosen: list[int] = []
        busy = sum(not slow for slow in self._waiting.values())
        if self._through not in self._waiting and self._expects(self._through):
            chosen.append(self._through)
        for _, peer in self._order[: self._size]:
            if busy + len(chosen) >= self._parallel or not self._left:
                break
            if peer not in self._answered and peer not in self._waiting and peer not in chosen:
                self._left -= 1
                chosen.append(peer)
        self._waiting.update(dict.fromkeys(chosen, False))
        return chosen

    def answer(self, peer: int) -> None:
        """A peer that was asked has answered."""
        self._waiting.pop(peer, None)
        self._answered.add(peer)

    def slow(self, peer: int) -> None:
        """A peer takes its time."""
        if peer in self._waiting:
            self._waiting[peer] = True

    def fail(self, peer: int) -> None:
        """A peer that was asked will not answer."""
        self._waiting.pop(peer, None)
        self._failed.add(peer)
        self._order = [entry for entry in self._order if entry[1] != peer]

    @property
    def done(self) -> bool:
        """Whether there is nobody left to ask or to wait for who could be among the nearest."""
        if self._expects(self._through):
            return False
        ahead = [peer for _, peer in self._order[: self._size] if peer not in self._answered]
        return not any(peer in self._waiting for peer in ahead) and (not ahead or not self._left)

    def _expects(self, peer: int) -> bool:
        return peer != NOBODY and peer not in self._answered and peer not in self._failed

    @property
    def nearest(self) -> list[int]:
        """The nearest that answered, the nearest first."""
        return [peer for _, peer in self._order if peer in self._answered][: self._size]

    @property
    def involved(self) -> list[int]:
        """All whom it still thinks of."""
        return [peer for _, peer in self._order]
