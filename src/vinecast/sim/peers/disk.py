"""The disk of a simulated node: what it keeps of streams, and of its own, and how much of that a crash
undoes.

What is kept can be read back at once. It gathers for ``gather_s``; then a commit begins, takes ``commit_s``,
and makes safe what was there when it began. What is kept while it goes on waits for the next one, as in the
store of a live node (``node/storage/streams_writer``). A disk that is full or fails commits nothing, and
tries the same again after an ever longer wait. Bits that flip are found when an event is read: its block does
not have its content id any longer. It is sent to nobody, and readers of the stream are told so. Reads may
fail, all of them (``sim/peers/stream_port``). A node without a disk has all this in memory, and comes back
with nothing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.retention import Retention
from vinecast.core.log.stream_buffer import Place, size_of
from vinecast.core.log.streams import KeptEvent
from vinecast.core.machine import SECOND_US
from vinecast.peer.address import Address

RETRY_S_MIN, RETRY_S_MAX = 0.5, 30.0
"""Between two commits that fail, as in ``StreamStoreConfig``."""
REFUSED = "refused: too much waits to be written"
SEQUENCE_BLOCK = 65_536
"""Sequence numbers that are reserved at a time, as in ``StoreConfig``."""


@dataclass(frozen=True, slots=True)
class DiskConfig:
    """How a simulated disk is. The defaults are a live node's, with a disk that takes its time."""

    gather_s: float = 0.005
    """How long what is kept gathers before a commit begins, as in ``StreamStoreConfig``."""
    commit_s: float = 0.01
    """How long a commit takes."""
    waiting_bytes_max: int = 16 * 1024 * 1024
    """When so much waits to be written, nothing more is taken."""
    is_memory: bool = False
    """A node without a folder: what is kept counts as safe at once, and is gone when the node ends."""


@dataclass(slots=True)
class NodeNotes:
    """What a node writes down of its own, besides streams (``node/storage/store``)."""

    card_version: int = 0
    sequence: int = 0
    """The last that a publication had."""
    reserved: int = 0
    """The last that one may have had when a crash comes."""
    subscriptions: dict[str, None] = field(default_factory=dict)
    met: dict[Address, None] = field(default_factory=dict)
    """Where peers are that it met, the last first."""
    sessions: list[tuple[int, int]] = field(default_factory=list)
    """From when to when it was on line."""

    def copy(self) -> "NodeNotes":
        """The notes as they are now."""
        subscriptions, met = dict(self.subscriptions), dict(self.met)
        numbers = self.card_version, self.sequence, self.reserved
        return NodeNotes(*numbers, subscriptions, met, list(self.sessions))


