"""The systems that PU-5 compares: one more is one more row of ``CANDIDATES``."""

from typing import Any

from vinecast.sim.scenario.costs import Candidate, CostPlan, Costs, measure_costs
from vinecast.sim.scenario.peer_costs import PeerCandidate, measure_peer_costs
from vinecast.sim.workload.publications import Publications
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.direct.machine import DirectConfig
from vinecast.systems.flooding.machine import FloodingConfig

AnyCandidate = Candidate | PeerCandidate


def _links(machine: Any) -> list[int]:
    links: list[int] = machine.cyclon.view.tolist()
    return links


CANDIDATES: tuple[AnyCandidate, ...] = (
    Candidate("direct", "direct", DirectConfig(), 1, lambda machine: range(machine.profiles.peers)),
    Candidate("flooding", "flooding", FloodingConfig(), 10, _links),
    PeerCandidate("flooding with relays", "flooding", 10),
    PeerCandidate("PolderCast", "poldercast", 20),
    PeerCandidate("PulsarCast's tree", "pulsarcast", 10),
    PeerCandidate("PolderCast, durable", "poldercast", 20, durable=True),
    PeerCandidate("PulsarCast, durable", "pulsarcast", 10, durable=True),
)
"""With the cycles that each takes to settle. Direct sending, and floodsub's way of flooding, do not run live:
they are machines; all others are whole peers."""


def is_durable(candidate: AnyCandidate) -> bool:
    """Whether it promises that nothing is missed in the end."""
    return isinstance(candidate, PeerCandidate) and candidate.durable


def measure(
    candidate: AnyCandidate, read: Subscriptions, wrote: Publications, plan: CostPlan, seed: int
) -> Costs:
    """Run a workload on a system, and count."""
    if isinstance(candidate, PeerCandidate):
        return measure_peer_costs(candidate, read, wrote, plan, seed)
    return measure_costs(candidate, read, wrote, plan, seed)
