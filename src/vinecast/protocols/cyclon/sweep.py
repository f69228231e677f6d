"""Cyclon for a whole population: the same rules, applied to every node's row.

State is one array a field; a cycle is a few compiled passes. What a pass works on is a range of nodes, so
that the sweep engine can hand ranges to threads: a pass over node q writes only q's rows, or, when
answering, the mailbox rows of those who asked q, which nobody else touches.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.view import View
from vinecast.core.exchange import group_requests, turn_order
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.core.sweep import UNANSWERED, Mailbox, Phase
from vinecast.protocols.cyclon import rules
from vinecast.protocols.cyclon.machine import CyclonConfig
from vinecast.protocols.cyclon.rules import SENT, Ages, Extent, Peers

Online = NDArray[np.bool_]


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

    def start(self, nodes: NDArray[np.int64], contacts: NDArray[np.int32]) -> None:
        """Bring nodes on line, for the first time or again. contacts: [started node, contact] or NOBODY."""
        start_nodes(self.peers, self.ages, self.extent, self.online, nodes, contacts)

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
        take_turns(
            self.peers, self.ages, self.extent, self.online, self.cycles,
            self.seed, self.config.gossip_size, order,
        )  # fmt: skip

    def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
        """Everyone requests, the requests are sorted by partner, partners answer, everyone merges."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self.nodes, self.config.gossip_size)
        box, gossip_size = self._mailbox, self.config.gossip_size

        def request(begin: int, end: int, worker: int) -> None:
            prepare_requests(
                self.peers, self.ages, self.extent, self.online, self.cycles, self.seed, gossip_size,
                box.peers, box.ages, box.count, box.partner, begin, end,
            )  # fmt: skip

        def sort_mail(begin: int, end: int, worker: int) -> None:
            group_requests(box.partner, box.start, box.initiator)

        def answer(begin: int, end: int, worker: int) -> None:
            answer_requests(
                self.peers, self.ages, self.extent, self.online, self.cycles, self.seed, gossip_size,
                box.peers, box.ages, box.count, box.start, box.initiator, begin, end,
            )  # fmt: skip

        def merge(begin: int, end: int, worker: int) -> None:
            merge_answers(
                self.peers, self.ages, self.extent, box.peers, box.ages, box.count, box.partner, begin, end
            )

        return (
            Phase("request", request, requests=box),
            Phase("sort mail", sort_mail, divisible=False),
            Phase("answer", answer, answers=box),
            Phase("merge", merge),
        )


@rule
def start_nodes(
    peers: Peers, ages: Ages, extent: Extent, online: Online, nodes: NDArray[np.int64], contacts: Peers
) -> None:
    """``Start`` for each of ``nodes``. contacts: [started node, contact]"""
    for i in range(nodes.size):
        p = nodes[i]
        online[p] = True
        extent[p, SENT] = 0
        for j in range(contacts.shape[1]):
            rules.meet(peers[p], ages[p], extent[p], p, int(contacts[i, j]))


@rule
def take_turns(
    peers: Peers,
    ages: Ages,
    extent: Extent,
    online: Online,
    cycles: NDArray[np.int32],
    seed: int,
    gossip_size: int,
    order: NDArray[np.int64],
) -> None:
    """The sequential setting: each on-line node's whole exchange, in order."""
    asked_peers = np.empty(gossip_size, np.int32)
    asked_ages = np.empty(gossip_size, np.uint16)
    given_peers = np.empty(gossip_size, np.int32)
    given_ages = np.empty(gossip_size, np.uint16)
    for turn in range(order.size):
        p = order[turn]
        if not online[p]:
            continue
        cycles[p] += 1
        cycle = int(cycles[p])
        q, asked = rules.begin_exchange(
            peers[p], ages[p], extent[p], seed, cycle, p, gossip_size, asked_peers, asked_ages
        )
        if q == NOBODY or not online[q]:
            continue
        given = rules.answer_request(
            peers[q], ages[q], extent[q], seed, cycle, q, p, gossip_size,
            asked_peers, asked_ages, asked, given_peers, given_ages,
        )  # fmt: skip
        rules.end_exchange(peers[p], ages[p], extent[p], p, q, given_peers, given_ages, given)


@rule
def prepare_requests(
    peers: Peers,
    ages: Ages,
    extent: Extent,
    online: Online,
    cycles: NDArray[np.int32],
    seed: int,
    gossip_size: int,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    partner: Peers,
    begin: int,
    end: int,
) -> None:
    """Phase 1 for nodes begin … end−1."""
    for p in range(begin, end):
        if not online[p]:
            partner[p] = NOBODY
            continue
        cycles[p] += 1
        q, asked = rules.begin_exchange(
            peers[p], ages[p], extent[p], seed, int(cycles[p]), p, gossip_size, mail_peers[p], mail_ages[p]
        )
        partner[p] = q
        mail_count[p] = asked


@rule
def answer_requests(
    peers: Peers,
    ages: Ages,
    extent: Extent,
    online: Online,
    cycles: NDArray[np.int32],
    seed: int,
    gossip_size: int,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    start: NDArray[np.int32],
    initiator: NDArray[np.int32],
    begin: int,
    end: int,
) -> None:
    """Phase 2 for partners begin … end−1: the answer takes the request's place in the mailbox."""
    given_peers = np.empty(gossip_size, np.int32)
    given_ages = np.empty(gossip_size, np.uint16)
    for q in range(begin, end):
        for i in range(start[q], start[q + 1]):
            p = int(initiator[i])
            if not online[q]:
                mail_count[p] = UNANSWERED
                continue
            given = rules.answer_request(
                peers[q], ages[q], extent[q], seed, int(cycles[p]), q, p, gossip_size,
                mail_peers[p], mail_ages[p], int(mail_count[p]), given_peers, given_ages,
            )  # fmt: skip
            for j in range(given):
                mail_peers[p, j] = given_peers[j]
                mail_ages[p, j] = given_ages[j]
            mail_count[p] = given


@rule
def merge_answers(
    peers: Peers,
    ages: Ages,
    extent: Extent,
    mail_peers: Peers,
    mail_ages: Ages,
    mail_count: NDArray[np.int16],
    partner: Peers,
    begin: int,
    end: int,
) -> None:
    """Phase 3 for nodes begin … end−1."""
    for p in range(begin, end):
        if partner[p] == NOBODY or mail_count[p] == UNANSWERED:
            continue
        rules.end_exchange(
            peers[p], ages[p], extent[p], p, int(partner[p]), mail_peers[p], mail_ages[p], int(mail_count[p])
        )
