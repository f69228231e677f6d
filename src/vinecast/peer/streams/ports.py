"""The ports of a node's streams: what they need of the peer, and who hears from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vinecast.core.events import Effect
from vinecast.core.log.batch_signature import SignedEvent, Verify
from vinecast.core.log.blocks import ContentId
from vinecast.core.log.streams import Consumers, Streams, StreamSink
from vinecast.peer.tracing import Tracing


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """What is set of streams."""

    network: str
    period_s: float
    replicas: int
    provide: float


class StreamPlace(Streams, StreamSink, Consumers, Protocol):
    """Where a node keeps its streams. What reads raises InputError where that fails, now or for ever."""

    @property
    def counters(self) -> Counter[str]:
        """What it did: commits, events, refused, forgotten."""

    @property
    def is_crowded(self) -> bool:
        """Whether it takes nothing from others until there is room again."""

    def weight(self, topic: str) -> int:
        """Bytes of a stream that are kept."""

    async def durable(self) -> None:
        """Wait until all that was kept up to now is safe."""

    def make_room(self) -> None:
        """Something was kept: where there is no disk, thin out what has become too much."""


class StreamHost(Protocol):
    """The peer, as far as it is needed here."""

    counters: Counter[str]
    verify: Verify
    """What checks signatures."""
    cid_of: ContentId
    """What content ids are."""
    tracing: Tracing | None

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""

    def carry_out(self, effect: Effect) -> None:
        """What the node's machine asks for besides."""

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        """Send a frame; whether it will go out."""

    def note_unreadable(self) -> None:
        """The store could not be read."""

    def refuse_topic(self, peer: bytes) -> None:
        """A peer sent an event on a topic that is not subscribed to."""

    def connected(self) -> Iterable[int]:
        """The peers that there are connections to."""


class Listener(Protocol):
    """Who wants to know what becomes of the node's own events."""

    def safe(self, cids: Sequence[bytes]) -> None:
        """They are safe on this node."""

    def held(self, cid: bytes, holders: int) -> None:
        """So many others hold one."""


DeliverSafe = Callable[[SignedEvent, int, int], object]
"""Takes an event that is safe, how many connections it travelled (−1: it was fetched), and its position;
0 for one that came because of its content, and is not kept here."""
