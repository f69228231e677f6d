"""Inputs and outputs of a peer in words, on one line each, for people who look what happened."""

import dataclasses
import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec import Struct

from vinecast.core.errors import RemoteError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import CID_BYTES, cid_text
from vinecast.core.log.event_record import decode as decode_record
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.streams.messages import CarriedEvents, EventBatch, Push, decode_stream
from vinecast.peer.wire.messages import EventFrame, Gossip, StreamFrame, decode

_name = attrgetter("name")
NAMED = 8
"""Letters of an id that are shown."""
SHOWN = 60
"""Letters of a text that are shown, and things of a list (a tenth)."""


def name_of(peer: bytes) -> str:
    """A peer's id, cut to what tells it from others."""
    return peer.hex()[:NAMED]


def input_in_words(what: given.PeerInput) -> str:
    """What was handed to the peer."""
    match what:
        case given.FrameCame(peer, data):
            return f"frame came from {name_of(peer)}: {frame_in_words(data)}"
        case given.PublishTurn(requests):
            return f"publish {', '.join(map(_publication, requests))}"
        case given.OpenSubscription(request, subscription, topic, start, consumer):
            who = "" if consumer is None else f" as {_shown(consumer)}"
            return f"subscribe {subscription} to {_shown(topic)} from {start}{who} (request {request})"
    return _record_in_words(what)


def _publication(one: given.PublishDrafts) -> str:
    kind, size = "durable" if one.durable else "volatile", sum(len(draft.payload) for draft in one.drafts)
    return f"{len(one.drafts)} {kind} on {_shown(one.topic)}, {size} bytes (request {one.request})"


def output_in_words(output: asked.PeerOutput) -> str:
    """What the peer asked for."""
    match output:
        case asked.SendFrame(peer, _, frame):
            return f"send to {name_of(peer)}: {frame_in_words(frame)}"
        case asked.DeliverEvent(subscription, signed, hops, position):
            at = f", position {position}" if position else ""
            return f"deliver to subscription {subscription}: {_event(signed)}, hops {hops}{at}"
        case asked.Answered(request, value, error):
            said = _value(value if error is None else error)
            return f"answer request {request}: {said}"
    return _record_in_words(output)


def frame_in_words(data: bytes) -> str:
    """What a frame says."""
    try:
        frame = decode(data)
        match frame:
            case EventFrame(hops, events):
                return f"events {_events(events)}, hops {hops}"
            case Gossip(kind, cycle):
                return f"gossip {_shown(kind)} of cycle {cycle}, {len(frame.entries)} peers"
            case StreamFrame():
                return _stream_in_words(frame)
        return f"{_words(type(frame).__name__)}, {len(data)} bytes"
    except RemoteError as error:
        return f"{error}, {len(data)} bytes"


def _stream_in_words(frame: StreamFrame) -> str:
    inner = decode_stream(frame)
    match inner:
        case CarriedEvents(hops, ack, events):
            return f"stream events {_events(events)}, hops {hops}{', from their publisher' if ack else ''}"
        case EventBatch(topic, events) | Push(topic, events):
            return f"{_words(type(inner).__name__)} of {_shown(topic)}: {_events(events)}"
    fields = {name: getattr(inner, name) for name in inner.__struct_fields__}
    return _with_fields(type(inner).__name__, fields)


def _events(events: tuple[tuple[bytes, bytes], ...]) -> str:
    return ", ".join(_block(block) for block, _ in events[: SHOWN // 10]) + _more(len(events))


def _more(count: int) -> str:
    return f" and {count - SHOWN // 10} more" if count > SHOWN // 10 else ""


def _block(block: bytes) -> str:
    try:
        record = decode_record(block)
    except RemoteError as error:
        return f"({error})"
    height = f" at height {record.height}" if record.height else ""
    return f"{_shown(record.topic)} #{record.sequence} of {record.publisher.hex()[:NAMED]}{height}"


def _event(signed: SignedEvent) -> str:
    return f"{_block(signed.block)} ({cid_text(signed.cid)[-NAMED:]})"


def _record_in_words(record: Any) -> str:
    names = record.__struct_fields__ if isinstance(record, Struct) else map(_name, dataclasses.fields(record))
    fields = {name: getattr(record, name) for name in names}
    return _with_fields(type(record).__name__, fields)


def _with_fields(name: str, fields: Mapping[str, Any]) -> str:
    said = ", ".join(f"{field} {_value(value)}" for field, value in fields.items())
    return f"{_words(name)}: {said}" if said else _words(name)


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _value(value: Any) -> str:
    match value:
        case bytes() if len(value) == CID_BYTES:
            return cid_text(value)[-NAMED:]
        case bytes():
            return name_of(value) if len(value) == 32 else f"{len(value)} bytes"
        case str():
            return _shown(value)
        case tuple() | list() | frozenset():
            shown = sorted(map(_value, value)) if isinstance(value, frozenset) else list(map(_value, value))
            return f"[{', '.join(shown[: SHOWN // 10])}{_more(len(shown))}]"
        case Struct():
            return _record_in_words(value)
        case _ if dataclasses.is_dataclass(value) and "__str__" not in vars(type(value)):
            return _record_in_words(value)
        case Exception():
            return f"{type(value).__name__}: {_shown(str(value))}"
    return _shown(str(value))


def _shown(text: str) -> str:
    cut = text if len(text) <= SHOWN else text[:SHOWN] + "…"
    return cut if cut.isprintable() else ascii(cut)
