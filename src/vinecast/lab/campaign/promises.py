"""The promises, and what is to be said of a run by them.

D1 … D13 are those of durable streams (docs/campaign.md). Besides: V, of events outside of streams; L, that
what was asked for is answered; R, that nothing a peer is handed makes it raise; S, that nobody shuns who
plays fair. A promise that is broken is a ``BrokenPromise``: which, in what way (a *kind*, in words that stay
the same), and where.

What an open reader is *due* in the end: from the earliest on, all that any honest node that is there keeps of
its topic and an honest application published; from now on, what was published since it was ready, of that;
after an event, what is not of its past.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import cid_text
from vinecast.core.log.stream_buffer import place_of
from vinecast.lab.campaign.history import History, Opening, PublishedEvent, fits
from vinecast.lab.campaign.payloads import is_wanted
from vinecast.lab.campaign.plan import SCHEMA_TOPIC, Plan, ReadStep
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld

FAULTS_MAX = 20
"""Faults of one kind that are told; more are only counted."""
HEIGHT_MAX = 100_000
"""No stream of a run comes so high without a lie (ours)."""
ANSWER_S = 45.0
"""Within this time a publisher is answered (ours): probing, waiting for room, waiting for the receipt."""
READY_S = 75.0
"""Within this time a reader is ready (ours): a node counts as alone after 60 cycles."""


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A promise that was broken."""

    promise: str
    kind: str
    text: str
    node: int = -1
    """At which node, where it is one's."""
    topic: str = ""
    """On which topic, where it is one's."""
    reader: int = -1
    """Which reader of the plan lacks something, or got what it should not."""

    @property
    def name(self) -> str:
        """The promise, and in what way it was broken."""
        return f"{self.promise}: {self.kind}"


@dataclass(slots=True)
class Judgement:
    """What is to be said of a run."""

    faults: list[BrokenPromise] = field(default_factory=list)
    """Those of every name, node, topic and reader; of those alike the first that are told."""
    counts: Counter[str] = field(default_factory=Counter)
    """Faults by name."""
    figures: dict[str, int] = field(default_factory=dict)
    """How much there was of everything."""
    _places: set[tuple[str, int, str, int]] = field(default_factory=set)

    def note(
        self,
        promise: str,
        kind: str,
        text: str,
        node: int = -1,
        topic: str = "",
        read: ReadStep | None = None,
    ) -> None:
        """One more fault. ``read``: the reader that it is about, and its node."""
        if read is not None:
            node, topic = read.node, topic or read.topic
        fault = BrokenPromise(promise, kind, text, node, topic, -1 if read is None else read.reader)
        self.counts[fault.name] += 1
        place = (fault.name, fault.node, fault.topic, fault.reader)
        if place not in self._places or self.counts[fault.name] <= FAULTS_MAX:
            self._places.add(place)
            self.faults.append(fault)


