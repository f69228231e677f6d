"""Content systems on a table that T-Man builds: what Vinifera and Ferry* have in common (S2 §4.3, §4.4).

Filters are installed once a cycle along lookups (protocols/content_table). An event goes to the owner of its
place by every attribute, one copy each; whoever has a copy sends it to those who asked for a filter that
matches it. With ``on_the_way`` nodes on the way up do so too; without it, only once it has come to its owner.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.arrays.view import Ages, Peers
from vinecast.core.circle import between
from vinecast.core.config import check, limited
from vinecast.core.content.schemas import Event as Values
from vinecast.core.events import Count, Deliver, Effect, Event, Observe, PeerLost, Publish, Received, Send
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.content_table import ContentRequest, ContentTable, WantedRange
from vinecast.protocols.order_ring import next_hop, predecessor, shower
from vinecast.protocols.small_world import meet
from vinecast.systems.common.tman_base import TManBase, TManBaseConfig, Topics
from vinecast.systems.vinifera.catalogue import CIRCLE, Content, ContentShared

HOPS_MAX = 1 << 20  # ours: hops that a copy can say it took


@dataclass(frozen=True, slots=True)
class ContentConfig(TManBaseConfig):
    """How filters and events travel."""

    on_the_way: bool = True
    """Whether nodes match events that pass them on the way up (ours); S2 §4.4 speaks of those on the way
    down."""
    to_friends: bool = False
    """Whether who wants an event also sends it to the neighbours whose profiles say that they do (ours)."""
    kept: int = limited(3, at_least=2, at_most=100)
    """Cycles for which a request lasts that is not repeated (ours)."""
    requests: int = limited(1 << 20, at_least=1, at_most=1 << 24)
    """Requests that a node has room for (ours)."""

    def __post_init__(self) -> None:
        check(self)
        TManBaseConfig.__post_init__(self)


@dataclass(frozen=True, slots=True)
class ContentEvent:
    """A copy of an event on its way, to the owner of its value of an attribute or from there."""

    kind: ClassVar[str] = "content.event"
    topic: int
    """The number of its schema."""
    event: int
    hops: int
    values: Values
    attribute: int
    """By which it is routed, among those of its schema."""
    up: bool


class ContentSystem(TManBase):
    """The machine, but for the choice of neighbours, and where filters and events belong."""

    def __init__(
        self,
        name: str,
        config: ContentConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        scratch: Scratch,
        shared: ContentShared,
    ) -> None:
        self.shared = shared
        self.filters = shared.filters
        self.on_the_way, self.to_friends = config.on_the_way, config.to_friends
        """As configured; either may be changed while it runs."""
        self._table_size = config.tman.table_size
        self._before = NOBODY
        room = self._table_size + 2
        self._to = np.empty(room, dtype=np.int32)
        self._lows, self._highs = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        self.requests = ContentTable(
            self._parts, self.filters.wider, self._is_known, config.kept, config.requests
        )
        super().__init__(name, config, seed, me, profiles, scratch)

    # What a system decides.

    def _wanted(self, number: int) -> WantedRange:
        """What to ask for so that what a filter of one's own matches arrives."""
        raise NotImplementedError

    def _place(self, content: Content, attribute: int) -> int:
        """Where an event belongs by an attribute of its schema."""
        raise NotImplementedError

    def _own(self) -> None:
        """An event has come that it owns and does not want."""

    # What both do.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, ContentRequest() as request):
                return self.requests.hear(sender, request)
            case Received(sender, ContentEvent() as message):
                return self._hear(sender, message, now_us)
            case Publish(topic, number):
                return self._publish(topic, number, now_us)
            case PeerLost(peer):
                return self._lose(peer, event, now_us)
        return super().handle(event, now_us) + self._hand_over()

    def _lose(self, peer: int, event: PeerLost, now_us: int) -> list[Effect]:
        """What led through a neighbour that is gone is asked for at once, not with the next cycle (ours)."""
        was_linked = peer in self.neighbours()
        self.requests.forget(peer)
        effects = super().handle(event, now_us) + self._hand_over()
        return effects + (self.requests.ask_again(self._own_wanted()) if was_linked else [])

    @property
    def _near(self) -> tuple[Peers, NDArray[np.uint8]]:
        """Its table, as the rules of the ring take it."""
        return self.tman.peers, self.tman.missed

    def _hand_over(self) -> list[Effect]:
        """Ask a node that has come between it and its predecessor for what it was asked for (ours).

        That one owns some of its arc now, and events of it are sent there before requests are.
        """
        before = predecessor(self.me, *self._near, self.profiles.table)
        if before == self._before:
            return []
        last, self._before = self._before, before
        place = self.profiles.place
        if NOBODY in (last, before) or not between(int(place[before]), int(place[last]), int(place[self.me])):
            return []
        wanted = tuple(self._wanted_within((int(place[last]) + 1) % CIRCLE, int(place[before])))
        return [Send(before, ContentRequest(wanted))] if wanted else []

    def _wanted_within(self, low: int, high: int) -> list[WantedRange]:
        """What anybody, this node included, wants of an arc, which may wrap around."""
        arcs = [(low, high)] if low <= high else [(low, CIRCLE - 1), (0, high)]
        own = list(self._own_wanted())
        return [
            wanted
            for first, last in arcs
            for wanted in (
                *self.requests.within(first, last),
                *(w._replace(low=max(w.low, first), high=min(w.high, last)) for w in own),
            )
            if wanted.low <= wanted.high
        ]

    def _build(self) -> list[Effect]:
        self.requests.turn()
        return self.requests.ask(self._own_wanted())

    def _own_wanted(self) -> Iterator[WantedRange]:
        return (self._wanted(number) for number in self.profiles.topics_of(self.me).tolist())

    def _start(self) -> None:
        self.requests.clear()
        self._before = NOBODY

    def _change_topics(self, before: Topics, after: Topics) -> None:
        self.shared.describe(self.me)

    def _meet(self, who: int, peers: Peers, ages: Ages, met: Peers, met_ages: Ages) -> None:
        """The nearest on either side, for the ring."""
        meet(who, peers, ages, self.profiles.table, met, met_ages)

    def _parts(self, low: int, high: int) -> list[tuple[int, int, int]]:
        parts = self._to, self._lows, self._highs
        count = shower(self.me, low, high, *self._near, self.profiles.table, parts)
        if count == 1:  # as a rule
            return [(int(self._to[0]), int(self._lows[0]), int(self._highs[0]))]
        to, lows, highs = (column[:count].tolist() for column in parts)
        return list(zip(to, lows, highs, strict=True))

    def peers_in_use(self) -> set[int]:
        return (super().peers_in_use() | self.requests.peers() | {self._before}) - {NOBODY}

    def _is_known(self, wanted: WantedRange) -> bool:
        attribute, number, low, high = wanted
        if not 0 <= low <= high < CIRCLE:
            return False
        return attribute in [span.attribute for span in self.filters.spans(number)]

    # Events.

    def _publish(self, topic: int, number: int, now_us: int) -> list[Effect]:
        values = self.shared.contents.get(number)
        content = None if values is None else self.filters.content(topic, values)
        if values is None or content is None:
            return [Count(f"{self._name}.unknown events")]
        effects: list[Effect] = [Observe(TraceKind.PUBLISHED, topic, number)]
        for attribute in range(len(content.places)):
            copy = ContentEvent(topic, number, 0, values, attribute, True)
            effects += self._pass(NOBODY, copy, content, now_us)
        return effects

    def _hear(self, sender: int, message: ContentEvent, now_us: int) -> list[Effect]:
        content = self.filters.content(message.topic, message.values)
        if content is None or not 0 <= message.attribute < len(content.places):
            return [Count(f"{self._name}.unknown events")]
        if not 0 <= message.hops < HOPS_MAX:
            return [Count(f"{self._name}.too many hops")]
        return self._pass(sender, message, content, now_us)

    def _pass(self, sender: int, message: ContentEvent, content: Content, now_us: int) -> list[Effect]:
        """Deliver a copy, if it is wanted and the first, and send it where it should go."""
        wants = any(number in self._topics for number in content.matching)
        effects = self._take(sender, message, wants, now_us)
        place = self._place(content, message.attribute)
        owner = True
        if message.up:
            up = next_hop(self.me, place, *self._near, self.profiles.table)
            owner = up == NOBODY
            if not owner:
                effects += self._pass_up(up, message, now_us)
            elif not wants:
                self._own()
        if owner or self.on_the_way:
            effects += self._pass_down(sender, message, content, place, wants, owner, now_us)
        return effects

    def _pass_up(self, up: int, message: ContentEvent, now_us: int) -> list[Effect]:
        """Towards the owner, once: what comes back is going round in circles, while the ring is broken."""
        key = self._key(message.event, 1 + self.filters.attributes + message.attribute)
        if key in self.recent or not self.recent.take(key, now_us):
            reason = "going round" if key in self.recent else "memory full"
            return [
                Observe(TraceKind.DROPPED, message.topic, message.event, hops=message.hops, reason=reason)
            ]
        return [Send(up, self._copy(message, up=True))]

    def _pass_down(
        self,
        sender: int,
        message: ContentEvent,
        content: Content,
        place: int,
        wants: bool,
        owner: bool,
        now_us: int,
    ) -> list[Effect]:
        key = self._key(message.event, 1 + message.attribute)
        if key in self.recent:
            return []
        if not self.recent.take(key, now_us):
            return self.recent.turned_away(message.topic, message.event, sender, message.hops)
        attribute = content.attributes[message.attribute]
        to = self.requests.askers(attribute, content.matching, place)
        if self.to_friends and wants:
            known = set(to)
            to += [peer for peer in self._friends(content) if peer not in known]
        copy = self._copy(message, up=False)
        has_it = sender if not message.up or self.on_the_way else NOBODY
        if owner and message.up and not to and not wants:
            at = Observe(
                TraceKind.DROPPED, message.topic, message.event, sender, message.hops, "nobody asked"
            )
            return [at]
        return [Send(peer, copy) for peer in to if peer != has_it]

    def _friends(self, content: Content) -> list[int]:
        """The neighbours whose profiles say that they want an event."""
        topics_of = self.profiles.topics_of
        return [p for p in self.neighbours() if not content.matching.isdisjoint(topics_of(p).tolist())]

    def _take(self, sender: int, message: ContentEvent, wants: bool, now_us: int) -> list[Effect]:
        topic, event, hops = message.topic, message.event, message.hops
        key = self._key(message.event, 0)
        if key in self.recent:
            return [] if sender == NOBODY else [Observe(TraceKind.RECEIVED_AGAIN, topic, event, sender, hops)]
        if not self.recent.take(key, now_us):
            return self.recent.turned_away(topic, event, sender, hops)
        effects: list[Effect] = []
        if sender != NOBODY:
            effects.append(Observe(TraceKind.RECEIVED_FIRST, topic, event, sender, hops))
        if wants:
            effects.append(Deliver(topic, event, hops))
        return effects

    def has_seen(self, event: int) -> bool:
        return self._key(event, 0) in self.recent

    def _key(self, event: int, step: int) -> int:
        """What to remember of an event: 0 that it came; of all attributes, 1 + a that it was sent down by
        attribute a, and after those, that it was sent up."""
        return event * (2 * self.filters.attributes + 1) + step

    def _copy(self, message: ContentEvent, up: bool) -> ContentEvent:
        return ContentEvent(
            message.topic, message.event, message.hops + 1, message.values, message.attribute, up
        )
