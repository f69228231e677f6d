"""The event engine: a heap of timed events over machines, deterministic and order-stable.

Every system runs on it, and it is the test bed of the live node's logic: the machines are the live ones, the
clock, the wire and the accidents are simulated. Time is in whole microseconds.

What falls on the same instant is ordered: first what the world does (crashes, starts, measurements), in the
order it was asked for; then messages, by the sender's number and then in the order sent; then timers, in
the keyed random order of the instant (``core.exchange.turn_word``). With zero latency the messages that a
timer sets off are thus all handled before the next timer, which makes an exchange atomic.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, assert_never

from vinecast.core.errors import Bug
from vinecast.core.events import (
    Blame,
    Command,
    Count,
    Deliver,
    Effect,
    Event,
    Observe,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from vinecast.core.exchange import turn_word
from vinecast.core.machine import NOBODY, Machine
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.sim.engine.network import Network

_WORLD = -1
_ANY_LIFE = -1
_FIRST_SENDER = 1
_TIMERS = 1 << 64  # above every sender's number: turn words are below 2⁶⁴


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """A node's own clock against the run's: how far ahead it is, and how much faster it runs."""

    offset_us: int = 0
    """What it shows at the beginning of the run, in microseconds."""
    drift: float = 0.0
    """Extra seconds it counts in every true second; 1e-6 is one part per million."""

    def read(self, now_us: int) -> int:
        """What the clock shows at a true time."""
        return self.offset_us + now_us + int(self.drift * now_us)

    def true_delay(self, after_us: int) -> int:
        """How long it truly takes until the clock has advanced so far: a timer never fires early."""
        return math.ceil(after_us / (1.0 + self.drift)) if self.drift else after_us


class EngineHooks(TypedDict, total=False):
    """Who is told what happens; see ``EventEngine``."""

    trace: Callable[[TraceRecord], None] | None
    on_deliver: Callable[[int, Deliver], None] | None
    on_send: Callable[[int, int, Any], None] | None


class EventEngine:
    """Machines by number, and all that can happen to them.

    ``make_machine`` builds the machine of a node, for its first start and for a restart without state.
    ``trace`` receives records; leave it out and none are made. ``on_deliver`` is told of a node and what is
    delivered there, ``on_send`` of sender, receiver and message. ``counters[name][node]`` collects what
    machines count and, as ``sent.KIND`` and ``dropped.REASON``, what the engine sees itself.
    """

    def __init__(
        self,
        make_machine: Callable[[int], Machine],
        nodes: int,
        seed: int,
        network: Network,
        *,
        clocks: Callable[[int], SkewedClock] | None = None,
        trace: Callable[[TraceRecord], None] | None = None,
        on_deliver: Callable[[int, Deliver], None] | None = None,
        on_send: Callable[[int, int, Any], None] | None = None,
    ) -> None:
        self.nodes = nodes
        self.seed = seed
        self.network = network
        self.now_us = 0
        self.handled = 0
        self.machines: list[Machine | None] = [None] * nodes
        self.online = [False] * nodes
        self.counters: defaultdict[str, list[int]] = defaultdict(lambda: [0] * nodes)
        self._make_machine = make_machine
        self._clocks = [clocks(node) for node in range(nodes)] if clocks else None
        self._trace = trace
        self._on_deliver = on_deliver
        self._on_send = on_send
        self._lives = [0] * nodes
        self._heap: list[tuple[int, int, int, int, int, Any]] = []
        self._order = 0

    # What the world does to nodes. Times are true times in microseconds, not before the present.

    def start(
        self, node: int, at_us: int, contacts: tuple[int, ...] = (), *, keep_state: bool = True
    ) -> None:
        """Bring a node up, knowing ``contacts``; a node that ran before keeps its state or starts afresh."""
        self.at(at_us, lambda: self._start(node, contacts, keep_state))

    def crash(self, node: int, at_us: int) -> None:
        """Stop a node dead: its timers die with it, what it sent is still on its way."""
        self.at(at_us, lambda: self._stop(node))

    def leave(self, node: int, at_us: int) -> None:
        """Let a node say goodbye (``Stop``) and then stop it."""

        def go() -> None:
            if self.online[node]:
                self._handle(node, Stop())
                self._stop(node)

        self.at(at_us, go)

    def command(self, node: int, at_us: int, command: Command) -> None:
        """Let the application on a node ask for something; nothing happens if the node is off line."""
        self.at(at_us, lambda: self._handle(node, command) if self.online[node] else None)

    def at(self, at_us: int, action: Callable[[], object]) -> None:
        """Do something to the world, or look at it, at a given time."""
        self._push(max(at_us, self.now_us), 0, _WORLD, _ANY_LIFE, action)

    def run(self, until_us: int) -> None:
        """Handle everything up to and including the given time."""
        heap, pop = self._heap, heapq.heappop
        online, lives = self.online, self._lives
        while heap and heap[0][0] <= until_us:
            self.now_us, _, _, node, life, event = pop(heap)
            if node == _WORLD:
                event()
            elif life == _ANY_LIFE:
                if online[node]:
                    self._handle(node, event)
                else:
                    self._drop(event.sender, node, event.message, "offline")
            elif life == lives[node] and online[node]:
                self._handle(node, event)
        self.now_us = max(self.now_us, until_us)

    def _start(self, node: int, contacts: tuple[int, ...], keep_state: bool) -> None:
        if self.online[node]:
            return
        if self.machines[node] is None or not keep_state:
            self.machines[node] = self._make_machine(node)
        self.online[node] = True
        self._lives[node] += 1
        self._handle(node, Start(contacts))

    def _stop(self, node: int) -> None:
        self.online[node] = False

    def _handle(self, node: int, event: Event) -> None:
        machine = self.machines[node]
        now = self.now_us if self._clocks is None else self._clocks[node].read(self.now_us)
        self.handled += 1
        try:
            effects = machine.handle(event, now)  # type: ignore[union-attr]
        except Exception as error:
            raise Bug(f"node {node} failed on {event!r} at {self.now_us} µs: {error!r}") from error
        for effect in effects:
            self._apply(node, effect)

    def _apply(self, node: int, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(node, effect)
            case SetTimer(name, after_us):
                if self._clocks is not None:
                    after_us = self._clocks[node].true_delay(after_us)
                at_us = self.now_us + after_us
                tie = _TIMERS + turn_word(self.seed, at_us, node)
                self._push(at_us, tie, node, self._lives[node], TimerFired(name))
            case Count(name, by):
                self.counters[name][node] += by
            case Blame():
                self.counters["blamed"][node] += 1
            case Deliver():
                self._record(
                    node, TraceKind.DELIVERED, topic=effect.topic, event=effect.event, hops=effect.hops
                )
                if self._on_deliver is not None:
                    self._on_deliver(node, effect)
            case Observe(kind, topic, event, peer, hops, reason):
                self._record(node, kind, peer=peer, topic=topic, event=event, hops=hops, reason=reason)
            case _:
                assert_never(effect)

    def _send(self, node: int, send: Send) -> None:
        to, message = send.to, send.message
        if send.otherwise != NOBODY and not self.online[to]:
            to = send.otherwise
        self.counters["sent." + message.kind][node] += 1
        if self._on_send is not None:
            self._on_send(node, to, message)
        if self._trace is not None:
            self._record_message(node, TraceKind.SENT, to, message)
        network = self.network
        if network.cuts and network.is_cut(node, to, self.now_us):
            self._drop(node, to, message, "partition")
            return
        delays = network.transit(node, to, self.now_us)
        if not delays:
            self._drop(node, to, message, "loss")
        for delay in delays:
            self._push(self.now_us + delay, _FIRST_SENDER + node, to, _ANY_LIFE, Received(node, message))

    def _drop(self, sender: int, receiver: int, message: Any, reason: str) -> None:
        self.counters["dropped." + reason][receiver] += 1
        if self._trace is not None:
            self._record_message(receiver, TraceKind.DROPPED, sender, message, reason)

    def _push(self, at_us: int, tie: int, node: int, life: int, event: Any) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at_us, tie, self._order, node, life, event))

    def _record_message(self, node: int, kind: TraceKind, peer: int, message: Any, reason: str = "") -> None:
        self._record(
            node,
            kind,
            peer=peer,
            message=message.kind,
            topic=getattr(message, "topic", -1),
            event=getattr(message, "event", -1),
            hops=getattr(message, "hops", -1),
            reason=reason,
        )

    def _record(self, node: int, kind: TraceKind, **rest: Any) -> None:
        if self._trace is not None:
            self._trace(TraceRecord(self.now_us, node, kind, **rest))
