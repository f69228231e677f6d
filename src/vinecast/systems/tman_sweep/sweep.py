"""Vitis, RVR and OPT for a whole population: the same rules as the machines', on everybody's rows.

A synchronous cycle: Cyclon's, then profiles are refreshed, tables exchanged, profiles exchanged, gateways
proposed and relay paths looked up. It equals, bit for bit, machines on the event engine with synchronised
timers and one constant latency that is short against a period. There is no sequential setting.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.suspicion import make_suspicion
from vinecast.core.arrays.topic_overlap import TOPICS_MAX, Scratch
from vinecast.core.dissemination import MISSED, Dissemination
from vinecast.core.errors import Bug, InputError
from vinecast.core.exchange import exchange_phases
from vinecast.core.machine import NOBODY
from vinecast.core.sweep import Mailbox, Phase
from vinecast.protocols.cyclon.sweep import CyclonSweep
from vinecast.protocols.gateway import Basis, Proposed
from vinecast.protocols.tman.machine import MET
from vinecast.systems.opt.machine import OptConfig
from vinecast.systems.rvr.machine import RvrConfig
from vinecast.systems.tman_sweep import passes
from vinecast.systems.tman_sweep.passes import Choice, Fans, Paths, Rates, Tables, TManLayer
from vinecast.systems.vitis.machine import VitisConfig, VitisProfiles

Nodes = NDArray[np.int64]
Config = VitisConfig | RvrConfig | OptConfig


class TManSweep:
    """A population of one of the three systems, as its configuration says."""

    def __init__(self, config: Config, seed: int, profiles: Profiles) -> None:
        if profiles.cnt.size and profiles.cnt.max() > TOPICS_MAX:
            raise InputError(f"a node can subscribe to {TOPICS_MAX:,} topics at the most")
        nodes, pool, size = profiles.peers, profiles.topics.size, config.tman.table_size
        self.config = config
        self.seed = seed
        self.nodes = nodes
        self.profiles = profiles
        self.table = profiles.table
        self.shared = VitisProfiles(profiles)
        self.cyclon = CyclonSweep(config.cyclon, seed, nodes)
        self.online = self.cyclon.online
        self.tables = Tables(
            np.full((nodes, size), NOBODY, dtype=np.int32),
            np.zeros((nodes, size), dtype=np.uint16),
            np.zeros((nodes, size), dtype=np.uint8),
            self.cyclon.peers,
            self.cyclon.ages,
            np.full((nodes, size), NOBODY, dtype=np.int32),
            np.full((nodes, size), NOBODY, dtype=np.int32),
            np.full((nodes, MET), NOBODY, dtype=np.int32),
            np.zeros((nodes, MET), dtype=np.uint16),
            np.full((nodes, size), NOBODY, dtype=np.int32),
            np.zeros((nodes, size), dtype=np.uint16),
        )
        self.suspicion = make_suspicion(nodes)
        owner = profiles.owners()
        self.proposed = Proposed(owner, owner.copy(), np.zeros(pool, dtype=np.uint8))
        """What everybody will say in the next cycle."""
        self.rates = Rates(np.zeros(pool, dtype=np.int64), np.zeros(pool, dtype=np.int64))
        self.came: NDArray[np.int32] = np.zeros(nodes, dtype=np.int32)
        """[node], the cycle of its last start"""
        self.cycle = 0
        """The cycle that comes next, or is under way."""
        self.fans = self._no_fans(), self._no_fans()
        """Of the last cycle but one, and of the last."""
        self.paths = self._no_paths(), self._no_paths()
        """Likewise."""
        self.looks_up = True
        """Whether relay paths are looked up. Only events need them, those of two cycles each, so that whoever
        publishes nothing for a while can leave them out and change nothing else."""
        self._mailbox = Mailbox(nodes, config.told_max + 1)
        self._scratches: list[Scratch] = []
        self._asked_by = np.full(nodes, -1, dtype=np.int64)

    def _no_fans(self) -> Fans:
        return Fans(np.zeros(self.nodes + 2, dtype=np.int64), np.zeros(0, dtype=np.int32), -1)

    def _no_paths(self) -> Paths:
        start = np.zeros(self.profiles.topic_ids.size + 1, dtype=np.int64)
        return Paths(start, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), -1)

    @property
    def choice(self) -> Choice:
        """What makes a good neighbour."""
        weights, config = self.shared.weights, self.config
        if isinstance(config, OptConfig):
            return Choice(config.coverage, 0, weights)
        return Choice(0, config.long_links, weights)

    @property
    def floods(self) -> bool:
        """Whether events go to all neighbours that want them."""
        return not isinstance(self.config, RvrConfig)

    @property
    def views(self) -> NDArray[np.int32]:
        """Cyclon's views: what keeps the network in one piece. [node, slot]"""
        return self.cyclon.peers

    @property
    def state_bytes(self) -> int:
        """Bytes of protocol state, all nodes together, profiles included."""
        weights, said = self.shared.weights, self.shared.proposals.said
        own = (
            *self.tables[:3],
            *self.tables[5:],
            *self.suspicion,
            *self.proposed,
            *said,
            *weights,
            *self.rates,
        )
        moving = [array for part in (*self.fans, *self.paths) for array in part[:-1]]
        return self.cyclon.state_bytes + sum(array.nbytes for array in (*own, *self.table, *moving))

    @property
    def scratch_bytes(self) -> int:
        """Bytes needed besides while a cycle runs, without the working memory of each thread."""
        return self.cyclon.scratch_bytes + self._mailbox.nbytes + self._asked_by.nbytes

    def start(self, nodes: Nodes, contacts: NDArray[np.int32]) -> None:
        """Bring nodes on line; contacts go to Cyclon. contacts: [started node, contact]

        Who was silent before may be back; fans and paths are found anew.
        """
        self.cyclon.start(nodes, contacts)
        tables = self.tables
        self.suspicion.peers[nodes] = tables.met[nodes] = tables.offered[nodes] = NOBODY
        tables.told[nodes] = tables.told_before[nodes] = NOBODY
        self.came[nodes] = self.cycle

    def stop(self, nodes: Nodes) -> None:
        """Take nodes off line; they keep their state."""
        self.cyclon.stop(nodes)

    def forget_state(self, nodes: Nodes) -> None:
        """Empty all that nodes knew that will come back without their state."""
        self.cyclon.forget_state(nodes)
        self.tables.peers[nodes], self.tables.ages[nodes], self.tables.missed[nodes] = NOBODY, 0, 0
        for node in nodes.tolist():
            rows = slice(self.table.beg[node], self.table.beg[node] + self.table.cnt[node])
            self.proposed.gateway[rows] = self.proposed.parent[rows] = node
            self.proposed.hops[rows] = self.rates.rate[rows] = self.rates.seen[rows] = 0

    def sequential_cycle(self, instant: int) -> None:
        """Not offered."""
        raise InputError('there is no sequential setting here; use sweep.setting = "synchronous"')

    def synchronous_phases(self, workers: int = 1) -> tuple[Phase, ...]:
        """The passes of a cycle."""
        if self.profiles.changes:
            raise Bug("a sweep's nodes keep the topics that they begin with; use machines")
        while len(self._scratches) < workers:
            self._scratches.append(self.config.make_scratch(self.profiles))
        build: tuple[Phase, ...] = ()
        if isinstance(self.config, VitisConfig):
            build = (Phase("propose gateways", self._propose),)
        if self.looks_up and not isinstance(self.config, OptConfig):
            build = (*build, Phase("look up", self._look_up, divisible=False))
        return (
            *self.cyclon.synchronous_phases(workers),
            Phase("refresh profiles", self._refresh),
            *exchange_phases("tables: ", passes.PASSES, self._layer, self._mailbox),
            Phase("profiles: drop stale", self._drop_stale),
            Phase("profiles: introduce", self._introduce),
            *build,
            Phase("profiles: list fans", self._list_fans, divisible=False),
            Phase("profiles: hear", self._hear),
            Phase("end", self._end, divisible=False),
        )

    def _refresh(self, begin: int, end: int, worker: int) -> None:
        passes.refresh(
            self.online, self.proposed, self.shared.proposals.said, self.rates, self.shared.weights,
            self.table, begin, end,
        )  # fmt: skip

    def _layer(self, worker: int) -> TManLayer:
        return TManLayer(
            self.tables, self.choice, self.suspicion, self.online, self.cyclon.cycles, self.seed,
            self.config.tman.news_max, self.table, self._scratches[worker],
        )  # fmt: skip

    def _drop_stale(self, begin: int, end: int, worker: int) -> None:
        passes.drop_stale(self._layer(worker), self.config.tman.threshold, begin, end)

    def _introduce(self, begin: int, end: int, worker: int) -> None:
        introduces = self.config.tman.introduces and not isinstance(self.config, OptConfig)
        passes.introduce(self._layer(worker), introduces, begin, end)

    def _propose(self, begin: int, end: int, worker: int) -> None:
        assert isinstance(self.config, VitisConfig)
        basis = Basis(self.shared.proposals.said, self.shared.places, self.config.gateway_hops)
        layer = self._layer(worker)
        passes.propose_gateways(layer, basis, self.proposed, self.fans[1], self.came, begin, end)

    def _look_up(self, begin: int, end: int, worker: int) -> None:
        room = max(self.paths[1].node.size * 2, self.profiles.topics.size, 1024)
        while True:
            start = np.zeros(self.profiles.topic_ids.size + 1, dtype=np.int64)
            found = Paths(start, np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32), self.cycle)
            if passes.look_up(
                self._layer(worker), self.proposed.gateway, not self.floods, self.profiles.subscribers(),
                self.shared.places, self._asked_by, found,
            ):  # fmt: skip
                break
            room *= 2
        used = int(start[-1])
        found = found._replace(node=found.node[:used].copy(), asked=found.asked[:used].copy())
        self.paths = self.paths[1], found

    def _list_fans(self, begin: int, end: int, worker: int) -> None:
        start = np.empty(self.nodes + 2, dtype=np.int64)
        node = np.empty(self.tables.peers.size, dtype=np.int32)
        passes.list_fans(self.tables.peers, self.online, start, node)
        self.fans = self.fans[1], Fans(start, node[: int(start[-1])].copy(), self.cycle)

    def _hear(self, begin: int, end: int, worker: int) -> None:
        passes.hear_profiles(self._layer(worker), self.fans[1], begin, end)

    def _end(self, begin: int, end: int, worker: int) -> None:
        self.cycle += 1

    def degrees(self) -> NDArray[np.int64]:
        """How many others each node is linked to, by its own table or theirs. [node]"""
        one, slot = np.nonzero(self.tables.peers != NOBODY)
        other = self.tables.peers[one, slot].astype(np.int64)
        pairs = np.unique(np.concatenate([one * self.nodes + other, other * self.nodes + one]))
        return np.bincount(pairs // self.nodes, minlength=self.nodes)

    def note_events(self, dissemination: Dissemination, events: NDArray[np.int64]) -> None:
        """So many events of each topic went the way of the one that was published. events: [topic]"""
        got = np.flatnonzero(dissemination.hops != MISSED)
        self.rates.seen[got] += events[self.profiles.topics[got]]
