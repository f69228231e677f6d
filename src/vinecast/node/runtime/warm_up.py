"""Warm-up: compiles, or loads, the rules before they are needed.

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
from vinecast.systems.common.row import WarmUp
from vinecast.systems.registry import live_system

_MARK = "node-compiled"
_CYCLES = 6
_COMPILER = "libllvmlite"
_TRIM_THRESHOLD, _TRIM_BYTES = -1, 64 * 1024  # of mallopt(3); ours
_HOUR_US = 3_600_000_000
_done: set[str] = set()


def _warm_up_of(config: NodeConfig) -> WarmUp | None:
    """What such a node needs; trees need nothing."""
    return live_system(config.row).warm_up


def is_warm(config: NodeConfig) -> bool:
    """Whether nothing is left to compile in this process for such a node."""
    needed = _warm_up_of(config)
    return needed is None or needed.name in _done or not COMPILED


def warm_up(config: NodeConfig | None = None) -> None:
    """Have every rule of a node compiled, and loaded in this process."""
    config = config or NodeConfig()
    needed, folder = _warm_up_of(config), cache_folder()
    if needed is None or is_warm(config):
        return
    if folder is not None and not (folder / _mark(needed)).exists():
        # Whatever goes wrong there goes wrong here again, and is told then.
        subprocess.run([sys.executable, "-m", __name__, config.row], check=False, stdin=subprocess.DEVNULL)
    _talk(needed)
    _done.add(needed.name)
    _let_go_of_compiler()


def _mark(needed: WarmUp) -> str:
    return f"{_MARK}-{needed.name}"


def _talk(needed: WarmUp) -> None:
    """Let some machines meet everything that can happen to them."""
    machines = needed.machines()
    _gossip(machines, needed.timers)
    needed.finish(machines)
    if needed.last is not None:
        _pass_on(machines, 0, needed.last, _CYCLES * _HOUR_US)


def _gossip(machines: Sequence[Machine], names: Sequence[str]) -> None:
    """Let them gossip for a few cycles, publish, and lose and find each other."""
    nodes = len(machines)
    for node in range(nodes):
        _pass_on(machines, node, Start(((node + 1) % nodes,)), 0)
        _pass_on(machines, node, Subscribe(3), 0)
    for cycle in range(_CYCLES):
        for name in names:
            for node in range(nodes):
                _pass_on(machines, node, TimerFired(name), cycle // 2 * _HOUR_US)
    now_us = _CYCLES // 2 * _HOUR_US
    for node in range(nodes):
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


def _pass_on(machines: Sequence[Machine], node: int, event: Event, now_us: int) -> None:
    """Handle an event, and whatever is sent because of it."""
    pending = [(node, event)]
    while pending:
        at, what = pending.pop()
        sent = (effect for effect in machines[at].handle(what, now_us) if isinstance(effect, Send))
        pending.extend((effect.to, Received(at, effect.message)) for effect in sent)


if __name__ == "__main__":
    asked = live_system(sys.argv[1]).warm_up
    assert asked is not None
    _talk(asked)
    kept = cache_folder()
    if kept is not None:
        (kept / _mark(asked)).touch()
