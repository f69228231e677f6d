"""What Kademlia nodes say to each other. ``number`` is the asker's, for the answer."""

from dataclasses import dataclass
from typing import ClassVar

PEERS, VALUE, PROVIDERS = 0, 1, 2
"""What somebody wants who looks for a key: the peers near it, its value too, or its providers too."""


@dataclass(frozen=True, slots=True)
class KademliaPing:
    """Asks whether a peer is there."""

    kind: ClassVar[str] = "kademlia.ping"
    number: int


@dataclass(frozen=True, slots=True)
class KademliaPong:
    """Answers ``KademliaPing``."""

    kind: ClassVar[str] = "kademlia.pong"
    number: int


@dataclass(frozen=True, slots=True)
class KademliaFind:
    """Asks which peers the receiver knows near a key, and what it has of it."""

    kind: ClassVar[str] = "kademlia.find"
    number: int
    key: bytes
    want: int


@dataclass(frozen=True, slots=True)
class KademliaAnswer:
    """The nearest peers that the sender knows, and what else was wanted; an empty value is none."""

    kind: ClassVar[str] = "kademlia.answer"
    number: int
    peers: tuple[int, ...]
    providers: tuple[int, ...] = ()
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class KademliaStore:
    """Keep this value, for so many microseconds at the most."""

    kind: ClassVar[str] = "kademlia.store"
    number: int
    key: bytes
    value: bytes
    left_us: int


@dataclass(frozen=True, slots=True)
class KademliaProvide:
    """Tell others that the sender has what belongs to this key."""

    kind: ClassVar[str] = "kademlia.provide"
    number: int
    key: bytes


@dataclass(frozen=True, slots=True)
class KademliaStored:
    """The answer to both: whether it is kept."""

    kind: ClassVar[str] = "kademlia.stored"
    number: int
    taken: bool


@dataclass(frozen=True, slots=True)
class KademliaGoodbye:
    """The sender leaves in good order."""

    kind: ClassVar[str] = "kademlia.goodbye"


MESSAGES = (
    KademliaPing,
    KademliaPong,
    KademliaFind,
    KademliaAnswer,
    KademliaStore,
    KademliaProvide,
    KademliaStored,
    KademliaGoodbye,
)
"""What Kademlia nodes say to each other, for a system that sorts messages."""
