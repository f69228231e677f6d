"""Between the gossip of systems on T-Man and what travels of it: numbers become cards, and back.

Beside its card, a system tells of a peer what that last said of itself and signs nothing of: a *word* such as
what its topics weigh, or where it is on the circle now. It is taken from whoever heard from the peer last.
"""

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.machine import NOBODY
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.table.peer_table import ME, PeerTable
from vinecast.peer.wire.codec import ENTRIES_BYTES, Codec, weight_of
from vinecast.peer.wire.messages import Card, CardReference, Entry
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.tman import TManAnswer, TManEcho, TManProfile, TManRequest

KINDS = ("cyclon.request", "cyclon.answer", "tman.request", "tman.answer")
"""What an exchange is of, by place."""

_EXCHANGES: tuple[type[Any], ...] = (CyclonRequest, CyclonAnswer, TManRequest, TManAnswer)
_NEVER = np.iinfo(np.int64).min


class PeerStatus(Protocol):
    """A peer as one node tells another of it."""

    @property
    def card(self) -> Card | CardReference: ...
    @property
    def age(self) -> int: ...


T = TypeVar("T", bound=PeerStatus)


class Packed(NamedTuple, Generic[T]):
    """A message of the gossip layers, with cards."""

    kind: int | None
    """Its place among ``KINDS``; None for a profile or the answer to one."""
    cycle: int
    sender: T
    peers: tuple[T, ...]


class TManCodec(Generic[T]):
    """One node's, but for the words of its system. ``cards`` turns numbers of peers into cards."""

    def __init__(self, cards: Codec, peer_table: PeerTable) -> None:
        self._cards, self._peer_table = cards, peer_table
        self._heard = np.full(peer_table.profiles.peers, _NEVER, dtype=np.int64)
        """[peer], the cycle in which it said what is known of it"""

    # What a system says.

    def _told(self, number: int, card: Card | CardReference, age: int) -> T:
        """A peer, with its word."""
        raise NotImplementedError

    def _hear(self, number: int, told: T) -> None:
        """Take over a peer's word."""
        raise NotImplementedError

    # What all of them do.

    def forget(self, peer: int) -> None:
        """Whatever a peer said, it is somebody else now, or says something else."""
        self._heard[peer] = _NEVER

    def tell(self, to: bytes, message: Message) -> Packed[T]:
        """A message for a peer. Candidates that the book forgot meanwhile are left out."""
        sent = self._cards.references(to)
        sender = self._tell(ME, 0, sent)
        assert sender is not None
        found: Any = message
        entries = zip(found.peers.tolist(), found.ages.tolist(), strict=True)
        if isinstance(message, TManProfile | TManEcho):
            others = [(peer, age) for peer, age in entries if peer != ME]
            return Packed(None, found.cycle, sender, self._tell_all(others, sent) if others else ())
        return Packed(_EXCHANGES.index(type(message)), found.cycle, sender, self._tell_all(entries, sent))

    def _tell(self, number: int, age: int, sent: dict[bytes, int]) -> T | None:
        entry = self._peer_table.describe(number, age, sent, rings=False) if number != NOBODY else None
        return None if entry is None else self._told(number, entry.card, entry.age)

    def _tell_all(self, entries: Iterable[tuple[int, int]], sent: dict[bytes, int]) -> tuple[T, ...]:
        told: list[T] = []
        room = ENTRIES_BYTES
        for number, age in entries:
            one = self._tell(number, age, sent) if room > 0 else None
            if one is not None:
                told.append(one)
                room -= weight_of(one.card)
        return tuple(told)

    def sender_of(self, peer: bytes, told: T) -> int:
        """The number of a message's sender. RemoteError if it is not who it says."""
        self._peer_table.release()
        sender = self._meet(told, peer)
        if sender == NOBODY:
            raise BenignRefusal("sender without a card")
        if self._peer_table.id_of(sender) != peer:
            raise RemoteError("speaks for another peer")
        return sender

    def exchange(self, peer: bytes, kind: int, cycle: int, told: Iterable[T]) -> Message:
        """Cyclon's or T-Man's message, for the machine, at once."""
        message: Message = _EXCHANGES[kind](cycle, *self._meet_all(peer, told))
        return message

    def profile(self, peer: bytes, sender: int, is_answer: bool, cycle: int, met: Iterable[T]) -> Message:
        """The sender's profile, or its answer to one, with whom this node should meet."""
        if not is_answer:
            return TManProfile(cycle, *_with(sender, (), ()))
        return TManEcho(cycle, *_with(sender, *self._meet_all(peer, met)))

    def _meet_all(self, peer: bytes, told: Iterable[T]) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        met = [(self._meet(one, peer), one.age) for one in told]
        known = [one for one in met if one[0] != NOBODY]
        numbers = np.array([number for number, _ in known], dtype=np.int32)
        return numbers, np.array([age for _, age in known], dtype=np.uint16)

    def _meet(self, told: T, teller: bytes) -> int:
        """The number of whom a peer tells of; its word is taken from whoever heard from it last."""
        number = self._peer_table.meet(Entry(told.card, told.age, b"", b""), teller)
        if number not in (ME, NOBODY) and self._peer_table.has(number, told.card.version):
            when = self._peer_table.cycle - told.age
            if when >= self._heard[number]:
                self._heard[number] = when
                self._hear(number, told)
        return number


def _with(sender: int, peers: Iterable[int], ages: Iterable[int]) -> tuple[Any, Any]:
    """Entries, the sender's own first."""
    return np.array([sender, *peers], dtype=np.int32), np.array([0, *ages], dtype=np.uint16)
