"""The router of a live node: its system's machine, and what the node asks about it.

A machine says whom an event goes to. The node around it also has to know whether a topic can be reached, who
is next to it in a topic, whose numbers are in use: questions that have another answer in every system. A
``Router`` answers them. It knows no frame and no name: it deals in numbers, like the machine (``ports`` has
the little that it may ask about names).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from numpy.typing import DTypeLike, NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.content.filters_index import WhenCompiled
from vinecast.core.events import Effect, Event
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.machine import Machine
from vinecast.protocols.kademlia import Validator
from vinecast.systems.common.wire import ENTRIES_MAX, Card, EventEncoding, FieldCodec, StatusGossip

ME = 0
"""The node's own number."""

# What a router is told beside a machine's events.


@dataclass(frozen=True, slots=True)
class EventKnown:
    """An event that is sent to this node is here already, and will not be brought to the machine."""

    event: int


@dataclass(frozen=True, slots=True)
class Publishing:
    """The application is about to publish this event: the machine's ``Publish`` follows at once."""

    signed: SignedEvent


@dataclass(frozen=True, slots=True)
class Search:
    """Something is about to be published on a topic of which nobody may be known: search for a subscriber."""

    topic: int


RouterEvent = Event | EventKnown | Publishing | Search


class Router(Protocol):
    """The system of one live node, as the node asks it. Topics, peers and events go by number."""

    @property
    def machine(self) -> Machine:
        """What decides."""

    def handle(self, event: RouterEvent, now_us: int) -> list[Effect]:
        """Let the machine handle something; see ``Machine``."""

    # Peers.

    def in_use(self) -> set[int]:
        """Peers whose numbers must stay theirs."""

    def partner_of(self, timer: str) -> int:
        """Whom the layer of a timer has asked and not heard from yet, or NOBODY."""

    def leads_to(self, topic: int, peer: int) -> bool:
        """Whether events of a topic may go to a peer next."""

    # Topics.

    def subscribes(self, topic: int) -> bool:
        """Whether the node's application wants a topic."""

    def is_ready(self, topic: int, now_us: int) -> bool:
        """Whether an event on a topic that it subscribes to would reach this node."""

    def is_alone(self, topic: int, now_us: int) -> bool:
        """Whether nobody else is known who takes part in a topic of its own."""

    def is_searching(self, topic: int, now_us: int) -> bool:
        """Whether a subscriber of a topic may be found in a moment."""

    def nearest(self, topic: int, now_us: int) -> tuple[int, int]:
        """Who is next to it in a topic of its own, below and above; NOBODY where there is none."""

    def neighbours(self, topic: int, now_us: int) -> Sequence[int]:
        """All peers next to it in a topic's overlay."""

    def carries(self, topic: int) -> bool:
        """Whether it has a place in a topic: events on it are taken, and its number stays."""

    # Events.

    def takes_any(self, form: int, event: int) -> bool:
        """Whether an event in this form is taken on a topic in which the node has no place, too."""

    def has_seen(self, event: int, topic: int) -> bool:
        """Whether an event came by lately; ``topic`` is NOBODY while that is not known."""


class Names(Protocol):
    """The names of topics and filters by number, as far as a system may ask."""

    names: list[str | None]

    def number_of(self, name: str) -> int | None:
        """The number of a name that somebody has."""

    def place(self, point_of: Callable[[str], int], dtype: DTypeLike = ...) -> NDArray[Any]:
        """The points of all names, by number, kept up from now on."""

    def watch(self, on_take: Callable[[int, str], object], on_leave: Callable[[int], object]) -> None:
        """Be told of every number that is given, and for which name, and of every one that is given back."""


class Peers(Protocol):
    """The peers that the node knows, by number, as far as a system may ask."""

    profiles: Profiles
    cycle: int
    has_filters: bool
    """Whether cards have filters among their topics; a system of content sets it."""

    @property
    def topics(self) -> Names:
        """The names of topics."""

    @property
    def card(self) -> Card:
        """The node's own card."""

    def number_of(self, peer: bytes) -> int:
        """The number of a peer that is known, or NOBODY."""

    def number_of_key(self, public: bytes) -> int:
        """The number of the peer with a public key, such as an event's publisher, or NOBODY."""

    def id_of(self, number: int) -> bytes:
        """The id behind a number."""

    def names_of(self, number: int) -> tuple[str, ...]:
        """All that a peer subscribes to, in the order of its card."""

    def order_of(self, number: int) -> NDArray[Any]:
        """For each topic of a peer's profile, in order: which of its card's that is."""

    def has(self, number: int, version: int) -> bool:
        """Whether the card of a peer that is held is of a version."""


@dataclass(frozen=True, slots=True)
class RouterPorts:
    """What a router may use of its node."""

    seed: int
    peers: Peers
    peers_max: int
    """Peers that the node can know; numbers from here on are the system's, for whom it knows by name only."""
    topics_max: int
    point_of: Callable[[str], int]
    """Where a topic is: the first 64 bits of the key that its replicas are found by."""
    take_number: Callable[[str], int | None]
    """The number of a name, for as long as what is in hand is handled; None when there is no room."""
    counters: Counter[str]
    scratch: Callable[..., Scratch]
    """Working memory; the parameters of ``make_scratch``."""
    when_compiled: WhenCompiled
    validator: Validator
    """Which values Kademlia may store."""
    regular: Any
    """``RegularProfiles``: what is known of others' regularity; None where that does not matter."""


class LiveParts(NamedTuple):
    """What a system makes for one node."""

    router: Router
    event_encoding: EventEncoding | None = None
    """Which of its messages an event travels in; None where they say nothing but topic, event and hops."""
    entries_max: int = ENTRIES_MAX
    """Peers that a message of a gossip layer may have."""
    status: StatusGossip | None = None
    """What it says of peers beside their cards, in systems on T-Man."""
    fields: Mapping[type[Any], FieldCodec] = {}
    """The kinds of fields in frames that only this system has."""
