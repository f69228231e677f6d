"""Small populations that talk to each other before a live node needs their rules (``WarmUp``)."""

import numpy as np

from vinecast.core.arrays.profiles import Profiles

NODES, TOPICS = 3, 4


def small_profiles() -> Profiles:
    """Three nodes on a circle, each with the first two of four topics."""
    profiles = Profiles.live(NODES, TOPICS)
    profiles.place[:] = [10, 1 << 20, 1 << 30]
    for node in range(NODES):
        profiles.set_topics(node, np.arange(2, dtype=np.int32), np.zeros(2, dtype=np.uint8))
    return profiles
