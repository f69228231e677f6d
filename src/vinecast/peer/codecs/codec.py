"""Between a machine's messages and frames: numbers become cards, cards become numbers.

One codec a node. It remembers for every connection which cards went over it, so that each goes once; when the
connection goes down that is forgotten, and every so many cycles too, for the other side may have forgotten as
well.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.machine import NOBODY
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.messages import Gossip
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import AGE_MAX, ENTRIES_MAX, Card, CardReference, Entry, names_bytes

ENTRIES_BYTES = 256 * 1024
"""Of all cards in one frame, about; candidates beyond are left out (ours)."""
NO_GOSSIP: Mapping[str, type[Any]] = {}
REFERENCES_MAX = 4096  # ours: cards remembered a connection; beyond, they are sent again
REFERENCES_FOR = 16  # ours: cycles after which a card is sent again


def weight_of(card: Card | CardReference) -> int:
    """What the names on a card weigh; nothing, where only a reference is sent."""
    return names_bytes(card.topics) if isinstance(card, Card) else 0


class Codec:
    """``peer_table`` knows who the numbers are; ``gossip`` has the messages of gossip layers by the name of
    their kind, all of which have the same fields."""

    def __init__(
        self,
        peer_table: PeerTable,
        entries_max: int = ENTRIES_MAX,
        gossip: Mapping[str, type[Any]] = NO_GOSSIP,
    ) -> None:
        """``entries_max``: how many a message may have, in either direction."""
        self._peer_table = peer_table
        self._entries_max, self._gossip = entries_max, gossip
        self._sent: dict[bytes, dict[bytes, int]] = {}
        self._since: dict[bytes, int] = {}

    def forget_connection(self, peer: bytes) -> None:
        """The connection to a peer went down: whatever it knew, it may not know any more."""
        self._sent.pop(peer, None)
        self._since.pop(peer, None)

    def pack(self, to: bytes, message: Message) -> Gossip:
        """A gossip message for a peer. Candidates that the table forgot meanwhile are left out."""
        found: Any = message
        sent = self.references(to)
        sender = self._peer_table.describe(ME, 0, sent)
        assert sender is not None
        entries, room = [], ENTRIES_BYTES
        for number, age in zip(found.peers.tolist(), found.ages.tolist(), strict=True):
            entry = self._peer_table.describe(number, age, sent) if number != NOBODY and room > 0 else None
            if entry is not None:
                entries.append(entry)
                room -= len(entry.gaps) + len(entry.coverage) + weight_of(entry.card)
        return Gossip(message.kind, found.cycle, sender, tuple(entries))

    def unpack(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """Who a frame of a peer is from, by number, and the message in it; for the machine, at once."""
        self._peer_table.release()
        kind = self._gossip.get(frame.kind)
        if kind is None:
            raise RemoteError("unknown kind of message")
        sender = self._peer_table.meet(frame.sender, peer)
        if sender == NOBODY:
            raise BenignRefusal("sender without a card")
        if self._peer_table.id_of(sender) != peer:
            raise RemoteError("speaks for another peer")
        peers, ages = [], []
        for entry in frame.entries[: self._entries_max]:
            number = self._peer_table.meet(entry, peer)
            if number != NOBODY:
                peers.append(number)
                ages.append(entry.age)
        return sender, kind(frame.cycle, np.array(peers, dtype=np.int32), np.array(ages, dtype=np.uint16))

    def describe(self, to: bytes, numbers: Iterable[int]) -> tuple[Entry, ...]:
        """The cards of some peers for another one, without what they say of their rings."""
        sent, entries, room = self.references(to), [], ENTRIES_BYTES
        for number in islice(numbers, ENTRIES_MAX):
            entry = self._peer_table.describe(number, AGE_MAX, sent, rings=False) if room > 0 else None
            if entry is not None:
                entries.append(entry)
                room -= weight_of(entry.card)
        return tuple(entries)

    def meet(self, peer: bytes, entries: Iterable[Entry]) -> tuple[int, ...]:
        """The numbers of those whom a peer tells of."""
        met = [self._peer_table.meet(entry, peer) for entry in entries]
        return tuple([number for number in met if number != NOBODY])

    def references(self, to: bytes) -> dict[bytes, int]:
        """The cards that a peer has had over the connection as it is now."""
        cycle = self._peer_table.cycle
        sent = self._sent.setdefault(to, {})
        if cycle - self._since.setdefault(to, cycle) >= REFERENCES_FOR or len(sent) > REFERENCES_MAX:
            sent.clear()
            self._since[to] = cycle
        return sent
