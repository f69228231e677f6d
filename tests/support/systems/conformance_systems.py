"""The systems that the conformance suite runs on: how each is built, and what to expect of it."""

from collections.abc import Callable
from typing import Any

from support.systems.conformance import MEMORY, TopicSystem
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.machine import Machine
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.gravity import GravityConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.tman import TManConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.systems.common.tman_base import TManBase
from vinecast.systems.direct.machine import Direct, DirectConfig
from vinecast.systems.flooding.machine import Flooding, FloodingConfig
from vinecast.systems.opt.machine import OptConfig
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.quasar.machine import QuasarConfig
from vinecast.systems.registry import SYSTEMS as SIMULATED
from vinecast.systems.rvr.machine import RvrConfig
from vinecast.systems.vitis.machine import VitisConfig


def _poldercast(config: PolderCastConfig, seed: int, profiles: Profiles) -> Callable[[int], Machine]:
    topics = profiles.topic_ids.size
    scratch = make_scratch(profiles.peers, topics, topics, config.most)
    return lambda node: PolderCast(config, seed, node, profiles, scratch)


def poldercast_config(**rest: Any) -> PolderCastConfig:
    """S0's configuration with cycles of a second."""
    return PolderCastConfig(
        cyclon=CyclonConfig(period_s=1.0),
        vicinity=VicinityConfig(period_s=1.0),
        rings=RingsConfig(period_s=1.0),
        **rest,
    )


def _poldercast_views(machine: PolderCast) -> list[list[int]]:
    half = machine.config.rings.size // 2
    sides = [side for row in machine.rings.peers for side in (row[:half], row[half:])]
    views = [machine.cyclon.view, machine.vicinity.peers, *sides]
    return [[peer for peer in view.tolist() if peer != -1] for view in views]


POLDERCAST = TopicSystem(
    build=_poldercast,
    config=poldercast_config(),
    forgetful=poldercast_config(remembered=MEMORY, remember_s=1.0),
    settle=15,
    recover=30,
    heal=30,
    relay_free=True,
    views=_poldercast_views,
    remembered=lambda machine: len(machine.recent),
    reason_alone="no subscriber known",
)

SYSTEMS: dict[str, TopicSystem] = {"poldercast": POLDERCAST}

# Trees join as soon as they can be imported. A further system: one more entry like these.
try:
    from vinecast.protocols.kademlia import KademliaConfig
    from vinecast.protocols.multicast_tree import MulticastTree, RecruitingConfig, TreeConfig
    from vinecast.protocols.pastry import PastryConfig
    from vinecast.systems.pulsarcast.machine import PulsarCast, PulsarCastConfig
    from vinecast.systems.scribe.machine import Scribe, ScribeConfig
except ImportError:  # pragma: no cover
    pass
else:

    def _scribe(config: ScribeConfig, seed: int, profiles: Profiles) -> Callable[[int], Machine]:
        return lambda node: Scribe(config, seed, node, profiles)

    def _scribe_config(memory: int = 10_000) -> ScribeConfig:
        return ScribeConfig(
            PastryConfig(period_s=1.0, timeout_s=0.25),
            TreeConfig(period_s=1.0, timeout_s=0.25, memory_size=memory),
            settle_s=0.25,
        )

    def _children(tree: MulticastTree) -> list[list[int]]:
        return [list(branch.children) for branch in tree.branches.values()]

    def _scribe_views(machine: Scribe) -> list[list[int]]:
        return _children(machine.tree)

    SYSTEMS["scribe"] = TopicSystem(
        build=_scribe,
        config=_scribe_config(),
        forgetful=_scribe_config(MEMORY),
        settle=10,
        recover=15,
        heal=60,
        relay_free=False,
        views=_scribe_views,
        remembered=lambda machine: len(machine.tree.seen),
        reason_alone="no subscribers",
    )

    def _pulsarcast(config: PulsarCastConfig, seed: int, profiles: Profiles) -> Callable[[int], Machine]:
        return lambda node: PulsarCast(config, seed, node, profiles)

    def _pulsarcast_config(memory: int = 10_000) -> PulsarCastConfig:
        return PulsarCastConfig(
            KademliaConfig(nearest=8, period_s=1.0, timeout_s=0.25),
            RecruitingConfig(period_s=1.0, timeout_s=0.25, memory_size=memory),
            settle_s=0.25,
        )

    def _pulsarcast_views(machine: PulsarCast) -> list[list[int]]:
        return [machine.kademlia.buckets.known, *_children(machine.tree)]

    SYSTEMS["pulsarcast"] = TopicSystem(
        build=_pulsarcast,
        config=_pulsarcast_config(),
        forgetful=_pulsarcast_config(MEMORY),
        settle=10,
        recover=15,
        heal=60,
        relay_free=False,
        views=_pulsarcast_views,
        remembered=lambda machine: len(machine.tree.seen),
        reason_alone="no subscribers",
    )


