"""Between Vinifera's messages and what travels of them: numbers become cards and names, and back."""

from collections.abc import Callable, Iterable, Iterator

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.peer.content.names import read_name
from vinecast.peer.content.requests import UNKNOWN, FilterTable
from vinecast.peer.routers import vinifera_messages as wire
from vinecast.peer.routers.tman_codec import TManCodec
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.topics import is_topic
from vinecast.peer.wire.codec import Codec
from vinecast.peer.wire.messages import Card, CardReference, names_bytes
from vinecast.protocols.content_table import WantedRange
from vinecast.protocols.tman import TManEcho
from vinecast.systems.vinifera.catalogue import ContentShared


class ViniferaCodec(TManCodec[wire.ViniferaPeerStatus]):
    """One node's. ``shared`` is what profiles say besides, ``filters`` knows the filters by number;
    ``number_of(name)``: the number of a name, or None where there is no room for one more."""

    def __init__(
        self,
        cards: Codec,
        peer_table: PeerTable,
        shared: ContentShared,
        filters: FilterTable,
        number_of: Callable[[str], int | None],
    ) -> None:
        super().__init__(cards, peer_table)
        self._shared, self._filters, self._number_of = shared, filters, number_of
        peer_table.on_topics = self._reset

    def _reset(self, peer: int) -> None:
        """A peer's filters are others now, or it is another peer."""
        self._shared.describe(peer)
        self._shared.load[peer] = 0
        self.forget(peer)

    # Gossip.

    def pack(self, to: bytes, message: Message) -> wire.ViniferaExchange | wire.ViniferaProfile:
        """A message for a peer. Candidates that the book forgot meanwhile are left out."""
        found = self.tell(to, message)
        if found.kind is None:
            return wire.ViniferaProfile(isinstance(message, TManEcho), found.cycle, found.sender, found.peers)
        return wire.ViniferaExchange(found.kind, found.cycle, found.sender, found.peers)

    def read(self, peer: bytes, frame: wire.ViniferaExchange | wire.ViniferaProfile) -> tuple[int, Message]:
        """Who a message of a peer is from, by number, and what it says; for the machine, at once."""
        sender = self.sender_of(peer, frame.sender)
        if isinstance(frame, wire.ViniferaExchange):
            return sender, self.exchange(peer, frame.kind, frame.cycle, frame.peers)
        return sender, self.profile(peer, sender, frame.is_answer, frame.cycle, frame.met)

    def _told(self, number: int, card: Card | CardReference, age: int) -> wire.ViniferaPeerStatus:
        return wire.ViniferaPeerStatus(
            card, age, int(self._peer_table.profiles.place[number]), int(self._shared.load[number])
        )

    def _hear(self, number: int, told: wire.ViniferaPeerStatus) -> None:
        self._peer_table.profiles.place[number], self._shared.load[number] = told.place, told.load

    # Requests.

    def pack_wanted(self, wanted: Iterable[WantedRange]) -> Iterator[wire.Asked]:
        """What is asked for, by names; as much of it in each as may be."""
        names: dict[str, int] = {}
        rows: list[bytes] = []
        room = wire.NAMES_BYTES
        for attribute, number, low, high in wanted:
            name = self._peer_table.topics.names[number]
            assert name is not None
            is_full = room <= 0 or len(names) == wire.NAMES_MAX
            if len(rows) == wire.ROWS_MAX or (name not in names and is_full):
                yield wire.Asked(tuple(names), b"".join(rows))
                names, rows, room = {}, [], wire.NAMES_BYTES
            if name not in names:
                room -= names_bytes((name,))
            at = names.setdefault(name, len(names))
            rows.append(wire.ROW.pack(at, self._filters.index_of(number, attribute), low, high))
        if rows:
            yield wire.Asked(tuple(names), b"".join(rows))

    def read_wanted(self, asked: wire.Asked, room: int) -> tuple[list[WantedRange], int]:
        """What a peer asks for, the first so many rows of it; and how many rows were left out, for want of
        room or of numbers."""
        if len(asked.rows) % wire.ROW.size:
            raise RemoteError("malformed request")
        if not all(is_topic(name) or read_name(name) is not None for name in asked.names):
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
        return wanted, len(asked.rows) // wire.ROW.size - len(wanted)
