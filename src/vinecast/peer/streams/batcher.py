"""What goes out of the events of streams in hand: those for the same peer share frames
(``peer/wire/batcher``), and so do acknowledgements."""

from collections.abc import Callable, Sequence
from functools import partial

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.peer.streams.messages import CIDS_MAX, CarriedEvents, HolderAck, encode_stream
from vinecast.peer.wire.batcher import Batcher, EncodedEvent
from vinecast.systems.common.wire import HOPS_MAX, EventEncoding
from vinecast.systems.durable.machine import DurableEvent


class StreamBatcher:
    """Collects the events of streams that one node sends. ``send``: see ``Batcher``; ``event_encoding``:
    those of the system's events."""

    def __init__(self, send: Callable[[int, bytes, int], bool], event_encoding: EventEncoding) -> None:
        self._event_encoding = event_encoding
        self._boxes = {ack: Batcher(send, partial(_frame, ack)) for ack in (False, True)}
        self._send = send
        self._encoded: dict[bytes, EncodedEvent] = {}
        """Of the events in hand."""
        self._acks: dict[int, list[bytes]] = {}
        """Peer → what is acknowledged to it."""

    def encoded(self, signed: SignedEvent) -> EncodedEvent:
        """An event as it travels."""
        encoded = self._encoded.get(signed.cid)
        if encoded is None:
            encoded = self._encoded[signed.cid] = EncodedEvent(signed.block, signed.signature.to_bytes())
        return encoded

    def put(self, peer: int, carried: DurableEvent, otherwise: int) -> None:
        """Have an event sent."""
        form = self._event_encoding.form_of(carried.carried)
        assert form is not None
        self._boxes[carried.ack].put(peer, carried.hops, self.encoded(carried.signed), otherwise, form)

    def ack(self, peer: int, cids: Sequence[bytes]) -> None:
        """Tell a peer that events are safe here."""
        self._acks.setdefault(peer, []).extend(cids)

    def flush(self) -> None:
        """Send all that was put here; nothing is in hand any longer."""
        acks, self._acks = self._acks, {}
        for peer, cids in acks.items():
            for begin in range(0, len(cids), CIDS_MAX):
                self._send(peer, encode_stream(HolderAck(tuple(cids[begin : begin + CIDS_MAX]))), 1)
        for box in self._boxes.values():
            box.flush()
        self._encoded.clear()


def _frame(ack: bool, hops: int, encoded_events: Sequence[EncodedEvent], form: int) -> bytes:
    """The frame of some events. ack: whether the sender published them, and wants to know when they are
    safe"""
    events = tuple([encoded.event for encoded in encoded_events])
    return encode_stream(CarriedEvents(min(hops, HOPS_MAX), ack, events, form))
