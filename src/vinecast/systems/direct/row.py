"""The row of direct sending."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.systems.common.row import Machines, System
from vinecast.systems.direct.machine import NO_LINKS, Direct, DirectConfig


def _direct_machines(config: DirectConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Direct(config, node, profiles)


ROW = System(DirectConfig, _direct_machines, lambda machine: NO_LINKS)
