"""How peers behave: who sends what no honest node would, and who sends too much.

A node counts by peer, cycle by cycle, what it had to refuse. Whoever goes too far is *shunned*: its
connections are closed, and for a while none is made or accepted. Only what the sender itself is to blame for
counts. An honest peer may send an event on a topic that this node has just left, or pass on an old event that
somebody slipped it, or name a card that this node has forgotten: such a ``BenignRefusal`` is refused as well,
but held against nobody, unless it goes on after the peer was told often enough.

Everything here is forgotten when a cycle is over, so that nobody can make it grow.
"""

from collections import Counter

from vinecast.core.errors import RemoteError

FAULTS_A_CYCLE = 64
"""What may be wrong with a peer's frames in one cycle (ours): some hundredths of a second of work."""
GOSSIP_A_CYCLE = 256
"""Gossip frames of one peer in one cycle (ours): dozens of times what a peer with the same period sends."""
TOLD_CYCLES = 16
"""Cycles in which a peer is told that its events are not wanted before it ought to know (ours)."""

TOO_MUCH_GOSSIP = "too much gossip"


class BenignRefusal(RemoteError):
    """Something to refuse that an honest peer may have sent."""


class Misbehaviour:
    """One node's memory of how its peers behave."""

    def __init__(self, period_us: int) -> None:
        self._period_us = period_us
        self._cycle = 0
        self._began_us = 0
        self._before_us = 0
        self._faults: Counter[bytes] = Counter()
        self._gossip: Counter[bytes] = Counter()
        self._unwanted: dict[bytes, tuple[int, int]] = {}
        """Peer → the cycles of its first and its latest unwanted event."""

    def begin_cycle(self, now_us: int) -> None:
        """A cycle begins."""
        self._cycle += 1
        self._before_us, self._began_us = self._began_us, now_us
        self._faults.clear()
        self._gossip.clear()
        self._unwanted = {p: seen for p, seen in self._unwanted.items() if seen[1] >= self._cycle - 1}

    def blame(self, peer: bytes) -> bool:
        """A peer did something wrong; whether that was once too often."""
        self._faults[peer] += 1
        return self._faults[peer] >= FAULTS_A_CYCLE

    def hear(self, peer: bytes, now_us: int) -> None:
        """A peer sends gossip. RemoteError when it is more than anybody has to listen to.

        After a process slept, all that came meanwhile comes at once: the last two cycles count at the length
        that they really had.
        """
        self._gossip[peer] += 1
        if self._gossip[peer] > GOSSIP_A_CYCLE:
            periods = (now_us - self._before_us) / self._period_us
            if self._gossip[peer] > GOSSIP_A_CYCLE * max(1.0, periods):
                raise RemoteError(TOO_MUCH_GOSSIP)

    def is_news(self, peer: bytes) -> bool:
        """A peer sent an event that is not wanted; whether it should be told so, which is once a cycle.

        RemoteError when it was told often enough.
        """
        first, latest = self._unwanted.get(peer, (self._cycle, -1))
        self._unwanted[peer] = first, self._cycle
        if self._cycle - first >= TOLD_CYCLES:
            raise RemoteError("event on a topic that is not subscribed to, again and again")
        return latest != self._cycle
