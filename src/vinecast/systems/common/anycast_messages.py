"""How messages about filters and searches travel (``systems/common/wire``).

Topics and walks are 64-bit words, so that whoever passes a search on need not know the topic's name. Only an
answer names a peer, by its card.
"""

from typing import Annotated

from msgspec import Meta, Struct

from vinecast.protocols.directed_walk import Walk
from vinecast.protocols.gravity import GravityAsk, GravityLeave, GravityRefuse, GravityUpdate
from vinecast.systems.common.anycast import AnycastConfig, AnycastFound, AnycastSeek
from vinecast.systems.common.wire import Entry, FrameSpec, Version

CONFIG = AnycastConfig(on=True)
"""The same on every node: filters of another size cannot be read."""
HOME_BYTES_MAX = CONFIG.gravity.filter_bytes * CONFIG.gravity.depth
NEGATIVE_BYTES_MAX = 8 * CONFIG.walk.negatives

Word = Annotated[int, Meta(ge=0)]
"""MessagePack has none of more than 64 bits."""


class Home(Struct, array_like=True, frozen=True, tag=0):
    """The sender's home, or what has changed of it."""

    version: Version
    base: Version
    data: Annotated[bytes, Meta(max_length=HOME_BYTES_MAX)]


class AskHome(Struct, array_like=True, frozen=True, tag=1):
    """All of it, please."""


class RefuseHome(Struct, array_like=True, frozen=True, tag=2):
    """There is no room for another neighbour."""


class LeaveHome(Struct, array_like=True, frozen=True, tag=3):
    """We are neighbours no longer."""


class SeekSubscriber(Struct, array_like=True, frozen=True, tag=4):
    """A walk in search of a subscriber."""

    item: Word
    negative: Annotated[bytes, Meta(max_length=NEGATIVE_BYTES_MAX)]
    ttl: Annotated[int, Meta(ge=0, le=1000)]
    level: Annotated[int, Meta(ge=-1, le=CONFIG.gravity.depth)]
    number: Word


class FoundSubscriber(Struct, array_like=True, frozen=True, tag=5):
    """Who subscribes."""

    number: Word
    peer: Entry


FRAMES = (
    FrameSpec(GravityUpdate, Home),
    FrameSpec(GravityAsk, AskHome),
    FrameSpec(GravityRefuse, RefuseHome),
    FrameSpec(GravityLeave, LeaveHome),
    FrameSpec(AnycastSeek, SeekSubscriber, inner=("walk", Walk)),
    FrameSpec(AnycastFound, FoundSubscriber),
)
