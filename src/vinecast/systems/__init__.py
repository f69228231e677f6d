"""One file per paper, each wiring protocols into a system; this page lists them by name.

Cyclon stands here as a system of its own: a peer sampling service needs no wiring. Every system is built over
the profiles of its population (core/profiles.py); one without topics takes from them how many peers there are
and no more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.interest import TOPICS_MAX, make_scratch
from vinecast.core.machine import Machine
from vinecast.core.profiles import Profiles
from vinecast.core.regularity import Patterns
from vinecast.core.sweep import Sweep
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.systems.direct import NO_LINKS, Direct, DirectConfig
from vinecast.systems.ferry import FerryConfig, ferry_machines
from vinecast.systems.flooding import Flooding, FloodingConfig
from vinecast.systems.grid import GridNode, GridNodeConfig
from vinecast.systems.on_tman_sweep import OnTManSweep
from vinecast.systems.opt import OptConfig, opt_machines
from vinecast.systems.poldercast import PolderCast, PolderCastConfig
from vinecast.systems.poldercast_regular import PolderCastRegular, PolderCastRegularConfig
from vinecast.systems.poldercast_regular_rings import RegularProfiles
from vinecast.systems.poldercast_regular_sweep import PolderCastRegularSweep
from vinecast.systems.poldercast_sweep import PolderCastSweep
from vinecast.systems.pulsarcast import PulsarCast, PulsarCastConfig
from vinecast.systems.quasar import Quasar, QuasarConfig
from vinecast.systems.rvr import RvrConfig, rvr_machines
from vinecast.systems.scribe import Scribe, ScribeConfig
from vinecast.systems.vinifera import ViniferaConfig, vinifera_machines
from vinecast.systems.vitis import VitisConfig, vitis_machines

Machines = Callable[[int], Machine]
"""node -> its machine"""


@dataclass(frozen=True, slots=True)
class System:
    """How to build a system and look at its links."""

    config: type[Any]
    """Its configuration dataclass; has ``period_us``, the length of a cycle."""
    machines: Callable[[Any, int, Profiles], Machines]
    """(config, seed, profiles) -> who makes the machine of each node."""
    sweep: Callable[[Any, int, Profiles], Sweep] | None
    """(config, seed, profiles) -> the whole population, for systems that have a sweep."""
    view_of: Callable[[Any], NDArray[np.int32]]
    """The peers that a machine knows; empty slots hold NOBODY. [slot]"""
    has_topics: bool
    """Whether its nodes subscribe to topics and publish on them."""
    has_content: bool = False
    """Whether they subscribe by filters instead, over the profiles of systems/vinifera_catalogue.py."""
    settings: tuple[str, ...] = ("sequential", "synchronous")
    """What its sweep offers, the default first (docs/exchange.md)."""


def _cyclon_machines(config: CyclonConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Cyclon(config, seed, node)


def _cyclon_sweep(config: CyclonConfig, seed: int, profiles: Profiles) -> Sweep:
    return CyclonSweep(config, seed, profiles.peers)


def _poldercast_machines(config: PolderCastConfig, seed: int, profiles: Profiles) -> Machines:
    topics = profiles.topic_ids.size  # a node may come to subscribe to as many, or to as many as it can
    room = make_scratch(profiles.peers, topics, min(topics, TOPICS_MAX), config.most, config.rings.size)
    return lambda node: PolderCast(config, seed, node, profiles, room)  # one for all: they take turns


def _poldercast_regular_machines(config: PolderCastRegularConfig, seed: int, profiles: Profiles) -> Machines:
    topics = profiles.topic_ids.size
    room = make_scratch(profiles.peers, topics, min(topics, TOPICS_MAX), config.most, config.rings.size)
    shared = RegularProfiles(profiles, Patterns(profiles.peers, config.grid.regularity.slots))
    return lambda node: PolderCastRegular(config, seed, node, profiles, room, shared)


def _grid_machines(config: GridNodeConfig, seed: int, profiles: Profiles) -> Machines:
    room = make_scratch(profiles.peers, 0, 0, config.most)
    patterns = Patterns(profiles.peers, config.grid.regularity.slots)
    return lambda node: GridNode(config, seed, node, patterns, room)


def _pulsarcast_machines(config: PulsarCastConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: PulsarCast(config, seed, node, profiles)


def _scribe_machines(config: ScribeConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Scribe(config, seed, node, profiles)


def _flooding_machines(config: FloodingConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Flooding(config, seed, node, profiles)


def _quasar_machines(config: QuasarConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Quasar(config, seed, node, profiles)


def _direct_machines(config: DirectConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Direct(config, node, profiles)


SYSTEMS: Mapping[str, System] = {
    "cyclon": System(
        CyclonConfig, _cyclon_machines, _cyclon_sweep, lambda machine: machine.peers, has_topics=False
    ),
    "poldercast": System(
        PolderCastConfig,
        _poldercast_machines,
        PolderCastSweep,
        lambda machine: machine.cyclon.peers,
        has_topics=True,
        settings=("synchronous",),
    ),
    "poldercast_regular": System(
        PolderCastRegularConfig,
        _poldercast_regular_machines,
        PolderCastRegularSweep,
        lambda machine: machine.cyclon.peers,
        has_topics=True,
        settings=("synchronous",),
    ),
    "grid": System(
        GridNodeConfig, _grid_machines, None, lambda machine: machine.cyclon.peers, has_topics=False
    ),
    "pulsarcast": System(
        PulsarCastConfig, _pulsarcast_machines, None, lambda machine: machine.peers, has_topics=True
    ),
    "scribe": System(ScribeConfig, _scribe_machines, None, lambda machine: machine.peers, has_topics=True),
    "flooding": System(
        FloodingConfig, _flooding_machines, None, lambda machine: machine.cyclon.peers, has_topics=True
    ),
    "vitis": System(
        VitisConfig,
        vitis_machines,
        OnTManSweep,
        lambda machine: machine.cyclon.peers,
        has_topics=True,
        settings=("synchronous",),
    ),
    "rvr": System(
        RvrConfig,
        rvr_machines,
        OnTManSweep,
        lambda machine: machine.cyclon.peers,
        has_topics=True,
        settings=("synchronous",),
    ),
    "opt": System(
        OptConfig,
        opt_machines,
        OnTManSweep,
        lambda machine: machine.cyclon.peers,
        has_topics=True,
        settings=("synchronous",),
    ),
    "vinifera": System(
        ViniferaConfig,
        vinifera_machines,
        None,
        lambda machine: machine.cyclon.peers,
        has_topics=False,
        has_content=True,
    ),
    "ferry": System(
        FerryConfig,
        ferry_machines,
        None,
        lambda machine: machine.cyclon.peers,
        has_topics=False,
        has_content=True,
    ),
    "quasar": System(QuasarConfig, _quasar_machines, None, lambda machine: machine.view, has_topics=True),
    "direct": System(DirectConfig, _direct_machines, None, lambda machine: NO_LINKS, has_topics=True),
}
