"""What nodes of Vitis say to each other: messages inside a frame ``SystemFrame`` (peer/wire/messages). Events
are not among them, but in the frames that all systems have.

A peer is told of by its card, how long ago it was heard from and what its topics weigh together. Proposals
travel with the profile of the node that makes them, for the topics that the receiver has too; who proposes
itself says nothing. Events are named by number, many of a topic in one message.

Everything that comes in is bounded and typed here, as in ``peer/wire/messages``; what it means is checked by
``peer/routers/vitis_codec`` and the machine.
"""

import struct
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.peer.config import TABLE_MAX
from vinecast.peer.routers.tman_codec import KINDS
from vinecast.peer.wire.messages import (
    AGE_MAX,
    HOPS_MAX,
    TOPICS_MAX,
    Card,
    CardReference,
    Cycle,
    Id,
    SystemFrame,
    Topic,
    read_body,
    system_frame,
)
from vinecast.systems.vitis.rules import WEIGHT_MAX

PEERS_MAX = TABLE_MAX + 32
"""Peers in one message: a table, and what Cyclon knows."""
MET_MAX = 2
NAMED_MAX = 4096
"""Gateways and parents in one message (ours); further ones are not proposed."""
NUMBERS_MAX = 64
"""Events in one notice, or asked for at once (ours)."""

ROW = struct.Struct(">HHHB")
"""A proposal: which topic of the sender's card; gateway and parent as places in ``named`` from 1 on, or
0 for the sender itself; how far the gateway is."""

Numbers = Annotated[
    tuple[Annotated[int, Meta(ge=0, le=NUMBER_MAX)], ...], Meta(min_length=1, max_length=NUMBERS_MAX)
]
Hops = Annotated[int, Meta(ge=0, le=HOPS_MAX)]


class VitisPeerStatus(Struct, array_like=True, frozen=True):
    """A peer as one node knows it."""

    card: Card | CardReference
    age: Annotated[int, Meta(ge=0, le=AGE_MAX)]
    weight: Annotated[int, Meta(ge=0, le=TOPICS_MAX * WEIGHT_MAX)]
    """Of all its topics together, as it last said."""


class VitisExchange(Struct, array_like=True, frozen=True, tag=0):
    """Cyclon's or T-Man's, by its place among ``KINDS``."""

    kind: Annotated[int, Meta(ge=0, lt=len(KINDS))]
    cycle: Cycle
    sender: VitisPeerStatus
    """The sender as it is now."""
    peers: Annotated[tuple[VitisPeerStatus, ...], Meta(max_length=PEERS_MAX)]


class VitisProfile(Struct, array_like=True, frozen=True, tag=1):
    """The sender's profile, or its answer to one, with whom the receiver should meet."""

    is_answer: bool
    cycle: Cycle
    sender: VitisPeerStatus
    named: Annotated[tuple[Id, ...], Meta(max_length=NAMED_MAX)]
    proposed: Annotated[bytes, Meta(max_length=TOPICS_MAX * ROW.size)]
    """Rows of ``ROW``."""
    met: Annotated[tuple[VitisPeerStatus, ...], Meta(max_length=MET_MAX)]


class Relay(Struct, array_like=True, frozen=True, tag=2):
    """Please relay these topics."""

    topics: Annotated[tuple[Topic, ...], Meta(max_length=TOPICS_MAX)]


class HaveEvent(Struct, array_like=True, frozen=True, tag=3):
    """The sender has these events of a topic."""

    topic: Topic
    hops: Hops
    seeking: bool
    events: Numbers


class WantEvent(Struct, array_like=True, frozen=True, tag=4):
    """Send me these events; ``hops`` and ``seeking`` as the notice had them."""

    hops: Hops
    seeking: bool
    events: Numbers


VitisFrame = VitisExchange | VitisProfile | Relay | HaveEvent | WantEvent

_decoder: msgspec.msgpack.Decoder[VitisFrame] = msgspec.msgpack.Decoder(VitisFrame)


def encode_own(inner: VitisFrame) -> bytes:
    """The bytes of a frame with this message in it."""
    return system_frame(inner)


def decode_own(frame: SystemFrame) -> VitisFrame:
    """The message in a frame of a peer."""
    return read_body(_decoder, frame.body)
