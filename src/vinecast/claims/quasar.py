"""The claims of S1 §4 about Quasar: coverage, hops, false positives; and what polling adds.

Every one is measured with Algorithm 2 as it stands, in which a member sends a copy to every neighbour, and
with FEW copies, S1's "branching factor", which it does not name: with four we find the coverage that S1
prints.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.claims.claim import Claim, Figure, Mark, Measured, Panel, Series, Setup
from vinecast.claims.kept import fetch
from vinecast.claims.quasar_runs import CONSTANT, KINDS, PROPORTION, Play, Population, degree_for
from vinecast.protocols.directed_walk.sweep import DRAWN, FALSE, NOTICED, SENT
from vinecast.protocols.gravity import GravityConfig

ALL, FEW = 0, 4  # ours: see above
COVERAGE = 0.97  # S1 §4, Fig. 3
SPREAD = 0.02  # SYSTEMS.md: independent of the number of nodes
FALSE_SHARE, FALSE_MOST = 0.005, 0.01  # S1 §4; ours: what still is "about" that
STORAGE = 22_000  # S1 §4: bytes of filters
STEEPER = 1.25  # ours: how much faster than the logarithm hops may grow and still do so "about"
SIZES = {"small": (1024, 2048, 4096), "paper": (1024, 2048, 4096, 8192, 16384, 32768)}
POPULATIONS, GROUPS = {"small": 2, "paper": 5}, {"small": 10, "paper": 20}
LARGEST = {"small": 8192, "paper": 1_000_000}
LARGEST_BYTES = {"small": (512, 2048), "paper": (512, 2048)}
DEPTHS, BYTES = (1, 2, 3, 4), (128, 256, 512, 1024, 2048)
DEGREES = {"small": (4, 8, 12), "paper": (6, 10, 14, 20, 28)}
NAMES = {ALL: "to all neighbours", FEW: f"{FEW} copies"}
GROUP_NAMES = {
    "MySpace": "MySpace-like groups",
    "constant": f"groups of {CONSTANT}",
    "proportional": f"groups of 1 in {PROPORTION} nodes",
}


@dataclass(frozen=True, slots=True)
class Point:
    """All publications at one point of a figure."""

    coverage: NDArray[np.float64]
    """[publication]"""
    others: NDArray[np.float64]
    """[publication], the publisher left out"""
    last: NDArray[np.float64]
    """[publication], hops to the last member reached"""
    size: NDArray[np.float64]
    tally: NDArray[np.int64]
    """[what is counted], all together"""
    polled: NDArray[np.float64]
    """[members without the event or messages, time of polling], all together"""
    diameter: int

    @property
    def messages(self) -> float:
        """Messages for each member."""
        return float(self.tally[SENT] / self.size.sum())


def plays_at(setup: Setup, at: Population, branching: int, groups: int | None = None) -> list[Play]:
    """The runs of a point: populations with seeds from the setup's on."""
    count = setup.seeds or POPULATIONS[setup.scale]
    where = replace(at, groups=groups or GROUPS[setup.scale])
    return [
        Play(replace(where, seed=setup.seed + i), branching, branching == FEW, setup.keep)
        for i in range(count)
    ]


def point_of(plays: Sequence[Play]) -> Point:
    """The runs of a point, put together."""
    found = [fetch(play) for play in plays]
    columns = {name: np.concatenate([run[name] for run in found]) for name in found[0]}
    tally, polled = columns["tally"].sum(axis=0), columns["polled"].sum(axis=0)
    return Point(
        columns["coverage"], columns["others"], columns["last"], columns["size"], tally, polled,
        int(columns["diameter"].max()),
    )  # fmt: skip


def _at(nodes: int, kind: str) -> Population:
    return Population(nodes, kind, 0, 0, degree_for(nodes))


def _curve(setup: Setup, kind: str, branching: int) -> dict[int, Point]:
    return {n: point_of(plays_at(setup, _at(n, kind), branching)) for n in SIZES[setup.scale]}


def _needs(*kinds: str, branchings: tuple[int, ...] = (ALL, FEW)) -> Any:
    def plays(setup: Setup) -> list[Play]:
        return [
            play
            for nodes in reversed(SIZES[setup.scale])
            for kind in kinds
            for branching in branchings
            for play in plays_at(setup, _at(nodes, kind), branching)
        ]

    return plays


def _coverage_figure(setup: Setup, curves: dict[tuple[str, int], dict[int, Point]]) -> Figure:
    """S1 Fig. 3. S1 shows the standard deviation of one line, "for the latter": groups that grow."""
    series = []
    for (kind, branching), points in curves.items():
        x = list(points)
        y = [float(point.coverage.mean()) for point in points.values()]
        std = [float(point.coverage.std()) for point in points.values()]
        low = [a - b for a, b in zip(y, std, strict=True)] if kind == "proportional" else []
        high = [min(a + b, 1.0) for a, b in zip(y, std, strict=True)] if low else []
        series.append(Series(f"{GROUP_NAMES[kind]}, {NAMES[branching]}", x, y, "line", low, high))
    panel = Panel(
        "coverage", "nodes", "share of members reached", tuple(series), (Mark("S1: 97 %", y=COVERAGE),), True
    )
    return Figure(
        "quasar-fig3",
        f"S1 Fig. 3: coverage by the number of nodes ({setup.scale} scale)",
        (panel,),
        columns=1,
    )


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


