"""Vitis' row. Its sweep knows all systems on T-Man."""

from collections.abc import Sequence

import numpy as np

from vinecast.systems.common.notices import Pull, PulledEvent, SeekingEvent
from vinecast.systems.common.row import LiveSystem, System, WarmUp
from vinecast.systems.common.tman_router import FIRST_TIMER, LAST_TIMER
from vinecast.systems.common.warm_up import NODES, TOPICS, small_profiles
from vinecast.systems.vitis.machine import Vitis, VitisConfig, VitisProfiles, vitis_machines
from vinecast.systems.vitis.messages import FRAMES
from vinecast.systems.vitis.router import make


def _warm_machines() -> Sequence[Vitis]:
    profiles, config = small_profiles(), VitisConfig()
    shared = VitisProfiles(profiles, np.arange(TOPICS, dtype=np.int32))
    scratch = config.make_scratch(profiles)
    return [Vitis(config, node, node, profiles, scratch, shared) for node in range(NODES)]


ROW = System(
    VitisConfig,
    vitis_machines,
    sweep_of="tman_sweep.sweep:TManSweep",
    measures_of="tman_sweep.measures:MEASURES",
    settings=("synchronous",),
    live=LiveSystem(
        make=make,
        first_timer=FIRST_TIMER,
        last_timer=LAST_TIMER,
        carries=(PulledEvent, SeekingEvent),
        messages=FRAMES,
        pulls=Pull,
        relays=True,
        names_peers=True,
        warm_up=WarmUp("vitis", _warm_machines, ("cyclon", "tman", LAST_TIMER)),
    ),
)
