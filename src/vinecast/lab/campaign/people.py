"""The people of a run: they publish and read on simulated nodes as applications do on live ones, and note
what they see.

A reader takes each event when it has time, tells the peer so, and acknowledges what it is done with. When its
node is gone it waits, and begins again in the node's next life.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import cid_text
from vinecast.core.log.stream_buffer import place_of
from vinecast.lab.campaign.history import (
    History,
    LevelFacts,
    Opening,
    PublicationRecord,
    PublishedEvent,
    ReceiptFacts,
    fits,
)
from vinecast.lab.campaign.payloads import SCHEMA, payloads_of
from vinecast.lab.campaign.plan import (
    SCHEMA_TOPIC,
    TOPICS,
    CutOffStep,
    PublishStep,
    ReadStep,
    RefuseStep,
    ends_s,
)
from vinecast.node.api.content import filter_set_of
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.receipt import Receipt
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld

HEARD_S = 10.0
"""So long after a cut, or when a node takes connections again, what was published on the other side is on its
way (ours)."""
ACK_EVERY = 3
"""A consumer acknowledges every so many events, and when nothing waits (ours)."""


@dataclass(slots=True, eq=False)
class _Desk:
    """An open reader, and what waits for it."""

    opening: Opening
    node: SimulatedNode
    waiting: deque[tuple[SignedEvent, int]] = field(default_factory=deque)
    taken: int = 0
    is_busy: bool = False


class People:
    """Everybody, in one run: the observer of its world."""

    def __init__(self, honest: frozenset[int], cuts: Sequence[CutOffStep | RefuseStep] = ()) -> None:
        self.history = History()
        self.watchers: list[Callable[[float, int, str], object]] = []
        """Told what is worth telling: when, at which node, what."""
        self.on_receipt: Callable[[ReceiptFacts], object] = lambda facts: None
        """Told of every receipt, at its moment."""
        self._honest, self._cuts = honest, cuts
        self._world: PeerWorld
        self._desks: dict[tuple[int, int, int], _Desk] = {}
        """(node, life, subscription)"""
        self._answers: dict[tuple[int, int, int], Callable[[asked.Answered], object]] = {}
        """(node, life, request)"""
        self._subscriptions = 0

    def enter(self, world: PeerWorld) -> None:
        """The world that they live in."""
        self._world = world

    # What they do.

    def publish(self, step: PublishStep) -> None:
        """Somebody publishes, if the node is there."""
        node = self._world.nodes[step.node]
        if not node.is_up or node.paused:
            return
        publication = PublicationRecord(step, self._world.now_s, node.lives)
        self.history.publications.append(publication)
        drafts = []
        for payload, headers in payloads_of(step, node.setup.config.system == "vinifera"):
            event = PublishedEvent(publication, payload)
            publication.events.append(event)
            self.history.by_payload[payload] = event
            drafts.append(node.draft(payload, headers))

        def make(request: int) -> given.PublishDrafts:
            self._answers[node.number, node.lives, request] = then
            return given.PublishDrafts(request, step.topic, tuple(drafts), step.durable)

        def then(answer: asked.Answered) -> None:
            self._published(node, publication, answer)

        node.publish(make)

    def read(self, read: ReadStep) -> None:
        """Somebody begins to read, if the node is there."""
        node = self._world.nodes[read.node]
        if not node.is_up or node.paused or (read.until_s and self._world.now_s >= read.until_s):
            return
        start, after = self._start_of(read)
        if read.start == "event" and not after:
            return
        self._subscriptions += 1
        number = self._subscriptions
        opening = Opening(read, node.lives, number, self._world.now_s, after)
        opening.was_here = self._was_here(node, read)
        opening.has_after = bool(after) and node.disk.position_of(after) > 0
        self.history.openings.append(opening)
        self._desks[node.number, node.lives, number] = _Desk(opening, node)
        schema = SCHEMA if read.topic == SCHEMA_TOPIC else None
        wanted = None if schema is None else filter_set_of(schema, read.wanted or None)
        consumer = read.consumer or None
        self._ask(
            node,
            lambda request: given.OpenSubscription(
                request, number, read.topic, start, consumer, schema, wanted
            ),
            lambda answer: self._opened(node, opening, answer),
        )

    def _start_of(self, read: ReadStep) -> tuple[str, bytes]:
        """Where reading begins: a reader after an event takes one that somebody was handed before."""
        if read.start != "event":
            return read.start, b""
        seen = [
            signed
            for opening in self.history.openings
            for _, signed, position in opening.handed
            if position and signed.record.topic == read.topic
        ]
        if not seen:
            return "", b""
        signed = seen[len(seen) // 2]
        return cid_text(signed.cid), signed.cid

    def _was_here(self, node: SimulatedNode, read: ReadStep) -> bool:
        """Whether a node has something of what a reader asks for, or has taken part in it."""
        taken_part = (
            *(one.read.topic for one in self.history.openings if one.read.node == read.node),
            *(one.step.topic for one in self.history.publications if one.step.node == read.node),
        )
        pairs = ((read.topic, topic) for topic in (*taken_part, *node.disk.topics()))
        return any(fits(asked, topic) or fits(topic, asked) for asked, topic in pairs)

    def stop_reading(self, read: ReadStep) -> None:
        """Somebody reads no more."""
        for desk in list(self._desks.values()):
            if desk.opening.read is read and desk.opening.closed_s is None:
                self._close(desk)
                desk.node.feed(given.CloseSubscription(desk.opening.subscription))

    def _close(self, desk: _Desk) -> None:
        desk.opening.closed_s = self._world.now_s
        self._desks.pop((desk.node.number, desk.opening.life, desk.opening.subscription), None)

    def node_is_gone(self, node: SimulatedNode) -> None:
        """A process has ended: nobody is handed anything there any more."""
        for key, desk in list(self._desks.items()):
            if key[0] == node.number:
                self._close(desk)
        self._answers = {key: then for key, then in self._answers.items() if key[0] != node.number}

    # What they are told.

    def before(self, node: SimulatedNode, what: given.PeerInput) -> None:
        """See ``Observer``."""
        self.history.inputs += 1

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[asked.PeerOutput]) -> None:
        """See ``Observer``."""
        for output in outputs:
            match output:
                case asked.DeliverEvent(subscription, signed, _, position):
                    self._handed(node, subscription, signed, position)
                case asked.Answered(request):
                    then = self._answers.pop((node.number, node.lives, request), None)
                    if then is not None:
                        then(output)
                case asked.ReadingFailed(subscription, error):
                    desk = self._desks.get((node.number, node.lives, subscription))
                    if desk is not None:
                        desk.opening.failed = str(error)
                case asked.ShunPeer(peer):
                    whom = next(one.number for one in self._world.nodes if one.setup.identity.id == peer)
                    self.history.shunned.append((self._world.now_s, node.number, whom))
                    self._tell(node, f"shuns node {whom}")
                case asked.EventDropped():
                    self.history.dropped[node.number] = self.history.dropped.get(node.number, 0) + 1

    def failed(self, node: SimulatedNode, what: given.PeerInput, error: Exception) -> None:
        """See ``Observer``."""
        said = f"{type(what).__name__}: {type(error).__name__}: {error}"
        self.history.raised.append((self._world.now_s, node.number, said))
        self._tell(node, f"raises on {said}")

    def _tell(self, node: SimulatedNode, what: str) -> None:
        for watcher in self.watchers:
            watcher(self._world.now_s, node.number, what)

    def _ask(
        self,
        node: SimulatedNode,
        make: Callable[[int], given.PeerCommand],
        then: Callable[[asked.Answered], object],
    ) -> None:
        """Ask a node for something, and have its answer taken."""

        def noted(request: int) -> given.PeerCommand:
            self._answers[node.number, node.lives, request] = then
            return make(request)

        node.ask(noted)

    def _published(self, node: SimulatedNode, publication: PublicationRecord, answer: asked.Answered) -> None:
        publication.answered_s = self._world.now_s
        if answer.error is not None:
            publication.error = f"{type(answer.error).__name__}: {answer.error}"
            self._tell(node, f"could not publish {publication.step.number}: {answer.error}")
            return
        for event, outcome in zip(publication.events, answer.value, strict=True):
            if isinstance(outcome, Receipt):
                event.cid = outcome.cid
                if publication.step.durable:
                    event.holders = outcome.holders
                    facts = self._facts(node, event)
                    self.history.receipts.append(facts)
                    self.on_receipt(facts)
            else:
                event.error = f"{type(outcome).__name__}: {outcome}"

    def _facts(self, node: SimulatedNode, event: PublishedEvent) -> ReceiptFacts:
        holding = [other for other in self._world.nodes if event.cid in other.disk.synced]
        others = [other for other in holding if other is not node]
        in_memory = sum(other.setup.disk.is_memory for other in others)
        own_is_safe = node.setup.disk.is_memory or node in holding
        who = tuple(
            other.number
            for other in holding
            if other.number in self._honest and not other.setup.disk.is_memory
        )
        return ReceiptFacts(event, own_is_safe, len(others) - in_memory, in_memory, who)

    def _opened(self, node: SimulatedNode, opening: Opening, answer: asked.Answered) -> None:
        if answer.error is not None:
            opening.refused = f"{type(answer.error).__name__}: {answer.error}"
            self._tell(node, f"cannot read {opening.read.topic}: {answer.error}")
            return
        self._ask(
            node,
            lambda request: given.AwaitReady(request, opening.subscription),
            lambda answer: self._is_ready(node, opening, answer),
        )

    def _is_ready(self, node: SimulatedNode, opening: Opening, answer: asked.Answered) -> None:
        if answer.error is not None:
            return
        opening.ready_s = self._world.now_s
        topic = opening.read.topic
        if opening.read.start == "earliest" and topic in TOPICS:
            before = [event for event in self._acknowledged(topic) if event.cid]
            self._ask(
                node,
                lambda request: given.AwaitLevel(request, topic),
                lambda answer: None if answer.error is not None else self._is_level(node, opening, before),
            )

    def _acknowledged(self, topic: str) -> list[PublishedEvent]:
        """Events of a topic whose publishers were told that they are safe."""
        return [
            event
            for publication in self.history.publications
            for event in publication.events
            if event.topic == topic and event.is_acknowledged
        ]

    def _is_level(self, node: SimulatedNode, opening: Opening, before: list[PublishedEvent]) -> None:
        """A node was told that it has all of a stream."""
        world, topic = self._world, opening.read.topic
        if any(_from_s(cut) <= world.now_s <= ends_s(cut) + HEARD_S for cut in self._cuts):
            return  # what came from the other side, or from who could not join, has just come there
        others = [
            other
            for other in world.nodes
            if other.number in self._honest
            and other.is_up
            and not other.paused
            and not world.links.is_cut(node.number, other.number)
        ]
        floor, below, above = node.disk.state(topic).floor, 0, 0
        taken = _taken_by_retention([node, *others], topic)
        for event in before:
            if event.cid in taken:
                continue
            had = next((other for other in others if other.disk.is_safe(event.cid)), None)
            if had is not None and not node.disk.position_of(event.cid):
                is_below = had.disk.height_of(topic, event.cid) <= floor
                below, above = below + is_below, above + (not is_below)
        told_floor = any(other.disk.state(topic).floor for other in world.nodes if other is not node)
        self.history.level.append(LevelFacts(world.now_s, opening, below, above, told_floor))

    # Reading.

    def _handed(self, node: SimulatedNode, subscription: int, signed: SignedEvent, position: int) -> None:
        desk = self._desks.get((node.number, node.lives, subscription))
        if desk is None:
            return
        if position and not node.disk.is_safe(signed.cid) and node.disk.position_of(signed.cid):
            self.history.unsafe.append((self._world.now_s, desk.opening, signed))
        desk.waiting.append((signed, position))
        desk.opening.waiting += 1
        if not desk.is_busy:
            desk.is_busy = True
            self._take_later(desk)

    def _take_later(self, desk: _Desk) -> None:
        after_us = round(desk.opening.read.take_s * 1e6)
        self._world.at(self._world.now_us + after_us, self._take, desk)

    def _take(self, desk: _Desk) -> None:
        opening, node = desk.opening, desk.node
        if opening.closed_s is not None or not node.is_up:
            return
        if node.paused:  # the application is stopped with its node
            self._world.at(self._world.now_us + 100_000, self._take, desk)
            return
        count = len(desk.waiting) if not opening.read.take_s else 1
        size = 0
        opening.waiting -= count
        for _ in range(count):
            signed, position = desk.waiting.popleft()
            opening.handed.append((self._world.now_s, signed, position))
            size += len(signed.block)
            known = self.history.by_payload.get(signed.record.payload)
            if known is not None and not known.cid and signed.record.publisher == self._key_of(known):
                known.cid = signed.cid
            desk.taken += 1
            if opening.read.consumer and position and (desk.taken % ACK_EVERY == 0 or not desk.waiting):
                self._acknowledge(desk, signed, position)
        node.feed(given.EventsTaken(opening.subscription, count, size))
        desk.is_busy = bool(desk.waiting)
        if desk.is_busy:
            self._take_later(desk)

    def _key_of(self, event: PublishedEvent) -> bytes:
        return self._world.nodes[event.publication.step.node].setup.identity.public

    def _acknowledge(self, desk: _Desk, signed: SignedEvent, position: int) -> None:
        opening, node = desk.opening, desk.node
        done = [one.cid for _, one, at in opening.handed if at and one.record.topic == signed.record.topic]
        for cid in done:
            opening.acknowledged.setdefault(cid, False)

        def settled(answer: asked.Answered) -> None:
            if answer.error is None:
                opening.acknowledged.update(dict.fromkeys(done, True))

        self._ask(
            node,
            lambda request: given.AckPosition(request, opening.subscription, signed.record.topic, position),
            settled,
        )


def _from_s(cut: CutOffStep | RefuseStep) -> float:
    """From when on a node may lack what others have though it can reach them."""
    return cut.at_s if isinstance(cut, RefuseStep) else ends_s(cut)


def _taken_by_retention(nodes: Sequence[SimulatedNode], topic: str) -> set[bytes]:
    """Events of a topic that some of these nodes keep, and retention takes anywhere, or may take."""
    most = nodes[0].setup.retention.events
    if most is None:
        return set()
    readable = (signed for node in nodes for signed in node.disk.readable() if signed.record.topic == topic)
    kept = {signed.cid: signed for signed in readable}
    return {signed.cid for signed in sorted(kept.values(), key=place_of)[:-most]}
