"""What whole peers cost each node: as in ``costs``, of the node that runs live.

messages, bytes   frames, sent and received, as they travel, with their lengths; not what TLS adds, and no
                  handshakes
cpu               process time that ``Peer.handle`` took: machine, codecs, limits and tables, with signatures
                  that cost a hash
memory            the peer's state at the end, without the events on its disk
disk              bytes of events on its disk

A node that comes back begins anew: it has its disk, and the contacts that it is told of. The application of a
node that is durable reads its topics from the earliest on, as a consumer, and acknowledges at once.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from vinecast.core.draws import stream, unit_array
from vinecast.core.log.retention import Retention
from vinecast.core.machine import SECOND_US
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.config import PeerConfig
from vinecast.sim.measure.footprint import footprints
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld
from vinecast.sim.scenario.costs import (
    CONTACTS,
    JOIN_CONTACTS,
    METRICS,
    PAYLOAD,
    PERIOD_US,
    SPREAD,
    WARM_UP,
    CostPlan,
    Costs,
    absences,
    share,
)
from vinecast.sim.scenario.world import choose_contacts
from vinecast.sim.workload.publications import Publications
from vinecast.sim.workload.subscriptions import Subscriptions

CONSUMER = "application"
LINKS = LinkConfig(latency_ms=155.0, jitter_ms=1.0)
"""The same mean as in ``costs``."""
PERIOD_S = PERIOD_US / SECOND_US
HEADER = 4
"""Bytes before a frame that say how long it is."""


@dataclass(frozen=True, slots=True)
class PeerCandidate:
    """A live system that is compared, as whole peers."""

    label: str
    system: str
    settle: int
    """Cycles until it has settled."""
    durable: bool = False
    """Whether events are published as parts of streams: then nothing is missed in the end."""


class PeerCostRun:
    """A population under measurement: the observer of its world, and the application of all its nodes."""

    def __init__(
        self, candidate: PeerCandidate, subscriptions: Subscriptions, wrote: Publications, seed: int
    ) -> None:
        self._candidate, self._seed, self._wrote = candidate, seed, wrote
        self._subscriptions, self._readers = subscriptions, subscriptions.by_topic()
        self.nodes = nodes = subscriptions.nodes
        self.messages, self.weight, self.spent_ns = [0] * nodes, [0] * nodes, [0] * nodes
        """[node]"""
        self.due, self.online, self.got = (np.zeros((wrote.count, nodes), dtype=np.bool_) for _ in range(3))
        """[event, node]: see ``costs``"""
        self.on = False
        self._began_ns = self._numbers = 0
        self._topic_of: dict[int, str] = {}
        """Subscription → what it reads."""
        self.world = PeerWorld(seed, LINKS, self)
        config = PeerConfig(
            system=candidate.system,
            period_s=PERIOD_S,
            peers=max(64, 2 * nodes),
            topics=max(64, 4 * subscriptions.topic_count),
        )
        for _ in range(nodes):
            self.world.add(config, network="costs", disk=DiskConfig(), retention=Retention(), note_s=PERIOD_S)

    # Who watches.

    def before(self, node: SimulatedNode, what: given.PeerInput) -> None:
        """See ``Observer``."""
        if self.on and isinstance(what, given.FrameCame):
            self._weigh(node, what.data)
        self._began_ns = time.process_time_ns()

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[asked.PeerOutput]) -> None:
        """See ``Observer``."""
        self.spent_ns[node.number] += time.process_time_ns() - self._began_ns
        for output in outputs:
            match output:
                case asked.SendFrame(_, _, frame) if self.on:
                    self._weigh(node, frame)
                case asked.DeliverEvent(subscription, signed, _, position):
                    number = int.from_bytes(signed.record.payload[:8], "big")
                    if number < self._wrote.count:
                        self.got[number, node.number] = True
                    node.feed(given.EventsTaken(subscription, 1, len(signed.block)))
                    if position:
                        topic = self._topic_of[subscription]
                        node.ask(partial(_ack, subscription, topic, position))

    def failed(self, node: SimulatedNode, what: given.PeerInput, error: Exception) -> None:
        """See ``Observer``."""
        raise error

    def _weigh(self, node: SimulatedNode, frame: bytes) -> None:
        self.messages[node.number] += 1
        self.weight[node.number] += len(frame) + HEADER

    # What happens.

    def start(self) -> None:
        """Everybody comes up, at a random moment of the first cycle."""
        waits = unit_array(stream(self._seed, SPREAD, 0, 0), np.arange(self.nodes)) * PERIOD_S
        views = random_views(self._seed, self.nodes, min(CONTACTS, self.nodes - 1))
        for node, (wait_s, known) in enumerate(zip(waits.tolist(), views.tolist(), strict=True)):
            self.world.at_s(wait_s, self._begin, node, known)

    def _begin(self, node: int, known: Sequence[int]) -> None:
        """A node comes up, and its application reads."""
        self.world.start(node, known)
        for topic in self._subscriptions.of(node).tolist():
            self._numbers += 1
            self._topic_of[self._numbers] = topic_name(topic)
            self.world.nodes[node].ask(
                partial(_open, self._numbers, topic_name(topic), self._candidate.durable)
            )

    def warm_up(self, at_s: float) -> None:
        """A few events that are not measured: compiling what they take is nobody's cost."""
        start, readers = self._readers
        for topic in np.flatnonzero(np.diff(start)).tolist()[:WARM_UP]:
            self.world.at_s(at_s, self._say, int(readers[start[topic]]), topic, self._wrote.count + topic)

    def publish(self, begin_s: float, plan: CostPlan) -> None:
        """Have the workload's events published, evenly spaced."""
        for event in range(self._wrote.count):
            self.world.at_s(
                begin_s + event * plan.cycles * PERIOD_S / self._wrote.count, self._publish, event
            )

    def _publish(self, event: int) -> None:
        topic, publisher = int(self._wrote.topic[event]), int(self._wrote.publisher[event])
        if not self.world.nodes[publisher].is_up:
            return
        start, readers = self._readers
        self.due[event, readers[start[topic] : start[topic + 1]]] = True
        self.online[event] = [node.is_up for node in self.world.nodes]
        self._say(publisher, topic, event)

    def _say(self, publisher: int, topic: int, number: int) -> None:
        node = self.world.nodes[publisher]
        draft = node.draft(number.to_bytes(8, "big").ljust(PAYLOAD, b"."))
        durable = self._candidate.durable
        node.publish(lambda request: given.PublishDrafts(request, topic_name(topic), (draft,), durable))

    def churn(self, begin_s: float, plan: CostPlan) -> None:
        """Nodes come and go while events are published; then all come back."""
        for node, from_s, to_s in absences(self._seed, self.nodes, plan):
            self.world.at_s(begin_s + from_s, self.world.nodes[node].crash)
            self.world.at_s(begin_s + to_s, self._come_back, node)

    def _come_back(self, node: int) -> None:
        known = np.flatnonzero([other.is_up for other in self.world.nodes])
        at = np.array([node])
        contacts = choose_contacts(self._seed, self.world.now_us, at, known, JOIN_CONTACTS)
        self._begin(node, contacts[0].tolist())

    def found(self) -> Costs:
        """What it cost."""
        peers = [node.peer for node in self.world.nodes]
        disks = [node.disk for node in self.world.nodes]
        found = {
            "messages": self.messages,
            "bytes": self.weight,
            "cpu_us": np.array(self.spent_ns) / 1000,
            "memory": footprints(peers, disks),
            "disk": [disk.size for disk in disks],
            "coverage": share(self.due & self.got, self.due),
            "coverage_online": share(self.due & self.got & self.online, self.due & self.online),
        }
        return {name: np.asarray(found[name], dtype=np.float64) for name in METRICS}


