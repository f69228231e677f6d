"""Cyclon as a system of its own: a peer sampling service needs no wiring."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.sweep import Sweep
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.systems.common.row import Machines, System


def _cyclon_machines(config: CyclonConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Cyclon(config, seed, node)


def _cyclon_sweep(config: CyclonConfig, seed: int, profiles: Profiles) -> Sweep:
    return CyclonSweep(config, seed, profiles.peers)


ROW = System(CyclonConfig, _cyclon_machines, lambda machine: machine.peers, _cyclon_sweep, has_topics=False)
