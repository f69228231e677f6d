"""The clock of a live node."""

import time
from typing import Protocol


class Clock(Protocol):
    """What time it is; a test has its own."""

    def now_us(self) -> int:
        """Microseconds since 1970, of a clock that never goes back."""

    def wall_us(self) -> int:
        """Microseconds since 1970, as the machine believes."""


class RealClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._ahead_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """Microseconds since 1970, of a clock that never goes back: set ahead with the machine's, set back
        with it never."""
        passed_ns = time.monotonic_ns()
        self._ahead_ns = max(self._ahead_ns, time.time_ns() - passed_ns)
        return (passed_ns + self._ahead_ns) // 1000

    def wall_us(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000
