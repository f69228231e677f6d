"""A peer of which a test is all the world: it hands it inputs, and sees what comes out."""

from collections import Counter
from typing import TypeVar

from vinecast.core.log.memory import MemoryStreams
from vinecast.node.runtime.capabilities import scratch_pool
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.address import Address
from vinecast.peer.config import PeerConfig
from vinecast.peer.identity import Identity, verify
from vinecast.peer.inputs import Draft, FrameCame, LinkUp, NodeBegins, PeerInput, PublishDrafts, PublishTurn
from vinecast.peer.links import LinkLimits
from vinecast.peer.outputs import PeerOutput
from vinecast.peer.peer import Peer, PeerPorts
from vinecast.peer.wire.messages import Introduction, encode, make_card
from vinecast.systems.common.wire import Entry

T = TypeVar("T")


class Streams(MemoryStreams):
    """What is kept is safe when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.counters: Counter[str] = Counter()
        self.is_crowded = False

    async def durable(self) -> None: ...
    def make_room(self) -> None: ...


class LonePeer:
    """Begun, and alone until somebody is introduced. What it publishes has the request number 2."""

    def __init__(self, config: PeerConfig, join: tuple[Address, ...] = (), card_version: int = 0) -> None:
        me = make_identity()
        ports = PeerPorts(Streams(), me.sign, verify, scratch_pool())
        self.now_us = 1_000_000
        self.peer = Peer(me.public, "test", 1, config, ports, LinkLimits(), card_version)
        self.begun = self.feed(NodeBegins(Address("memory", 1), join))
        self._sequence = 0

    def feed(self, what: PeerInput) -> list[PeerOutput]:
        """Hand it something; what comes out."""
        return self.peer.handle(what, self.now_us)

    def introduce(self, *topics: str, other: Identity | None = None) -> bytes:
        """Let somebody come up who subscribes to these topics; who it is."""
        other = other or make_identity()
        card = make_card(other.sign, "test", other.public, "127.0.0.1:9", 1, topics)
        self.feed(LinkUp(other.id))
        self.feed(FrameCame(other.id, encode(Introduction(Entry(card, 0, b"", b"")))))
        return other.id

    def publish(self, events: int, size: int, topic: str = "news", durable: bool = False) -> list[PeerOutput]:
        """Publish so many events of a size in one turn; what comes out until its end."""
        drafts = tuple(Draft(bytes(size), {}, self._sequence + n, 1) for n in range(1, events + 1))
        self._sequence += events
        return self.feed(PublishTurn((PublishDrafts(2, topic, drafts, durable),)))


def of_type(kind: type[T], out: list[PeerOutput]) -> list[T]:
    """Those of some outputs that are of a kind."""
    return [one for one in out if isinstance(one, kind)]
