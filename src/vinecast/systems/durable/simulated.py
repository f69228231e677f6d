"""A durable node as the simulator drives it: PolderCast, streams in memory, and an application that reads
all.

The application publishes records with the number of the simulated event in them, reads its topics as a
consumer with an offset, and acknowledges what it was handed. Writing to disk takes ``commit_s``: a crash in
between loses what was not safe. Signatures are cheap stand-ins. Replicas are the nodes nearest to a topic's
key that are there, as a lookup would find them, and so are those who provide its stream.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, make_scratch
from vinecast.core.config import check, limited
from vinecast.core.errors import RemoteError
from vinecast.core.events import (
    Blame,
    Count,
    Deliver,
    Effect,
    Event,
    Publish,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.log.batch_signature import Sign, SignatureChecker, SignedEvent, sign_events
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.checker import StreamChecker
from vinecast.core.log.event_record import EventRecord, decode
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.streams import Keep, Kept, SetFloor
from vinecast.core.machine import SECOND_US
from vinecast.protocols.streams import (
    Acknowledged,
    FindProviders,
    Follow,
    Hand,
    Provide,
    Providers,
    StreamsConfig,
    TopicReplicas,
    Unfollow,
)
from vinecast.protocols.streams.machine import PERIOD
from vinecast.systems.durable.carriers import over_poldercast
from vinecast.systems.durable.machine import (
    Carrier,
    Durable,
    DurableEffect,
    DurableInput,
    PublishSigned,
    Routed,
)
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast

NETWORK = "simulated"
CONSUMER = "application"
COMMIT = "durable.commit"


@dataclass(frozen=True, slots=True)
class DurableConfig:
    """PolderCast with durable streams."""

    replicas: int = limited(3, at_least=0, at_most=20)
    """Nodes that keep each stream whoever reads it: k of S3 §4.5."""
    commit_s: float = limited(0.02, at_least=0.0, at_most=60.0)
    """Seconds until what is kept is safe (ours)."""
    streams: StreamsConfig = field(default_factory=StreamsConfig)
    poldercast: PolderCastConfig = field(default_factory=PolderCastConfig)

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The length of a cycle: PolderCast's."""
        return self.poldercast.period_us

    @property
    def commit_us(self) -> int:
        """The time to safety in microseconds."""
        return round(self.commit_s * SECOND_US)


def topic_name(topic: int) -> str:
    """What a simulated topic is called."""
    return f"topic/{topic}"


def public_key(node: int) -> bytes:
    """A simulated node's public key."""
    return hashlib.sha256(b"node %d" % node).digest()


def cheap_sign(public: bytes) -> Sign:
    """A stand-in for a signature: whoever plays fair signs with its own key only."""
    return lambda text: hashlib.sha512(public + text).digest()


def cheap_verify(public: bytes, text: bytes, signature: bytes) -> bool:
    """Whether a stand-in is right."""
    return hashlib.sha512(public + text).digest() == signature


def event_of(signed: SignedEvent) -> int:
    """The number of the simulated event that a record stands for."""
    return int.from_bytes(signed.record.payload[:8], "big")


class FormChecker:
    """Says what is wrong with an event that another node sent, in a simulation where messages are objects."""

    def __init__(self) -> None:
        self._signatures = SignatureChecker(cheap_verify, NETWORK)

    def __call__(self, signed: SignedEvent) -> str:
        if cid_of(signed.block) != signed.cid:
            return "wrong bytes"
        try:
            if decode(signed.block) != signed.record:
                return "wrong record"
        except RemoteError as error:
            return str(error)
        return "" if self._signatures.holds(signed) else "forged event"


