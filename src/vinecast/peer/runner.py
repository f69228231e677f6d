"""The runner: what hands a peer its inputs, one after the other, live and simulated.

This is what a live node's driver (``node/runtime/driver``) and a simulated node (``sim/peers/node``) have in
common. An input is handled, and all that the peer asks for is carried out, before the next; what that brings
about, a frame that could not go out for example, comes before anything else; what is published in one turn is
one input; a timer that is to wait for nothing runs out at once.
"""

import abc
from collections import deque
from collections.abc import Callable
from functools import lru_cache

from vinecast.core.events import TimerFired
from vinecast.peer import inputs as given
from vinecast.peer.publisher import LOOK_TIMER

_fired = lru_cache(maxsize=256)(TimerFired)
"""That a timer has run out: there are few, and they run out often."""


class PeerRunner(abc.ABC):
    """Runs one peer."""

    def __init__(self) -> None:
        self.paused = False
        """Whether nothing is handled at the moment, and waits."""
        self._inbox: deque[given.PeerInput] = deque()
        self._is_handling = False
        self._turn: list[given.PublishDrafts] = []
        """What was published in this turn."""
        self._crowded: frozenset[bytes] = frozenset()

    # Whoever runs it.

    @abc.abstractmethod
    def _step(self, what: given.PeerInput) -> None:
        """Hand the peer an input, and carry out what it asks for."""

    @abc.abstractmethod
    def _after_turn(self, action: Callable[[], object]) -> None:
        """Do something when all that happens now is over."""

    @abc.abstractmethod
    def _crowded_peers(self) -> frozenset[bytes]:
        """The peers whose queues are more than half full."""

    @abc.abstractmethod
    def _drop_timer(self, name: str) -> None:
        """A timer, if it is set, does not run out."""

    @abc.abstractmethod
    def _start_timer(self, name: str, after_us: int) -> None:
        """Have ``_ring`` called with a timer's name after so long."""

    # What is the same everywhere.

    def feed(self, what: given.PeerInput) -> None:
        """Hand the peer something, now or when what is under way is done."""
        self._inbox.append(what)
        self._work()

    def _work(self) -> None:
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._inbox and not self.paused:
                self._step(self._inbox.popleft())
        finally:
            self._is_handling = False

    def _publish(self, request: given.PublishDrafts) -> None:
        """Publish events together with all others of this turn."""
        if not self._turn:
            self._look_at_queues()
            self._after_turn(self.end_turn)
        self._turn.append(request)

    def end_turn(self) -> None:
        """What was published up to now is signed and sent."""
        turn, self._turn = self._turn, []
        if turn:
            self.feed(given.PublishTurn(tuple(turn)))

    def _set_timer(self, name: str, after_us: int) -> None:
        """Have a timer run out after so long, and not when it was to before; after no time, as soon as all is
        carried out that was asked for with it."""
        self._drop_timer(name)
        if after_us:
            self._start_timer(name, after_us)
        else:
            self._inbox.append(_fired(name))

    def _ring(self, name: str) -> None:
        """A timer has run out."""
        if name == LOOK_TIMER:
            self._look_at_queues()
        self.feed(_fired(name))

    def _look_at_queues(self) -> None:
        crowded = self._crowded_peers()
        if crowded != self._crowded:
            self._crowded = crowded
            self.feed(given.QueuesCrowded(crowded))
