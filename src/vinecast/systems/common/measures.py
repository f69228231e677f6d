"""What a simulation measures of a sweep's topics: the hooks of a system's row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.dissemination import Dissemination
from vinecast.core.traffic import Counts

Divide = Callable[[int, Callable[[int, int, int], None]], None]
"""(how many, work) -> have the work done in parts (``SweepEngine.divide``)."""


class Occasion(NamedTuple):
    """One event a topic, to be published on the overlay as it stands."""

    cycle: int
    events: NDArray[np.int64]
    """[topic], how many each stands for; none is published where that is 0"""
    publishers: NDArray[np.bool_]
    """[node], who may publish"""
    delays: Any
    """How long links take (``systems/poldercast/events.Delays``), or None"""
    divide: Divide


class Published(NamedTuple):
    """What became of the events."""

    dissemination: Dissemination
    received: Counts | None
    """Events that nodes received, unwanted and wanted, where that is counted. [wanted, node]"""


@dataclass(frozen=True, slots=True)
class SweepMeasures:
    """How a sweep's topics are measured."""

    publish: Callable[[Any, Occasion], Published]
    """(sweep, occasion) -> what became of its events."""
    has_rings: bool = False
    """Whether it has rings to look at."""
    counts_messages: bool = False
    """Whether its control messages are counted, after each pass."""
    takes_delays: bool = False
    """Whether links may take different times."""
    learns: bool = False
    """Whether its nodes learn from events, so that they need them in cycles that are not measured, too."""
