"""Two small memories of a transport: who stands at the door unproved, and whom it failed to reach."""

from collections import Counter
from collections.abc import Callable

from vinecast.node.identity import NodeId
from vinecast.node.transport import TransportConfig

FAILED_MAX = 4096
"""Peers whose failures are remembered; the oldest are forgotten first. Ours."""


class Door:
    """Counts the accepted connections that have not said who they are, by host."""

    def __init__(self, config: TransportConfig) -> None:
        self._config = config
        self._guests: Counter[str] = Counter()

    def obstacle(self, host: str, accepted: int) -> str:
        """Why one more connection from this host cannot come in, if it cannot."""
        if accepted >= self._config.accepted_max:
            return "too many connections"
        if self._guests.total() >= self._config.handshakes_max:
            return "too many handshakes"
        if self._guests[host] >= self._config.handshakes_per_host_max:
            return "too many handshakes from one host"
        return ""

    def enter(self, host: str) -> None:
        """One came in."""
        self._guests[host] += 1

    def leave(self, host: str) -> None:
        """One proved who it is, or left."""
        self._guests[host] -= 1
        if self._guests[host] <= 0:
            del self._guests[host]


class Redial:
    """How long to leave a peer alone that could not be reached: ever longer, never exactly the same."""

    def __init__(self, config: TransportConfig, jitter: Callable[[], float]) -> None:
        self._config = config
        self._jitter = jitter
        self._failed: dict[NodeId, tuple[int, float]] = {}

    def must_wait(self, peer: NodeId, now: float) -> bool:
        """Whether it is too early to try again."""
        return now < self._failed.get(peer, (0, 0.0))[1]

    def fail(self, peer: NodeId, now: float) -> float:
        """It could not be reached once more; how long to wait."""
        failures = self._failed.pop(peer, (0, 0.0))[0] + 1
        longest = self._config.redial_s_min * 2.0 ** min(failures - 1, 60)
        wait = min(self._config.redial_s_max, longest) * (0.5 + 0.5 * self._jitter())
        self._failed[peer] = (failures, now + wait)
        if len(self._failed) > FAILED_MAX:
            del self._failed[next(iter(self._failed))]
        return wait

    def reach(self, peer: NodeId) -> None:
        """It was reached: forget the failures."""
        self._failed.pop(peer, None)
