"""Limits of a transport: who may connect unproved, whom it failed to reach, whom it shuns."""

from collections import Counter
from collections.abc import Callable

from vinecast.node.transport.interface import TransportConfig
from vinecast.peer.identity import NodeId

FAILED_MAX = 4096
"""Peers whose failures are remembered; the oldest are forgotten first. Ours."""
SHUNNED_MAX = 4096
"""Peers that are shunned at a time; the first are let in again when there are more. Ours."""
SHUNNED_S = 60.0
"""How long a peer is shunned, in seconds. Ours."""


class AcceptLimiter:
    """Counts the accepted connections that have not said who they are, by host."""

    def __init__(self, config: TransportConfig) -> None:
        self._config = config
        self._unproved: Counter[str] = Counter()

    def obstacle(self, host: str, accepted: int) -> str:
        """Why one more connection from this host cannot come in, if it cannot."""
        if accepted >= self._config.accepted_max:
            return "too many connections"
        if self._unproved.total() >= self._config.handshakes_max:
            return "too many handshakes"
        if self._unproved[host] >= self._config.handshakes_per_host_max:
            return "too many handshakes from one host"
        return ""

    def enter(self, host: str) -> None:
        """One came in."""
        self._unproved[host] += 1

    def leave(self, host: str) -> None:
        """One proved who it is, or left."""
        self._unproved[host] -= 1
        if self._unproved[host] <= 0:
            del self._unproved[host]


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


class Shunned:
    """Peers that misbehaved, for a while."""

    def __init__(self) -> None:
        self._until: dict[NodeId, float] = {}

    def add(self, peer: NodeId, now: float) -> None:
        """Shun a peer from now on."""
        self._until.pop(peer, None)  # the last in order is the last to be let in again
        self._until[peer] = now + SHUNNED_S
        if len(self._until) > SHUNNED_MAX:
            del self._until[next(iter(self._until))]

    def has(self, peer: NodeId, now: float) -> bool:
        """Whether a peer is still shunned."""
        if now < self._until.get(peer, now):
            return True
        self._until.pop(peer, None)
        return False
