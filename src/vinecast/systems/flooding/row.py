"""Flooding's row."""

from collections.abc import Sequence

from vinecast.core.arrays.profiles import Profiles
from vinecast.protocols.cyclon.machine import TIMER, CyclonAnswer, CyclonRequest
from vinecast.systems.common.row import LiveSystem, Machines, System, WarmUp
from vinecast.systems.common.warm_up import NODES, small_profiles
from vinecast.systems.flooding.machine import Flooding, FloodingConfig, FloodingEvent
from vinecast.systems.flooding.router import make


def _flooding_machines(config: FloodingConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: Flooding(config, seed, node, profiles)


def _warm_machines() -> Sequence[Flooding]:
    profiles, config = small_profiles(), FloodingConfig()
    return [Flooding(config, node, node, profiles) for node in range(NODES)]


ROW = System(
    FloodingConfig,
    _flooding_machines,
    live=LiveSystem(
        make=make,
        first_timer=TIMER,
        last_timer=TIMER,
        carries=(FloodingEvent,),
        gossip=(CyclonRequest, CyclonAnswer),
        relays=True,
        warm_up=WarmUp("flooding", _warm_machines, (TIMER,)),
    ),
)
