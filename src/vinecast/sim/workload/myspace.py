"""Groups like MySpace's (S1 §4): sizes of two Zipf-like regimes, from 2 to 1,055 members.

S1 crawled 10,930 profiles and plots no figures of it. It says: two distinct Zipf-like trends, one for normal
users and one for communities around celebrities; friend lists with 37 members on line on average; sizes from
2 to 1,055 in the experiments. So the chance of a size s is ∝ 1 / s, Zipf's own, up to a knee of 100 members,
and ∝ (s / 100)^−b / 100 beyond; b is solved for so that the mean is 37. The knee and the first exponent are
ours.

Members are random nodes: S1 tells nothing of who is in a group with whom, nor of who is linked to whom.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from vinecast.core.draws import below_array, purpose, shuffled, stream, substream, unit_array
from vinecast.core.errors import InputError
from vinecast.sim.workload.subscriptions import Subscriptions, subscribe

LEAST, MOST = 2, 1055  # S1 §4
MEAN = 37.0  # S1 §4: friends on line
KNEE = 100  # ours

_SIZE = purpose("myspace.size")
_MEMBER = purpose("myspace.member")


@lru_cache(maxsize=1)
def second_exponent() -> float:
    """The exponent beyond the knee, which makes the mean."""
    sizes = np.arange(LEAST, MOST + 1)
    return float(brentq(lambda b: float((_chances(b) * sizes).sum()) - MEAN, 1.01, 20.0))


def _chances(beyond: float) -> NDArray[np.float64]:
    """How likely each size from LEAST to MOST is."""
    sizes = np.arange(LEAST, MOST + 1, dtype=np.float64)
    weights = np.where(sizes <= KNEE, 1 / sizes, (sizes / KNEE) ** -beyond / KNEE)
    return np.asarray(weights / weights.sum())


def group_sizes(seed: int, groups: int) -> NDArray[np.int64]:
    """The sizes of so many groups. [group]"""
    below = np.cumsum(_chances(second_exponent()))
    found = np.searchsorted(below, unit_array(stream(seed, _SIZE, 0, 0), np.arange(groups)), side="right")
    return np.minimum(LEAST + found, MOST)


def groups(
    seed: int, nodes: int, count: int | None = None, subscriptions: int | None = None
) -> Subscriptions:
    """So many groups; or as many as give a node so many of them on average, one unless given (ours).

    The largest groups have at most all nodes, so that the mean of few is a little less.
    """
    if count is not None and subscriptions is not None:
        raise InputError('the workload "myspace" takes topics or subscriptions, not both: sizes are its own')
    count = count or max(round(nodes * (subscriptions or 1) / MEAN), 1)
    return groups_of(seed, nodes, group_sizes(seed, count))


def groups_of(seed: int, nodes: int, sizes: NDArray[np.int64]) -> Subscriptions:
    """A topic for each group, with so many random members, or all nodes if there are no more."""
    if nodes < 1 or (sizes.size and sizes.min() < 1):
        raise InputError("groups need at least one node, and one member each")
    members = [_members(seed, nodes, group, min(int(size), nodes)) for group, size in enumerate(sizes)]
    topics = np.repeat(np.arange(sizes.size), [found.size for found in members])
    return subscribe(np.concatenate(members), topics, nodes, sizes.size)


def _members(seed: int, nodes: int, group: int, size: int) -> NDArray[np.int64]:
    key = substream(stream(seed, _MEMBER, 0, 0), group)
    if 4 * size > nodes:
        return shuffled(key, nodes)[:size]
    drawn = below_array(key, np.arange(2 * size + 64), nodes)  # seldom has one been drawn before
    _, first = np.unique(drawn, return_index=True)
    return drawn[np.sort(first)[:size]]
