"""Durable streams over every live system, on whole peers, where nothing goes wrong."""

from typing import Any

import pytest

from vinecast.lab.campaign.fault_plans import HOLDERS, FaultSize, calm
from vinecast.lab.campaign.fault_runs import WATCH, stream_of, unequal_streams
from vinecast.lab.campaign.run import PlanRun
from vinecast.peer import outputs as asked
from vinecast.peer.streams.replicas import replica_key
from vinecast.protocols.kademlia import Operation
from vinecast.sim.peers.node import SimulatedNode
from vinecast.systems.registry import LIVE_SYSTEMS

SIZE = FaultSize(nodes=12, topics=3, events=24)


class Hops:
    """Notes how many links events travelled that readers are handed."""

    def __init__(self, run: PlanRun) -> None:
        self.seen: list[int] = []
        self._after = run.people.after
        run.people.after = self.after  # type: ignore[method-assign]

    def after(self, node: SimulatedNode, what: Any, outputs: list[asked.PeerOutput]) -> None:
        self._after(node, what, outputs)
        self.seen += [output.hops for output in outputs if isinstance(output, asked.DeliverEvent)]


@pytest.mark.parametrize("system", LIVE_SYSTEMS)
def test_everybody_gets_every_event_once_along_the_carrier(system: str) -> None:
    run = PlanRun(calm(SIZE, 5, system), watch=WATCH)
    hops = Hops(run)
    outcome, truth = run.run(), run.truth()
    assert outcome.judgement.faults == []
    assert unequal_streams(truth) == []
    assert outcome.level_s is not None
    assert outcome.level_s <= run.plan.quiet_s + 2 * WATCH.look_s
    assert outcome.judgement.figures["acknowledged"] == SIZE.events
    assert all(facts.on_disk >= HOLDERS - 1 for facts in outcome.history.receipts)
    assert sum(hop >= 0 for hop in hops.seen) > 0.9 * len(hops.seen)
    for topic in {event.topic for event in truth.event_of.values()}:
        key = replica_key("campaign", topic)
        provide = {node.number for node in truth.there if _provides(node, key)}
        assert provide
        assert all(stream_of(truth.world.nodes[node], topic) for node in provide)


def _provides(node: SimulatedNode, key: bytes) -> bool:
    """Whether a node lets others know that it has a stream."""
    assert node.peer is not None
    table = node.peer.streams.replicas.table
    return table is not None and (Operation.PROVIDE, key) in table.own
