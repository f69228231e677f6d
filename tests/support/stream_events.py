"""Events of streams for tests: real records with signatures that nobody checks."""

from vinecast.core.log.batch_signature import SIGNATURE_BYTES, BatchSignature, SignedEvent
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import EventRecord, encode

SIGNATURE = BatchSignature(bytes(SIGNATURE_BYTES), 1, 0, b"")


def event(*parents: SignedEvent, topic: str = "t", say: bytes = b"", number: int = 0) -> SignedEvent:
    """An event that follows others; who says the same in the same place is the same event."""
    record = EventRecord(
        topic=topic,
        publisher=bytes(32),
        sequence=number,
        time_us=1,
        payload=say,
        parents=tuple(parent.cid for parent in parents),
        height=1 + max((parent.record.height for parent in parents), default=0),
    )
    block = encode(record)
    return SignedEvent(record, block, cid_of(block), SIGNATURE)


def chain(length: int, topic: str = "t", say: bytes = b"") -> list[SignedEvent]:
    """Events that follow each other."""
    events: list[SignedEvent] = []
    for number in range(length):
        events.append(event(*events[-1:], topic=topic, say=say, number=number))
    return events
