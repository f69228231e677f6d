"""Searches on a live node: between the machine's anycast (systems/common/anycast) and frames."""

from dataclasses import replace

from vinecast.core.events import Message, Received
from vinecast.core.machine import NOBODY
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.limits.rate_limit import RateLimit
from vinecast.peer.routers import anycast_messages as wire
from vinecast.peer.routers.router import RouterHost
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.codec import Codec
from vinecast.peer.wire.messages import SystemFrame
from vinecast.systems.common.anycast import AnycastConfig
from vinecast.systems.poldercast.machine import PolderCast

GRAVITY_PERIODS = 10
"""Periods of a node between two updates of its filters (ours): with the default, ten seconds."""
REQUESTS_IN_HAND = 1024
"""Messages about filters and searches that a peer may send at once (ours): an honest one passes on dozens of
walks a cycle."""


def anycast_config(on: bool, period_s: float) -> AnycastConfig:
    """The settings on a node with such a period."""
    if not on:
        return AnycastConfig()
    return replace(wire.CONFIG, gravity=replace(wire.CONFIG.gravity, period_s=GRAVITY_PERIODS * period_s))


class AnycastRouter:
    """One node's."""

    def __init__(self, machine: PolderCast, cards: Codec, peer_table: PeerTable, host: RouterHost) -> None:
        self._machine, self._cards, self._peer_table, self._host = machine, cards, peer_table, host
        self._rate_limit = RateLimit(REQUESTS_IN_HAND)

    def encode(self, to: bytes, message: Message) -> bytes:
        """The frame of a message for a peer."""
        return wire.encode_own(wire.pack(self._cards, to, message))

    def take(self, peer: bytes, frame: SystemFrame) -> None:
        """Handle a frame of a peer; RemoteError when that has to be refused."""
        inner = wire.decode_own(frame)
        self._rate_limit.note(peer, self._host.now_us())
        sender = self._peer_table.number_of(peer)
        if sender == NOBODY:
            raise BenignRefusal("sender without a card")
        if self._machine.anycast is None:
            if isinstance(inner, wire.Home):
                self._host.send_frame(sender, wire.encode_own(wire.RefuseHome()))
            raise BenignRefusal("searches are off here")
        self._peer_table.release()
        self._host.handle(Received(sender, wire.read(self._cards, peer, inner)))

    def search(self, topic: str) -> bool:
        """Search for a subscriber of a topic where none is known; whether one may be found in a moment."""
        number = self._peer_table.topics.take(topic)
        if number is None:
            return False
        try:
            now_us = self._host.now_us()
            for effect in self._machine.search(number, now_us):
                self._host.carry_out(effect)
            return self._machine.is_searching(number, now_us)
        finally:
            self._peer_table.topics.leave(number)
