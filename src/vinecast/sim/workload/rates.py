"""Publication rates: how many events each topic has.

S2 §3.6.4 lets them follow a power law: the topic of rank r has a rate in proportion to r^−α. With α = 0.3
that is nearly uniform; with 3 most events are on a single topic. Which topic has which rank is drawn. Rates
are events a cycle, one a topic on average.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import purpose, shuffled, stream, unit_array
from vinecast.core.errors import InputError

_RANKS = purpose("rates.ranks")
_EVENTS = purpose("rates.events")

Rates = NDArray[np.float64]


def checked(rates: Rates) -> Rates:
    """The same rates, if they make sense. [topic]"""
    if rates.size == 0:
        raise InputError("rates must name one topic at least")
    if not np.isfinite(rates).all():
        raise InputError("rates must be finite numbers")
    if (rates < 0).any():
        raise InputError(f"rates must not be negative, as that of topic {int(np.argmin(rates))} is")
    if not (rates > 0).any():
        raise InputError("rates must not all be zero")
    return rates


def power_law(seed: int, topics: int, alpha: float) -> Rates:
    """A rate for every topic, one event a cycle on average. [topic]"""
    if not 0 <= alpha <= 100:
        raise InputError(f"alpha must be from 0 to 100, not {alpha}")
    rates = np.empty(topics)
    rates[shuffled(stream(seed, _RANKS, 0, 0), topics)] = (1.0 + np.arange(topics)) ** -alpha
    return checked(rates * (topics / rates.sum()))


def draw_events(seed: int, cycle: int, rates: Rates) -> NDArray[np.int64]:
    """How many events each topic has in a cycle: its rate, rounded up or down by a draw. [topic]"""
    whole = np.floor(checked(rates))
    more = unit_array(stream(seed, _EVENTS, cycle, 0), np.arange(rates.size)) < rates - whole
    return (whole + more).astype(np.int64)
