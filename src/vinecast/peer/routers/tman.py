"""What live systems on T-Man have in common: when a node has its place on the circle, and what gossip tells.

A node has its place once the next on either side were the same for a cycle and answered its profile. What it
subscribes to is known to others after some exchanges of profiles.
"""

from collections.abc import Iterable
from typing import Any

from vinecast.core.arrays.profiles import Profiles, place_of
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.machine import NOBODY
from vinecast.peer.limits.rate_limit import RateLimit
from vinecast.peer.routers.router import RouterHost
from vinecast.peer.scratch import ScratchPool
from vinecast.peer.streams.replicas import replica_key
from vinecast.peer.table.peer_table import ME, PeerTable
from vinecast.peer.table.relayed_topics import RelayedTopics
from vinecast.peer.wire.codec import Codec
from vinecast.peer.wire.messages import Gossip
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.kademlia import point_of
from vinecast.protocols.tman import machine as tman
from vinecast.systems.common.tman_base import TManBase, TManBaseConfig

ROUNDS = 2
"""Exchanges of profiles after which neighbours know of a new topic, and what it needs has been asked for
(ours)."""


def topic_place(network: str, topic: str) -> int:
    """Where a topic is on the circle: the highest bits of the key that its replicas are found by."""
    return place_of(point_of(replica_key(network, topic)))


def scratch_for(config: TManBaseConfig, profiles: Profiles, pool: ScratchPool) -> Scratch:
    """Working memory of such machines."""
    return pool.take(profiles.peers, profiles.topic_ids.size, 0, config.candidates_max)


class TManRouter:
    """See ``Router``; what differs between these systems is theirs."""

    table = None
    first_timer, last_timer = cyclon.TIMER, tman.PROFILE_TIMER
    gossips = True

    def __init__(
        self, peer_table: PeerTable, host: RouterHost, machine: TManBase, topics: RelayedTopics
    ) -> None:
        self.codec = Codec(peer_table)
        self.subscribes, self.in_use = machine.subscribes, machine.peers_in_use
        self._host, self._peer_table, self._topics = host, peer_table, topics
        self._on_tman = machine
        self._rate_limit = RateLimit()
        self._rounds: dict[int, int] = {}
        """Own topic → exchanges of profiles since it is one"""
        self._ring: list[int] = []
        self._is_in_ring = False
        """Whether the next on the circle were the same for a cycle, and answered."""
        self._echoed: set[int] = set()
        """Who answered the last profile."""

    def knows_nobody(self) -> bool:
        """See ``Router``."""
        return self._on_tman.cyclon.view.size == 0

    def partner_of(self, timer: str) -> int:
        """See ``Router``."""
        partners = {cyclon.TIMER: self._on_tman.cyclon.partner, tman.TIMER: self._on_tman.tman.partner}
        return partners.get(timer, NOBODY)

    def is_ready(self, topic: int) -> bool:
        """Whether others know that a topic is its own, and it has its place on the circle, so that ways lead
        where those of others do."""
        return self._rounds.get(topic, 0) >= ROUNDS and self._is_in_ring

    def keep_topic(self, topic: int) -> None:
        """See ``Router``."""
        self._rounds.pop(topic, None)
        self._topics.keep(topic)

    def search(self, topic: str) -> bool:
        """See ``Router``: the way is always known."""
        return False

    def begin(self, timer: str) -> None:
        """See ``Router``."""
        if timer == cyclon.TIMER:
            self._topics.sweep()
        elif timer == tman.PROFILE_TIMER:
            before, self._ring = self._ring, self._on_tman.ring()
            self._is_in_ring = bool(before) and before == self._ring and self._echoed.issuperset(before)
            self._echoed.clear()
            mine = self._peer_table.profiles.topics_of(ME).tolist()
            self._rounds = {topic: self._rounds.get(topic, 0) + 1 for topic in mine}

    def read_gossip(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """See ``Router``: its gossip is in frames of its own."""
        raise RemoteError("unknown kind of message")

    def _hear(self, sender: int, message: Message, is_echo: bool) -> None:
        """Gossip of a peer. is_echo: whether it answers a profile"""
        self._host.handle(Received(sender, message))
        if is_echo:
            self._echoed.add(sender)

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """See ``Router``: it does not matter here."""

    def regularity(self) -> dict[str, Any]:
        """See ``Router``."""
        return {}
