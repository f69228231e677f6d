"""How the messages of Vinifera travel (``systems/common/wire``). Events are not among them, but in the frames
that all systems have.

A peer is told of by its card, how long ago it was heard from, where on the circle it is now and how much it
has to do. Filters go by their names (``core/content/names``).
"""

import struct
from typing import Annotated

from msgspec import Meta, Struct

from vinecast.core.arrays.profiles import PLACE_BITS
from vinecast.protocols.content_table import ContentRequest
from vinecast.protocols.load_balance import LOAD_MAX, ShiftAsk, ShiftGrant
from vinecast.systems.common.tman_router import EXCHANGES
from vinecast.systems.common.wire import TABLE_MAX, Age, Card, CardReference, Cycle, FrameSpec, Topic

PEERS_MAX = TABLE_MAX + 32
"""Peers in one message: a table, and what Cyclon knows."""
MET_MAX = 2
NAMES_MAX = 1024
"""Filters in one request (ours)."""
NAMES_BYTES = 512 * 1024
"""What their names weigh together (ours): with them a frame is no larger than any may be."""
ROWS_MAX = 4096
"""Parts of ranges in one request (ours)."""

ROW = struct.Struct(">HBII")
"""A request: which name; 0 for the topic, or one more than the attribute's place in its schema; the first and
the last place."""

Place = Annotated[int, Meta(ge=0, lt=1 << PLACE_BITS)]
Load = Annotated[int, Meta(ge=0, le=LOAD_MAX)]


class ViniferaPeerStatus(Struct, array_like=True, frozen=True):
    """A peer as one node knows it."""

    card: Card | CardReference
    age: Age
    place: Place
    load: Load


class ViniferaExchange(Struct, array_like=True, frozen=True, tag=0):
    """Cyclon's or T-Man's, by its place among ``EXCHANGES``."""

    kind: Annotated[int, Meta(ge=0, lt=len(EXCHANGES))]
    cycle: Cycle
    sender: ViniferaPeerStatus
    """The sender as it is now."""
    peers: Annotated[tuple[ViniferaPeerStatus, ...], Meta(max_length=PEERS_MAX)]


class ViniferaProfile(Struct, array_like=True, frozen=True, tag=1):
    """The sender's profile, or its answer to one, with whom the receiver should meet."""

    is_answer: bool
    cycle: Cycle
    sender: ViniferaPeerStatus
    met: Annotated[tuple[ViniferaPeerStatus, ...], Meta(max_length=MET_MAX)]


class Asked(Struct, array_like=True, frozen=True):
    """What is asked for: rows of ``ROW``, over these names."""

    names: Annotated[tuple[Topic, ...], Meta(max_length=NAMES_MAX)]
    rows: Annotated[bytes, Meta(max_length=ROWS_MAX * ROW.size)]


class FilterRequest(Struct, array_like=True, frozen=True, tag=2):
    """Send me events of these, from now on and for some cycles."""

    wanted: Asked


class MayMove(Struct, array_like=True, frozen=True, tag=3):
    """May I move there, between my place and yours?"""

    place: Place
    load: Load


class Move(Struct, array_like=True, frozen=True, tag=4):
    """Move, and take over what is asked for there."""

    place: Place
    load: Load
    wanted: Asked


FRAMES = (FrameSpec(ContentRequest, FilterRequest), FrameSpec(ShiftAsk, MayMove), FrameSpec(ShiftGrant, Move))
