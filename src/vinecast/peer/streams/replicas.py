"""The replicas of a topic's stream: the nodes nearest to its key, as Kademlia finds them (decision 12).

Kademlia sleeps until somebody needs it: a node that publishes or reads streams, or one that another asks
something. A network without streams has no traffic of this kind. Whoever wakes knows those already to whom it
has connections, so that it knows others from the start.

The replicas of a topic are looked up when they are first needed, soon again, and then ever less often, since
nodes come and go. Under the same key nodes that have a stream provide it, and are found when neighbours and
replicas lack something of it.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, Event, PeerFound, PeerLost, Start, Stop
from vinecast.core.machine import Machine
from vinecast.peer.streams.messages import VALUE_BYTES_MAX
from vinecast.protocols.kademlia import Found, Kademlia, KademliaConfig, Operation, Validator, point_of
from vinecast.protocols.kademlia.buckets import Keys
from vinecast.systems.common.router import ME

AGAIN_PERIODS, AGAIN_PERIODS_MAX = 4, 64
"""Periods until replicas are looked up for the second time, and at the most; doubled in between (ours)."""
LOOKUPS_A_PERIOD = 8
"""Topics whose replicas are looked up in one period (ours)."""
NEAR = 2
"""A node takes what it is asked to keep if it knows less than so many times as many nearer nodes as a topic
has replicas (ours): lookups are not always lucky."""
NEAREST = 8
"""k of Kademlia on live nodes (ours): every one of them may need a connection."""
UPKEEP_PERIODS = 30
"""Periods of gossip to one of Kademlia's (ours)."""
TIMEOUT_PERIODS = 20
"""Periods of gossip that an answer may take, but not more than three seconds (ours)."""

ReplicasListener = Callable[[str, tuple[int, ...]], object]
"""Who keeps a topic, the nearest first, or provides it; the node itself perhaps among them."""
Answer = Callable[[Found], object]


def replica_key(network: str, topic: str) -> bytes:
    """The key of a topic: 32 bytes that differ from network to network, and are no content id's."""
    secret = hashlib.blake2b(network.encode()).digest()
    return hashlib.blake2b(topic.encode(), digest_size=32, key=secret, person=b"vinecast topic").digest()


def table_config(period_s: float, replicas: int) -> KademliaConfig:
    """Kademlia's settings on a node whose gossip has this period."""
    return KademliaConfig(
        nearest=max(NEAREST, replicas),
        timeout_s=min(KademliaConfig().timeout_s, TIMEOUT_PERIODS * period_s),
        period_s=min(86400.0, UPKEEP_PERIODS * period_s),
        value_bytes_max=VALUE_BYTES_MAX,
    )


@dataclass(slots=True)
class _Sought:
    """A topic whose replicas are wanted."""

    wait: int = AGAIN_PERIODS
    due: int = 0
    peers: tuple[int, ...] | None = None


class KnownPeers(NamedTuple):
    """Whom a node knows."""

    connected: Callable[[], Iterable[int]]
    """Names the peers that it has connections to"""
    known: Callable[[], Iterable[int]]
    """… and others."""


