"""One stream in memory: its events in both orders (``StreamBuffer``), and what is known of it besides
(``StreamSummary``).

The store on disk uses both too: a buffer for events that are not written yet, a summary for every stream in
use.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from vinecast.core.log.batch_signature import SIGNATURE_BYTES, BatchSignature, SignedEvent
from vinecast.core.log.streams import KeptEvent, StreamState

FORGOTTEN_MAX = 1024
"""Events of a stream whose heights are remembered although they are not kept any longer (ours), the last
that went."""
GONE_HEADS_MAX = 64
"""The same for heads (ours), the highest: four times what one event can follow."""
HEADS_SHOWN = 256
"""Heads of a stream that are shown (ours), the highest; others appear when events follow these."""
_SIGNATURE_FIXED_BYTES = len(BatchSignature(bytes(SIGNATURE_BYTES), 1, 0, b"").to_bytes())

Place = tuple[int, bytes]
"""Height and content id: a place in the order that all nodes share."""


def place_of(signed: SignedEvent) -> Place:
    """Where an event stands in the order that all nodes share."""
    return signed.record.height, signed.cid


def size_of(signed: SignedEvent) -> int:
    """The bytes of an event that retention counts: its block and its signature."""
    return len(signed.block) + len(signed.signature.path) + _SIGNATURE_FIXED_BYTES


class StreamBuffer:
    """Some events of one stream, by content id, by position, and in the order that all nodes share."""

    __slots__ = ("_by_cid", "_by_position", "_places", "_positions")

    def __init__(self) -> None:
        self._by_cid: dict[bytes, KeptEvent] = {}
        self._by_position: dict[int, KeptEvent] = {}
        self._positions: list[int] = []
        self._places: list[Place] = []

    def __len__(self) -> int:
        return len(self._by_cid)

    def get(self, cid: bytes) -> KeptEvent | None:
        """An event, if it is here."""
        return self._by_cid.get(cid)

    def put(self, keeping: KeptEvent) -> None:
        """Add an event. Both orders mostly grow at their ends, where that costs nothing."""
        self._by_cid[keeping.signed.cid] = self._by_position[keeping.position] = keeping
        insort(self._positions, keeping.position)
        insort(self._places, place_of(keeping.signed))

    def remove(self, cids: Iterable[bytes]) -> None:
        """Take events away."""
        for cid in cids:
            del self._by_position[self._by_cid.pop(cid).position]
        self._positions = [position for position in self._positions if position in self._by_position]
        self._places = [place for place in self._places if place[1] in self._by_cid]

    def after(self, position: int, count: int) -> list[KeptEvent]:
        """The next events after a position."""
        begin = bisect_right(self._positions, position)
        return [self._by_position[at] for at in self._positions[begin : begin + count]]

    def in_order(self, after: Place, count: int) -> list[KeptEvent]:
        """The next events after a place."""
        begin = bisect_right(self._places, after)
        return [self._by_cid[cid] for _, cid in self._places[begin : begin + count]]

    @property
    def first(self) -> int:
        """The lowest position; 0 when there is none."""
        return self._positions[0] if self._positions else 0


class StreamSummary:
    """What is known of one stream besides its events. Whoever keeps them says so here.

    A head that is forgotten stays a head. An event that comes after one that follows it (it was fetched
    later, from below the floor) is none: only who keeps the events can know that, and says ``is_followed``.
    """

    __slots__ = ("_order", "events", "first", "floor", "gone", "heads", "last", "size")

    def __init__(
        self,
        heads: dict[bytes, int] | None = None,
        gone: Iterable[bytes] = (),
        first: int = 1,
        last: int = 0,
        floor: int = 0,
        events: int = 0,
        size: int = 0,
    ) -> None:
        self.heads = heads or {}
        """Height by content id."""
        self.gone = {cid: self.heads[cid] for cid in gone}
        """Those of the heads that are not kept any longer."""
        self._order = sorted((-height, cid) for cid, height in self.heads.items())
        self.first, self.last, self.floor = first, last, floor
        self.events, self.size = events, size
        """How many are kept, and their bytes."""

    def copy(self) -> "StreamSummary":
        """The state as it is now."""
        numbers = (self.first, self.last, self.floor, self.events, self.size)
        return StreamSummary(dict(self.heads), self.gone, *numbers)

    @property
    def state(self) -> StreamState:
        """What the machine sees."""
        heads = tuple(cid for _, cid in self._order[:HEADS_SHOWN])
        return StreamState(heads, self.first if self.events else self.last + 1, self.last, self.floor)

    def add(self, signed: SignedEvent, is_followed: bool) -> int:
        """An event is kept now; its position."""
        record, cid = signed.record, signed.cid
        for parent in record.parents:
            self._drop_head(parent)
        if cid in self.heads:
            self.gone.pop(cid, None)
        elif not is_followed:
            self.heads[cid] = record.height
            insort(self._order, (-record.height, cid))
        self.last += 1
        if not self.events:
            self.first = self.last
        self.events += 1
        self.size += size_of(signed)
        return self.last

    def forget(self, gone: Iterable[Place], size: int, first: int) -> list[bytes]:
        """These events of so many bytes together are not kept any longer, and the lowest position is this
        now; which heads are given up for that."""
        for height, cid in gone:
            self.events -= 1
            self.floor = max(self.floor, height)
            if cid in self.heads:
                self.gone[cid] = height
        self.size -= size
        self.first = first
        lowest = sorted((height, cid) for cid, height in self.gone.items())
        given_up = [cid for _, cid in lowest[: max(0, len(lowest) - GONE_HEADS_MAX)]]
        for cid in given_up:
            self._drop_head(cid)
        return given_up

    def _drop_head(self, cid: bytes) -> None:
        height = self.heads.pop(cid, None)
        if height is not None:
            self.gone.pop(cid, None)
            del self._order[bisect_left(self._order, (-height, cid))]
