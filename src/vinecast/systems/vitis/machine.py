"""Vitis (S2 ch. 3): topics on a bounded number of links.

    Cyclon        uniformly random peers                                      (who feeds T-Man)
    T-Man         a table: ring, long links, and friends who share topics     (who is linked to whom)
    gateways      who of a topic's cluster speaks for it                      (one in a cluster, or a few)
    relay paths   from gateways to the topic's rendezvous                     (who connects the clusters)

A cluster is what the friends that share a topic happen to form; an event floods it, and goes along relay
paths to the others. A node's table has the same size whatever it subscribes to; the price is that nodes on
relay paths carry events that they did not ask for. How much each friend is worth depends on how much is
published on the topics they share (formula 3.1), as far as nodes can tell from what they see.

Links serve both ways: a node counts those who hold it in their tables as neighbours too. S2 speaks of
connected subgraphs; were links one-way, a node could propose a gateway that does not reach it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles, row_of
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather
from vinecast.core.arrays.view import Ages, Peers
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.events import Effect, Event, PeerLost, Received
from vinecast.core.machine import NOBODY
from vinecast.protocols.gateway import Basis, Proposals, Proposed, propose
from vinecast.protocols.gateway.proposals import propose_oneself
from vinecast.protocols.relay_path import RelayPaths, RelayRequest
from vinecast.protocols.small_world import LinkChoice, meet, next_hop, topic_places
from vinecast.systems.common.notices_base import NoticesBase, NoticesBaseConfig
from vinecast.systems.common.tman_base import Topics
from vinecast.systems.vitis.rules import UNSEEN, WEIGHT_MAX, Weights, estimate_rates, select_neighbours

Places = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class VitisConfig(NoticesBaseConfig):
    """How the table is divided, and how far a gateway speaks for others."""

    long_links: int = limited(1, at_least=0, at_most=998)
    """Links at random distances, besides the two of the ring; the others are friends (S2 §3.6.2: one; S2's
    k = 3 counts the ring too)."""
    gateway_hops: int = limited(5, at_least=1, at_most=64)
    """A gateway speaks for nodes so many hops away, at the most (S2 §3.6.1: d = 5)."""

    def __post_init__(self) -> None:
        check(self)
        NoticesBaseConfig.__post_init__(self)
        if self.long_links + 2 > self.tman.table_size:
            raise InputError(
                f"long_links + 2 must be at most tman.table_size ({self.tman.table_size}), not "
                f"{self.long_links + 2}"
            )


class VitisProfiles:
    """What profiles say besides topics, and where topics are: one a table of profiles."""

    def __init__(self, profiles: Profiles, places: Places | None = None) -> None:
        """places: where topics are on the circle; simulated unless given. [topic]"""
        self._profiles = profiles
        self.places = topic_places(profiles) if places is None else places
        self.proposals = Proposals(profiles)
        weight = np.full(profiles.topics.size, UNSEEN, dtype=np.uint32)
        self._weights = Weights(weight, profiles.cnt.astype(np.uint64) * np.uint64(UNSEEN))

    @property
    def weights(self) -> Weights:
        """Of all topics; taken anew after anybody's topics have changed."""
        more = self._profiles.topics.size - self._weights.weight.size
        if more > 0:
            weight = np.concatenate([self._weights.weight, np.full(more, UNSEEN, dtype=np.uint32)])
            self._weights = Weights(weight, self._weights.total)
        return self._weights

    def reset(self, peer: int) -> None:
        """A peer's topics are others now: until it speaks it proposes itself, and all of them weigh the
        same."""
        topics = int(self._profiles.cnt[peer])
        self.proposals.say(peer, propose_oneself(peer, topics))
        self.weights.total[peer] = topics * UNSEEN


class Rendezvous(NoticesBase):
    """Small-world tables and relay paths: what Vitis and RVR share."""

    def __init__(
        self,
        name: str,
        config: NoticesBaseConfig,
        long_links: int,
        seed: int,
        me: int,
        profiles: Profiles,
        scratch: Scratch,
        shared: VitisProfiles,
    ) -> None:
        self.shared = shared
        self._long_links = long_links
        self._table_size = config.tman.table_size
        self.relays = RelayPaths(self._next_hop)
        super().__init__(name, config, seed, me, profiles, scratch)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, RelayRequest() as request):
                self._routes.clear()
                return self.relays.hear(sender, request, self.profiles.topic_ids.size)
            case PeerLost(peer):
                self.relays.forget(peer)
        return super().handle(event, now_us)

    def ways(self, topic: int) -> list[int]:
        """Whom an event of a topic would be told to, by whoever has it here."""
        links = self._route(topic)
        if links or self.subscribes(topic):
            return links
        return [peer for peer in [self._next_hop(topic)] if peer != NOBODY]

    def links(self, topic: int) -> list[int]:
        """Along whom the events of a topic go; nobody where it has nothing to do with it."""
        return self._route(topic)

    def is_alone(self, topic: int) -> bool:
        """Whether it knows nobody else that has to do with a topic; whom it asked for a path does not
        count."""
        known = {*self.neighbours(), *self.cyclon.view.tolist()}
        if any(row_of(self.profiles.table, peer, topic) >= 0 for peer in known):
            return False
        return set(self.relays.links(topic)) <= {self._next_hop(topic)}

    def peers_in_use(self) -> set[int]:
        return super().peers_in_use() | self.relays.peers()

    def _select(self, count: int) -> int:
        choice = LinkChoice(self.me, self.seed, self._long_links)
        table, weights = self.profiles.table, self.shared.weights
        return select_neighbours(choice, count, self._table_size, table, weights, self._scratch)

    def _meet(self, who: int, peers: Peers, ages: Ages, met: Peers, met_ages: Ages) -> None:
        """The nearest on either side, for the ring."""
        meet(who, peers, ages, self.profiles.table, met, met_ages)

    def _next_hop(self, topic: int) -> int:
        return next_hop(self.me, int(self.shared.places[topic]), self.tman.peers, self.profiles.table)

    def _start(self) -> None:
        self.relays.clear()


