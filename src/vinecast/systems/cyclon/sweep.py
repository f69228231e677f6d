"""Cyclon for a whole population, as a system of its own."""

from vinecast.core.arrays.profiles import Profiles
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.cyclon.sweep import CyclonSweep


def cyclon_sweep(config: CyclonConfig, seed: int, profiles: Profiles) -> CyclonSweep:
    """The population: how many there are is all that its profiles say."""
    return CyclonSweep(config, seed, profiles.peers)
