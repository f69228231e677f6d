"""PolderCast's row."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, make_scratch
from vinecast.core.events import Publish
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.gravity import machine as gravity
from vinecast.protocols.rings import RingsAnswer, RingsRequest
from vinecast.protocols.rings import machine as rings
from vinecast.protocols.vicinity import VicinityAnswer, VicinityRequest
from vinecast.systems.common.anycast import AnycastConfig
from vinecast.systems.common.anycast_messages import FRAMES
from vinecast.systems.common.row import LiveSystem, Machines, System, WarmUp
from vinecast.systems.common.warm_up import NODES, TOPICS, small_profiles
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast, PolderCastEvent
from vinecast.systems.poldercast.router import REQUESTS_IN_HAND, make


def _poldercast_machines(config: PolderCastConfig, seed: int, profiles: Profiles) -> Machines:
    topics = profiles.topic_ids.size  # a node may come to subscribe to as many, or to as many as it can
    room = make_scratch(profiles.peers, topics, min(topics, TOPICS_MAX), config.most, config.rings.size)
    return lambda node: PolderCast(config, seed, node, profiles, room)  # one for all: they take turns


def _warm_machines() -> Sequence[PolderCast]:
    profiles = small_profiles()
    profiles.topic_ids = np.arange(TOPICS, dtype=np.uint64)
    config = PolderCastConfig(fanout=4, anycast=AnycastConfig(on=True))
    scratch = make_scratch(NODES, TOPICS, TOPICS, config.most, config.rings.size)
    return [PolderCast(config, node, node, profiles, scratch) for node in range(NODES)]


def warm_rings(machines: Sequence[Any]) -> None:
    """What is asked of rings, while somebody is being asked."""
    for node, machine in enumerate(machines):
        machine.is_reachable(1)
        machine.rings.partner = (node + 1) % NODES
        machine.rings.carriers(1, 0)


GOSSIP = (CyclonRequest, CyclonAnswer, VicinityRequest, VicinityAnswer, RingsRequest, RingsAnswer)
LAST = Publish(2, NODES)
"""Nobody subscribes: there is a search."""
TIMERS = ("cyclon", "vicinity", "rings", gravity.TIMER)

ROW = System(
    PolderCastConfig,
    _poldercast_machines,
    sweep_of="poldercast.sweep:PolderCastSweep",
    measures_of="poldercast.measures:MEASURES",
    settings=("synchronous",),
    live=LiveSystem(
        make=make,
        first_timer=cyclon.TIMER,
        last_timer=rings.TIMER,
        carries=(PolderCastEvent,),
        messages=FRAMES,
        gossip=GOSSIP,
        requests_in_hand=REQUESTS_IN_HAND,
        warm_up=WarmUp("poldercast", _warm_machines, TIMERS, warm_rings, LAST),
    ),
)
