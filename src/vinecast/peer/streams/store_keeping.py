"""What a node's streams have the store write down: events, and floors.

A store reads before it writes. Where it cannot be read, what was to be written waits here, by topic and in
order, and is tried again before the next and once a period: gap repair takes it for kept. When too much waits
nothing more is taken from others.
"""

from collections.abc import Iterable, Sequence

from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.stream_buffer import size_of
from vinecast.core.log.streams import SetFloor
from vinecast.peer.streams.ports import StreamHost, StreamPlace

WAITING_BYTES_MAX = 1024 * 1024
"""Of events that wait until the store can be read (ours)."""


class StreamWrites:
    """What one node keeps, and how much of that is safe."""

    def __init__(self, store: StreamPlace, host: StreamHost) -> None:
        self._store, self._host = store, host
        self._waiting: dict[str, list[SignedEvent | SetFloor]] = {}
        """Topic → what is to be written, in order."""
        self._waiting_bytes = 0
        self._unsafe: dict[bytes, tuple[str, int]] = {}
        """Kept and not safe yet → topic and position."""
        self._safe: dict[str, int] = {}
        """Topic → the last position that is safe, if anything was kept since the start."""

    @property
    def is_crowded(self) -> bool:
        """Whether too much waits until the store can be read."""
        return self._waiting_bytes >= WAITING_BYTES_MAX

    def safe_position(self, topic: str) -> int:
        """The last position of a stream that is safe."""
        known = self._safe.get(topic)
        return self._store.state(topic).last if known is None else known

    def position(self, cid: bytes) -> int:
        """The position of an event that was kept and has become safe just now; 0 where that is not known."""
        return self._unsafe.get(cid, ("", 0))[1]

    def keep(self, events: Sequence[SignedEvent]) -> None:
        """Keep events."""
        self.go_on()
        if self._waiting:
            for signed in events:
                if signed.record.topic in self._waiting:
                    self._let_wait(signed)
            events = [signed for signed in events if signed.record.topic not in self._waiting]
        if events:
            self._keep(events)

    def set_floor(self, effect: SetFloor) -> None:
        """Do without what a stream has at or below a height."""
        self.go_on()
        if effect.topic in self._waiting:
            self._waiting[effect.topic].append(effect)
            return
        self._set_floor(effect)

    def go_on(self) -> None:
        """Try once more what waits."""
        if not self._waiting:
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        for topic, parts in waiting.items():
            for part in parts:
                if topic in self._waiting:  # what comes before it still waits
                    self._let_wait(part)
                elif isinstance(part, SetFloor):
                    self._set_floor(part)
                else:
                    self._keep((part,))

    def note_safe(self, cids: Iterable[bytes]) -> None:
        """The store says that these are safe."""
        for cid in cids:
            topic, position = self._unsafe.get(cid, ("", 0))
            if position:
                self._safe[topic] = max(position, self._safe[topic])

    def forget(self, cids: Iterable[bytes]) -> None:
        """They were handed on."""
        for cid in cids:
            self._unsafe.pop(cid, None)

    def _keep(self, events: Sequence[SignedEvent]) -> None:
        try:
            for signed in events:
                topic = signed.record.topic
                if topic not in self._safe:
                    self._safe[topic] = self._store.state(topic).last
            self._store.keep(events, self._host.now_us())
            for signed in events:
                self._unsafe[signed.cid] = signed.record.topic, self._store.position_of(signed.cid)
        except InputError:
            self._host.note_unreadable()
            for signed in events:
                if not self._is_kept(signed):
                    self._let_wait(signed)

    def _is_kept(self, signed: SignedEvent) -> bool:
        """Whether an event was kept before the store could not be read any longer."""
        try:
            position = self._store.position_of(signed.cid)
        except InputError:
            return False
        if position:
            self._unsafe[signed.cid] = signed.record.topic, position
        return position > 0

    def _set_floor(self, effect: SetFloor) -> None:
        try:
            self._store.set_floor(effect.topic, effect.floor)
        except InputError:
            self._host.note_unreadable()
            self._let_wait(effect)

    def _let_wait(self, part: SignedEvent | SetFloor) -> None:
        if isinstance(part, SetFloor):
            self._waiting.setdefault(part.topic, []).append(part)
            return
        self._unsafe.pop(part.cid, None)
        self._waiting.setdefault(part.record.topic, []).append(part)
        self._waiting_bytes += size_of(part)
