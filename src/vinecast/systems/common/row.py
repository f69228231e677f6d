"""A system's row: what whoever runs systems needs to know of one. It stands in the system's own folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.machine import Machine
from vinecast.core.sweep import Sweep

Machines = Callable[[int], Machine]
"""node -> its machine"""


def cyclon_view(machine: Any) -> NDArray[np.int32]:
    """The peers that a machine with a Cyclon knows."""
    peers: NDArray[np.int32] = machine.cyclon.peers
    return peers


@dataclass(frozen=True, slots=True)
class System:
    """How to build a system and look at its links."""

    config: type[Any]
    """Its configuration dataclass; has ``period_us``, the length of a cycle."""
    machines: Callable[[Any, int, Profiles], Machines]
    """(config, seed, profiles) -> who makes the machine of each node."""
    view_of: Callable[[Any], NDArray[np.int32]] = cyclon_view
    """The peers that a machine knows; empty slots hold NOBODY. [slot]"""
    sweep: Callable[[Any, int, Profiles], Sweep] | None = None
    """(config, seed, profiles) -> the whole population, for systems that have a sweep."""
    has_topics: bool = True
    """Whether its nodes subscribe to topics and publish on them."""
    has_content: bool = False
    """Whether they subscribe by filters instead, over the profiles of systems/vinifera/catalogue.py."""
    settings: tuple[str, ...] = ("sequential", "synchronous")
    """What its sweep offers, the default first (docs/exchange.md)."""
