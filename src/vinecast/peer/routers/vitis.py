"""Vitis on a live node: one table of neighbours for all topics, clusters of those who share them, and relay
paths between clusters.

A topic's place on the circle is the highest bits of the key that its replicas are found by. Nodes relay
topics that they do not subscribe to, so that word of events is taken for every topic with links here, and for
any topic while an event is seeking a node that has some.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.machine import NOBODY
from vinecast.peer.config import PATIENCE_PERIODS, PeerConfig
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.routers import vitis_messages as wire
from vinecast.peer.routers.router import Router, RouterHost
from vinecast.peer.routers.tman import TManRouter, scratch_for, topic_place
from vinecast.peer.routers.vitis_batcher import VitisBatcher
from vinecast.peer.routers.vitis_codec import UnmetPeers, VitisCodec
from vinecast.peer.table.peer_table import ME, PeerTable
from vinecast.peer.table.relayed_topics import RelayedTopics
from vinecast.peer.topics import is_topic
from vinecast.peer.wire.event_encoding import PlainEncoding
from vinecast.peer.wire.messages import SystemFrame
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.relay_path import RelayRequest
from vinecast.protocols.tman import TManConfig
from vinecast.systems.common.notices import Notice, Pull
from vinecast.systems.durable.carriers import over_notices
from vinecast.systems.vitis.machine import Vitis, VitisConfig, VitisProfiles

RELAY_SHARE = 4
"""One peer can ask to relay one in so many of the topics that a node can know, in a cycle (ours)."""
NOT_CARRIED = "refused: notice on a topic that is not carried"
NO_ROOM = "refused: no room for a topic to relay"


def vitis_config(config: PeerConfig) -> VitisConfig:
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


def make(config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost) -> Router:
    """See ``make_router``."""
    return VitisRouter(config, seed, network, peer_table, host)


class VitisRouter(TManRouter):
    """See ``Router``."""

    pulls = True

    def __init__(
        self, config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost
    ) -> None:
        own, profiles = vitis_config(config), peer_table.profiles
        places = peer_table.topics.place(lambda topic: topic_place(network, topic), np.int32)
        shared = VitisProfiles(profiles, places)
        self.machine = machine = Vitis(
            own, seed, ME, profiles, scratch_for(own, profiles, host.scratch), shared
        )
        super().__init__(peer_table, host, machine, RelayedTopics(peer_table.topics, machine.relays.carries))
        self.carrier = over_notices(machine)
        self.event_encoding = PlainEncoding(self.carrier.carries)
        self._unmet = UnmetPeers(peer_table, config.peers)
        self._vitis_codec = VitisCodec(
            self.codec, peer_table, shared, self._unmet, machine.subscribes, host.counters
        )
        self._batcher = VitisBatcher(host.send_frame, peer_table.topics)
        self._relayed: Counter[bytes] = Counter()
        """Who asked for paths in this cycle → of how many topics"""
        self._relay_max = config.topics // RELAY_SHARE
        self.send_later, self.has_seen, self.is_alone = self._batcher.put, machine.has_seen, machine.is_alone

    # Peers.

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``Router``."""
        number = self._peer_table.topics.number_of(topic)
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
        """See ``Router``."""
        super().begin(timer)
        if timer == self.first_timer:
            self._relayed.clear()
            if self._unmet.is_crowded:
                neighbours, proposed = self.machine.neighbours(), self.machine.proposed_peers()
                self._vitis_codec.forget_unmet(neighbours, proposed)

    # Events.

    def may_come_again(self, topic: int, event: int) -> bool:
        """See ``Router``."""
        return False

    def take_topic(self, name: str, form: int, event: int) -> int | None:
        """See ``Router``: those that have links here, and any of an event that it asked for."""
        number = self._carried(name)
        if number is None and self.machine.notices.waits_for(event):
            number = self._topics.number_of(name)
        return number

    def _carried(self, name: str) -> int | None:
        """The number of a topic that has links here."""
        number = self._peer_table.topics.number_of(name)
        has_links = number is not None and (self.subscribes(number) or self.machine.links(number))
        return number if has_links else None

    def release(self) -> Mapping[int, int]:
        """See ``Router``."""
        told = self._batcher.flush()
        self._topics.release()
        return told

    # Messages.

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``Router``."""
        return wire.encode_own(self._vitis_codec.pack(to, message))

    def take(self, peer: bytes, frame: SystemFrame) -> None:
        """See ``Router``."""
        inner = wire.decode_own(frame)
        try:
            if isinstance(inner, wire.VitisExchange | wire.VitisProfile):
                self._take_gossip(peer, inner)
                return
            sender = self._peer_table.number_of(peer)
            if sender == NOBODY:
                raise BenignRefusal("sender without a card")
            match inner:
                case wire.Relay(topics):
                    self._take_relay(peer, sender, topics)
                case wire.HaveEvent():
                    self._take_notice(sender, inner)
                case wire.WantEvent(hops, seeking, events):
                    self._host.answer(sender, [Pull(0, number, hops, seeking) for number in events])
        finally:
            self.release()

    def _take_gossip(self, peer: bytes, frame: wire.VitisExchange | wire.VitisProfile) -> None:
        self._host.hear(peer)
        is_echo = isinstance(frame, wire.VitisProfile) and frame.is_answer
        self._hear(*self._vitis_codec.read(peer, frame), is_echo)

    def _take_relay(self, peer: bytes, sender: int, topics: Iterable[str]) -> None:
        self._rate_limit.note(peer, self._host.now_us())
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

    def _take_notice(self, sender: int, frame: wire.HaveEvent) -> None:
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