def false_positives(setup: Setup) -> Measured:
    """QU-4: at the largest size, where homes are fullest; all kinds of groups."""
    nodes = SIZES[setup.scale][-1]
    points = [point_of(plays_at(setup, _at(nodes, kind), copies)) for kind in KINDS for copies in (ALL, FEW)]
    tally = np.sum([point.tally for point in points], axis=0)
    share = float(tally[FALSE] / max(tally[DRAWN], 1))
    missed = int(tally[FALSE] - tally[NOTICED])
    config = GravityConfig(degree=degree_for(nodes))
    text = (
        f"{share:.2%} of {tally[DRAWN]:,} hops that a level drew to were drawn by what is not there; all but "
        f"{missed:,} of these {tally[FALSE]:,} did no harm beyond the next hop; "
        f"{config.state_bytes / 1000:.1f} kB of filters a node ({nodes:,} nodes, degree {config.degree}, "
        f"K = {config.depth}, B = {config.filter_bytes})"
    )
    recovered = missed <= max(0.01 * tally[FALSE], 1)
    holds = share <= FALSE_MOST and bool(recovered) and config.state_bytes <= STORAGE
    values = {"share": share, "false": int(tally[FALSE]), "missed": missed, "bytes": config.state_bytes}
    return Measured(text, holds, values)


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


# Beyond the paper.


def _variants(setup: Setup) -> dict[str, dict[int, Population]]:
    """What varies -> by its values, the population."""
    nodes = SIZES[setup.scale][-1]
    base = _at(nodes, "MySpace")
    return {
        "levels K": {depth: replace(base, depth=depth) for depth in DEPTHS},
        "bytes B of a level": {size: replace(base, filter_bytes=size) for size in BYTES},
        "degree": {degree: replace(base, degree=degree) for degree in DEGREES[setup.scale]},
    }


def _variant_plays(setup: Setup) -> list[Play]:
    found = [at for variants in _variants(setup).values() for at in variants.values()]
    return [play for at in found for copies in (ALL, FEW) for play in plays_at(setup, at, copies)]


def dependence(setup: Setup) -> Measured:
    """QU-6: one thing varies, the others are S1's."""
    parts, panels, values, holds = [], [], {}, True
    for what, variants in _variants(setup).items():
        series = []
        for copies in (ALL, FEW):
            points = {value: point_of(plays_at(setup, at, copies)) for value, at in variants.items()}
            y = [float(point.coverage.mean()) for point in points.values()]
            series.append(Series(NAMES[copies], list(points), y))
            values[f"{what}, {NAMES[copies]}"] = dict(zip(map(str, points), y, strict=True))
            holds &= y[-1] >= y[0] - SPREAD
            listed = ", ".join(f"{value}: {share:.1%}" for value, share in zip(points, y, strict=True))
            parts.append(f"{what}, {NAMES[copies]}: {listed}")
        panels.append(Panel(what, what, "share of members reached", tuple(series), log_x=what != "levels K"))
    nodes = SIZES[setup.scale][-1]
    figure = Figure("quasar-dependence", f"Coverage of MySpace-like groups, {nodes:,} nodes", tuple(panels))
    return Measured(f"{'; '.join(parts)} ({nodes:,} nodes)", holds, values, (figure,))


def _largest(setup: Setup) -> dict[tuple[str, int, int], list[Play]]:
    """One population each: kind, bytes and copies -> its run."""
    one, nodes = replace(setup, seeds=1), LARGEST[setup.scale]
    return {
        (kind, size, copies): plays_at(one, replace(_at(nodes, kind), filter_bytes=size), copies)
        for kind in KINDS[:2]
        for size in LARGEST_BYTES[setup.scale]
        for copies in (ALL, FEW)
    }


def a_million(setup: Setup) -> Measured:
    """QU-7: S1's levels are too small for so many nodes, so a larger one is tried beside them."""
    parts, values, best = [], {}, dict.fromkeys(KINDS[:2], 0.0)
    for (kind, size, copies), plays in _largest(setup).items():
        point = point_of(plays)
        share, last = float(point.coverage.mean()), float(point.last.mean())
        best[kind] = max(best[kind], share)
        false = float(point.tally[FALSE] / max(point.tally[DRAWN], 1))
        parts.append(
            f"{GROUP_NAMES[kind]}, B = {size}, {NAMES[copies]}: {share:.2%}, {last:.1f} hops, {false:.1%} of "
            f"drawn hops false, {point.messages:.0f} messages a member"
        )
        values[f"{kind}, {size}, {NAMES[copies]}"] = {"coverage": share, "last": last, "false": false}
    nodes = LARGEST[setup.scale]
    text = f"{'; '.join(parts)} ({nodes:,} nodes, degree {degree_for(nodes)})"
    return Measured(text, all(share >= COVERAGE for share in best.values()), values)


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
        false_positives, _needs(*KINDS),
    ),
    Claim(
        "QU-5", "limited polling", "suggested: coverage to 100 %", "S1 §4",
        polling, _needs(*KINDS, branchings=(FEW,)),
    ),
    Claim(
        "QU-6", "coverage by K, B and degree", "not measured; ours: more of each does no harm", "beyond S1",
        dependence, _variant_plays,
    ),
    Claim(
        "QU-7", "a million nodes", "not measured; ours: ≥ 97 % with larger filters", "beyond S1",
        a_million, lambda setup: [play for plays in _largest(setup).values() for play in plays],
    ),
)  # fmt: skip