class Truth:
    """How things stand in a run at one moment."""

    def __init__(self, plan: Plan, history: History, world: PeerWorld) -> None:
        self.plan, self.history, self.world = plan, history, world

    @cached_property
    def there(self) -> list[SimulatedNode]:
        """Honest nodes that are up."""
        return [self.world.nodes[number] for number in self.plan.honest if self.world.nodes[number].is_up]

    @cached_property
    def kept(self) -> dict[str, dict[bytes, SignedEvent]]:
        """Topic → what any of them keeps of it, and can read."""
        found: dict[str, dict[bytes, SignedEvent]] = {}
        for node in self.there:
            for signed in node.disk.readable():
                found.setdefault(signed.record.topic, {})[signed.cid] = signed
        return found

    @cached_property
    def event_of(self) -> dict[bytes, PublishedEvent]:
        """Content id → the event that an honest application published."""
        return {event.cid: event for event in self.history.by_payload.values() if event.cid}

    @cached_property
    def heights(self) -> dict[bytes, int]:
        """Content id → height of the events that somebody keeps or was handed."""
        kept = {cid: signed.record.height for one in self.kept.values() for cid, signed in one.items()}
        handed = (signed for opening in self.history.openings for _, signed, _ in opening.handed)
        return {signed.cid: signed.record.height for signed in handed} | kept

    @cached_property
    def highest(self) -> dict[str, int]:
        """Topic → the greatest height of these."""
        handed = (signed for opening in self.history.openings for _, signed, _ in opening.handed)
        found: dict[str, int] = {}
        for signed in (*handed, *(signed for kept in self.kept.values() for signed in kept.values())):
            topic, height = signed.record.topic, signed.record.height
            found[topic] = max(found.get(topic, 0), height)
        return found

    def topics_of(self, cids: Iterable[bytes]) -> set[str]:
        """The topics of these events, as far as they are known."""
        return {self.event_of[cid].topic for cid in cids if cid in self.event_of}

    def looks_back(self, node: int, topic: str) -> bool:
        """Whether somebody read a topic on a node from earlier on than the node had it; patterns take topics
        up when they hear of them."""
        back = (one for one in self.history.openings if one.read.node == node and one.read.start != "now")
        return any((one.was_here or one.read.topic != topic) and fits(one.read.topic, topic) for one in back)

    def newest_acknowledged(self) -> dict[str, list[PublishedEvent]]:
        """Topic → of the newest events of honest publishers, as many as are kept, the acknowledged ones."""
        by_topic: dict[str, list[PublishedEvent]] = {}
        for cid in sorted(self.heights.keys() & self.event_of.keys(), key=lambda c: (self.heights[c], c)):
            by_topic.setdefault(self.event_of[cid].topic, []).append(self.event_of[cid])
        most = self.plan.kept_events
        return {
            topic: [event for event in events[-most:] if event.is_acknowledged]
            for topic, events in by_topic.items()
        }

    def was_held(self, event: PublishedEvent) -> bool:
        """Whether a node that is there had an event on its disk, synced and undamaged."""
        disks = (node.disk for node in self.there if not node.setup.disk.is_memory)
        return any(event.cid in disk.synced and event.cid not in disk.damaged for disk in disks)

    def signed(self, cid: bytes) -> SignedEvent:
        """One of these."""
        return next(kept[cid] for kept in self.kept.values() if cid in kept)

    def past(self, topic: str, cid: bytes) -> set[bytes]:
        """An event and all that it follows, as far as that is kept."""
        kept, past, left = self.kept.get(topic, {}), set[bytes](), [cid]
        while left:
            one = left.pop()
            if one not in past:
                past.add(one)
                left += kept[one].record.parents if one in kept else ()
        return past

    # What is due to readers.

    def openings(self) -> list[Opening]:
        """Readers that are open, of nodes that are there."""
        up = {node.number: node.lives for node in self.there}
        return [one for one in self.history.openings if one.is_open and up.get(one.read.node) == one.life]

    def is_routed(self, opening: Opening) -> bool:
        """Whether events come to a reader by their content, and it follows no stream."""
        read = opening.read
        by_content = self.plan.system == "vinifera" and read.topic == SCHEMA_TOPIC
        return by_content and read.start == "now" and not read.consumer

    def due(self, opening: Opening) -> set[bytes]:
        """What a reader must have been handed."""
        if self.is_routed(opening):
            return set()
        found: set[bytes] = set()
        for topic, kept in self.kept.items():
            if fits(opening.read.topic, topic):
                found |= self._due_of(opening, topic, kept)
        return found - self._done(opening)

    def _due_of(self, opening: Opening, topic: str, kept: dict[bytes, SignedEvent]) -> set[bytes]:
        genuine = self.event_of  # a liar publishes as long as it likes: nobody can have all of that
        events: Iterable[SignedEvent] = [signed for cid, signed in kept.items() if cid in genuine]
        if self.plan.kept_events:  # what retention takes anywhere, or may take, is due to nobody
            newest = sorted(kept.values(), key=place_of)[-self.plan.kept_events :]
            events = [signed for signed in newest if signed.cid in genuine]
        match opening.read.start:
            case "now":
                since_s = self._since_s(opening)
                events = [signed for signed in events if self._is_after(signed.cid, since_s)]
            case "event":
                past = self.past(topic, opening.after)
                events = [signed for signed in events if signed.cid not in past]
        if opening.read.topic == SCHEMA_TOPIC:
            wanted = opening.read.wanted
            events = [signed for signed in events if is_wanted(wanted, signed.record.payload)]
        return {signed.cid for signed in events}

    def _since_s(self, opening: Opening) -> float:
        """Since when what is published is due: a consumer is due what came while it was away."""
        if opening.read.consumer:
            lives = [one.ready_s for one in self.history.openings if one.read is opening.read]
            return min((ready_s for ready_s in lives if ready_s is not None), default=float("inf"))
        return float("inf") if opening.ready_s is None else opening.ready_s

    def _is_after(self, cid: bytes, since_s: float) -> bool:
        event = self.event_of.get(cid)
        return event is not None and event.publication.at_s >= since_s

    def _done(self, opening: Opening) -> set[bytes]:
        """What a consumer acknowledged, in any life of its node, and was told that this is noted."""
        if not opening.read.consumer:
            return set()
        lives = (one for one in self.history.openings if one.read is opening.read)
        return {cid for one in lives for cid, is_noted in one.acknowledged.items() if is_noted}

    def missing(self, opening: Opening) -> set[bytes]:
        """What a reader was not handed, though it is due."""
        return self.due(opening).difference(signed.cid for _, signed, _ in opening.handed)


def are_level(truth: Truth) -> bool:
    """Whether all readers are ready, and have looked at all that is due to them."""
    return not any(
        opening.waiting or opening.ready_s is None or truth.missing(opening) for opening in truth.openings()
    )


def are_slow(truth: Truth) -> bool:
    """Whether readers that take their time still lack what waits for them."""
    slow = (one for one in truth.openings() if one.read.take_s and one.waiting)
    return any(map(truth.missing, slow))


def are_answered(truth: Truth) -> bool:
    """Whether all who published were answered."""
    up = {node.number: node.lives for node in truth.there}
    return all(
        publication.answered_s is not None or up.get(publication.step.node) != publication.life
        for publication in truth.history.publications
    )


def name_of(cid: bytes) -> str:
    """An event, for a person."""
    return cid_text(cid)[-12:]
