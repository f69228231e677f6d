"""How the messages of Vitis travel (``systems/common/wire``). Events are not among them, but in the frames
that all systems have.

A peer is told of by its card, how long ago it was heard from and what its topics weigh together. Proposals
travel with the profile of the node that makes them, for the topics that the receiver has too; who proposes
itself says nothing. Events are named by number, many of a topic in one message.
"""

import struct
from typing import Annotated

from msgspec import Meta, Struct

from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.protocols.relay_path import RelayRequest
from vinecast.systems.common.notices import Notice, Pull
from vinecast.systems.common.tman_router import EXCHANGES
from vinecast.systems.common.wire import (
    TABLE_MAX,
    TOPICS_MAX,
    Age,
    Card,
    CardReference,
    Cycle,
    FrameSpec,
    Hops,
    Id,
    Topic,
    Topics,
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


class VitisPeerStatus(Struct, array_like=True, frozen=True):
    """A peer as one node knows it."""

    card: Card | CardReference
    age: Age
    weight: Annotated[int, Meta(ge=0, le=TOPICS_MAX * WEIGHT_MAX)]
    """Of all its topics together, as it last said."""


class VitisExchange(Struct, array_like=True, frozen=True, tag=0):
    """Cyclon's or T-Man's, by its place among ``EXCHANGES``."""

    kind: Annotated[int, Meta(ge=0, lt=len(EXCHANGES))]
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

    topics: Topics


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


RELAY_SHARE = 4
"""One peer can ask to relay one in so many of the topics that a node can know, in a cycle (ours)."""
NOT_CARRIED = "refused: notice on a topic that is not carried"
NO_ROOM = "refused: no room for a topic to relay"

FRAMES = (
    FrameSpec(Pull, WantEvent, is_request=False, missing={"topic": 0}, joins="events", joins_of="number"),
    FrameSpec(
        Notice,
        HaveEvent,
        is_request=False,
        takes_any=lambda frame: bool(frame.seeking),
        refused=NOT_CARRIED,
        joins="events",
        joins_of="number",
        tells=True,
    ),
    FrameSpec(RelayRequest, Relay, refused=NO_ROOM, share=RELAY_SHARE, joins="topics"),
)
