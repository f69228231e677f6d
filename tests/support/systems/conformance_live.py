"""The conformance suite's live population: real nodes, over memory or over TLS, driven from outside step by
step like a simulated one.

A step lets the event loop run until what it waits for has come true; between steps everything stands still.
"""

import asyncio
import hashlib
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import Any

from support.node.live import PATIENCE_S, Village, until
from support.systems.conformance import AnyTrial, Dropped, TopicSystem
from support.systems.conformance_systems import POLDERCAST, SYSTEMS
from vinecast.core.events import Publish, Subscribe, Unsubscribe
from vinecast.core.log.batch_signature import event_number
from vinecast.core.machine import NOBODY
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.peer.identity import Identity
from vinecast.peer.peer import Peer
from vinecast.peer.streams.replicas import replica_key
from vinecast.protocols.kademlia import point_of
from vinecast.protocols.order_ring import next_hop
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.common.router import ME
from vinecast.systems.vinifera.settings import ViniferaSettings
from vinecast.systems.vitis.settings import VitisSettings

UNWANTED = "refused: event on a topic that is not subscribed to"


def live_config(**rest: Any) -> NodeConfig:
    """Cycles as short as a dozen nodes in one process can keep up with."""
    return NodeConfig(period_s=0.1, **rest)


def named(topic: int) -> str:
    return f"topic/{topic}"