# The baselines. Flooding among subscribers reaches them all only where they are linked to each other, so its
# nodes have room for links to everybody here; test_baselines.py shows what becomes of it where they have not.


def _flooding(config: FloodingConfig, seed: int, profiles: Profiles) -> Callable[[int], Machine]:
    return lambda node: Flooding(config, seed, node, profiles)


def _flooding_system(relays: bool, links: CyclonConfig) -> TopicSystem:
    return TopicSystem(
        build=_flooding,
        config=FloodingConfig(relays=relays, cyclon=links),
        forgetful=FloodingConfig(relays=relays, remembered=MEMORY, remember_s=1.0, cyclon=links),
        settle=10,
        recover=30,
        heal=30,
        relay_free=not relays,
        views=lambda machine: [machine.cyclon.view.tolist()],
        remembered=lambda machine: len(machine.recent),
        reason_alone="" if relays else "no subscriber known",
    )


def _direct(config: DirectConfig, seed: int, profiles: Profiles) -> Callable[[int], Machine]:
    return lambda node: Direct(config, node, profiles)


SYSTEMS["flooding"] = _flooding_system(False, CyclonConfig(period_s=1.0, view_size=60, gossip_size=30))
SYSTEMS["flooding-relays"] = _flooding_system(True, CyclonConfig(period_s=1.0))
SYSTEMS["direct"] = TopicSystem(
    build=_direct,
    config=DirectConfig(period_s=1.0),
    forgetful=DirectConfig(period_s=1.0, remembered=MEMORY, remember_s=1.0),
    settle=1,
    recover=1,
    heal=1,
    relay_free=True,
    views=lambda machine: [],
    remembered=lambda machine: len(machine.recent),
    reason_alone="no subscriber known",
)


# Vitis and its baselines. OPT's bound is out of the way here; test_opt.py shows it where it is not.


def _on_tman_views(machine: TManBase) -> list[list[int]]:
    return [machine.cyclon.view.tolist(), machine.tman.table.tolist(), machine.neighbours()]


def _on_tman(name: str, config: type[Any], relay_free: bool) -> TopicSystem:
    def configured(**rest: Any) -> Any:
        layers = {"cyclon": CyclonConfig(period_s=1.0), "tman": TManConfig(period_s=1.0)}
        return config(**layers, pull_timeout_s=0.2, **rest)

    return TopicSystem(
        build=SIMULATED[name].machines,
        config=configured(),
        forgetful=configured(remembered=MEMORY, remember_s=1.0),
        settle=15,
        recover=20,
        heal=40,
        relay_free=relay_free,
        views=_on_tman_views,
        remembered=lambda machine: len(machine.recent),
        reason_alone="no subscriber known",
    )


SYSTEMS["vitis"] = _on_tman("vitis", VitisConfig, relay_free=False)
SYSTEMS["rvr"] = _on_tman("rvr", RvrConfig, relay_free=False)
SYSTEMS["opt"] = _on_tman("opt", OptConfig, relay_free=True)


# Quasar does not promise to find everybody; with polling, whom it missed asks for the rest within the cycle.


def _quasar_config(**rest: Any) -> QuasarConfig:
    layers: dict[str, Any] = {"cyclon": CyclonConfig(period_s=1.0), "gravity": GravityConfig(period_s=1.0)}
    return QuasarConfig(polls=12, poll_s=0.45, offer_s=30.0, **layers, **rest)


SYSTEMS["quasar"] = TopicSystem(
    build=SIMULATED["quasar"].machines,
    config=_quasar_config(),
    forgetful=_quasar_config(remembered=MEMORY, remember_s=1.0),
    settle=6,
    recover=8,
    heal=12,
    relay_free=False,
    views=lambda machine: [machine.cyclon.view.tolist(), machine.gravity.links],
    remembered=lambda machine: len(machine.recent),
    reason_alone="",
)
