"""The claims of S1 §4 about Quasar: coverage, hops, false positives; and what polling adds.

Every one is measured with Algorithm 2 as it stands, in which a member sends a copy to every neighbour, and
with FEW copies, S1's "branching factor", which it does not name: with four we find the coverage that S1
prints.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from vinecast.lab.claims.claim import Claim, Figure, Measured, Panel, ReferenceLine, Series, Setup
from vinecast.lab.claims.quasar.beyond import BEYOND
from vinecast.lab.claims.quasar.points import (
    ALL,
    COVERAGE,
    FEW,
    GROUP_NAMES,
    NAMES,
    SIZES,
    SPREAD,
    Point,
    plays_at,
    point_at,
    point_of,
)
from vinecast.lab.claims.quasar.runs import (
    CONSTANT,
    KINDS,
    PROPORTION,
    QuasarPopulation,
    QuasarRun,
    degree_for,
)
from vinecast.protocols.directed_walk.sweep import DRAWN, FALSE, NOTICED
from vinecast.protocols.gravity import GravityConfig

FALSE_MOST, HARMFUL = 0.01, 0.05  # ours: what still is "about 0.5 %" (S1 §4), and how many of "all" may fail
STORAGE = 22_000  # S1 §4: bytes of filters
STEEPER = 1.25  # ours: how much faster than the logarithm hops may grow and still do so "about"


def _curve(setup: Setup, kind: str, branching: int) -> dict[int, Point]:
    return {n: point_of(plays_at(setup, point_at(n, kind), branching)) for n in SIZES[setup.scale]}


def _needs(*kinds: str, branchings: tuple[int, ...] = (ALL, FEW)) -> Any:
    def plays(setup: Setup) -> list[QuasarRun]:
        return [
            play
            for nodes in reversed(SIZES[setup.scale])
            for kind in kinds
            for branching in branchings
            for play in plays_at(setup, point_at(nodes, kind), branching)
        ]

    return plays


SHORT = {"MySpace": "MySpace", "constant": str(CONSTANT), "proportional": f"1 in {PROPORTION}"}
"""Groups, in a legend; copies stand behind them."""


def _coverage_figure(setup: Setup, curves: dict[tuple[str, int], dict[int, Point]]) -> Figure:
    """S1 Fig. 3, and what is missed, where differences can be seen. S1 shows the standard deviation of one
    line, "for the latter": groups that grow."""
    reached, missed = [], []
    for (kind, branching), points in curves.items():
        name, x = f"{SHORT[kind]}, {branching or 'all'}", list(points)
        mean, std = (np.array([f(point.coverage) for point in points.values()]) for f in (np.mean, np.std))
        low, high = (mean - std, np.minimum(mean + std, 1)) if kind == "proportional" else ([], [])
        reached.append(Series(name, x, mean.tolist(), "line", list(low), list(high)))
        missed.append(Series(name, x, (100 * (1 - mean)).tolist()))
    marks = (
        ReferenceLine("S1: 97 %", y=COVERAGE),
        ReferenceLine("S1: 97 % are reached", y=100 * (1 - COVERAGE)),
    )
    panels = (
        Panel("coverage", "nodes", "share of members reached", tuple(reached), marks[:1], log_x=True),
        Panel("missed", "nodes", "% of members", tuple(missed), marks[1:], log_x=True, log_y=True),
    )
    title = f"S1 Fig. 3: coverage by the number of nodes ({setup.scale} scale)"
    return Figure("quasar-fig3", title, panels, columns=1)


def _told(points: dict[int, Point]) -> str:
    means = [float(point.coverage.mean()) for point in points.values()]
    others = [float(point.others.mean()) for point in points.values()]
    return (
        f"{min(means):.2%} … {max(means):.2%} (without the publisher {min(others):.2%} … {max(others):.2%}; "
        f"{min(p.messages for p in points.values()):.0f} … {max(p.messages for p in points.values()):.0f} "
        "messages a member)"
    )


def _coverage(setup: Setup, kinds: tuple[str, ...]) -> Measured:
    curves = {(kind, copies): _curve(setup, kind, copies) for kind in kinds for copies in (ALL, FEW)}
    holds, parts = True, []
    for (kind, copies), points in curves.items():
        means = [float(point.coverage.mean()) for point in points.values()]
        if copies == ALL:
            holds &= min(means) >= COVERAGE and max(means) - min(means) <= SPREAD
        parts.append(f"{GROUP_NAMES[kind]}, {NAMES[copies]}: {_told(points)}")
    sizes = SIZES[setup.scale]
    far = sorted({point.diameter for points in curves.values() for point in points.values()})
    text = "; ".join(parts) + (
        f" ({sizes[0]:,} … {sizes[-1]:,} nodes, degree {degree_for(sizes[0])} … {degree_for(sizes[-1])}, "
        f"diameter {' and '.join(map(str, far))})"
    )
    values = {
        f"{kind}, {NAMES[copies]}": {
            str(n): {
                "coverage": float(point.coverage.mean()),
                "deviation": float(point.coverage.std()),
                "others": float(point.others.mean()),
                "messages": point.messages,
            }
            for n, point in points.items()
        }
        for (kind, copies), points in curves.items()
    }
    return Measured(text, holds, values, (_coverage_figure(setup, curves),))


def coverage_myspace(setup: Setup) -> Measured:
    """QU-1."""
    return _coverage(setup, KINDS[:1])


def coverage_others(setup: Setup) -> Measured:
    """QU-2."""
    return _coverage(setup, KINDS[1:])


def hops_to_the_last(setup: Setup) -> Measured:
    """QU-3: constant group size, as in S1 Fig. 4."""
    curves = {copies: _curve(setup, "constant", copies) for copies in (ALL, FEW)}
    parts, series, holds, values = [], [], True, {}
    for copies, points in curves.items():
        nodes, last = list(points), [float(point.last.mean()) for point in points.values()]
        slope = float(np.polyfit(np.log2(nodes), last, 1)[0])
        faster = (last[-1] / last[0]) / (math.log(nodes[-1]) / math.log(nodes[0]))
        holds &= faster <= STEEPER
        parts.append(f"{NAMES[copies]}: {last[0]:.1f} … {last[-1]:.1f}, {slope:+.2f} for twice the nodes")
        series.append(Series(NAMES[copies], nodes, last))
        values[NAMES[copies]] = {"nodes": nodes, "last": last, "slope": slope}
    text = f"{'; '.join(parts)} (groups of {CONSTANT}, {nodes[0]:,} … {nodes[-1]:,} nodes)"
    panel = Panel("the last member reached", "nodes", "hops, mean", tuple(series), (), True)
    title = f"S1 Fig. 4: hops to the last member ({setup.scale} scale)"
    return Measured(text, holds, values, (Figure("quasar-fig4", title, (panel,), columns=1),))


ALONE = "the run's groups alone"


def _fuller(setup: Setup) -> QuasarPopulation:
    """A population in which everybody is in one group more, on average: S1 does not say what its filters
    hold besides, and its figure depends on that."""
    return replace(point_at(SIZES[setup.scale][-1], "MySpace"), besides=1)


def _false_plays(setup: Setup) -> list[QuasarRun]:
    found = [point_at(SIZES[setup.scale][-1], kind) for kind in KINDS]
    return [play for at in (*found, _fuller(setup)) for c in (ALL, FEW) for play in plays_at(setup, at, c)]


def false_positives(setup: Setup) -> Measured:
    """QU-4: at the largest size, where homes are fullest; all kinds of groups, and fuller filters."""
    nodes = SIZES[setup.scale][-1]
    config = GravityConfig(degree=degree_for(nodes))
    parts, values, holds = [], dict[str, Any](), config.state_bytes <= STORAGE
    loads = {ALONE: [point_at(nodes, kind) for kind in KINDS], "one more a node": [_fuller(setup)]}
    for load, found in loads.items():
        points = [point_of(plays_at(setup, at, copies)) for at in found for copies in (ALL, FEW)]
        tally = np.sum([point.tally for point in points], axis=0)
        share, missed = float(tally[FALSE] / max(tally[DRAWN], 1)), int(tally[FALSE] - tally[NOTICED])
        holds &= missed <= max(HARMFUL * int(tally[FALSE]), 1)
        parts.append(
            f"{load}: {share:.2%} of {tally[DRAWN]:,} hops that a level drew to were drawn by what is not "
            f"there, {int(tally[NOTICED]):,} of these {int(tally[FALSE]):,} without harm after the next hop"
        )
        values[load] = {"share": share, "false": int(tally[FALSE]), "missed": missed}
    holds &= values[ALONE]["share"] <= FALSE_MOST
    text = (
        f"{'; '.join(parts)}; {config.state_bytes / 1000:.1f} kB of filters a node ({nodes:,} nodes, "
        f"degree {config.degree}, K = {config.depth}, B = {config.filter_bytes})"
    )
    return Measured(text, holds, {**values, "bytes": config.state_bytes})


def polling(setup: Setup) -> Measured:
    """QU-5: few copies, then members poll."""
    parts, values, holds, series = [], {}, True, []
    for kind in KINDS:
        points = _curve(setup, kind, FEW)
        without = np.sum([point.polled[0] for point in points.values()], axis=0)
        asked = np.sum([point.polled[1] for point in points.values()], axis=0)
        members = sum(float(point.size.sum()) for point in points.values())
        before = sum(float(((1 - p.coverage) * p.size).sum()) for p in points.values())
        shares = [1 - before / members, *(1 - without / members)]
        times = int(np.argmax(without == 0)) + 1 if (without == 0).any() else None
        holds &= times is not None
        parts.append(
            f"{GROUP_NAMES[kind]}: {shares[0]:.2%} of members before, {shares[1]:.2%} after polling once, "
            f"{'100 % after ' + str(times) + ' times' if times else f'{shares[-1]:.3%} in the end'}, "
            f"{float(asked.mean()) / members:.1f} messages a member each time"
        )
        values[kind] = {"shares": [float(s) for s in shares], "messages": (asked / members).tolist()}
        series.append(Series(GROUP_NAMES[kind], list(range(len(shares))), [float(s) for s in shares]))
    panel = Panel("polling", "times that members polled", "share of members with the event", tuple(series))
    figure = Figure(
        "quasar-polling", f"Limited polling, {FEW} copies ({setup.scale} scale)", (panel,), columns=1
    )
    return Measured("; ".join(parts), holds, values, (figure,))


CLAIMS = (
    Claim(
        "QU-1", "coverage, MySpace-like groups", "≥ 97 %, whatever the number of nodes", "S1 §4, Fig. 3",
        coverage_myspace, _needs("MySpace"),
    ),
    Claim(
        "QU-2", "coverage, constant and growing groups", "as high", "S1 §4, Fig. 3",
        coverage_others, _needs("constant", "proportional"),
    ),
    Claim(
        "QU-3", "hops to the last member", "grow about as the logarithm of the nodes", "S1 §4, Fig. 4",
        hops_to_the_last, _needs("constant"),
    ),
    Claim(
        "QU-4", "false positives while routing", "about 0.5 %, over at the next hop; ≤ 22 kB a node", "S1 §4",
        false_positives, _false_plays,
    ),
    Claim(
        "QU-5", "limited polling", "suggested: coverage to 100 %", "S1 §4",
        polling, _needs(*KINDS, branchings=(FEW,)),
    ),
    *BEYOND,
)  # fmt: skip
