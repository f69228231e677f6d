"""How long events were under way, counted in buckets, so that the times of processes can be put together.

A bucket is two percent wide (ours): as exact as anybody reads a latency, and a few hundred numbers whatever
there is to count.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

_WIDTH = math.log(1.02)

Buckets = Counter[int]
"""How many times fell into each bucket."""


def buckets_of(times_us: Iterable[int]) -> dict[int, int]:
    """Count times in microseconds."""
    return Counter(round(math.log(max(time_us, 1)) / _WIDTH) for time_us in times_us)


def together(parts: Iterable[Mapping[str, int]]) -> Buckets:
    """Those of several processes, as they come out of JSON, whose keys are strings."""
    whole: Buckets = Counter()
    for part in parts:
        whole.update({int(bucket): count for bucket, count in part.items()})
    return whole


def share_within_ms(buckets: Buckets, percent: int) -> float:
    """The milliseconds within which so many of a hundred were done; not a number where there are none."""
    left = sum(buckets.values()) * percent // 100
    for bucket in sorted(buckets):
        left -= buckets[bucket]
        if left < 0 or (left == 0 and percent == 100):
            return math.exp(bucket * _WIDTH) / 1e3
    return math.nan
