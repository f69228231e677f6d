"""The sweep protocol: a population of machines as arrays, for the sweep engine to drive.

A sweep holds the state of all nodes, one array a field, and applies the protocol's rules to rows of it. What
it does in a cycle is defined in ``core.exchange``; here is only the shape that the engine needs to know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vinecast.core.machine import NOBODY

UNANSWERED = -1
"""The count in a mailbox of an exchange whose partner was silent."""


class Mail(NamedTuple):
    """One exchange a node, in flight: the request on its way out, the answer on its way back."""

    peers: NDArray[np.int32]
    """[node, entry]"""
    ages: NDArray[np.uint16]
    """[node, entry]"""
    told: NDArray[np.int16]
    """[node], entries, or UNANSWERED"""
    partner: NDArray[np.int32]
    """[node], whom it asks, or NOBODY"""
    start: NDArray[np.int32]
    """[node + 2], the requests sorted by partner (``core.exchange.group_requests``)"""
    initiator: NDArray[np.int32]
    """[node], likewise"""


class Mailbox:
    """A population's mail; ``mail`` is what rules are given of it."""

    def __init__(self, nodes: int, gossip_size: int) -> None:
        self.mail = Mail(
            peers=np.empty((nodes, gossip_size), dtype=np.int32),
            ages=np.empty((nodes, gossip_size), dtype=np.uint16),
            told=np.zeros(nodes, dtype=np.int16),
            partner=np.full(nodes, NOBODY, dtype=np.int32),
            start=np.zeros(nodes + 2, dtype=np.int32),
            initiator=np.zeros(nodes, dtype=np.int32),
        )
        self.peers, self.ages, self.count, self.partner, self.start, self.initiator = self.mail

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(array.nbytes for array in self.mail)


@dataclass(frozen=True, slots=True)
class Phase:
    """One pass of a synchronous cycle over nodes begin … end−1, writing only what those nodes own.

    ``run(begin, end, worker)``: the worker's number is for working memory, never for the result.
    """

    name: str
    run: Callable[[int, int, int], None]
    divisible: bool = True
    """Whether ranges may run at the same time; a pass that is not runs once, over all nodes."""
    requests: Mailbox | None = None
    """A mailbox that everybody's requests are in when the pass is done."""
    answers: Mailbox | None = None
    """A mailbox that everybody's answers are in when the pass is done."""


class Sweep(Protocol):
    """A population of one protocol or system."""

    nodes: int
    online: NDArray[np.bool_]
    """[node]"""

    @property
    def views(self) -> NDArray[np.int32]:
        """Whom everybody knows; empty slots hold NOBODY. [node, slot]"""

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes needed besides while a cycle runs."""

    def start(self, nodes: NDArray[np.int64], contacts: NDArray[np.int32]) -> None:
        """Bring nodes on line, for the first time or again. contacts: [started node, contact]"""

    def stop(self, nodes: NDArray[np.int64]) -> None:
        """Take nodes off line; they keep their state."""

    def forget_state(self, nodes: NDArray[np.int64]) -> None:
        """Let nodes that are off line lose what they knew."""

    def sequential_cycle(self, instant: int) -> None:
        """Everybody's turn once, in the keyed order of the instant."""

    def synchronous_phases(self, workers: int) -> tuple[Phase, ...]:
        """The passes of a synchronous cycle, in order, for so many workers at a time."""
