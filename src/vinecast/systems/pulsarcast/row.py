"""PulsarCast's row."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.systems.common.row import Machines, System
from vinecast.systems.pulsarcast.machine import PulsarCast, PulsarCastConfig


def _pulsarcast_machines(config: PulsarCastConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: PulsarCast(config, seed, node, profiles)


ROW = System(PulsarCastConfig, _pulsarcast_machines, lambda machine: machine.peers)
