"""What a node is working at: operations, each a lookup and, for some, storing where it ended.

An operation is known by its name and key: who asks for the same again while it runs gets the same result.
What comes of it is a ``Found``, which the owner of the machine takes out (``take_results``) after whatever it
handed in.

Values come in two kinds. A *block* has its own SHA-256 as its key: nobody can forge it, and the first that
comes is as good as any. Everything else needs a ``Validator``, which says whether a value is true, and which
of several counts; without one nothing else is taken. So there are no values that anybody could replace by
others.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from vinecast.core.events import Message
from vinecast.protocols.kademlia.lookup import Lookup


class Operation(StrEnum):
    """What can be asked of the table (S3 §4.2)."""

    CLOSEST = "closest"
    PUT = "put"
    GET = "get"
    PROVIDE = "provide"
    PROVIDERS = "providers"


@dataclass(frozen=True, slots=True)
class Found:
    """An operation is over.

    ``peers``: the nearest ones, the node itself perhaps among them (closest); who keeps the value or the
    provider now, itself included likewise (put, provide); who had the value (get); the providers. Nobody at
    all where the operation could not be begun. ``value``: what get found, or nothing.
    """

    operation: Operation
    key: bytes
    peers: tuple[int, ...]
    value: bytes = b""


class Validator(Protocol):
    """Says which values are true that are not blocks: signed ones, with a number that ascends."""

    def check(self, key: bytes, value: bytes, now_us: int) -> bool:
        """Whether a value is one of this key's, now."""

    def until_us(self, value: bytes) -> int:
        """Until when a value counts that has been checked."""

    def select(self, values: Sequence[bytes]) -> int:
        """Which of these counts, by its place; each has been checked."""


def is_block(key: bytes, value: bytes) -> bool:
    """Whether a value is the one that its key is the hash of."""
    return hashlib.sha256(value).digest() == key


@dataclass(slots=True, eq=False)
class KademliaTask:
    """An operation that is under way."""

    operation: Operation
    key: bytes
    lookup: Lookup
    told: bool
    """Whether somebody wants the result; upkeep does not."""
    value: bytes = b""
    """The best that was found."""
    holders: dict[int, bytes] = field(default_factory=dict)
    """Who had which value."""
    providers: dict[int, None] = field(default_factory=dict)
    storing: dict[int, None] | None = None
    """Whose word is awaited that it keeps something; None while the lookup goes on."""
    stored: list[int] = field(default_factory=list)
    """Who keeps it."""
    again: bool = False
    """Whether it was asked for once more while it was storing: there may be a newer value since."""
    over: bool = False


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A message whose answer is awaited."""

    peer: int
    message: Message
    task: KademliaTask | None
    tries: int
    """How often it can still be sent."""
    due_us: int


class Requests:
    """All that is awaited. The time for an answer is always the same, so that the first is due first."""

    def __init__(self) -> None:
        self.open: dict[int, PendingRequest] = {}
        self._last = 0

    @property
    def first_due_us(self) -> int | None:
        """When the first falls due."""
        return next((request.due_us for request in self.open.values()), None)

    def next_number(self) -> int:
        """A number for the next request."""
        self._last += 1
        return self._last

    def add(self, number: int, request: PendingRequest) -> None:
        """Await an answer, behind all others."""
        self.open[number] = request

    def take(self, number: int, peer: int) -> PendingRequest | None:
        """What a peer answers, if it was asked."""
        request = self.open.get(number)
        if request is None or request.peer != peer:
            return None
        return self.open.pop(number)

    def take_due(self, now_us: int) -> list[tuple[int, PendingRequest]]:
        """Requests whose time is up."""
        due = []
        for number, request in self.open.items():
            if request.due_us > now_us:
                break
            due.append((number, request))
        for number, _ in due:
            del self.open[number]
        return due

    def take_all_to(self, peer: int) -> list[PendingRequest]:
        """Requests to a peer that is gone."""
        gone = [number for number, request in self.open.items() if request.peer == peer]
        return [self.open.pop(number) for number in gone]
