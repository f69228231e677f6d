"""Simulated processes end, stop and begin again as live ones do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vinecast.core.log.retention import Retention
from vinecast.node.transport.interface import TransportConfig
from vinecast.peer import inputs as given
from vinecast.peer.config import PeerConfig
from vinecast.peer.wire.messages import Leaving, encode
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld, Unobserved

NODES = 5


@dataclass
class Watch(Unobserved):
    """Everything that peers are handed."""

    seen: list[tuple[float, int, given.PeerInput]] = field(default_factory=list)
    now_s: Callable[[], float] = float

    def before(self, node: SimulatedNode, what: given.PeerInput) -> None:
        self.seen.append((self.now_s(), node.number, what))

    def of(self, node: int, kind: type[Any]) -> list[Any]:
        return [what for _, who, what in self.seen if who == node and isinstance(what, kind)]


def network(links: LinkConfig | None = None) -> tuple[PeerWorld, Watch]:
    """Nodes that know each other, after some seconds."""
    watch = Watch()
    world = PeerWorld(3, links or LinkConfig(), watch)
    watch.now_s = lambda: world.now_s
    config = PeerConfig(period_s=0.5, peers=64, topics=64)
    for _ in range(NODES):
        world.add(config, network="test", disk=DiskConfig(), retention=Retention())
    for number in range(NODES):
        world.start(number, range(number))
    world.run(6)
    watch.seen.clear()
    return world, watch


def others_of(world: PeerWorld, node: int) -> list[int]:
    """The nodes that a node is connected to."""
    return [one if other == node else other for one, other in world.links.links() if node in (one, other)]


def test_goodbyes_arrive_at_all_who_are_connected() -> None:
    world, watch = network(LinkConfig(latency_ms=80.0))
    connected, leaver = others_of(world, 2), world.nodes[2].setup.identity.id
    assert len(connected) >= 2
    world.nodes[2].leave()
    world.run(7)
    for node in connected:
        told = [what for what in watch.of(node, given.FrameCame) if what.peer == leaver]
        assert told[-1] == given.FrameCame(leaver, encode(Leaving()))
        assert given.LinkDown(leaver, False) in watch.of(node, given.LinkDown)


def test_process_that_goes_on_after_long_learns_that_its_connections_are_gone() -> None:
    world, watch = network(LinkConfig(idle_s=1000.0))
    stopped = world.nodes[2].setup.identity.id
    connected = others_of(world, 2)
    world.nodes[2].pause()
    world.run(36)
    handled = [at_s for at_s, node, _ in watch.seen if node == 2]
    assert not handled
    assert others_of(world, 2) == []
    for node in connected:
        assert given.LinkDown(stopped, True) in watch.of(node, given.LinkDown)
        when = [
            at_s for at_s, who, what in watch.seen if who == node and what == given.LinkDown(stopped, True)
        ]
        assert 25.9 < when[0] < 26.1, "after 20 s of silence"
    world.nodes[2].resume()
    gone = {what.peer for what in watch.of(2, given.LinkDown)}
    assert gone == {world.nodes[node].setup.identity.id for node in connected}
    world.run(50)
    assert others_of(world, 2), "it finds the others again"


def test_nothing_becomes_safe_while_a_process_is_stopped() -> None:
    world, watch = network()
    node = world.nodes[1]
    node.publish(lambda request: given.PublishDrafts(request, "t", (node.draft(b"x"),), True))
    while not node.disk.state("t").last:
        world.run(world.now_s + 0.001)
    node.pause()
    world.run(9)
    assert not watch.of(1, given.EventsStored)
    assert not node.disk.synced
    node.resume()
    world.run(9.1)
    assert watch.of(1, given.EventsStored)


def test_numbers_of_publications_never_go_back() -> None:
    world, _ = network()
    node = world.nodes[1]
    before = node.draft(b"x").sequence
    node.crash()
    node.start(())
    assert node.draft(b"x").sequence > before


def test_bounds_are_those_of_a_live_node() -> None:
    ours, live = LinkConfig(), TransportConfig()
    for name in ("queue_bytes_max", "frame_bytes_max", "idle_s", "silent_s_max", "dial_s", "close_s"):
        assert getattr(ours, name) == getattr(live, name)
