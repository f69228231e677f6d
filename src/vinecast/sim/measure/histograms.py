"""Distributions of whole numbers, which can be added up without keeping every value.

Latencies are counted by their first three digits: a percentile read from such a distribution is off by half a
per cent at the most.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

DIGITS = 3
"""Digits of a latency that its distribution keeps."""


def rounded(latency_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """To ``DIGITS`` digits, half up; what is not positive stays."""
    powers = 10 ** np.arange(DIGITS, 19, dtype=np.int64)
    unit = 10 ** np.searchsorted(powers, latency_us, side="right").astype(np.int64)
    return (latency_us + unit // 2) // unit * unit


def percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """The smallest value that so many of a hundred do not exceed; None where there is none. counts: value →
    how often"""
    left = sum(counts.values()) * percent
    for value, count in sorted(counts.items()):
        left -= count * 100
        if left <= 0:
            return value
    return None
