"""What goes out of the events of streams in hand: those for the same peer share frames (``node/outbox``), and
so do acknowledgements."""

from collections.abc import Callable, Sequence
from functools import partial

from vinecast.core.seals import Sealed
from vinecast.node.outbox import Outbox, Parcel
from vinecast.node.streams_wire import CIDS_MAX, Ack, Carried, encode_other
from vinecast.node.ways import Ways
from vinecast.node.wire import HOPS_MAX
from vinecast.systems.durable import DurableEvent


class StreamOutbox:
    """One node's. ``send``: see ``Outbox``; ``ways``: those of the system's events."""

    def __init__(self, send: Callable[[int, bytes, int], bool], ways: Ways) -> None:
        self._ways = ways
        self._boxes = {ack: Outbox(send, partial(_frame, ack)) for ack in (False, True)}
        self._send = send
        self._parcels: dict[bytes, Parcel] = {}
        """Of the events in hand."""
        self._acks: dict[int, list[bytes]] = {}
        """Peer → what is acknowledged to it."""

    def parcel(self, sealed: Sealed) -> Parcel:
        """An event as it travels."""
        parcel = self._parcels.get(sealed.cid)
        if parcel is None:
            parcel = self._parcels[sealed.cid] = Parcel(sealed.block, sealed.seal.to_bytes())
        return parcel

    def put(self, peer: int, carried: DurableEvent, otherwise: int) -> None:
        """Have an event sent."""
        way = self._ways.way_of(carried.carried)
        assert way is not None
        self._boxes[carried.ack].put(peer, carried.hops, self.parcel(carried.sealed), otherwise, way)

    def ack(self, peer: int, cids: Sequence[bytes]) -> None:
        """Tell a peer that events are safe here."""
        self._acks.setdefault(peer, []).extend(cids)

    def flush(self) -> None:
        """Send all that was put here; nothing is in hand any longer."""
        acks, self._acks = self._acks, {}
        for peer, cids in acks.items():
            for begin in range(0, len(cids), CIDS_MAX):
                self._send(peer, encode_other(Ack(tuple(cids[begin : begin + CIDS_MAX]))), 1)
        for box in self._boxes.values():
            box.flush()
        self._parcels.clear()


def _frame(ack: bool, hops: int, parcels: Sequence[Parcel], way: int) -> bytes:
    """The frame of some events. ack: whether the sender published them, and wants to know when they are
    safe"""
    events = tuple([parcel.event for parcel in parcels])
    return encode_other(Carried(min(hops, HOPS_MAX), ack, events, way))
