"""How a system's messages travel: what peers, topics and numbers look like in them, within which bounds, and
which frame each message has. A system states this in its ``messages.py``; ``peer`` has one codec for all.

A frame is a msgspec ``Struct``: everything that comes in is bounded and typed by its fields. Machines deal in
numbers, frames in names: a field of type ``Topic`` or ``Entry`` is a topic or a peer, by number, in the
message; so is each of a tuple of them. Other fields are the same in both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from vinecast.core.log.batch_signature import SignedEvent

KEY_BYTES, ID_BYTES, SIGNATURE_BYTES = 32, 32, 64
ADDRESS_CHARS, TOPIC_CHARS, TOPICS_MAX, ENTRIES_MAX = 300, 255, 8191, 64
CARD_BYTES_MAX = 64 * 1024
"""Of all names of topics on one card."""
PATTERN_BYTES_MAX = 252
"""A week in slots of five minutes."""
HOPS_MAX = 32_000
AGE_MAX = 65_535
CYCLE_MAX = VERSION_MAX = 2**63 - 1
TABLE_MAX = 128
"""Entries of a live table at the most (ours): a message has room for all of them."""
PATIENCE_PERIODS = 4
"""Periods that a partner may take for its answer (ours); until then it counts as a neighbour."""

Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Id = Annotated[bytes, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Version = Annotated[int, Meta(ge=0, le=VERSION_MAX)]
Cycle = Annotated[int, Meta(ge=0, le=CYCLE_MAX)]
Age = Annotated[int, Meta(ge=0, le=AGE_MAX)]
Hops = Annotated[int, Meta(ge=0, le=HOPS_MAX)]
Topic = Annotated[str, Meta(min_length=1, max_length=TOPIC_CHARS)]
Topics = Annotated[tuple[Topic, ...], Meta(max_length=TOPICS_MAX)]


class Card(Struct, array_like=True, frozen=True, tag=0):
    """Who a peer is, signed by itself. ``version`` grows with every change."""

    public: Key
    address: Annotated[str, Meta(max_length=ADDRESS_CHARS)]
    version: Version
    topics: Topics
    """In ascending order, each once."""
    signature: Signature
    pattern: Annotated[bytes, Meta(max_length=PATTERN_BYTES_MAX)] = b""
    """When it is regularly on line, a bit a slot; empty where it does not say. Signed with the rest."""


class CardReference(Struct, array_like=True, frozen=True, tag=1):
    """A card that was sent over this connection before."""

    id: Id
    version: Version


class Entry(Struct, array_like=True, frozen=True):
    """A peer as one node knows it: its card, how long ago it was heard from, and what it said of its rings.

    coverage: a byte a topic; gaps: four bytes a topic, most significant first; both in the card's order, or
    empty where nothing is known. The same of its regular rings.
    """

    card: Card | CardReference
    age: Age
    coverage: Annotated[bytes, Meta(max_length=TOPICS_MAX)]
    gaps: Annotated[bytes, Meta(max_length=4 * TOPICS_MAX)]
    regular_coverage: Annotated[bytes, Meta(max_length=TOPICS_MAX)] = b""
    regular_gaps: Annotated[bytes, Meta(max_length=4 * TOPICS_MAX)] = b""


Entries = Annotated[tuple[Entry, ...], Meta(max_length=ENTRIES_MAX)]


def names_bytes(topics: Iterable[str]) -> int:
    """What the names of some topics weigh together."""
    return len("".join(topics).encode())


# Messages.


def _always(frame: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class FrameSpec:
    """A message and its frame. Their fields have the same names."""

    message: type[Any]
    frame: type[Struct]
    is_request: bool = True
    """Whether it counts as one of the requests of which a peer may make so many at once, and a second."""
    inner: tuple[str, type[Any]] | None = None
    """A field of the message that is a record, and its type: the frame has the record's fields instead."""
    missing: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the message that do not travel, and what the receiver takes for them."""

    # Topics that the receiver does not know.

    takes_any: Callable[[Any], bool] = _always
    """(frame) -> whether the receiver takes it for a topic in which it has no place."""
    refused: str = ""
    """What is counted when a topic is not taken, or there is no room for it."""
    share: int = 0
    """A peer can name one in so many of the topics that a node can know, in a cycle; 0: any number."""
    admits: Callable[[Any, int], bool] | None = None
    """(router, sender) -> whether the sender may ask this at all; else it is refused as without room."""
    refusal: type[Struct] | None = None
    """The frame that tells a peer, by the topic's name, that it was refused."""

    # Messages that share frames.

    joins: str = ""
    """The field of the frame in which what goes to one peer in one turn is joined; empty: nothing is."""
    joins_of: str = ""
    """The field of the message that is one of these; empty: the field of the same name, with several."""
    tells: bool = False
    """Whether the joined are numbers of events that the receiver is told of before they are sent."""


class PeerStatus(Protocol):
    """A peer as one node tells another of it: its card, when it was heard from, and its system's words."""

    @property
    def card(self) -> Card | CardReference: ...
    @property
    def age(self) -> int: ...


class StatusGossip(Protocol):
    """What a system on T-Man says of peers beside their cards: *words* such as what their topics weigh, or
    where they are on the circle now. Nobody signs them: they are taken from whoever heard from the peer
    last."""

    status: type[Any]
    """``PeerStatus`` with the system's words."""
    exchange: type[Any]
    """The frame of Cyclon's and T-Man's messages: kind, cycle, sender, peers."""
    profile: type[Any]
    """The frame of a profile or the answer to one: is_answer, cycle, sender, met, and what ``enclose``
    gives."""

    def words_of(self, number: int) -> tuple[int, ...]:
        """The words about a peer."""

    def hear(self, number: int, told: Any) -> None:
        """Take over a peer's words from a ``PeerStatus``."""

    def reset(self, peer: int) -> None:
        """A peer's topics are others now, or it is another peer: nothing is known of it."""

    def enclose(self, to: int) -> Mapping[str, Any]:
        """What a profile for a peer says besides."""

    def hear_profile(self, sender: int, frame: Any) -> None:
        """Take over what a profile of a peer says besides. RemoteError when no honest node says so."""


class FieldCodec(Protocol):
    """A kind of field that one system has: between the value in a message and a ``Struct`` in a frame."""

    def pack(self, value: Any) -> Iterator[tuple[Struct, int]]:
        """The value in as many parts as frames need, and how many things each has."""

    def read(self, peer: bytes, part: Any) -> Any:
        """The value of a part that a peer sent. RemoteError when no honest node sends it."""


class EventEncoding(Protocol):
    """Which of its system's messages an event travels in, as a number on its frame: its *form*.

    All of a system's messages that carry events have the fields topic, event and hops; what else they say, if
    anything, is in the number and in the event itself.
    """

    @property
    def count(self) -> int:
        """Forms have numbers below this one."""

    def form_of(self, message: Any) -> int | None:
        """The form of a message; None if it carries no event."""

    def read(self, form: int, topic: int, signed: SignedEvent, hops: int) -> Any:
        """The message of an event that came in this form. RemoteError if there is none such."""


class PlainEncoding:
    """Where a message says nothing but topic, event and hops: its form is its place among its system's."""

    def __init__(self, *carries: type[Any]) -> None:
        self._carries = carries
        self._forms: dict[type[Any], int] = {message: form for form, message in enumerate(carries)}

    @property
    def count(self) -> int:
        return len(self._carries)

    def form_of(self, message: Any) -> int | None:
        return self._forms.get(type(message))

    def read(self, form: int, topic: int, signed: SignedEvent, hops: int) -> Any:
        return self._carries[form](topic, signed.number, hops)
