"""PulsarCast's row."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.protocols.multicast_tree import TreeEvent, TreePublish
from vinecast.protocols.multicast_tree.machine import TIMER
from vinecast.systems.common.row import LiveSystem, Machines, System
from vinecast.systems.pulsarcast.machine import PulsarCast, PulsarCastConfig
from vinecast.systems.pulsarcast.messages import FRAMES
from vinecast.systems.pulsarcast.router import REQUESTS_IN_HAND, make


def _pulsarcast_machines(config: PulsarCastConfig, seed: int, profiles: Profiles) -> Machines:
    return lambda node: PulsarCast(config, seed, node, profiles)


ROW = System(
    PulsarCastConfig,
    _pulsarcast_machines,
    lambda machine: machine.peers,
    live=LiveSystem(
        make=make,
        first_timer=TIMER,
        last_timer=TIMER,
        carries=(TreeEvent, TreePublish),
        messages=FRAMES,
        requests_in_hand=REQUESTS_IN_HAND,
        gossips=False,
        many_ways=True,
        relays=True,
        kademlia=lambda machine: machine.kademlia,
    ),
)
