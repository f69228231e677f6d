"""PolderCast for a whole population: the layers' sweeps, one after the other, and dissemination.

A synchronous cycle is Cyclon's, then everybody refreshes its profile, then Vicinity's, then Rings'. It
equals, bit for bit, machines on the event engine with synchronised timers and one constant latency below a
sixth of the period. There is no sequential setting: nothing we measure needs one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import InputError
from vinecast.core.exchange import group_requests
from vinecast.core.interest import TOPICS_MAX, Scratch, make_scratch
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles, choose_publishers
from vinecast.core.sweep import Mailbox, Phase
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.protocols.ringcast import sweep as ringcast
from vinecast.protocols.rings import sweep as rings
from vinecast.protocols.vicinity import sweep as vicinity
from vinecast.systems.poldercast import PolderCastConfig

Nodes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spread:
    """What became of one event a topic."""

    publisher: NDArray[np.int32]
    """[topic], or NOBODY where no subscriber was on line"""
    hops: NDArray[np.int16]
    """[pool], links that the first copy travelled; −1 where none arrived"""
    copies: NDArray[np.uint16]
    """[pool], copies received"""


class PolderCastSweep:
    """A population. near: Vicinity's view [node, slot]; ring: Rings' rows [pool, place]."""

    def __init__(self, config: PolderCastConfig, seed: int, profiles: Profiles) -> None:
        layers = (config.cyclon, config.vicinity, config.rings)
        if len({layer.period_us for layer in layers}) > 1:
            raise InputError("a sweep needs the same period_s for all three layers")
        if profiles.cnt.size and profiles.cnt.max() > TOPICS_MAX:
            raise InputError(f"a node can subscribe to {TOPICS_MAX:,} topics at the most")
        nodes, pool = profiles.peers, profiles.topics.size
        self.config = config
        self.seed = seed
        self.nodes = nodes
        self.profiles = profiles
        self.table = profiles.table
        self.cyclon = CyclonSweep(config.cyclon, seed, nodes)
        self.online = self.cyclon.online
        self.near_peers = np.full((nodes, config.vicinity.view_size), NOBODY, dtype=np.int32)
        self.near_ages = np.zeros((nodes, config.vicinity.view_size), dtype=np.uint16)
        self.ring_peers = np.full((pool, config.rings.size), NOBODY, dtype=np.int32)
        self.ring_ages = np.zeros((pool, config.rings.size), dtype=np.uint16)
        self.lost = np.zeros(nodes, dtype=np.bool_)
        self.near_silent = np.full(nodes, NOBODY, dtype=np.int32)
        self.ring_silent = np.full(nodes, NOBODY, dtype=np.int32)
        self._mail = Mailbox(nodes, max(config.vicinity.gossip_size, config.rings.gossip_size))
        self._scratches: list[Scratch] = []
        self._spreader: _Spreader | None = None

    @property
    def views(self) -> NDArray[np.int32]:
        """Cyclon's views: what keeps the network in one piece. [node, slot]"""
        return self.cyclon.peers

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together, profiles included."""
        arrays = (self.near_peers, self.near_ages, self.ring_peers, self.ring_ages, self.lost)
        silent = (self.near_silent, self.ring_silent)
        own = (*arrays, *silent, *self.table, self.profiles.ids)
        return self.cyclon.state_bytes + sum(array.nbytes for array in own)

    @property
    def scratch_bytes(self) -> int:
        """Bytes needed besides while a cycle runs, without the working memory of each thread."""
        return self.cyclon.scratch_bytes + self._mail.nbytes

    def start(self, nodes: Nodes, contacts: NDArray[np.int32]) -> None:
        """Bring nodes on line; contacts go to Cyclon. contacts: [started node, contact]"""
        self.cyclon.start(nodes, contacts)

    def stop(self, nodes: Nodes) -> None:
        """Take nodes off line; they keep their state."""
        self.cyclon.stop(nodes)

    def forget_state(self, nodes: Nodes) -> None:
        """Empty all views of nodes that will come back without their state."""
        self.cyclon.forget_state(nodes)
        self.near_peers[nodes], self.near_ages[nodes], self.lost[nodes] = NOBODY, 0, False
        self.near_silent[nodes] = self.ring_silent[nodes] = NOBODY
        for node in nodes.tolist():
            rows = slice(self.table.beg[node], self.table.beg[node] + self.table.cnt[node])
            self.ring_peers[rows], self.ring_ages[rows] = NOBODY, 0

    def sequential_cycle(self, instant: int) -> None:
        """Not offered."""
        raise InputError('PolderCast has no sequential setting; use sweep.setting = "synchronous"')

    def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
        """Cyclon's phases, the profiles, Vicinity's phases, Rings' phases."""
        self.scratch_of(workers - 1)
        layers = self._vicinity_phases() if self.config.with_vicinity else ()
        refresh = Phase("refresh profiles", self._refresh)
        return (*self.cyclon.synchronous_phases(workers), refresh, *layers, *self._rings_phases())

    def scratch_of(self, worker: int) -> Scratch:
        """A worker's own working memory. Made before workers begin, never by them."""
        topics, most = self.profiles.topic_ids.size, int(self.table.cnt.max(initial=0))
        while len(self._scratches) <= worker:
            self._scratches.append(
                make_scratch(self.nodes, topics, most, self.config.most, self.config.rings.size)
            )
        return self._scratches[worker]

    def _refresh(self, begin: int, end: int, worker: int) -> None:
        rings.publish_coverage(self.ring_peers, self.table, self.online, begin, end)

    def _sort_mail(self, begin: int, end: int, worker: int) -> None:
        group_requests(self._mail.partner, self._mail.start, self._mail.initiator)

    def _vicinity_phases(self) -> tuple[Phase, ...]:
        config, mail = self.config.vicinity, self._mail

        def request(begin: int, end: int, worker: int) -> None:
            rings.drop_silent(
                self.ring_peers,
                self.ring_ages,
                self.lost,
                self.near_silent,
                self.online,
                self.table,
                begin,
                end,
            )
            vicinity.prepare_requests(
                self.near_peers, self.near_ages, self.cyclon.peers, self.cyclon.ages,
                self.ring_peers, self.ring_ages, self.online, self.cyclon.cycles, self.seed,
                config.wanted, config.gossip_size, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.partner, self.near_silent, begin, end,
            )  # fmt: skip

        def answer(begin: int, end: int, worker: int) -> None:
            vicinity.answer_requests(
                self.near_peers, self.near_ages, self.cyclon.peers, self.cyclon.ages,
                self.ring_peers, self.ring_ages, self.online, self.cyclon.cycles, self.seed,
                config.wanted, config.gossip_size, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.start, mail.initiator, begin, end,
            )  # fmt: skip

        def merge(begin: int, end: int, worker: int) -> None:
            vicinity.merge_answers(
                self.near_peers, self.near_ages, self.cyclon.cycles, self.seed, config.wanted, self.table,
                self._scratches[worker], mail.peers, mail.ages, mail.count, mail.partner, self.near_silent,
                begin, end,
            )  # fmt: skip

        sort = Phase("vicinity: sort mail", self._sort_mail, divisible=False)
        return (
            Phase("vicinity: request", request), sort,
            Phase("vicinity: answer", answer), Phase("vicinity: merge", merge),
        )  # fmt: skip

    def _rings_phases(self) -> tuple[Phase, ...]:
        config, mail = self.config.rings, self._mail

        def request(begin: int, end: int, worker: int) -> None:
            vicinity.remove_silent(self.near_peers, self.near_ages, self.ring_silent, self.online, begin, end)
            rings.prepare_requests(
                self.ring_peers, self.ring_ages, self.near_peers, self.near_ages,
                self.cyclon.peers, self.cyclon.ages, self.online, self.lost, self.cyclon.cycles, self.seed,
                config.gossip_size, config.informed, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.partner, self.ring_silent, begin, end,
            )  # fmt: skip

        def answer(begin: int, end: int, worker: int) -> None:
            rings.answer_requests(
                self.ring_peers, self.ring_ages, self.near_peers, self.near_ages,
                self.cyclon.peers, self.cyclon.ages, self.online, self.cyclon.cycles, self.seed,
                config.gossip_size, config.informed, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.start, mail.initiator, begin, end,
            )  # fmt: skip

        def merge(begin: int, end: int, worker: int) -> None:
            rings.merge_answers(
                self.ring_peers, self.ring_ages, self.lost, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.partner, self.ring_silent, begin, end,
            )  # fmt: skip

        sort = Phase("rings: sort mail", self._sort_mail, divisible=False)
        return (
            Phase("rings: request", request), sort,
            Phase("rings: answer", answer), Phase("rings: merge", merge),
        )  # fmt: skip

    # Dissemination: one event for every topic, on the overlay as it stands (S0 §6.1: "freezing").

    def publish(self, epoch: int, fanout: int | None = None, shortcuts: str | None = None) -> "Publication":
        """Publish one event on every topic, each from a random on-line subscriber.

        ``epoch`` numbers the occasion: topic t's event is epoch × topics + t. Fan-out and shortcuts are the
        configuration's unless given. Run the publication's phases, then look at its ``spread``.
        """
        if self._spreader is None:
            self._spreader = _Spreader(self.profiles)
        return Publication(
            self, self._spreader, epoch, fanout or self.config.fanout, shortcuts or self.config.shortcuts
        )

    def carriers(self) -> NDArray[np.int32]:
        """Whom a topic's event may be sent to: ring neighbours, and the shortcuts drawn last. [pool, link]"""
        half = self.config.rings.size // 2
        ring = self.ring_peers[:, [0, half]]
        return ring if self._spreader is None else np.hstack([ring, self._spreader.shortcuts])


