"""PolderCast on a live node: gossip over cards, events along rings."""

import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isnan
from typing import Any

import numpy as np

from vinecast.core.events import Message
from vinecast.core.interest import TOPICS_MAX, Scratch, make_scratch
from vinecast.node.anycast_live import LiveAnycast, anycast_config
from vinecast.node.codec import Codec
from vinecast.node.config import PATIENCE_PERIODS, NodeConfig
from vinecast.node.keepers import keeper_key
from vinecast.node.peers import ME, PeerBook
from vinecast.node.system_live import NOT_TOLD, Host, LiveSystem
from vinecast.node.ways import PlainWays
from vinecast.node.wire import Gossip, Own, encode
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.kademlia import point_of
from vinecast.protocols.rings import RingsAnswer, RingsConfig, RingsRequest
from vinecast.protocols.rings import machine as rings
from vinecast.protocols.rings_regular import RegularAnswer, RegularRequest
from vinecast.protocols.vicinity import VicinityAnswer, VicinityConfig, VicinityRequest
from vinecast.protocols.victor import VictorAnswer, VictorConfig, VictorRequest
from vinecast.systems.anycast import ANYCAST_MESSAGES
from vinecast.systems.durable_carriers import over_poldercast
from vinecast.systems.grid import GridConfig
from vinecast.systems.poldercast import PolderCast, PolderCastConfig
from vinecast.systems.poldercast_regular import PolderCastRegular, PolderCastRegularConfig

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


def poldercast_config(config: NodeConfig) -> PolderCastConfig:
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


@lru_cache(maxsize=16)
def _scratch_for(peers: int, topics: int, most: int, places: int, thread: int) -> Scratch:
    """Working memory: it is left as it was found, so that the nodes of a thread can share it."""
    return make_scratch(peers, topics, min(topics, TOPICS_MAX), most, places)


def make(config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> LiveSystem:
    """See ``make_system``."""
    return LivePolderCast(config, seed, network, book, host)


class LivePolderCast:
    """See ``LiveSystem``."""

    table = None
    first_timer, last_timer = cyclon.TIMER, rings.TIMER
    gossips, pulls = True, False

    def __init__(self, config: NodeConfig, seed: int, network: str, book: PeerBook, host: Host) -> None:
        own = poldercast_config(config)
        if own.anycast.on:
            book.profiles.topic_ids = book.topics.place(lambda topic: point_of(keeper_key(network, topic)))
        room = config.peers, config.topics, own.most, own.rings.size
        scratch = _scratch_for(*room, threading.get_ident())
        self.machine = machine = _make_machine(own, seed, book, scratch)
        self.carrier = over_poldercast(machine)
        self.ways = PlainWays(self.carrier.carries)
        self.codec = Codec(book, own.most, GOSSIP)
        self._host, self._book = host, book
        self._anycast = LiveAnycast(machine, self.codec, book, host)
        self.search = self._anycast.search
        self._reachable: set[int] = set()
        self._numbers = book.topics.numbers
        self.in_use, self.partner_of = machine.peers_in_use, machine.partner_of
        self.subscribes, self.has_seen = machine.subscribes, machine.has_seen

    # Peers.

    def knows_nobody(self) -> bool:
        """See ``LiveSystem``."""
        return self.machine.cyclon.view.size == 0

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``LiveSystem``."""
        return topic in self._book.topics_of(peer)

    # Topics.

    def is_ready(self, topic: int) -> bool:
        """Whether its ring neighbours take it for theirs too.

        While an exchange is under way its partner is out of the rings, so that what was so just before the
        last one began counts too.
        """
        return topic in self._reachable or self.machine.is_reachable(topic)

    def is_alone(self, topic: int) -> bool:
        """See ``LiveSystem``."""
        return self.machine.is_alone(topic, self._host.now_us())

    def neighbours(self, topic: int) -> tuple[int, int]:
        """Its ring neighbours, the lower and the higher."""
        row = int(np.searchsorted(self._book.profiles.topics_of(ME), topic))
        carriers = self.machine.rings.carriers(row, self._host.now_us())
        return int(carriers[0]), int(carriers[carriers.size // 2])

    def begin(self, timer: str) -> None:
        """See ``LiveSystem``."""
        if timer == rings.TIMER:
            mine = self._book.profiles.topics_of(ME).tolist()
            self._reachable = {topic for topic in mine if self.machine.is_reachable(topic)}

    # Events.

    def may_come_again(self, topic: int, event: int) -> bool:
        """See ``LiveSystem``."""
        return False

    def take_topic(self, name: str, way: int, event: int) -> int | None:
        """See ``LiveSystem``: those that it subscribes to."""
        number = self._numbers.get(name)
        return number if number is not None and self.subscribes(number) else None

    def keep_topic(self, topic: int) -> None:
        """See ``LiveSystem``."""
        self._reachable.discard(topic)

    def release(self) -> Mapping[int, int]:
        """See ``LiveSystem``: nothing was taken that is not its own."""
        return NOT_TOLD

    # Messages.

    def send_later(self, to: int, message: Message) -> bool:
        """See ``LiveSystem``: nothing waits."""
        return False

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``LiveSystem``."""
        if isinstance(message, ANYCAST_MESSAGES):
            return self._anycast.encode(to, message)
        return encode(self.codec.pack(to, message))

    def read_gossip(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """See ``LiveSystem``."""
        return self.codec.unpack(peer, frame)

    def take(self, peer: bytes, frame: Own) -> None:
        """See ``LiveSystem``: those of searches."""
        self._anycast.take(peer, frame)

    # Regularity.

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """See ``LiveSystem``."""
        if isinstance(self.machine, PolderCastRegular):
            self.machine.grid.own.recall(sessions)

    def regularity(self) -> dict[str, Any]:
        """See ``LiveSystem``."""
        if not isinstance(self.machine, PolderCastRegular):
            return {}
        own = self.machine.grid.own
        shares = [None if isnan(share) else round(share, 3) for share in own.shares().tolist()]
        told = {"slot_s": own.config.slot_s, "threshold": own.config.threshold, "slot": own.slot}
        return {"regularity": {**told, "shares": shares, "regular": own.pattern.tolist()}}


def _make_machine(config: PolderCastConfig, seed: int, book: PeerBook, scratch: Scratch) -> PolderCast:
    profiles, regular = book.profiles, book.regular
    if not isinstance(config, PolderCastRegularConfig):
        return PolderCast(config, seed, ME, profiles, scratch)
    assert regular is not None
    return PolderCastRegular(config, seed, ME, profiles, scratch, regular.shared)