class DurableNodes:
    """All nodes of a simulation: makes their machines, and keeps what survives a crash."""

    def __init__(
        self,
        config: DurableConfig,
        seed: int,
        profiles: Profiles,
        checker: StreamChecker | None = None,
        is_there: Callable[[int], bool] = lambda node: True,
        carriers: Callable[[int], Carrier] | None = None,
    ) -> None:
        """``carriers`` makes the carrier of a node; None: PolderCast."""
        self.config = config
        self.seed = seed
        self.profiles = profiles
        self.checker = checker or StreamChecker()
        self.is_there = is_there
        self.carrier_of = carriers or self._poldercast
        self.disks: dict[int, MemoryStreams] = {}
        topics = profiles.topic_ids.size
        most = config.poldercast.most
        self._scratch = make_scratch(
            profiles.peers, topics, min(topics, TOPICS_MAX), most, config.poldercast.rings.size
        )
        ids = profiles.ids.tolist()
        self._nearest = [
            [node for _, node in sorted((near ^ key, node) for node, near in enumerate(ids))]
            for key in profiles.topic_ids.tolist()
        ]
        self._looked_us = -config.streams.period_us
        self._replicas: list[tuple[int, ...]] = []
        self._kept_by: dict[int, list[int]] = {}
        self._numbers = {topic_name(topic): topic for topic in range(topics)}
        self._providers: dict[str, dict[int, None]] = {}
        self.sequence = 0

    def __call__(self, node: int) -> "SimulatedDurable":
        """The machine of a node that comes up, for the first time or after a crash."""
        disk = self.disks.setdefault(node, MemoryStreams())
        disk.crash()
        return SimulatedDurable(self, node, disk)

    def _poldercast(self, node: int) -> Carrier:
        poldercast = self.config.poldercast
        return over_poldercast(PolderCast(poldercast, self.seed, node, self.profiles, self._scratch))

    def number_of(self, name: str) -> int | None:
        """The number of a topic."""
        return self._numbers.get(name)

    def replicas(self, now_us: int) -> list[tuple[int, ...]]:
        """Who keeps each topic, as a lookup would have found them not long ago. [topic]"""
        if now_us >= self._looked_us + self.config.streams.period_us // 2:
            self._looked_us = now_us
            self._replicas = [
                tuple(islice(filter(self.is_there, near), self.config.replicas)) for near in self._nearest
            ]
            self._kept_by = {}
            for topic, replicas in enumerate(self._replicas):
                for node in replicas:
                    self._kept_by.setdefault(node, []).append(topic)
        return self._replicas

    def kept_by(self, node: int) -> list[int]:
        """The topics that a node is a replica of."""
        return self._kept_by.get(node, [])

    def provide(self, topic: str, node: int) -> None:
        """A node lets others know that it has a stream."""
        self._providers.setdefault(topic, {})[node] = None

    def providers(self, topic: str) -> tuple[int, ...]:
        """Who has said so and is there, the latest first, as a lookup would find them."""
        return tuple(filter(self.is_there, reversed(self._providers.get(topic, {}))))

    def sign_event(
        self, node: int, topic: str, place: tuple[tuple[bytes, ...], int], number: int
    ) -> SignedEvent:
        """The next event of a node, at its place in a stream, signed."""
        self.sequence += 1
        public, (parents, height) = public_key(node), place
        record = EventRecord(
            topic, public, self.sequence, 0, number.to_bytes(8, "big"), parents=parents, height=height
        )
        return sign_events(NETWORK, [record], cheap_sign(public))[0]


