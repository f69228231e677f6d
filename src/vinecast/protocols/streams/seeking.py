"""Looking for what is lacking: parents that events wait for, heads that others have, and all of a stream
since both agreed. What nobody has is given up, with all that waits for it.
"""

from collections.abc import Callable, Iterable

from vinecast.core.events import Blame, Count
from vinecast.core.log.streams import SetFloor
from vinecast.protocols.streams.catch_up import LISTS, STEP, CatchUp
from vinecast.protocols.streams.config import StreamsConfig
from vinecast.protocols.streams.fetcher import EventFetcher, MissingEvent
from vinecast.protocols.streams.intake import Intake
from vinecast.protocols.streams.messages import (
    FindProviders,
    StreamEffect,
    StreamEvents,
    StreamListed,
    StreamStatus,
)
from vinecast.protocols.streams.pending import Waiting
from vinecast.protocols.streams.standing import Standing
from vinecast.protocols.streams.topics import Topic

HOPELESS = 4096
"""Events that were given up and are remembered as such (ours)."""
HOPELESS_PERIODS = 16
"""For how long (ours)."""
CATCH_UPS = 16
"""Topics that are caught up with at one time (ours)."""
PROVIDERS = 8
"""Of those who provide a stream, so many are asked (ours)."""
FOUND_PERIODS = 16
"""Periods after which it is looked again who provides a stream (ours)."""
IDLE_PERIODS = 2
"""Periods without anything new after which another peer takes a peer's place (ours)."""


