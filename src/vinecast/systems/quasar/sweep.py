"""Quasar for a whole population at rest: homes by the same rules, and messages hop by hop.

Links stand still and homes have settled, as in the experiments of S1 §4; it equals machines that are left in
peace for as many periods as homes have levels, bit for bit. Networks that change need the event engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import MISSED
from vinecast.core.draws import purpose, shuffled, stream
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.protocols.directed_walk.sweep import COUNTED, Copies, Field, Sight, Tally, Walking, make_copies
from vinecast.protocols.gravity.rules import Homes, Peers
from vinecast.protocols.gravity.sweep import fill_next, fill_own
from vinecast.systems.quasar.events import Members, poll, publish
from vinecast.systems.quasar.machine import QuasarConfig

_LINKS = purpose("quasar.links")

Divide = Callable[[int, Callable[[int, int, int], None]], None]
"""Runs a pass over 0 … count − 1, in ranges, maybe on several threads (sim/engine/sweep.py)."""


def random_contacts(seed: int, nodes: int, degree: int) -> Peers:
    """Whom everybody links to in a random overlay of an even degree. [node, degree / 2]

    The overlay is made of degree / 2 random circles through all nodes: everybody links to its successor on
    each, and is linked to by its predecessor. A node that meets the same one twice has a link less.
    """
    if degree < 2 or degree % 2 or degree >= nodes:
        raise InputError(f"degree must be even, at least 2 and less than {nodes} (the nodes), not {degree}")
    contacts = np.empty((nodes, degree // 2), dtype=np.int32)
    for circle in range(degree // 2):
        order = shuffled(stream(seed, _LINKS, circle, 0), nodes)
        contacts[order, circle] = np.roll(order, -1)
    return contacts


def links_of(contacts: Peers) -> Peers:
    """The links that contacts make, both ways. [node, slot], ascending, NOBODY behind"""
    nodes, count = contacts.shape
    own = np.repeat(np.arange(nodes), count)
    other = contacts.ravel().astype(np.int64)
    pairs = np.sort(np.concatenate([own * nodes + other, other * nodes + own]))
    node, peer = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], nodes)  # as np.unique, which is slow
    degree = np.bincount(node, minlength=nodes)
    links = np.full((nodes, int(degree.max())), NOBODY, dtype=np.int32)
    links[node, np.arange(node.size) - np.repeat(np.cumsum(degree) - degree, degree)] = peer
    return links


class Known(NamedTuple):
    """What is kept of a group between its message and polls."""

    members: Members
    sight: Sight


@dataclass(frozen=True, slots=True)
class Reached:
    """What became of a message."""

    node: NDArray[np.int32]
    """[member]"""
    hops: NDArray[np.int32]
    """[member], links that the first copy travelled; MISSED where none came"""
    copies: NDArray[np.int32]
    """[member], copies received"""
    tally: Tally
    """What was counted on the way (protocols/directed_walk/sweep.py: COUNTED)"""

    @property
    def coverage(self) -> float:
        """The share of members that have it, the publisher among them (S1 §4)."""
        return float((self.hops != MISSED).mean())

    @property
    def others(self) -> float:
        """The share of members other than the publisher that have it; 1 where there are none."""
        got, size = int((self.hops != MISSED).sum()), self.hops.size
        return (got - 1) / (size - 1) if size > 1 else 1.0


class QuasarSweep:
    """A population. homes: [node, level, word]; links: [node, slot], ascending, NOBODY behind"""

    def __init__(self, config: QuasarConfig, seed: int, profiles: Profiles, links: Peers) -> None:
        gravity = config.gravity
        self.config = config
        self.walk = config.walk
        """How copies walk; another way may be tried on the same homes."""
        self.seed = seed
        self.profiles = profiles
        self.nodes = profiles.peers
        self.links = links
        self.degree = (links != NOBODY).sum(axis=1).astype(np.int32)
        shape = (self.nodes, gravity.depth, gravity.filter_bytes // 8)
        self.homes: Homes = np.zeros(shape, dtype=np.uint64)
        self._masks = np.zeros(self.nodes, dtype=np.uint8)
        self._place_of = np.full(self.nodes, NOBODY, dtype=np.int32)
        self._member = np.zeros(self.nodes, dtype=np.bool_)
        self._copies: Copies = make_copies(0, config.walk.negatives)

    @property
    def state_bytes(self) -> int:
        """Bytes of homes and links, all nodes together. A node keeps a copy of each of its neighbours' homes;
        a population keeps every home once."""
        return sum(array.nbytes for array in (self.homes, self.links, self.degree))

    def disseminate(self, divide: Divide | None = None) -> None:
        """Fill everybody's home, level by level."""
        spread = divide or _undivided
        table, hashes = self.profiles.table, self.config.gravity.hashes

        def own(begin: int, end: int, worker: int) -> None:
            fill_own(self.homes, self.profiles.ids, self.profiles.topic_ids, table, hashes, begin, end)

        spread(self.nodes, own)
        for level in range(1, self.config.gravity.depth):

            def further(begin: int, end: int, worker: int, level: int = level) -> None:
                fill_next(self.homes, self.links, self.degree, level, begin, end)

            spread(self.nodes, further)

    def group(self, topic: int) -> Known:
        """Take up a group: nobody has its message yet, and nobody has polled."""
        subscribers = self.profiles.subscribers()
        node = subscribers.node[subscribers.start[topic] : subscribers.start[topic + 1]]
        size = node.size
        members = Members(
            node, self._place_of, np.full(size, MISSED, dtype=np.int32), np.zeros(size, dtype=np.int32),
            np.zeros((size, self.config.asked), dtype=np.uint64), np.zeros(size, dtype=np.int32),
            np.zeros(size, dtype=np.bool_),
        )  # fmt: skip
        near = np.zeros(self.links.shape[1], dtype=np.uint8)
        return Known(members, Sight(self.profiles.topic_ids[topic], self._member, self._masks, near))

    def publish(self, known: Known, publisher: int, event: int, exact: bool = False) -> Reached:
        """Publish an event; exact: whether to count the hops that were drawn by what is not there."""
        walk, members = self.walk, known.members
        each = walk.branching or self.links.shape[1]
        self._take_up(known, (members.node.size + 1) * each)
        tally = np.zeros(len(COUNTED), dtype=np.int64)
        publish(
            publisher, event, self._field, self._walking(exact), known.sight, members, self._copies, tally
        )
        self._put_down(known)
        return self.reached(known, tally)

    def poll(self, known: Known, count: int) -> tuple[Reached, int]:
        """Let all members of a group poll, for the ``count``-th time; and the messages that it took."""
        self._take_up(known, known.members.node.size)
        tally = np.zeros(len(COUNTED), dtype=np.int64)
        messages = poll(
            count, self._field, self._walking(False), known.sight, known.members, self._copies, tally
        )
        self._put_down(known)
        return self.reached(known, tally), int(messages)

    def reached(self, known: Known, tally: Tally) -> Reached:
        """How the members of a group fare."""
        members = known.members
        return Reached(members.node, members.hops.copy(), members.copies.copy(), tally)

    @property
    def _field(self) -> Field:
        return Field(self.homes, self.links, self.degree, self.profiles.ids)

    def _walking(self, exact: bool) -> Walking:
        walk = self.walk
        return Walking(self.seed, walk.ttl, walk.branching, self.config.gravity.hashes, exact)

    def _take_up(self, known: Known, copies: int) -> None:
        if self._copies.at.size < copies or self._copies.negative.shape[1] != self.walk.negatives:
            self._copies = make_copies(copies, self.walk.negatives)
        node = known.members.node
        self._place_of[node] = np.arange(node.size)
        self._member[node] = True

    def _put_down(self, known: Known) -> None:
        self._place_of[known.members.node] = NOBODY
        self._member[known.members.node] = False


def _undivided(count: int, run: Callable[[int, int, int], None]) -> None:
    run(0, count, 0)
