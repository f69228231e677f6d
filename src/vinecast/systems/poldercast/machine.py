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
publishers to subscribe; this spares them that). With ``anycast`` it searches for one if it knows none, as
does a subscriber whose ring stays empty (systems/common/anycast).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.suspicion import SuspicionMemory
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, Scratch, begin_gathering, gather, gather_one
from vinecast.core.draws import SEED_MAX
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Deliver,
    Effect,
    Event,
    Observe,
    PeerFound,
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
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY, Machine
from vinecast.core.trace import TraceKind
from vinecast.protocols.cyclon import Cyclon
from vinecast.protocols.cyclon import machine as cyclon
from vinecast.protocols.gravity.machine import TIMER as GRAVITY_TIMER
from vinecast.protocols.ringcast import rules as ringcast
from vinecast.protocols.rings import Rings, RingsAnswer, RingsRequest
from vinecast.protocols.rings import machine as rings
from vinecast.protocols.rings.informed import disagrees
from vinecast.protocols.vicinity import Vicinity, VicinityAnswer, VicinityRequest
from vinecast.protocols.vicinity import machine as vicinity
from vinecast.systems.common.anycast import ANYCAST_MESSAGES, Anycast
from vinecast.systems.common.recent import RecentEvents
from vinecast.systems.poldercast.config import PolderCastConfig

Peers = NDArray[np.int32]

NO_PEERS: Peers = np.empty(0, dtype=np.int32)
ANYWHERE = "anywhere"
"""All views: where a publisher that does not subscribe looks for somebody who does."""


@dataclass(frozen=True, slots=True)
class PolderCastEvent:
    """An event on its way."""

    kind: ClassVar[str] = "poldercast.event"
    topic: int
    event: int
    hops: int


class _Route:
    """Whom the events of a topic go to: found once, and good until something changes in the views."""

    __slots__ = ("ring", "shortcuts", "until_us")

    def __init__(self, ring: Peers, until_us: int) -> None:
        self.ring = ring
        """Who carries the topic. [place]"""
        self.until_us = until_us
        self.shortcuts: dict[str, Peers] = {}
        """Which views → the subscribers in them, in order."""


