"""Between Vitis' messages and what travels of them: numbers become cards and names, and back.

Proposals name gateways that this node may never meet: all that it must know of them is who they are and where
on the circle. Such *strangers* have numbers of their own, above those of the peer book, for as long as a
neighbour or the node itself proposes them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import place_of
from vinecast.node import vitis_wire as wire
from vinecast.node.codec import ENTRIES_BYTES, Codec, weight_of
from vinecast.node.conduct import Misunderstanding
from vinecast.node.peers import ME, PeerBook
from vinecast.node.wire import Entry
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.gateway.proposals import propose_oneself
from vinecast.protocols.tman import TManAnswer, TManEcho, TManProfile, TManRequest
from vinecast.systems.vitis import VitisProfiles

NO_ROOM = "refused: too many gateways"
_EXCHANGES: tuple[type[Any], ...] = (CyclonRequest, CyclonAnswer, TManRequest, TManAnswer)
_NEVER = np.iinfo(np.int64).min


class Strangers:
    """Numbers for peers of whom only the name is known; ``first`` is the lowest of them."""

    def __init__(self, book: PeerBook, first: int) -> None:
        self._book, self._first = book, first
        self._numbers: dict[bytes, int] = {}
        self._ids: dict[int, bytes] = {}
        self._free = list(range(book.profiles.peers - 1, first - 1, -1))

    def __len__(self) -> int:
        return len(self._numbers)

    def number_of(self, peer: bytes) -> int:
        """The number of a peer, whether met or not; NOBODY when there is no room for one more."""
        number = self._book.number_of(peer)
        if number == NOBODY:
            number = self._numbers.get(peer, NOBODY)
        if number == NOBODY and self._free:
            number = self._free.pop()
            self._numbers[peer], self._ids[number] = number, peer
            self._book.profiles.place[number] = place_of(int.from_bytes(peer[:8], "big"))
        return number

    def id_of(self, number: int) -> bytes:
        """Who that is."""
        return self._book.id_of(number) if number < self._first else self._ids[number]

    def sweep(self, used: Iterable[int]) -> None:
        """Let go of all others."""
        for number in sorted(self._ids.keys() - set(used), reverse=True):
            del self._numbers[self._ids.pop(number)]
            self._free.append(number)

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to let go of some."""
        return len(self._free) < len(self._numbers)


