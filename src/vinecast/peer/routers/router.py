"""The systems that a live node can run, and what the driver needs of one.

The driver knows clocks, links, cards and frames; a system knows whom an event goes to. Between them stands a
``Router``: it makes the machine over the node's peer book, turns its messages into frames and back, and
answers the few questions that have another answer in every system (is a topic reachable, who is next to the
node in it, whose numbers are in use). A further system is one more module with a ``make``, and its entry in
``SYSTEMS``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from vinecast.core.events import Effect, Event, Message
from vinecast.core.machine import Machine
from vinecast.peer.content.index import WhenCompiled
from vinecast.peer.scratch import ScratchPool
from vinecast.peer.wire.event_encoding import EventEncoding
from vinecast.peer.wire.messages import Gossip, SystemFrame
from vinecast.protocols.kademlia import Kademlia
from vinecast.systems.common.notices import Pull
from vinecast.systems.durable.machine import Carrier

if TYPE_CHECKING:
    from vinecast.peer.config import PeerConfig
    from vinecast.peer.table.peer_table import PeerTable
    from vinecast.peer.wire.codec import Codec

SYSTEMS: Mapping[str, str] = {
    "poldercast": "vinecast.peer.routers.poldercast",
    "pulsarcast": "vinecast.peer.routers.pulsarcast",
    "vitis": "vinecast.peer.routers.vitis",
    "vinifera": "vinecast.peer.routers.vinifera",
}
"""Name → the module that knows how, which is loaded when a node runs the system."""
NOT_TOLD: Mapping[int, int] = {}
"""What ``Router.release`` returns where events are sent at once."""


class RouterHost(Protocol):
    """The driver, as far as a system needs it."""

    counters: Counter[str]
    scratch: ScratchPool
    """Working memory that it may use."""
    when_compiled: WhenCompiled
    """How to wait until the index of filters is compiled."""

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""
        ...

    def handle(self, event: Event) -> None:
        """Let the machine handle something, and do what it asks for."""
        ...

    def carry_out(self, effect: Effect) -> None:
        """Do what the machine asks for."""
        ...

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        """Send a frame; whether it will go out."""
        ...

    def hear(self, peer: bytes) -> None:
        """A peer gossips. RemoteError when that is more than anybody has to listen to."""
        ...

    def answer(self, sender: int, pulls: Sequence[Pull]) -> None:
        """Let the machine answer a peer that asks for events by number, and send them."""
        ...


class Router(Protocol):
    """The system of one node."""

    carrier: Carrier
    """The machine as streams see it."""
    codec: "Codec"
    """Turns numbers into cards and back."""
    first_timer: str
    """With which a cycle begins."""
    last_timer: str
    """After which all layers have had their turn."""
    gossips: bool
    """Whether everybody's card comes round by gossip; else a new one is told to those with a link."""
    pulls: bool
    """Whether events are asked for by number: those that came by lately are then kept at hand."""

    @property
    def machine(self) -> Machine:
        """What decides."""
        ...

    @property
    def event_encoding(self) -> EventEncoding:
        """Which of the machine's messages an event travels in."""
        ...

    @property
    def table(self) -> Kademlia | None:
        """Its own Kademlia, if it has one; the replicas of streams are then found with that."""
        ...

    # Peers.

    def knows_nobody(self) -> bool:
        """Whether it has nobody to speak to."""
        ...

    def in_use(self) -> set[int]:
        """Numbers of peers that must stay theirs."""
        ...

    def partner_of(self, timer: str) -> int:
        """Whom the layer of a timer has asked and not heard from yet, or NOBODY."""
        ...

    def leads_to(self, topic: str, peer: int) -> bool:
        """Whether events of a topic may go to a peer next."""
        ...

    # Topics, by number.

    def subscribes(self, topic: int) -> bool:
        """Whether the node's application wants a topic."""
        ...

    def is_ready(self, topic: int) -> bool:
        """Whether an event on a topic that it subscribes to would reach this node."""
        ...

    def is_alone(self, topic: int) -> bool:
        """Whether nobody else is known who takes part in a topic of its own."""
        ...

    def neighbours(self, topic: int) -> tuple[int, int]:
        """Who is next to it in a topic of its own, below and above; NOBODY where there is none."""
        ...

    def begin(self, timer: str) -> None:
        """A timer is about to fire."""
        ...

    def search(self, topic: str) -> bool:
        """Before something is published: where nobody is known to whom it could be handed, search for one;
        whether one may be found in a moment."""
        ...

    # Events.

    def has_seen(self, event: int) -> bool:
        """Whether a further copy of an event is of no use, whichever way it comes."""
        ...

    def may_come_again(self, topic: int, event: int) -> bool:
        """Whether an event that came before may come another way."""
        ...

    def take_topic(self, name: str, form: int, event: int) -> int | None:
        """The number of the topic of an event that it takes this way, or None; good until ``release``."""
        ...

    def keep_topic(self, topic: int) -> None:
        """The application has left a topic: keep its number if it is still of use."""
        ...

    def release(self) -> Mapping[int, int]:
        """What was in hand is handled: send what waited for that, and let go of the topics that were taken.

        Event → how many peers were told of it, where they are told before it is sent.
        """
        ...

    # Messages that carry no event.

    def send_later(self, to: int, message: Message) -> bool:
        """Whether a message will go out with others of its kind, at ``release``."""
        ...

    def encode(self, to: bytes, message: Message) -> bytes:
        """The frame of a message for a peer."""
        ...

    def read_gossip(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """Who a frame of a gossip layer is from, and the message in it; RemoteError when there is none."""
        ...

    def take(self, peer: bytes, frame: SystemFrame) -> None:
        """Handle a frame of its own; RemoteError when that has to be refused."""
        ...

    # Regularity.

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """Before the start: when the node was on line before, by its log."""
        ...

    def regularity(self) -> dict[str, Any]:
        """When the node is on line, as far as its log tells; nothing where that does not matter."""
        ...


def make_router(
    config: "PeerConfig", seed: int, network: str, peer_table: "PeerTable", host: RouterHost
) -> Router:
    """The system that a node's configuration names."""
    made: Router = import_module(SYSTEMS[config.system]).make(config, seed, network, peer_table, host)
    return made
