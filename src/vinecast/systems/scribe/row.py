"""Scribe's row."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.systems.common.row import Machines, System
from vinecast.systems.scribe.machine import Scribe, ScribeConfig


def _scribe_machines(config: ScribeConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Scribe(config, seed, node, profiles)


ROW = System(ScribeConfig, _scribe_machines, lambda machine: machine.peers)
