"""What nodes of Vinifera say of peers beside their cards, and how they name what they ask for."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vinecast.core.content.names import read_name
from vinecast.core.errors import RemoteError
from vinecast.core.log.event_record import topic_fault
from vinecast.protocols.content_table import WantedRange
from vinecast.systems.common.router import Peers
from vinecast.systems.common.wire import names_bytes
from vinecast.systems.vinifera import messages as wire
from vinecast.systems.vinifera.catalogue import ContentShared
from vinecast.systems.vinifera.filter_table import UNKNOWN, FilterTable

NO_ROOM = "refused: no room for a filter"


class ViniferaWords:
    """One node's (see ``StatusGossip``). ``shared`` is what profiles say besides."""

    status, exchange, profile = wire.ViniferaPeerStatus, wire.ViniferaExchange, wire.ViniferaProfile

    def __init__(self, peers: Peers, shared: ContentShared) -> None:
        self._peers, self._shared = peers, shared

    def words_of(self, number: int) -> tuple[int, ...]:
        """See ``StatusGossip``: where it is on the circle, and how much it has to do."""
        return int(self._peers.profiles.place[number]), int(self._shared.load[number])

    def hear(self, number: int, told: wire.ViniferaPeerStatus) -> None:
        self._peers.profiles.place[number], self._shared.load[number] = told.place, told.load

    def reset(self, peer: int) -> None:
        self._shared.describe(peer)
        self._shared.load[peer] = 0

    def enclose(self, to: int) -> Mapping[str, Any]:
        """See ``StatusGossip``: nothing."""
        return {}

    def hear_profile(self, sender: int, frame: wire.ViniferaProfile) -> None:
        """See ``StatusGossip``: it says nothing besides."""


class AskedForm:
    """What is asked for, in frames (see ``FieldCodec``). ``filters`` knows the filters by number;
    ``number_of(name)``: the number of a name, or None where there is no room for one more. A peer can ask for
    so many parts of ranges in a cycle."""

    def __init__(
        self,
        peers: Peers,
        filters: FilterTable,
        number_of: Callable[[str], int | None],
        asked_max: int,
        counters: Counter[str],
    ) -> None:
        self._names, self._filters, self._number_of = peers.topics.names, filters, number_of
        self._asked_max, self._counters = asked_max, counters
        self._asked: Counter[bytes] = Counter()
        """Who asked in this cycle → for how many parts of ranges"""

    def begin_cycle(self) -> None:
        """A cycle begins."""
        self._asked.clear()

    def pack(self, value: tuple[WantedRange, ...]) -> Iterator[tuple[wire.Asked, int]]:
        """See ``FieldCodec``: by names; as much of it in each as may be."""
        names: dict[str, int] = {}
        rows: list[bytes] = []
        room = wire.NAMES_BYTES
        for attribute, number, low, high in value:
            name = self._names[number]
            assert name is not None
            is_full = room <= 0 or len(names) == wire.NAMES_MAX
            if len(rows) == wire.ROWS_MAX or (name not in names and is_full):
                yield wire.Asked(tuple(names), b"".join(rows)), len(names)
                names, rows, room = {}, [], wire.NAMES_BYTES
            if name not in names:
                room -= names_bytes((name,))
            at = names.setdefault(name, len(names))
            rows.append(wire.ROW.pack(at, self._filters.index_of(number, attribute), low, high))
        if rows or not value:
            yield wire.Asked(tuple(names), b"".join(rows)), len(names)

    def read(self, peer: bytes, part: wire.Asked) -> tuple[WantedRange, ...]:
        """See ``FieldCodec``: what there is no room for is left out, and counted."""
        room = self._asked_max - self._asked[peer]
        wanted = self._read(part, room)
        self._asked[peer] += len(wanted)
        if refused := len(part.rows) // wire.ROW.size - len(wanted):
            self._counters[NO_ROOM] += refused
        return tuple(wanted)

    def _read(self, asked: wire.Asked, room: int) -> list[WantedRange]:
        """The first so many rows of what a peer asks for."""
        if len(asked.rows) % wire.ROW.size:
            raise RemoteError("malformed request")
        if not all(not topic_fault(name) or read_name(name) is not None for name in asked.names):
            raise RemoteError("request for an impossible filter")
        numbers: dict[int, int | None] = {}
        wanted: list[WantedRange] = []
        for at, index, low, high in wire.ROW.iter_unpack(asked.rows[: room * wire.ROW.size]):
            if at >= len(asked.names):
                raise RemoteError("request for nothing")
            if at not in numbers:
                numbers[at] = self._number_of(asked.names[at])
            if (number := numbers[at]) is not None:
                attribute = self._filters.attribute_of(number, index)
                if attribute == UNKNOWN:
                    raise RemoteError("request for an attribute that its filter does not have")
                wanted.append(WantedRange(attribute, number, low, high))
        return wanted
