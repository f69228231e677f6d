"""Anycast: a node finds some subscriber of a topic of which nobody near it knows anything (S1 §3).

A part of a system, not one itself. It is for those who publish on a topic that they do not subscribe to, and
for the first steps of those who join one. Nodes keep a few links, taken from Cyclon's view, over which they
tell what is near them (protocols/gravity). A search is a few directed walks (protocols/directed_walk): a node
that knows a subscriber sends a walk straight to it, any other where the filters draw it.

Whoever subscribes answers, back along the way that the walk came. So a search names nobody: there is no asker
that could be somebody else, and whoever searches without end is itself the one that is answered. Nodes on the
way remember for a few cycles whom a walk came from, and pass on so many a cycle. What comes back is a peer;
whether it subscribes, the asker sees in that peer's own profile.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.config import check, limited
from vinecast.core.draws import below, purpose, shuffled, stream, substream
from vinecast.core.events import Count, Effect, Event, PeerLost, Received, Send, Start, TimerFired
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.core.rule import word
from vinecast.protocols.directed_walk import NO_LEVEL, Walk, WalkConfig, Walker
from vinecast.protocols.gravity import (
    Gravity,
    GravityAsk,
    GravityConfig,
    GravityLeave,
    GravityRefuse,
    GravityUpdate,
)
from vinecast.protocols.gravity.machine import TIMER

FOUND = 16  # ours: peers that were found and are remembered
FOUND_CYCLES = 32  # ours: for so long; by then they are in other views, or were not wanted
TRIES = 2  # ours: times that walks of one search set out
REST_CYCLES, REST_CYCLES_MAX = 8, 512  # ours: after a search in vain, twice as long each time
LONELY_CYCLES = 2  # ours: before a subscriber without neighbours searches; gossip is mostly faster
SEARCHES = 1024  # ours: topics whose search is remembered
BEGUN_A_CYCLE = 4  # ours: searches that a node begins in a cycle of itself
PASSED_A_CYCLE, PASSED_FOR_ONE = 128, 32  # ours: walks that are passed on in a cycle, in all and for one peer
TRAIL_ANSWERS, TRAILS = 4, 1024  # ours: how many times an answer's time, and how many, walks are remembered
LINKED_A_CYCLE = 2  # ours: links that a node seeks in a cycle
WHOLES_MAX = 8  # ours: whole homes that may be told to newcomers at once; in the long run, one a cycle
NEWS_CYCLES = 10  # ours: from one telling of what has changed, out of turn, to the next
REFUSED_CYCLES = 64  # ours: for so long, whoever had no room is not asked again
RENEWED = 10  # ours: periods of gravity after which a link is exchanged for another

Peers = NDArray[np.int32]
Ages = NDArray[np.uint16]

_LINK = purpose("anycast.link")
_SEARCH = purpose("anycast.search")
_STEP = purpose("anycast.step")
_WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class AnycastConfig:
    """The filters, the links that they travel on, and the walks."""

    on: bool = False
    """Whether nodes keep filters and search at all. S0 has nothing of the kind."""
    gravity: GravityConfig = field(default_factory=lambda: GravityConfig(degree=10, crowded=0.5))
    """Ours: fewer neighbours than S1's, since views are known besides; and levels of which half the bits are
    set are not believed, so that nobody attracts one topic in ten by filling them."""
    walk: WalkConfig = field(default_factory=lambda: WalkConfig(ttl=24, branching=2, negatives=8))
    """Ours."""
    answer_s: float = limited(1.0, at_least=0.001, at_most=3600.0)
    """Seconds for an answer, before walks set out once more, or nobody is found (ours)."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def answer_us(self) -> int:
        """The same in microseconds."""
        return round(self.answer_s * SECOND_US)


@dataclass(frozen=True, slots=True)
class AnycastSeek:
    """A walk in search of a subscriber; ``item`` is the topic's id."""

    kind: ClassVar[str] = "anycast.seek"
    item: int
    walk: Walk


@dataclass(frozen=True, slots=True)
class AnycastFound:
    """The answer to a walk, on its way back: who subscribes."""

    kind: ClassVar[str] = "anycast.found"
    number: int
    """The walk's."""
    peer: int


