"""How the messages of trees travel (``systems/common/wire``). Events are not among them, but in the frames
that all systems have."""

from msgspec import Struct

from vinecast.protocols.multicast_tree import (
    TreeAbove,
    TreeAccept,
    TreeAlive,
    TreeHeartbeat,
    TreeJoin,
    TreeMember,
    TreePart,
    TreeSearch,
)
from vinecast.systems.common.wire import Entries, FrameSpec, Topic, Topics


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


class MemberOfTree(Struct, array_like=True, frozen=True, tag=6):
    """I am, or not."""

    topic: Topic
    member: bool


class Above(Struct, array_like=True, frozen=True, tag=7):
    """From a parent: who comes above it."""

    topic: Topic
    peers: Entries


NO_ROOM = "refused: no room for a topic of a tree"

FRAMES = (
    FrameSpec(
        TreeJoin, Join, refused=NO_ROOM, refusal=Part, admits=lambda router, sender: router.admits(sender)
    ),
    FrameSpec(TreeAccept, Accept, refused=NO_ROOM),
    FrameSpec(TreePart, Part, refused=NO_ROOM),
    FrameSpec(TreeHeartbeat, Heartbeat),
    FrameSpec(TreeAlive, Alive),
    FrameSpec(TreeSearch, SearchTree, refused=NO_ROOM),
    FrameSpec(TreeMember, MemberOfTree, refused=NO_ROOM),
    FrameSpec(TreeAbove, Above, refused=NO_ROOM),
)