class SimulatedDurable:
    """The machine of one node, with its disk and its application."""

    def __init__(self, nodes: DurableNodes, me: int, disk: MemoryStreams) -> None:
        config = nodes.config
        self.me = me
        self.disk = disk
        self.carrier = nodes.carrier_of(me)
        self.durable = Durable(
            config.streams, nodes.seed, me, self.carrier, disk, FormChecker(), nodes.number_of, event_of
        )
        self._nodes = nodes
        self._checker = nodes.checker
        self._committing = False
        self._consumed: dict[str, list[bytes]] = {}
        """What the application has acknowledged since the last commit."""
        self._replicas: dict[int, tuple[int, ...]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be written, and no event waits for another."""
        return not self._committing and len(self.durable.repair.intake.pending) == 0

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Start():
                return self._start(event, now_us)
            case Publish(topic, number):
                return self._publish(topic_name(topic), number, now_us)
            case Subscribe(topic):
                return self._tell(Follow(topic_name(topic)), now_us)
            case Unsubscribe(topic):
                return self._tell(Unfollow(topic_name(topic)), now_us)
            case TimerFired(name) if name == COMMIT:
                return self._commit(now_us)
            case TimerFired(name) if name == PERIOD:
                return self._tell_replicas(now_us) + self._tell(event, now_us)
        return self._tell(event, now_us)

    def _start(self, event: Start, now_us: int) -> list[Effect]:
        self._committing = False
        effects = self._tell(event, now_us)
        for topic in self._nodes.profiles.topics_of(self.me).tolist():
            name = topic_name(topic)
            effects += self._tell(Follow(name), now_us)
            for position, signed in self.disk.after(name, self.disk.offset(CONSUMER, name), 1 << 30):
                effects += self._consume(signed, position, 0)
        return effects + self._tell_replicas(now_us)

    def _tell_replicas(self, now_us: int) -> list[Effect]:
        """See who keeps the topics of this node, and which topics it is a replica of."""
        effects: list[Effect] = []
        replicas, followed = self._nodes.replicas(now_us), self.durable.repair.topics
        for name in map(topic_name, self._nodes.kept_by(self.me)):
            if name not in followed:
                effects += self._tell(Follow(name, reads=False), now_us)
        for name in list(followed):
            topic = self._nodes.number_of(name)
            if topic is not None and self._replicas.get(topic) != replicas[topic]:
                self._replicas[topic] = replicas[topic]
                effects += self._tell(TopicReplicas(name, replicas[topic]), now_us)
        return effects

    def _publish(self, topic: str, number: int, now_us: int) -> list[Effect]:
        signed = self._nodes.sign_event(self.me, topic, self.durable.place(topic), number)
        self._checker.published(signed)
        return self._tell(PublishSigned(signed), now_us)

    def _commit(self, now_us: int) -> list[Effect]:
        self._committing = False
        safe = self.disk.commit()
        for topic, cids in self._consumed.items():
            self._checker.consumed(self.me, topic, cids)
        self._consumed.clear()
        return self._tell(Kept(safe), now_us)

    def _consume(self, signed: SignedEvent, position: int, hops: int) -> list[Effect]:
        """The application is handed an event, and acknowledges it."""
        topic = signed.record.topic
        self._checker.delivered(self.me, signed)
        if position:
            self.disk.ack(CONSUMER, topic, position)
            self._consumed.setdefault(topic, []).append(signed.cid)
        number = self._nodes.number_of(topic)
        return [Deliver(-1 if number is None else number, event_of(signed), hops), *self._write()]

    def _write(self) -> list[Effect]:
        if self._committing:
            return []
        self._committing = True
        return [SetTimer(COMMIT, self._nodes.config.commit_us)]

    def _tell(self, event: DurableInput, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for effect in self.durable.handle(event, now_us):
            effects += self._carry_out(effect, now_us)
        return effects

    def _carry_out(self, effect: DurableEffect, now_us: int) -> list[Effect]:
        match effect:
            case Keep(events):
                self.disk.keep(events, now_us)
                return self._write()
            case SetFloor(topic, floor):
                self.disk.set_floor(topic, floor)
                return self._write()
            case Hand(signed, hops):
                return self._consume(signed, self.disk.position_of(signed.cid), hops)
            case Routed(signed, hops):
                return self._consume(signed, 0, hops)
            case Acknowledged(cid, holders):
                self._checker.acknowledged(cid, holders)
                return []
            case Provide(topic):
                self._nodes.provide(topic, self.me)
                return []
            case FindProviders(topic):
                return self._tell(Providers(topic, self._nodes.providers(topic)), now_us)
            case Blame():
                return [Count("durable.blamed")]
        return [effect]