class Publication:
    """One event a topic, on its way. ``node_phases`` and ``topic_phases`` are run by the engine, in order."""

    def __init__(
        self, sweep: PolderCastSweep, spreader: "_Spreader", epoch: int, fanout: int, shortcuts: str
    ) -> None:
        self._sweep = sweep
        self._spreader = spreader
        self._fanout = fanout
        self._use_near = shortcuts != "cyclon" and sweep.config.with_vicinity
        self._use_sample = shortcuts != "vicinity"
        self.topics = sweep.profiles.topic_ids.size
        self.first_event = epoch * self.topics
        pool = sweep.table.topics.size
        spreader.make_room(pool, fanout)
        publisher = choose_publishers(sweep.seed, epoch, sweep.profiles, sweep.online)
        self.spread = Spread(publisher, np.empty(pool, dtype=np.int16), np.empty(pool, dtype=np.uint16))

    def draw(self, begin: int, end: int, worker: int) -> None:
        """Over nodes: everyone draws its shortcuts."""
        sweep, room = self._sweep, self._spreader
        ringcast.draw_shortcuts(
            sweep.ring_peers, sweep.near_peers, sweep.near_ages, sweep.cyclon.peers, sweep.cyclon.ages,
            self._use_near, self._use_sample, sweep.seed, self.first_event, sweep.table,
            sweep.scratch_of(worker), room.shortcuts, room.order, begin, end,
        )  # fmt: skip

    def disseminate(self, begin: int, end: int, worker: int) -> None:
        """Over topics: every event spreads."""
        sweep, room = self._sweep, self._spreader
        where, sender, frontier = room.memory_of(worker)
        ringcast.disseminate(
            sweep.ring_peers, room.shortcuts, self._fanout, sweep.online, self.spread.publisher,
            room.start, room.nodes, room.pool, where, sender, frontier,
            np.empty(self._fanout + 2, dtype=np.int32), self.spread.hops, self.spread.copies, begin, end,
        )  # fmt: skip


