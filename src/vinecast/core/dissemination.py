"""What became of events: one a topic, told for every subscription."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSED = -1
"""The hops and the latency of a subscriber that an event did not reach."""
FETCHED = -2
"""The hops of one that has it, and fetched it or read it from its store: nobody knows how far it came."""


class Dissemination(NamedTuple):
    """What became of one event a topic."""

    publisher: NDArray[np.int32]
    """[topic], or NOBODY where no subscriber was on line"""
    hops: NDArray[np.int16]
    """[pool], links that the first copy travelled; −1 where none arrived"""
    copies: NDArray[np.uint16]
    """[pool], copies received"""
    latency_us: NDArray[np.int64] | None = None
    """[pool], how long the first copy took; −1 where none arrived; None where nobody asked"""
