"""PU-5: what publish/subscribe costs each node, against direct sending and flooding (S3 §5).

S3 announces the comparison and has no figures, so there is nothing to be near to. The claim is that the table
is whole, and that a system that promises to lose nothing covers all subscriptions, also where nodes come and
go. The systems are in ``candidates``. ``small`` is a few nodes and events; ``paper``
is the 100 users of the Reddit trace with a third of its events, and 500 nodes on made workloads: flooding
sends millions of messages for them, and the event engine handles one after the other.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import InputError
from vinecast.lab.claims.claim import Claim, Figure, Measured, Panel, Series, Setup
from vinecast.lab.claims.pulsarcast.candidates import CANDIDATES, AnyCandidate, is_durable
from vinecast.lab.claims.pulsarcast.runs import CHURN, REDDIT, STAY, UNIFORM, ZIPF, CostRun
from vinecast.lab.runs.run_cache import fetch
from vinecast.sim.scenario.costs import METRICS, Costs

QUANTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}  # S3 §5
HEADINGS = ("workload", "nodes", "system", "each node", "mean", *QUANTILES)
UNITS = {
    "messages": "messages",
    "bytes": "kB",
    "cpu_us": "CPU, ms",
    "memory": "memory, kB",
    "disk": "disk, kB",
    "coverage": "coverage, %",
    "coverage_online": "coverage on line, %",
}
_TITLES = {"cpu_us": "processor time", "coverage_online": "coverage on line"}
_PER_UNIT = {
    "bytes": 1e3,
    "cpu_us": 1e3,
    "memory": 1e3,
    "disk": 1e3,
    "coverage": 0.01,
    "coverage_online": 0.01,
}
COVERAGES = ("coverage", "coverage_online")
WORKLOADS = (REDDIT, UNIFORM, ZIPF)


def cost_runs(setup: Setup) -> list[CostRun]:
    """The runs of the table, row by row. Without its data the Reddit trace is left out."""
    chosen = [setup.workload] if setup.workload else list(WORKLOADS if setup.data else WORKLOADS[1:])
    for workload in chosen:
        if workload not in WORKLOADS:
            raise InputError(f"PU-5 has the workloads {', '.join(WORKLOADS)}, and not {workload}")
    return [
        CostRun(candidate.label, workload, nodes, setup.scale, setup.seed, setup.data, setup.keep)
        for workload in chosen
        for nodes in (STAY, CHURN)
        for candidate in CANDIDATES
    ]


def _stats(metric: str, values: NDArray[np.float64]) -> dict[str, float]:
    """Mean and percentiles over nodes; those that had nothing to be covered are left out.

    So many of a hundred nodes have at most that cost, and at least that coverage.
    """
    there = values[~np.isnan(values)]
    if not there.size:
        there = np.zeros(1)
    parts = [100 - part if metric in COVERAGES else part for part in QUANTILES.values()]
    found = np.percentile(there, parts).tolist()
    return {"mean": float(there.mean()), **dict(zip(QUANTILES, found, strict=True))}


def costs(setup: Setup) -> Measured:
    """PU-5."""
    rows: list[list[str]] = []
    table: list[dict[str, Any]] = []
    texts: dict[tuple[str, str], list[str]] = {}
    short: list[str] = []
    figures = []
    for run in cost_runs(setup):
        workload, condition, candidate, found = run.workload, run.nodes, run.candidate, fetch(run)
        stats = {metric: _stats(metric, found[metric]) for metric in METRICS}
        for metric in METRICS:
            where = {"workload": workload, "nodes": condition, "system": candidate.label, "metric": metric}
            table.append({**where, **stats[metric]})
            shown = [_shown(metric, value) for value in stats[metric].values()]
            rows.append([workload, condition, candidate.label, UNITS[metric], *shown])
        texts.setdefault((workload, condition), []).append(_line(candidate, stats))
        figures.append(_figure(setup, workload, condition, candidate, found))
        if is_durable(candidate) and np.nanmin(found["coverage"]) < 1.0:
            short.append(f"{candidate.label} ({workload}, nodes {condition})")
    text = "; ".join(f"{name}, nodes {how}: {', '.join(lines)}" for (name, how), lines in texts.items())
    text += "; a node's mean of messages, kB, CPU in ms, memory and disk in kB, coverage"
    if short:
        text += f"; durable, and yet not all was covered: {', '.join(short)}"
    values = {"table": {"headings": list(HEADINGS), "rows": rows}, "costs": table}
    return Measured(text, not short, values, tuple(figures))


def _shown(metric: str, value: float) -> str:
    value /= _PER_UNIT.get(metric, 1.0)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _line(candidate: AnyCandidate, stats: dict[str, dict[str, float]]) -> str:
    means = [_shown(metric, stats[metric]["mean"]) for metric in METRICS[:-1]]
    return f"{candidate.label} {' / '.join(means)} %"


def _figure(setup: Setup, workload: str, condition: str, candidate: AnyCandidate, found: Costs) -> Figure:
    """Each node's costs, sorted: what share of nodes has at most so much."""
    panels = []
    for metric in METRICS:
        there = np.sort(found[metric][~np.isnan(found[metric])]) / _PER_UNIT.get(metric, 1.0)
        share = (np.arange(there.size) + 1) / max(there.size, 1)
        series = Series(candidate.label, there.tolist(), share.tolist(), "steps")
        panels.append(
            Panel(
                _TITLES.get(metric, metric), UNITS[metric], "share of nodes with at most as much", (series,)
            )
        )
    name = f"pulsarcast-costs-{workload}-{condition.replace(' ', '-')}"
    title = f"S3 §5: costs of a node ({workload}, nodes {condition}, {setup.scale} scale)"
    return Figure(name, title, tuple(panels))


CLAIMS = (
    Claim(
        "PU-5", "costs, against direct sending and flooding", "a table; what is durable covers everything",
        "S3 §5", costs, cost_runs,
    ),
)  # fmt: skip
