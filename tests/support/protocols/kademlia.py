"""Kademlia's machine, alone and in a crowd, and what is said to it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vinecast.core.circle import simulated_ids
from vinecast.core.events import Blame, Effect, Received, Send, Start
from vinecast.core.events import TimerFired as Fired
from vinecast.protocols.kademlia import Found, Kademlia, KademliaConfig, KademliaPong

SECOND = 1_000_000
TIMEOUT = 250_000
KEEP_UP, TIME_OUT = Fired("kademlia"), Fired("kademlia.timeout")
KEYS = np.sort(simulated_ids(1, 40))
BLOCK = b"a block"
BLOCK_KEY = hashlib.sha256(BLOCK).digest()
NAME = hashlib.sha256(b"a name").digest()


class Numbered:
    """A validator: ``name:`` and a number; the highest counts, 99 has expired, and 7 does after 100 s."""

    def check(self, key: bytes, value: bytes, now_us: int) -> bool:
        return key == NAME and value.startswith(b"name:") and value[5:].isdigit() and value != b"name:99"

    def until_us(self, value: bytes) -> int:
        return 100 * SECOND if value == b"name:7" else 1 << 62

    def select(self, values: Sequence[bytes]) -> int:
        return max(range(len(values)), key=lambda place: int(values[place][5:]))


def machine(me: int, contacts: tuple[int, ...] = (), nodes: int = 40, **config: Any) -> Kademlia:
    settings_ = KademliaConfig(**{"nearest": 4, "period_s": 1.0, "timeout_s": 0.25, **config})
    made = Kademlia(settings_, 1, me, KEYS[:nodes], Numbered())
    made.handle(Start(contacts), 0)
    return made


def member(me: int, *peers: int, **config: Any) -> Kademlia:
    """A node that is alone, and then hears from some peers."""
    made = machine(me, **config)
    for peer in peers:
        made.handle(Received(peer, KademliaPong(0)), 0)
    return made


def said(effects: list[Effect], kind: type) -> list[int]:
    return [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def blamed(effects: list[Effect]) -> list[int]:
    return [effect.peer for effect in effects if isinstance(effect, Blame)]


def point(value: bytes) -> int:
    """Where a block is."""
    return int.from_bytes(hashlib.sha256(value).digest()[:8], "big")


def reply(effects: list[Effect]) -> Any:
    """The only message."""
    (message,) = [effect.message for effect in effects if isinstance(effect, Send)]
    return message


def hear(node: Kademlia, sender: int, message: Any, now_us: int = 0) -> list[Effect]:
    return node.handle(Received(sender, message), now_us)


def settle(nodes: dict[int, Kademlia], effects: list[tuple[int, Effect]], now_us: int = 0) -> None:
    """Deliver everything at once, and what comes of it."""
    while effects:
        sender, effect = effects.pop(0)
        if isinstance(effect, Send) and effect.to in nodes:
            effects += [(effect.to, e) for e in hear(nodes[effect.to], sender, effect.message, now_us)]


def do(nodes: dict[int, Kademlia], me: int, effects: list[Effect], now_us: int = 0) -> Found:
    """Carry an operation out; its result."""
    settle(nodes, [(me, effect) for effect in effects], now_us)
    (found,) = nodes[me].take_results()
    return found


def crowd(count: int, **config: Any) -> dict[int, Kademlia]:
    """Nodes that joined one after the other."""
    nodes: dict[int, Kademlia] = {}
    for me in range(count):
        nodes[me] = Kademlia(
            KademliaConfig(**{"nearest": 4, "period_s": 1.0, "timeout_s": 0.25, **config}),
            1,
            me,
            KEYS,
            Numbered(),
        )
        started = nodes[me].handle(Start((me - 1,) if me else ()), 0)
        settle(nodes, [(me, effect) for effect in started])
        assert nodes[me].joined
    return nodes


def nearest(point_key: bytes, count: int, among: Sequence[int]) -> tuple[int, ...]:
    point = int.from_bytes(point_key[:8], "big")
    return tuple(sorted(among, key=lambda peer: int(KEYS[peer]) ^ point)[:count])
