"""Cyclon for a whole population: the same rules, applied to every node's row.

State is one array a field; a cycle is a few compiled passes. What a pass works on is a range of nodes, so
that the sweep engine can hand ranges to threads: a pass over node q writes only q's rows, or, when
answering, the mailbox rows of those who asked q, which nobody else touches.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.view import View, front_of, make_view
from vinecast.core.exchange import Turn, exchange_phases, make_passes, turn_order
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule
from vinecast.core.sweep import Mailbox, Phase
from vinecast.protocols.cyclon import rules
from vinecast.protocols.cyclon.machine import CyclonConfig
from vinecast.protocols.cyclon.rules import SENT, Ages, Extent, Peers, Row

Online = NDArray[np.bool_]


class CyclonLayer(NamedTuple):
    """The views of a whole population, and what an exchange needs besides."""

    peers: Peers
    """[node, slot]"""
    ages: Ages
    """[node, slot]"""
    extent: Extent
    """[node, (size, sent)]"""
    online: Online
    """[node]"""
    cycles: NDArray[np.int32]
    """[node]"""
    seed: int


class CyclonSweep:
    """A population of ``nodes`` Cyclon nodes. The state is equal, bit for bit, to that of so many machines.

    peers, ages: [node, slot]; extent: [node, (size, sent)]; online: [node]. The mailbox holds one exchange
    a node while a synchronous cycle runs: the request on its way out, the answer on its way back.
    """

    def __init__(self, config: CyclonConfig, seed: int, nodes: int) -> None:
        self.config = config
        self.seed = seed
        self.nodes = nodes
        self.peers: Peers = np.full((nodes, config.view_size), NOBODY, dtype=np.int32)
        self.ages: Ages = np.zeros((nodes, config.view_size), dtype=np.uint16)
        self.extent: Extent = np.zeros((nodes, 2), dtype=np.int16)
        self.online: Online = np.zeros(nodes, dtype=np.bool_)
        self.cycles: NDArray[np.int32] = np.zeros(nodes, dtype=np.int32)
        self._mailbox: Mailbox | None = None

    @property
    def view(self) -> View:
        """Everybody's view. [node, slot]"""
        return View(self.peers, self.ages)

    @property
    def views(self) -> Peers:
        """Whom everybody knows; empty slots hold NOBODY. [node, slot]"""
        return self.peers

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together."""
        return sum(a.nbytes for a in (self.peers, self.ages, self.extent, self.online, self.cycles))

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the mailbox that the synchronous setting needs besides."""
        return self._mailbox.nbytes if self._mailbox else 0

    @property
    def layer(self) -> CyclonLayer:
        """What the passes work on."""
        return CyclonLayer(self.peers, self.ages, self.extent, self.online, self.cycles, self.seed)

    def start(self, nodes: NDArray[np.int64], contacts: NDArray[np.int32]) -> None:
        """Bring nodes on line, for the first time or again. contacts: [started node, contact] or NOBODY."""
        start_nodes(self.layer, nodes, contacts)

    def stop(self, nodes: NDArray[np.int64]) -> None:
        """Take nodes off line; they keep their state."""
        self.online[nodes] = False

    def forget_state(self, nodes: NDArray[np.int64]) -> None:
        """Empty the views of nodes that will come back without their state."""
        self.peers[nodes] = NOBODY
        self.ages[nodes] = 0
        self.extent[nodes] = 0
        self.cycles[nodes] = 0

    def sequential_cycle(self, instant: int) -> None:
        """Everybody's turn once, each exchange from beginning to end, in the keyed order of the instant."""
        order = turn_order(self.seed, instant, self.nodes)
        asked, given = make_view(self.config.gossip_size), make_view(self.config.gossip_size)
        take_turns(self.layer, asked, given, order)

    def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
        """Everyone requests, the requests are sorted by partner, partners answer, everyone merges."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self.nodes, self.config.gossip_size)
        return exchange_phases("", PASSES, lambda worker: self.layer, self._mailbox)


@inner_rule
def row_of(layer: CyclonLayer, p: int) -> Row:
    """One node's view, as the rules see it."""
    return layer.peers[p], layer.ages[p], layer.extent[p]


@rule
def start_nodes(layer: CyclonLayer, nodes: NDArray[np.int64], contacts: Peers) -> None:
    """``Start`` for each of ``nodes``. contacts: [started node, contact]"""
    for i in range(nodes.size):
        p = int(nodes[i])
        layer.online[p] = True
        layer.extent[p, SENT] = 0
        for j in range(contacts.shape[1]):
            rules.meet(row_of(layer, p), p, int(contacts[i, j]))


@inner_rule
def ask(layer: CyclonLayer, p: int, out: View) -> tuple[int, int]:
    """Ask the oldest."""
    layer.cycles[p] += 1
    return rules.begin_exchange(row_of(layer, p), layer.seed, int(layer.cycles[p]), p, out)


@inner_rule
def answer(layer: CyclonLayer, turn: Turn, asking: Peers, told: View, out: View) -> int:
    """Swap entries with the one who asks."""
    row = row_of(layer, turn.me)
    return rules.answer_request(row, turn.seed, turn.cycle, turn.me, turn.target, told, out)


@inner_rule
def merge(layer: CyclonLayer, turn: Turn, told: View) -> None:
    """Take what was given for what was sent."""
    rules.end_exchange(row_of(layer, turn.me), turn.me, turn.target, told)


PASSES = make_passes("cyclon", ask, answer, merge)


@rule
def take_turns(layer: CyclonLayer, asked: View, given: View, order: NDArray[np.int64]) -> None:
    """The sequential setting: each on-line node's whole exchange, in order. asked, given: working memory"""
    for i in range(order.size):
        p = int(order[i])
        if not layer.online[p]:
            continue
        q, count = ask(layer, p, asked)
        if q == NOBODY or not layer.online[q]:
            continue
        turn, told = Turn(layer.seed, int(layer.cycles[p]), q, p), front_of(asked, count)
        count = answer(layer, turn, given.peers[:0], told, given)
        merge(layer, Turn(layer.seed, turn.cycle, p, q), front_of(given, count))
