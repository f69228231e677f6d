"""Vitis on a live node: one table of neighbours for all topics, clusters of those who share them, and relay
paths between clusters.

A topic's place on the circle is the highest bits of the key that its keepers are found by. Nodes relay topics
that they do not subscribe to, so that word of events is taken for every topic with links here, and for any
topic while an event is seeking a node that has some.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.machine import NOBODY
from vinecast.node import vitis_wire as wire
from vinecast.node.carried_topics import CarriedTopics
from vinecast.node.conduct import Misunderstanding
from vinecast.node.config import PATIENCE_PERIODS, NodeConfig
from vinecast.node.peers import ME, PeerBook
from vinecast.node.system_live import Host, LiveSystem
from vinecast.node.tman_live import LiveOnTMan, scratch_for, topic_place
from vinecast.node.topics import is_topic
from vinecast.node.vitis_codec import Strangers, VitisCodec
from vinecast.node.vitis_outbox import VitisOutbox
from vinecast.node.ways import PlainWays
from vinecast.node.wire import Own
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.relay_path import RelayRequest
from vinecast.protocols.tman import TManConfig
from vinecast.systems.durable_carriers import over_notices
from vinecast.systems.notices import Notice, Pull
from vinecast.systems.vitis import Vitis, VitisConfig, VitisProfiles

RELAY_SHARE = 4
"""One peer can ask to relay one in so many of the topics that a node can know, in a cycle (ours)."""
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


def make(config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> LiveSystem:
    """See ``make_system``."""
    return LiveVitis(config, seed, network, book, host)


class LiveVitis(LiveOnTMan):
    """See ``LiveSystem``."""

    pulls = True

    def __init__(self, config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> None:
        own, profiles = vitis_config(config), book.profiles
        places = book.topics.place(lambda topic: topic_place(network, topic), np.int32)
        shared = VitisProfiles(profiles, places)
        self.machine = machine = Vitis(own, seed, ME, profiles, scratch_for(own, profiles), shared)
        super().__init__(book, host, machine, CarriedTopics(book.topics, machine.relays.carries))
        self.carrier = over_notices(machine)
        self.ways = PlainWays(self.carrier.carries)
        self._strangers = Strangers(book, config.peers)
        self._vitis_codec = VitisCodec(
            self.codec, book, shared, self._strangers, machine.subscribes, host.counters
        )
        self._outbox = VitisOutbox(host.send_frame, book.topics)
        self._relayed: Counter[bytes] = Counter()
        """Who asked for paths in this cycle → of how many topics"""
        self._relay_max = config.topics // RELAY_SHARE
        self.send_later, self.has_seen, self.is_alone = self._outbox.put, machine.has_seen, machine.is_alone

    # Peers.

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``LiveSystem``."""
        number = self._book.topics.number_of(topic)
        return number is not None and peer in self.machine.ways(number)

    # Topics.

    def is_ready(self, topic: int) -> bool:
        """… and whether it has links in the topic."""
        return super().is_ready(topic) and bool(self.machine.links(topic))

    def neighbours(self, topic: int) -> tuple[int, int]:
        """Two of those whom its events go to, the one of whom it has its gateway last."""
        links, parent = self.machine.links(topic), self.machine.parent_of(topic)
        others = [peer for peer in links if peer != parent]
        return next(iter(others), NOBODY), parent

    def begin(self, timer: str) -> None:
        """See ``LiveSystem``."""
        super().begin(timer)
        if timer == self.first_timer:
            self._relayed.clear()
            if self._strangers.is_crowded:
                neighbours, proposed = self.machine.neighbours(), self.machine.proposed_peers()
                self._vitis_codec.forget_strangers(neighbours, proposed)

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

    def release(self) -> Mapping[int, int]:
        """See ``LiveSystem``."""
        told = self._outbox.flush()
        self._topics.release()
        return told

    # Messages.

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``LiveSystem``."""
        return wire.encode_own(self._vitis_codec.pack(to, message))

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
        is_echo = isinstance(frame, wire.Profile) and frame.is_answer
        self._hear(*self._vitis_codec.read(peer, frame), is_echo)

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
