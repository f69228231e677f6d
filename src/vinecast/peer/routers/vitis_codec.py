"""Between Vitis' messages and what travels of them: numbers become cards and names, and back.

Proposals name gateways that this node may never meet: all that it must know of them is who they are and where
on the circle. Such *strangers* have numbers of their own, above those of the peer book, for as long as a
neighbour or the node itself proposes them.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from vinecast.core.arrays.profiles import place_of
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.machine import NOBODY
from vinecast.peer.routers import vitis_messages as wire
from vinecast.peer.routers.tman_codec import TManCodec
from vinecast.peer.table.peer_table import ME, PeerTable
from vinecast.peer.wire.codec import Codec
from vinecast.peer.wire.messages import Card, CardReference
from vinecast.protocols.gateway.proposals import propose_oneself
from vinecast.protocols.tman import TManEcho
from vinecast.systems.vitis.machine import VitisProfiles

NO_ROOM = "refused: too many gateways"


class UnmetPeers:
    """Numbers for peers of whom only the name is known; ``first`` is the lowest of them."""

    def __init__(self, peer_table: PeerTable, first: int) -> None:
        self._peer_table, self._first = peer_table, first
        self._numbers: dict[bytes, int] = {}
        self._ids: dict[int, bytes] = {}
        self._free = list(range(peer_table.profiles.peers - 1, first - 1, -1))

    def __len__(self) -> int:
        return len(self._numbers)

    def number_of(self, peer: bytes) -> int:
        """The number of a peer, whether met or not; NOBODY when there is no room for one more."""
        number = self._peer_table.number_of(peer)
        if number == NOBODY:
            number = self._numbers.get(peer, NOBODY)
        if number == NOBODY and self._free:
            number = self._free.pop()
            self._numbers[peer], self._ids[number] = number, peer
            self._peer_table.profiles.place[number] = place_of(int.from_bytes(peer[:8], "big"))
        return number

    def id_of(self, number: int) -> bytes:
        """Who that is."""
        return self._peer_table.id_of(number) if number < self._first else self._ids[number]

    def sweep(self, used: Iterable[int]) -> None:
        """Let go of all others."""
        for number in sorted(self._ids.keys() - set(used), reverse=True):
            del self._numbers[self._ids.pop(number)]
            self._free.append(number)

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to let go of some."""
        return len(self._free) < len(self._numbers)


