"""A lie: one way in which a hostile node does what no honest node does.

A lie has up to three parts. ``attack`` is what the node does by itself every so often; ``hears`` is asked
about every message that comes, before the peer inside hears of it; ``says`` about every frame that the peer
inside sends. Each part is a function whose docstring says what it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vinecast.peer.outputs import SendFrame
from vinecast.sim.peers.lies.liar import Liar

EVERY_MS = 250
"""From one attack to the next (ours): some frames a second, too few to be shunned for."""

Attack = Callable[[Liar], object]
Hears = Callable[[Liar, bytes, object], bool]
"""(liar, peer, message) -> whether the peer inside hears of it, too"""
Says = Callable[[Liar, SendFrame], Sequence[SendFrame]]
"""(liar, a frame of the peer inside) -> what goes out instead"""

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Lie:
    """One way of lying."""

    attack: Attack | None = None
    hears: Hears | None = None
    says: Says | None = None
    every_ms: int = EVERY_MS
    breaks: frozenset[str] = NOTHING
    """Promises that this is known to break today: D1 to D13 of durable streams, V, volatile delivery, and L,
    that what was asked for is answered."""
    systems: frozenset[str] = NOTHING
    """The systems that it is about; none: all of them. To others it is garbage."""
    near_key: bool = False
    """Whether it needs an identity that lies near a topic's key: such are found by trying some."""

    @property
    def told(self) -> str:
        """What it does, for a person."""
        parts = (self.attack, self.hears, self.says)
        docstrings = ((part.__doc__ or "").strip() for part in parts if part is not None)
        return next(filter(None, docstrings), "")


UNPROVED = frozenset({"D3", "D4", "D5", "D6", "D8", "D13"})
"""What follows where heights and floors count that nobody has proved (D13): beginnings of streams are settled
wrongly, so that readers miss events, or get some without their parents."""


CROWDING = frozenset({"D3", "D4", "D5", "D6", "D8", "D11", "V"})
"""What follows where one publisher can take the room of all (D11): readers that take their time come to the
others' events too late, and retention takes these."""


def breaking(*promises: str) -> frozenset[str]:
    """These promises."""
    return frozenset(promises)
