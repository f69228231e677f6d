"""The sweep protocol: a population of machines as arrays, for the sweep engine to drive.

A sweep holds the state of all nodes, one array a field, and applies the protocol's rules to rows of it. What
it does in a cycle is defined in ``core.exchange``; here is only the shape that the engine needs to know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Phase:
    """One pass of a synchronous cycle over nodes begin … end−1, writing only what those nodes own.

    ``run(begin, end, worker)``: the worker's number is for working memory, never for the result.
    """

    name: str
    run: Callable[[int, int, int], None]
    divisible: bool = True
    """Whether ranges may run at the same time; a pass that is not runs once, over all nodes."""


class Sweep(Protocol):
    """A population of one protocol or system."""

    nodes: int
    online: NDArray[np.bool_]
    """[node]"""

    @property
    def views(self) -> NDArray[np.int32]:
        """Whom everybody knows; empty slots hold NOBODY. [node, slot]"""
        ...

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together."""
        ...

    @property
    def scratch_bytes(self) -> int:
        """Bytes needed besides while a cycle runs."""
        ...

    def start(self, nodes: NDArray[np.int64], contacts: NDArray[np.int32]) -> None:
        """Bring nodes on line, for the first time or again. contacts: [started node, contact]"""
        ...

    def stop(self, nodes: NDArray[np.int64]) -> None:
        """Take nodes off line; they keep their state."""
        ...

    def forget_state(self, nodes: NDArray[np.int64]) -> None:
        """Let nodes that are off line lose what they knew."""
        ...

    def sequential_cycle(self, instant: int) -> None:
        """Everybody's turn once, in the keyed order of the instant."""
        ...

    def synchronous_phases(self, workers: int) -> tuple[Phase, ...]:
        """The passes of a synchronous cycle, in order, for so many workers at a time."""
        ...