class ReplicaFinder:
    """Finds the replicas of topics for one node. ``told`` hears who keeps a topic, whenever that changes."""

    def __init__(
        self,
        config: KademliaConfig,
        count: int,
        seed: int,
        points: Keys,
        network: str,
        validator: Validator,
        peers: KnownPeers,
        told: ReplicasListener,
    ) -> None:
        self.table: Kademlia | None = None
        """Kademlia, once it is awake."""
        self._config, self._seed, self._points, self._validator = config, seed, points, validator
        self._network, self._count = network, count
        self._connected, self._known, self._told = peers.connected, peers.known, told
        self._cycle = 0
        self._sought: dict[str, _Sought] = {}
        self._topics: dict[bytes, str] = {}
        self._machine: Machine | None = None
        self._unprovided: dict[str, None] = {}
        """Topics that are to be provided."""
        self._answers: dict[tuple[Operation, bytes], list[Answer]] = {}

    def share(self, table: Kademlia, machine: Machine) -> None:
        """Find replicas with the Kademlia of the node's system, which is told by way of the system's machine
        and hears of peers that are gone, and of the end, by itself."""
        self.table, self._machine = table, machine

    # What it knows.

    def of(self, topic: str) -> tuple[int, ...]:
        """Who keeps a topic, the node itself perhaps among them; nobody while that is not known."""
        sought = self._sought.get(topic)
        return (sought and sought.peers) or ()

    def is_sought(self, topic: str) -> bool:
        """Whether it keeps an eye on who keeps a topic."""
        return topic in self._sought

    @property
    def is_needed(self) -> bool:
        """Whether something is to be said in Kademlia."""
        return bool(self._unprovided)

    def is_near(self, topic: str) -> bool:
        """Whether this node may be one of a topic's replicas, as far as it knows."""
        if self.table is None or not self._count:
            return False
        point = point_of(replica_key(self._network, topic))
        return self.table.buckets.count_nearer(point) < NEAR * self._count

    def in_use(self) -> set[int]:
        """Numbers that must stay theirs."""
        if self.table is None:
            return set()
        return self.table.in_use.union(*(sought.peers or () for sought in self._sought.values())) - {ME}

    # What it is told.

    def want(self, topic: str, now_us: int) -> list[Effect]:
        """Keep an eye on who keeps a topic."""
        if topic in self._sought or not self._count:
            return []
        effects = self.wake(now_us)
        self._sought[topic] = sought = _Sought()
        self._topics[replica_key(self._network, topic)] = topic
        return effects + self._look_up(topic, sought, now_us)

    def leave(self, topic: str) -> None:
        """No longer, and do not provide it either."""
        key = replica_key(self._network, topic)
        self._unprovided.pop(topic, None)
        if self.table is not None:
            self.table.forget(key)
        if self._sought.pop(topic, None) is not None:
            del self._topics[key]

    def provide(self, topic: str) -> None:
        """Let others know that this node has a topic's stream, soon and until it is left."""
        self._unprovided[topic] = None

    def find_providers(self, topic: str, told: ReplicasListener, now_us: int) -> list[Effect]:
        """Find out who provides a topic's stream."""
        key = replica_key(self._network, topic)
        self.await_answer(Operation.PROVIDERS, key, partial(self._tell_providers, topic, told))
        return self.ask(lambda table, now_us: table.providers(key, now_us), now_us)

    def _tell_providers(self, topic: str, told: ReplicasListener, found: Found) -> None:
        told(topic, found.peers)

    def wake(self, now_us: int) -> list[Effect]:
        """Begin with Kademlia, unless that is done."""
        if self.table is not None:
            return []
        table = self.table = Kademlia(self._config, self._seed, ME, self._points, self._validator)
        connected = list(self._connected())
        contacts = dict.fromkeys((*connected, *self._known()))
        effects = table.handle(Start(tuple(contacts)), now_us)
        for peer in connected:
            effects += table.hear(peer, now_us)
        return effects

    def meet(self, peer: int, now_us: int) -> list[Effect]:
        """There is a connection to a peer. Where replicas are lacking it may be one, or know some."""
        if self.table is None:
            return []
        effects = self.handle(PeerFound(peer), now_us)
        lacking = [item for item in self._sought.items() if len(item[1].peers or ()) < self._count]
        for topic, sought in lacking[:LOOKUPS_A_PERIOD]:
            effects += self._look_up(topic, sought, now_us)
        return effects

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """Something for Kademlia; nothing while it sleeps, unless another node asks."""
        if self.table is None:
            return []
        effects: list[Effect] = []
        if self._machine is None:
            effects = self.table.handle(event, now_us)
        elif not isinstance(event, PeerLost | Stop):
            effects = self._machine.handle(event, now_us)
        if isinstance(event, PeerLost):
            for sought in self._sought.values():
                if event.peer in (sought.peers or ()):
                    sought.due, sought.wait = 0, AGAIN_PERIODS
        self._settle()
        return effects

    def begin_period(self, now_us: int) -> list[Effect]:
        """Look again for replicas whose time has come."""
        self._cycle += 1
        due = [(topic, sought) for topic, sought in self._sought.items() if sought.due <= self._cycle]
        effects: list[Effect] = []
        for topic, sought in due[:LOOKUPS_A_PERIOD]:
            effects += self._look_up(topic, sought, now_us)
        effects += self.wake(now_us) if self._unprovided else []
        for topic in list(self._unprovided)[:LOOKUPS_A_PERIOD]:
            del self._unprovided[topic]
            effects += self._provide(replica_key(self._network, topic), now_us)
        return effects

    def ask(self, begin: Callable[[Kademlia, int], list[Effect]], now_us: int) -> list[Effect]:
        """Have Kademlia do something."""
        effects = self.wake(now_us)
        assert self.table is not None
        effects += begin(self.table, now_us)
        self._settle()
        return effects

    def await_answer(self, operation: Operation, key: bytes, answer: Answer) -> None:
        """Let somebody know what comes of an operation that is about to begin."""
        self._answers.setdefault((operation, key), []).append(answer)

    def forget_answer(self, operation: Operation, key: bytes, answer: Answer) -> None:
        """The operation could not begin."""
        answers = self._answers.get((operation, key), [])
        if answer in answers:
            answers.remove(answer)
        if not answers:
            self._answers.pop((operation, key), None)

    def _provide(self, key: bytes, now_us: int) -> list[Effect]:
        assert self.table is not None
        if (Operation.PROVIDE, key) in self.table.own:
            return []
        try:
            return self.table.provide(key, now_us)
        except InputError:
            return [Count("dropped: too many streams to provide")]

    def _look_up(self, topic: str, sought: _Sought, now_us: int) -> list[Effect]:
        sought.due, sought.wait = self._cycle + sought.wait, min(2 * sought.wait, AGAIN_PERIODS_MAX)
        assert self.table is not None
        effects = self.table.closest(replica_key(self._network, topic), now_us)
        self._settle()
        return effects

    def _settle(self) -> None:
        """Pass on what Kademlia has found."""
        assert self.table is not None
        for found in self.table.take_results():
            for answer in self._answers.pop((found.operation, found.key), ()):
                answer(found)
            topic = self._topics.get(found.key) if found.operation is Operation.CLOSEST else None
            sought = self._sought.get(topic) if topic is not None else None
            if topic is None or sought is None or not found.peers:
                continue
            peers = found.peers[: self._count]
            if peers != sought.peers:
                sought.peers, sought.wait = peers, AGAIN_PERIODS
                self._told(topic, peers)
