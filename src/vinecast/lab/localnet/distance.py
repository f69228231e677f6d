"""Nodes on one machine as if they were far from each other: connections are made late, and what comes over
one is held back for a while, which is the same for two nodes in both directions, live and simulated
(``sim/peers/links``).

Without it the order in which copies of an event arrive is that in which processors get round to them.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from vinecast.node.transport.interface import Handler, PeerFacts
from vinecast.node.transport.tls_transport import TlsTransport
from vinecast.peer.address import Address
from vinecast.peer.identity import NodeId
from vinecast.sim.peers.connections import HANDSHAKE_WAYS
from vinecast.sim.peers.links import way_us_between


class DistantTransport(TlsTransport):
    """A transport that makes connections and hands over frames late. ``latency_ms``: the median of all pairs
    of nodes."""

    def at_distance(self, seed: int, latency_ms: float, me: NodeId) -> None:
        """How far others are."""
        self._seed, self._latency_ms, self._me = seed, latency_ms, me

    async def start(self, handler: Handler) -> Address:
        """Listen; return where."""
        return await super().start(_LateHandler(handler, self._way_s))

    async def connect(self, address: Address, peer: NodeId | None = None) -> NodeId:
        """Make a connection, after what its handshake takes over that distance."""
        way_s = self._latency_ms / 1000 if peer is None else self._way_s(peer)
        await asyncio.sleep((HANDSHAKE_WAYS + 1) * way_s)
        if peer is not None and self.is_connected(peer):
            return peer  # it has called meanwhile
        return await super().connect(address, peer)

    def _way_s(self, peer: NodeId) -> float:
        return way_us_between(self._seed, self._latency_ms, self._me, peer) / 1e6


class _LateHandler:
    """Tells another handler of what peers sent, later."""

    def __init__(self, handler: Handler, way_s: Callable[[NodeId], float]) -> None:
        self._handler, self._way_s = handler, way_s
        self._last: dict[NodeId, float] = {}
        """When the latest frame of a peer is handed over."""
        self.on_unreachable, self.on_refused = handler.on_unreachable, handler.on_refused

    def on_up(self, peer: NodeId, address: Address, facts: PeerFacts) -> None:
        """At once: whoever called has waited."""
        self._handler.on_up(peer, address, facts)

    def on_frame(self, peer: NodeId, frame: bytes) -> None:
        """When it has come so far."""
        self._later(peer, self._handler.on_frame, peer, frame)

    def on_down(self, peer: NodeId, reason: str) -> None:
        """After all that came before."""
        self._later(peer, self._handler.on_down, peer, reason)

    def _later(self, peer: NodeId, tell: Callable[..., object], *told: Any) -> None:
        loop = asyncio.get_running_loop()
        at = self._last[peer] = max(loop.time() + self._way_s(peer), self._last.get(peer, 0.0))
        loop.call_at(at, tell, *told)
