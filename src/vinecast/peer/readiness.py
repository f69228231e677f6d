"""Who waits until all is well: until events would reach a subscription, or the node has all of a stream.

Both are looked at when somebody begins to wait and after every cycle of gossip.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vinecast.core.errors import ClosedError, InputError
from vinecast.peer.outputs import Answered, PeerOutput
from vinecast.peer.streams.durable_runtime import DurableRuntime
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.tracing import Tracing

JOINING_CYCLES = 60  # ours: cycles without meeting anybody after which a node counts as alone


class ReadinessHost(Protocol):
    """The peer, as far as it is needed here."""

    peer_table: PeerTable
    streams: DurableRuntime
    tracing: Tracing | None
    has_joined: bool
    out: list[PeerOutput]

    def is_ready(self, topic: str) -> bool:
        """Whether an event on a topic would reach this node."""

    def is_alone(self, topic: str) -> bool:
        """Whether nobody else is known who takes part in a topic."""

    def follows(self, topic: str) -> bool:
        """Whether the node follows a topic's stream, or is about to."""

    def expects_others(self) -> bool:
        """Whether there is anybody to meet."""


@dataclass(slots=True)
class AwaitedReady:
    """Somebody waits until a subscription is ready."""

    request: int
    subscription: int
    since: int
    patience: int


@dataclass(slots=True)
class AwaitedLevel:
    """Somebody waits until this node has all of a stream."""

    request: int
    topic: str
    since: int
    alone: bool = True
    """Whether nobody was found yet who may have it."""


class Readiness:
    """All who wait on one node. ``alone_cycles``: cycles without another subscriber after which a
    subscription counts as ready; ``names_of`` gives what the node takes part in for a subscription."""

    def __init__(self, host: ReadinessHost, alone_cycles: int, names_of: Callable[[int], list[str]]) -> None:
        self._host, self._alone_cycles, self._names_of = host, alone_cycles, names_of
        self._awaited: dict[int, AwaitedReady | AwaitedLevel] = {}
        """Request → what it waits for; the trace waits under the negative number of a subscription."""
        self._closed = False

    def await_ready(self, request: int, subscription: int) -> None:
        """Answer when a subscription is ready, or nobody else is there."""
        cycle = self._host.peer_table.cycle
        awaited = AwaitedReady(request, subscription, cycle, cycle + JOINING_CYCLES)
        if not self._names_of(subscription) or not self._host.expects_others():
            self._answer(awaited, is_so=True)
            return
        self._awaited[request] = awaited
        self._look(awaited)

    def await_level(self, request: int, topic: str) -> None:
        """Answer when this node has all of a topic's stream that others tell of."""
        awaited = self._awaited[request] = AwaitedLevel(request, topic, self._host.peer_table.cycle)
        self._look(awaited)

    def trace(self, subscription: int) -> None:
        """Where there is a trace, note when a subscription is ready."""
        if self._host.tracing is not None:
            self.await_ready(-subscription, subscription)

    def cancel(self, request: int) -> None:
        """Nobody waits for an answer any longer."""
        self._awaited.pop(request, None)

    def end_cycle(self) -> None:
        """A cycle of gossip is over: see who waits no longer."""
        for awaited in list(self._awaited.values()):
            self._look(awaited)

    def close(self) -> None:
        """The node leaves: nothing is waited for any longer."""
        self._closed = True
        self.end_cycle()

    def _look(self, awaited: AwaitedReady | AwaitedLevel) -> None:
        """Answer whoever waits, if what it waits for is so."""
        is_left = isinstance(awaited, AwaitedLevel) and not self._host.follows(awaited.topic)
        is_so = self._is_ready(awaited) if isinstance(awaited, AwaitedReady) else self._is_level(awaited)
        if is_so or is_left or self._closed:
            del self._awaited[awaited.request]
            self._answer(awaited, is_so and not is_left)

    def _answer(self, awaited: AwaitedReady | AwaitedLevel, is_so: bool) -> None:
        error: InputError | None = None
        if isinstance(awaited, AwaitedReady):
            if awaited.request < 0:
                if is_so and self._host.tracing is not None:
                    self._host.tracing.join(self._names_of(awaited.subscription))
                return
            if not is_so:
                error = ClosedError("the node was closed before the subscription was ready")
        elif self._closed:
            error = (
                None if is_so else ClosedError(f"the node was closed before it had all of {awaited.topic!r}")
            )
        elif not is_so:
            error = InputError(f"this node does not follow the stream of {awaited.topic!r}: subscribe to it")
        self._host.out.append(Answered(awaited.request, error=error))

    def _is_ready(self, awaited: AwaitedReady) -> bool:
        """Whether every topic of a subscription is reachable, or has nobody else for some cycles."""
        host, cycle = self._host, self._host.peer_table.cycle
        if not host.has_joined and cycle < awaited.patience:
            awaited.since = cycle  # nobody has been met yet: whether anybody is there is not known
        mine = self._names_of(awaited.subscription)
        return all(map(host.is_ready, mine)) or (
            cycle - awaited.since >= self._alone_cycles
            and all(host.is_ready(topic) or host.is_alone(topic) for topic in mine)
        )

    def _is_level(self, awaited: AwaitedLevel) -> bool:
        """Whether this node has all of a stream that others tell of; some cycles at the least, since they
        have to be found first."""
        streams, cycle = self._host.streams, self._host.peer_table.cycle
        if awaited.alone:
            if streams.is_alone(awaited.topic) and cycle - awaited.since < JOINING_CYCLES:
                return False
            awaited.alone, awaited.since = False, cycle
        return cycle - awaited.since >= self._alone_cycles and streams.repair.is_level(awaited.topic)
