"""The machine of gap repair on one node: the streams that it follows, and comparing heads once a period.

Whoever owns it has checked the form and the signature of every event that it is handed, and tells it which
peers are next to the node in a topic's overlay.

Where the store cannot be read, the message or the topic that asked is left aside and counted, timers stay
set, and what may have been cut short is gone through once more when the next period begins.
"""

from collections.abc import Callable, Sequence

from vinecast.core.draws import below, purpose, stream
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Event, PeerLost, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import is_cid
from vinecast.core.log.event_record import NUMBER_MAX, PARENTS_MAX
from vinecast.core.log.streams import Keep, Kept, SetFloor, Streams
from vinecast.core.machine import NOBODY
from vinecast.protocols.streams.config import StreamsConfig
from vinecast.protocols.streams.holders import Holders
from vinecast.protocols.streams.intake import Intake
from vinecast.protocols.streams.messages import (
    ALWAYS,
    IF_OTHER,
    NEVER,
    NOW,
    Follow,
    Lower,
    Met,
    Providers,
    StreamAck,
    StreamEffect,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamPush,
    StreamStatus,
    StreamWant,
    TopicReplicas,
    Unfollow,
)
from vinecast.protocols.streams.providing import Providing
from vinecast.protocols.streams.seeking import Seeking
from vinecast.protocols.streams.serving import Serving
from vinecast.protocols.streams.standing import Standing
from vinecast.protocols.streams.topics import ENOUGH, HEADS_TOLD, Topic

PERIOD, ASK, PUSH = "streams.period", "streams.ask", "streams.push"
TIMERS = (PERIOD, ASK, PUSH)
TOLD_TOPICS = 64
"""Topics in one message (ours)."""
QUIET_PERIODS = 8
"""Periods between two exchanges of heads for a stream without events (ours)."""

UNREADABLE = "failed: the store could not be read"
"""Under which reads that failed are counted."""

_PARTNER = purpose("streams.partner")
_SOURCES = purpose("streams.sources")

RepairEvent = Event | Kept | Follow | Unfollow | Lower | TopicReplicas | Providers | Met


