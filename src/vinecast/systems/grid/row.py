"""GRID's row: the service alone, on Cyclon."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.systems.common.row import Machines, System
from vinecast.systems.grid.machine import GridNode, GridNodeConfig


def _grid_machines(config: GridNodeConfig, seed: int, profiles: Profiles) -> Machines:
    room = make_scratch(profiles.peers, 0, 0, config.most)
    patterns = Patterns(profiles.peers, config.grid.regularity.slots)
    return lambda node: GridNode(config, seed, node, patterns, room)


ROW = System(GridNodeConfig, _grid_machines, has_topics=False)
