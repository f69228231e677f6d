"""The world of whole peers: nodes by number, a queue of what happens when, and all that can befall them.

A run is a function of its seed. What falls on one instant happens in the order in which it was asked for;
every draw has a key of its own.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from vinecast.core.machine import SECOND_US
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.address import Address
from vinecast.peer.config import PeerConfig
from vinecast.peer.scratch import ScratchPool
from vinecast.sim.peers.hostile import HostileNode, choose_identity
from vinecast.sim.peers.keys import KeyRing
from vinecast.sim.peers.links import LinkConfig, SimulatedLinks
from vinecast.sim.peers.node import NodeSetup, Observer, SimulatedNode

BEGIN_US = 1_700_000_000 * SECOND_US
"""When runs begin, in microseconds since 1970 (ours): a peer is handed a time of day."""

_scratch = ScratchPool()


class Unobserved:
    """Nobody watches; a failure ends the run."""

    def before(self, node: SimulatedNode, what: given.PeerInput) -> None:
        """Nothing to do."""

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[asked.PeerOutput]) -> None:
        """Nothing to do."""

    def failed(self, node: SimulatedNode, what: given.PeerInput, error: Exception) -> None:
        """A peer raised."""
        raise error


class PeerWorld:
    """Whole peers, and the world around them."""

    def __init__(self, seed: int, links: LinkConfig, observer: Observer | None = None) -> None:
        self.seed = seed
        self.now_us = BEGIN_US
        self.keys = KeyRing(seed)
        self.verify = self.keys.verify
        self.scratch = _scratch
        self.observer: Observer = observer or Unobserved()
        self.nodes: list[SimulatedNode] = []
        self.handled = 0
        """What happened so far."""
        self.links = SimulatedLinks(links, self)
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0

    def add(
        self, config: PeerConfig, *, lies: Sequence[str] = (), topics: Sequence[str] = (), **rest: Any
    ) -> SimulatedNode:
        """One more node, which does not run yet; a hostile one if it has ``lies``, which aims at ``topics``.
        ``rest``: other fields of its setup."""
        number = len(self.nodes)
        identity = choose_identity(self.keys, number, lies, rest["network"], topics)
        address = Address(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 7000)
        setup = NodeSetup(identity, address, config, **rest)
        node = HostileNode(self, number, setup, lies, topics) if lies else SimulatedNode(self, number, setup)
        self.nodes.append(node)
        self.links.know(identity.id)
        return node

    # Time.

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return (self.now_us - BEGIN_US) / SECOND_US

    def at(self, at_us: int, action: Callable[..., object], *arguments: Any) -> None:
        """Have something done at a time."""
        self._order += 1
        heapq.heappush(self._queue, (max(at_us, self.now_us), self._order, action, arguments))

    def at_s(self, at_s: float, action: Callable[..., object], *arguments: Any) -> None:
        """The same, in seconds since the beginning."""
        self.at(BEGIN_US + round(at_s * SECOND_US), action, *arguments)

    def run(self, until_s: float) -> None:
        """Let everything happen up to a time, in seconds since the beginning."""
        until_us, queue, pop = BEGIN_US + round(until_s * SECOND_US), self._queue, heapq.heappop
        while queue and queue[0][0] <= until_us:
            self.now_us, _, action, arguments = pop(queue)
            self.handled += 1
            action(*arguments)
        self.now_us = max(self.now_us, until_us)

    # For links.

    def feed(self, node: int, what: given.PeerInput) -> None:
        """Hand a running node something."""
        self.nodes[node].feed(what)

    def life(self, node: int) -> int:
        """Which life of a node this is; 0 while it does not run."""
        return self.nodes[node].lives if self.nodes[node].is_up else 0

    # What happens to nodes.

    def start(self, node: int, join: Sequence[int]) -> None:
        """A node comes up, told of these others."""
        self.nodes[node].start(tuple(self.nodes[other].setup.address for other in join))