class GapRepair:
    """The machine. ``neighbours`` names the peers next to the node in a topic's overlay."""

    def __init__(
        self,
        config: StreamsConfig,
        seed: int,
        me: int,
        streams: Streams,
        neighbours: Callable[[str], Sequence[int]],
    ) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.streams = streams
        self.topics: dict[str, Topic] = {}
        self.standing = Standing()
        self.seeking = Seeking(config, self.topics, self.standing, self._sources)
        self.intake = Intake(config, me, streams, self.topics, self.standing, self.seeking)
        self.seeking.intake = self.intake
        self.holders = Holders(config)
        self._providing = Providing(config.provide, seed, me, self.topics)
        self._serving = Serving(config, streams)
        self.has_room: Callable[[], bool] = lambda: True
        """Whether more can be taken in: nobody is asked for anything while it cannot."""
        self._neighbours = neighbours
        self._cycle = 0
        self._turn = 0
        """Where the topics of the next period begin."""
        self._set: set[str] = set()
        """Timers that will fire."""
        self._met: set[tuple[int, str]] = set()
        """Peers that were met in this period, with the topics that they were told of."""
        self._was_cut_short = False
        """Whether something was left undone since the store could not be read."""

    def handle(self, event: RepairEvent, now_us: int) -> list[StreamEffect]:
        """Take something in. InputError where a stream cannot be followed since the store cannot be read."""
        if isinstance(event, Follow):
            return self._follow(event)
        try:
            return self._handle(event, now_us)
        except InputError:
            return self._finish(self._leave_undone(), now_us)

    def cut_short(self) -> None:
        """What this machine asked for did not reach its owner, since the store could not be read."""
        self._was_cut_short = True

    def _leave_undone(self) -> list[StreamEffect]:
        self._was_cut_short = True
        return [Count(UNREADABLE)]

    def _handle(self, event: RepairEvent, now_us: int) -> list[StreamEffect]:
        match event:
            case Received(sender, message):
                return self._finish(self._receive(sender, message, now_us), now_us)
            case Kept(cids):
                return self._finish(self.intake.safe(cids), now_us)
            case TimerFired(name):
                return self._ring(name, now_us)
            case Start():
                self._set.clear()
                for known in self.topics.values():
                    known.begin_again()
                return self._finish([SetTimer(PERIOD, self.config.period_us)], now_us)
            case PeerLost(peer):
                return self._finish(self.seeking.lose(peer, now_us), now_us)
            case Unfollow(topic):
                self._leave(topic)
            case Lower(topic, floor):
                return self._lower(topic, floor)
            case TopicReplicas(topic, peers):
                return self._finish(self._set_replicas(topic, peers), now_us)
            case Providers(topic, peers):
                others = tuple(peer for peer in peers if peer not in (self.me, NOBODY))
                return self._finish(self.seeking.found(topic, others, now_us), now_us)
            case Met(peer, topics):
                return self._meet(peer, topics)
        return []

    def take(
        self, signed: SignedEvent, sender: int, now_us: int, ack: bool, judged: bool = True
    ) -> list[StreamEffect]:
        """An event came by another way than this machine's own. ack: whether the sender is its publisher, who
        wants to know when it is safe; judged: whether the sender must have found its place"""
        try:
            effects = self.intake.take(signed, sender, ack, judged)
        except InputError:
            effects = self._leave_undone()
        return self._finish(effects, now_us)

    def publish(self, signed: SignedEvent, now_us: int) -> list[StreamEffect]:
        """Keep an event of the node's own, which stands where ``place`` said, and let replicas have it.
        InputError, and nothing is done, where the store cannot be read."""
        name = signed.record.topic
        if name not in self.topics:
            self.topics[name] = Topic(Follow(name, NOW, reads=False), self.streams)
        effects = self.intake.take(signed, self.me, ack=False)
        self.holders.add(signed, self.topics[name].replicas)
        return self._finish(effects, now_us)

    def place(self, topic: str) -> tuple[tuple[bytes, ...], int]:
        """The parents and the height of the next event here: it follows all heads, or the highest of many.
        InputError where the store cannot be read."""
        heads = self.streams.state(topic).heads
        kept = tuple(head for head in heads if self.streams.get(head) is not None)
        heads = (kept or heads)[:PARENTS_MAX]  # what is forgotten here may be gone everywhere
        return heads, 1 + max((self.intake.height(topic, head) for head in heads), default=0)

    def is_level(self, topic: str) -> bool:
        """Whether a followed stream has all that others have told of, as far as is known."""
        followed = self.topics.get(topic)
        return (
            followed is not None
            and followed.opened
            and not self.seeking.seeks(topic)
            and followed.since is None
            and followed.told <= max(followed.height, followed.floor)
        )

    def horizon(self, topic: str) -> int:
        """The height up to which a stream is older than now, where some of that is still to come; else 0."""
        followed = self.topics.get(topic)
        if followed is None or followed.start == NOW or self.is_level(topic):
            return 0
        return followed.told

    def peers_in_use(self) -> set[int]:
        """Whom it reckons with: whose numbers must stay theirs."""
        known = (
            part for t in self.topics.values() for part in (t.replicas, t.contacts, t.statuses, t.providers)
        )
        return self.seeking.peers().union(self.holders.peers(), *known) - {NOBODY}

    def distrust(self, sender: int, now_us: int) -> list[StreamEffect]:
        """A peer sent what its owner had to refuse: what else it was asked for is asked of others."""
        self.standing.doubt(sender)
        return self.handle(PeerLost(sender), now_us)

    def _finish(self, effects: list[StreamEffect], now_us: int) -> list[StreamEffect]:
        """What follows from all that was taken: keep it, ask on, set timers."""
        done: list[StreamEffect] = [effect for effect in effects if isinstance(effect, SetFloor)]
        events = self.intake.to_keep()
        if events:
            done.append(Keep(events))
            for signed in events:
                self.seeking.kept(signed.cid)
            done += self._providing.kept(events)
        done += [effect for effect in effects if not isinstance(effect, SetFloor)]
        if self.seeking.is_busy:
            done += self.seeking.ask(now_us) if self.has_room() else []
            self._set_timer(ASK, self.config.answer_us // 2, done)
        if self.holders.waits:
            self._set_timer(PUSH, self.config.push_us, done)
        return done

    def _set_timer(self, name: str, after_us: int, effects: list[StreamEffect]) -> None:
        if name not in self._set:
            self._set.add(name)
            effects.append(SetTimer(name, after_us))

    def _ring(self, name: str, now_us: int) -> list[StreamEffect]:
        self._set.discard(name)
        if name == PERIOD:
            again = self._begin_again() if self._was_cut_short else []
            return self._finish([SetTimer(PERIOD, self.config.period_us), *again, *self._compare()], now_us)
        if name == ASK:
            return self._finish(self.seeking.look(now_us), now_us)
        return self._finish([*self.holders.push(now_us)], now_us) if name == PUSH else []

    def _receive(self, sender: int, message: object, now_us: int) -> list[StreamEffect]:
        match message:
            case StreamHeads():
                return self._hear(sender, message)
            case StreamEvents():
                return self.seeking.take_answer(sender, message, now_us)
            case StreamWant():
                return self._serving.events(sender, message)
            case StreamList():
                return self._serving.list(sender, message)
            case StreamListed():
                return self.seeking.take_list(sender, message)
            case StreamPush():
                return self._take_push(sender, message)
            case StreamAck(cids):
                return [*self.holders.acknowledged(sender, cids[: self.config.own])]
        return []

    # Topics.

    def _follow(self, follow: Follow) -> list[StreamEffect]:
        known = self.topics.get(follow.topic)
        if known is not None:
            known.reads |= follow.reads
            if follow.start != NOW:
                known.start = follow.start
            return []
        if not follow.reads and not self._has_room_for(follow):
            return [Count("streams.no room for others")]
        topic, last = Topic(follow, self.streams), self.streams.state(follow.topic).last
        self.topics[follow.topic] = topic
        return self._providing.begun(topic, last)

    def _has_room_for(self, follow: Follow) -> bool:
        others = [topic for topic in self.topics.values() if not topic.reads]
        size = sum(topic.size for topic in others) + follow.size
        return len(others) < self.config.others_topics and size < self.config.others_bytes

    def _leave(self, topic: str) -> None:
        if self.topics.pop(topic, None) is not None:
            self.intake.pending.clear(topic)
            self.seeking.leave(topic)

    def _lower(self, name: str, floor: int) -> list[StreamEffect]:
        topic = self.topics.get(name)
        if topic is None or not 0 <= floor < topic.floor:
            return []
        topic.stored_floor = topic.since = floor
        topic.joining = 0
        return [SetFloor(name, floor)]

    def _set_replicas(self, name: str, peers: tuple[int, ...]) -> list[StreamEffect]:
        topic = self.topics.get(name)
        if topic is not None:
            topic.replicas = tuple(dict.fromkeys(peer for peer in peers if peer not in (self.me, NOBODY)))
            for cid in self.holders.cids_of(name):
                self.holders.want_push(cid, topic.replicas)
        return []

    def _sources(self, name: str) -> list[int]:
        """Who may have a topic's events: neighbours, replicas and whoever told or asked lately, by turns."""
        topic = self.topics.get(name)
        if topic is None:
            return []
        peers = dict.fromkeys((*self._neighbours(name), *topic.replicas, *topic.contacts))
        fair = [peer for peer in peers if peer != self.me and self.standing.is_fair(peer)]
        if len(fair) < 2:
            return fair
        first = below(stream(self.seed, _SOURCES, self._cycle, self.me), len(fair), len(fair))
        return fair[first:] + fair[:first]

    def _take_push(self, sender: int, push: StreamPush) -> list[StreamEffect]:
        """A publisher takes this node for a replica of a topic; it becomes one, if there is room."""
        effects: list[StreamEffect] = []
        if push.topic not in self.topics:
            effects += self._follow(Follow(push.topic, reads=False))
        topic = self.topics.get(push.topic)
        if topic is None:
            return effects
        topic.contact(sender)
        for signed in push.events:
            if signed.record.topic == push.topic:
                effects += self.intake.take(signed, sender, ack=True)
            else:
                effects += self.standing.blame(sender, "event of another topic")
        return effects

    # Comparing heads.

    def _compare(self) -> list[StreamEffect]:
        """Once a period: tell one peer of each topic how far this node has come; some, where it begins."""
        self._cycle += 1
        self._met.clear()
        for part in (self._serving, self.standing, self.seeking, self.holders):
            part.begin_period()
        names = list(self.topics)
        count = min(len(names), self.config.topics_a_period)
        first, self._turn = self._turn, self._turn + count
        key = stream(self.seed, _PARTNER, self._cycle, self.me)
        effects: list[StreamEffect] = []
        told: dict[int, list[StreamStatus]] = {}
        asking: set[int] = set()
        for i in range(first, first + count):
            topic = self.topics[names[i % len(names)]]
            if topic.is_quiet and (self._cycle + self.me) % QUIET_PERIODS:
                topic.was_quiet = True
                continue
            try:
                topic.stored_floor = self.streams.state(topic.name).floor
                topic.waited += 1
                effects += self._begin(topic)
                telling = topic.telling(self.streams, self._cycle)
            except InputError:
                effects += self._leave_undone()
                continue
            sources = self._sources(topic.name)
            begin = below(key, i - first, len(sources)) if sources else 0
            partners = 1 if topic.opened else ENOUGH
            if topic.was_quiet and topic.height:  # the first events: tell all who do not ask any longer
                topic.was_quiet, partners = False, len(sources)
            for peer in (sources[begin:] + sources[:begin])[:partners]:
                told.setdefault(peer, []).append(telling)
                if not topic.opened or topic.since is not None:
                    asking.add(peer)
        for peer, tellings in told.items():
            effects += _heads(peer, tellings, peer in asking)
        return effects

    def _begin_again(self) -> list[StreamEffect]:
        """The store could not be read for a while: set all timers anew, and see which events still have to
        wait, and for what."""
        self._set.clear()
        self._was_cut_short = False
        return [effect for topic in self.topics.values() for effect in self._place_again(topic)]

    def _meet(self, peer: int, names: tuple[str, ...]) -> list[StreamEffect]:
        """Compare heads with a peer at once, where few have told of a stream yet: whoever was away need not
        wait for its turn. Once a period and topic: whoever says it again and again is not answered as
        often."""
        if not self.standing.is_fair(peer):
            return []
        news = [name for name in names if (peer, name) not in self._met]
        followed = [self.topics[name] for name in news if name in self.topics]
        untold = [
            t for t in followed if len(t.statuses) < ENOUGH and peer not in t.statuses and not t.is_quiet
        ]
        tellings = [topic.telling(self.streams, self._cycle) for topic in untold]
        self._met.update((peer, topic.name) for topic in untold)
        return _heads(peer, tellings, any(not t.opened or t.since is not None for t in untold))

    def _reach(self, sender: int, topic: Topic, told: StreamStatus) -> list[StreamEffect]:
        try:
            return self.seeking.reach(sender, topic, told)
        except InputError:
            return self._leave_undone()

    def _begin(self, topic: Topic) -> list[StreamEffect]:
        """See by what others have told where the stream begins here."""
        before = topic.opened, topic.stored_floor
        rises = topic.settle(self._sources)
        effects: list[StreamEffect] = []
        if topic.stored_floor > before[1]:
            effects.append(SetFloor(topic.name, topic.stored_floor))
        return effects + (self._place_again(topic) if rises or topic.opened > before[0] else [])

    def _place_again(self, topic: Topic) -> list[StreamEffect]:
        try:
            return self.intake.place_again(topic)
        except InputError:
            return self._leave_undone()

    def _hear(self, sender: int, message: StreamHeads) -> list[StreamEffect]:
        """A peer tells how far it has come: look for what it has, and tell it what it lacks."""
        if len(message.told) > TOLD_TOPICS or not all(map(_is_possible, message.told)):
            return self.standing.blame(sender, "impossible heads")
        effects: list[StreamEffect] = []
        answer: list[StreamStatus] = []
        for told in message.told:
            topic = self.topics.get(told.topic)
            if topic is None:
                effects.append(Count("streams.not followed"))
                continue
            try:
                own = topic.telling(self.streams, self._cycle)
            except InputError:
                effects += self._leave_undone()
                continue
            if message.asks == ALWAYS or (message.asks == IF_OTHER and set(own.heads) != set(told.heads)):
                answer.append(own)
            topic.contact(sender)
            topic.hear(sender, told)
            effects += self._begin(topic)
            if topic.opened:
                effects += self._reach(sender, topic, told)
        return effects + ([Send(sender, StreamHeads(tuple(answer), NEVER))] if answer else [])


def _heads(peer: int, tellings: list[StreamStatus], asking: bool) -> list[StreamEffect]:
    """Tell a peer how far this node has come. asking: whether to be told in any case"""
    asks, most = ALWAYS if asking else IF_OTHER, TOLD_TOPICS
    parts = (tellings[at : at + most] for at in range(0, len(tellings), most))
    return [Send(peer, StreamHeads(tuple(part), asks)) for part in parts]


def _is_possible(told: StreamStatus) -> bool:
    """Whether an honest node can have told this."""
    heights = all(0 <= height <= NUMBER_MAX for height in (told.height, told.floor, told.bottom))
    return heights and len(told.heads) <= HEADS_TOLD and all(map(is_cid, told.heads))
