"""Quasar's row."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.systems.common.row import Machines, System
from vinecast.systems.quasar.machine import Quasar, QuasarConfig


def _quasar_machines(config: QuasarConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Quasar(config, seed, node, profiles)


ROW = System(QuasarConfig, _quasar_machines, lambda machine: machine.view)