class _Spreader:
    """Who subscribes to each topic, and room to disseminate in.

    start: [topic + 1]; nodes, pool: [subscription]
    """

    def __init__(self, profiles: Profiles) -> None:
        table, topics = profiles.table, profiles.topic_ids.size
        owner = profiles.owners()
        place = np.flatnonzero(owner != NOBODY)
        place = place[np.lexsort((owner[place], table.topics[place]))]
        self.nodes = owner[place]
        self.pool = place.astype(np.int64)
        self.start = np.zeros(topics + 1, dtype=np.int64)
        np.cumsum(np.bincount(table.topics[place], minlength=topics), out=self.start[1:])
        self.population = profiles.peers
        self.shortcuts = np.zeros((0, 0), dtype=np.int32)
        self.order = np.zeros((0, 0), dtype=np.uint64)
        self._memory: dict[int, tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]] = {}

    def make_room(self, pool: int, fanout: int) -> None:
        """Shortcuts for every subscription: [pool, choice]"""
        if self.shortcuts.shape != (pool, fanout):
            self.shortcuts = np.zeros((pool, fanout), dtype=np.int32)
            self.order = np.zeros((pool, fanout), dtype=np.uint64)

    def memory_of(self, worker: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """A worker's own working memory."""
        if worker not in self._memory:
            where = np.zeros(self.population, dtype=np.int64)
            sender = np.zeros(self.population, dtype=np.int32)
            self._memory[worker] = where, sender, np.zeros((2, self.population), dtype=np.int32)
        return self._memory[worker]
