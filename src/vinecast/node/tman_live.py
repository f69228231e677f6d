"""What live systems on T-Man have in common: when a node has its place on the circle, and what gossip tells.

A node has its place once the next on either side were the same for a cycle and answered its profile. What it
subscribes to is known to others after some exchanges of profiles.
"""

import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.interest import Scratch, make_scratch
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles, place_of
from vinecast.node.carried_topics import CarriedTopics
from vinecast.node.codec import Codec
from vinecast.node.keepers import keeper_key
from vinecast.node.peers import ME, PeerBook
from vinecast.node.questions import Questions
from vinecast.node.system_live import Host
from vinecast.node.wire import Gossip
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.kademlia import point_of
from vinecast.protocols.tman import machine as tman
from vinecast.systems.on_tman import OnTMan, OnTManConfig

ROUNDS = 2
"""Exchanges of profiles after which neighbours know of a new topic, and what it needs has been asked for
(ours)."""


def topic_place(network: str, topic: str) -> int:
    """Where a topic is on the circle: the highest bits of the key that its keepers are found by."""
    return place_of(point_of(keeper_key(network, topic)))


def scratch_for(config: OnTManConfig, profiles: Profiles) -> Scratch:
    """Working memory of such machines: it is left as it was found, so that the nodes of a thread share it."""
    return _scratch(profiles.peers, profiles.topic_ids.size, config.candidates_max, threading.get_ident())


@lru_cache(maxsize=16)
def _scratch(peers: int, topics: int, most: int, thread: int) -> Scratch:
    return make_scratch(peers, topics, 0, most)


class LiveOnTMan:
    """See ``LiveSystem``; what differs between these systems is theirs."""

    table = None
    first_timer, last_timer = cyclon.TIMER, tman.PROFILE_TIMER
    gossips = True

    def __init__(self, book: PeerBook, host: Host, machine: OnTMan, topics: CarriedTopics) -> None:
        self.codec = Codec(book)
        self.subscribes, self.in_use = machine.subscribes, machine.peers_in_use
        self._host, self._book, self._topics = host, book, topics
        self._on_tman = machine
        self._questions = Questions()
        self._rounds: dict[int, int] = {}
        """Own topic → exchanges of profiles since it is one"""
        self._ring: list[int] = []
        self._is_in_ring = False
        """Whether the next on the circle were the same for a cycle, and answered."""
        self._echoed: set[int] = set()
        """Who answered the last profile."""

    def knows_nobody(self) -> bool:
        """See ``LiveSystem``."""
        return self._on_tman.cyclon.view.size == 0

    def partner_of(self, timer: str) -> int:
        """See ``LiveSystem``."""
        partners = {cyclon.TIMER: self._on_tman.cyclon.partner, tman.TIMER: self._on_tman.tman.partner}
        return partners.get(timer, NOBODY)

    def is_ready(self, topic: int) -> bool:
        """Whether others know that a topic is its own, and it has its place on the circle, so that ways lead
        where those of others do."""
        return self._rounds.get(topic, 0) >= ROUNDS and self._is_in_ring

    def keep_topic(self, topic: int) -> None:
        """See ``LiveSystem``."""
        self._rounds.pop(topic, None)
        self._topics.keep(topic)

    def search(self, topic: str) -> bool:
        """See ``LiveSystem``: the way is always known."""
        return False

    def begin(self, timer: str) -> None:
        """See ``LiveSystem``."""
        if timer == cyclon.TIMER:
            self._topics.sweep()
        elif timer == tman.PROFILE_TIMER:
            before, self._ring = self._ring, self._on_tman.ring()
            self._is_in_ring = bool(before) and before == self._ring and self._echoed.issuperset(before)
            self._echoed.clear()
            mine = self._book.profiles.topics_of(ME).tolist()
            self._rounds = {topic: self._rounds.get(topic, 0) + 1 for topic in mine}

    def read_gossip(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """See ``LiveSystem``: its gossip is in frames of its own."""
        raise RemoteError("unknown kind of message")

    def _hear(self, sender: int, message: Message, is_echo: bool) -> None:
        """Gossip of a peer. is_echo: whether it answers a profile"""
        self._host.handle(Received(sender, message))
        if is_echo:
            self._echoed.add(sender)

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """See ``LiveSystem``: it does not matter here."""

    def regularity(self) -> dict[str, Any]:
        """See ``LiveSystem``."""
        return {}