def topic_name(topic: int) -> str:
    """What a topic of a workload is called."""
    return f"topic/{topic}"


def _open(number: int, topic: str, durable: bool, request: int) -> given.OpenSubscription:
    start, consumer = ("earliest", CONSUMER) if durable else ("now", None)
    return given.OpenSubscription(request, number, topic, start, consumer)


def _ack(subscription: int, topic: str, position: int, request: int) -> given.AckPosition:
    return given.AckPosition(request, subscription, topic, position)


def measure_peer_costs(
    candidate: PeerCandidate,
    subscriptions: Subscriptions,
    publications: Publications,
    plan: CostPlan,
    seed: int,
) -> Costs:
    """Run a workload on whole peers, and count."""
    run = PeerCostRun(candidate, subscriptions, publications, seed)
    run.start()
    begin_s = (candidate.settle + 1) * PERIOD_S
    run.warm_up(begin_s - PERIOD_S)
    run.world.run(begin_s - 1e-6)
    run.spent_ns[:] = [0] * run.nodes
    run.on = True
    if plan.churn:  # before: who leaves at the moment of the first event does not get it
        run.churn(begin_s, plan)
    run.publish(begin_s, plan)
    run.world.run(begin_s + (plan.cycles + plan.after) * PERIOD_S)
    return run.found()
