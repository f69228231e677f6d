"""What nodes of Vitis say of peers beside their cards: what their topics weigh, and whom they propose as
gateways.

Proposals name gateways that this node may never meet: all that it must know of them is who they are and where
on the circle. Such peers have numbers of their own, above those of the peer table, for as long as a neighbour
or the node itself proposes them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vinecast.core.arrays.profiles import place_of
from vinecast.core.errors import RemoteError
from vinecast.core.machine import NOBODY
from vinecast.protocols.gateway.proposals import propose_oneself
from vinecast.systems.common.router import ME, Peers
from vinecast.systems.vitis import messages as wire
from vinecast.systems.vitis.machine import VitisProfiles

NO_ROOM = "refused: too many gateways"


class UnmetPeers:
    """Numbers for peers of whom only the name is known; ``first`` is the lowest of them."""

    def __init__(self, peers: Peers, first: int) -> None:
        self._peers, self._first = peers, first
        self._numbers: dict[bytes, int] = {}
        self._ids: dict[int, bytes] = {}
        self._free = list(range(peers.profiles.peers - 1, first - 1, -1))

    def __len__(self) -> int:
        return len(self._numbers)

    def number_of(self, peer: bytes) -> int:
        """The number of a peer, whether met or not; NOBODY when there is no room for one more."""
        number = self._peers.number_of(peer)
        if number == NOBODY:
            number = self._numbers.get(peer, NOBODY)
        if number == NOBODY and self._free:
            number = self._free.pop()
            self._numbers[peer], self._ids[number] = number, peer
            self._peers.profiles.place[number] = place_of(int.from_bytes(peer[:8], "big"))
        return number

    def id_of(self, number: int) -> bytes:
        """Who that is."""
        return self._peers.id_of(number) if number < self._first else self._ids[number]

    def sweep(self, used: Iterable[int]) -> None:
        """Let go of all others."""
        for number in sorted(self._ids.keys() - set(used), reverse=True):
            del self._numbers[self._ids.pop(number)]
            self._free.append(number)

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to let go of some."""
        return len(self._free) < len(self._numbers)


class VitisWords:
    """One node's (see ``StatusGossip``). ``shared`` is what profiles say besides; ``wants(topic)``: whether
    the node subscribes."""

    status, exchange, profile = wire.VitisPeerStatus, wire.VitisExchange, wire.VitisProfile

    def __init__(
        self,
        peers: Peers,
        shared: VitisProfiles,
        unmet: UnmetPeers,
        wants: Callable[[int], bool],
        counters: Counter[str],
    ) -> None:
        self._peers, self._shared = peers, shared
        self._unmet, self._wants, self._counters = unmet, wants, counters
        self._proposing: set[int] = set()
        """Who proposes others than itself, as far as it last said."""
        self._own: dict[int, tuple[int, bytes, bytes, int]] = {}
        self._own_at = -1, -1

    def words_of(self, number: int) -> tuple[int, ...]:
        """See ``StatusGossip``: what its topics weigh together."""
        return (int(self._shared.weights.total[number]),)

    def hear(self, number: int, told: wire.VitisPeerStatus) -> None:
        least = int(self._peers.profiles.cnt[number])
        self._shared.weights.total[number] = max(told.weight, least)

    def reset(self, peer: int) -> None:
        self._shared.reset(peer)
        self._proposing.discard(peer)

    def forget_unmet(self, neighbours: Iterable[int], proposed: Iterable[int]) -> None:
        """Let go of unmet peers whom nobody near proposes. Who is no neighbour will say anew what it
        proposes, once it is one again."""
        for peer in sorted(self._proposing.difference(neighbours)):
            self._proposing.discard(peer)
            count = int(self._peers.profiles.cnt[peer])
            self._shared.proposals.say(peer, propose_oneself(peer, count))
        self._unmet.sweep(proposed)

    # Out.

    def enclose(self, to: int) -> Mapping[str, Any]:
        """See ``StatusGossip``: what this node proposes for the topics that a peer has too, but for
        itself."""
        named, rows = self._pack_proposals(to)
        return {"named": named, "proposed": rows}

    def _pack_proposals(self, to: int) -> tuple[tuple[bytes, ...], bytes]:
        """What this node proposes for the topics that a peer has too, but for itself."""
        mine, named = self._own_proposals(), dict[bytes, int]()
        if not mine:
            return (), b""
        rows = []
        for topic in self._peers.profiles.topics_of(to).tolist():
            one = mine.get(topic)
            if one is not None and len(named) <= wire.NAMED_MAX - 2:
                at, gateway, parent, hops = one
                places = [named.setdefault(peer, len(named) + 1) for peer in (gateway, parent)]
                rows.append(wire.ROW.pack(at, *places, hops))
        return tuple(named), b"".join(rows)

    def _own_proposals(self) -> dict[int, tuple[int, bytes, bytes, int]]:
        """Topic → which of the card's it is, and who is proposed, of whom it is known, how far it is; made
        once a cycle."""
        made_at = self._peers.cycle, self._peers.card.version
        if self._own_at != made_at:
            profiles, said, id_of = (self._peers.profiles, self._shared.proposals.said, self._unmet.id_of)
            own, begin = profiles.topics_of(ME), int(profiles.beg[ME])
            rows = [part[begin : begin + own.size].tolist() for part in said]
            every = zip(own.tolist(), self._peers.order_of(ME).tolist(), *rows, strict=True)
            self._own_at = made_at
            self._own = {
                topic: (at, id_of(gateway), id_of(parent), hops)
                for topic, at, gateway, parent, hops in every
                if gateway != ME
            }
        return self._own

    # In.

    def hear_profile(self, sender: int, frame: wire.VitisProfile) -> None:
        """See ``StatusGossip``: what a neighbour proposes, as far as it concerns this node."""
        if not frame.proposed and sender not in self._proposing:
            return
        order, count = self._peers.order_of(sender), len(self._peers.names_of(sender))
        proposed = propose_oneself(sender, order.size)
        if frame.proposed:
            if len(frame.proposed) % wire.ROW.size:
                raise RemoteError("malformed proposals")
            topics = self._peers.profiles.topics_of(sender).tolist()
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
