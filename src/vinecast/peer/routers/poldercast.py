"""PolderCast on a live node: gossip over cards, events along rings."""

from collections.abc import Iterable, Mapping
from math import isnan
from typing import Any

import numpy as np

from vinecast.core.arrays.topic_overlap import TOPICS_MAX, Scratch
from vinecast.core.events import Message
from vinecast.peer.config import PATIENCE_PERIODS, PeerConfig
from vinecast.peer.routers.anycast import AnycastRouter, anycast_config
from vinecast.peer.routers.router import NOT_TOLD, Router, RouterHost
from vinecast.peer.streams.replicas import replica_key
from vinecast.peer.table.peer_table import ME, PeerTable
from vinecast.peer.wire.codec import Codec
from vinecast.peer.wire.event_encoding import PlainEncoding
from vinecast.peer.wire.messages import Gossip, SystemFrame, encode
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.kademlia import point_of
from vinecast.protocols.rings import RingsAnswer, RingsConfig, RingsRequest
from vinecast.protocols.rings import machine as rings
from vinecast.protocols.rings_regular import RegularAnswer, RegularRequest
from vinecast.protocols.vicinity import VicinityAnswer, VicinityConfig, VicinityRequest
from vinecast.protocols.victor import VictorAnswer, VictorConfig, VictorRequest
from vinecast.systems.common.anycast import ANYCAST_MESSAGES
from vinecast.systems.durable.carriers import over_poldercast
from vinecast.systems.grid.machine import GridConfig
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.poldercast_regular.machine import PolderCastRegular, PolderCastRegularConfig

GOSSIP: Mapping[str, type[Any]] = {
    message.kind: message
    for message in (
        CyclonRequest,
        CyclonAnswer,
        VicinityRequest,
        VicinityAnswer,
        RingsRequest,
        RingsAnswer,
        VictorRequest,
        VictorAnswer,
        RegularRequest,
        RegularAnswer,
    )
}
"""The messages of its gossip layers, by the name of their kind."""


def poldercast_config(config: PeerConfig) -> PolderCastConfig:
    """PolderCast's settings on such a node."""
    patient = RingsConfig(period_s=config.period_s, answer_within=PATIENCE_PERIODS)
    plain: dict[str, Any] = {
        "fanout": config.fanout,
        "shortcuts": config.shortcuts,
        "remembered": config.remembered,
        "remember_s": config.remember_s,
        "cyclon": CyclonConfig(period_s=config.period_s),
        "vicinity": VicinityConfig(period_s=config.period_s),
        "rings": patient,
        "anycast": anycast_config(config.anycast, config.period_s),
    }
    if config.slotting is None:
        return PolderCastConfig(**plain)
    grid = GridConfig(config.slotting, VictorConfig(period_s=config.period_s))
    return PolderCastRegularConfig(**plain, grid=grid, regular=patient)


def make(config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost) -> Router:
    """See ``make_router``."""
    return PolderCastRouter(config, seed, network, peer_table, host)


class PolderCastRouter:
    """See ``Router``."""

    table = None
    first_timer, last_timer = cyclon.TIMER, rings.TIMER
    gossips, pulls = True, False

    def __init__(
        self, config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost
    ) -> None:
        own = poldercast_config(config)
        if own.anycast.on:
            peer_table.profiles.topic_ids = peer_table.topics.place(
                lambda topic: point_of(replica_key(network, topic))
            )
        most_topics = min(config.topics, TOPICS_MAX)
        scratch = host.scratch.take(config.peers, config.topics, most_topics, own.most, own.rings.size)
        self.machine = machine = _make_machine(own, seed, peer_table, scratch)
        self.carrier = over_poldercast(machine)
        self.event_encoding = PlainEncoding(self.carrier.carries)
        self.codec = Codec(peer_table, own.most, GOSSIP)
        self._host, self._peer_table = host, peer_table
        self._anycast = AnycastRouter(machine, self.codec, peer_table, host)
        self.search = self._anycast.search
        self._reachable: set[int] = set()
        self._numbers = peer_table.topics.numbers
        self.in_use, self.partner_of = machine.peers_in_use, machine.partner_of
        self.subscribes, self.has_seen = machine.subscribes, machine.has_seen

    # Peers.

    def knows_nobody(self) -> bool:
        """See ``Router``."""
        return self.machine.cyclon.view.size == 0

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``Router``."""
        return topic in self._peer_table.topics_of(peer)

    # Topics.

    def is_ready(self, topic: int) -> bool:
        """Whether its ring neighbours take it for theirs too.

        While an exchange is under way its partner is out of the rings, so that what was so just before the
        last one began counts too.
        """
        return topic in self._reachable or self.machine.is_reachable(topic)

    def is_alone(self, topic: int) -> bool:
        """See ``Router``."""
        return self.machine.is_alone(topic, self._host.now_us())

    def neighbours(self, topic: int) -> tuple[int, int]:
        """Its ring neighbours, the lower and the higher."""
        row = int(np.searchsorted(self._peer_table.profiles.topics_of(ME), topic))
        carriers = self.machine.rings.carriers(row, self._host.now_us())
        return int(carriers[0]), int(carriers[carriers.size // 2])

    def begin(self, timer: str) -> None:
        """See ``Router``."""
        if timer == rings.TIMER:
            mine = self._peer_table.profiles.topics_of(ME).tolist()
            self._reachable = {topic for topic in mine if self.machine.is_reachable(topic)}

    # Events.

    def may_come_again(self, topic: int, event: int) -> bool:
        """See ``Router``."""
        return False

    def take_topic(self, name: str, form: int, event: int) -> int | None:
        """See ``Router``: those that it subscribes to."""
        number = self._numbers.get(name)
        return number if number is not None and self.subscribes(number) else None

    def keep_topic(self, topic: int) -> None:
        """See ``Router``."""
        self._reachable.discard(topic)

    def release(self) -> Mapping[int, int]:
        """See ``Router``: nothing was taken that is not its own."""
        return NOT_TOLD

    # Messages.

    def send_later(self, to: int, message: Message) -> bool:
        """See ``Router``: nothing waits."""
        return False

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``Router``."""
        if isinstance(message, ANYCAST_MESSAGES):
            return self._anycast.encode(to, message)
        return encode(self.codec.pack(to, message))

    def read_gossip(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """See ``Router``."""
        return self.codec.unpack(peer, frame)

    def take(self, peer: bytes, frame: SystemFrame) -> None:
        """See ``Router``: those of searches."""
        self._anycast.take(peer, frame)

    # Regularity.

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """See ``Router``."""
        if isinstance(self.machine, PolderCastRegular):
            self.machine.grid.own.recall(sessions)

    def regularity(self) -> dict[str, Any]:
        """See ``Router``."""
        if not isinstance(self.machine, PolderCastRegular):
            return {}
        own = self.machine.grid.own
        shares = [None if isnan(share) else round(share, 3) for share in own.shares().tolist()]
        told = {"slot_s": own.config.slot_s, "threshold": own.config.threshold, "slot": own.slot}
        return {"regularity": {**told, "shares": shares, "regular": own.pattern.tolist()}}


def _make_machine(config: PolderCastConfig, seed: int, peer_table: PeerTable, scratch: Scratch) -> PolderCast:
    profiles, regular = peer_table.profiles, peer_table.regular
    if not isinstance(config, PolderCastRegularConfig):
        return PolderCast(config, seed, ME, profiles, scratch)
    assert regular is not None
    return PolderCastRegular(config, seed, ME, profiles, scratch, regular.shared)
