"""The on-line log as S4 §5.5.1 writes it, and the sessions that it tells of.

A node writes ON when it comes on line, BO now and then while it is, and OFF when it leaves in good order.
After a crash the last word is a BO (or the ON itself), and all time after it is presumed to have been off
line.

Clocks jump. A mark that is earlier than one before it says nothing that could be trusted: it neither prolongs
a session nor takes anything away from one, so that sessions come out in order and apart whatever the log
says. A BO or OFF without an ON is such a mark, too.
"""

from collections.abc import Iterable
from enum import StrEnum


class OnlineMark(StrEnum):
    """What a line of the log says."""

    ON = "ON"
    STILL_ON = "BO"
    OFF = "OFF"


def sessions_of(log: Iterable[tuple[OnlineMark, int]]) -> list[tuple[int, int]]:
    """When the node was on line, by its log: (on, off), ascending and apart, without empty ones."""
    sessions: list[tuple[int, int]] = []
    begin: int | None = None
    last: int | None = None  # the latest time that any mark has told
    for mark, time in log:
        if mark == OnlineMark.ON:
            begin = time if last is None else max(time, last)
        elif begin is not None and time > begin:
            _append(sessions, begin, time)
            begin = time
        if mark == OnlineMark.OFF:
            begin = None
        last = time if last is None else max(time, last)
    return sessions


def _append(sessions: list[tuple[int, int]], on: int, off: int) -> None:
    """Add a stretch of time, as a part of the last session if it follows at once."""
    if sessions and sessions[-1][1] == on:
        sessions[-1] = (sessions[-1][0], off)
    else:
        sessions.append((on, off))
