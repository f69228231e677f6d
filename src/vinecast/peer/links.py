"""What a peer knows of its connections: which are up, whose queues are crowded, and whom it leaves alone for
a while because no connection could be made.

The runtime tells; so a peer can say at once whether a frame will probably go out. Where it is wrong, the
runtime tells it of the frame that did not.
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from vinecast.core.machine import SECOND_US
from vinecast.peer.address import Address

RESTING_MAX = 4096
"""Peers that are left alone at a time (ours)."""
CROWDED = 0.5
"""How full a peer's queue may be before publishers have to wait (ours)."""


class LinkLimits(NamedTuple):
    """What a connection takes, as the transport has it."""

    frame_bytes_max: int = 1024 * 1024
    redial_s_min: float = 0.5
    redial_s_max: float = 60.0
    dial_s: float = 10.0
    """How long a peer may take to answer a call."""


class Links:
    """The connections of one peer, as it knows them."""

    def __init__(self, limits: LinkLimits) -> None:
        self.limits = limits
        self.up: dict[bytes, None] = {}
        """Peers that there are connections to."""
        self.crowded: AbstractSet[bytes] = frozenset()
        self._resting: dict[bytes, tuple[int, int]] = {}
        """Peer → how often it could not be reached, and until when it is left alone."""

    def rise(self, peer: bytes) -> None:
        """There is a connection."""
        self.up[peer] = None
        self._resting.pop(peer, None)

    def fall(self, peer: bytes) -> None:
        """There is none any longer."""
        self.up.pop(peer, None)

    def fail(self, peer: bytes, now_us: int) -> None:
        """None could be made: leave the peer alone, ever longer. The transport waits at least as long."""
        failures = self._resting.pop(peer, (0, 0))[0] + 1
        wait_s = min(self.limits.redial_s_max, self.limits.redial_s_min * 2.0 ** min(failures - 1, 60)) / 2
        self._resting[peer] = failures, now_us + round(wait_s * SECOND_US)
        if len(self._resting) > RESTING_MAX:
            del self._resting[next(iter(self._resting))]

    def can_send(self, peer: bytes, address: Address | None, now_us: int) -> bool:
        """Whether a frame to a peer will go out, as far as is known."""
        if peer in self.up:
            return True
        return address is not None and now_us >= self._resting.get(peer, (0, 0))[1]
