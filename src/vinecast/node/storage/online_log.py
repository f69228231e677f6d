"""The on-line log: when this node was on line, also when it crashed or its clock jumped (S4 §5.5.1).

A node writes that it came on line (ON), now and then that it still is (BO), and that it leaves (OFF). Only
the last BO before a crash counts, so that the three are kept as one *session*: when it began, when it was
last known to go on, and whether it ended in good order. After a crash the time since the last mark is
presumed to have been off line, as S4 does.

The wall clock may jump, or the whole machine sleep. A mark that comes before the last one or long after it
therefore ends the session where it was last known to go on, and begins another. Nothing that was written is
changed later; whoever reads the log gets the sessions in order, joined where they overlap, and without those
that lie in the future, where a wrong clock once put them.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vinecast.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Session:
    """A stretch of time on line, by the wall clock, in microseconds since the epoch."""

    number: int
    on_us: int
    """ON."""
    last_us: int
    """The last BO, or OFF."""
    graceful: bool = False
    """Whether it ended with OFF."""


class OnlineLog:
    """A node's sessions, the oldest forgotten. Each mark returns the session that it changed."""

    def __init__(self, sessions_max: int, gap_us_max: int, sessions: Iterable[Session] = ()) -> None:
        self._sessions = deque(sessions, sessions_max)
        self._gap_us_max = gap_us_max
        self._number = max((session.number for session in self._sessions), default=0)
        self._is_on = False

    @property
    def oldest(self) -> int:
        """The number of the oldest session that is kept."""
        return self._sessions[0].number if self._sessions else self._number + 1

    def mark_on(self, now_us: int) -> Session:
        """ON: the node came on line."""
        if self._is_on:
            raise InputError("the node is on line already")
        self._is_on = True
        self._number += 1
        self._sessions.append(Session(self._number, now_us, now_us))
        return self._sessions[-1]

    def mark_still_on(self, now_us: int) -> Session:
        """BO: the node is still on line."""
        session = self._current()
        if self._follows(session, now_us):
            self._sessions[-1] = replace(session, last_us=now_us)
            return self._sessions[-1]
        self._is_on = False
        return self.mark_on(now_us)

    def mark_off(self, now_us: int) -> Session:
        """OFF: the node leaves in good order."""
        session = self._current()
        last_us = now_us if self._follows(session, now_us) else session.last_us
        self._sessions[-1] = replace(session, last_us=last_us, graceful=True)
        self._is_on = False
        return self._sessions[-1]

    def _current(self) -> Session:
        if not self._is_on:
            raise InputError("the node is not on line")
        return self._sessions[-1]

    def _follows(self, session: Session, now_us: int) -> bool:
        return 0 <= now_us - session.last_us <= self._gap_us_max

    def sessions(self) -> tuple[Session, ...]:
        """What was written, in the order of writing."""
        return tuple(self._sessions)

    def online(self, now_us: int) -> list[tuple[int, int]]:
        """When the node was on line up to now: (on, off) in order and apart, for
        ``core/arrays/regularity``."""
        spans: list[tuple[int, int]] = []
        for on, off in sorted((s.on_us, min(s.last_us, now_us)) for s in self._sessions if s.on_us < now_us):
            if spans and on <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(off, spans[-1][1]))
            elif on < off:
                spans.append((on, off))
        return spans
