"""The replay window: an old event that is sent again is not news.

A machine remembers the events of the last seconds, which stops copies that are under way. Anybody who kept an
old event could send it again later, signature and all. So a node also remembers, for the publishers it heard
of last, which of their sequence numbers it has seen: all below a window, and one by one inside it. Events
that overtake each other are at home in the window.
"""

WINDOW = 4096
"""Sequence numbers that are remembered one by one (ours)."""
PUBLISHERS_MAX = 4096
"""Publishers that are remembered, those heard of last (ours): about a kilobyte each."""


class ReplayWindow:
    """One node's memory of the sequence numbers that it has seen, by publisher."""

    def __init__(self, publishers_max: int = PUBLISHERS_MAX, window: int = WINDOW) -> None:
        self._most, self._window = publishers_max, window
        self._seen: dict[bytes, tuple[int, int]] = {}
        """Publisher → its highest number, and a bit for each of the window below, the lowest bit for that."""

    def is_new(self, publisher: bytes, sequence: int) -> bool:
        """Whether this number of a publisher was not seen before; from now on it is."""
        highest, bits = self._seen.pop(publisher, (-1, 0))
        ahead = sequence - highest
        if ahead > 0:
            new = True
            kept = (bits << ahead) & ((1 << self._window) - 1) if ahead < self._window else 0
            highest, bits = sequence, kept | 1
        else:
            new = -ahead < self._window and not bits >> -ahead & 1
            if new:
                bits |= 1 << -ahead
        self._seen[publisher] = highest, bits  # the last in order is the last heard of
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        return new
