"""Catching up: going through a peer's stream from a place where both agree, in the order that all nodes
share.

A peer lists what it has after a place, and what is not known of it is asked for in that order, so that
parents come before their children however long the stream is. Where both agree is not known beforehand. The
first list begins a little below one's own highest event, which is right for a node that was off line; if
events then turn up whose parents lie further below, the next one begins lower, by ever larger steps.
"""

from vinecast.core.events import Send
from vinecast.core.log.blocks import is_cid
from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.protocols.streams.messages import StreamList, StreamListed

STEP = 8
"""By how much steps grow (ours)."""
LIST_TRIES = 4
"""How often a list is asked for (ours)."""
IN_VAIN_MAX = 8
"""Listed events that may fail to come before a peer is left (ours)."""
LISTS = 16
"""Lists that a peer is asked for in one period (ours): it may list the same for ever."""

LAST = b"\xff"
"""Comes after every content id."""


class CatchUp:
    """Going through the stream of one topic with one peer."""

    def __init__(self, topic: str, peer: int, start: int, cycle: int) -> None:
        self.topic = topic
        self.peer = peer
        self.useful = cycle
        """The period in which the peer last sent something new."""
        self.in_vain = 0
        """Listed events that did not come."""
        self.left = LISTS
        """Lists that may still be asked for in this period."""
        self._asked_us: int | None = None
        self.begin(start)

    @property
    def may_ask(self) -> bool:
        """Whether no list is on its way, and one may be asked for."""
        return self._asked_us is None and self.left > 0

    def ask(self, now_us: int) -> Send:
        """Ask for the next list."""
        self._asked_us = now_us
        self._tries += 1
        self.left -= 1
        height, cid = self._cursor
        return Send(self.peer, StreamList(self.topic, height, cid))

    def is_late(self, now_us: int, answer_us: int) -> bool:
        """Whether a list has not come in time."""
        return self._asked_us is not None and now_us >= self._asked_us + (answer_us << (self._tries - 1))

    @property
    def is_hopeless(self) -> bool:
        """Whether the peer should be left."""
        return self._tries >= LIST_TRIES or self.in_vain > IN_VAIN_MAX

    def expects(self, listed: StreamListed) -> bool:
        """Whether this is the list that was asked for."""
        return self._asked_us is not None and listed.after == self._cursor

    def fault(self, listed: StreamListed, most: int) -> str:
        """What is wrong with the list that was asked for, if anything is."""
        if len(listed.cids) > most:
            return "list over its limit"
        if not all(map(is_cid, listed.cids)) or len(set(listed.cids)) < len(listed.cids):
            return "list of what is not events"
        after, last = self._cursor, (listed.height, listed.cids[-1]) if listed.cids else (0, b"")
        if listed.cids and not (after < last and last[0] <= NUMBER_MAX):
            return "list out of order"
        return ""

    def advance(self, listed: StreamListed) -> None:
        """Go on after a list."""
        self._cursor = (listed.height, listed.cids[-1])
        self._asked_us, self._tries = None, 0

    def begin(self, start: int) -> None:
        """Begin (again) with what lies above this height."""
        self.start = start
        self._cursor = (start, LAST)
        self._asked_us, self._tries = None, 0
