"""Events that are looked for: whom to ask next, who is late, and when to give up.

An event is wanted for one of two reasons. A signed event names it as a parent: then whoever may have it is
asked, one after the other: its sender, the topic's neighbours and replicas; and when these were asked in
vain, those who provide the stream, once. Or a peer claimed, unsigned, to have it: then only that peer is
asked, so that nobody can make a node ask all others for what does not exist.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from vinecast.core.events import Send
from vinecast.core.machine import NOBODY
from vinecast.protocols.streams.config import StreamsConfig
from vinecast.protocols.streams.messages import StreamWant

CLAIM_TRIES = 3
"""How often a peer is asked for what it claimed to have (ours)."""
BACK_OFF_MAX = 2
"""Doublings of the time for an answer (ours): one each time that all were asked."""
FINDING = 8
"""Times for an answer that it may take to find providers (ours): after that there are none."""


class SearchStage(Enum):
    """How far the search for those who provide an event's stream has come."""

    UNNEEDED = 0
    SOUGHT = 1
    FOUND = 2


@dataclass(slots=True)
class MissingEvent:
    """An event that is looked for."""

    topic: str
    cid: bytes
    hint: int
    """Who should have it."""
    claimed: bool
    """Whether only that peer says so."""
    tries: int = 0
    rounds: int = 0
    """How often all were asked."""
    tried: list[int] = field(default_factory=list)
    """Who was asked this time."""
    denied: set[int] = field(default_factory=set)
    """Who was asked in vain, ever."""
    stage: SearchStage = SearchStage.UNNEEDED
    providers: list[int] = field(default_factory=list)
    """Those who provide the stream and were not asked yet."""
    asked_of: int = NOBODY
    asked_us: int = 0
    after_us: int = 0
    """Not to be asked for before."""
    sought_until_us: int = 0
    """How long it waits to be told of providers."""


