"""Cyclon as a system of its own: a peer sampling service needs no wiring."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.systems.common.row import Machines, System


def _cyclon_machines(config: CyclonConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Cyclon(config, seed, node)


ROW = System(
    CyclonConfig,
    _cyclon_machines,
    lambda machine: machine.peers,
    sweep_of="cyclon.sweep:cyclon_sweep",
    has_topics=False,
)
