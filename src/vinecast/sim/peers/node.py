"""A simulated node: a process that runs a peer, and what outlives it.

The process does what a live node's driver does (``node/runtime/driver``): it hands the peer one input after
the other and carries out what comes of each at once. What is different is what that means here: frames go
over simulated links, events to a simulated disk, timers into the queue of the world.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from vinecast.core.draws import purpose, stream
from vinecast.core.events import SetTimer
from vinecast.core.log.retention import Retention
from vinecast.core.machine import SECOND_US
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.address import Address
from vinecast.peer.config import PeerConfig
from vinecast.peer.links import CROWDED, LinkLimits
from vinecast.peer.peer import Peer, PeerPorts
from vinecast.peer.runner import PeerRunner
from vinecast.peer.scratch import ScratchPool
from vinecast.sim.peers.clock import SimulatedClock
from vinecast.sim.peers.disk import DiskConfig, SimulatedDisk
from vinecast.sim.peers.keys import SimulatedIdentity
from vinecast.sim.peers.links import SimulatedLinks
from vinecast.sim.peers.stream_port import StreamPort

RETAIN_S = 10.0
"""Between two rounds of retention, as in ``node/storage/retention``."""
NOTE_S = 1.0
"""Between two times that a node writes down whom it knows, unless its setup says otherwise (a live node:
after 1, 2, 4 … 60 s)."""

_SEED = purpose("peers.seed")
_TIMER = SECOND_US  # the longest that a paused process is looked after


class Observer(Protocol):
    """Who watches a run. The application of a node is one."""

    def before(self, node: "SimulatedNode", what: given.PeerInput) -> None:
        """A peer is about to be handed something."""

    def after(self, node: "SimulatedNode", what: given.PeerInput, outputs: list[asked.PeerOutput]) -> None:
        """This is what it asks for."""

    def failed(self, node: "SimulatedNode", what: given.PeerInput, error: Exception) -> None:
        """It raised, which it never should."""


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """What one node is made of."""

    identity: SimulatedIdentity
    address: Address
    config: PeerConfig
    network: str
    disk: DiskConfig
    retention: Retention
    note_s: float = NOTE_S
    """Between two times that it writes down whom it knows."""


class NodeWorld(Protocol):
    """The world, as far as it is needed here."""

    seed: int
    now_us: int
    links: SimulatedLinks
    observer: Observer
    scratch: ScratchPool

    def at(self, at_us: int, action: Callable[..., object], *arguments: Any) -> None:
        """Have something done at a time."""

    def verify(self, public: bytes, data: bytes, signature: bytes) -> bool:
        """Whether the owner of the public key signed the data."""


class SimulatedNode(PeerRunner):
    """One node, on line or not."""

    def __init__(self, world: NodeWorld, number: int, setup: NodeSetup) -> None:
        super().__init__()
        self._world, self.number, self.setup = world, number, setup
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk(setup.disk, self._after, self._stored)
        self.peer: Peer | None = None
        self.lives = 0
        self.dropped: Counter[int] = Counter()
        """Subscription → events that found no room to wait."""
        self._put_off: list[Callable[[], object]] = []
        """What is done when a process goes on that is stopped."""
        self._timers: dict[str, int] = {}
        self._set = self._requests = 0
        self._on_us = 0

    # Life.

    @property
    def is_up(self) -> bool:
        """Whether its process runs, or is stopped for a while."""
        return self.peer is not None

    def start(self, join: tuple[Address, ...]) -> None:
        """The process begins."""
        if self.peer is not None:
            return
        self.lives += 1
        setup, world = self.setup, self._world
        if setup.disk.is_memory:
            self.disk = SimulatedDisk(setup.disk, self._after, self._stored)
        self.disk.begin()
        self.clock.restart()
        self._timers, self._crowded, self._turn = {}, frozenset(), []
        self._inbox.clear()
        self._put_off.clear()
        notes, links = self.disk.notes, world.links.config
        self.peer = Peer(
            setup.identity.public,
            setup.network,
            stream(world.seed, _SEED, self.lives, self.number) >> 8,
            setup.config,
            PeerPorts(StreamPort(self.disk), setup.identity.sign, world.verify, world.scratch),
            LinkLimits(dial_s=links.dial_s),
            notes.card_version,
        )
        world.links.listening[setup.address] = self.number
        self._on_us = self.clock.wall_us(world.now_us)
        self.feed(
            given.NodeBegins(
                setup.address, join, tuple(notes.met), tuple(notes.subscriptions), tuple(notes.sessions)
            )
        )
        self._later(round(setup.note_s * SECOND_US), self._write_down)
        self._later(round(RETAIN_S * SECOND_US), self._retain)

    def leave(self) -> None:
        """The node ends in good order."""
        if self.peer is None:
            return
        self.resume()
        self.feed(given.StoreCloses())
        self._write_down()
        self.disk.sync()
        self.feed(given.NodeEnds())
        self._stop(in_order=True)

    def crash(self, *, power: bool = False) -> None:
        """The process dies; with a power failure nobody closes its connections."""
        if self.peer is not None:
            self._stop(silently=power)

    def _stop(self, *, silently: bool = False, in_order: bool = False) -> None:
        self.peer, self.paused = None, False
        self._inbox.clear()
        del self._world.links.listening[self.setup.address]
        self._world.links.close_all(self.number, silently=silently, in_order=in_order)

    def pause(self) -> None:
        """The process is stopped: it handles nothing, and closes nothing."""
        if self.peer is not None and not self.paused:
            self.paused = True
            self._world.links.stop(self.number)

    def resume(self) -> None:
        """It goes on, with all that came meanwhile, and with what it was about to do."""
        if not self.paused:
            return
        self.paused = False
        self._world.links.go_on(self.number)
        self._work()
        put_off, self._put_off = self._put_off, []
        for action in put_off:
            self._if_alive(self.lives, action)

    # Into the peer.

    def feed(self, what: given.PeerInput) -> None:
        """Hand the peer something, if it is there."""
        if self.peer is not None:
            super().feed(what)

    def ask(self, make: Callable[[int], given.PeerCommand]) -> int:
        """Hand the peer a request; its number."""
        self._requests += 1
        self.feed(make(self._requests))
        return self._requests

    def publish(self, make: Callable[[int], given.PublishDrafts]) -> int:
        """Publish events together with all others of this instant; the request's number."""
        self._requests += 1
        self._publish(make(self._requests))
        return self._requests

    def draft(self, payload: bytes, headers: dict[str, str | bytes] | None = None) -> given.Draft:
        """An event that is to be published, with the next number and the time."""
        number, time_us = self.disk.next_sequence(), self.clock.wall_us(self._world.now_us)
        return given.Draft(payload, headers or {}, number, time_us)

    def _stored(self, cids: tuple[bytes, ...]) -> None:
        self.feed(given.EventsStored(cids))

    def _after_turn(self, action: Callable[[], object]) -> None:
        self._later(0, action)

    def _crowded_peers(self) -> frozenset[bytes]:
        return self._world.links.crowded(self.number, CROWDED)

    def _step(self, what: given.PeerInput) -> None:
        if self.peer is not None:
            self._handle(self.peer, what)

    def _handle(self, peer: Peer, what: given.PeerInput) -> None:
        observer = self._world.observer
        observer.before(self, what)
        try:
            outputs = peer.handle(what, self.clock.now_us(self._world.now_us))
        except Exception as error:
            observer.failed(self, what, error)
            return
        observer.after(self, what, outputs)
        for output in outputs:
            self._carry_out(output)

    # Out of the peer.

    def _carry_out(self, output: asked.PeerOutput) -> None:
        links, notes = self._world.links, self.disk.notes
        match output:
            case asked.SendFrame(peer, _, frame, things):
                if not links.send(self.number, output):
                    self._inbox.append(given.FrameUnsent(peer, things, frame))
            case SetTimer(name, after_us):
                self._set_timer(name, after_us)
            case asked.EventDropped(subscription):
                self.dropped[subscription] += 1
            case asked.DialAddress(address):
                links.connect(self.number, address)
            case asked.ShunPeer(peer):
                links.shun(self.number, peer)
            case asked.TopicsChanged(taken_up, left):
                notes.subscriptions.update(dict.fromkeys(taken_up))
                for topic in left:
                    notes.subscriptions.pop(topic, None)
                self.disk.write()
            case asked.CardRenewed(version):
                notes.card_version = version
                self.disk.write()
            case asked.CompileIndex():
                self._inbox.append(given.IndexCompiled())
            case (
                asked.DeliverEvent()
                | asked.ReadingFailed()
                | asked.Answered()
                | asked.NetworkJoined()
                | asked.CycleEnded()
                | asked.Traced()
            ):
                pass  # for who observes
            case _:
                assert_never(output)

    def _drop_timer(self, name: str) -> None:
        self._timers.pop(name, None)

    def _start_timer(self, name: str, after_us: int) -> None:
        self._set += 1
        self._timers[name] = self._set
        at_us = self._world.now_us + self.clock.true_delay(after_us)
        self._world.at(at_us, self._run_out, self.lives, name, self._set)

    def _run_out(self, life: int, name: str, number: int) -> None:
        if life == self.lives and self._timers.get(name) == number:
            del self._timers[name]
            self._ring(name)

    # In the background.

    def _later(self, after_us: int, action: Callable[[], object]) -> None:
        """Do something in this life of the node."""
        self._world.at(self._world.now_us + after_us, self._if_alive, self.lives, action)

    def _after(self, after_us: int, action: Callable[[], object]) -> None:
        self._later(after_us, action)

    def _if_alive(self, life: int, action: Callable[[], object]) -> None:
        if life != self.lives or self.peer is None:
            return
        if self.paused:
            self._put_off.append(action)
        else:
            action()

    def _write_down(self) -> None:
        """Write down that the node is on line, and whom it is connected to."""
        notes, now_us = self.disk.notes, self.clock.wall_us(self._world.now_us)
        if notes.sessions and notes.sessions[-1][0] == self._on_us:
            notes.sessions.pop()
        notes.sessions.append((self._on_us, max(self._on_us, now_us)))
        peer = self.peer
        for connected in self._world.links.peers_of(self.number) if peer is not None else ():
            assert peer is not None
            address = peer.peer_table.address_of(peer.peer_table.number_of(connected))
            if address is not None:
                notes.met = {address: None, **notes.met}
        self.disk.write()
        self._later(round(self.setup.note_s * SECOND_US), self._write_down)

    def _retain(self) -> None:
        self.disk.retain_all(self.setup.retention, self.clock.now_us(self._world.now_us))
        self._later(round(RETAIN_S * SECOND_US), self._retain)
