"""What Cyclon must show, from S4 §2.4.1 and S0 §5.3–5.4 (after Cyclon's own paper), in numbers of ours.

The documents say that Cyclon gives a connected, random-like graph, survives large failures and absorbs
newcomers within a few dozen cycles; the thresholds here make that checkable.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.lab.claims.claim import Claim, Measured, Setup
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.sim.measure.overlay import measure, random_views
from vinecast.sim.scenario.run import RunOutcome, simulate
from vinecast.sim.scenario.scenario import resolve

VIEW = CyclonConfig().view_size
CONVERGED = 60  # ours: S4 §2.4.1 says 30–40 cycles; a margin on top
MATRIX = "planetlab-490-rtt-ms.txt.gz"
STD_LIMIT = 2.0
LIKE_RANDOM = 0.05


def _nodes(setup: Setup, small: int = 4000, paper: int = 10_000) -> int:
    """How many nodes. Below some thousands the bound on the spread cannot hold: of the ten entries that a
    node receives, 10 × 20 / nodes are known to it already, and each of those costs somebody a link."""
    return small if setup.scale == "small" else paper


def _run(setup: Setup, **tables: Any) -> RunOutcome:
    scenario: Mapping[str, Any] = {"name": "claim", "seed": setup.seed, **tables}
    return simulate(resolve(scenario, Path()), threads=setup.threads, data=setup.data)


def _found(text: str, holds: bool, **values: Any) -> Measured:
    return Measured(text, holds, values)


def _connected(yes: bool) -> str:
    return "connected" if yes else "NOT connected"


def _degree(setup: Setup, setting: str) -> Measured:
    outcome = _run(setup, nodes=_nodes(setup), cycles=CONVERGED, sweep={"setting": setting})
    return _judge_degree(outcome, f"{setting}, {_nodes(setup):,} nodes")


def _judge_degree(outcome: RunOutcome, where: str) -> Measured:
    final = outcome.summary["final"]
    mean, std = final["in_degree_mean"], final["in_degree_std"]
    holds = abs(mean - VIEW) <= 0.01 * VIEW and std <= STD_LIMIT
    random = final["out_degree_mean"] ** 0.5
    text = f"mean {mean:.2f}, std {std:.2f} ({where}; a random graph: {random:.1f})"
    return _found(text, holds, mean=mean, std=std, random_std=random)


def degree_sequential(setup: Setup) -> Measured:
    """CY-1."""
    return _degree(setup, "sequential")


def degree_synchronous(setup: Setup) -> Measured:
    """CY-2."""
    return _degree(setup, "synchronous")


def degree_live(setup: Setup) -> Measured:
    """CY-3: what a live network has: timers that nobody synchronises, and real latencies."""
    real = setup.data is not None and (setup.data / MATRIX).is_file()
    network: dict[str, Any] = {"latency": "sampled", "latency_ms": 5.0, "latency_ms_max": 150.0}
    if real:
        network = {"latency": "matrix", "matrix": MATRIX}
    nodes = _nodes(setup, small=3000, paper=5000)
    outcome = _run(
        setup, engine="event", nodes=nodes, cycles=CONVERGED, network=network, measure={"every": CONVERGED},
        event={"records": False},
    )  # fmt: skip
    latencies = "PlanetLab latencies" if real else "latencies of 5–150 ms"
    return _judge_degree(outcome, f"event engine, {nodes:,} nodes, 60 s periods, {latencies}")


def like_random(setup: Setup) -> Measured:
    """CY-4: both figures are averaged over several moments and several random graphs, to tame the noise."""
    nodes, moments = _nodes(setup), 4
    cycles = CONVERGED + moments * VIEW
    what = {"every": VIEW, "clustering_sample": nodes, "path_sources": 64}
    outcome = _run(setup, nodes=nodes, cycles=cycles, measure=what)
    rows = outcome.rows[-moments:]
    everyone = np.ones(nodes, dtype=np.bool_)
    random = [
        measure(
            random_views(setup.seed + i, nodes, VIEW),
            everyone,
            seed=i,
            clustering_sample=nodes,
            path_sources=64,
        )
        for i in range(moments)
    ]
    clustering = sum(row["clustering"] for row in rows) / sum(stats.clustering or 0.0 for stats in random)
    path = sum(row["path_length"] for row in rows) / sum(stats.path_length or 0.0 for stats in random)
    holds = abs(clustering - 1) <= LIKE_RANDOM and abs(path - 1) <= LIKE_RANDOM
    text = (
        f"clustering {clustering - 1:+.1%}, path length {path - 1:+.2%} against random graphs "
        f"({nodes:,} nodes, path {rows[-1]['path_length']:.3f} hops)"
    )
    return _found(text, holds, clustering_ratio=clustering, path_ratio=path)


def half_removed(setup: Setup) -> Measured:
    """CY-5: over several seeds and both settings, since the very last dead link is a matter of luck."""
    nodes, limit, seeds = _nodes(setup), 2 * VIEW, 3 if setup.scale == "small" else 7
    took: dict[str, list[int]] = {"sequential": [], "synchronous": []}
    connected = True
    for setting, cycles in took.items():
        for seed in range(setup.seed, setup.seed + seeds):
            outcome = _run(
                setup, seed=seed, nodes=nodes, cycles=CONVERGED + 2 * limit, sweep={"setting": setting},
                faults=[{"at_cycle": CONVERGED, "kind": "crash", "share": 0.5}],
            )  # fmt: skip
            after = outcome.rows[CONVERGED:]
            cycles.append(next((i + 1 for i, row in enumerate(after) if not row["dead_links"]), len(after)))
            connected &= outcome.summary["connected_throughout"]
    holds = connected and all(sorted(cycles)[seeds // 2] <= limit for cycles in took.values())
    figures = ", ".join(
        f"{setting} median {sorted(cycles)[seeds // 2]} ({min(cycles)}–{max(cycles)})"
        for setting, cycles in took.items()
    )
    text = f"{_connected(connected)}; cycles until no dead link: {figures} ({nodes:,} nodes, {seeds} seeds)"
    return _found(text, holds, cycles=took, connected=connected)


def flash_crowd(setup: Setup) -> Measured:
    """CY-6: absorbed when views are full and the in-degree is as even as it was before."""
    nodes = _nodes(setup)
    fault = {"at_cycle": CONVERGED, "kind": "join", "count": nodes}
    outcome = _run(setup, nodes=nodes, cycles=CONVERGED + 80, faults=[fault])
    after = outcome.rows[CONVERGED:]
    bad = [
        row["cycle"]
        for row in after
        if row["in_degree_std"] > STD_LIMIT or row["in_degree_mean"] < 0.99 * VIEW
    ]
    took = (bad[-1] - CONVERGED + 2) if bad else 1
    connected = bool(outcome.summary["connected_throughout"])
    text = f"{_connected(connected)}; absorbed after {took} cycles ({nodes:,} joined {nodes:,})"
    return _found(text, connected and took <= 40, cycles=took, connected=connected)


_SOURCE = "S4 §2.4.1, S0 §5.3"

CLAIMS = (
    Claim("CY-1", "in-degree, atomic exchanges", "mean 20, std ≤ 2", _SOURCE, degree_sequential),
    Claim("CY-2", "in-degree, synchronous exchanges", "mean 20, std ≤ 2", _SOURCE, degree_synchronous),
    Claim("CY-3", "in-degree, free timers, real latencies", "mean 20, std ≤ 2", _SOURCE, degree_live),
    Claim(
        "CY-4", "a random-like graph", "clustering and path length within 5 % of random", _SOURCE, like_random
    ),
    Claim(
        "CY-5",
        "half of the nodes vanish",
        "rest connected, dead links gone within 40 cycles",
        _SOURCE,
        half_removed,
    ),
    Claim("CY-6", "a flash crowd doubles the network", "absorbed within 40 cycles", _SOURCE, flash_crowd),
)
