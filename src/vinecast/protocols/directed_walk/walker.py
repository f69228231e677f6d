"""Directed walks on one node: what a message carries, and where it goes next."""

from dataclasses import dataclass, replace

import numpy as np

from vinecast.core.config import check, limited
from vinecast.core.draws import draw
from vinecast.core.rule import word
from vinecast.protocols.directed_walk.rules import (
    NO_LEVEL,
    Homes,
    Masks,
    Peers,
    Words,
    copy_key,
    first_place,
    look,
    step,
    take_in,
)

ID_BYTES = 8
_WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class WalkConfig:
    """How many copies go how far."""

    ttl: int = limited(32, at_least=1, at_most=1000)
    """Hops that a copy may take from one member to the next (ours)."""
    branching: int = limited(0, at_least=0, at_most=1000)
    """Copies that a member sends, each to another neighbour; 0: one to every neighbour (Algorithm 2)."""
    negatives: int = limited(16, at_least=2, at_most=256)
    """Negative ids that a copy carries at the most (ours)."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Walk:
    """What a message carries for its way."""

    negative: bytes = b""
    """Ids whose wells do not draw it, eight bytes each."""
    ttl: int = 0
    level: int = NO_LEVEL
    """What drew it to where it is."""
    number: int = 0
    """Tells copies apart."""


def pack_ids(ids: Words) -> bytes:
    """Ids as a message carries them."""
    return ids.astype("<u8").tobytes()


def unpack_ids(data: bytes, most: int) -> Words:
    """The first so many ids that a message carries, and room for more up to that; a part of one is
    nothing."""
    found = np.frombuffer(data[: len(data) - len(data) % ID_BYTES], dtype="<u8")[:most]
    room = np.zeros(most, dtype=np.uint64)
    room[: found.size] = found
    return room


class Walker:
    """Decides for one node. ``own`` is its id, as level 0 of its home has it."""

    def __init__(self, config: WalkConfig, hashes: int, seed: int, me: int, own: int) -> None:
        self.config = config
        self._hashes = hashes
        self._seed = seed
        self._me = me
        self._own = word(own)

    def begin(
        self, message: int, neighbours: Peers, negative: bytes, copies: int | None = None
    ) -> list[tuple[int, Walk]]:
        """The copies of a message that set out here, and to whom. Its negative ids come to include this node.

        copies: unless given, the configuration's
        """
        count = neighbours.size
        wanted = self.config.branching if copies is None else copies
        if not count:
            return []
        key = word(copy_key(self._seed, word(message & _WORD), self._me))
        first, told = int(first_place(key, count)), self._and_own(negative)
        sent = range(min(wanted, count) if wanted else count)
        return [
            (
                int(neighbours[(first + i) % count]),
                Walk(told, self.config.ttl, NO_LEVEL, int(draw(key, word(i)))),
            )
            for i in sent
        ]

    def go_on(
        self, walk: Walk, item: int, homes: Homes, neighbours: tuple[Peers, Peers, Masks]
    ) -> tuple[int, Walk, bool] | None:
        """Where a message on its way goes next, what it carries, and whether it was misled to this node; None
        if this was its last hop. neighbours: peers, the rows of their homes, and the levels that are
        believed"""
        peers, rows, levels = neighbours
        ttl = min(walk.ttl, self.config.ttl) - 1
        if ttl <= 0 or not peers.size:
            return None
        masks = np.empty(peers.size, dtype=np.uint8)
        look(homes, rows, word(item), self._hashes, masks)
        masks &= levels
        ids, known = self._ids(walk.negative)
        drawn = walk.level if 0 <= walk.level < homes.shape[1] else NO_LEVEL
        near = homes, rows, masks, peers.size, self._hashes
        letter = word(walk.number & _WORD), ttl, drawn, ids, known
        place, level, misled = step(near, letter, self._seed, self._me)
        negative = self._and_own(walk.negative) if misled else pack_ids(ids[:known])
        return int(peers[place]), replace(walk, negative=negative, ttl=ttl, level=int(level)), bool(misled)

    def is_avoided(self, walk: Walk) -> bool:
        """Whether a message does not want to come to this node."""
        return int(self._own) in self.avoided(walk)

    def avoided(self, walk: Walk) -> set[int]:
        """The ids of nodes that a message does not want to come to."""
        ids, known = self._ids(walk.negative)
        return set(ids[:known].tolist())

    def _ids(self, negative: bytes) -> tuple[Words, int]:
        most = self.config.negatives
        return unpack_ids(negative, most), min(len(negative) // ID_BYTES, most)

    def _and_own(self, negative: bytes) -> bytes:
        ids, known = self._ids(negative)
        known = take_in(ids, known, self._own)
        return pack_ids(ids[:known])
