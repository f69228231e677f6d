"""PolderCast with regular rings on a live node, which the setting ``regularity`` asks for."""

from typing import Any

from vinecast.protocols.victor import VictorConfig
from vinecast.systems.common.router import ME, LiveParts, RouterPorts
from vinecast.systems.grid.machine import GridConfig
from vinecast.systems.poldercast.router import layers_of, parts_of, place_topics, scratch_for
from vinecast.systems.poldercast_regular.machine import PolderCastRegular, PolderCastRegularConfig


def make(settings: Any, ports: RouterPorts) -> LiveParts:
    """PolderCast with regular rings for one node."""
    layers = layers_of(settings)
    grid = GridConfig(settings.slotting, VictorConfig(period_s=settings.period_s))
    config = PolderCastRegularConfig(**layers, grid=grid, regular=layers["rings"])
    place_topics(config, ports)
    scratch, profiles = scratch_for(config, ports), ports.peers.profiles
    return parts_of(PolderCastRegular(config, ports.seed, ME, profiles, scratch, ports.regular), ports)
