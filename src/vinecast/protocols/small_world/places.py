"""Where topics are on a simulated circle."""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles


def topic_places(profiles: Profiles) -> NDArray[np.int32]:
    """The place of the peer whose id is nearest to each topic's. [topic]

    A simulated circle has one place a peer, so a topic has the place of its *rendezvous* while all are on
    line (S2 §3.3).
    """
    ids, points = profiles.ids, profiles.topic_ids
    if not ids.size:
        return np.zeros(points.size, dtype=np.int32)
    higher = np.searchsorted(ids, points) % ids.size
    lower = (higher - 1) % ids.size
    nearer = np.where(points - ids[lower] < ids[higher] - points, lower, higher)  # words wrap around
    return profiles.place[nearer].astype(np.int32)