class SimulatedDisk(MemoryStreams):
    """One node's disk: ``StreamPlace``. ``after`` has something done so many microseconds later, ``kept`` is
    told what is safe."""

    def __init__(
        self,
        config: DiskConfig,
        after: Callable[[int, Callable[[], object]], object],
        kept: Callable[[tuple[bytes, ...]], object],
    ) -> None:
        super().__init__()
        self.counters: Counter[str] = Counter()
        self.notes = NodeNotes()
        self.fails = False
        """Whether it writes nothing at the moment: it is full, or broken."""
        self.reads_fail = False
        """Whether nothing can be read from it at the moment."""
        self.damaged: set[bytes] = set()
        """Events with a bit that flipped."""
        self.synced: set[bytes] = set()
        """Events that a commit made safe, at any time."""
        self._config, self._after, self._kept = config, after, kept
        self._safe_notes = self._flying_notes = self.notes.copy()
        self._noted_bytes = self._flying_bytes = 0
        self._is_due = False
        """Whether a commit is under way, or will begin."""
        self._is_flying = self._has_more = False
        """Whether a batch was closed and is not safe yet; whether something was noted since."""
        self._retry_s = RETRY_S_MIN
        self._writer = 0
        """Which one writes: what an earlier one had begun is over."""

    # What the node asks.

    @property
    def is_full(self) -> bool:
        """Whether nothing more is taken."""
        return self._noted_bytes + self._flying_bytes >= self._config.waiting_bytes_max

    @property
    def is_crowded(self) -> bool:
        """Whether half of what may wait to be written does."""
        return self._noted_bytes + self._flying_bytes >= self._config.waiting_bytes_max // 2

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        """Keep events: readable at once, safe later."""
        if self.is_full:
            self.counters[REFUSED] += len(events)
            return
        self._noted_bytes += sum(size_of(signed) for signed in events if not self.position_of(signed.cid))
        super().keep(events, now_us)
        self.write()

    def set_floor(self, topic: str, floor: int) -> None:
        """Do without what a stream has at or below this height."""
        super().set_floor(topic, floor)
        self.write()

    def ack(self, consumer: str, topic: str, position: int) -> None:
        """Note that a consumer is done with all up to a position."""
        super().ack(consumer, topic, position)
        self.write()

    def write(self) -> None:
        """Something was noted: commit it soon, or with the next commit."""
        self._has_more = True
        if not self._is_due:
            self._is_due = True
            self._do_after(self._config.gather_s, self._begin)

    def next_sequence(self) -> int:
        """A number for an event of this node, never given before: numbers are reserved in blocks, and a crash
        skips what was left of one (``node/storage/store``)."""
        notes = self.notes
        notes.sequence += 1
        if notes.sequence + SEQUENCE_BLOCK // 2 >= notes.reserved:
            notes.reserved += SEQUENCE_BLOCK
            self.write()
        return notes.sequence

    def make_room(self) -> None:
        """See ``StreamPlace``: retention does that."""

    async def durable(self) -> None:
        """See ``StreamPlace``: nobody waits in a simulation."""

    def is_safe(self, cid: bytes) -> bool:
        """Whether it keeps an event, and a crash does not undo that."""
        return self.position_of(cid) > 0 and not self.is_unsafe(cid)

    def knows(self, topic: str) -> bool:
        """Whether there is anything of a stream."""
        return topic in self._streams

    def has_in_memory(self, topic: str, cid: bytes) -> bool:
        """Whether the height of an event is known without reading: it is not safe yet, or it is a head."""
        return self.is_unsafe(cid) or cid in self._streams[topic].known.summary.heads

    # Reading what may be damaged.

    def get(self, cid: bytes) -> SignedEvent | None:
        """An event that is kept; None where it is damaged."""
        found = super().get(cid)
        return None if found is None or found.cid in self.damaged else found

    def after(self, topic: str, position: int, count: int) -> list[KeptEvent]:
        """The next events after a position. InputError when one of them is damaged."""
        found = super().after(topic, position, count)
        if self.damaged and any(one.signed.cid in self.damaged for one in found):
            raise InputError("the disk is damaged: an event is not what was written")
        return found

    def in_order(self, topic: str, after: Place, count: int) -> list[KeptEvent]:
        """The next events after a place that are not damaged."""
        found = super().in_order(topic, after, count)
        return [one for one in found if one.signed.cid not in self.damaged] if self.damaged else found

    def readable(self) -> list[SignedEvent]:
        """All that it keeps and can be read, for who observes."""
        every = (
            one.signed
            for topic in self.topics()
            for one in super(SimulatedDisk, self).after(topic, 0, 1 << 30)
        )
        return [signed for signed in every if signed.cid not in self.damaged]

    # What happens to it.

    def begin(self) -> None:
        """A process opens it: what was not safe is not there, and numbers are reserved before anything."""
        self._writer += 1
        self.crash()
        notes = self._safe_notes
        notes.sequence, notes.reserved = notes.reserved, notes.reserved + SEQUENCE_BLOCK
        self.notes = notes.copy()
        self._noted_bytes = self._flying_bytes = 0
        self._is_due = self._is_flying = self._has_more = False
        self._retry_s = RETRY_S_MIN

    def sync(self) -> None:
        """The node ends in good order: everything is written, unless the disk fails."""
        if self.fails and not self._config.is_memory:
            return
        self._writer += 1
        self.notes.reserved = self.notes.sequence
        for _ in range(2):  # what is under way, and what waits for it
            self._close_batch()
            self._make_safe()

    def retain_all(self, retention: Retention, now_us: int) -> None:
        """Keep all streams within their limits; one round is left out where nothing can be read."""
        for topic in () if self.reads_fail else self.topics():
            told = self.retain(topic, retention, now_us)
            if told is not None:
                self.counters["forgotten"] += told.events
                self.write()

    def _may_go(self, cid: bytes) -> bool:
        """Whether retention may take an event: not before it is written, as on a live node."""
        return self._config.is_memory or not self.is_unsafe(cid)

    def flip(self, cid: bytes) -> None:
        """A bit of an event flips."""
        self.damaged.add(cid)

    def _do_after(self, wait_s: float, action: Callable[[], None]) -> None:
        writer = self._writer
        wait_us = 0 if self._config.is_memory else round(wait_s * SECOND_US)
        self._after(wait_us, lambda: action() if writer == self._writer else None)

    def _begin(self) -> None:
        """A commit begins, of what is there now; the same as before where that failed."""
        self._close_batch()
        if self._config.is_memory:
            self._end()
        else:
            self._do_after(self._config.commit_s, self._end)

    def _end(self) -> None:
        if self.fails and not self._config.is_memory:
            self.counters["commits failed"] += 1
            self._do_after(self._retry_s, self._begin)
            self._retry_s = min(2 * self._retry_s, RETRY_S_MAX)
            return
        self._retry_s = RETRY_S_MIN
        self._is_due = self._has_more
        if self._is_due:
            self._do_after(self._config.gather_s, self._begin)
        self._make_safe()

    def _close_batch(self) -> None:
        """What is there now is what the commit covers, unless one goes on or is tried again."""
        if self._is_flying:
            return
        self._is_flying, self._has_more = True, False
        self.close_batch()
        self._flying_notes = self.notes.copy()
        self._flying_bytes, self._noted_bytes = self._noted_bytes, 0

    def _make_safe(self) -> None:
        self._is_flying = False
        self._safe_notes = self._flying_notes
        self._flying_bytes = 0
        cids = self.commit()
        if cids:
            self.synced.update(cids)
            self.counters["commits"] += 1
            self.counters["events"] += len(cids)
            self._kept(cids)