class PolderCast:
    """The machine. ``profiles`` is the table of peers, ``scratch`` working memory that machines may share."""

    def __init__(
        self, config: PolderCastConfig, seed: int, me: int, profiles: Profiles, scratch: Scratch
    ) -> None:
        if profiles.cnt[me] > TOPICS_MAX:
            raise InputError(f"a node can subscribe to {TOPICS_MAX:,} topics at the most")
        self.config = config
        self.seed = seed
        self.me = me
        self.profiles = profiles
        self._scratch = scratch
        self._rows = {topic: row for row, topic in enumerate(profiles.topics_of(me).tolist())}
        self.recent = RecentEvents(config.remembered, config.remember_us, "poldercast")
        self._routes: dict[int, _Route] = {}
        self._routed_at = -1
        self._targets = np.empty(config.fanout + 2, dtype=np.int32)
        self._others = np.empty(config.vicinity.view_size + config.cyclon.view_size, dtype=np.int32)
        self._suspicion = SuspicionMemory()
        third = config.period_us // 3
        self.cyclon = Cyclon(config.cyclon, seed, me)
        host = Host(seed, me, scratch, self._suspicion, third, lambda peer: self.rings.forget(peer))
        self.vicinity = Vicinity(config.vicinity, host, profiles, self._beside_vicinity)
        host = replace(host, first_after_us=2 * third, on_suspect=self.vicinity.forget)
        self.rings = Rings(config.rings, host, profiles, self._beside_rings)
        self.anycast = None
        if config.anycast.on:
            self.anycast = Anycast(config.anycast, seed, me, profiles, self._sample, self._knows, config.most)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, PolderCastEvent() as message):
                return self._receive(sender, message, now_us)
            case Publish(topic, number):
                return self._publish(topic, number, now_us)
        self._routes.clear()
        match event:
            case Received(_, VicinityRequest() | VicinityAnswer()):
                return self.vicinity.handle(event, now_us) if self.config.with_vicinity else []
            case Received(_, RingsRequest() | RingsAnswer()):
                return self.rings.handle(event, now_us)
            case Received(_, said) if isinstance(said, ANYCAST_MESSAGES):
                return [] if self.anycast is None else self.anycast.handle(event, now_us)
            case Received() | PeerFound():
                return self.cyclon.handle(event, now_us)
            case TimerFired(name):
                return self._ring(name, event, now_us)
            case Subscribe(topic):
                return self._resubscribe(np.union1d(self._topics, [topic]))
            case Unsubscribe(topic):
                return self._resubscribe(np.setdiff1d(self._topics, [topic]))
            case PeerLost(peer):
                self._suspicion.note(peer)
                return self._tell_layers(event, now_us)
            case Start():
                self._suspicion.clear()  # who was silent before a restart may be back
                return self._tell_layers(event, now_us)
            case Stop():
                return self._tell_layers(event, now_us)

    def _tell_layers(self, event: Event, now_us: int) -> list[Effect]:
        return [effect for layer in self._layers for effect in layer.handle(event, now_us)]

    @property
    def _layers(self) -> tuple[Machine, ...]:
        near = (self.vicinity,) if self.config.with_vicinity else ()
        far = (self.anycast,) if self.anycast is not None else ()
        return (self.cyclon, *near, self.rings, *far)

    @property
    def _topics(self) -> Peers:
        topics: Peers = self.profiles.topics_of(self.me)
        return topics

    def _ring(self, name: str, event: Event, now_us: int) -> list[Effect]:
        match name:
            case cyclon.TIMER:
                self._suspicion.cycle += 1
                self.profiles.annotate(self.me, self.rings.coverage(), self.rings.gaps())
                return self.cyclon.handle(event, now_us) + self._search_for_lonely(now_us)
            case vicinity.TIMER:
                return self.vicinity.handle(event, now_us)
            case rings.TIMER:
                return self.rings.handle(event, now_us)
            case _ if name == GRAVITY_TIMER and self.anycast is not None:
                return self.anycast.handle(event, now_us)
        return []

    def peers_in_use(self) -> set[int]:
        """Everybody in a view, asked or remembered as silent: whose numbers must stay theirs."""
        arrays = (
            self.cyclon.peers,
            self.vicinity.peers,
            self.rings.peers.ravel(),
            self._suspicion.table.peers[0],
        )
        far = set[int]() if self.anycast is None else self.anycast.in_use()
        return (self.partners() | far | set(np.concatenate(arrays).tolist())) - {NOBODY}

    def partner_of(self, timer: str) -> int:
        """Whom the layer of a timer has asked and not heard from yet, or NOBODY."""
        match timer:
            case cyclon.TIMER:
                return self.cyclon.partner
            case vicinity.TIMER:
                return self.vicinity.partner
            case rings.TIMER:
                return self.rings.partner
        return NOBODY

    def partners(self) -> set[int]:
        """Whom its layers have asked."""
        return {self.cyclon.partner, self.vicinity.partner, self.rings.partner} - {NOBODY}

    def has_seen(self, event: int) -> bool:
        """Whether an event came by lately."""
        return event in self.recent

    def is_reachable(self, topic: int) -> bool:
        """Whether the nearest ring neighbours of a topic that it subscribes to take it for theirs too."""
        row = self._row(topic)
        if row is None:
            return False
        half, peers, table = self.config.rings.size // 2, self.rings.peers[row], self.profiles.table
        nearest = [(int(peers[side * half]), side) for side in range(2)]
        return all(
            peer != NOBODY and not disagrees(self.me, peer, side, topic, table) for peer, side in nearest
        )

    def subscribes(self, topic: int) -> bool:
        """Whether a topic is one of its own."""
        return topic in self._rows

    def is_alone(self, topic: int, now_us: int) -> bool:
        """Whether it knows nobody else who subscribes to a topic of its own."""
        row = self._row(topic)
        return row is not None and bool((self.rings.carriers(row, now_us) == NOBODY).all())

    def _beside_vicinity(self, count: int) -> int:
        count = self._beyond(
            self._suspicion.gather(self._scratch, count, self.cyclon.peers, self.cyclon.ages)
        )
        return gather(self._scratch, count, self.rings.peers.ravel(), self.rings.ages.ravel())

    def _beside_rings(self, count: int) -> int:
        count = gather(self._scratch, count, self.vicinity.peers, self.vicinity.ages)
        return self._beyond(self._suspicion.gather(self._scratch, count, self.cyclon.peers, self.cyclon.ages))

    def _beyond(self, count: int) -> int:
        """Add those whom searches found."""
        if self.anycast is None:
            return count
        return self._suspicion.gather(self._scratch, count, self.anycast.peers, self.anycast.ages)

    def _resubscribe(self, topics: Peers) -> list[Effect]:
        known = topics.size == 0 or (topics[0] >= 0 and topics[-1] < self.profiles.topic_ids.size)
        if not known or topics.size > min(TOPICS_MAX, self._scratch.near.shape[0]):
            return [Count("poldercast.refused subscription")]
        before = self._topics.copy()
        if np.array_equal(before, topics):
            return []
        self.rings.resubscribe(before, topics)
        self.profiles.set_topics(self.me, topics.astype(np.int32), self.rings.coverage())
        self._rows = {topic: row for row, topic in enumerate(topics.tolist())}
        if self.anycast is not None:
            self.anycast.renew_items()
        return []

    # Searches.

    def search(self, topic: int, now_us: int) -> list[Effect]:
        """Search for a subscriber of a topic, for whoever is about to publish on it and knows none."""
        if self.anycast is None or topic in self._rows or self._subscribers(topic, now_us).size:
            return []
        return self.anycast.search(int(self.profiles.topic_ids[topic]), now_us)

    def is_searching(self, topic: int, now_us: int) -> bool:
        """Whether a subscriber of a topic may be found in a moment."""
        item = int(self.profiles.topic_ids[topic])
        return self.anycast is not None and self.anycast.is_searching(item, now_us)

    def _search_for_lonely(self, now_us: int) -> list[Effect]:
        """Once a cycle: search for others on topics whose rings are empty."""
        if self.anycast is None:
            return []
        lonely = self._topics[(self.rings.peers == NOBODY).all(axis=1)]
        return self.anycast.begin_cycle(self.profiles.topic_ids[lonely].tolist(), now_us)

    def _sample(self) -> Peers:
        """Cyclon's view; while it is empty, whoever is being asked."""
        view = self.cyclon.view
        return view if view.size else np.array(sorted(self.partners()), dtype=np.int32)

    def _knows(self, item: int, avoided: set[int]) -> int:
        """A subscriber of a topic, given by its id, in any view; none of those to be avoided, or NOBODY."""
        for topic in np.flatnonzero(self.profiles.topic_ids == np.uint64(item)).tolist():
            count = self._beside_vicinity(self._beside_rings(begin_gathering(self._scratch)))
            for peer in self._list(topic, count).tolist():
                if int(self.profiles.ids[peer]) not in avoided:
                    return int(peer)
        return NOBODY

    # Dissemination.

    def _publish(self, topic: int, event: int, now_us: int) -> list[Effect]:
        published: Effect = Observe(TraceKind.PUBLISHED, topic, event)
        if not self.recent.take(event, now_us):
            return [published, *self.recent.turned_away(topic, event, NOBODY, 0)]
        row = self._row(topic)
        if row is not None:
            return [published, Deliver(topic, event, 0), *self._forward(row, topic, event, 0, NOBODY, now_us)]
        known = self._subscriber(topic, event, now_us)
        if known == NOBODY:
            dropped = Observe(TraceKind.DROPPED, topic, event, reason="no subscriber known")
            return [published, dropped, *self.search(topic, now_us)]
        return [published, Send(known, PolderCastEvent(topic, event, 0))]

    def _receive(self, sender: int, message: PolderCastEvent, now_us: int) -> list[Effect]:
        topic, event, hops = message.topic, message.event, message.hops
        if event in self.recent:
            return [Observe(TraceKind.RECEIVED_AGAIN, topic, event, sender, hops)]
        if not self.recent.take(event, now_us):
            return self.recent.turned_away(topic, event, sender, hops)
        seen: Effect = Observe(TraceKind.RECEIVED_FIRST, topic, event, sender, hops)
        row = self._row(topic)
        if row is None:
            return [seen, Count("poldercast.not subscribed")]
        return [seen, Deliver(topic, event, hops), *self._forward(row, topic, event, hops, sender, now_us)]

    def _forward(self, row: int, topic: int, event: int, hops: int, sender: int, now_us: int) -> list[Effect]:
        route = self._route(topic, row, now_us)
        ring, targets = route.ring, self._targets
        lower, higher = int(ring[0]), int(ring[ring.size // 2])
        count = ringcast.choose_ring(lower, higher, sender, targets)
        wanted = ringcast.shortcuts_wanted(lower, higher, sender, self.config.fanout)
        if wanted:
            found = self._shortcuts(route, topic, self._views(event))
            if found.size:
                kept = ringcast.leave_out(found, lower, higher, sender, self._others)
                count = ringcast.pick_shortcuts(
                    self.seed, event & SEED_MAX, self.me, self._others, kept, wanted, targets, count
                )
        message = PolderCastEvent(topic, event, hops + 1)
        chosen = targets[:count].tolist()
        if not self.config.stand_by:
            return [Send(peer, message) for peer in chosen]
        return [Send(peer, message, ringcast.stand_by(ring, peer, sender)) for peer in chosen]

    def _route(self, topic: int, row: int | None, now_us: int) -> _Route:
        """The route of a topic, found anew when anybody's topics have changed or somebody is no longer
        waited for. row: its own of the topic, if it subscribes"""
        if self._routed_at != self.profiles.changes:
            self._routed_at = self.profiles.changes
            self._routes.clear()
        route = self._routes.get(topic)
        if route is None or now_us >= route.until_us:
            ring = NO_PEERS if row is None else self.rings.carriers(row, now_us).copy()
            route = self._routes[topic] = _Route(ring, self.rings.carriers_until(now_us))
        return route

    def _shortcuts(self, route: _Route, topic: int, views: str) -> Peers:
        """The subscribers of a topic in these views, in order."""
        found = route.shortcuts.get(views)
        if found is None:
            scratch, count = self._scratch, begin_gathering(self._scratch)
            if views != "cyclon":
                count = gather(scratch, count, self.vicinity.peers, self.vicinity.ages)
            if views != "vicinity":
                count = gather(scratch, count, self.cyclon.peers, self.cyclon.ages)
            found = route.shortcuts[views] = self._list(topic, count)
        return found

    def _views(self, event: int) -> str:
        """Where an event's shortcuts are taken from: the coin is thrown where they are mixed."""
        if self.config.shortcuts != "mixed":
            return self.config.shortcuts
        return "vicinity" if ringcast.takes_near(self.seed, event & SEED_MAX, self.me) else "cyclon"

    def _subscribers(self, topic: int, now_us: int) -> Peers:
        """The subscribers of a topic that are in any view, or else those that were asked and have not
        answered yet."""
        route = self._route(topic, None, now_us)
        known = route.shortcuts.get(ANYWHERE)
        if known is None:
            known = self._list(
                topic, self._beside_vicinity(self._beside_rings(begin_gathering(self._scratch)))
            )
            if not known.size:
                known = self._list(topic, self._asked())
            if known.size:
                route.shortcuts[ANYWHERE] = known
        return known

    def _subscriber(self, topic: int, event: int, now_us: int) -> int:
        """Any of them."""
        targets, word = self._targets, event & SEED_MAX
        left = self._subscribers(topic, now_us).copy()
        if ringcast.pick_shortcuts(self.seed, word, self.me, left, left.size, 1, targets, 0) == 0:
            return NOBODY
        return int(targets[0])

    def _asked(self) -> int:
        """Those who were asked, as the scratch's candidates."""
        found = begin_gathering(self._scratch)
        for partner in (self.rings.partner, self.vicinity.partner, self.cyclon.partner):
            if partner != NOBODY:
                found = gather_one(self._scratch, found, partner, 0)
        return found

    def _list(self, topic: int, count: int) -> Peers:
        """The subscribers of a topic among the scratch's candidates, in order."""
        kept = ringcast.list_subscribers(topic, self.me, count, self.profiles.table, self._scratch)
        found: Peers = self._scratch.peers[:kept].copy()
        return found

    def _row(self, topic: int) -> int | None:
        """Where a topic stands among the node's own, if it is one of them."""
        return self._rows.get(topic)
