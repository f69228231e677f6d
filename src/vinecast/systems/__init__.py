"""One file per paper, each wiring protocols into a system; this page lists them by name.

Cyclon stands here as a system of its own: a peer sampling service needs no wiring.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.machine import Machine
from vinecast.core.sweep import Sweep
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon.sweep import CyclonSweep


@dataclass(frozen=True, slots=True)
class System:
    """How to build a system and look at its links."""

    config: type[Any]
    """Its configuration dataclass; has ``period_us``, the length of a cycle."""
    machine: Callable[[Any, int, int], Machine]
    """(config, seed, node) -> the machine of one node."""
    sweep: Callable[[Any, int, int], Sweep] | None
    """(config, seed, nodes) -> the whole population, for systems that have a sweep."""
    view_of: Callable[[Any], NDArray[np.int32]]
    """The peers that a machine knows; empty slots hold NOBODY. [slot]"""


SYSTEMS: Mapping[str, System] = {
    "cyclon": System(CyclonConfig, Cyclon, CyclonSweep, lambda machine: machine.peers),
}
