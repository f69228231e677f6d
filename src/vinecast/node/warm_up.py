"""Compiles, or loads, the rules before they are needed.

Rules are compiled when they are first called, which takes seconds the first time on a machine and would hold
up the node's loop, with everybody who waits for it. So a node first lets three machines of its own talk to
each other for a few cycles, beside the loop.

A process that compiled keeps the compiler's memory, which is more than a node needs in all. So where code can
be kept, another process compiles it, and this one only loads what that left.
"""

import subprocess
import sys

import numpy as np

from vinecast.core.events import Event, PeerLost, Publish, Received, Send, Start, Subscribe, TimerFired
from vinecast.core.interest import make_scratch
from vinecast.core.profiles import Profiles
from vinecast.core.rule import COMPILED, cache_folder
from vinecast.systems.poldercast import PolderCast, PolderCastConfig

_MARK = "node-compiled"
_NODES, _TOPICS, _CYCLES = 3, 4, 6
_done = False


def is_warm() -> bool:
    """Whether nothing is left to compile in this process."""
    return _done or not COMPILED


def warm_up() -> None:
    """Have every rule of a node compiled, and loaded in this process."""
    global _done
    if is_warm():
        return
    folder = cache_folder()
    if folder is not None and not (folder / _MARK).exists():
        # Whatever goes wrong there goes wrong here again, and is told then.
        subprocess.run([sys.executable, "-m", __name__], check=False, stdin=subprocess.DEVNULL)
    _talk()
    _done = True


def _talk() -> None:
    """Let some machines meet everything that can happen to them."""
    profiles = Profiles.live(_NODES, _TOPICS)
    profiles.place[:] = [10, 1 << 20, 1 << 30]
    for node in range(_NODES):
        profiles.set_topics(node, np.arange(2, dtype=np.int32), np.zeros(2, dtype=np.uint8))
    config = PolderCastConfig(fanout=4)
    scratch = make_scratch(_NODES, _TOPICS, _TOPICS, config.most, config.rings.size)
    machines = [PolderCast(config, node, node, profiles, scratch) for node in range(_NODES)]
    timers = [TimerFired(name) for name in ("cyclon", "vicinity", "rings")]
    for node in range(_NODES):
        _pass_on(machines, node, Start(((node + 1) % _NODES,)))
        _pass_on(machines, node, Subscribe(3))
    for _ in range(_CYCLES):
        for timer in timers:
            for node in range(_NODES):
                _pass_on(machines, node, timer)
    for node in range(_NODES):
        _pass_on(machines, node, Publish(1, node))
        machines[node].is_reachable(1)
        machines[node].rings.partner = (node + 1) % _NODES
        machines[node].rings.carriers(1, 0)  # while somebody is being asked
    _pass_on(machines, 0, PeerLost(1))


def _pass_on(machines: list[PolderCast], node: int, event: Event) -> None:
    """Handle an event, and whatever is sent because of it."""
    pending = [(node, event)]
    while pending:
        at, what = pending.pop()
        sent = (effect for effect in machines[at].handle(what, 0) if isinstance(effect, Send))
        pending.extend((effect.to, Received(at, effect.message)) for effect in sent)


if __name__ == "__main__":
    _talk()
    kept = cache_folder()
    if kept is not None:
        (kept / _MARK).touch()
