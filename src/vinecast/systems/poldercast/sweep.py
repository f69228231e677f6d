"""PolderCast for a whole population: the layers' sweeps, one after the other, and dissemination.

A synchronous cycle is Cyclon's, then everybody refreshes its profile, then Vicinity's, then Rings'. It
equals, bit for bit, machines on the event engine with synchronised timers and one constant latency below a
sixth of the period. There is no sequential setting: nothing we measure needs one.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bitsets import make_sets
from vinecast.core.arrays.index import Index, make_index
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.suspicion import make_suspicion
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, Scratch, make_scratch
from vinecast.core.arrays.view import View
from vinecast.core.errors import Bug, InputError
from vinecast.core.exchange import exchange_phases
from vinecast.core.machine import NOBODY
from vinecast.core.sweep import Mailbox, Phase
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.protocols.ringcast.sweep import Again, Forwarding, RingLinks, just_once
from vinecast.protocols.rings import sweep as rings
from vinecast.protocols.vicinity import sweep as vicinity
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.events import Delays, EventMemory, RingPublication

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
        self.suspicion = make_suspicion(nodes)
        self._worths = np.zeros(self.near_peers.shape, dtype=np.uint64)
        self._changed = np.ones(nodes, dtype=np.bool_)
        self._considered = np.full_like(self.near_peers, NOBODY)
        self._mail = Mailbox(nodes, max(config.vicinity.gossip_size, config.rings.gossip_size))
        subscribers = profiles.subscribers()
        self._sets = make_sets(subscribers.start, subscribers.node, nodes)
        self._scratches: list[Scratch] = []
        self._indexes: list[Index] = []
        self.room = EventMemory()

    @property
    def views(self) -> NDArray[np.int32]:
        """Cyclon's views: what keeps the network in one piece. [node, slot]"""
        return self.cyclon.peers

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together, profiles included."""
        arrays = (self.near_peers, self.near_ages, self.ring_peers, self.ring_ages, self.lost)
        silent = (self.near_silent, self.ring_silent, self._considered, *self.suspicion)
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
        self.suspicion.peers[nodes] = NOBODY

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

    def _vicinity(self, worker: int) -> vicinity.VicinityLayer:
        config, scratch = self.config.vicinity, self.scratch_of(worker)
        return vicinity.VicinityLayer(
            View(self.near_peers, self.near_ages), self._worths, self._changed, self.cyclon.view,
            View(self.ring_peers, self.ring_ages), self.suspicion, self.near_silent, self.online,
            self.cyclon.cycles, self.seed, config.wanted, config.gossip_size, self.table, scratch,
            self._indexes[worker],
        )  # fmt: skip

    def _rings(self, worker: int) -> rings.RingsLayer:
        config, scratch = self.config.rings, self.scratch_of(worker)
        return rings.RingsLayer(
            View(self.ring_peers, self.ring_ages), View(self.near_peers, self.near_ages), self.cyclon.view,
            self._considered, self.lost, self.suspicion, self.ring_silent, self.online, self.cyclon.cycles,
            self.seed, config.gossip_size, config.informed, self.table, scratch, self._indexes[worker],
        )  # fmt: skip

    def _drop_silent(self, begin: int, end: int, worker: int = 0) -> None:
        rings.drop_silent(self._rings(worker), self.near_silent, begin, end)

    def _remove_silent(self, begin: int, end: int, worker: int = 0) -> None:
        vicinity.remove_silent(self._vicinity(worker), self.ring_silent, begin, end)

    def _vicinity_phases(self) -> tuple[Phase, ...]:
        layer, passes = self._vicinity, vicinity.PASSES
        return exchange_phases("vicinity: ", passes, layer, self._mail, before=self._drop_silent)

    def _rings_phases(self) -> tuple[Phase, ...]:
        layer, passes = self._rings, rings.PASSES
        return exchange_phases("rings: ", passes, layer, self._mail, before=self._remove_silent)

    # Dissemination: one event for every topic, on the overlay as it stands (S0 §6.1: "freezing").

    def publish(
        self,
        epoch: int,
        fanout: int | None = None,
        shortcuts: str | None = None,
        delays: Delays | None = None,
        publishers: NDArray[np.bool_] | None = None,
    ) -> RingPublication:
        """Publish one event on every topic, each from a random on-line subscriber. publishers: [node], or all

        ``epoch`` numbers the occasion: topic t's event is epoch × topics + t. Fan-out and shortcuts are the
        configuration's unless given. Without delays every link takes as long as any other. Let the engine
        divide the work (``publication.run(engine.divide)``), then look at the publication's
        ``dissemination``.
        """
        fanout, shortcuts = fanout or self.config.fanout, shortcuts or self.config.shortcuts
        able = self.online if publishers is None else self.online & publishers
        return RingPublication(self, epoch, fanout, shortcuts, delays, able)

    def second_ring(self, links: RingLinks, forwarding: Forwarding) -> Again:
        """A ring that events travel on besides; PolderCast has none. links, forwarding: the first's"""
        return just_once(links, forwarding)

    def carriers(self) -> NDArray[np.int32]:
        """Whom a node sends a topic's events to in any case: its ring neighbours. [pool, link]"""
        half = self.config.rings.size // 2
        return self.ring_peers[:, [0, half]]

    def degrees(self) -> NDArray[np.int64]:
        """How many distinct peers each node has as nearest ring neighbours. [node]"""
        half = self.config.rings.size // 2
        owner = self.profiles.owners()
        peers = np.concatenate([self.ring_peers[:, 0], self.ring_peers[:, half]]).astype(np.int64)
        node = np.concatenate([owner, owner]).astype(np.int64)
        links = np.unique((node * self.nodes + peers)[(peers != NOBODY) & (node != NOBODY)])
        return np.bincount(links // self.nodes, minlength=self.nodes)
