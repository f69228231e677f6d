"""What a live node knows of others' regularity: their patterns, and what they say of their regular rings.

A pattern stands on a peer's card, a bit a slot: its owner signs it. A card of a node that has another cycle
of recurring behaviour, or none, says nothing here: such a peer is never regular.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import GAPS_UNKNOWN, Profiles
from vinecast.core.arrays.regularity import Patterns
from vinecast.systems.poldercast_regular.rings import RegularProfiles


def pack_pattern(pattern: NDArray[np.bool_]) -> bytes:
    """A pattern for a card. pattern: [slot]"""
    return np.packbits(pattern).tobytes()


class RegularityTable:
    """By the numbers of the peer table, whose profiles these are."""

    def __init__(self, profiles: Profiles, slots: int) -> None:
        self.patterns = Patterns(profiles.peers, slots)
        self.shared = RegularProfiles(profiles, self.patterns)
        self._profiles = profiles
        self._slots = slots

    def own_pattern(self, me: int) -> bytes:
        """What the node's card should say of it."""
        return pack_pattern(self.patterns.regular[me])

    def learn(self, peer: int, pattern: bytes) -> None:
        """A peer's card says when it is regular."""
        found = np.zeros(self._slots, dtype=np.bool_)
        if len(pattern) == -(-self._slots // 8):
            found[:] = np.unpackbits(np.frombuffer(pattern, dtype=np.uint8), count=self._slots)
        if not np.array_equal(found, self.patterns.regular[peer]):
            self.patterns.replace(peer, found)

    def reset_rings(self, peer: int) -> None:
        """A peer's topics are others now: nothing is known of its regular rings."""
        count = int(self._profiles.cnt[peer])
        unknown = np.full(count, GAPS_UNKNOWN, dtype=np.uint32)
        self.shared.annotate(peer, np.zeros(count, dtype=np.uint8), unknown)
