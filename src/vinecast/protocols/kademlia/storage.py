"""What a node keeps for others: values and providers by key, within bounds that nobody can use up alone.

Every record is on the account of whoever sent it. When there is no room, whoever has most gives way: of its
records the one whose key is farthest from the node, since that is the least of the node's business, and that
may be the very one it has just sent. So a flood pushes out only its own. Accounts go by the senders' points,
not by their numbers, which may belong to others one day.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia.buckets import point_of
from vinecast.protocols.kademlia.config import KademliaConfig

FOREVER_US = (1 << 63) - 1
"""Later than anything ends."""
RECORD_BYTES = 256
"""What a record weighs besides its value (ours: about what it takes in memory)."""


@dataclass(slots=True, eq=False)
class Held:
    """A value that is kept, or, without one, a provider."""

    key: bytes
    value: bytes
    provider: int
    """The peer that has what belongs to the key, or NOBODY where this is the value itself."""
    sender: int
    """The point of whoever sent it; a provider speaks for itself."""
    expires_us: int
    until_us: int = FOREVER_US
    """When it counts no more, however often it is stored again."""
    due_us: int = 0
    """When the node stores the value again, unless somebody did meanwhile."""

    @property
    def weight(self) -> int:
        """In bytes, about."""
        return RECORD_BYTES + len(self.value)


class Storage:
    """The records that a node at ``point`` keeps."""

    def __init__(self, config: KademliaConfig, point: int) -> None:
        self._config = config
        self._point = point
        self._values: dict[bytes, Held] = {}
        self._providers: dict[bytes, dict[int, Held]] = {}
        self._accounts: dict[int, dict[tuple[bytes, int], Held]] = {}
        self._weights: dict[int, int] = {}
        self.records = 0
        self.weight = 0

    def value(self, key: bytes) -> Held | None:
        """The value of a key."""
        return self._values.get(key)

    def providers(self, key: bytes) -> list[Held]:
        """Who has what belongs to a key, those who said so last first."""
        return list(reversed(self._providers.get(key, {}).values()))

    def provider(self, key: bytes, peer: int) -> Held | None:
        """The record that a peer provides a key."""
        return self._providers.get(key, {}).get(peer)

    @property
    def values(self) -> Iterator[Held]:
        """All values."""
        return iter(self._values.values())

    def keep(self, held: Held) -> bool:
        """Keep a record, in the place of the same key's value or of the same provider's; False when there is
        no room for it, or when others had to give way for it and it was first among them."""
        before = self._find(held)
        if before is not None:
            self.drop(before)
        self._insert(held)
        listed = self._providers.get(held.key, {})
        if held.provider != NOBODY and len(listed) > self._config.providers_max:
            self.drop(next(iter(listed.values())))
        while self.records > self._config.records_max or self.weight > self._config.bytes_max:
            self.drop(self._least())
        return self._find(held) is held

    def drop(self, held: Held) -> None:
        """Keep a record no longer."""
        if held.provider == NOBODY:
            del self._values[held.key]
        else:
            listed = self._providers[held.key]
            del listed[held.provider]
            if not listed:
                del self._providers[held.key]
        account = self._accounts[held.sender]
        del account[held.key, held.provider]
        self._weights[held.sender] -= held.weight
        if not account:
            del self._accounts[held.sender], self._weights[held.sender]
        self.records -= 1
        self.weight -= held.weight

    def expire(self, now_us: int) -> int:
        """Drop what has had its time; returns how much that was."""
        everything = [held for account in self._accounts.values() for held in account.values()]
        expired = [held for held in everything if held.expires_us <= now_us]
        for held in expired:
            self.drop(held)
        return len(expired)

    def _find(self, held: Held) -> Held | None:
        if held.provider == NOBODY:
            return self.value(held.key)
        return self.provider(held.key, held.provider)

    def _insert(self, held: Held) -> None:
        if held.provider == NOBODY:
            self._values[held.key] = held
        else:
            self._providers.setdefault(held.key, {})[held.provider] = held
        self._accounts.setdefault(held.sender, {})[held.key, held.provider] = held
        self._weights[held.sender] = self._weights.get(held.sender, 0) + held.weight
        self.records += 1
        self.weight += held.weight

    def _least(self) -> Held:
        """Who gives way: the farthest key of the sender that has most."""
        sender = max(self._weights, key=lambda point: (self._weights[point], point))
        account = self._accounts[sender].values()
        return max(account, key=lambda held: (point_of(held.key) ^ self._point, held.key, held.provider))
