"""Vinifera's row."""

from collections.abc import Sequence

from vinecast.core.content.filters import make_filter
from vinecast.core.content.schemas import Attribute, Schema
from vinecast.systems.common.row import LiveSystem, System, WarmUp
from vinecast.systems.common.tman_router import FIRST_TIMER, LAST_TIMER
from vinecast.systems.common.warm_up import NODES, small_profiles
from vinecast.systems.vinifera.catalogue import Catalogue, ContentShared
from vinecast.systems.vinifera.events import ContentEvent
from vinecast.systems.vinifera.machine import Vinifera, ViniferaConfig, vinifera_machines
from vinecast.systems.vinifera.messages import FRAMES
from vinecast.systems.vinifera.router import make


def _warm_machines() -> Sequence[Vinifera]:
    profiles, config = small_profiles(), ViniferaConfig()
    attributes = Attribute("x", "number", 0, 1), Attribute("y", "number", 0, 1)
    schemas = [Schema(name, attributes) for name in "ab"]
    ranges: list[dict[str, tuple[object, object]]]
    ranges = [{"x": (0, 0.5)}, {"x": (0.2, 0.9), "y": (0, 0.5)}, {"y": (0.1, 0.2)}, {"x": (0.3, 0.4)}]
    catalogue = Catalogue(schemas, (make_filter(schemas[1], found) for found in ranges))
    shared = ContentShared(profiles, catalogue, catalogue.attributes)
    for node in range(NODES):
        shared.contents[node] = 0.35, 0.15
        shared.describe(node)
    scratch = config.make_scratch(profiles)
    return [Vinifera(config, node, node, profiles, scratch, shared) for node in range(NODES)]


ROW = System(
    ViniferaConfig,
    vinifera_machines,
    has_topics=False,
    has_content=True,
    live=LiveSystem(
        make=make,
        first_timer=FIRST_TIMER,
        last_timer=LAST_TIMER,
        carries=(ContentEvent,),
        messages=FRAMES,
        many_ways=True,
        relays=True,
        by_content=True,
        warm_up=WarmUp("vinifera", _warm_machines, ("cyclon", "tman", LAST_TIMER)),
    ),
)
