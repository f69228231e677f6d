"""What nodes of trees say to each other: messages inside a frame ``SystemFrame`` (peer/wire/messages). Events
are not among them, but in the frames that all systems have.

Everything that comes in is bounded and typed here, as in ``peer/wire/messages``; what it means is checked by
the machines.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from vinecast.peer.wire.messages import (
    ENTRIES_MAX,
    TOPICS_MAX,
    Entry,
    SystemFrame,
    Topic,
    read_body,
    system_frame,
)

Topics = Annotated[tuple[Topic, ...], Meta(max_length=TOPICS_MAX)]


class Join(Struct, array_like=True, frozen=True, tag=0):
    """Be my parent."""

    topic: Topic


class Accept(Struct, array_like=True, frozen=True, tag=1):
    """You are my child."""

    topic: Topic


class Part(Struct, array_like=True, frozen=True, tag=2):
    """We are not parent and child, or no longer."""

    topic: Topic


class Heartbeat(Struct, array_like=True, frozen=True, tag=3):
    """The sender is the receiver's parent in all of these."""

    topics: Topics


class Alive(Struct, array_like=True, frozen=True, tag=4):
    """So it is, but for these."""

    refused: Topics


class SearchTree(Struct, array_like=True, frozen=True, tag=5):
    """Are you in this topic's tree?"""

    topic: Topic


class TreeMember(Struct, array_like=True, frozen=True, tag=6):
    """I am, or not."""

    topic: Topic
    member: bool


class Above(Struct, array_like=True, frozen=True, tag=7):
    """From a parent: who comes above it."""

    topic: Topic
    peers: Annotated[tuple[Entry, ...], Meta(max_length=ENTRIES_MAX)]


TreeFrame = Join | Accept | Part | Heartbeat | Alive | SearchTree | TreeMember | Above

_decoder: msgspec.msgpack.Decoder[TreeFrame] = msgspec.msgpack.Decoder(TreeFrame)


def encode_own(inner: TreeFrame) -> bytes:
    """The bytes of a frame with this message in it."""
    return system_frame(inner)


def decode_own(frame: SystemFrame) -> TreeFrame:
    """The message in a frame of a peer."""
    return read_body(_decoder, frame.body)
