"""What is the same around every router: what a peer may ask, and for how long."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import Raw, msgpack

from vinecast.core.errors import RemoteError
from vinecast.core.events import Effect, Event, Received
from vinecast.core.log.batch_signature import Verify
from vinecast.core.log.blocks import ContentId, cid_of
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.config import PeerConfig
from vinecast.peer.identity import verify
from vinecast.peer.routing import Routing
from vinecast.peer.scratch import ScratchPool
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.tracing import Tracing
from vinecast.peer.wire.messages import SystemFrame, decode, encode, make_card, system_frame
from vinecast.protocols.relay_path import RelayRequest
from vinecast.systems.common.wire import Entry
from vinecast.systems.registry import LIVE_SYSTEMS
from vinecast.systems.vitis.messages import NO_ROOM, RELAY_SHARE, Relay

TOPICS = 64
ME, OTHER = make_identity(), make_identity()


class Host:
    """A peer that notes what it is told."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.scratch = ScratchPool()
        self.verify: Verify = verify
        self.cid_of: ContentId = cid_of
        self.when_compiled: Callable[[Callable[[], None]], None] = lambda then: then()
        self.tracing: Tracing | None = None
        self.handled: list[Event] = []

    def now_us(self) -> int:
        return 0

    def handle_event(self, event: Event) -> None:
        self.handled.append(event)

    def carry_out(self, effect: Effect) -> None: ...

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        return True

    def hear(self, peer: bytes) -> None: ...

    def answer(self, sender: int, pulls: Sequence[Any]) -> None: ...


def test_what_a_peer_may_name_in_a_cycle_it_may_name_again_in_the_next() -> None:
    host, config = Host(), PeerConfig(system="vitis", topics=TOPICS, peers=64)
    peer_table = PeerTable(ME.public, ME.sign, verify, "test", 64, TOPICS, unmet=config.unmet)
    routing = Routing(config, 1, "test", peer_table, host)
    card = make_card(OTHER.sign, "test", OTHER.public, "127.0.0.1:9", 1, ())
    peer_table.meet(Entry(card, 0, b"", b""), OTHER.id)
    frame = decode(system_frame(Relay(tuple(f"topic/{n}" for n in range(20)))))
    assert isinstance(frame, SystemFrame)
    share = TOPICS // RELAY_SHARE
    for cycle in (1, 2):
        routing.take(OTHER.id, frame)
        routing.take(OTHER.id, frame)
        asked = [event.message for event in host.handled if isinstance(event, Received)]
        assert [len(one.topics) for one in asked if isinstance(one, RelayRequest)] == [share, 0] * cycle
        assert host.counters[NO_ROOM] == cycle * (40 - share)
        routing.begin(routing.row.first_timer)
    assert not peer_table.topics.known()  # it has a place in none of them


@pytest.mark.parametrize("system", LIVE_SYSTEMS)
def test_a_frame_of_nothing_is_refused(system: str) -> None:
    """Also where a system has no frames of its own."""
    host, config = Host(), PeerConfig(system=system, topics=TOPICS, peers=64)
    peer_table = PeerTable(ME.public, ME.sign, verify, "test", 64, TOPICS, unmet=config.unmet)
    routing = Routing(config, 1, "test", peer_table, host)
    frame = decode(encode(SystemFrame(Raw(msgpack.encode(None)))))
    assert isinstance(frame, SystemFrame)
    with pytest.raises(RemoteError):
        routing.take(OTHER.id, frame)
    assert not host.handled
