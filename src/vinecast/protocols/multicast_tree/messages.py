"""What nodes of multicast trees say to each other."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class TreeJoin:
    """Be my parent in this topic's tree."""

    kind: ClassVar[str] = "tree.join"
    topic: int


@dataclass(frozen=True, slots=True)
class TreeAccept:
    """You are my child in this topic's tree."""

    kind: ClassVar[str] = "tree.accept"
    topic: int


@dataclass(frozen=True, slots=True)
class TreePart:
    """We are not parent and child in this topic's tree, or no longer."""

    kind: ClassVar[str] = "tree.part"
    topic: int


@dataclass(frozen=True, slots=True)
class TreeHeartbeat:
    """The sender is the receiver's parent in all these topics' trees."""

    kind: ClassVar[str] = "tree.heartbeat"
    topics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreeAlive:
    """The answer to a heartbeat: so it is, but for these topics."""

    kind: ClassVar[str] = "tree.alive"
    refused: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreePublish:
    """An event on its way up to the root. ``hops``: links travelled so far."""

    kind: ClassVar[str] = "tree.publish"
    topic: int
    event: int
    hops: int


@dataclass(frozen=True, slots=True)
class TreeEvent:
    """An event on its way down the tree. ``hops``: links travelled so far, those to the root included."""

    kind: ClassVar[str] = "tree.event"
    topic: int
    event: int
    hops: int


@dataclass(frozen=True, slots=True)
class TreeSearch:
    """Are you in this topic's tree?"""

    kind: ClassVar[str] = "tree.search"
    topic: int


@dataclass(frozen=True, slots=True)
class TreeMember:
    """The answer to a search."""

    kind: ClassVar[str] = "tree.member"
    topic: int
    member: bool


@dataclass(frozen=True, slots=True)
class TreeAbove:
    """From a parent: who comes after it on the way up, or, above a root, who will be the root after it."""

    kind: ClassVar[str] = "tree.above"
    topic: int
    peers: tuple[int, ...]


MESSAGES = (
    TreeEvent,
    TreePublish,
    TreeJoin,
    TreeAccept,
    TreePart,
    TreeHeartbeat,
    TreeAlive,
    TreeSearch,
    TreeMember,
    TreeAbove,
)
"""What nodes of trees say to each other, for a system that sorts messages."""
