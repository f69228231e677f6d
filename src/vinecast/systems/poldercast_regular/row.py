"""The row of PolderCast with regular rings."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, make_scratch
from vinecast.systems.common.row import Machines, System
from vinecast.systems.poldercast_regular.machine import PolderCastRegular, PolderCastRegularConfig
from vinecast.systems.poldercast_regular.rings import RegularProfiles
from vinecast.systems.poldercast_regular.sweep import PolderCastRegularSweep


def _poldercast_regular_machines(config: PolderCastRegularConfig, seed: int, profiles: Profiles) -> Machines:
    topics = profiles.topic_ids.size
    room = make_scratch(profiles.peers, topics, min(topics, TOPICS_MAX), config.most, config.rings.size)
    shared = RegularProfiles(profiles, Patterns(profiles.peers, config.grid.regularity.slots))
    return lambda node: PolderCastRegular(config, seed, node, profiles, room, shared)


ROW = System(
    PolderCastRegularConfig,
    _poldercast_regular_machines,
    sweep=PolderCastRegularSweep,
    settings=("synchronous",),
)
