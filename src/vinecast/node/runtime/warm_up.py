"""Compiles, or loads, the rules before they are needed.

Rules are compiled when they are first called, which takes seconds the first time on a machine and would hold
up the node's loop, with everybody who waits for it. So a node first lets three machines of its own talk to
each other for a few cycles, beside the loop.

A process that compiled keeps the compiler's memory, which is more than a node needs in all. So where code can
be kept, another process compiles it, and this one only loads what that left. The compiler's own code, which
loading runs through, is then let go of: the system reads it again from its file should anybody need it.
"""

import ctypes
import mmap
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.content.filters import make_filter
from vinecast.core.content.schemas import Attribute, Schema
from vinecast.core.events import (
    Event,
    PeerFound,
    PeerLost,
    Publish,
    Received,
    Send,
    Start,
    Subscribe,
    TimerFired,
)
from vinecast.core.machine import Machine
from vinecast.core.rule import COMPILED, cache_folder
from vinecast.node.runtime.config import NodeConfig
from vinecast.protocols import rings_regular
from vinecast.protocols.gravity import machine as gravity
from vinecast.protocols.tman.machine import PROFILE_TIMER
from vinecast.systems.common.anycast import AnycastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.poldercast_regular.machine import PolderCastRegular, PolderCastRegularConfig
from vinecast.systems.poldercast_regular.rings import RegularProfiles
from vinecast.systems.vinifera.catalogue import Catalogue, ContentShared
from vinecast.systems.vinifera.machine import Vinifera, ViniferaConfig
from vinecast.systems.vitis.machine import Vitis, VitisConfig, VitisProfiles

_MARK = "node-compiled"
_PLAIN, _REGULAR, _VITIS, _VINIFERA = "poldercast", "poldercast-regular", "vitis", "vinifera"
_NODES, _TOPICS, _CYCLES = 3, 4, 6
_COMPILER = "libllvmlite"
_TRIM_THRESHOLD, _TRIM_BYTES = -1, 64 * 1024  # of mallopt(3); ours
_HOUR_US = 3_600_000_000
_done: set[str] = set()


def _rules_of(config: NodeConfig) -> str:
    """Which rules a node needs; trees need none."""
    if config.system != "poldercast":
        return config.system if config.system in (_VITIS, _VINIFERA) else ""
    return _PLAIN if config.slotting is None else _REGULAR


def is_warm(config: NodeConfig) -> bool:
    """Whether nothing is left to compile in this process for such a node."""
    rules = _rules_of(config)
    return not rules or rules in _done or not COMPILED


def warm_up(config: NodeConfig | None = None) -> None:
    """Have every rule of a node compiled, and loaded in this process."""
    config = config or NodeConfig()
    if is_warm(config):
        return
    folder, rules = cache_folder(), _rules_of(config)
    if folder is not None and not (folder / _mark(rules)).exists():
        # Whatever goes wrong there goes wrong here again, and is told then.
        subprocess.run([sys.executable, "-m", __name__, rules], check=False, stdin=subprocess.DEVNULL)
    _talk(rules)
    _done.add(rules)
    _let_go_of_compiler()


def _mark(rules: str) -> str:
    return f"{_MARK}-{rules}"


def _talk(rules: str) -> None:
    """Let some machines meet everything that can happen to them."""
    if rules in (_VITIS, _VINIFERA):
        made = _vitis_machines() if rules == _VITIS else _vinifera_machines()
        _gossip(made, ["cyclon", "tman", PROFILE_TIMER])
        return
    machines = _poldercast_machines(rules == _REGULAR)
    _gossip(machines, ["cyclon", "grid", "vicinity", "victor", "rings", rings_regular.TIMER, gravity.TIMER])
    for node in range(_NODES):
        machines[node].is_reachable(1)
        machines[node].rings.partner = (node + 1) % _NODES
        machines[node].rings.carriers(1, 0)  # while somebody is being asked
    _pass_on(machines, 0, Publish(2, _NODES), _CYCLES * _HOUR_US)  # nobody subscribes: there is a search


