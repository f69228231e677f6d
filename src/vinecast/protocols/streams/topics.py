"""What a node knows of one stream that it follows: its own part, and what others tell of theirs."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.core.log.streams import Streams
from vinecast.protocols.streams.messages import EARLIEST, NOW, Follow, StreamStatus

HEADS_TOLD = 64
"""Heads in one message (ours): four times what one event can merge."""
TELLERS = 16
"""Peers whose last words are remembered (ours)."""
ENOUGH = 3
"""Peers that must have told something before it is believed, where there are so many (ours)."""
PATIENCE, LONG = 3, 8
"""Periods after which all that are known must do, and whoever has told (ours)."""
CONTACTS = 8
"""Peers that asked or told something of the stream lately (ours)."""


class PeerStreamStatus(NamedTuple):
    """How far a peer has come in a stream, as it told last."""

    height: int
    floor: int
    bottom: int


class Topic:
    """One stream that a node follows."""

    def __init__(self, follow: Follow, streams: Streams) -> None:
        self.name = follow.topic
        self.reads = follow.reads
        self.start = follow.start
        self.size = follow.size
        """Bytes kept, where it is kept for others."""
        state = streams.state(self.name)
        self.stored_floor = state.floor
        self.joining = 0
        """The floor for as long as all that others still have is looked for; it is stored when that is here,
        so that a crash in between forgets it."""
        self.height = max((streams.height_of(self.name, head) for head in state.heads), default=0)
        """Of the highest event."""
        self.opened = state.last > 0 or state.floor > 0
        """Whether it is settled where the stream begins here."""
        self.waited = 0
        """Periods since others could have told."""
        self.was_quiet = False
        """Whether others may believe, as this node did, that the stream is empty."""
        self.since: int | None = None
        """The height above which all is to be looked through again."""
        self.step = 1
        """How far below what is known the last catching up began."""
        self.replicas: tuple[int, ...] = ()
        self.contacts: dict[int, None] = {}
        self.statuses: dict[int, PeerStreamStatus] = {}
        self.is_provided = False
        """Whether others are let know that this node has the stream."""
        self.providers: tuple[int, ...] = ()
        """Who else is, as far as it was found out."""
        self.provided_cycle: int | None = None
        """The period in which that was last asked."""

    @property
    def floor(self) -> int:
        """At or below this height missing parents are done without."""
        return max(self.stored_floor, self.joining)

    @property
    def told(self) -> int:
        """The greatest height that others have told of."""
        return max((status.height for status in self.statuses.values()), default=0)

    @property
    def is_visited(self) -> bool:
        """Whether the node only publishes on it: then it is in a hurry to know the heads."""
        return self.start == NOW and not self.reads

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to tell: the stream is known to be empty, and nobody told of events.
        Whoever has something tells."""
        empty = self.opened and not (self.height or self.floor) and self.since is None
        return empty and not self.told

    def begin_again(self) -> None:
        """The node was away: a stream that was empty may be so no longer, so others are asked again."""
        self.statuses.clear()
        self.waited = 0
        if self.opened and not (self.height or self.floor):
            self.opened, self.start = False, EARLIEST

    def contact(self, peer: int) -> None:
        """A peer takes part in the stream."""
        self.contacts.pop(peer, None)
        self.contacts[peer] = None
        if len(self.contacts) > CONTACTS:
            del self.contacts[next(iter(self.contacts))]

    def hear(self, peer: int, told: StreamStatus) -> None:
        """A peer tells how far it has come."""
        self.statuses.pop(peer, None)
        self.statuses[peer] = PeerStreamStatus(told.height, told.floor, told.bottom)
        if len(self.statuses) > TELLERS:
            del self.statuses[next(iter(self.statuses))]

    def settle(self, sources: Callable[[str], Iterable[int]]) -> bool:
        """Settle where the stream begins here by what others tell; whether its floor rises.

        Where others have forgotten what came first, parents of what is left may be gone: they are not missed
        up to the height at which this node joins. All that is still there is looked for from the bottom.
        """
        if not self.statuses:
            self.opened |= self.waited > PATIENCE  # nobody else is there
            return False
        if not self.is_told(sources):
            return False
        begins_now = not self.opened and self.start == NOW
        self.opened = True
        most = self.told_by_most()
        if (most.floor <= self.height and not begins_now) or most.height < self.floor:
            return False
        above = min(most.height + 1, NUMBER_MAX)
        if begins_now:
            self.stored_floor = above if most.height else 0  # an empty stream is had from its beginning
        else:
            self.joining, self.since = above, most.bottom
        return True

    def is_told(self, sources: Callable[[str], Iterable[int]]) -> bool:
        """Whether so many others have told that a liar among them does not matter; where few are there, all
        of them, or all that ever will."""
        if len(self.statuses) >= ENOUGH or self.waited >= LONG:
            return bool(self.statuses)
        patient = self.is_visited or self.waited >= PATIENCE
        return patient and all(peer in self.statuses for peer in sources(self.name))

    def told_by_most(self) -> PeerStreamStatus:
        """What others tell, number by number: the lower median. No minority decides it, and to begin too low
        only costs traffic."""
        middle = (len(self.statuses) - 1) // 2
        return PeerStreamStatus(
            *(sorted(numbers)[middle] for numbers in zip(*self.statuses.values(), strict=True))
        )

    def may_lack(self, height: int, sources: Callable[[str], Iterable[int]]) -> bool:
        """Whether an event at this height may name parents that nobody has any longer."""
        if height <= self.floor:
            return True
        if not self.is_told(sources):
            return False
        most = self.told_by_most()
        return most.floor > 0 and height <= most.height + 1

    def telling(self, streams: Streams, turn: int) -> StreamStatus:
        """What to tell others."""
        heads = streams.state(self.name).heads
        if len(heads) > HEADS_TOLD:
            first = turn * HEADS_TOLD % len(heads)
            heads = (heads[first:] + heads[:first])[:HEADS_TOLD]
        lowest = streams.in_order(self.name, (0, b""), 1)
        bottom = lowest[0].signed.record.height - 1 if lowest else self.floor
        return StreamStatus(self.name, heads, self.height, self.floor, bottom)
