"""Lies by silence: what a node does not answer, does not pass on, and says too late."""

from collections.abc import Sequence

from vinecast.core.errors import RemoteError
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import decode
from vinecast.core.machine import SECOND_US
from vinecast.peer.outputs import SendFrame
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EventFrame, encode
from vinecast.sim.peers.lies.liar import CarriedEvent, Liar
from vinecast.sim.peers.lies.lie import Lie, breaking
from vinecast.sim.peers.lies.streams import reframe

LATE_S_MIN, LATE_S_MAX = 2, 5
"""By how much everything is late (ours): more than most answers are waited for."""
UNSETTLED = breaking("D4", "D5")
"""A node waits until all whom it knows have told where a stream begins: what is published meanwhile may be
taken for old."""
QUESTIONS = (
    wire.Heads,
    wire.ListStream,
    wire.WantEvents,
    wire.Push,
    wire.Ping,
    wire.FindPeers,
    wire.StoreValue,
    wire.ProvideKey,
)


def ignore(me: Liar, peer: bytes, message: object) -> bool:
    """Keep silent to every question about streams, and of Kademlia."""
    return not isinstance(message, QUESTIONS)


def without(me: Liar, output: SendFrame, dropped: Sequence[CarriedEvent]) -> list[SendFrame]:
    """A frame without these of its events."""
    match me.read(output.frame):
        case EventFrame(hops, events, form):
            kept = tuple(event for event in events if event not in dropped)
            frame = encode(EventFrame(hops, kept, form))
            return [SendFrame(output.peer, output.address, frame, len(kept))] if kept else []
        case wire.CarriedEvents(hops, ack, events, form):
            kept = tuple(event for event in events if event not in dropped)
            return [reframe(output, wire.CarriedEvents(hops, ack, kept, form))] if kept else []
        case wire.EventBatch(topic, events, missing):
            kept = tuple(event for event in events if event not in dropped)
            gone = tuple(cid_of(block) for block, _ in dropped)
            return [reframe(output, wire.EventBatch(topic, kept, (*missing, *gone)))]
    return [output]


def drop(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Pass on no event, whatever else it does."""
    message = me.read(output.frame)
    return [] if isinstance(message, EventFrame | wire.CarriedEvents) else [output]


def drop_some(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Pass on every other event."""
    message = me.read(output.frame)
    return [] if isinstance(message, EventFrame | wire.CarriedEvents) and me.draw(2) else [output]


def censor(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Pass on, keep and send no event of one publisher: the first that came by."""
    message = me.read(output.frame)
    if not isinstance(message, EventFrame | wire.CarriedEvents | wire.EventBatch):
        return [output]
    first = (*me.volatile, *me.durable)[:1]
    victim = publisher_of(first[0]) if first else b""
    censored = [event for event in message.events if victim and publisher_of(event) == victim]
    return without(me, output, censored) if censored else [output]


def publisher_of(event: CarriedEvent) -> bytes:
    """Who published an event; nobody if it is none."""
    try:
        return decode(event[0]).publisher
    except RemoteError:
        return b""


def delay(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Say everything late: later than most answers are waited for."""
    late_us = LATE_S_MIN * SECOND_US + me.draw((LATE_S_MAX - LATE_S_MIN) * SECOND_US)
    me.send_later(output, late_us)
    return []


SILENCE_LIES: dict[str, Lie] = {
    "silence": Lie(hears=ignore, breaks=UNSETTLED),
    "silent replica": Lie(hears=ignore, near_key=True, breaks=UNSETTLED),
    "dropping events": Lie(says=drop, breaks=breaking("V")),
    "dropping every other event": Lie(says=drop_some, breaks=breaking("V")),
    "dropping one publisher's events": Lie(says=censor, breaks=breaking("V")),
    "everything late": Lie(says=delay, breaks=breaking("D4", "D5", "V")),
}