def _gossip(machines: Sequence[Machine], names: list[str]) -> None:
    """Let them gossip for a few cycles, publish, and lose and find each other."""
    for node in range(_NODES):
        _pass_on(machines, node, Start(((node + 1) % _NODES,)), 0)
        _pass_on(machines, node, Subscribe(3), 0)
    for cycle in range(_CYCLES):
        for name in names:
            for node in range(_NODES):
                _pass_on(machines, node, TimerFired(name), cycle // 2 * _HOUR_US)
    now_us = _CYCLES // 2 * _HOUR_US
    for node in range(_NODES):
        _pass_on(machines, node, Publish(1, node), now_us)
    _pass_on(machines, 0, PeerLost(1), now_us)
    _pass_on(machines, 0, PeerFound(1), now_us)


def _let_go_of_compiler() -> None:
    """Give back the memory that holds the compiler's code, unchanged pages of a file, on Linux; and from here
    on whatever is freed, of which the C library would keep more the more was freed at once before."""
    maps = Path("/proc/self/maps")
    if not maps.exists() or not hasattr(mmap, "MADV_DONTNEED"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # not every C library has it
        library.mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
    advise = library.madvise
    for line in maps.read_text().splitlines():
        place, rights, *_, name = line.split()
        if rights == "r-xp" and _COMPILER in name:
            begin, end = (int(end, 16) for end in place.split("-"))
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)


def _profiles() -> Profiles:
    profiles = Profiles.live(_NODES, _TOPICS)
    profiles.place[:] = [10, 1 << 20, 1 << 30]
    for node in range(_NODES):
        profiles.set_topics(node, np.arange(2, dtype=np.int32), np.zeros(2, dtype=np.uint8))
    return profiles


def _vitis_machines() -> list[Vitis]:
    profiles, config = _profiles(), VitisConfig()
    shared = VitisProfiles(profiles, np.arange(_TOPICS, dtype=np.int32))
    scratch = config.make_scratch(profiles)
    return [Vitis(config, node, node, profiles, scratch, shared) for node in range(_NODES)]


def _vinifera_machines() -> list[Vinifera]:
    profiles, config = _profiles(), ViniferaConfig()
    schemas = [
        Schema(name, (Attribute("x", "number", 0, 1), Attribute("y", "number", 0, 1))) for name in "ab"
    ]
    ranges: list[dict[str, tuple[object, object]]]
    ranges = [{"x": (0, 0.5)}, {"x": (0.2, 0.9), "y": (0, 0.5)}, {"y": (0.1, 0.2)}, {"x": (0.3, 0.4)}]
    catalogue = Catalogue(schemas, (make_filter(schemas[1], found) for found in ranges))
    shared = ContentShared(profiles, catalogue, catalogue.attributes)
    for node in range(_NODES):
        shared.contents[node] = 0.35, 0.15
        shared.describe(node)
    scratch = config.make_scratch(profiles)
    return [Vinifera(config, node, node, profiles, scratch, shared) for node in range(_NODES)]


def _poldercast_machines(regular: bool) -> list[PolderCast]:
    profiles = _profiles()
    profiles.topic_ids = np.arange(_TOPICS, dtype=np.uint64)
    config = PolderCastRegularConfig(fanout=4, anycast=AnycastConfig(on=True))
    scratch = make_scratch(_NODES, _TOPICS, _TOPICS, config.most, config.rings.size)
    if not regular:
        return [PolderCast(config, node, node, profiles, scratch) for node in range(_NODES)]
    patterns = Patterns(_NODES, config.grid.regularity.slots)
    patterns.give(np.ones_like(patterns.regular))
    shared = RegularProfiles(profiles, patterns)
    return [PolderCastRegular(config, node, node, profiles, scratch, shared) for node in range(_NODES)]


def _pass_on(machines: Sequence[Machine], node: int, event: Event, now_us: int) -> None:
    """Handle an event, and whatever is sent because of it."""
    pending = [(node, event)]
    while pending:
        at, what = pending.pop()
        sent = (effect for effect in machines[at].handle(what, now_us) if isinstance(effect, Send))
        pending.extend((effect.to, Received(at, effect.message)) for effect in sent)


if __name__ == "__main__":
    asked = sys.argv[1]
    _talk(asked)
    kept = cache_folder()
    if kept is not None:
        (kept / _mark(asked)).touch()
