"""When a node lets others know that it has a stream (S3 §4.5: every peer that an event passes calls *provide*
for it with probability p).

Here it is the stream that is provided, not the event: whoever keeps one event of a stream has those around it
too, and a record for each event would be more to store and to look for than the events themselves. The draw
is S3's, once for each event; after the first that says yes nothing more is to be said. A node that comes back
draws for all that it has.
"""

import zlib
from collections.abc import Iterable

from vinecast.core.draws import purpose, stream, unit
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.protocols.streams.messages import Provide, StreamEffect
from vinecast.protocols.streams.topics import Topic

_EVENT = purpose("streams.provide")
_STREAM = purpose("streams.provide again")


class Providing:
    """Decides for one node which of its streams it provides."""

    def __init__(self, probability: float, seed: int, me: int, topics: dict[str, Topic]) -> None:
        self._probability = probability
        self._events, self._streams = stream(seed, _EVENT, 0, me), stream(seed, _STREAM, 0, me)
        self._topics = topics

    def begun(self, topic: Topic, events: int) -> list[StreamEffect]:
        """A stream is followed of which there are so many events here."""
        draw = unit(self._streams, zlib.crc32(topic.name.encode()))
        return self._provide(topic, draw < 1 - (1 - self._probability) ** events)

    def kept(self, events: Iterable[SignedEvent]) -> list[StreamEffect]:
        """Events were kept."""
        effects: list[StreamEffect] = []
        for signed in events if self._probability else ():
            topic = self._topics.get(signed.record.topic)
            if topic is not None and not topic.is_provided:
                effects += self._provide(topic, unit(self._events, signed.number) < self._probability)
        return effects

    def _provide(self, topic: Topic, says_so: bool) -> list[StreamEffect]:
        topic.is_provided |= says_so
        return [Provide(topic.name)] if says_so else []
