"""Snapshots: a peer that is restored goes on as the one that it was taken of."""

import contextlib
import sys
from typing import Any

import pytest

from support.recorded_peers import MARKER, SECONDS, SYSTEMS, Outputs, config_of, make_world, replace_peers
from vinecast.core.errors import InputError
from vinecast.peer.config import PeerConfig
from vinecast.peer.links import LinkLimits
from vinecast.peer.peer import Peer, PeerPorts
from vinecast.peer.record import strict_reader
from vinecast.peer.record.skeleton import Skeleton
from vinecast.peer.record.snapshot import restore, take_snapshot
from vinecast.peer.record.tape import Tape, taped_ports
from vinecast.peer.scratch import ScratchPool
from vinecast.sim.peers.world import PeerWorld

AFTER_PORTS = len(PeerPorts._fields)
"""The number of the peer itself."""
SWAPPED_S = 4.01
"""While one node is away, events are under way, and streams are caught up with."""


class Made:
    """Peers with their skeletons, which can be replaced by others that are restored."""

    def __init__(self) -> None:
        self.skeletons: dict[bytes, tuple[tuple[Any, ...], Skeleton]] = {}

    def make(self, *given: Any) -> Peer:
        peer = Peer(*given)
        self.skeletons[peer.peer_table.me] = given, Skeleton(peer, given[4])
        return peer

    def swap(self, world: PeerWorld) -> None:
        """Each peer that is up goes on as another one."""
        for node in world.nodes:
            if node.peer is not None:
                given, skeleton = self.skeletons[node.peer.peer_table.me]
                snapshot = take_snapshot(skeleton)
                node.peer = self.make(*given)
                restore(self.skeletons[node.peer.peer_table.me][1], snapshot)


def seen_in(
    monkeypatch: pytest.MonkeyPatch, system: str, swaps: bool, **rest: Any
) -> list[tuple[int, str, str]]:
    made, outputs = Made(), Outputs()
    replace_peers(monkeypatch, made.make)
    world = make_world(system, outputs, **rest)
    if swaps:
        world.at_s(SWAPPED_S, made.swap, world)
    world.run(SECONDS)
    return outputs.seen


def bloated() -> set[Any]:
    """An empty set that has been large: what is put into it comes out in another order."""
    found: set[Any] = set(range(3000))
    found -= set(range(3000))
    return found


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_restored_peer_goes_on_bit_for_bit(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = seen_in(monkeypatch, system, swaps=False)
    containers = {**strict_reader._CONTAINERS, "EMPTY_SET": bloated}
    monkeypatch.setattr(strict_reader, "_CONTAINERS", containers)  # no output hangs on the order of a set
    again = seen_in(monkeypatch, system, swaps=True)
    assert len(plain) > 1000
    assert next(((one, other) for one, other in zip(plain, again, strict=True) if one != other), None) is None


def test_a_restored_peer_goes_on_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = seen_in(monkeypatch, "poldercast", swaps=False, traced=True)
    assert seen_in(monkeypatch, "poldercast", swaps=True, traced=True) == plain


def begun(monkeypatch: pytest.MonkeyPatch, system: str = "poldercast") -> tuple[tuple[Any, ...], Skeleton]:
    """A peer that has seen much."""
    made = Made()
    replace_peers(monkeypatch, made.make)
    make_world(system, Outputs()).run(SWAPPED_S)
    return list(made.skeletons.values())[1]


def new_peer(config: PeerConfig, public: bytes = bytes(32)) -> Skeleton:
    """A peer that nothing has happened to, and that nobody could hand anything."""
    ports: PeerPorts = taped_ports(Tape(True, bytes), ScratchPool())
    return Skeleton(Peer(public, "test", 1, config, ports, LinkLimits()), ports)


def test_a_snapshot_is_what_is_in_a_peer_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    given, skeleton = begun(monkeypatch)
    snapshot = take_snapshot(skeleton)
    other = new_peer(given[3])
    restore(other, snapshot)
    peer, again = skeleton.things[AFTER_PORTS], other.things[AFTER_PORTS]
    assert again.counters == peer.counters
    assert again.peer_table.card == peer.peer_table.card
    assert again.peer_table.known() == peer.peer_table.known()
    assert again.peer_table is not peer.peer_table
    assert again.streams.store is other.things[0], "what it was handed is its own"
    assert len(snapshot) < 256 * 1024
    for name in ("event_frame", "<lambda>", "vinecast.systems.poldercast.row", "LiveSystem", "FrameSpec"):
        assert name.encode() not in snapshot, "wiring is not part of it"


def test_payloads_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _, skeleton = begun(monkeypatch, "flooding")
    assert MARKER in take_snapshot(skeleton)
    assert MARKER not in take_snapshot(skeleton, with_payloads=False)


@pytest.mark.parametrize(
    ("config", "system"),
    [
        (config_of("poldercast", replicas=2), "flooding"),
        (config_of("flooding"), "poldercast"),
        (PeerConfig(peers=128, topics=128), "poldercast"),
        (config_of("regular"), "poldercast"),
    ],
)
def test_a_snapshot_of_another_kind_of_peer_is_refused(
    config: PeerConfig, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, skeleton = begun(monkeypatch, system)
    with pytest.raises(InputError, match="does not fit"):
        restore(new_peer(config), take_snapshot(skeleton))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_cut_and_every_changed_byte_is_refused_or_harmless(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, skeleton = begun(monkeypatch, system)
    snapshot = take_snapshot(skeleton)
    modules = set(sys.modules)
    for step in range(60):
        at = step * len(snapshot) // 60
        damaged = [snapshot[:at], snapshot[:at] + bytes([snapshot[at] ^ 1 << step % 8]) + snapshot[at + 1 :]]
        for data in damaged:
            with contextlib.suppress(InputError):
                restore(new_peer(given[3]), data)
    new = {name for name in set(sys.modules) - modules if not name.startswith(("vinecast.", "encodings."))}
    assert not new
