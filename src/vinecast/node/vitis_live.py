"""Vitis on a live node: one table of neighbours for all topics, clusters of those who share them, and relay
paths between clusters.

A topic's place on the circle is the highest bits of the key that its keepers are found by. Nodes relay topics
that they do not subscribe to, so that word of events is taken for every topic with links here, and for any
topic while an event is seeking a node that has some.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.interest import Scratch, make_scratch
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import place_of
from vinecast.node import vitis_wire as wire
from vinecast.node.carried_topics import CarriedTopics
from vinecast.node.codec import Codec
from vinecast.node.conduct import Misunderstanding
from vinecast.node.config import PATIENCE_PERIODS, NodeConfig
from vinecast.node.keepers import keeper_key
from vinecast.node.peers import ME, PeerBook
from vinecast.node.questions import Questions
from vinecast.node.system_live import Host, LiveSystem
from vinecast.node.topics import is_topic
from vinecast.node.vitis_codec import Strangers, VitisCodec
from vinecast.node.vitis_outbox import VitisOutbox
from vinecast.node.ways import PlainWays
from vinecast.node.wire import Gossip, Own
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.kademlia import point_of
from vinecast.protocols.relay_path import RelayRequest
from vinecast.protocols.tman import TManConfig
from vinecast.protocols.tman import machine as tman
from vinecast.systems.durable_carriers import over_notices
from vinecast.systems.notices import Notice, Pull
from vinecast.systems.vitis import Vitis, VitisConfig, VitisProfiles

RELAY_SHARE = 4
"""One peer can ask to relay one in so many of the topics that a node can know, in a cycle (ours)."""
ROUNDS = 2
"""Exchanges of profiles after which neighbours know of a new topic, and a gateway has asked for a path."""
NOT_CARRIED = "refused: notice on a topic that is not carried"
NO_ROOM = "refused: no room for a topic to relay"


def vitis_config(config: NodeConfig) -> VitisConfig:
    """Vitis' settings on such a node."""
    own = config.vitis
    return VitisConfig(
        remembered=config.remembered,
        remember_s=config.remember_s,
        pull_timeout_s=own.pull_timeout_s,
        cyclon=CyclonConfig(period_s=config.period_s),
        tman=TManConfig(table_size=own.table_size, threshold=PATIENCE_PERIODS, period_s=config.period_s),
        long_links=own.long_links,
        gateway_hops=own.gateway_hops,
    )


@lru_cache(maxsize=16)
def _scratch_for(peers: int, topics: int, most: int, thread: int) -> Scratch:
    """Working memory: it is left as it was found, so that the nodes of a thread can share it."""
    return make_scratch(peers, topics, 0, most)


