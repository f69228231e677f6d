"""Zipf's law for topics: the r-th most popular is 1/r as popular as the first (S3 §5: "uniform, Zipfian").

Everybody subscribes to equally many topics, drawn one after the other in proportion to their popularity and
never the same twice, so that the most popular ones saturate: everybody has them, and nobody twice. Topic 0 is
the most popular.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import purpose, stream, substream_array, unit_array
from vinecast.core.errors import InputError
from vinecast.sim.workload.subscriptions import Subscriptions

EXPONENT = 1.0
"""Zipf's own (ours: S3 gives none)."""

_ARRIVALS = purpose("zipf.arrivals")
_CHUNK = 1024  # ours: nodes whose draws are held at once; 80 MB with 10,000 topics


def zipf_weights(topics: int, exponent: float = EXPONENT) -> NDArray[np.float64]:
    """How popular each topic is, the first one being 1. [topic]"""
    weights: NDArray[np.float64] = np.arange(1, topics + 1, dtype=np.float64) ** -exponent
    return weights


def zipf_subscriptions(
    seed: int, nodes: int, topics: int, subscriptions: int, exponent: float = EXPONENT
) -> Subscriptions:
    """``subscriptions`` topics a node, by their popularity.

    Let every topic arrive after an exponential time with its popularity as the rate: the order of arrival is
    distributed as the order of drawing without replacement (Efraimidis and Spirakis, IPL 2006).
    """
    if min(nodes, topics, subscriptions) < 1:
        raise InputError("a Zipf workload needs at least one node, one topic and one subscription")
    if subscriptions > topics:
        raise InputError(f"nobody can have {subscriptions} subscriptions to {topics} topics")
    weights, number = zipf_weights(topics, exponent), np.arange(topics)
    chosen = np.empty((nodes, subscriptions), dtype=np.int32)
    for begin in range(0, nodes, _CHUNK):
        keys = substream_array(stream(seed, _ARRIVALS, 0, 0), np.arange(begin, min(begin + _CHUNK, nodes)))
        arrival = -np.log1p(-unit_array(keys[:, None], number[None, :])) / weights
        chosen[begin : begin + _CHUNK] = np.argsort(arrival, axis=1, kind="stable")[:, :subscriptions]
    start = np.arange(nodes + 1) * subscriptions
    return Subscriptions(start, np.sort(chosen, axis=1).ravel(), topics)