ANYCAST_MESSAGES = (AnycastSeek, AnycastFound, GravityUpdate, GravityAsk, GravityRefuse, GravityLeave)
"""All that nodes say to each other here."""


@dataclass(slots=True)
class _Search:
    """A search for subscribers of one topic."""

    due: int
    """The cycle in which it begins, or may begin again."""
    tries: int = 0
    until_us: int = 0
    """When the time for an answer is over."""
    wait: int = REST_CYCLES
    rests: bool = False


@dataclass(slots=True)
class _Trail:
    """A walk that came by: from whom, to whom, and when; and what it looks for."""

    sender: int
    to: int
    at_us: int
    item: int


class Anycast:
    """Finds subscribers of a topic for one node. ``view()`` is Cyclon's; ``knows(item, avoided)`` gives a
    subscriber of a topic in any view of the node whose id is not among those, or NOBODY.

    peers, ages: [place], those who were found, and how many cycles ago.
    """

    def __init__(
        self,
        config: AnycastConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        view: Callable[[], Peers],
        knows: Callable[[int, set[int]], int],
        most: int = FOUND,
    ) -> None:
        """most: peers that are remembered at the most"""
        self.config = config
        self.seed = seed
        self.me = me
        self.profiles = profiles
        self.gravity = Gravity(config.gravity, me)
        self.peers: Peers = np.full(min(FOUND, most), NOBODY, dtype=np.int32)
        self.ages: Ages = np.zeros(self.peers.size, dtype=np.uint16)
        self._view, self._knows = view, knows
        self._walker = Walker(config.walk, config.gravity.hashes, seed, me, int(profiles.ids[me]))
        self._cycle = self._periods = self._begun = self._news_due = 0
        self._searches: OrderedDict[int, _Search] = OrderedDict()
        self._trails: OrderedDict[int, _Trail] = OrderedDict()
        self._passed: Counter[int] = Counter()
        self._wholes = WHOLES_MAX
        """Whole homes that may be told now, out of turn."""
        self._admitted: set[int] = set()
        """Neighbours that came by themselves."""
        self._refused: dict[int, int] = {}
        """Who had no room → in which cycle."""
        self.renew_items()

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, AnycastSeek() as seek):
                return self._pass_on(sender, seek, now_us)
            case Received(sender, AnycastFound() as found):
                return self._hear(sender, found)
            case Received(sender, GravityUpdate()):
                return self._hear_home(sender, event, now_us)
            case Received(sender, GravityAsk()):
                return self._tell(sender) or [Count("gravity.told enough")]
            case Received(sender, GravityRefuse()) if sender in self.gravity.links:
                self._refused[sender] = self._cycle
            case TimerFired(name) if name == TIMER:
                return self._renew_link() + self.gravity.handle(event, now_us)
            case PeerLost(peer):
                self.peers[self.peers == peer] = NOBODY
            case Start():
                self._trails.clear()
        return self.gravity.handle(event, now_us)

    def renew_items(self) -> None:
        """Level 0 of the node's home is what it subscribes to now, and itself."""
        own = self.profiles.topic_ids[self.profiles.topics_of(self.me)]
        self.gravity.items = np.append(own, self.profiles.ids[self.me]).astype(np.uint64)
        self._own = set(own.tolist())
        self._has_news = True

    def in_use(self) -> set[int]:
        """Peers whose numbers must stay theirs."""
        return (set(self.gravity.links) | set(self.peers.tolist())) - {NOBODY}

    # Cycles and links.

    def begin_cycle(self, lonely: Iterable[int], now_us: int) -> list[Effect]:
        """Once a cycle. lonely: ids of own topics of which no other subscriber is known"""
        self._cycle += 1
        self._passed.clear()
        self._wholes = min(self._wholes + 1, WHOLES_MAX)
        self._grow_older()
        oldest_us = now_us - TRAIL_ANSWERS * self.config.answer_us
        while self._trails and next(iter(self._trails.values())).at_us < oldest_us:
            self._trails.popitem(last=False)
        effects = self._tell_news(now_us) + self._seek_links(now_us)
        return effects + self._go_on_searching(set(lonely), now_us)

    def _tell_news(self, now_us: int) -> list[Effect]:
        """Tell the neighbours what this node has come to subscribe to before gravity's turn."""
        if not self._has_news or not self.gravity.version or self._cycle < self._news_due:
            return []
        self._has_news, self._news_due = False, self._cycle + NEWS_CYCLES
        return self.gravity.tell_all(now_us)

    def _tell(self, peer: int) -> list[Effect]:
        """Tell a neighbour all of the home, unless that was done too often lately."""
        told = self.gravity.tell(peer) if self._wholes else []
        self._wholes -= len(told)
        return told

    def _grow_older(self) -> None:
        self.ages += np.uint16(1)
        self.peers[self.ages > FOUND_CYCLES] = NOBODY
        self.ages[self.peers == NOBODY] = 0

    def _seek_links(self, now_us: int) -> list[Effect]:
        """Take some neighbours from Cyclon's view, but leave room for those who come by themselves."""
        degree, links, view = self.config.gravity.degree, self.gravity.links, self._view()
        self._admitted.intersection_update(links)
        since = self._cycle - REFUSED_CYCLES
        self._refused = {peer: cycle for peer, cycle in self._refused.items() if cycle > since}
        lacking = min(degree - degree // 4 - len(links), LINKED_A_CYCLE)
        effects: list[Effect] = []
        for peer in view[shuffled(stream(self.seed, _LINK, self._cycle, self.me), view.size)].tolist():
            if lacking <= 0 or not self._wholes:
                break
            if peer not in self._refused and self.gravity.link(peer, now_us):
                effects += self._tell(peer)
                lacking -= 1
        return effects

    def _renew_link(self) -> list[Effect]:
        """Now and then give a link up: parts of the network that know only each other are joined again."""
        self._periods += 1
        links = self.gravity.links
        if self._periods % RENEWED or not links:
            return []
        given_up = links[below(stream(self.seed, _LINK, self._cycle, self.me), len(links), len(links))]
        self.gravity.drop(given_up)
        return [Send(given_up, GravityLeave())]

    def _hear_home(self, sender: int, event: Received, now_us: int) -> list[Effect]:
        """A peer's home. Whoever is new is told ours, at once if possible; half of the places are for those
        whom this node chose itself."""
        if sender in self.gravity.links:
            return self.gravity.handle(event, now_us)
        if len(self._admitted) >= self.config.gravity.degree // 2:
            return [Count("gravity.no room"), Send(sender, GravityRefuse())]
        effects = self.gravity.handle(event, now_us)
        if sender in self.gravity.links:
            self._admitted.add(sender)
            effects += self._tell(sender)
        return effects

    # Searches.

    def is_searching(self, item: int, now_us: int) -> bool:
        """Whether the first walks for a topic may still be answered."""
        search = self._searches.get(item)
        return search is not None and search.tries == 1 and now_us < search.until_us

    def search(self, item: int, now_us: int) -> list[Effect]:
        """Look for a subscriber of a topic, unless that was done in vain not long ago."""
        if not self._view().size:
            return []
        search = self._searches.get(item) or self._remember(item, self._cycle)
        if search.tries and (not search.rests or search.due > self._cycle):
            return []
        return self._set_out(item, search, now_us)

    def _remember(self, item: int, due: int) -> _Search:
        search = self._searches[item] = _Search(due)
        if len(self._searches) > SEARCHES:
            self._searches.popitem(last=False)
        return search

    def _go_on_searching(self, lonely: set[int], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        begun = 0
        for item in (self._own & self._searches.keys()) - lonely:
            del self._searches[item]  # somebody is known by now
        room = SEARCHES // 2 - len(lonely & self._searches.keys())
        for item in sorted(lonely - self._searches.keys())[: max(room, 0)]:
            self._remember(item, self._cycle + LONELY_CYCLES)
        for item, search in list(self._searches.items()):
            if search.rests or not search.tries:
                if item in lonely and search.due <= self._cycle and begun < BEGUN_A_CYCLE:
                    begun += 1
                    effects += self._set_out(item, search, now_us)
            elif now_us < search.until_us:
                continue
            elif search.tries < TRIES:
                effects += self._set_out(item, search, now_us)
            else:
                search.rests = True
                search.due, search.wait = self._cycle + search.wait, min(2 * search.wait, REST_CYCLES_MAX)
                effects.append(Count("anycast.found nobody"))
        return effects

    def _set_out(self, item: int, search: _Search, now_us: int) -> list[Effect]:
        """Let walks set out: the first where this node's own knowledge draws it, others in any direction, so
        that no one peer can swallow all of them."""
        if search.rests:
            search.tries, search.rests = 0, False
        search.tries += 1
        search.until_us = now_us + self.config.answer_us
        self._begun += 1
        key = substream(stream(self.seed, _SEARCH, self._begun, self.me), word(item))
        effects: list[Effect] = []
        for to, walk in self._walker.begin(int(key), self._view(), b""):
            if item not in self._own:
                walk = replace(walk, negative=b"")  # this node draws nothing that it could mistake for others
            drawn = None if effects else self._next(item, walk)
            effects += self._send_on(item, self.me, *(drawn or (to, walk)), now_us)
        return effects

    # Walks.

    def _next(self, item: int, walk: Walk) -> tuple[int, Walk] | None:
        """Where a walk goes from here: to a subscriber in this node's views, or where the filters draw it."""
        ttl = min(walk.ttl, self.config.walk.ttl) - 1
        if ttl <= 0:
            return None
        known = self._knows(item, self._walker.avoided(walk))
        if known != NOBODY:
            return known, replace(walk, ttl=ttl, level=0)
        onward = self._walker.go_on(walk, item, self.gravity.homes, self.gravity.neighbours)
        if onward is not None:
            return onward[:2]
        view = self._view()  # no neighbours yet
        if not view.size:
            return None
        key = stream(self.seed, _STEP, walk.number & _WORD, self.me)
        return int(view[below(key, ttl, view.size)]), replace(walk, ttl=ttl, level=NO_LEVEL)

    def _send_on(self, item: int, sender: int, to: int, walk: Walk, now_us: int) -> list[Effect]:
        """Send a walk on its way, and remember whom it came from, the first time that it came."""
        trail = self._trails.get(walk.number)
        if trail is None:
            self._trails[walk.number] = _Trail(sender, to, now_us, item)
            if len(self._trails) > TRAILS:
                self._trails.popitem(last=False)
        else:
            trail.to = to
        return [Send(to, AnycastSeek(item, walk))]

    def _pass_on(self, sender: int, seek: AnycastSeek, now_us: int) -> list[Effect]:
        item, walk = seek.item, seek.walk
        if self._passed[sender] >= PASSED_FOR_ONE or self._passed.total() >= PASSED_A_CYCLE:
            return [Count("anycast.too many walks")]
        self._passed[sender] += 1
        if item in self._own and not self._walker.is_avoided(walk):
            return [Send(sender, AnycastFound(walk.number, self.me)), Count("anycast.answered")]
        onward = self._next(item, walk)
        if onward is None:
            return [Count("anycast.expired")]
        return [*self._send_on(item, sender, *onward, now_us), Count("anycast.passed on")]

    def _hear(self, sender: int, found: AnycastFound) -> list[Effect]:
        """An answer: for this node, or on its way to another."""
        trail = self._trails.get(found.number)
        if trail is None or trail.to != sender:
            return [Count("anycast.unasked answer")]
        del self._trails[found.number]
        if trail.sender != self.me:
            return [Send(trail.sender, found)]
        subscribes = trail.item in self.profiles.topic_ids[self.profiles.topics_of(found.peer)].tolist()
        if found.peer == self.me or not subscribes:
            return [Count("anycast.false answer")]
        self._searches.pop(trail.item, None)
        place = int(np.argmax(self.peers == found.peer)) if found.peer in self.peers else self._free_place()
        self.peers[place], self.ages[place] = found.peer, 0
        return [Count("anycast.found")]

    def _free_place(self) -> int:
        free = np.flatnonzero(self.peers == NOBODY)
        return int(free[0]) if free.size else int(np.argmax(self.ages))
