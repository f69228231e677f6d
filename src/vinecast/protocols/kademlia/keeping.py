"""What a node has of the table itself: values and providers, its own and those that it keeps for others."""

from dataclasses import dataclass

from vinecast.core.draws import purpose, stream, substream, unit
from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia.buckets import KEY_BYTES, Buckets, Keys, point_of
from vinecast.protocols.kademlia.config import KademliaConfig
from vinecast.protocols.kademlia.storage import FOREVER_US, Held, Storage
from vinecast.protocols.kademlia.tasks import Operation, Validator, is_block

FAR = 2
"""A key is not a node's business when it knows so many times k peers that are nearer (ours: a lookup that
was unlucky is not refused, one that did not take place is)."""

FAULTS = {
    "keys": "key of the wrong length",
    "sizes": "value over its limit",
    "values": "value that is not its key's",
    "older": "value that was replaced",
    "answers": "answer to another request",
}
"""Refusals for which whoever sent something is to blame. An honest node stores an older record now and then,
when it missed the newer one: that is told from a replay by how often it happens."""

_DUE = purpose("kademlia.due")


@dataclass(slots=True)
class OwnEntry:
    """What the node itself has put, or, without a value, provides."""

    value: bytes
    due_us: int
    """When it says so again."""


class TableKeeping:
    """The part of the machine that keeps things. See ``Kademlia`` for its arguments."""

    def __init__(
        self, config: KademliaConfig, seed: int, me: int, keys: Keys, validator: Validator | None
    ) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.cycle = 0
        self.buckets = Buckets(keys, me, config.nearest)
        self.storage = Storage(config, self.buckets.point)
        self.own: dict[tuple[Operation, bytes], OwnEntry] = {}
        self._validator = validator

    def _is_true(self, key: bytes, value: bytes, now_us: int) -> bool:
        return self._until_us(key, value, now_us) > now_us

    def _until_us(self, key: bytes, value: bytes, now_us: int) -> int:
        """Until when a value is true; 0 when it is not."""
        if len(key) != KEY_BYTES:
            return 0
        if is_block(key, value):
            return FOREVER_US
        validator = self._validator
        if validator is None or not validator.check(key, value, now_us):
            return 0
        return validator.until_us(value)

    def _better(self, key: bytes, old: bytes, new: bytes) -> bytes:
        """Which of two true values of a key counts; the old one where they are as good."""
        if not old or old == new or self._validator is None:
            return old or new
        return (old, new)[self._validator.select((old, new))]

    def _value(self, key: bytes) -> bytes:
        """The value that this node has for a key, its own or one that it keeps; empty when it has none."""
        own, held = self.own.get((Operation.PUT, key)), self.storage.value(key)
        if own is None:
            return b"" if held is None else held.value
        return own.value if held is None else self._better(key, own.value, held.value)

    def _providers(self, key: bytes) -> list[int]:
        """Peers that told this node so, those who said it last first; a number that has changed hands since
        is nobody's word."""
        keys = self.buckets.keys
        return [held.provider for held in self.storage.providers(key) if keys[held.provider] == held.sender]

    def _why_not(self, key: bytes) -> str:
        """Why nothing is kept for a key, whatever it is; empty when something may be."""
        if len(key) != KEY_BYTES:
            return "keys"
        return "far" if self.buckets.count_nearer(point_of(key)) >= FAR * self.config.nearest else ""

    def _store(self, sender: int, key: bytes, value: bytes, left_us: int, now_us: int) -> str:
        """Keep a value; returns why not, if so."""
        expires_us = now_us + min(left_us, self.config.expire_us)
        held = self.storage.value(key)
        if held is not None and held.value == value:
            held.expires_us = min(max(held.expires_us, expires_us), held.until_us)
            held.due_us = self._next_due_us(key, now_us)
            return ""
        if left_us <= 0 or not 0 < len(value) <= self.config.value_bytes_max:
            return "sizes"
        until_us = self._until_us(key, value, now_us)
        if until_us <= now_us:
            return "values"
        if held is not None and self._better(key, held.value, value) == held.value:
            return "older"
        due_us = self._next_due_us(key, now_us)
        expires_us = min(expires_us, until_us)
        kept = self.storage.keep(Held(key, value, NOBODY, self._point(sender), expires_us, until_us, due_us))
        return "" if kept else "full"

    def _list_provider(self, sender: int, key: bytes, now_us: int) -> str:
        expires_us = now_us + self.config.expire_us
        kept = self.storage.keep(Held(key, b"", sender, self._point(sender), expires_us))
        return "" if kept else "full"

    def _point(self, peer: int) -> int:
        return int(self.buckets.keys[peer])

    def _next_due_us(self, key: bytes, now_us: int) -> int:
        """When to store a value again: a moment of the node's own, since the first holder does it for all."""
        part = unit(substream(stream(self.seed, _DUE, self.cycle, self.me), point_of(key)), 0)
        return now_us + self.config.republish_us + int(part * self.config.republish_us / 2)
