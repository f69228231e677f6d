"""A node that takes part in the overlay and lies in everything that concerns streams.

It has a key of its own, so that it can sign what it likes: events whose parents never existed, events at
wrong heights. It forges the signatures of others, sends other bytes than it was asked for, lists and tells
what does not exist, sends what nobody asked for, and takes another's events under false names.
"""

import hashlib
from collections.abc import Callable

from vinecast.core.draws import below, purpose, stream
from vinecast.core.events import Effect, Event, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.log.batch_signature import SignedEvent, sign_events
from vinecast.core.log.blocks import CID_HEAD
from vinecast.core.log.event_record import EventRecord
from vinecast.core.log.memory import MemoryStreams
from vinecast.protocols.streams import (
    STREAM_MESSAGES,
    StreamAck,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamPush,
    StreamStatus,
    StreamWant,
)
from vinecast.systems.durable.machine import DurableEvent
from vinecast.systems.durable.simulated import (
    NETWORK,
    DurableNodes,
    SimulatedDurable,
    cheap_sign,
    public_key,
    topic_name,
)
from vinecast.systems.poldercast.machine import PolderCastEvent

TIMER = "hostile"
EVERY_US = 200_000
BURST = 4
"""Attacks at a time."""

_ATTACK = purpose("hostile.attack")


class HostileNode:
    """The machine: an honest node inside, whose streams it uses and whose stream messages never leave."""

    def __init__(self, nodes: DurableNodes, me: int) -> None:
        self.me = me
        self._nodes = nodes
        self._inside = SimulatedDurable(nodes, me, nodes.disks.setdefault(me, MemoryStreams()))
        self._count = 0

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        if isinstance(event, TimerFired) and event.name == TIMER:
            return [SetTimer(TIMER, EVERY_US), *(self._attack() for _ in range(BURST))]
        if isinstance(event, Received) and isinstance(event.message, StreamWant | StreamList):
            return self._answer(event.sender, event.message)
        effects = self._inside.handle(event, now_us)
        begin: list[Effect] = [SetTimer(TIMER, EVERY_US)] if isinstance(event, Start) else []
        return begin + [e for e in effects if not (isinstance(e, Send) and _is_honest(e.message))]

    def _draw(self, n: int) -> int:
        self._count += 1
        return below(stream(self._nodes.seed, _ATTACK, self._count, self.me), 0, n)

    def _attack(self) -> Effect:
        topics = self._nodes.profiles.topic_ids.size
        to = (self.me + 1 + self._draw(self._nodes.profiles.peers - 1)) % self._nodes.profiles.peers
        attacks: tuple[Callable[[int], object], ...] = (
            self._forged,
            self._without_parents,
            self._wrong_height,
            self._pushed,
            self._unasked,
            self._heads,
            self._renamed,
            self._acks,
        )
        message = attacks[self._draw(len(attacks))](self._draw(topics))
        return Send(to, message)  # type: ignore[arg-type]

    # What it makes.

    def _nobody(self) -> bytes:
        return CID_HEAD + hashlib.sha256(b"nobody %d %d" % (self.me, self._draw(1 << 30))).digest()

    def _sign_event(
        self, topic: int, parents: tuple[bytes, ...], height: int, key: bytes | None = None
    ) -> SignedEvent:
        own = public_key(self.me)
        payload = (1 << 40 | self._draw(1 << 30)).to_bytes(8, "big")
        record = EventRecord(
            topic_name(topic), key or own, self._draw(1 << 30), 0, payload, parents=parents, height=height
        )
        return sign_events(NETWORK, [record], cheap_sign(own))[0]

    def _known(self, topic: int) -> list[SignedEvent]:
        disk = self._inside.disk
        return [keeping.signed for keeping in disk.in_order(topic_name(topic), (0, b""), 64)]

    def _carried(self, topic: int, signed: SignedEvent) -> DurableEvent:
        number = int.from_bytes(signed.record.payload[:8], "big")
        return DurableEvent(PolderCastEvent(topic, number, 1), signed, bool(self._draw(2)))

    # What it sends.

    def _forged(self, topic: int) -> object:
        """In another's name."""
        victim = public_key((self.me + 1) % self._nodes.profiles.peers)
        return self._carried(topic, self._sign_event(topic, (), 1, victim))

    def _without_parents(self, topic: int) -> object:
        """Parents that never existed: a hash cannot be made to fit, so cycles cannot be made either."""
        height = 2 + self._draw(40)
        return self._carried(topic, self._sign_event(topic, (self._nobody(), self._nobody()), height))

    def _wrong_height(self, topic: int) -> object:
        known = self._known(topic)
        if not known:
            return self._without_parents(topic)
        parent = known[self._draw(len(known))]
        height = parent.record.height + 2 + self._draw(1 << 20)
        return self._carried(topic, self._sign_event(topic, (parent.cid,), height))

    def _pushed(self, topic: int) -> object:
        """A batch as a publisher would send it to a replica, of events that have no parents."""
        signed = [self._sign_event(topic, (self._nobody(),), 2 + self._draw(9)) for _ in range(4)]
        return StreamPush(topic_name(topic), tuple(signed))

    def _unasked(self, topic: int) -> object:
        return StreamEvents(topic_name(topic), (self._sign_event(topic, (self._nobody(),), 7),))

    def _heads(self, topic: int) -> object:
        """Heads that do not exist, sometimes far above, sometimes more than there can be."""
        heads = tuple(self._nobody() for _ in range(1 + self._draw(80)))
        return StreamHeads(
            (StreamStatus(topic_name(topic), heads, self._draw(1 << 20), self._draw(1 << 10), 0),), 1
        )

    def _renamed(self, topic: int) -> object:
        """A true event under another number and topic."""
        known = self._known(topic)
        if not known:
            return self._forged(topic)
        signed = known[self._draw(len(known))]
        other = signed._replace(cid=self._nobody())
        return DurableEvent(PolderCastEvent(topic, self._draw(1 << 30), 1), other, True)

    def _acks(self, topic: int) -> object:
        """It holds whatever it has seen, so it says."""
        return StreamAck(tuple(signed.cid for signed in self._known(topic)))

    def _answer(self, sender: int, asked: StreamWant | StreamList) -> list[Effect]:
        """Wrong bytes for what was asked, and lists of what does not exist."""
        if isinstance(asked, StreamList):
            cids = tuple(self._nobody() for _ in range(20))
            listed = StreamListed(asked.topic, (asked.height, asked.cid), cids, asked.height + 1)
            return [Send(sender, listed)]
        topic = self._nodes.number_of(asked.topic)
        if topic is None:
            return []
        lies = [self._sign_event(topic, (), 1)._replace(cid=cid) for cid in asked.cids[:4]]
        return [Send(sender, StreamEvents(asked.topic, tuple(lies)))]


def _is_honest(message: object) -> bool:
    """What an honest node would say about streams, as far as it would help anybody."""
    return isinstance(message, STREAM_MESSAGES) and not isinstance(
        message, StreamHeads | StreamWant | StreamList
    )