def make(config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> LiveSystem:
    """See ``make_system``."""
    return LiveVitis(config, seed, network, book, host)


class LiveVitis:
    """See ``LiveSystem``."""

    table = None
    first_timer, last_timer = cyclon.TIMER, tman.PROFILE_TIMER
    gossips, pulls = True, True

    def __init__(self, config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> None:
        own, profiles = vitis_config(config), book.profiles
        places = book.topics.place(lambda topic: place_of(point_of(keeper_key(network, topic))), np.int32)
        shared = VitisProfiles(profiles, places)
        scratch = _scratch_for(
            profiles.peers, profiles.topic_ids.size, own.candidates_max, threading.get_ident()
        )
        self.machine = machine = Vitis(own, seed, ME, profiles, scratch, shared)
        self.carrier = over_notices(machine)
        self.ways = PlainWays(self.carrier.carries)
        self.codec = Codec(book)
        self._host, self._book, self._shared = host, book, shared
        self._strangers = Strangers(book, config.peers)
        self._vitis_codec = VitisCodec(
            self.codec, book, shared, self._strangers, machine.subscribes, host.counters
        )
        self._topics = CarriedTopics(book.topics, machine.relays.carries)
        self._outbox = VitisOutbox(host.send_frame, book.topics)
        self._questions = Questions()
        self._relayed: Counter[bytes] = Counter()
        """Who asked for paths in this cycle → of how many topics"""
        self._relay_max = config.topics // RELAY_SHARE
        self._rounds: dict[int, int] = {}
        """Own topic → exchanges of profiles since it is one"""
        self._ring: list[int] = []
        self._is_in_ring = False
        """Whether the next on the circle were the same for a cycle, and answered."""
        self._echoed: set[int] = set()
        """Who answered the last profile."""
        self.in_use, self.send_later = machine.peers_in_use, self._outbox.put
        self.subscribes, self.has_seen, self.is_alone = machine.subscribes, machine.has_seen, machine.is_alone

    # Peers.

    def knows_nobody(self) -> bool:
        """See ``LiveSystem``."""
        return self.machine.cyclon.view.size == 0

    def partner_of(self, timer: str) -> int:
        """See ``LiveSystem``."""
        partners = {cyclon.TIMER: self.machine.cyclon.partner, tman.TIMER: self.machine.tman.partner}
        return partners.get(timer, NOBODY)

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``LiveSystem``."""
        number = self._book.topics.number_of(topic)
        return number is not None and peer in self.machine.ways(number)

    # Topics.

    def is_ready(self, topic: int) -> bool:
        """Whether it has links in a topic, all of which know that it is theirs, and its place on the circle,
        so that paths lead where those of others do."""
        known = self._rounds.get(topic, 0) >= ROUNDS
        return known and self._is_in_ring and bool(self.machine.links(topic))

    def neighbours(self, topic: int) -> tuple[int, int]:
        """Two of those whom its events go to, the one of whom it has its gateway last."""
        links, parent = self.machine.links(topic), self.machine.parent_of(topic)
        others = [peer for peer in links if peer != parent]
        return next(iter(others), NOBODY), parent

    def begin(self, timer: str) -> None:
        """See ``LiveSystem``."""
        machine, profiles = self.machine, self._book.profiles
        if timer == cyclon.TIMER:
            self._relayed.clear()
            self._topics.sweep()
            if self._strangers.is_crowded:
                self._vitis_codec.forget_strangers(machine.neighbours(), machine.proposed_peers())
        elif timer == tman.PROFILE_TIMER:
            before, self._ring = self._ring, machine.ring()
            self._is_in_ring = bool(before) and before == self._ring and self._echoed.issuperset(before)
            self._echoed.clear()
            mine = profiles.topics_of(ME).tolist()
            self._rounds = {topic: self._rounds.get(topic, 0) + 1 for topic in mine}

    # Events.

    def may_come_again(self, topic: int, event: int) -> bool:
        """See ``LiveSystem``."""
        return False

    def take_topic(self, name: str, way: int, event: int) -> int | None:
        """See ``LiveSystem``: those that have links here, and any of an event that it asked for."""
        number = self._carried(name)
        if number is None and self.machine.notices.waits_for(event):
            number = self._topics.number_of(name)
        return number

    def _carried(self, name: str) -> int | None:
        """The number of a topic that has links here."""
        number = self._book.topics.number_of(name)
        has_links = number is not None and (self.subscribes(number) or self.machine.links(number))
        return number if has_links else None

    def keep_topic(self, topic: int) -> None:
        """See ``LiveSystem``."""
        self._rounds.pop(topic, None)
        self._topics.keep(topic)

    def release(self) -> Mapping[int, int]:
        """See ``LiveSystem``."""
        told = self._outbox.flush()
        self._topics.release()
        return told

    def search(self, topic: str) -> bool:
        """See ``LiveSystem``: the way to a cluster is always known."""
        return False

    # Messages.

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``LiveSystem``."""
        return wire.encode_own(self._vitis_codec.pack(to, message))

    def read_gossip(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """See ``LiveSystem``: its gossip is in frames of its own."""
        raise RemoteError("unknown kind of message")

    def take(self, peer: bytes, frame: Own) -> None:
        """See ``LiveSystem``."""
        inner = wire.decode_own(frame)
        try:
            if isinstance(inner, wire.Exchange | wire.Profile):
                self._take_gossip(peer, inner)
                return
            sender = self._book.number_of(peer)
            if sender == NOBODY:
                raise Misunderstanding("sender without a card")
            match inner:
                case wire.Relay(topics):
                    self._take_relay(peer, sender, topics)
                case wire.Have():
                    self._take_notice(sender, inner)
                case wire.Want(hops, seeking, events):
                    self._host.answer(sender, [Pull(0, number, hops, seeking) for number in events])
        finally:
            self.release()

    def _take_gossip(self, peer: bytes, frame: wire.Exchange | wire.Profile) -> None:
        self._host.hear(peer)
        sender, message = self._vitis_codec.read(peer, frame)
        self._host.handle(Received(sender, message))
        if isinstance(frame, wire.Profile) and frame.is_answer:
            self._echoed.add(sender)

    def _take_relay(self, peer: bytes, sender: int, topics: Iterable[str]) -> None:
        self._questions.note(peer, self._host.now_us())
        wanted = list(dict.fromkeys(topics))
        if not all(map(is_topic, wanted)):
            raise RemoteError("message about an impossible topic")
        room = self._relay_max - self._relayed[peer]
        numbers = [self._topics.number_of(name) for name in wanted[:room]]
        known = tuple([number for number in numbers if number is not None])
        self._relayed[peer] += len(known)
        if len(known) < len(wanted):
            self._host.counters[NO_ROOM] += len(wanted) - len(known)
        self._host.handle(Received(sender, RelayRequest(known)))

    def _take_notice(self, sender: int, frame: wire.Have) -> None:
        if not is_topic(frame.topic):
            raise RemoteError("message about an impossible topic")
        topic = self._carried(frame.topic)
        if topic is None and frame.seeking:
            topic = self._topics.number_of(frame.topic)
        if topic is None:
            self._host.counters[NOT_CARRIED] += len(frame.events)
            return
        for number in frame.events:
            self._host.handle(Received(sender, Notice(topic, number, frame.hops, frame.seeking)))

    # Regularity.

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """See ``LiveSystem``: it does not matter here."""

    def regularity(self) -> dict[str, Any]:
        """See ``LiveSystem``."""
        return {}