class EventFetcher:
    """Looks for missing events. ``sources`` says who else may have a topic's events, the best first."""

    def __init__(self, config: StreamsConfig, sources: Callable[[str], Sequence[int]]) -> None:
        self._config = config
        self._sources = sources
        self._open: dict[bytes, MissingEvent] = {}
        self._idle: dict[bytes, None] = {}
        """Those that nobody is asked for at the moment, the oldest first."""
        self._asked: dict[int, dict[bytes, None]] = {}
        """Peer → what it was asked for, and has not answered."""
        self._heard_us: dict[int, int] = {}
        """Peer → when it last answered something, while it is asked for more."""
        self._lately: OrderedDict[tuple[int, bytes], None] = OrderedDict()
        """Who was asked for what, the latest last: answers may come late."""
        self._needy: dict[str, None] = {}
        """Topics of which somebody else must be found who has them."""

    def __contains__(self, cid: bytes) -> bool:
        return cid in self._open

    def __len__(self) -> int:
        return len(self._open)

    @property
    def room(self) -> int:
        """How many more may be looked for."""
        return self._config.fetches - len(self._open)

    def add(self, topic: str, cid: bytes, hint: int, claimed: bool) -> bool:
        """Look for an event; whether there was room."""
        known = self._open.get(cid)
        if known is not None:
            known.claimed &= claimed
            return True
        if not self.room:
            return False
        self._open[cid] = MissingEvent(topic, cid, hint, claimed)
        self._idle[cid] = None
        return True

    def was_asked(self, peer: int, cid: bytes) -> bool:
        """Whether a peer was asked for this lately."""
        return (peer, cid) in self._lately

    def got(self, cid: bytes) -> None:
        """It came, or is not needed any longer."""
        want = self._open.pop(cid, None)
        if want is not None:
            self._idle.pop(cid, None)
            self._release(want)

    def heard(self, peer: int, now_us: int) -> None:
        """A peer has answered something: what else it was asked for may come yet."""
        if peer in self._asked:
            self._heard_us[peer] = now_us

    def missing(self, peer: int, cids: Iterable[bytes], now_us: int) -> list[MissingEvent]:
        """A peer does not have these; those that are given up for that."""
        wants = [self._open[cid] for cid in cids if cid in self._open and self._open[cid].asked_of == peer]
        return [want for want in wants if self._fail(want, now_us)]

    def lost(self, peer: int, now_us: int) -> list[MissingEvent]:
        """A peer is gone, or not to be trusted; what is given up for that."""
        return self.missing(peer, list(self._asked.get(peer, ())), now_us)

    def overdue(self, now_us: int) -> list[MissingEvent]:
        """Take back what was not answered in time; what is given up for that."""
        late = [
            want
            for cids in self._asked.values()
            for want in map(self._open.__getitem__, cids)
            if now_us >= max(want.asked_us, self._heard_us.get(want.asked_of, 0)) + self._patience(want)
        ]
        given_up = [want for want in late if self._fail(want, now_us)]
        for want in [self._open[cid] for cid in self._idle if self._is_last(self._open[cid], now_us)]:
            self.got(want.cid)
            given_up.append(want)
        return given_up

    def drop_idle_claims(self, topic: str) -> None:
        """Forget what was claimed and not asked for yet: a list from further below brings it again."""
        for cid in [c for c in self._idle if self._open[c].claimed and self._open[c].topic == topic]:
            self.got(cid)

    def open_claims(self, topic: str, peer: int) -> int:
        """What a peer claimed to have of a topic and has not sent."""
        return sum(want.claimed and want.topic == topic and want.hint == peer for want in self._open.values())

    def has_any(self, topic: str) -> bool:
        """Whether anything of a topic is looked for."""
        return any(want.topic == topic for want in self._open.values())

    def take_needy(self) -> list[str]:
        """Topics that have missing events for which all were asked in vain, since this was last asked."""
        needy, self._needy = self._needy, {}
        return list(needy)

    def offer(self, topic: str, peers: Iterable[int], now_us: int) -> None:
        """These provide a topic's stream: whatever of it was asked for in vain is asked of them."""
        peers = tuple(peers)
        for want in self._open.values():
            if want.topic == topic and want.stage is SearchStage.SOUGHT:
                want.stage = SearchStage.FOUND
                want.providers = [peer for peer in peers if peer not in want.denied]
                if want.providers:
                    want.after_us = now_us

    def peers(self) -> set[int]:
        """Who is asked, or should have something."""
        named = (peer for want in self._open.values() for peer in (want.hint, *want.providers))
        return {*self._asked, *named}

    def leave(self, topic: str) -> None:
        """Look for nothing of a topic any longer."""
        for cid in [want.cid for want in self._open.values() if want.topic == topic]:
            self.got(cid)

    def ask(self, now_us: int) -> list[Send]:
        """Ask for what nobody is asked for, as far as its time has come."""
        chosen: dict[tuple[int, str], list[bytes]] = {}
        for cid in list(self._idle):
            want = self._open[cid]
            if want.after_us > now_us or self._is_spent(want):
                continue
            peer = self._choose(want)
            if peer == NOBODY:
                want.tries += 1
                self._rest(want, now_us)
                continue
            asked = self._asked.setdefault(peer, {})
            if len(asked) >= self._config.window:
                continue
            if want.providers:
                del want.providers[0]
            asked[cid] = None
            del self._idle[cid]
            want.asked_of, want.asked_us = peer, now_us
            self._note(peer, cid)
            chosen.setdefault((peer, want.topic), []).append(cid)
        most = self._config.asked
        return [
            Send(peer, StreamWant(topic, tuple(cids[i : i + most])))
            for (peer, topic), cids in chosen.items()
            for i in range(0, len(cids), most)
        ]

    def _note(self, peer: int, cid: bytes) -> None:
        self._lately[peer, cid] = None
        self._lately.move_to_end((peer, cid))
        if len(self._lately) > 2 * self._config.fetches:
            self._lately.popitem(last=False)

    def _choose(self, want: MissingEvent) -> int:
        """Whom to ask: who should have it, then others, then those who provide it, then all over again."""
        if want.providers:
            return want.providers[0]
        if want.hint != NOBODY and (want.claimed or want.hint not in want.tried):
            return want.hint
        sources = self._sources(want.topic)
        return next((peer for peer in sources if peer not in want.tried), want.hint)

    def _patience(self, want: MissingEvent) -> int:
        return self._config.answer_us << min(want.rounds, BACK_OFF_MAX)

    def _is_spent(self, want: MissingEvent) -> bool:
        """Whether it was asked for often enough of all that are known."""
        tries = CLAIM_TRIES if want.claimed else self._config.tries
        return want.tries >= tries and not want.providers

    def _is_last(self, want: MissingEvent, now_us: int) -> bool:
        """Whether it is given up: providers are waited for, if not for ever."""
        waits = want.stage is SearchStage.SOUGHT and now_us < want.sought_until_us
        return self._is_spent(want) and not waits

    def _fail(self, want: MissingEvent, now_us: int) -> bool:
        """A try was in vain; whether it was the last."""
        want.tried.append(want.asked_of)
        want.denied.add(want.asked_of)
        self._release(want)
        want.tries += 1
        if want.tries >= self._config.tries:
            self._need_providers(want, now_us)
        if self._is_last(want, now_us):
            del self._open[want.cid]
            return True
        self._idle[want.cid] = None
        if want.claimed or all(peer in want.tried for peer in self._sources(want.topic)):
            self._rest(want, now_us)
        return False

    def _rest(self, want: MissingEvent, now_us: int) -> None:
        """All were asked; begin again after a while."""
        want.rounds += 1
        want.tried.clear()
        want.after_us = now_us + self._patience(want)
        self._need_providers(want, now_us)

    def _need_providers(self, want: MissingEvent, now_us: int) -> None:
        if want.stage is SearchStage.UNNEEDED and not want.claimed:
            want.stage = SearchStage.SOUGHT
            want.sought_until_us = now_us + FINDING * self._config.answer_us
            self._needy[want.topic] = None

    def _release(self, want: MissingEvent) -> None:
        asked = self._asked.get(want.asked_of)
        if asked is not None:
            asked.pop(want.cid, None)
            if not asked:
                del self._asked[want.asked_of]
                self._heard_us.pop(want.asked_of, None)
        want.asked_of = NOBODY