class VitisCodec(TManCodec[wire.VitisPeerStatus]):
    """One node's. ``cards`` turns numbers of peers into cards, ``shared`` is what profiles say besides;
    ``wants(topic)``: whether the node subscribes."""

    def __init__(
        self,
        cards: Codec,
        peer_table: PeerTable,
        shared: VitisProfiles,
        unmet: UnmetPeers,
        wants: Callable[[int], bool],
        counters: Counter[str],
    ) -> None:
        super().__init__(cards, peer_table)
        self._shared = shared
        self._unmet, self._wants, self._counters = unmet, wants, counters
        """In which cycle somebody last heard from a peer what its topics weigh. [peer]"""
        self._proposing: set[int] = set()
        """Who proposes others than itself, as far as it last said."""
        self._own: dict[int, tuple[int, bytes, bytes, int]] = {}
        self._own_at = -1, -1
        peer_table.on_topics = self._reset

    def _reset(self, peer: int) -> None:
        """A peer's topics are others now."""
        self._shared.reset(peer)
        self._proposing.discard(peer)
        self.forget(peer)

    def forget_unmet(self, neighbours: Iterable[int], proposed: Iterable[int]) -> None:
        """Let go of strangers whom nobody near proposes. Who is no neighbour will say anew what it proposes,
        once it is one again."""
        for peer in sorted(self._proposing.difference(neighbours)):
            self._proposing.discard(peer)
            count = int(self._peer_table.profiles.cnt[peer])
            self._shared.proposals.say(peer, propose_oneself(peer, count))
        self._unmet.sweep(proposed)

    # Out.

    def pack(self, to: bytes, message: Message) -> wire.VitisFrame:
        """A message for a peer. Candidates that the book forgot meanwhile are left out."""
        found = self.tell(to, message)
        if found.kind is None:
            named, rows = self._pack_proposals(self._peer_table.number_of(to))
            is_answer = isinstance(message, TManEcho)
            return wire.VitisProfile(is_answer, found.cycle, found.sender, named, rows, found.peers)
        return wire.VitisExchange(found.kind, found.cycle, found.sender, found.peers)

    def _told(self, number: int, card: Card | CardReference, age: int) -> wire.VitisPeerStatus:
        return wire.VitisPeerStatus(card, age, int(self._shared.weights.total[number]))

    def _pack_proposals(self, to: int) -> tuple[tuple[bytes, ...], bytes]:
        """What this node proposes for the topics that a peer has too, but for itself."""
        mine, named = self._own_proposals(), dict[bytes, int]()
        if not mine:
            return (), b""
        rows = []
        for topic in self._peer_table.profiles.topics_of(to).tolist():
            one = mine.get(topic)
            if one is not None and len(named) <= wire.NAMED_MAX - 2:
                at, gateway, parent, hops = one
                places = [named.setdefault(peer, len(named) + 1) for peer in (gateway, parent)]
                rows.append(wire.ROW.pack(at, *places, hops))
        return tuple(named), b"".join(rows)

    def _own_proposals(self) -> dict[int, tuple[int, bytes, bytes, int]]:
        """Topic → which of the card's it is, and who is proposed, of whom it is known, how far it is; made
        once a cycle."""
        made_at = self._peer_table.cycle, self._peer_table.card.version
        if self._own_at != made_at:
            profiles, said, id_of = (
                self._peer_table.profiles,
                self._shared.proposals.said,
                self._unmet.id_of,
            )
            own, begin = profiles.topics_of(ME), int(profiles.beg[ME])
            rows = [part[begin : begin + own.size].tolist() for part in said]
            every = zip(own.tolist(), self._peer_table.order_of(ME).tolist(), *rows, strict=True)
            self._own_at = made_at
            self._own = {
                topic: (at, id_of(gateway), id_of(parent), hops)
                for topic, at, gateway, parent, hops in every
                if gateway != ME
            }
        return self._own

    # In.

    def read(self, peer: bytes, frame: wire.VitisExchange | wire.VitisProfile) -> tuple[int, Message]:
        """Who a message of a peer is from, by number, and what it says; for the machine, at once."""
        sender = self.sender_of(peer, frame.sender)
        if isinstance(frame, wire.VitisExchange):
            return sender, self.exchange(peer, frame.kind, frame.cycle, frame.peers)
        if self._peer_table.has(sender, frame.sender.card.version):
            self._hear_proposals(sender, frame)
        return sender, self.profile(peer, sender, frame.is_answer, frame.cycle, frame.met)

    def _hear(self, number: int, told: wire.VitisPeerStatus) -> None:
        least = int(self._peer_table.profiles.cnt[number])
        self._shared.weights.total[number] = max(told.weight, least)

    def _hear_proposals(self, sender: int, frame: wire.VitisProfile) -> None:
        """Take over what a neighbour proposes, as far as it concerns this node."""
        if not frame.proposed and sender not in self._proposing:
            return
        order, count = self._peer_table.order_of(sender), len(self._peer_table.names_of(sender))
        proposed = propose_oneself(sender, order.size)
        if frame.proposed:
            if len(frame.proposed) % wire.ROW.size:
                raise RemoteError("malformed proposals")
            topics = self._peer_table.profiles.topics_of(sender).tolist()
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
        number = self._unmet.number_of(named[place - 1]) if place else sender
        if number == NOBODY:
            self._counters[NO_ROOM] += 1
        return number
