"""Connections between simulated peers, as a live node's transport makes them (``node/transport``).

Between the start and the end of a *session* every frame arrives once and in order, after the time that the
way takes and behind what was sent before it; when that cannot be kept the session ends. An end that closes
knows at once, the other one way later; in good order it has all that was sent by then. While a connection
that nobody uses is closed, the side that began takes no frames for it. A way can be *cut*: what is sent
waits, and goes on if the cut is over before the ends notice the silence. An end can be lost without the other
one noticing (a power failure, a middle box that forgets): the session is half open until the other end hears
nothing for too long, or its peer begins anew. A process that is *stopped* is given up after as long a
silence, and learns of it when it goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from vinecast.core.draws import purpose, stream, unit
from vinecast.core.machine import SECOND_US
from vinecast.peer.address import Address
from vinecast.peer.inputs import FrameCame, LinkDown, LinkUp, PeerInput
from vinecast.peer.outputs import SendFrame
from vinecast.sim.peers.connections import SimulatedCalls
from vinecast.sim.peers.session import SimulatedSession, in_turn, pair_of

SHUNNED_S = 60.0
"""How long a peer is shunned, as in ``node/transport/accept_limiter``."""
_WAY, _JITTER, _LOSS = purpose("peers.way"), purpose("peers.jitter"), purpose("peers.loss")


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """How links are, and when a transport gives up. The defaults of the latter are a live node's."""

    latency_ms: float = 5.0
    """The median time of a way; those of two nodes differ by up to half of that."""
    jitter_ms: float = 1.0
    """By how much a frame may be later than another on the same way."""
    bytes_a_second: float = 12.5e6
    """What a connection carries in one direction."""
    loss: float = 0.0
    """Share of frames that vanish on their way while the connection stays. TCP hides that, or ends the
    connection; a product that stands it also stands peers that drop what they were sent."""
    queue_bytes_max: int = 4 * 1024 * 1024
    """How much may wait to be sent to one peer."""
    frame_bytes_max: int = 1024 * 1024
    """The largest frame that is sent."""
    idle_s: float = 10.0
    """A connection that carried nothing for so long is closed."""
    silent_s_max: float = 20.0
    """After so much silence of a peer it is given up."""
    dial_s: float = 10.0
    """How long a call waits for an answer."""
    close_s: float = 5.0
    """How long a connection may take to close in good order."""
    by_id: bool = False
    """Whether the ids of nodes say how far apart they are, and not their numbers: so they are as far apart
    as live ones (``lab/localnet/distance``)."""


def way_us_between(seed: int, latency_ms: float, one: bytes, other: bytes) -> int:
    """What a way takes between nodes with these ids."""
    low, high = sorted(int.from_bytes(peer[:7], "big") for peer in (one, other))
    return _way_us(seed, latency_ms, low, high)


def _way_us(seed: int, latency_ms: float, low: int, high: int) -> int:
    return max(1, round(latency_ms * 1000 * (0.5 + unit(stream(seed, _WAY, low, high), 0))))


class LinkHost(Protocol):
    """The world, as far as it is needed here."""

    seed: int
    now_us: int

    def at(self, at_us: int, action: Callable[..., object], *arguments: Any) -> None:
        """Have something done at a time."""

    def feed(self, node: int, what: PeerInput) -> None:
        """Hand a running node something."""

    def life(self, node: int) -> int:
        """Which life of a node this is; 0 while it does not run."""


