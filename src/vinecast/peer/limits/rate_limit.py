"""The rate limit: a peer that asks without end is told apart from one that asks a lot.

Every peer has some requests in hand, and gets more with time. Whoever has none left is at fault.
"""

from vinecast.core.errors import RemoteError
from vinecast.core.machine import SECOND_US

A_SECOND = 1024
"""Requests that a peer may make a second, in the long run (ours): some hundred times what an honest one
does."""
IN_HAND = 4096
"""Requests that it may make at once (ours): after a process slept, all that came meanwhile comes at once."""
PEERS_MAX = 4096
"""Peers that are remembered (ours)."""


class RateLimit:
    """One node's memory of who asked how much."""

    def __init__(self, in_hand: int = IN_HAND) -> None:
        """in_hand: requests that a peer may make at once"""
        self._in_hand = float(in_hand)
        self._left: dict[bytes, tuple[float, int]] = {}

    def note(self, peer: bytes, now_us: int) -> None:
        """A peer asks something. RemoteError when that is too much."""
        left, since_us = self._left.pop(peer, (self._in_hand, now_us))
        left = min(self._in_hand, left + (now_us - since_us) * A_SECOND / SECOND_US)
        self._left[peer] = max(0.0, left - 1), now_us
        if len(self._left) > PEERS_MAX:
            del self._left[next(iter(self._left))]
        if left < 1:
            raise RemoteError("too many requests")
