"""PolderCast (S0): three gossip layers on every node, and dissemination over what they build.

    Rings      per topic, the subscribers just before and after on the circle     (who carries events)
    Vicinity   the peers that share most, most of all where rings lack neighbours (who feeds Rings)
    Cyclon     uniformly random peers                                             (who keeps all connected)

Each layer has its own view, timer and messages; each may look at the views of all (S0 §5, Fig. 3). A node
refreshes what its profile says about its topics once a cycle, when Cyclon's timer fires; the other two follow
a third and two thirds of a period later. An event travels along the topic's ring and a few shortcuts, and
only subscribers carry it (S0 §4.2).

Silence is known to the whole node: a partner that does not answer one layer leaves the other's view too. S0
§5.4 speaks of each layer's own view; taken literally, Vicinity and Rings hand a dead peer back to each other
for ever, since each looks through the other's view.

A node that publishes without subscribing hands its event to a subscriber that it knows (S0 §4.1 asks
publishers to subscribe; this spares them that).
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from vinecast.core.config import check, limited
from vinecast.core.draws import SEED_MAX
from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Event,
    Observe,
    PeerLost,
    Publish,
    Received,
    Send,
    Start,
    Stop,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from vinecast.core.interest import TOPICS_MAX, Scratch, begin_gathering, gather
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles
from vinecast.core.trace import TraceKind
from vinecast.protocols.cyclon import Cyclon, CyclonConfig
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.ringcast import rules as ringcast
from vinecast.protocols.rings import Rings, RingsAnswer, RingsConfig, RingsRequest
from vinecast.protocols.rings import machine as rings
from vinecast.protocols.vicinity import Vicinity, VicinityAnswer, VicinityConfig, VicinityRequest
from vinecast.protocols.vicinity import machine as vicinity

SHORTCUTS = ("both", "cyclon", "vicinity")


@dataclass(frozen=True, slots=True)
class PolderCastConfig:
    """The three layers, and how events are forwarded."""

    fanout: int = limited(2, at_least=1, at_most=64)
    """How often an event is forwarded on first receipt (S0 §4.2: f)."""
    shortcuts: str = limited("both", one_of=SHORTCUTS)
    """Which views random subscribers are taken from (S0 §6.4)."""
    with_vicinity: bool = True
    """Whether there is a Vicinity layer at all (S0 §6.2 measures what happens without)."""
    remembered: int = limited(4096, at_least=1, at_most=10_000_000)
    """Events that a node remembers having seen, the latest ones."""
    cyclon: CyclonConfig = field(default_factory=CyclonConfig)
    vicinity: VicinityConfig = field(default_factory=VicinityConfig)
    rings: RingsConfig = field(default_factory=RingsConfig)

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """The length of a cycle: Cyclon's period."""
        return self.cyclon.period_us

    @property
    def most(self) -> int:
        """The longest list that any layer ever chooses."""
        sizes = (self.cyclon.view_size, self.vicinity.view_size, self.rings.gossip_size, self.fanout)
        return max(*sizes, self.cyclon.gossip_size, self.vicinity.gossip_size)


@dataclass(frozen=True, slots=True)
class PolderCastEvent:
    """An event on its way."""

    kind: ClassVar[str] = "poldercast.event"
    topic: int
    event: int
    hops: int


