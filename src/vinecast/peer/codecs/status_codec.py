"""Between the gossip of systems on T-Man and what travels of it: numbers become cards, and back.

Beside its card, a system tells of a peer what that last said of itself and signs nothing of: its *words*
(``StatusGossip``). They are taken from whoever heard from the peer last.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.machine import NOBODY
from vinecast.peer.codecs.codec import ENTRIES_BYTES, Codec, weight_of
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.table.peer_table import PeerTable
from vinecast.protocols.tman import TManEcho, TManProfile
from vinecast.systems.common.router import ME
from vinecast.systems.common.tman_router import EXCHANGES
from vinecast.systems.common.wire import Entry, PeerStatus, StatusGossip

_NEVER = np.iinfo(np.int64).min


class StatusCodec:
    """Between the gossip of systems on T-Man and frames, on one node. ``cards`` turns numbers of peers into
    cards, ``gossip`` has its system's words."""

    def __init__(self, cards: Codec, peer_table: PeerTable, gossip: StatusGossip) -> None:
        self._cards, self._peer_table, self._gossip = cards, peer_table, gossip
        self._heard = np.full(peer_table.profiles.peers, _NEVER, dtype=np.int64)
        """[peer], the cycle in which it said what is known of it"""
        peer_table.on_topics = self._reset

    def _reset(self, peer: int) -> None:
        """Whatever a peer said, it is somebody else now, or says something else."""
        self._gossip.reset(peer)
        self._heard[peer] = _NEVER

    # Out.

    def pack(self, to: bytes, message: Message) -> Any:
        """The frame of a message for a peer. Candidates that the table forgot meanwhile are left out."""
        sent = self._cards.references(to)
        sender = self._tell(ME, 0, sent)
        assert sender is not None
        found: Any = message
        entries = zip(found.peers.tolist(), found.ages.tolist(), strict=True)
        if not isinstance(message, TManProfile | TManEcho):
            kind, peers = EXCHANGES.index(type(message)), self._tell_all(entries, sent)
            return self._gossip.exchange(kind, found.cycle, sender, peers)
        others = [(peer, age) for peer, age in entries if peer != ME]
        met = self._tell_all(others, sent) if others else ()
        enclosed = self._gossip.enclose(self._peer_table.number_of(to))
        is_answer = isinstance(message, TManEcho)
        return self._gossip.profile(
            is_answer=is_answer, cycle=found.cycle, sender=sender, met=met, **enclosed
        )

    def _tell(self, number: int, age: int, sent: dict[bytes, int]) -> PeerStatus | None:
        entry = self._peer_table.describe(number, age, sent, rings=False) if number != NOBODY else None
        if entry is None:
            return None
        told: PeerStatus = self._gossip.status(entry.card, entry.age, *self._gossip.words_of(number))
        return told

    def _tell_all(self, entries: Iterable[tuple[int, int]], sent: dict[bytes, int]) -> tuple[PeerStatus, ...]:
        told = []
        room = ENTRIES_BYTES
        for number, age in entries:
            one = self._tell(number, age, sent) if room > 0 else None
            if one is not None:
                told.append(one)
                room -= weight_of(one.card)
        return tuple(told)

    # In.

    def read(self, peer: bytes, frame: Any) -> tuple[int, Message]:
        """Who a message of a peer is from, by number, and what it says; for the machine, at once."""
        sender = self._sender_of(peer, frame.sender)
        if isinstance(frame, self._gossip.exchange):
            message: Message = EXCHANGES[frame.kind](frame.cycle, *self._meet_all(peer, frame.peers))
            return sender, message
        if self._peer_table.has(sender, frame.sender.card.version):
            self._gossip.hear_profile(sender, frame)
        if not frame.is_answer:
            return sender, TManProfile(frame.cycle, *_with(sender, (), ()))
        return sender, TManEcho(frame.cycle, *_with(sender, *self._meet_all(peer, frame.met)))

    def _sender_of(self, peer: bytes, told: PeerStatus) -> int:
        """The number of a message's sender. RemoteError if it is not who it says."""
        self._peer_table.release()
        sender = self._meet(told, peer)
        if sender == NOBODY:
            raise BenignRefusal("sender without a card")
        if self._peer_table.id_of(sender) != peer:
            raise RemoteError("speaks for another peer")
        return sender

    def _meet_all(
        self, peer: bytes, told: Iterable[PeerStatus]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        met = [(self._meet(one, peer), one.age) for one in told]
        known = [one for one in met if one[0] != NOBODY]
        numbers = np.array([number for number, _ in known], dtype=np.int32)
        return numbers, np.array([age for _, age in known], dtype=np.uint16)

    def _meet(self, told: PeerStatus, teller: bytes) -> int:
        """The number of whom a peer tells of; its words are taken from whoever heard from it last."""
        number = self._peer_table.meet(Entry(told.card, told.age, b"", b""), teller)
        if number not in (ME, NOBODY) and self._peer_table.has(number, told.card.version):
            when = self._peer_table.cycle - told.age
            if when >= self._heard[number]:
                self._heard[number] = when
                self._gossip.hear(number, told)
        return number


def _with(sender: int, peers: Iterable[int], ages: Iterable[int]) -> tuple[Any, Any]:
    """Entries, the sender's own first."""
    return np.array([sender, *peers], dtype=np.int32), np.array([0, *ages], dtype=np.uint16)
