"""Points of the figures of S2 §3.6: how large networks are, which runs a point is made of, what these found.

``paper`` scale is S2's: 10,000 nodes, 5,000 topics, 50 subscriptions each. ``small`` is a network that fits a
test, with a pattern of the same kind.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vinecast.lab.claims.claim import Setup
from vinecast.lab.claims.vitis.runs import LONG_LINKS, TABLE, SubscriptionPattern, VitisRestRun
from vinecast.lab.runs.run_cache import fetch

PATTERNS = ("random", "low", "high")


@dataclass(frozen=True, slots=True, eq=False)
class NetworkAtRest:
    """What was found in a network at rest."""

    hit_ratio: float
    overhead: float
    """The unwanted share of all events received."""
    hops: float
    shares: NDArray[np.float64]
    """[node], the unwanted share of what it received"""
    degrees: NDArray[np.int64]
    """[node], how many others it is linked to"""
    before: tuple[float, float, float]
    """Hit ratio, overhead and hops at the look before the last."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scale is."""

    nodes: int
    topics: int
    subscriptions: int
    cycles: int
    """Until it is measured (ours)."""
    opt_cycles: int
    """… in OPT, which comes to rest sooner and takes longer for each."""
    graph_nodes: int
    """Nodes of a social graph."""
    friends: tuple[int, ...]
    """How many of a table of 15 are friends, in S2 Fig. 3.2."""
    tables: tuple[int, ...]
    """Sizes of routing tables, in S2 Fig. 3.4 and 3.8 (§3.6.3: "from 15 to 35")."""
    alphas: tuple[float, ...]
    """Of the rates, in S2 Fig. 3.5 (§3.6.4: from 0.3 to 3)."""


SIZES = {
    "paper": Size(10_000, 5_000, 50, 100, 40, 10_000, (0, 6, 12), (15, 25, 35), (0.3, 1.0, 3.0)),
    "small": Size(300, 500, 10, 25, 25, 200, (0, 12), (15, 35), (0.3, 3.0)),
}


def size_of(setup: Setup) -> Size:
    """How large."""
    return SIZES[setup.scale]


def crowd_of(setup: Setup, workload: str) -> SubscriptionPattern:
    """A pattern of S2 §3.6.1, or a social graph."""
    size = size_of(setup)
    if workload in PATTERNS:
        return SubscriptionPattern(workload, size.nodes, setup.seed, size.topics, size.subscriptions)
    return SubscriptionPattern(workload, size.graph_nodes, setup.seed, data=setup.data)


def vitis(setup: Setup, workload: str, friends: int = TABLE - 3, table: int = TABLE) -> VitisRestRun:
    """A network of Vitis; what is left of the table beside the ring and friends are long links."""
    return _rest(setup, "vitis", workload, table, table - 2 - friends)


def rvr(setup: Setup, workload: str, table: int = TABLE) -> VitisRestRun:
    """A network of RVR."""
    return _rest(setup, "rvr", workload, table)


def opt(setup: Setup, workload: str, table: int | None = TABLE) -> VitisRestRun:
    """A network of OPT. table: None for no bound"""
    return replace(_rest(setup, "opt", workload, TABLE), table=table, cycles=size_of(setup).opt_cycles)


def _rest(setup: Setup, system: str, workload: str, table: int, long_links: int = LONG_LINKS) -> VitisRestRun:
    crowd = crowd_of(setup, workload)
    return VitisRestRun(system, crowd, size_of(setup).cycles, table, long_links, keep=setup.keep)


def found_in(run: VitisRestRun) -> NetworkAtRest:
    """What a run found."""
    arrays = fetch(run)
    looks = arrays["looks"]
    hit_ratio, overhead, hops = looks[-1, 1:].tolist()
    before = tuple(looks[-2, 1:].tolist())
    return NetworkAtRest(hit_ratio, overhead, hops, arrays["shares"], arrays["degrees"], before)


def where(setup: Setup, workload: str) -> str:
    """The network in a few words."""
    size = size_of(setup)
    if workload in PATTERNS:
        return (
            f"{size.nodes:,} nodes, {size.subscriptions} of {size.topics:,} topics each, "
            f"after {size.cycles} cycles"
        )
    return f"{workload}, {size.graph_nodes:,} nodes, after {size.cycles} cycles, OPT {size.opt_cycles}"
