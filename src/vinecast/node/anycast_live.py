"""Searches on a live node: between the machine's anycast (systems/anycast) and frames."""

from dataclasses import replace

from vinecast.core.events import Message, Received
from vinecast.core.machine import NOBODY
from vinecast.node import anycast_wire as wire
from vinecast.node.codec import Codec
from vinecast.node.conduct import Misunderstanding
from vinecast.node.peers import PeerBook
from vinecast.node.questions import Questions
from vinecast.node.system_live import Host
from vinecast.node.wire import Own
from vinecast.systems.anycast import AnycastConfig
from vinecast.systems.poldercast import PolderCast

GRAVITY_PERIODS = 10
"""Periods of a node between two updates of its filters (ours): with the default, ten seconds."""
QUESTIONS = 1024
"""Messages about filters and searches that a peer may send at once (ours): an honest one passes on dozens of
walks a cycle."""


def anycast_config(on: bool, period_s: float) -> AnycastConfig:
    """The settings on a node with such a period."""
    if not on:
        return AnycastConfig()
    return replace(wire.CONFIG, gravity=replace(wire.CONFIG.gravity, period_s=GRAVITY_PERIODS * period_s))


class LiveAnycast:
    """One node's."""

    def __init__(self, machine: PolderCast, cards: Codec, book: PeerBook, host: Host) -> None:
        self._machine, self._cards, self._book, self._host = machine, cards, book, host
        self._questions = Questions(QUESTIONS)

    def encode(self, to: bytes, message: Message) -> bytes:
        """The frame of a message for a peer."""
        return wire.encode_own(wire.pack(self._cards, to, message))

    def take(self, peer: bytes, frame: Own) -> None:
        """Handle a frame of a peer; RemoteError when that has to be refused."""
        inner = wire.decode_own(frame)
        self._questions.note(peer, self._host.now_us())
        sender = self._book.number_of(peer)
        if sender == NOBODY:
            raise Misunderstanding("sender without a card")
        if self._machine.anycast is None:
            if isinstance(inner, wire.Home):
                self._host.send_frame(sender, wire.encode_own(wire.Refuse()))
            raise Misunderstanding("searches are off here")
        self._book.release()
        self._host.handle(Received(sender, wire.read(self._cards, peer, inner)))

    def search(self, topic: str) -> bool:
        """Search for a subscriber of a topic where none is known; whether one may be found in a moment."""
        number = self._book.topics.take(topic)
        if number is None:
            return False
        try:
            now_us = self._host.now_us()
            for effect in self._machine.search(number, now_us):
                self._host.carry_out(effect)
            return self._machine.is_searching(number, now_us)
        finally:
            self._book.topics.leave(number)