class SimulatedLinks:
    """All connections of one run."""

    def __init__(self, config: LinkConfig, host: LinkHost) -> None:
        self.config = config
        self._host = host
        self._ids: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self.counters: Counter[str] = Counter()
        """What was dropped, and nobody is told."""
        self.stopped: dict[int, int] = {}
        """Processes that are stopped, with the number of the stop."""
        self.refusing: set[int] = set()
        """Nodes that take no connection at the moment."""
        self._sessions: dict[tuple[int, int], SimulatedSession] = {}
        self._sessions_of: dict[int, dict[tuple[int, int], SimulatedSession]] = {}
        """Node → its sessions."""
        self._shunned: dict[tuple[int, int], int] = {}
        """(who, whom) → until when."""
        self._cuts: dict[int, frozenset[int]] = {}
        """Cuts by number: the nodes of one side."""
        self._calls = SimulatedCalls(self, host, config.dial_s)
        self.listening = self._calls.listening
        """Who answers at an address."""
        self._stops = 0
        self.frames_sent = self.bytes_sent = 0

    def know(self, peer: bytes) -> None:
        """There is one more node, with the next number and this id."""
        self._numbers[peer] = len(self._ids)
        self._ids.append(peer)

    # What nodes do.

    def send(self, node: int, output: SendFrame) -> bool:
        """Send a frame, calling the peer if need be; False when it cannot go out."""
        if len(output.frame) > self.config.frame_bytes_max:
            return False
        other = self._numbers.get(output.peer)
        session = None if other is None else self._sessions.get(pair_of(node, other))
        if session is not None:
            side = session.side_of(node)
            if session.up[side]:
                return session.closing != side and self._put(session, side, output.frame)
        if other is None or output.address is None or self._is_shunned(node, other):
            return False
        waiting = self._calls.frames_for(node, output.peer)
        if waiting is None:
            self._calls.call_for(node, output, output.address)
        elif sum(len(one.frame) for one in waiting) + len(output.frame) > self.config.queue_bytes_max:
            return False
        else:
            waiting.append(output)
        return True

    def connect(self, node: int, address: Address) -> None:
        """Make a connection to whoever answers there."""
        self._calls.call(node, address, None)

    def shun(self, node: int, peer: bytes) -> None:
        """End the session with a peer that misbehaves, and begin no other for a while."""
        other = self._numbers.get(peer)
        if other is not None:
            self._shunned[node, other] = self._host.now_us + round(SHUNNED_S * SECOND_US)
            session = self._sessions.get(pair_of(node, other))
            if session is not None:
                self._hang_up(session, session.side_of(node), broken=False)

    def crowded(self, node: int, above: float) -> frozenset[bytes]:
        """The peers whose queues are fuller than that, 0 … 1."""
        bound_us = above * self.config.queue_bytes_max / self.config.bytes_a_second * SECOND_US
        return frozenset(
            self._ids[session.ends[1 - side]]
            for session, side in self._of(node)
            if session.up[side] and session.free_us[side] - self._host.now_us > bound_us
        )

    def peers_of(self, node: int) -> list[bytes]:
        """The peers that a node has a session with."""
        up = ((session, side) for session, side in self._of(node) if session.up[side])
        return [self._ids[session.ends[1 - side]] for session, side in up if session.closing != side]

    # What happens to links.

    def close_all(self, node: int, *, silently: bool = False, in_order: bool = False) -> None:
        """A node's process is gone: the machine closes its sockets, unless it lost power. When the process
        said goodbye, all that it sent arrives before."""
        self.stopped.pop(node, None)
        self._calls.forget(node)
        for session, side in [(session, side) for session, side in self._of(node) if session.up[side]]:
            if silently:
                self._lose_end(session, side)
            else:
                self._hang_up(session, side, broken=not in_order, in_order=in_order)

    def stop(self, node: int) -> None:
        """A process is stopped: it says nothing, and others notice the silence."""
        self._stops += 1
        self.stopped[node] = self._stops
        for session, _ in self._of(node):
            self._wait_for(session, node, self._stops)

    def go_on(self, node: int) -> None:
        """A process that was stopped goes on."""
        self.stopped.pop(node, None)

    def break_link(self, one: int, other: int) -> None:
        """A connection breaks, with what is on its way."""
        session = self._sessions.get(pair_of(one, other))
        if session is not None:
            session.is_torn = True
            side = session.side_of(one)
            self._hang_up(session, side if session.up[side] else 1 - side, broken=True)

    def half_open(self, one: int, other: int) -> None:
        """One end of a connection is lost, and the other does not notice."""
        session = self._sessions.get(pair_of(one, other))
        if session is None:
            return
        side = session.side_of(one)
        was_up = session.up[side]
        self._lose_end(session, side)
        if was_up:
            self._host.feed(one, LinkDown(self._ids[other], True))

    def links(self) -> list[tuple[int, int]]:
        """The pairs of nodes with a session."""
        return sorted(pair for pair, session in self._sessions.items() if all(session.up))

    def cut(self, number: int, side: Iterable[int]) -> None:
        """Nothing passes between these nodes and all others from now on."""
        before = self._cut_sessions()
        self._cuts[number] = frozenset(side)
        for session in in_turn(self._cut_sessions() - before):
            self._notice_silence(session)

    def heal(self, number: int) -> None:
        """A cut is over."""
        before = self._cut_sessions()
        self._cuts.pop(number, None)
        healed = before - self._cut_sessions()
        for session in in_turn(healed):
            for side in (0, 1):
                held, session.held[side] = session.held[side], []
                for _, frame in sorted(held):
                    self._put(session, side, frame)

    def is_cut(self, one: int, other: int) -> bool:
        """Whether nothing passes between two nodes."""
        return any((one in side) != (other in side) for side in self._cuts.values())

    # Sessions.

    def _of(self, node: int) -> Iterator[tuple[SimulatedSession, int]]:
        for session in self._sessions_of.get(node, {}).values():
            yield session, session.side_of(node)

    def _cut_sessions(self) -> set[SimulatedSession]:
        if not self._cuts:
            return set()
        return {session for session in self._sessions.values() if self.is_cut(*session.ends)}

    def way_us(self, one: int, other: int | None) -> int:
        """How long a way between two nodes takes, and one to where nobody is."""
        return round(self.config.latency_ms * 1000) if other is None else self._way_us(one, other)

    def _way_us(self, one: int, other: int) -> int:
        seed, latency_ms = self._host.seed, self.config.latency_ms
        if self.config.by_id:
            return way_us_between(seed, latency_ms, self._ids[one], self._ids[other])
        return _way_us(seed, latency_ms, *pair_of(one, other))

    def _put(self, session: SimulatedSession, side: int, frame: bytes) -> bool:
        """Send a frame on its way."""
        host, config, ends = self._host, self.config, session.ends
        now_us, size = host.now_us, len(frame) + 4
        session.sent += 1
        if self._cuts and self.is_cut(*ends):
            if sum(len(held) for _, held in session.held[side]) + size > config.queue_bytes_max:
                return False
            session.held[side].append((session.sent, frame))
            return True
        free_us = max(now_us, session.free_us[side])
        if (free_us - now_us) * config.bytes_a_second > config.queue_bytes_max * SECOND_US:
            return False
        session.free_us[side] = free_us = free_us + round(size / config.bytes_a_second * SECOND_US)
        jitter = unit(stream(host.seed, _JITTER, session.sent, ends[side]), ends[1 - side])
        late_us = round(config.jitter_ms * 1000 * jitter)
        at_us = max(free_us + session.way_us + late_us, session.last_us[side])
        session.last_us[side], session.used_us = at_us, now_us
        self.frames_sent += 1
        self.bytes_sent += size
        if not config.loss or not self._is_lost():
            host.at(at_us, self._arrive, session, side, session.sent, frame)
        return True

    def _is_lost(self) -> bool:
        """Whether the frame that was sent last vanishes."""
        return unit(stream(self._host.seed, _LOSS, self.frames_sent, 0), 0) < self.config.loss

    def _arrive(self, session: SimulatedSession, side: int, number: int, frame: bytes) -> None:
        if self._cuts and not session.is_over and self.is_cut(*session.ends):
            session.held[side].append((number, frame))
        elif session.up[1 - side] and not session.is_torn:
            self._host.feed(session.ends[1 - side], FrameCame(self._ids[session.ends[side]], frame))

    def _hang_up(self, session: SimulatedSession, side: int, *, broken: bool, in_order: bool = False) -> None:
        """An end closes, and knows; the other hears of it a way later, ``in_order`` after all that was
        sent."""
        if not session.up[side]:
            return
        at_us = self._host.now_us + session.way_us
        self._host.at(max(at_us, session.last_us[side]) if in_order else at_us, self._hear, session, broken)
        self._lower(session, side, broken)

    def _hear(self, session: SimulatedSession, broken: bool) -> None:
        """The other end has closed, which is heard unless the way is cut."""
        if not session.is_over and self.is_cut(*session.ends):
            self._notice_silence(session)
        else:
            self._finish(session, broken)

    def _finish(self, session: SimulatedSession, broken: bool) -> None:
        """A session is over, and whichever end is up knows."""
        for side in (0, 1):
            if session.up[side]:
                self._lower(session, side, broken)

    def _lower(self, session: SimulatedSession, side: int, broken: bool) -> None:
        """An end is down, and knows; the session is over with the second."""
        self._drop_end(session, side)
        self._host.feed(session.ends[side], LinkDown(self._ids[session.ends[1 - side]], broken))

    def _drop_end(self, session: SimulatedSession, side: int) -> None:
        session.up[side] = False
        session.is_ending = True
        if not any(session.up) and not session.is_over:
            session.is_over = True
            for sessions in (self._sessions, *(self._sessions_of[end] for end in session.ends)):
                del sessions[session.ends]

    def _lose_end(self, session: SimulatedSession, side: int) -> None:
        """An end is gone with what it had to send, and nobody tells the other."""
        self._drop_end(session, side)
        session.held[side] = []
        if not session.is_over:
            self._notice_silence(session)

    def _notice_silence(self, session: SimulatedSession) -> None:
        wait_us = round(self.config.silent_s_max * SECOND_US)
        self._host.at(self._host.now_us + wait_us, self._give_up, session)

    def _give_up(self, session: SimulatedSession) -> None:
        """The ends have waited long enough for a sign of life."""
        if not all(session.up) or self.is_cut(*session.ends):
            self._finish(session, broken=True)

    def _wait_for(self, session: SimulatedSession, node: int, stop: int) -> None:
        """A node says nothing from now on: the other one waits, and gives it up."""

        def give_up() -> None:
            if self.stopped.get(node) != stop or session.is_over:
                return
            side = 1 - session.side_of(node)
            if session.ends[side] in self.stopped:
                self._wait_for(session, node, stop)
            else:
                self._hang_up(session, side, broken=True)

        self._host.at(self._host.now_us + round(self.config.silent_s_max * SECOND_US), give_up)

    def _look_idle(self, session: SimulatedSession) -> None:
        """Take leave where nobody uses a session: either side does, unless it is stopped."""
        if session.is_over:
            return
        host, awake = self._host, [side for side in (0, 1) if session.ends[side] not in self.stopped]
        idle_us = session.used_us + round(self.config.idle_s * SECOND_US)
        if host.now_us < idle_us or not all(session.up) or not awake or self.is_cut(*session.ends):
            host.at(max(idle_us, host.now_us + SECOND_US), self._look_idle, session)
            return
        session.closing = awake[session.sent % len(awake)]
        host.at(host.now_us + session.way_us, self._hear_leave, session)

    def _hear_leave(self, session: SimulatedSession) -> None:
        """The other end took leave: say goodbye behind what was sent, and close. A process that is stopped
        does not, and is not waited for very long."""
        if not all(session.up):
            return  # it ends otherwise
        if self.is_cut(*session.ends):
            self._hang_up(session, session.closing, broken=False)
            return
        side = 1 - session.closing
        at_us = max(self._host.now_us + session.way_us, session.last_us[side])
        if session.ends[side] in self.stopped:
            at_us = self._host.now_us + round(self.config.close_s * SECOND_US)
        self._host.at(at_us, self._hear, session, False)
        self._lower(session, side, False)

    # Calls.

    def ids_of(self, node: int) -> bytes:
        """The id of a node."""
        return self._ids[node]

    def refuses(self, other: int, node: int) -> bool:
        """Whether a node takes no connection of another."""
        return other in self.refusing or self._is_shunned(other, node) or self._is_shunned(node, other)

    def _is_shunned(self, who: int, whom: int) -> bool:
        return self._host.now_us < self._shunned.get((who, whom), 0)

    def open_session(self, node: int, other: int) -> SimulatedSession:
        """The session of two nodes, made if there is none, or if one of them lost its end of it; up at the
        side that was called."""
        pair, now_us = pair_of(node, other), self._host.now_us
        session = self._sessions.get(pair)
        if session is not None and session.is_ending:
            self._finish(session, broken=False)  # it began anew
            session = None
        if session is None:
            session = self._sessions[pair] = SimulatedSession(pair, self._way_us(node, other))
            for end in pair:
                self._sessions_of.setdefault(end, {})[pair] = session
            session.used_us = now_us
            self._host.at(now_us + round(self.config.idle_s * SECOND_US), self._look_idle, session)
        self.raise_end(session, other)
        return session

    def raise_end(self, session: SimulatedSession, node: int) -> None:
        """An end is up: what waited for it goes out first."""
        side = session.side_of(node)
        peer = self._ids[session.ends[1 - side]]
        if not session.up[side]:
            session.up[side] = True
            self._host.feed(node, LinkUp(peer))
        for output in self._calls.take_frames(node, peer):
            if not self._put(session, side, output.frame):
                self.counters["dropped: queue full"] += 1
