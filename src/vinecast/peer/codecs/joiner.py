"""What goes out of small messages: those for the same peer share frames.

An event that comes is told to many, and a request to relay is passed on at once. What of that goes to whom is
collected here until what is in hand is handled.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from vinecast.core.events import Message
from vinecast.peer.codecs.frame_codec import FrameCodec, cut, longest
from vinecast.peer.wire.messages import system_frame
from vinecast.systems.common.wire import FrameSpec

NOTHING_TOLD: Mapping[int, int] = MappingProxyType({})


class Joiner:
    """Collects the small messages of one node. ``send`` takes a peer, a frame and the number of things in it,
    and says whether the frame will go out."""

    def __init__(self, send: Callable[[int, bytes, int], bool], codec: FrameCodec) -> None:
        self._send, self._codec = send, codec
        joined = [spec for spec in codec.of_message.values() if spec.joins]
        self._waiting: dict[type[Any], dict[tuple[Any, ...], list[Any]]] = {
            spec.message: {} for spec in joined
        }
        """Message → peer and the other fields of its frame → what is joined"""
        self._most = {spec.message: longest(spec.frame, spec.joins) for spec in joined}

    def put(self, to: int, message: Message) -> bool:
        """Whether this is a message that waits here."""
        waiting = self._waiting.get(type(message))
        if waiting is None:
            return False
        spec = self._codec.of_message[type(message)]
        key = to, *self._codec.values(spec, b"", message)
        if spec.joins_of:
            waiting.setdefault(key, []).append(getattr(message, spec.joins_of))
        else:
            waiting.setdefault(key, []).extend(self._codec.joined(spec, message))
        return True

    def flush(self) -> Mapping[int, int]:
        """Send all that was put here; event → how many peers were told of it."""
        if not any(self._waiting.values()):
            return NOTHING_TOLD
        told: Counter[int] = Counter()
        for message, waiting in self._waiting.items():
            if waiting:
                self._waiting[message] = {}
                self._flush(self._codec.of_message[message], waiting, told)
        return told

    def _flush(
        self, spec: FrameSpec, waiting: Mapping[tuple[Any, ...], list[Any]], told: Counter[int]
    ) -> None:
        for (to, *rest), things in waiting.items():
            for some in cut(things, self._most[spec.message]):
                frame = spec.frame(**dict(rest), **{spec.joins: some})
                if self._send(to, system_frame(frame), len(some)) and spec.tells:
                    told.update(some)
