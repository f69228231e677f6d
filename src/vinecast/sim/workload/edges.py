"""Edge lists: the social graphs from which subscription workloads are made.

In Twitter and Facebook every user is a topic, and whoever follows a user subscribes to that topic; friendship
goes both ways, so friends subscribe to each other (S0 §6.1). A graph comes as text, one pair of user numbers
a line, ``from to``, separated by blanks, a tab or a comma; lines that start with # or % are comments. Nobody
subscribes to oneself, nor twice, so self-loops and repeated edges are dropped, and counted.
"""

import re
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import InputError
from vinecast.sim.workload.subscriptions import Subscriptions, subscribe
from vinecast.sim.workload.textfile import lines_of

COMMENTS = ("#", "%")
"""How a line begins that is none of the data."""

_PAIR = re.compile(r"([0-9]{1,18})(?:[ \t]+|[ \t]*,[ \t]*)([0-9]{1,18})")  # 18 digits always fit 64 bits


@dataclass(frozen=True, eq=False)
class Edges:
    """A directed graph without self-loops and repeated edges, in order of source and target."""

    source: NDArray[np.int64]
    """[edge] the follower, numbered densely from 0."""
    target: NDArray[np.int64]
    """[edge] the followed."""
    names: NDArray[np.int64]
    """[node] the user's number in the file, ascending; a user with nothing but a self-loop is one too."""
    loops_dropped: int
    """Self-loops that the file held."""
    duplicates_dropped: int
    """Repetitions of an edge (same source, same target) that the file held."""

    @property
    def nodes(self) -> int:
        """The number of users."""
        return self.names.size


def read_edges(path: Path) -> Edges:
    """Read an edge list, plain or gzipped."""
    numbers = array("q")
    for number, line in lines_of(path, COMMENTS):
        try:
            numbers.extend(edge_of(line))
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    if not numbers:
        raise InputError(f"{path}: the graph has no edge")
    names, dense = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)
    source, target = dense.reshape(-1, 2).T
    real = source != target
    pair = np.sort(source[real] * names.size + target[real])
    once = pair[np.diff(pair, prepend=-1) > 0]
    source, target = np.divmod(once, names.size)
    return Edges(source, target, names, real.size - pair.size, pair.size - once.size)


def edge_of(line: str) -> tuple[int, int]:
    """The two users of a stripped line. ValueError says what is wrong."""
    users = _PAIR.fullmatch(line)
    if users is None:
        raise ValueError(_fault_of(line))
    return int(users[1]), int(users[2])


def _fault_of(line: str) -> str:
    fields = [field for field in re.split(r"[ \t]+|[ \t]*,[ \t]*", line) if field]
    for field in fields:
        if not re.fullmatch("[0-9]{1,18}", field):
            return f"a user must be a whole number of at most 18 digits, not {field!r}"
    return f"an edge is two users with one separator, but here is {line!r}"


def subscriptions_from(edges: Edges, directed: bool) -> Subscriptions:
    """Everybody subscribes to those they follow; undirected, both ends of an edge follow each other."""
    follower, followed = edges.source, edges.target
    if not directed:
        follower, followed = np.concatenate([follower, followed]), np.concatenate([followed, follower])
    return subscribe(follower, followed, edges.nodes, edges.nodes)
