"""A small simulated network of recorded peers, and what their records say."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from vinecast.core.config import as_table
from vinecast.core.log.retention import Retention
from vinecast.peer import inputs as given
from vinecast.peer.config import PeerConfig
from vinecast.peer.links import LinkLimits
from vinecast.peer.outputs import DeliverEvent, PeerOutput
from vinecast.peer.peer import Peer, PeerPorts
from vinecast.peer.record.recorder import RecordedPeer
from vinecast.peer.record.replay import ReplayStep, replay
from vinecast.peer.record.segment import Place, SegmentHeader, begin_segment, pack_part
from vinecast.sim.peers import node as simulated
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld

SYSTEMS: dict[str, dict[str, Any]] = {
    "poldercast": {},
    "regular": {"system": "poldercast", "regularity": "day"},
    "pulsarcast": {"system": "pulsarcast"},
    "vitis": {"system": "vitis"},
    "vinifera": {"system": "vinifera"},
    "flooding": {"system": "flooding"},
}
"""All systems that run live."""
MARKER = b"a payload that must not be found"
TOPICS = ("news", "sports", "stocks")
NODES, SECONDS = 5, 8.0
Make = Callable[..., Any]


def config_of(system: str, **rest: Any) -> PeerConfig:
    """Small peers."""
    small: dict[str, Any] = {"period_s": 0.5, "peers": 64, "topics": 128, "remembered": 1024}
    return PeerConfig(**small, **SYSTEMS[system], **rest)


class Outputs:
    """Sees what comes out of all peers, and lets no error pass."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str, str]] = []
        self.counts: Counter[str] = Counter()

    def before(self, node: SimulatedNode, what: given.PeerInput) -> None: ...

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[PeerOutput]) -> None:
        self.seen.append((node.number, repr(what), repr(outputs)))
        self.counts.update(type(one).__name__ for one in outputs)

    def failed(self, node: SimulatedNode, what: given.PeerInput, error: Exception) -> None:
        raise error


def make_world(system: str, outputs: Outputs, **rest: Any) -> PeerWorld:
    """Nodes that join, read and publish, one of which crashes and comes back. Run it for ``SECONDS``."""
    world = PeerWorld(7, LinkConfig(), outputs)
    for _ in range(NODES):
        world.add(config_of(system, **rest), network="test", disk=DiskConfig(), retention=Retention())
    for number in range(NODES):
        world.at_s(0.1 * number, world.start, number, [0] if number else [])
        for place, topic in enumerate(TOPICS[: 1 + number % 3]):
            world.at_s(1 + 0.1 * number, _open, world, number, 10 * number + place, topic)
    for turn in range(60):
        world.at_s(2 + turn * 0.08, _publish, world, turn)
    world.at_s(3.5, world.nodes[2].crash)
    world.at_s(5.0, world.start, 2, [0])
    return world


def _open(world: PeerWorld, number: int, subscription: int, topic: str) -> None:
    start = "now" if number % 2 else "earliest"
    consumer = "reader" if number == 3 else None
    world.nodes[number].ask(
        lambda request: given.OpenSubscription(request, subscription, topic, start, consumer)
    )


def _publish(world: PeerWorld, turn: int) -> None:
    node = world.nodes[turn % NODES]
    payload = MARKER + b" %d" % turn
    node.publish(
        lambda request: given.PublishDrafts(
            request, TOPICS[turn % 3], (node.draft(payload, {"turn": str(turn)}),), turn % 2 == 0
        )
    )


def replace_peers(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    """Let the nodes of worlds that are made from now on have other peers: ``make`` has the parameters of
    ``Peer``."""
    monkeypatch.setattr(simulated, "Peer", make)


class Recording:
    """The record of a simulated peer, in memory: a segment every so many inputs. It takes the peer's
    place."""

    def __init__(
        self,
        segments: list[bytes],
        with_payloads: bool,
        every: int,
        made: tuple[bytes, str, int, PeerConfig, PeerPorts, LinkLimits, int],
    ) -> None:
        public, network, seed, config, ports, limits, version = made
        self._segments, self._every, self._entries = segments, every, 0
        self._recorded = RecordedPeer(
            lambda wrapped: Peer(public, network, seed, config, wrapped, limits, version),
            ports,
            with_payloads,
            self._note,
            self._fail,
        )
        self._header = {
            "version": "0",
            "code": "this",
            "python": "3",
            "network": network,
            "public": public,
            "seed": seed,
            "config": as_table(config),
            "limits": list(limits),
            "with_payloads": with_payloads,
            "life": f"{public.hex()} {len(segments)}",
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorded.peer, name)

    def handle(self, what: given.PeerInput, now_us: int) -> list[PeerOutput]:
        """See ``Peer``."""
        if self._entries % self._every == 0:
            header: Any = {**self._header, "number": len(self._segments), "begins_at": self._entries + 1}
            self._at = len(self._segments)
            self._segments.append(begin_segment(SegmentHeader(**header), self._recorded.snapshot()))
        return self._recorded.handle(what, now_us)

    def _note(self, entry: bytes) -> None:
        self._entries += 1
        self._segments[self._at] += pack_part(entry)

    def _fail(self, error: Exception) -> None:
        raise error


def record_nodes(monkeypatch: pytest.MonkeyPatch, with_payloads: bool, every: int) -> list[bytes]:
    """Let the nodes of worlds that are made from now on be recorded; where their segments are found."""
    segments: list[bytes] = []

    def make(public: bytes, network: str, seed: int, *others: Any) -> Recording:
        made: Any = public, network, seed, *(*others, 0)[:4]
        return Recording(segments, with_payloads, every, made)

    replace_peers(monkeypatch, make)
    return segments


def record(
    monkeypatch: pytest.MonkeyPatch, system: str, with_payloads: bool = True, every: int = 400, **rest: Any
) -> list[bytes]:
    """The records of all peers of a small network: their segments."""
    segments, outputs = record_nodes(monkeypatch, with_payloads, every), Outputs()
    make_world(system, outputs, **rest).run(SECONDS)
    monkeypatch.undo()
    assert outputs.counts[DeliverEvent.__name__] > 50, "there is nothing to see"
    return segments


class Differences:
    """What a replay shows: how many entries, and which differ."""

    def __init__(self) -> None:
        self.entries = 0
        self.found: list[tuple[Place, ReplayStep]] = []

    def began(self, header: SegmentHeader) -> None: ...

    def stepped(self, place: Place, step: ReplayStep) -> None:
        self.entries += 1
        if not step.is_same:
            self.found.append((place, step))

    def ended(self, counted: Counter[str]) -> None: ...


def replayed(segments: list[bytes]) -> Differences:
    """What comes of having all segments again, each by itself: they are of several peers."""
    shown = Differences()
    for number, segment in enumerate(segments):
        assert replay([(f"{number}.segment", segment)], "this", shown) is None
    return shown


def named(segments: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Segments as files have them."""
    return ((f"{number:08d}.segment", segment) for number, segment in enumerate(segments, 1))
