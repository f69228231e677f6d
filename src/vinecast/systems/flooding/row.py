"""Flooding's row."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.systems.common.row import Machines, System
from vinecast.systems.flooding.machine import Flooding, FloodingConfig


def _flooding_machines(config: FloodingConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Flooding(config, seed, node, profiles)


ROW = System(FloodingConfig, _flooding_machines)
