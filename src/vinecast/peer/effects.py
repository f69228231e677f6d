"""The effects of a peer's machines: what they ask for is counted, traced, or becomes an output.

What is sent becomes a frame, if it will go out as far as is known; what will not is counted with its reason.
"""

import abc
from collections import Counter
from collections.abc import Callable
from typing import assert_never

from vinecast.core.errors import Bug
from vinecast.core.events import Blame, Count, Deliver, Effect, Event, Message, Observe, Send, SetTimer
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.peer.address import Address
from vinecast.peer.links import Links
from vinecast.peer.outputs import CompileIndex, PeerOutput, SendFrame
from vinecast.peer.routing import Routing
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.tracing import CANNOT_TAKE, TOO_LARGE, Tracing
from vinecast.peer.wire.messages import Introduction, encode
from vinecast.protocols.streams.machine import UNREADABLE
from vinecast.systems.common.router import ME

_OBSERVED = {kind: f"events {kind.name.lower().replace('_', ' ')}" for kind in TraceKind}
UNSENT = f"dropped: {CANNOT_TAKE}"


class EffectHandling(abc.ABC):
    """A peer, as far as it does what its machines ask for."""

    peer_table: PeerTable
    system: Routing

    def __init__(self, links: Links) -> None:
        self.links = links
        self.counters: Counter[str] = Counter()
        self.out: list[PeerOutput] = []
        """What is asked for while an input is handled."""
        self.tracing: Tracing | None = None
        """The trace, if it is wanted."""
        self._now_us = 0
        self._index_is_compiled = False
        self._wait_for_index: list[Callable[[], None]] = []

    @abc.abstractmethod
    def blame(self, peer: bytes) -> None:
        """A peer did what no honest node does."""

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""
        return self._now_us

    def handle_event(self, event: Event) -> None:
        """Let the system's machine handle something, and do what it asks for."""
        for effect in self.system.handle(event, self._now_us):
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        """Do what a machine asks for; what it asks of events is up to ``events`` and ``streams``."""
        match effect:
            case Send(to, message, otherwise):
                if not self._send(to, message) and otherwise != NOBODY:
                    self._send(otherwise, message)
            case SetTimer():
                self.out.append(effect)
            case Observe(kind=kind, reason=reason):
                self.counters[f"{_OBSERVED[kind]}: {reason}" if reason else _OBSERVED[kind]] += 1
                if self.tracing is not None:
                    self.tracing.observe(effect)
            case Count(name, by):
                self.counters[name] += by
            case Blame(peer, reason):
                if self.tracing is not None:
                    self.tracing.blame(self.peer_table.id_of(peer), reason)
                self.blame(self.peer_table.id_of(peer))
            case Deliver():
                raise Bug("only what carries an event delivers one: a machine delivered besides")
            case _:
                assert_never(effect)

    def _send(self, to: int, message: Message) -> bool:
        return to != NOBODY and self.system.send(to, message)

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        """Send a frame; ``things``: messages or events in it. Whether it will go out, as far as is known."""
        peer = self.peer_table.id_of(to)
        address = self.peer_table.address_of(to)
        if self.tracing is not None:
            self.tracing.send(peer, frame)
        reason = CANNOT_TAKE
        if self._is_too_large(frame, things):
            reason = TOO_LARGE
        elif self.links.can_send(peer, address, self._now_us):
            self.out.append(SendFrame(peer, address, frame, things))
            return True
        self._leave_unsent(peer, frame, things, reason)
        return False

    def _leave_unsent(self, peer: bytes, frame: bytes, things: int, reason: str = CANNOT_TAKE) -> None:
        """A frame does not go out; nor does what it was to say first of those that it names."""
        self.system.codec.forget_connection(peer)
        self.counters[UNSENT] += things
        if self.tracing is not None:
            self.tracing.note_unsent(peer, frame, reason)

    def _introduce_myself(self, peer: bytes, address: Address | None = None) -> None:
        own = self.peer_table.describe(ME, 0)
        assert own is not None
        self._send_at_once(peer, address, encode(Introduction(own)))

    def _send_at_once(self, peer: bytes, address: Address | None, frame: bytes) -> None:
        """Send a frame with one message, whatever is known of the peer."""
        if self.tracing is not None:
            self.tracing.send(peer, frame)
        if self._is_too_large(frame, 1):
            self._leave_unsent(peer, frame, 1, TOO_LARGE)
        else:
            self.out.append(SendFrame(peer, address, frame, 1))

    def _is_too_large(self, frame: bytes, things: int) -> bool:
        """Whether a frame is larger than any connection takes; such are counted."""
        is_so = len(frame) > self.links.limits.frame_bytes_max
        if is_so:
            self.counters[f"dropped: {TOO_LARGE}"] += things
        return is_so

    def note_unreadable(self) -> None:
        """The store could not be read: what was to be done is left undone, and the node goes on."""
        self.counters[UNREADABLE] += 1

    def when_compiled(self, then: Callable[[], None]) -> None:
        """See ``WhenCompiled``: at once, or while ``IndexCompiled`` is handled."""
        if self._index_is_compiled:
            then()
            return
        if not self._wait_for_index:
            self.out.append(CompileIndex())
        self._wait_for_index.append(then)

    def _note_compiled(self) -> None:
        self._index_is_compiled = True
        waiting, self._wait_for_index = self._wait_for_index, []
        for then in waiting:
            then()

    def set_timer(self, name: str, after_us: int) -> None:
        """Have a timer run out after so long, and not when it was to before."""
        self.out.append(SetTimer(name, after_us))