class Seeking:
    """Of one node. ``sources`` says who may have a topic's events, the best first."""

    def __init__(
        self,
        config: StreamsConfig,
        topics: dict[str, Topic],
        standing: Standing,
        sources: Callable[[str], list[int]],
    ) -> None:
        self.sources = sources
        self.fetcher = EventFetcher(config, sources)
        self.intake: Intake
        """Set by whoever owns both."""
        self._config = config
        self._topics = topics
        self._standing = standing
        self._catch_ups: dict[str, CatchUp] = {}
        self._cycle = 0
        self._hopeless: dict[bytes, int] = {}
        """Parents that nobody has → the period in which they were given up."""

    @property
    def is_busy(self) -> bool:
        """Whether anything is looked for."""
        return bool(self._catch_ups) or len(self.fetcher) > 0

    def seeks(self, topic: str) -> bool:
        """Whether anything of a topic is looked for."""
        return topic in self._catch_ups or self.fetcher.has_any(topic)

    def begin_period(self) -> None:
        """A period begins."""
        self._cycle += 1
        for catch_up in self._catch_ups.values():
            catch_up.left = LISTS
        for topic in self._topics.values():
            if topic.providers and not self._was_found(topic):
                topic.providers = ()
        for cid in [c for c, since in self._hopeless.items() if since + HOPELESS_PERIODS < self._cycle]:
            del self._hopeless[cid]

    def ask(self, now_us: int) -> list[StreamEffect]:
        """Ask for what is lacking, as far as there is room."""
        idle = [each for each in self._catch_ups.values() if each.may_ask and self._has_room(each)]
        effects = [*(each.ask(now_us) for each in idle), *self.fetcher.ask(now_us)]
        return effects + [found for name in self.fetcher.take_needy() for found in self._find(name, now_us)]

    def _find(self, name: str, now_us: int) -> list[StreamEffect]:
        """Find out who provides a stream, unless that was done lately."""
        topic = self._topics.get(name)
        if topic is None:
            return []
        if self._was_found(topic):
            self.fetcher.offer(name, topic.providers, now_us)
            return []
        topic.provided_cycle = self._cycle
        return [FindProviders(name)]

    def _was_found(self, topic: Topic) -> bool:
        """Whether it was asked lately who provides a stream."""
        return topic.provided_cycle is not None and self._cycle < topic.provided_cycle + FOUND_PERIODS

    def found(self, name: str, peers: tuple[int, ...], now_us: int) -> list[StreamEffect]:
        """These provide a stream."""
        topic = self._topics.get(name)
        if topic is not None:
            topic.providers = tuple(peer for peer in peers if self._standing.is_fair(peer))[:PROVIDERS]
            self.fetcher.offer(name, topic.providers, now_us)
        return []

    def look(self, now_us: int) -> list[StreamEffect]:
        """See who did not answer in time."""
        effects = self.give_up(self.fetcher.overdue(now_us))
        late = [each for each in self._catch_ups.values() if each.is_late(now_us, self._config.answer_us)]
        for catch_up in late:
            if catch_up.is_hopeless:
                self._leave(catch_up)
            else:
                effects.append(catch_up.ask(now_us))
        return effects

    def lose(self, peer: int, now_us: int) -> list[StreamEffect]:
        """A peer is gone, or does wrong: what it was asked for is asked of others."""
        for catch_up in [each for each in self._catch_ups.values() if each.peer == peer]:
            self._leave(catch_up)
        return self.give_up(self.fetcher.lost(peer, now_us))

    def peers(self) -> set[int]:
        """Who is asked, or will be."""
        return self.fetcher.peers() | {catch_up.peer for catch_up in self._catch_ups.values()}

    def leave(self, topic: str) -> None:
        """Look for nothing of a topic any longer."""
        self._catch_ups.pop(topic, None)
        self.fetcher.leave(topic)

    # What is to be looked for.

    def seek(self, waiting: Waiting, topic: Topic) -> list[StreamEffect]:
        """An event waits for parents: look for them one by one, or for all that lies below where they are
        many."""
        pending = self.intake.pending
        self.fetcher.got(waiting.signed.cid)
        if not topic.opened:
            return []
        hopeless = [self._hopeless[parent] for parent in waiting.missing if parent in self._hopeless]
        if hopeless:
            self._despair(waiting.signed.cid, min(hopeless))
            return [Count("streams.dropped hopeless"), *self.intake.drop(waiting.signed.cid)]
        sought = [parent for parent in waiting.missing if parent not in pending]
        is_new = any(parent not in self.fetcher for parent in sought)
        if is_new and pending.in_topic(topic.name) > self._config.walk:
            catch_up = self._catch_ups.get(topic.name)
            if catch_up is None:
                self._catch_up(topic, waiting.sender, waiting.signed.record.height)
            elif catch_up.start > topic.floor:
                topic.step *= STEP
                catch_up.begin(max(topic.floor, catch_up.start - topic.step))
                self.fetcher.drop_idle_claims(topic.name)
        if all(self.fetcher.add(topic.name, parent, waiting.sender, claimed=False) for parent in sought):
            return []
        return [Count("streams.too many fetches"), *self.intake.drop(waiting.signed.cid)]

    def is_sought(self, cid: bytes) -> bool:
        """Whether an event is looked for."""
        return cid in self.fetcher

    def reach(self, sender: int, topic: Topic, told: StreamStatus) -> list[StreamEffect]:
        """Look for what a peer has: its heads if they are near, else all since both agreed."""
        knows = self.intake.knows
        lacking = [h for h in told.heads if self._is_new(h) and not knows(topic.name, h)]
        known = max(topic.height, topic.floor)
        if topic.since is not None or (lacking and told.height > known + self._config.near):
            self._catch_up(topic, sender, told.height)
            return []
        if all(self.fetcher.add(topic.name, head, sender, claimed=True) for head in lacking):
            return []
        return [Count("streams.too many fetches")]

    def _catch_up(self, topic: Topic, peer: int, height: int) -> None:
        """Go through a peer's stream, at least from this height, unless that is done with another already."""
        other = self._catch_ups.get(topic.name)
        if other is not None and other.peer != peer and other.useful + IDLE_PERIODS <= self._cycle:
            self._standing.doubt(other.peer)
            self._leave(other)
        room = len(self._catch_ups) < CATCH_UPS and self._standing.is_fair(peer)
        if not room or topic.name in self._catch_ups:
            return
        blocked = self.intake.pending.in_topic(topic.name) > 0
        topic.step = topic.step * STEP if blocked else max(1, self._config.near)
        start = max(topic.floor, min(topic.height, height) - topic.step)
        start = start if topic.since is None else topic.since
        self._catch_ups[topic.name] = CatchUp(topic.name, peer, start, self._cycle)

    def _leave(self, catch_up: CatchUp) -> None:
        del self._catch_ups[catch_up.topic]
        self.fetcher.drop_idle_claims(catch_up.topic)

    def _has_room(self, catch_up: CatchUp) -> bool:
        claims = self.fetcher.open_claims(catch_up.topic, catch_up.peer)
        return 2 * claims < self._config.window and self.fetcher.room >= self._config.listed

    # What comes, and what does not.

    def take_list(self, sender: int, listed: StreamListed) -> list[StreamEffect]:
        """A peer lists what it has."""
        catch_up, topic = self._catch_ups.get(listed.topic), self._topics.get(listed.topic)
        if catch_up is None or topic is None or catch_up.peer != sender or not catch_up.expects(listed):
            return []
        if fault := catch_up.fault(listed, self._config.listed):
            self._leave(catch_up)
            return self._standing.blame(sender, fault)
        if not listed.cids:
            del self._catch_ups[listed.topic]
            lacks = catch_up.in_vain or self.fetcher.has_any(listed.topic)
            return [] if lacks else self._complete(topic)
        for cid in listed.cids:
            known = cid in self._hopeless or self.intake.knows(listed.topic, cid)
            if not known and not self.fetcher.add(listed.topic, cid, sender, claimed=True):
                catch_up.in_vain += 1
                break
        catch_up.advance(listed)
        return []

    def _complete(self, topic: Topic) -> list[StreamEffect]:
        """All that a peer has is here."""
        topic.since = None
        if not topic.joining:
            return []
        topic.stored_floor, topic.joining = topic.floor, 0
        return [SetFloor(topic.name, topic.stored_floor)]

    def take_answer(self, sender: int, answer: StreamEvents, now_us: int) -> list[StreamEffect]:
        """A peer sends what it was asked for; or else."""
        self.fetcher.heard(sender, now_us)
        catch_up = self._catch_ups.get(answer.topic)
        effects = self.give_up(self.fetcher.missing(sender, answer.missing, now_us))
        for signed in answer.events:
            cid, topic = signed.cid, signed.record.topic
            if topic == answer.topic and self.fetcher.was_asked(sender, cid):
                effects += self.intake.take(signed, sender, ack=False)
                self.fetcher.got(cid)
                if catch_up is not None and catch_up.peer == sender:
                    catch_up.useful = self._cycle
            elif not self.intake.knows(topic, cid):
                effects += self._standing.blame(sender, "event that was not asked for")
                effects += self.lose(sender, now_us)
        return effects

    def give_up(self, missing: Iterable[MissingEvent]) -> list[StreamEffect]:
        """These cannot be had."""
        return [effect for want in missing for effect in self._give_up(want)]

    def _give_up(self, want: MissingEvent) -> list[StreamEffect]:
        if want.claimed:
            catch_up = self._catch_ups.get(want.topic)
            if catch_up is not None and catch_up.peer == want.hint:
                catch_up.in_vain += 1
                if catch_up.is_hopeless:
                    self._standing.doubt(want.hint)
                    self._leave(catch_up)
            return [Count("streams.claims in vain")]
        topic = self._topics[want.topic]
        effects: list[StreamEffect] = [Count("streams.given up")]
        for waiting in self.intake.pending.awaiting(want.cid):
            height = waiting.signed.record.height
            if topic.may_lack(height, self.sources):
                continue
            self._standing.doubt(waiting.sender)
            status = topic.statuses.get(waiting.sender)
            is_own = (
                waiting.sender in waiting.ack_to
            )  # others may know of a floor that this node was not told
            if is_own and status is not None and status.floor < height:
                effects.append(Blame(waiting.sender, "event without its parents"))
        self._despair(want.cid, self._cycle)
        return effects + self.intake.do_without(want.cid, topic)

    def _despair(self, cid: bytes, cycle: int) -> None:
        """An event cannot be had, or follows one that cannot, which was given up in this period: neither is
        looked for again before both are."""
        self._hopeless[cid] = cycle
        if len(self._hopeless) > HOPELESS:
            del self._hopeless[next(iter(self._hopeless))]

    def _is_new(self, cid: bytes) -> bool:
        """Whether an event is neither looked for nor given up."""
        return cid not in self.fetcher and cid not in self._hopeless

    def kept(self, cid: bytes) -> None:
        """An event is kept now, however it came; what was given up for its sake may be had after all."""
        self.fetcher.got(cid)
        if self._hopeless.pop(cid, None) is not None:
            self._hopeless.clear()
