"""Limited polling in Quasar: what a member knows of a topic's recent events, and what it asks others for.

Events have no times of their own; a member notes when it first heard of one, and tells with an offer how long
ago that was, so that an event handed on from poll to poll does not grow younger. Nobody is given what is
older than its subscription, or than its last start.

A poll says who asks, since it comes from far away, and anybody can say that it is somebody else. So a member
answers an asker once in a while, and so many askers in that time: whoever polls in another's name gets it no
more answers than a member that polls a little too often would get.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vinecast.core.rule import word
from vinecast.protocols.directed_walk import Walk
from vinecast.protocols.directed_walk.rules import take_in
from vinecast.protocols.directed_walk.walker import pack_ids, unpack_ids

POLL_TIMER = "quasar.poll"
OFFERED_MAX = 64  # ours: events of a topic that a member offers, or says it has
ANSWERED_MAX = 256  # ours: askers that a member answers about a topic in half the time from poll to poll

_OFFER = np.dtype([("event", "<u8"), ("age_ms", "<u4")])
_MS_US = 1000
_AGE_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class QuasarPoll:
    """A member asks for what it missed; ``known`` are the events that it has, eight bytes each."""

    kind: ClassVar[str] = "quasar.poll"
    topic: int
    asker: int
    known: bytes
    walk: Walk


@dataclass(frozen=True, slots=True)
class QuasarAnswer:
    """What the asker may have missed: of each event its number and its age."""

    kind: ClassVar[str] = "quasar.answer"
    topic: int
    offers: bytes


class Missed:
    """A member's notes on one topic.

    since_us: from when on it wants events; offer_us: for how long it offers them; asked: how many members a
    poll avoids, because they answered lately; rest_us: from one answer to an asker to the next
    """

    def __init__(self, since_us: int, offer_us: int, asked: int, rest_us: int) -> None:
        self.since_us = since_us
        self.polls = 0
        """How often it has polled."""
        self.waiting = False
        """Whether the last poll has not been answered."""
        self.asked = np.zeros(asked, dtype=np.uint64)
        self.asked_count = 0
        self._offer_us = offer_us
        self._rest_us = rest_us
        self._answered_us: OrderedDict[int, int] = OrderedDict()
        """Asker -> when it was answered, the last one at the end."""
        self._heard: OrderedDict[int, int] = OrderedDict()
        """Event -> when it was first heard of."""

    def has(self, event: int, heard_us: int) -> None:
        """Note an event."""
        self._heard[event] = heard_us
        while len(self._heard) > OFFERED_MAX:
            self._heard.popitem(last=False)

    def known(self, now_us: int) -> bytes:
        """The recent events that it has."""
        recent = [event for event, heard_us in self._heard.items() if now_us - heard_us < self._offer_us]
        return pack_ids(np.array(recent, dtype=np.uint64))

    def ask(self) -> bytes:
        """Begin a poll; the ids that it avoids. If nobody answered the last one, there is nobody to avoid."""
        if self.waiting:
            self.asked_count = 0
        self.waiting = True
        self.polls += 1
        return pack_ids(self.asked[: self.asked_count])

    def answered(self, member: int, now_us: int) -> bool:
        """Note who answered; False if nothing was asked."""
        if not self.waiting:
            return False
        self.waiting = False
        self.asked_count = take_in(self.asked, self.asked_count, word(member))
        return True

    def may_answer(self, asker: int, now_us: int) -> bool:
        """Whether whoever is said to ask may be answered now; if so, it is noted."""
        while self._answered_us and now_us - next(iter(self._answered_us.values())) >= self._rest_us:
            self._answered_us.popitem(last=False)
        if asker in self._answered_us or len(self._answered_us) >= ANSWERED_MAX:
            return False
        self._answered_us[asker] = now_us
        return True

    def offer(self, known: bytes, now_us: int) -> bytes:
        """Recent events that somebody who knows these has not."""
        have = set(unpack_ids(known, OFFERED_MAX)[: len(known) // 8].tolist())
        found = [
            (event, min(max(now_us - heard_us, 0) // _MS_US, _AGE_MAX))
            for event, heard_us in self._heard.items()
            if event not in have and now_us - heard_us < self._offer_us
        ]
        return np.array(found, dtype=_OFFER).tobytes()

    def wanted(self, offers: bytes, now_us: int) -> list[tuple[int, int]]:
        """Events out of an answer, and when they were first heard of; none from before it subscribed."""
        whole = offers[: min(len(offers) // _OFFER.itemsize, OFFERED_MAX) * _OFFER.itemsize]
        told = [
            (int(event), now_us - int(age_ms) * _MS_US)
            for event, age_ms in np.frombuffer(whole, dtype=_OFFER).tolist()
        ]
        return [(event, heard_us) for event, heard_us in told if heard_us >= self.since_us]
