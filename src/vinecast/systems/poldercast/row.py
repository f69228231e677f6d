"""PolderCast's row."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, make_scratch
from vinecast.systems.common.row import Machines, System
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.poldercast.sweep import PolderCastSweep


def _poldercast_machines(config: PolderCastConfig, seed: int, profiles: Profiles) -> Machines:
    topics = profiles.topic_ids.size  # a node may come to subscribe to as many, or to as many as it can
    room = make_scratch(profiles.peers, topics, min(topics, TOPICS_MAX), config.most, config.rings.size)
    return lambda node: PolderCast(config, seed, node, profiles, room)  # one for all: they take turns


ROW = System(PolderCastConfig, _poldercast_machines, sweep=PolderCastSweep, settings=("synchronous",))
