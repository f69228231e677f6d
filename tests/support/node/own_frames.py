"""Frames of a system's own messages, for tests of how they travel."""

from collections.abc import Sequence
from typing import Any

from vinecast.peer.codecs.frame_codec import decoder_of
from vinecast.peer.wire.messages import SystemFrame, decode, read_body
from vinecast.systems.common.wire import FrameSpec


def read_own(data: bytes, forms: Sequence[FrameSpec], *gossip: type[Any]) -> Any:
    """The message in the bytes of a frame, as a node reads it."""
    frame = decode(data)
    assert isinstance(frame, SystemFrame)
    return read_body(decoder_of([*gossip, *(form.frame for form in forms)]), frame.body)