class Vitis(Rendezvous):
    """The machine. ``profiles`` and ``shared`` are the table of peers, ``scratch`` working memory that
    machines may share."""

    def __init__(
        self,
        config: VitisConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        scratch: Scratch,
        shared: VitisProfiles,
    ) -> None:
        super().__init__("vitis", config, config.long_links, seed, me, profiles, scratch, shared)
        self.config = config
        topics = int(profiles.cnt[me])
        self.proposed: Proposed = propose_oneself(me, topics)
        """For each of its topics, in order: what it will say in the next cycle."""
        self._rate: NDArray[np.int64] = np.zeros(topics, dtype=np.int64)
        self._seen: NDArray[np.int64] = np.zeros(topics, dtype=np.int64)

    def parent_of(self, topic: int) -> int:
        """Of whom it has its gateway of a topic; NOBODY where it is its own, or does not subscribe."""
        row = self._row(topic)
        parent = int(self.proposed.parent[row]) if row >= 0 else self.me
        return parent if parent != self.me else NOBODY

    def proposed_peers(self) -> set[int]:
        """Whom it proposes, and who its neighbours do."""
        said, profiles = self.shared.proposals.said, self.profiles
        found = {*self.proposed.gateway.tolist(), *self.proposed.parent.tolist()}
        for peer in [self.me, *self.neighbours()]:
            rows = slice(int(profiles.beg[peer]), int(profiles.beg[peer]) + int(profiles.cnt[peer]))
            found.update(said.gateway[rows].tolist(), said.parent[rows].tolist())
        return found

    def _row(self, topic: int) -> int:
        """Where a topic stands among its own, or −1."""
        row = row_of(self.profiles.table, self.me, topic)
        return row - int(self.profiles.beg[self.me]) if row >= 0 else -1

    def _links(self, topic: int) -> list[int]:
        """Interested neighbours and whoever is on a relay path with it (S2 §3.4)."""
        interested = self.interested(topic)
        known = set(interested)
        return interested + [peer for peer in self.relays.links(topic) if peer not in known]

    def _note_event(self, topic: int) -> None:
        self._seen[self._row(topic)] += 1

    def _refresh(self) -> None:
        self.shared.proposals.say(self.me, self.proposed)
        begin, weights = int(self.profiles.beg[self.me]), self.shared.weights
        own = weights.weight[begin : begin + self._rate.size]
        weights.total[self.me] = estimate_rates(self._rate, self._seen, own, 0, self._rate.size)

    def _build(self) -> list[Effect]:
        """Algorithm 5, and the lookups of whoever is a gateway."""
        scratch, table = self._scratch, self.profiles.table
        count = begin_gathering(scratch)
        scratch.seen[self.me] = scratch.stamp[0]
        near = np.array(self.neighbours(), dtype=np.int32)
        count = gather(scratch, count, near, np.zeros(near.size, dtype=np.uint16))
        basis = Basis(self.shared.proposals.said, self.shared.places, self.config.gateway_hops)
        propose(self.me, count, basis, table, scratch, self.proposed, 0)
        self.relays.turn()
        own = self.profiles.topics_of(self.me)
        return self.relays.ask(own[self.proposed.gateway == self.me].tolist())

    def _change_topics(self, before: Topics, after: Topics) -> None:
        """What stays keeps its proposal and its rate; a new topic begins with itself and with none."""
        _, old, new = np.intersect1d(before, after, assume_unique=True, return_indices=True)
        proposed, known = propose_oneself(self.me, after.size), self.proposed
        proposed.gateway[new], proposed.parent[new] = known.gateway[old], known.parent[old]
        proposed.hops[new] = known.hops[old]
        rate, seen = np.zeros(after.size, dtype=np.int64), np.zeros(after.size, dtype=np.int64)
        rate[new], seen[new] = self._rate[old], self._seen[old]
        self.proposed, self._rate, self._seen = proposed, rate, seen
        self.shared.proposals.say(self.me, proposed)
        begin, weights = int(self.profiles.beg[self.me]), self.shared.weights
        own = np.clip(rate, UNSEEN, WEIGHT_MAX)
        weights.weight[begin : begin + after.size], weights.total[self.me] = own, own.sum()


def vitis_machines(config: VitisConfig, seed: int, profiles: Profiles) -> Callable[[int], Vitis]:
    """Who makes the machine of each node of a simulated population."""
    scratch, shared = config.make_scratch(profiles), VitisProfiles(profiles)
    return lambda node: Vitis(config, seed, node, profiles, scratch, shared)
