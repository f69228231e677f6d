"""Calls of simulated peers: how a connection is made, and what waits for it meanwhile.

A call is answered after a few ways, or fails: nobody listens there, somebody else does, the connection is
refused, or there is no answer in time, because the way is cut or the other process is stopped. One that is
stopped answers when it goes on, if that is soon enough.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from vinecast.core.machine import SECOND_US
from vinecast.peer.address import Address
from vinecast.peer.inputs import AddressFailed, AddressReached, LinkDown, PeerInput, PeerUnreachable
from vinecast.peer.outputs import SendFrame
from vinecast.sim.peers.session import SimulatedSession

HANDSHAKE_WAYS = 3
"""Ways that a handshake takes until the side that was called is up: one later the caller is."""
LOOK_US = 100_000
"""Between two looks whether a process that is stopped goes on (ours)."""


class CallHost(Protocol):
    """The world, as far as it is needed here."""

    now_us: int

    def at(self, at_us: int, action: Callable[..., object], *arguments: Any) -> None:
        """Have something done at a time."""

    def feed(self, node: int, what: PeerInput) -> None:
        """Hand a running node something."""

    def life(self, node: int) -> int:
        """Which life of a node this is; 0 while it does not run."""


class CallWays(Protocol):
    """The links, as far as they are needed here."""

    counters: Counter[str]
    stopped: dict[int, int]

    def ids_of(self, node: int) -> bytes:
        """The id of a node."""

    def way_us(self, one: int, other: int | None) -> int:
        """How long a way between two nodes takes."""

    def is_cut(self, one: int, other: int) -> bool:
        """Whether nothing passes between two nodes."""

    def refuses(self, other: int, node: int) -> bool:
        """Whether a node takes no connection of another."""

    def open_session(self, node: int, other: int) -> SimulatedSession:
        """The session of two nodes, made if there is none, up at the side that was called."""

    def raise_end(self, session: SimulatedSession, node: int) -> None:
        """An end is up."""


@dataclass(frozen=True, slots=True)
class _Call:
    """Somebody calls."""

    node: int
    life: int
    """Of the caller."""
    address: Address
    peer: bytes | None
    """Who must answer, if that is known."""
    until_us: int
    """When it fails."""


class SimulatedCalls:
    """All calls of one run."""

    def __init__(self, ways: CallWays, host: CallHost, dial_s: float) -> None:
        self._ways, self._host, self._dial_us = ways, host, round(dial_s * SECOND_US)
        self.listening: dict[Address, int] = {}
        """Who answers at an address."""
        self._waiting: dict[tuple[int, bytes], list[SendFrame]] = {}
        """(caller, whom it calls) → what waits for the connection."""

    def frames_for(self, node: int, peer: bytes) -> list[SendFrame] | None:
        """What waits for a connection, which may get longer; None where nobody calls."""
        return self._waiting.get((node, peer))

    def take_frames(self, node: int, peer: bytes) -> list[SendFrame]:
        """What waited for a connection, which there is now."""
        return self._waiting.pop((node, peer), [])

    def forget(self, node: int) -> None:
        """A process is gone, and its calls with it."""
        for key in [key for key in self._waiting if key[0] == node]:
            del self._waiting[key]

    def call_for(self, node: int, output: SendFrame, address: Address) -> None:
        """Call a peer because of a frame, which waits."""
        self._waiting[node, output.peer] = [output]
        self.call(node, address, output.peer)

    def call(self, node: int, address: Address, peer: bytes | None) -> None:
        """Call whoever answers at an address."""
        host, ways, other = self._host, self._ways, self.listening.get(address)
        if other is not None and ways.is_cut(node, other):
            wait_us = self._dial_us
        else:
            wait_us = HANDSHAKE_WAYS * ways.way_us(node, other)
        call = _Call(node, host.life(node), address, peer, host.now_us + self._dial_us)
        host.at(host.now_us + wait_us, self._answer, call)

    def _answer(self, call: _Call) -> None:
        """Whoever was called answers, or nobody does."""
        if self._host.life(call.node) != call.life:
            return
        ways, other = self._ways, self.listening.get(call.address)
        if other is None:
            self._fail(call, "nobody listens there")
        elif ways.is_cut(call.node, other):
            self._fail(call, "no answer in time")
        elif ways.stopped and (other in ways.stopped or call.node in ways.stopped):
            self._wait(call)
        elif other == call.node:
            self._fail(call, "this node's own identity")
        elif call.peer is not None and ways.ids_of(other) != call.peer:
            self._fail(call, "another identity")
        elif ways.refuses(other, call.node):
            self._fail(call, "refused")
        else:
            session = ways.open_session(call.node, other)
            self._host.at(self._host.now_us + session.way_us, self._reach, call, session)

    def _wait(self, call: _Call) -> None:
        now_us = self._host.now_us
        if now_us >= call.until_us:
            self._fail(call, "no answer in time")
        else:
            self._host.at(min(now_us + LOOK_US, call.until_us), self._answer, call)

    def _reach(self, call: _Call, session: SimulatedSession) -> None:
        if self._host.life(call.node) != call.life:
            return
        if session.is_over:
            self._fail(call, "the connection was lost")
            return
        self._ways.raise_end(session, call.node)
        if call.peer is None:
            reached = self._ways.ids_of(session.ends[1 - session.side_of(call.node)])
            self._host.feed(call.node, AddressReached(call.address, reached))

    def _fail(self, call: _Call, reason: str) -> None:
        if call.peer is None:
            self._host.feed(call.node, AddressFailed(call.address, reason))
        elif self._waiting.pop((call.node, call.peer), None) is not None:  # else the peer called meanwhile
            self._host.feed(call.node, LinkDown(call.peer, False))
            self._host.feed(call.node, PeerUnreachable(call.peer))