class PolderCast:
    """The machine. ``profiles`` is the table of peers, ``scratch`` working memory that machines may share."""

    def __init__(
        self, config: PolderCastConfig, seed: int, me: int, profiles: Profiles, scratch: Scratch
    ) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.profiles = profiles
        self._scratch = scratch
        self._seen: OrderedDict[int, None] = OrderedDict()
        third = config.period_us // 3
        self.cyclon = Cyclon(config.cyclon, seed, me)
        self.vicinity = Vicinity(
            config.vicinity,
            seed,
            me,
            profiles,
            scratch,
            self._beside_vicinity,
            third,
            lambda peer: self.rings.forget(peer),
        )
        self.rings = Rings(
            config.rings, seed, me, profiles, scratch, self._beside_rings, 2 * third, self.vicinity.forget
        )

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """See ``Machine``."""
        match event:
            case Received(sender, PolderCastEvent() as message):
                return self._receive(sender, message)
            case Received(_, VicinityRequest() | VicinityAnswer()):
                return self.vicinity.handle(event, now_us) if self.config.with_vicinity else []
            case Received(_, RingsRequest() | RingsAnswer()):
                return self.rings.handle(event, now_us)
            case Received():
                return self.cyclon.handle(event, now_us)
            case TimerFired(name):
                return self._ring(name, event, now_us)
            case Publish(topic, number):
                return self._publish(topic, number)
            case Subscribe(topic):
                return self._resubscribe(np.union1d(self._topics, [topic]))
            case Unsubscribe(topic):
                return self._resubscribe(np.setdiff1d(self._topics, [topic]))
            case Start() | Stop() | PeerLost():
                return [effect for layer in self._layers for effect in layer.handle(event, now_us)]

    @property
    def _layers(self) -> tuple[Cyclon, Vicinity, Rings] | tuple[Cyclon, Rings]:
        if self.config.with_vicinity:
            return self.cyclon, self.vicinity, self.rings
        return self.cyclon, self.rings

    @property
    def _topics(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        topics: np.ndarray[tuple[int], np.dtype[np.int32]] = self.profiles.topics_of(self.me)
        return topics

    def _ring(self, name: str, event: Event, now_us: int) -> list[Effect]:
        match name:
            case cyclon.TIMER:
                self.profiles.annotate(self.me, self.rings.coverage(), self.rings.gaps())
                return self.cyclon.handle(event, now_us)
            case vicinity.TIMER:
                return self.vicinity.handle(event, now_us)
            case rings.TIMER:
                return self.rings.handle(event, now_us)
        return []

    def _beside_vicinity(self, count: int) -> int:
        count = gather(self._scratch, count, self.cyclon.peers, self.cyclon.ages)
        return gather(self._scratch, count, self.rings.peers.ravel(), self.rings.ages.ravel())

    def _beside_rings(self, count: int) -> int:
        count = gather(self._scratch, count, self.vicinity.peers, self.vicinity.ages)
        return gather(self._scratch, count, self.cyclon.peers, self.cyclon.ages)

    def _resubscribe(self, topics: np.ndarray[tuple[int], np.dtype[np.int32]]) -> list[Effect]:
        known = topics.size == 0 or (topics[0] >= 0 and topics[-1] < self.profiles.topic_ids.size)
        if not known or topics.size > min(TOPICS_MAX, self._scratch.near.shape[0]):
            return [Count("poldercast.refused subscription")]
        before = self._topics.copy()
        self.rings.resubscribe(before, topics)
        self.profiles.set_topics(self.me, topics.astype(np.int32), self.rings.coverage())
        return []

    # Dissemination.

    def _publish(self, topic: int, event: int) -> list[Effect]:
        published: Effect = Observe(TraceKind.PUBLISHED, topic, event)
        self._remember(event)
        if self._row(topic) is not None:
            return [published, Deliver(topic, event, 0), *self._forward(topic, event, 0, NOBODY)]
        known = self._subscriber(topic, event)
        if known == NOBODY:
            return [published, Observe(TraceKind.DROPPED, topic, event, reason="no subscriber known")]
        return [published, Send(known, PolderCastEvent(topic, event, 0))]

    def _receive(self, sender: int, message: PolderCastEvent) -> list[Effect]:
        topic, event, hops = message.topic, message.event, message.hops
        if event in self._seen:
            return [Observe(TraceKind.RECEIVED_AGAIN, topic, event, sender, hops)]
        seen: Effect = Observe(TraceKind.RECEIVED_FIRST, topic, event, sender, hops)
        self._remember(event)
        if self._row(topic) is None:
            return [seen, Count("poldercast.not subscribed")]
        return [seen, Deliver(topic, event, hops), *self._forward(topic, event, hops, sender)]

    def _forward(self, topic: int, event: int, hops: int, sender: int) -> list[Effect]:
        row = self._row(topic)
        half = self.config.rings.size // 2
        lower, higher = NOBODY, NOBODY
        if row is not None:
            lower, higher = int(self.rings.peers[row, 0]), int(self.rings.peers[row, half])
        shortcuts = self._shortcuts(topic, event, lower, higher)
        targets = np.empty(self.config.fanout + 2, dtype=np.int32)
        count = ringcast.choose_targets(lower, higher, sender, self.config.fanout, shortcuts, targets)
        message = PolderCastEvent(topic, event, hops + 1)
        return [Send(peer, message) for peer in targets[:count].tolist()]

    def _shortcuts(
        self, topic: int, event: int, lower: int, higher: int
    ) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        scratch = self._scratch
        count = begin_gathering(scratch)
        if self.config.shortcuts != "cyclon":
            count = gather(scratch, count, self.vicinity.peers, self.vicinity.ages)
        if self.config.shortcuts != "vicinity":
            count = gather(scratch, count, self.cyclon.peers, self.cyclon.ages)
        shortcuts = np.empty(self.config.fanout, dtype=np.int32)
        order = np.empty(self.config.fanout, dtype=np.uint64)
        ringcast.choose_shortcuts(
            self.seed,
            event & SEED_MAX,
            topic,
            self.me,
            lower,
            higher,
            count,
            self.profiles.table,
            scratch,
            shortcuts,
            order,
        )
        return shortcuts

    def _subscriber(self, topic: int, event: int) -> int:
        """Any subscriber of a topic that is in any view."""
        scratch = self._scratch
        count = self._beside_vicinity(self._beside_rings(begin_gathering(scratch)))
        chosen, order = np.empty(1, dtype=np.int32), np.empty(1, dtype=np.uint64)
        ringcast.choose_shortcuts(
            self.seed,
            event & SEED_MAX,
            topic,
            self.me,
            NOBODY,
            NOBODY,
            count,
            self.profiles.table,
            scratch,
            chosen,
            order,
        )
        return int(chosen[0])

    def _row(self, topic: int) -> int | None:
        """Where a topic stands among the node's own, if it is one of them."""
        topics = self._topics
        row = int(np.searchsorted(topics, topic))
        return row if row < topics.size and topics[row] == topic else None

    def _remember(self, event: int) -> None:
        self._seen[event] = None
        if len(self._seen) > self.config.remembered:
            self._seen.popitem(last=False)
