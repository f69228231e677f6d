"""PolderCast for a whole population: the layers' sweeps, one after the other, and dissemination.

A synchronous cycle is Cyclon's, then everybody refreshes its profile, then Vicinity's, then Rings'. It
equals, bit for bit, machines on the event engine with synchronised timers and one constant latency below a
sixth of the period. There is no sequential setting: nothing we measure needs one.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.crowds import make_sets
from vinecast.core.errors import Bug, InputError
from vinecast.core.exchange import group_requests
from vinecast.core.index import Index, make_index
from vinecast.core.interest import TOPICS_MAX, Scratch, make_scratch
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles
from vinecast.core.silence import make_silence
from vinecast.core.sweep import Mailbox, Phase
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.protocols.ringcast.sweep import Again, Forwarding, Links, just_once
from vinecast.protocols.rings import sweep as rings
from vinecast.protocols.vicinity import sweep as vicinity
from vinecast.systems.poldercast import PolderCastConfig
from vinecast.systems.poldercast_events import Delays, Publication, Room

Nodes = NDArray[np.int64]


class PolderCastSweep:
    """A population. near: Vicinity's view [node, slot]; ring: Rings' rows [pool, place]."""

    def __init__(self, config: PolderCastConfig, seed: int, profiles: Profiles) -> None:
        layers = (config.cyclon, config.vicinity, config.rings)
        if len({layer.period_us for layer in layers}) > 1:
            raise InputError("a sweep needs the same period_s for all three layers")
        if config.anycast.on:
            raise InputError('anycast.on goes with engine = "event"; a sweep has no searches')
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
        self.silence = make_silence(nodes)
        self._worths = np.zeros(self.near_peers.shape, dtype=np.uint64)
        self._changed = np.ones(nodes, dtype=np.bool_)
        self._considered = np.full_like(self.near_peers, NOBODY)
        self._mail = Mailbox(nodes, max(config.vicinity.gossip_size, config.rings.gossip_size))
        subscribers = profiles.subscribers()
        self._sets = make_sets(subscribers.start, subscribers.node, nodes)
        self._scratches: list[Scratch] = []
        self._indexes: list[Index] = []
        self.room = Room()

    @property
    def views(self) -> NDArray[np.int32]:
        """Cyclon's views: what keeps the network in one piece. [node, slot]"""
        return self.cyclon.peers

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together, profiles included."""
        arrays = (self.near_peers, self.near_ages, self.ring_peers, self.ring_ages, self.lost)
        silent = (self.near_silent, self.ring_silent, self._considered, *self.silence)
        own = (*arrays, *silent, *self.table, self.profiles.ids)
        return self.cyclon.state_bytes + sum(array.nbytes for array in own)

    @property
    def scratch_bytes(self) -> int:
        """Bytes needed besides while a cycle runs, without the working memory of each thread."""
        sets = sum(each.nbytes for each in self._sets)
        return self.cyclon.scratch_bytes + self._mail.nbytes + self._worths.nbytes + sets

    def start(self, nodes: Nodes, contacts: NDArray[np.int32]) -> None:
        """Bring nodes on line; contacts go to Cyclon. contacts: [started node, contact]

        Whoever did not answer them before they left is forgotten at once, as by machines; and may be back.
        """
        self.cyclon.start(nodes, contacts)
        waiting = nodes[(self.near_silent[nodes] != NOBODY) | (self.ring_silent[nodes] != NOBODY)]
        for p in waiting.tolist():
            self._drop_silent(p, p + 1)
            self._remove_silent(p, p + 1)
        self.near_silent[nodes] = self.ring_silent[nodes] = NOBODY
        self.silence.peers[nodes] = NOBODY

    def stop(self, nodes: Nodes) -> None:
        """Take nodes off line; they keep their state."""
        self.cyclon.stop(nodes)

    def forget_state(self, nodes: Nodes) -> None:
        """Empty all views of nodes that will come back without their state."""
        self.cyclon.forget_state(nodes)
        self.near_peers[nodes], self.near_ages[nodes], self.lost[nodes] = NOBODY, 0, False
        self.near_silent[nodes] = self.ring_silent[nodes] = self._considered[nodes] = NOBODY
        for node in nodes.tolist():
            rows = slice(self.table.beg[node], self.table.beg[node] + self.table.cnt[node])
            self.ring_peers[rows], self.ring_ages[rows] = NOBODY, 0

    def sequential_cycle(self, instant: int) -> None:
        """Not offered."""
        raise InputError('PolderCast has no sequential setting; use sweep.setting = "synchronous"')

    def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
        """Cyclon's phases, the profiles, Vicinity's phases, Rings' phases."""
        if self.profiles.changes:
            raise Bug("a sweep's nodes keep the topics that they begin with; use machines")
        self.scratch_of(workers - 1)
        layers = self._vicinity_phases() if self.config.with_vicinity else ()
        refresh = Phase("refresh profiles", self._refresh)
        return (*self.cyclon.synchronous_phases(workers), refresh, *layers, *self._rings_phases())

    def scratch_of(self, worker: int) -> Scratch:
        """A worker's own working memory. Made before workers begin, never by them."""
        topics, most = self.profiles.topic_ids.size, int(self.table.cnt.max(initial=0))
        while len(self._scratches) <= worker:
            self._scratches.append(
                make_scratch(self.nodes, topics, most, self.config.most, self.config.rings.size, self._sets)
            )
            candidates = self._scratches[-1].peers.size
            self._indexes.append(make_index(self.nodes, topics, candidates, self.table.topics.size))
        return self._scratches[worker]

    def _refresh(self, begin: int, end: int, worker: int) -> None:
        rings.publish_coverage(self.ring_peers, self.table, self.online, self._changed, begin, end)

    def _sort_mail(self, begin: int, end: int, worker: int) -> None:
        group_requests(self._mail.partner, self._mail.start, self._mail.initiator)

    def _drop_silent(self, begin: int, end: int) -> None:
        rings.drop_silent(
            self.ring_peers, self.ring_ages, self.lost, self.near_silent, self.silence, self.cyclon.cycles,
            self.online, self.table, begin, end,
        )  # fmt: skip

    def _remove_silent(self, begin: int, end: int) -> None:
        vicinity.remove_silent(
            self.near_peers, self.near_ages, self._changed, self.ring_silent, self.silence,
            self.cyclon.cycles, self.online, begin, end,
        )  # fmt: skip

    def _vicinity_phases(self) -> tuple[Phase, ...]:
        config, mail = self.config.vicinity, self._mail

        def request(begin: int, end: int, worker: int) -> None:
            self._drop_silent(begin, end)
            vicinity.prepare_requests(
                self.near_peers, self.near_ages, self._worths, self._changed,
                self.cyclon.peers, self.cyclon.ages,
                self.ring_peers, self.ring_ages, self.silence, self.online, self.cyclon.cycles, self.seed,
                config.wanted, config.gossip_size, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.partner, self.near_silent, begin, end,
            )  # fmt: skip

        def answer(begin: int, end: int, worker: int) -> None:
            vicinity.answer_requests(
                self.near_peers, self.near_ages, self._worths, self.cyclon.peers, self.cyclon.ages,
                self.ring_peers, self.ring_ages, self.silence, self.online, self.cyclon.cycles, self.seed,
                config.wanted, config.gossip_size, self.table, self._scratches[worker], self._indexes[worker],
                mail.peers, mail.ages, mail.count, mail.start, mail.initiator, begin, end,
            )  # fmt: skip

        def merge(begin: int, end: int, worker: int) -> None:
            vicinity.merge_answers(
                self.near_peers, self.near_ages, self._worths, self.silence, self.cyclon.cycles, self.seed,
                config.wanted, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.partner, self.near_silent, begin, end,
            )  # fmt: skip

        sort = Phase("vicinity: sort mail", self._sort_mail, divisible=False)
        return (
            Phase("vicinity: request", request, requests=mail), sort,
            Phase("vicinity: answer", answer, answers=mail), Phase("vicinity: merge", merge),
        )  # fmt: skip

    def _rings_phases(self) -> tuple[Phase, ...]:
        config, mail = self.config.rings, self._mail

        def request(begin: int, end: int, worker: int) -> None:
            self._remove_silent(begin, end)
            rings.prepare_requests(
                self.ring_peers, self.ring_ages, self.near_peers, self.near_ages,
                self.cyclon.peers, self.cyclon.ages, self.silence, self.online, self.lost, self._considered,
                self.cyclon.cycles, self.seed,
                config.gossip_size, config.informed, self.table, self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.partner, self.ring_silent, begin, end,
            )  # fmt: skip

        def answer(begin: int, end: int, worker: int) -> None:
            rings.answer_requests(
                self.ring_peers, self.ring_ages, self.near_peers, self.near_ages,
                self.cyclon.peers, self.cyclon.ages, self.silence, self.online, self.cyclon.cycles, self.seed,
                config.gossip_size, config.informed, self.table, self._scratches[worker],
                self._indexes[worker], mail.peers, mail.ages, mail.count, mail.start, mail.initiator,
                begin, end,
            )  # fmt: skip

        def merge(begin: int, end: int, worker: int) -> None:
            rings.merge_answers(
                self.ring_peers, self.ring_ages, self.silence, self.cyclon.cycles, self.lost, self.table,
                self._scratches[worker],
                mail.peers, mail.ages, mail.count, mail.partner, self.ring_silent, begin, end,
            )  # fmt: skip

        sort = Phase("rings: sort mail", self._sort_mail, divisible=False)
        return (
            Phase("rings: request", request, requests=mail), sort,
            Phase("rings: answer", answer, answers=mail), Phase("rings: merge", merge),
        )  # fmt: skip

    # Dissemination: one event for every topic, on the overlay as it stands (S0 §6.1: "freezing").

    def publish(
        self,
        epoch: int,
        fanout: int | None = None,
        shortcuts: str | None = None,
        delays: Delays | None = None,
        publishers: NDArray[np.bool_] | None = None,
    ) -> Publication:
        """Publish one event on every topic, each from a random on-line subscriber. publishers: [node], or all

        ``epoch`` numbers the occasion: topic t's event is epoch × topics + t. Fan-out and shortcuts are the
        configuration's unless given. Without delays every link takes as long as any other. Let the engine
        divide the work (``publication.run(engine.divide)``), then look at the publication's ``spread``.
        """
        fanout, shortcuts = fanout or self.config.fanout, shortcuts or self.config.shortcuts
        able = self.online if publishers is None else self.online & publishers
        return Publication(self, epoch, fanout, shortcuts, delays, able)

    def second_ring(self, links: Links, forwarding: Forwarding) -> Again:
        """A ring that events travel on besides; PolderCast has none. links, forwarding: the first's"""
        return just_once(links, forwarding)

    def carriers(self) -> NDArray[np.int32]:
        """Whom a node sends a topic's events to in any case: its ring neighbours. [pool, link]"""
        half = self.config.rings.size // 2
        return self.ring_peers[:, [0, half]]
