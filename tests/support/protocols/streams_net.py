"""Machines of gap repair back to back: virtual time, streams in memory, and a wire that a test can cut."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vinecast.core.errors import RemoteError
from vinecast.core.events import Blame, Count, Event, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.log.batch_signature import SignatureChecker, SignedEvent, sign_events
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import EventRecord, decode
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.streams import Keep, Kept, SetFloor
from vinecast.protocols.streams import (
    Acknowledged,
    FindProviders,
    Follow,
    GapRepair,
    Hand,
    Provide,
    Providers,
    StreamEffect,
    StreamsConfig,
    StreamWant,
)
from vinecast.sim.peers.keys import KeyRing

NETWORK, TOPIC = "simulated", "a/topic"
KEYS = KeyRing(0)
SECOND = 1_000_000
CONFIG = StreamsConfig(period_s=1.0, answer_s=0.25)


def event(
    number: int,
    *parents: SignedEvent,
    height: int | None = None,
    topic: str = TOPIC,
    author: int = 0,
    size: int = 8,
) -> SignedEvent:
    """An event that follows these, at the right height unless told otherwise."""
    right = 1 + max((parent.record.height for parent in parents), default=0)
    own = KEYS.identity(author)
    record = EventRecord(
        topic,
        own.public,
        number,
        0,
        number.to_bytes(8, "big") + bytes(size - 8),
        parents=tuple(parent.cid for parent in parents),
        height=right if height is None else height,
    )
    return sign_events(NETWORK, [record], own.sign)[0]


def chain(count: int, *parents: SignedEvent, first: int = 1, **rest: Any) -> list[SignedEvent]:
    """Events one after the other."""
    events: list[SignedEvent] = []
    for number in range(first, first + count):
        events.append(event(number, *(events[-1:] or parents), **rest))
    return events


class FormChecker:
    """Says what is wrong with an event that another node sent, where messages are objects."""

    def __init__(self) -> None:
        self._signatures = SignatureChecker(KEYS.verify, NETWORK)

    def __call__(self, signed: SignedEvent) -> str:
        if cid_of(signed.block) != signed.cid:
            return "wrong bytes"
        try:
            if decode(signed.block) != signed.record:
                return "wrong record"
        except RemoteError as error:
            return str(error)
        return "" if self._signatures.holds(signed) else "forged event"


class Peer:
    """A machine with its disk and what it did."""

    def __init__(self, net: "Net", me: int, config: StreamsConfig) -> None:
        self.me = me
        self.disk = MemoryStreams()
        self.repair = GapRepair(config, 1, me, self.disk, lambda topic: net.neighbours(me, topic))
        self.handed: list[SignedEvent] = []
        self.acknowledged: dict[bytes, int] = {}
        self.blamed: Counter[tuple[int, str]] = Counter()
        self.counts: Counter[str] = Counter()
        self.keeps: list[int] = []
        """How many events each Keep had."""

    def order(self, topic: str = TOPIC) -> list[bytes]:
        return [keeping.signed.cid for keeping in self.disk.in_order(topic, (0, b""), 1 << 30)]


class Net:
    """Peers that all are neighbours of each other, unless ``links`` says otherwise. Where the streams begin
    that they follow from the start is settled."""

    def __init__(
        self,
        peers: int,
        config: StreamsConfig = CONFIG,
        follow: Iterable[Follow] = (Follow(TOPIC),),
        links: Callable[[int], Sequence[int]] | None = None,
    ) -> None:
        self.now = 0
        self.wire: Callable[[int, int, Any], bool] = lambda sender, to, message: True
        """(sender, receiver, message) -> whether it arrives."""
        self.sent: list[tuple[int, int, Any]] = []
        self.provided: dict[str, list[int]] = {}
        """Topic → who said that it has its stream."""
        self.looked_up: list[tuple[int, str]] = []
        """Who asked for that."""
        self.finds = True
        """Whether it is told."""
        self.commits = True
        """Whether what is kept is safe at once."""
        self.links = links or (lambda me: [peer for peer in range(peers) if peer != me])
        self._heap: list[tuple[int, int, int, Any]] = []
        self._order = 0
        self.peers = [Peer(self, me, config) for me in range(peers)]
        for peer in self.peers:
            self.tell(peer.me, Start())
            for one in follow:
                self.tell(peer.me, one)
                peer.repair.topics[one.topic].opened = True

    def neighbours(self, me: int, topic: str) -> Sequence[int]:
        return self.links(me)

    def __getitem__(self, me: int) -> Peer:
        return self.peers[me]

    def tell(self, me: int, event: Any) -> list[StreamEffect]:
        return self.apply(me, self[me].repair.handle(event, self.now))

    def take(self, me: int, signed: SignedEvent, sender: int = 1, ack: bool = False) -> list[StreamEffect]:
        return self.apply(me, self[me].repair.take(signed, sender, self.now, ack))

    def publish(self, me: int, signed: SignedEvent) -> list[StreamEffect]:
        return self.apply(me, self[me].repair.publish(signed, self.now))

    def give(self, me: int, events: Iterable[SignedEvent]) -> None:
        """Events that a peer has, however it got them."""
        for signed in events:
            self.take(me, signed, me)

    def apply(self, me: int, effects: list[StreamEffect]) -> list[StreamEffect]:
        peer = self[me]
        for effect in effects:
            match effect:
                case Keep(events):
                    peer.disk.keep(events, self.now)
                    peer.keeps.append(len(events))
                    if self.commits:
                        self.apply(me, peer.repair.handle(Kept(peer.disk.commit()), self.now))
                case SetFloor(topic, floor):
                    peer.disk.set_floor(topic, floor)
                case Send(to, message):
                    self.sent.append((me, to, message))
                    if self.wire(me, to, message):
                        self._push(self.now + 10_000, to, Received(me, message))
                case SetTimer(name, after):
                    self._push(self.now + after, me, TimerFired(name))
                case Hand(signed):
                    peer.handed.append(signed)
                case Acknowledged(cid, holders):
                    peer.acknowledged[cid] = holders
                case Blame(who, reason):
                    peer.blamed[who, reason] += 1
                case Count(name, by):
                    peer.counts[name] += by
                case Provide(topic):
                    self.provided.setdefault(topic, []).append(me)
                case FindProviders(topic):
                    self.looked_up.append((me, topic))
                    found = Providers(topic, tuple(self.provided.get(topic, ())))
                    if self.finds:
                        self._push(self.now + 10_000, me, found)
        return effects

    def later(self, me: int, event: Event) -> None:
        """Let something happen after the present call."""
        self._push(self.now, me, event)

    def _push(self, at: int, me: int, event: Event | Providers) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, me, event))

    def run(self, seconds: float) -> None:
        until = self.now + round(seconds * SECOND)
        while self._heap and self._heap[0][0] <= until:
            self.now, _, me, event = heapq.heappop(self._heap)
            self.tell(me, event)
        self.now = until

    def messages(self, kind: type[Any], sender: int | None = None) -> list[tuple[int, Any]]:
        """What was sent of a kind: (receiver, message)."""
        return [(to, m) for me, to, m in self.sent if isinstance(m, kind) and sender in (None, me)]


def kept(net: Net, me: int = 0) -> set[bytes]:
    return set(net[me].order())


def wanted(net: Net, me: int = 0) -> list[tuple[int, bytes]]:
    return [(to, cid) for to, message in net.messages(StreamWant, me) for cid in message.cids]