class VitisCodec:
    """One node's. ``cards`` turns numbers of peers into cards, ``shared`` is what profiles say besides;
    ``wants(topic)``: whether the node subscribes."""

    def __init__(
        self,
        cards: Codec,
        book: PeerBook,
        shared: VitisProfiles,
        strangers: Strangers,
        wants: Callable[[int], bool],
        counters: Counter[str],
    ) -> None:
        self._cards, self._book, self._shared = cards, book, shared
        self._strangers, self._wants, self._counters = strangers, wants, counters
        self._weighed = np.full(book.profiles.peers, _NEVER, dtype=np.int64)
        """In which cycle somebody last heard from a peer what its topics weigh. [peer]"""
        self._proposing: set[int] = set()
        """Who proposes others than itself, as far as it last said."""
        self._own: dict[int, tuple[int, bytes, bytes, int]] = {}
        self._own_at = -1, -1
        book.on_topics = self._reset

    def _reset(self, peer: int) -> None:
        """A peer's topics are others now."""
        self._shared.reset(peer)
        self._proposing.discard(peer)
        self._weighed[peer] = _NEVER

    def forget_strangers(self, neighbours: Iterable[int], proposed: Iterable[int]) -> None:
        """Let go of strangers whom nobody near proposes. Who is no neighbour will say anew what it proposes,
        once it is one again."""
        for peer in sorted(self._proposing.difference(neighbours)):
            self._proposing.discard(peer)
            count = int(self._book.profiles.cnt[peer])
            self._shared.proposals.say(peer, propose_oneself(peer, count))
        self._strangers.sweep(proposed)

    # Out.

    def pack(self, to: bytes, message: Message) -> wire.VitisFrame:
        """A message for a peer. Candidates that the book forgot meanwhile are left out."""
        sent = self._cards.references(to)
        sender = self._tell(ME, 0, sent)
        assert sender is not None
        found: Any = message
        if isinstance(message, TManProfile | TManEcho):
            named, rows = self._pack_proposals(self._book.number_of(to))
            others = [(peer, age) for peer, age in _entries(found) if peer != ME]
            met = self._tell_all(others, sent) if others else ()
            return wire.Profile(isinstance(message, TManEcho), found.cycle, sender, named, rows, met)
        kind = _EXCHANGES.index(type(message))
        return wire.Exchange(kind, found.cycle, sender, self._tell_all(_entries(found), sent))

    def _tell(self, number: int, age: int, sent: dict[bytes, int]) -> wire.Told | None:
        entry = self._book.describe(number, age, sent, rings=False) if number != NOBODY else None
        if entry is None:
            return None
        return wire.Told(entry.card, entry.age, int(self._shared.weights.total[number]))

    def _tell_all(self, entries: Iterable[tuple[int, int]], sent: dict[bytes, int]) -> tuple[wire.Told, ...]:
        told, room = [], ENTRIES_BYTES
        for number, age in entries:
            one = self._tell(number, age, sent) if room > 0 else None
            if one is not None:
                told.append(one)
                room -= weight_of(one.card)
        return tuple(told)

    def _pack_proposals(self, to: int) -> tuple[tuple[bytes, ...], bytes]:
        """What this node proposes for the topics that a peer has too, but for itself."""
        mine, named = self._own_proposals(), dict[bytes, int]()
        if not mine:
            return (), b""
        rows = []
        for topic in self._book.profiles.topics_of(to).tolist():
            one = mine.get(topic)
            if one is not None and len(named) <= wire.NAMED_MAX - 2:
                at, gateway, parent, hops = one
                places = [named.setdefault(peer, len(named) + 1) for peer in (gateway, parent)]
                rows.append(wire.ROW.pack(at, *places, hops))
        return tuple(named), b"".join(rows)

    def _own_proposals(self) -> dict[int, tuple[int, bytes, bytes, int]]:
        """Topic → which of the card's it is, and who is proposed, of whom it is known, how far it is; made
        once a cycle."""
        made_at = self._book.cycle, self._book.card.version
        if self._own_at != made_at:
            profiles, said, id_of = self._book.profiles, self._shared.proposals.said, self._strangers.id_of
            own, begin = profiles.topics_of(ME), int(profiles.beg[ME])
            rows = [part[begin : begin + own.size].tolist() for part in said]
            every = zip(own.tolist(), self._book.order_of(ME).tolist(), *rows, strict=True)
            self._own_at = made_at
            self._own = {
                topic: (at, id_of(gateway), id_of(parent), hops)
                for topic, at, gateway, parent, hops in every
                if gateway != ME
            }
        return self._own

    # In.

    def read(self, peer: bytes, frame: wire.Exchange | wire.Profile) -> tuple[int, Message]:
        """Who a message of a peer is from, by number, and what it says; for the machine, at once."""
        self._book.release()
        sender = self._meet(frame.sender, peer)
        if sender == NOBODY:
            raise Misunderstanding("sender without a card")
        if self._book.id_of(sender) != peer:
            raise RemoteError("speaks for another peer")
        if isinstance(frame, wire.Exchange):
            return sender, _EXCHANGES[frame.kind](frame.cycle, *self._meet_all(peer, frame.peers))
        if self._book.has(sender, frame.sender.card.version):
            self._hear_proposals(sender, frame)
        if not frame.is_answer:
            return sender, TManProfile(frame.cycle, *_with(sender, (), ()))
        return sender, TManEcho(frame.cycle, *_with(sender, *self._meet_all(peer, frame.met)))

    def _meet_all(
        self, peer: bytes, told: Iterable[wire.Told]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        met = [(self._meet(one, peer), one.age) for one in told]
        known = [one for one in met if one[0] != NOBODY]
        numbers = np.array([number for number, _ in known], dtype=np.int32)
        return numbers, np.array([age for _, age in known], dtype=np.uint16)

    def _meet(self, told: wire.Told, teller: bytes) -> int:
        """The number of whom a peer tells of; its weight is taken from whoever heard from it last."""
        number = self._book.meet(Entry(told.card, told.age, b"", b""), teller)
        if number not in (ME, NOBODY) and self._book.has(number, told.card.version):
            when = self._book.cycle - told.age
            if when >= self._weighed[number]:
                self._weighed[number] = when
                least = int(self._book.profiles.cnt[number])
                self._shared.weights.total[number] = max(told.weight, least)
        return number

    def _hear_proposals(self, sender: int, frame: wire.Profile) -> None:
        """Take over what a neighbour proposes, as far as it concerns this node."""
        if not frame.proposed and sender not in self._proposing:
            return
        order, count = self._book.order_of(sender), len(self._book.topics_of(sender))
        proposed = propose_oneself(sender, order.size)
        if frame.proposed:
            if len(frame.proposed) % wire.ROW.size:
                raise RemoteError("malformed proposals")
            topics = self._book.profiles.topics_of(sender).tolist()
            row_of = {at: row for row, at in enumerate(order.tolist())}
            for at, *places, hops in wire.ROW.iter_unpack(frame.proposed):
                if at >= count or max(places) > len(frame.named):
                    raise RemoteError("proposal of nobody")
                row = row_of.get(at)
                if row is None or not self._wants(topics[row]):
                    continue
                gateway, parent = (self._number_of(frame.named, place, sender) for place in places)
                if NOBODY not in (gateway, parent):
                    proposed.gateway[row], proposed.parent[row], proposed.hops[row] = gateway, parent, hops
            self._proposing.add(sender)
        else:
            self._proposing.discard(sender)
        self._shared.proposals.say(sender, proposed)

    def _number_of(self, named: tuple[bytes, ...], place: int, sender: int) -> int:
        """The number of somebody that is named; NOBODY where there is no room for it."""
        number = self._strangers.number_of(named[place - 1]) if place else sender
        if number == NOBODY:
            self._counters[NO_ROOM] += 1
        return number


def _entries(message: Any) -> Iterable[tuple[int, int]]:
    """Peers and their ages."""
    return zip(message.peers.tolist(), message.ages.tolist(), strict=True)


def _with(sender: int, peers: Iterable[int], ages: Iterable[int]) -> tuple[Any, Any]:
    """Entries, the sender's own first."""
    return np.array([sender, *peers], dtype=np.int32), np.array([0, *ages], dtype=np.uint16)
