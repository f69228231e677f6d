"""Taking events in: each is kept once its parents are, waits until then, or is refused.

What is kept can be read back only after the call of ``handle`` that says so, and is safe later still: both
times are bridged here.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from vinecast.core.events import Count, Send
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.streams import Streams
from vinecast.protocols.streams.config import StreamsConfig
from vinecast.protocols.streams.messages import Hand, StreamAck, StreamEffect
from vinecast.protocols.streams.pending import Pending, Waiting
from vinecast.protocols.streams.standing import Standing
from vinecast.protocols.streams.topics import Topic

WRONG_HEIGHT = "wrong height"
LATELY = 8192
"""Events whose height is at hand (ours)."""


class Seeker(Protocol):
    """Who looks for what is lacking."""

    sources: Callable[[str], list[int]]
    """Who may have a topic's events."""

    def seek(self, waiting: Waiting, topic: Topic) -> list[StreamEffect]:
        """An event begins to wait."""

    def is_sought(self, cid: bytes) -> bool:
        """Whether an event is looked for."""


class Intake:
    """Of one node. ``seeker`` looks for parents that events wait for."""

    def __init__(
        self,
        config: StreamsConfig,
        me: int,
        streams: Streams,
        topics: dict[str, Topic],
        standing: Standing,
        seeker: Seeker,
    ) -> None:
        self.pending = Pending(config)
        self._config = config
        self._me = me
        self._streams = streams
        self._topics = topics
        self._standing = standing
        self._seeker = seeker
        self._keeping: list[SignedEvent] = []
        """What is to be kept now."""
        self._unsafe: dict[bytes, tuple[SignedEvent, list[int]]] = {}
        """Kept and not safe yet → the event, and who wants to know."""
        self._lately: OrderedDict[bytes, tuple[int, str]] = OrderedDict()
        """Events kept lately → height and topic: also those that cannot be read back yet."""

    def height(self, topic: str, cid: bytes) -> int:
        """The height of a topic's event that is kept; 0 when it is not."""
        noted = self._lately.get(cid)
        if noted is not None:
            return noted[0] if noted[1] == topic else 0
        if self._seeker.is_sought(cid):  # spares a look into the store for all that is caught up with
            return 0
        return self._streams.height_of(topic, cid)

    def knows(self, topic: str, cid: bytes) -> bool:
        """Whether an event is kept, or waits for its parents."""
        return self.height(topic, cid) > 0 or cid in self.pending

    def to_keep(self) -> tuple[SignedEvent, ...]:
        """What is to be kept since this was last asked, parents first."""
        events, self._keeping = tuple(self._keeping), []
        return events

    def take(self, signed: SignedEvent, sender: int, ack: bool, judged: bool = True) -> list[StreamEffect]:
        """An event whose form and signature are right, from anywhere. ack: whether the sender wants to know
        when it is safe; judged: whether the sender must have found its place"""
        record, cid = signed.record, signed.cid
        topic = self._topics.get(record.topic)
        if record.height == 0 or topic is None:
            return [Count("streams.not followed")]
        ack_to = [sender] if ack else []
        if self.height(record.topic, cid):
            return self._promise(cid, ack_to)
        waiting = self.pending.get(cid)
        if waiting is not None:
            waiting.ack_to += [peer for peer in ack_to if peer not in waiting.ack_to]
            return []
        return self.place(Waiting(signed, sender, ack_to=ack_to, judged=judged), topic)

    def _promise(self, cid: bytes, ack_to: list[int]) -> list[StreamEffect]:
        """Somebody wants to know when an event is safe that is here already."""
        if cid not in self._unsafe:
            return [Send(peer, StreamAck((cid,))) for peer in ack_to]
        told = self._unsafe[cid][1]
        told += [peer for peer in ack_to if peer not in told]
        return []

    def place(self, first: Waiting, topic: Topic) -> list[StreamEffect]:
        """Keep an event if its parents are kept, and all that have waited for it; else let it wait."""
        effects: list[StreamEffect] = []
        left = [first]
        while left:
            waiting = left.pop()
            cid, height = waiting.signed.cid, waiting.signed.record.height
            unknown, highest = self._parents(waiting.signed)
            if height <= highest or (not unknown and height != highest + 1):
                if waiting.judged:
                    effects += self._standing.blame(waiting.sender, WRONG_HEIGHT)
                else:
                    effects.append(Count(f"streams.refused {WRONG_HEIGHT}"))
                effects += self.drop(cid)
            elif missing := self._missed(waiting, unknown, topic):
                waiting.missing = dict.fromkeys(missing)
                effects += self._wait(waiting, topic)
            elif not self._has_room(waiting, topic):
                effects.append(Count("streams.no room for others"))
                effects += self.drop(cid)
            else:
                self._keep(waiting, topic)
                left += reversed(self.pending.arrived(cid))
        return effects

    def _parents(self, signed: SignedEvent) -> tuple[list[bytes], int]:
        """Which parents are not kept, and the height of the highest that is."""
        highest, missing = 0, []
        for parent in signed.record.parents:
            height = self.height(signed.record.topic, parent)
            if not height:
                missing.append(parent)
            elif height > highest:
                highest = height
        return missing, highest

    def _missed(self, waiting: Waiting, unknown: list[bytes], topic: Topic) -> list[bytes]:
        """The parents to wait for: all that cannot be done without, below the floor those that may come
        yet."""
        missed = [parent for parent in unknown if parent not in waiting.excused]
        if waiting.signed.record.height > topic.floor:
            return missed
        return [parent for parent in missed if parent in self.pending or self._seeker.is_sought(parent)]

    def _has_room(self, waiting: Waiting, topic: Topic) -> bool:
        if topic.reads or waiting.sender == self._me:
            return True
        others = sum(each.size for each in self._topics.values() if not each.reads)
        return others + waiting.size <= self._config.others_bytes

    def _keep(self, waiting: Waiting, topic: Topic) -> None:
        signed = waiting.signed
        self._lately[signed.cid] = signed.record.height, topic.name
        if len(self._lately) > LATELY:
            self._lately.popitem(last=False)
        self._keeping.append(signed)
        self._unsafe[signed.cid] = signed, waiting.ack_to
        topic.height = max(topic.height, signed.record.height)
        topic.size += waiting.size

    def _wait(self, waiting: Waiting, topic: Topic) -> list[StreamEffect]:
        if not self._standing.is_fair(waiting.sender):
            return [Count("streams.dropped distrusted"), *self.drop(waiting.signed.cid)]
        gone = self.pending.add(waiting)
        effects: list[StreamEffect] = [Count("streams.dropped waiting", gone)] if gone else []
        if waiting.signed.cid in self.pending:
            effects += self._seeker.seek(waiting, topic)
        return effects

    def drop(self, cid: bytes) -> list[StreamEffect]:
        """Give up an event, and what waits for it."""
        gone = self.pending.drop(cid)
        return [Count("streams.dropped waiting", gone)] if gone else []

    def do_without(self, cid: bytes, topic: Topic) -> list[StreamEffect]:
        """An event cannot be had. Those that may lack parents wait for it no longer; the rest are dropped."""
        sources, awaiting = self._seeker.sources, self.pending.awaiting(cid)
        able = [w for w in awaiting if topic.may_lack(w.signed.record.height, sources)]
        for waiting in able:
            self.pending.remove(waiting)
            waiting.excused[cid] = None
        return self.drop(cid) + [effect for waiting in able for effect in self.place(waiting, topic)]

    def place_again(self, topic: Topic) -> list[StreamEffect]:
        """The beginning of a topic is settled: see which events still have to wait, and for what."""
        free = self.pending.clear(topic.name)
        return [effect for waiting in free for effect in self.place(waiting, topic)]

    def safe(self, cids: tuple[bytes, ...]) -> list[StreamEffect]:
        """Events are safe: tell the application, and whoever sent them as their publisher."""
        effects: list[StreamEffect] = []
        acks: dict[int, list[bytes]] = {}
        for cid in cids:
            if cid not in self._unsafe:
                continue
            signed, ack_to = self._unsafe.pop(cid)
            topic = self._topics.get(signed.record.topic)
            if topic is not None and topic.reads:
                effects.append(Hand(signed))
            for peer in ack_to:
                acks.setdefault(peer, []).append(cid)
        effects += [Send(peer, StreamAck(tuple(safe))) for peer, safe in acks.items()]
        return effects