class LiveTrial(AnyTrial):
    """A population of live nodes; the first is the one that the others join."""

    sockets = False

    def __init__(
        self, system: TopicSystem, subscriptions: Subscriptions, seed: int, config: NodeConfig | None = None
    ) -> None:
        super().__init__(system, subscriptions, seed)
        self._runner = asyncio.Runner()
        self._village = Village(self.sockets, config or system.config)
        self._readers: dict[tuple[int, int], Subscription] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._publishing: list[Coroutine[Any, Any, None]] = []
        self._under_way: dict[int, Dropped] = {}
        """Number of an event in the machines → what to say if it is dropped."""
        self._records: list[NamedRecord] = []
        """What all nodes left in their traces."""
        self._unwanted = 0
        self._do(self._begin())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self._runner.run(work)

    async def _begin(self) -> None:
        for node, wants in enumerate(self.wants):
            key = hashlib.sha256(f"{self.seed}/{node}".encode()).digest()
            made = self._village.make(identity=Identity(key))
            made.trace_to(self._records.extend)
            self._village.nodes.append(await made.start())
            for topic in wants:
                self._read(node, topic)

    def __exit__(self, *failure: object) -> None:
        """Close the nodes and the loop."""
        self._do(self._end())
        self._runner.close()

    async def _end(self) -> None:
        for publication in self._publishing:
            publication.close()
        await asyncio.gather(*(node.close() for node in self._village.nodes))
        await asyncio.gather(*self._reading)

    # What the nodes are told.

    def command(self, node: int, event: Publish | Subscribe | Unsubscribe) -> None:
        match event:
            case Publish(topic, number):
                self._publishing.append(self._publish(node, topic, number))
            case Subscribe(topic):
                self._do(self._subscribe(node, topic))
            case Unsubscribe(topic):
                self._do(self._unsubscribe(node, topic))

    async def _subscribe(self, node: int, topic: int) -> None:
        if (node, topic) in self._readers:
            await self._village.nodes[node].subscribe(named(topic)).close()  # once more is the same
        else:
            self._read(node, topic)

    def _read(self, node: int, topic: int) -> None:
        reader = self._readers[node, topic] = self._village.nodes[node].subscribe(named(topic))

        async def note() -> None:
            async for event in reader:
                assert event.topic == named(topic)
                self.delivered[node, topic, int(event.payload)] += 1

        self._reading.add(asyncio.get_running_loop().create_task(note()))

    async def _unsubscribe(self, node: int, topic: int) -> None:
        reader = self._readers.pop((node, topic), None)
        if reader is not None:
            await reader.close()
        await self._village.nodes[node].unsubscribe(named(topic))

    async def _publish(self, node: int, topic: int, number: int) -> None:
        receipt = await self._village.nodes[node].publish(named(topic), str(number), durable=False)
        self._under_way[event_number(receipt.cid)] = Dropped(topic, number, "")

    # Letting time pass.

    def run(self, cycles: int) -> None:
        self._do(self._run(cycles))

    async def _run(self, cycles: int) -> None:
        publishing, self._publishing = self._publishing, []
        await asyncio.gather(*publishing)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not all(self._has_arrived(event) for event in self.published):
                    await self._village.nodes[0]._driver.next_cycle()
        except TimeoutError:
            pass  # whoever checks will see what is missing
        for _ in range(cycles):  # for copies and strays
            await asyncio.gather(*(node._driver.next_cycle() for node in self._village.nodes))
        for record in self._records:
            if record.kind == TraceKind.DROPPED and record.event in self._under_way:
                self.dropped.append(self._under_way.pop(record.event)._replace(reason=record.reason))

    def _has_arrived(self, event: int) -> bool:
        topic, wanted = self.published[event]
        return all(
            self.delivered[node, topic, event] or (node, topic) not in self._readers for node in wanted
        )

    def settle(self) -> None:
        self._do(until(self._is_settled, "everybody has its place, and knows it"))
        self._unwanted = self._count_unwanted()

    def recover(self) -> None:
        self.settle()

    def _is_settled(self) -> bool:
        return all(map(self._knows_the_truth, self._village.nodes)) and all(
            map(self._is_complete, self.topics)
        )

    def _knows_the_truth(self, node: Node) -> bool:
        """Whether what a node believes of those in its views is so."""
        peer_table = node._peer.peer_table
        truth = {other.id: tuple(other.topics()) for other in self._village.nodes}
        peers = node._peer.system.router.in_use() - {ME}
        return all(peer_table.topics_of(peer) == truth[peer_table.id_of(peer)] for peer in peers)

    def _is_complete(self, topic: int) -> bool:
        """Whether all subscribers of a topic have their true neighbours on its ring."""
        nodes = [self._village.nodes[n]._peer for n in self.subscribers(topic)]
        nodes.sort(key=lambda peer: peer.peer_table.me)
        if len(nodes) < 2:
            return True
        now_us = self._village.nodes[0]._driver.clock.now_us()
        around = zip(nodes, nodes[1:] + nodes[:1], nodes[-1:] + nodes[:-1], strict=True)
        for one, higher, lower in around:
            number = one.peer_table.topics.number_of(named(topic))
            row = one.machine._rows.get(number) if number is not None else None
            if row is None:
                return False
            ring = one.machine.rings.carriers(row, now_us)
            found = [
                one.peer_table.id_of(int(ring[place])) for place in (0, ring.size // 2) if ring[place] >= 0
            ]
            if found != [lower.peer_table.me, higher.peer_table.me]:
                return False
        return True

    # Judging.

    def _count_unwanted(self) -> int:
        return sum(node._peer.counters[UNWANTED] for node in self._village.nodes)

    def check_no_relays(self, events: Iterable[int]) -> None:
        """No event went to somebody who is not interested, since all had settled."""
        assert self._count_unwanted() == self._unwanted

    def check_views(self) -> None:
        for node in self._village.nodes:
            known = set(node._peer.peer_table.known())
            for view in self.system.views(node._peer.machine):
                assert ME not in view
                assert len(set(view)) == len(view)
                assert set(view) <= known


class LiveTrialOfTrees(LiveTrial):
    """A population of live nodes whose system grows trees."""

    def _is_settled(self) -> bool:
        return all(map(self._is_complete, self.topics))

    def _is_complete(self, topic: int) -> bool:
        """Whether all ways lead to the node that is nearest to a topic's key, the tree has all subscribers
        and nobody it does not need, and its links agree at both ends."""
        peers = {node.id: node._peer for node in self._village.nodes}
        point = point_of(replica_key(self._village.network, named(topic)))
        nearest = min(peers, key=lambda me: int.from_bytes(me[:8], "big") ^ point)
        ends = {me for me, one in peers.items() if one.machine.kademlia.next_hop(point) == ME}
        if ends != {nearest}:
            return False
        links, wanted = {}, {self._village.nodes[n].id for n in self.subscribers(topic)}
        for me, one in peers.items():
            number, tree = one.peer_table.topics.number_of(named(topic)), one.machine.tree
            branch = tree.branches.get(number)
            if branch is None or number in (*tree.asking, *tree.searches, *tree.stranded):
                if branch is not None or me in wanted:
                    return False
                continue
            if branch.subscribed != (me in wanted) or not (branch.subscribed or branch.children):
                return False
            above = one.peer_table.id_of(branch.parent) if branch.parent != NOBODY else b""
            links[me] = above, {one.peer_table.id_of(child) for child in branch.children}
        roots = [me for me, (above, _) in links.items() if not above]
        below = {(me, child) for me, (_, children) in links.items() for child in children}
        upward = {(above, me) for me, (above, _) in links.items() if above}
        return below == upward and roots == ([nearest] if wanted else [])


class LiveTrialOfClusters(LiveTrial):
    """A population of live nodes whose system has clusters, and paths between them."""

    def _is_complete(self, topic: int) -> bool:
        """Whether an event of any node would reach all subscribers, the way that links lead now."""
        peers = {node.id: node._peer for node in self._village.nodes}
        wanted = {self._village.nodes[n].id for n in self.subscribers(topic)}
        ways = {me: self._ways(one, topic) for me, one in peers.items()}
        for begin in peers:
            reached, waiting = {begin}, [begin]
            while waiting:
                more = ways[waiting.pop()] - reached
                reached |= more
                waiting += more
            if not wanted <= reached:
                return False
        return all(peers[me].is_ready(named(topic)) for me in wanted if len(wanted) > 1)

    def _ways(self, node: Peer, topic: int) -> set[bytes]:
        """Whom a node would tell of an event."""
        number = node.peer_table.topics.take(named(topic))
        assert number is not None
        try:
            return {node.peer_table.id_of(peer) for peer in node.machine.ways(number)}
        finally:
            node.peer_table.topics.leave(number)


class LiveTrialOfContent(LiveTrialOfClusters):
    """A population of live nodes whose system routes by content, of which topics are the simplest."""

    def _ways(self, node: Peer, topic: int) -> set[bytes]:
        """Whom a node would send an event: one on the way to the owner of its place, and who asked for it."""
        machine, number = node.machine, node.peer_table.topics.take(named(topic))
        assert number is not None
        try:
            (span,) = machine.filters.spans(number)
            up = next_hop(ME, span.low, machine.tman.peers, machine.tman.missed, machine.profiles.table)
            peers = {up, *machine.requests.askers(span.attribute, [number], span.low)} - {NOBODY}
            return {node.peer_table.id_of(peer) for peer in peers}
        finally:
            node.peer_table.topics.leave(number)


class LiveTrialOfFlooding(LiveTrialOfClusters):
    """A population of live nodes that pass everything on."""

    def _ways(self, node: Peer, topic: int) -> set[bytes]:
        """Its links."""
        return {node.peer_table.id_of(peer) for peer in node.machine.cyclon.view.tolist()}


LIVE = replace(POLDERCAST, config=live_config(), where=LiveTrial, nodes=20)
LIVE_TREES = replace(
    SYSTEMS["pulsarcast"], config=live_config(system="pulsarcast"), where=LiveTrialOfTrees, nodes=20
)
LIVE_CLUSTERS = replace(
    SYSTEMS["vitis"],
    config=NodeConfig(system="vitis", period_s=0.2, vitis=VitisSettings(table_size=8)),
    where=LiveTrialOfClusters,
    nodes=14,
)
"""Everybody tells its whole table in every cycle that it is there, so that these are longer."""
LIVE_CONTENT = replace(
    LIVE_CLUSTERS,
    config=NodeConfig(system="vinifera", period_s=0.2, vinifera=ViniferaSettings(table_size=8)),
    where=LiveTrialOfContent,
    reason_alone="nobody asked",
)
LIVE_SYSTEMS = {
    "live": LIVE,
    "live-pulsarcast": LIVE_TREES,
    "live-vitis": LIVE_CLUSTERS,
    "live-vinifera": LIVE_CONTENT,
    "live-flooding": replace(
        SYSTEMS["flooding-relays"], config=live_config(system="flooding"), where=LiveTrialOfFlooding, nodes=20
    ),
}
"""Every system that a live node can run. A further one: its own way to tell that it has settled."""


def over_tls(system: TopicSystem) -> TopicSystem:
    """The same over real sockets."""
    assert system.where is not None
    return replace(system, where=type(f"{system.where.__name__}OverTls", (system.where,), {"sockets": True}))
