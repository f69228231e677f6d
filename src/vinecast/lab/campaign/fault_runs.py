"""Runs under one kind of faults, and what S3's claims ask of them.

A run ends when all readers that are there have what is due to them and all publishers were answered, or when
its time is up. Then the promises are judged (``judges``); besides, whoever reads a stream to its end must
have the same events in the same order as all others, and among them all that was acknowledged.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from vinecast.lab.campaign.fault_plans import FAULT_PLANS, HOLDERS, FaultSize
from vinecast.lab.campaign.plan import ReadStep, StrikeStep
from vinecast.lab.campaign.promises import Truth
from vinecast.lab.campaign.run import PlanRun, Watch
from vinecast.sim.peers.node import SimulatedNode

WATCH = Watch(rest_s=0.0, look_s=0.25, patience_s=900.0)
"""Convergence is measured; where frames are lost it can take long."""
BESIDES = ("D5: acknowledged and handed again", "D1: counts liars")
"""What is known to be broken (``known``) and is not what these claims are about: it is told beside."""


@dataclass(slots=True)
class FaultOutcome:
    """What became of a run."""

    seed: int
    system: str
    faults: list[str] = field(default_factory=list)
    """Promises that were broken, by name and in words."""
    besides: dict[str, int] = field(default_factory=dict)
    """How often those were that are known (``BESIDES``)."""
    converged_s: float = 0.0
    """Seconds from the last step of the plan until all readers had what was due to them."""
    published: int = 0
    acknowledged: int = 0
    """Events that as many other nodes held as there are replicas, as their publishers were told."""
    counters: dict[str, int] = field(default_factory=dict)
    """What honest nodes counted that are there in the end."""


def run_faults(kind: str, size: FaultSize, seed: int, system: str) -> FaultOutcome:
    """One run."""
    plan = FAULT_PLANS[kind](size, seed, system)
    run = PlanRun(plan, watch=WATCH)
    outcome = run.run()
    events = list(outcome.history.by_payload.values())
    truth = run.truth()
    found = outcome.judgement
    faults = [f"{fault.name}: {fault.text}" for fault in found.faults if fault.name not in BESIDES]
    faults += unequal_streams(truth)
    if plan.of(StrikeStep) and not run.struck:
        faults.append("no event was acknowledged by as many nodes as there are replicas")
    ended_s = run.world.now_s if outcome.level_s is None else outcome.level_s
    return FaultOutcome(
        seed,
        system,
        faults,
        {name: count for name, count in sorted(found.counts.items()) if name in BESIDES},
        max(0.0, ended_s - plan.quiet_s),
        len(events),
        sum(event.holders >= HOLDERS for event in events),
        _counted(truth.there),
    )


def unequal_streams(truth: Truth) -> list[str]:
    """Where readers from the earliest on do not have the same stream, or lack what was acknowledged. What
    liars publish does not count: they do as long as the run lasts, so some of that is always under way."""
    found, genuine = [], truth.event_of
    for topic in sorted({read.topic for read in truth.plan.of(ReadStep)}):
        readers = {
            opening.read.node
            for opening in truth.openings()
            if opening.read.topic == topic and opening.read.start == "earliest"
        }
        streams = {
            node: [cid for cid in stream_of(truth.world.nodes[node], topic) if cid in genuine]
            for node in sorted(readers)
        }
        for (one, first), (other, second) in zip(streams.items(), [*streams.items()][1:], strict=False):
            if first != second:
                found.append(f"nodes {one} and {other} differ in {topic}")
        acknowledged = {
            facts.event.cid
            for facts in truth.history.receipts
            if facts.event.topic == topic and facts.event.holders >= HOLDERS
        }
        found += [
            f"node {node} lacks acknowledged events of {topic}"
            for node, stream in streams.items()
            if not acknowledged.issubset(stream)
        ]
    return found


def stream_of(node: SimulatedNode, topic: str) -> list[bytes]:
    """All that a node keeps of a topic, in the order that all nodes share."""
    return [keeping.signed.cid for keeping in node.disk.in_order(topic, (0, b""), 1 << 30)]


def _counted(nodes: Iterable[SimulatedNode]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for node in nodes:
        if node.peer is not None:
            total.update(node.peer.counters)
    return dict(sorted(total.items()))


def convergence(outcomes: Iterable[FaultOutcome]) -> dict[str, float]:
    """Times to converge, in seconds."""
    times = np.array([outcome.converged_s for outcome in outcomes])
    return {
        "median_s": float(np.median(times)),
        "p95_s": float(np.quantile(times, 0.95)),
        "max_s": float(times.max()),
    }
