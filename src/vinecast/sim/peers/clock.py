"""The clock of a simulated node, which is ahead or behind, runs too fast or too slow, and is set.

A peer is handed the time as a live node has it (``node/runtime/clock``): of a clock that follows the
machine's when that is set ahead, and goes on as it was when that is set back. Timers count what has passed,
however the clock is set.
"""

import math


class SimulatedClock:
    """One node's clock, read at true times in microseconds."""

    __slots__ = ("_ahead_us", "_farthest_us", "drift")

    def __init__(self, ahead_us: int = 0, drift: float = 0.0) -> None:
        self._ahead_us = self._farthest_us = ahead_us
        self.drift = drift
        """Seconds that it counts too many in every true second."""

    def wall_us(self, true_us: int) -> int:
        """What the machine believes."""
        return self._passed(true_us) + self._ahead_us

    def now_us(self, true_us: int) -> int:
        """What a peer is told: never less than before."""
        self._farthest_us = max(self._farthest_us, self._ahead_us)
        return self._passed(true_us) + self._farthest_us

    def set(self, by_us: int) -> None:
        """Somebody sets the clock, ahead or back."""
        self._ahead_us += by_us

    def true_delay(self, after_us: int) -> int:
        """How long it takes until a timer that counts so long runs out."""
        return math.ceil(after_us / (1.0 + self.drift)) if self.drift else after_us

    def restart(self) -> None:
        """A process begins, and believes the machine."""
        self._farthest_us = self._ahead_us

    def _passed(self, true_us: int) -> int:
        return true_us + int(self.drift * true_us)
