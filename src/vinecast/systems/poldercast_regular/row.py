"""The row of PolderCast with regular rings."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, make_scratch
from vinecast.protocols import rings_regular
from vinecast.protocols.gravity import machine as gravity
from vinecast.protocols.rings_regular import RegularAnswer, RegularRequest
from vinecast.protocols.victor import VictorAnswer, VictorRequest
from vinecast.systems.common.anycast import AnycastConfig
from vinecast.systems.common.row import Machines, System, WarmUp
from vinecast.systems.common.warm_up import NODES, TOPICS, small_profiles
from vinecast.systems.poldercast.row import GOSSIP, LAST, warm_rings
from vinecast.systems.poldercast.row import ROW as PLAIN
from vinecast.systems.poldercast_regular.machine import PolderCastRegular, PolderCastRegularConfig
from vinecast.systems.poldercast_regular.rings import RegularProfiles
from vinecast.systems.poldercast_regular.router import make


def _poldercast_regular_machines(config: PolderCastRegularConfig, seed: int, profiles: Profiles) -> Machines:
    topics = profiles.topic_ids.size
    room = make_scratch(profiles.peers, topics, min(topics, TOPICS_MAX), config.most, config.rings.size)
    shared = RegularProfiles(profiles, Patterns(profiles.peers, config.grid.regularity.slots))
    return lambda node: PolderCastRegular(config, seed, node, profiles, room, shared)


def _warm_machines() -> Sequence[PolderCastRegular]:
    profiles = small_profiles()
    profiles.topic_ids = np.arange(TOPICS, dtype=np.uint64)
    config = PolderCastRegularConfig(fanout=4, anycast=AnycastConfig(on=True))
    scratch = make_scratch(NODES, TOPICS, TOPICS, config.most, config.rings.size)
    patterns = Patterns(NODES, config.grid.regularity.slots)
    patterns.give(np.ones_like(patterns.regular))
    shared = RegularProfiles(profiles, patterns)
    return [PolderCastRegular(config, node, node, profiles, scratch, shared) for node in range(NODES)]


TIMERS = ("cyclon", "grid", "vicinity", "victor", "rings", rings_regular.TIMER, gravity.TIMER)

assert PLAIN.live is not None
ROW = System(
    PolderCastRegularConfig,
    _poldercast_regular_machines,
    sweep_of="poldercast_regular.sweep:PolderCastRegularSweep",
    measures_of="poldercast.measures:MEASURES",
    settings=("synchronous",),
    live=replace(
        PLAIN.live,
        make=make,
        gossip=(*GOSSIP, VictorRequest, VictorAnswer, RegularRequest, RegularAnswer),
        regularity=lambda machine: machine.grid.own,
        warm_up=WarmUp("poldercast-regular", _warm_machines, TIMERS, warm_rings, LAST),
    ),
)
