"""How a peer sees the disk of its node: as a live one sees its store (``node/storage/streams_view``).

As long as the disk can be read there is no difference. Where reads fail, whatever lies in the file cannot be
had: InputError, as from ``node/storage/streams_reader``. What a live store has in memory is there all the
same: what is not committed yet, and of streams that the process has looked at before their state, their heads
and how far consumers are. Whoever observes a run asks the disk itself.
"""

from collections import Counter
from collections.abc import Sequence

from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.event_record import topic_fault
from vinecast.core.log.stream_buffer import Place
from vinecast.core.log.streams import KeptEvent, StreamState
from vinecast.sim.peers.disk import SimulatedDisk

UNREADABLE = "the store of the node cannot be used: disk I/O error"


class StreamPort:
    """The disk of a node for one life of its peer: ``StreamPlace``."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._open: set[str] = set()
        """The streams that are known in memory."""

    @property
    def counters(self) -> Counter[str]:
        """What the disk did."""
        return self._disk.counters

    @property
    def is_crowded(self) -> bool:
        """Whether half of what may wait to be written does."""
        return self._disk.is_crowded

    def make_room(self) -> None:
        """See ``StreamPlace``."""
        self._disk.make_room()

    async def durable(self) -> None:
        """See ``StreamPlace``."""
        await self._disk.durable()

    # What needs a stream only.

    def state(self, topic: str) -> StreamState:
        """A stream; EMPTY when nothing is known of it."""
        self._find(topic)
        return self._disk.state(topic)

    def weight(self, topic: str) -> int:
        """Bytes of a stream that are kept."""
        self._find(topic)
        return self._disk.weight(topic)

    def set_floor(self, topic: str, floor: int) -> None:
        """Do without what a stream has at or below this height."""
        self._find(topic)
        self._disk.set_floor(topic, floor)

    def offset(self, consumer: str, topic: str) -> int:
        """The last position that a consumer acknowledged."""
        self._find(topic)
        return self._disk.offset(consumer, topic)

    def ack(self, consumer: str, topic: str, position: int) -> None:
        """Note that a consumer is done with all up to a position."""
        self._find(topic)
        self._disk.ack(consumer, topic, position)

    def consumers(self, topic: str) -> dict[str, int]:
        """The consumers of a stream that acknowledged something."""
        self._find(topic)
        return self._disk.consumers(topic)

    def drop_consumer(self, consumer: str, topic: str) -> None:
        """Forget how far a consumer has come."""
        self._find(topic)
        self._disk.drop_consumer(consumer, topic)

    # What needs events.

    def topics(self) -> list[str]:
        """All streams that something is known of."""
        self._read()
        return self._disk.topics()

    def height_of(self, topic: str, cid: bytes) -> int:
        """The height of an event that is kept, is a head, or was forgotten lately."""
        self._find(topic)
        disk = self._disk
        if disk.reads_fail and topic in self._open and not disk.has_in_memory(topic, cid):
            self._read()
        return disk.height_of(topic, cid)

    def get(self, cid: bytes) -> SignedEvent | None:
        """An event that is kept; None where it is damaged."""
        self._read_event(cid)
        return self._disk.get(cid)

    def position_of(self, cid: bytes) -> int:
        """The position of an event that is kept."""
        self._read_event(cid)
        return self._disk.position_of(cid)

    def after(self, topic: str, position: int, count: int) -> list[KeptEvent]:
        """The next events after a position."""
        self._find(topic)
        disk = self._disk
        if disk.reads_fail and count > 0 and position < disk.state(topic).last:
            self._read()
        return disk.after(topic, position, count)

    def in_order(self, topic: str, after: Place, count: int) -> list[KeptEvent]:
        """The next events after a place that are not damaged."""
        self._find(topic)
        if topic in self._open and count > 0:
            self._read()
        return self._disk.in_order(topic, after, count)

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        """Keep events; none of them where it cannot be seen whether they are kept already."""
        disk = self._disk
        if disk.reads_fail and not disk.is_full:
            for signed in events:
                self._read_event(signed.cid)
        disk.keep(events, now_us)
        self._open.update(signed.record.topic for signed in events if disk.knows(signed.record.topic))

    # Whether it can be read.

    def _find(self, topic: str) -> None:
        if topic in self._open:
            return
        if self._disk.reads_fail and not topic_fault(topic):
            self._read()
        if self._disk.knows(topic):
            self._open.add(topic)

    def _read_event(self, cid: bytes) -> None:
        if self._disk.reads_fail and not self._disk.is_unsafe(cid):
            self._read()

    def _read(self) -> None:
        if self._disk.reads_fail:
            raise InputError(UNREADABLE)
