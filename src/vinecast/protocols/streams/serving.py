"""Answers to others: events and lists out of what is kept, within bounds."""

from collections import Counter
from collections.abc import Iterable, Iterator

from vinecast.core.events import Blame, Count, Send
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import CID_BYTES, is_cid
from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.core.log.streams import Streams
from vinecast.protocols.streams.config import StreamsConfig
from vinecast.protocols.streams.messages import (
    StreamEffect,
    StreamEvents,
    StreamList,
    StreamListed,
    StreamWant,
)

LISTED_BYTES = 40
"""What one content id in a list counts for."""


def size_of(signed: SignedEvent) -> int:
    """About how many bytes an event takes in a message."""
    return len(signed.block) + len(signed.signature.path) + 80


def batches(events: Iterable[SignedEvent], size: int) -> Iterator[tuple[SignedEvent, ...]]:
    """Events in messages of at most so many bytes, or of one event."""
    batch: list[SignedEvent] = []
    left = size
    for signed in events:
        needed = size_of(signed)
        if batch and needed > left:
            yield tuple(batch)
            batch, left = [], size
        batch.append(signed)
        left -= needed
    if batch:
        yield tuple(batch)


class Serving:
    """What a node does for others that ask."""

    def __init__(self, config: StreamsConfig, streams: Streams) -> None:
        self._config = config
        self._streams = streams
        self._served: Counter[int] = Counter()
        """Peer → bytes that it was sent this period."""

    def begin_period(self) -> None:
        """A period is over."""
        self._served.clear()

    def events(self, sender: int, want: StreamWant) -> list[StreamEffect]:
        """Send a peer what it wants, as far as it is kept."""
        if len(want.cids) > self._config.asked or not all(map(is_cid, want.cids)):
            return [Count("streams.refused request"), Blame(sender, "request over its limit")]
        found: list[SignedEvent] = []
        missing: list[bytes] = []
        for cid in want.cids:
            signed = self._streams.get(cid)
            if signed is None or signed.record.topic != want.topic:
                missing.append(cid)
            elif self._spend(sender, size_of(signed)):
                found.append(signed)
            else:
                return [*self._answer(sender, want.topic, found, missing), Count("streams.not served")]
        return self._answer(sender, want.topic, found, missing)

    def _answer(
        self, sender: int, topic: str, found: list[SignedEvent], missing: list[bytes]
    ) -> list[StreamEffect]:
        answers = [StreamEvents(topic, batch) for batch in batches(found, self._config.batch_bytes)]
        if missing:
            answers.append(StreamEvents(topic, (), tuple(missing)))
        return [Send(sender, answer) for answer in answers]

    def list(self, sender: int, asked: StreamList) -> list[StreamEffect]:
        """Tell a peer which events come after a place."""
        if not 0 <= asked.height <= NUMBER_MAX or len(asked.cid) > CID_BYTES:
            return [Count("streams.refused request"), Blame(sender, "request over its limit")]
        if not self._spend(sender, LISTED_BYTES * self._config.listed):
            return [Count("streams.not served")]
        after = (asked.height, asked.cid)
        found = self._streams.in_order(asked.topic, after, self._config.listed)
        height = found[-1].signed.record.height if found else asked.height
        cids = tuple(keeping.signed.cid for keeping in found)
        return [Send(sender, StreamListed(asked.topic, after, cids, height))]

    def _spend(self, peer: int, size: int) -> bool:
        """Whether a peer may have so many bytes more."""
        if self._served[peer] + size > self._config.served_bytes:
            return False
        self._served[peer] += size
        return True
