"""Beyond S1: what coverage depends on, and a million nodes."""

from dataclasses import replace

from vinecast.lab.claims.claim import Claim, Figure, Measured, Panel, Series, Setup
from vinecast.lab.claims.quasar.points import (
    ALL,
    COVERAGE,
    FEW,
    GROUP_NAMES,
    NAMES,
    SIZES,
    SPREAD,
    plays_at,
    point_at,
    point_of,
)
from vinecast.lab.claims.quasar.runs import KINDS, QuasarPopulation, QuasarRun, degree_for
from vinecast.protocols.directed_walk.sweep import DRAWN, FALSE

LARGEST = {"small": 8192, "paper": 1_000_000}
LARGEST_BYTES = {"small": (512, 2048), "paper": (512, 2048)}
DEPTHS, BYTES, BESIDES = (1, 2, 3, 4), (128, 256, 512, 1024, 2048), (0, 1, 2, 4, 8)
DEGREES = {"small": (4, 8, 12), "paper": (6, 10, 14, 20, 28)}
LOAD = "groups a node besides"
"""What fills filters, and helps nobody."""
LOGARITHMIC = ("bytes B of a level", "degree")


def _variants(setup: Setup) -> dict[str, dict[int, QuasarPopulation]]:
    """What varies -> by its values, the population."""
    nodes = SIZES[setup.scale][-1]
    base = point_at(nodes, "MySpace")
    return {
        "levels K": {depth: replace(base, depth=depth) for depth in DEPTHS},
        "bytes B of a level": {size: replace(base, filter_bytes=size) for size in BYTES},
        LOAD: {count: replace(base, besides=count) for count in BESIDES},
        "degree": {degree: replace(base, degree=degree) for degree in DEGREES[setup.scale]},
    }


def _variant_plays(setup: Setup) -> list[QuasarRun]:
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
            holds &= what == LOAD or y[-1] >= y[0] - SPREAD
            listed = ", ".join(f"{value}: {share:.1%}" for value, share in zip(points, y, strict=True))
            parts.append(f"{what}, {NAMES[copies]}: {listed}")
        panels.append(Panel(what, what, "share of members reached", tuple(series), log_x=what in LOGARITHMIC))
    nodes = SIZES[setup.scale][-1]
    figure = Figure("quasar-dependence", f"Coverage of MySpace-like groups, {nodes:,} nodes", tuple(panels))
    return Measured(f"{'; '.join(parts)} ({nodes:,} nodes)", holds, values, (figure,))


def _largest(setup: Setup) -> dict[tuple[str, int, int], list[QuasarRun]]:
    """One population each: kind, bytes and copies -> its run."""
    one, nodes = replace(setup, seeds=1), LARGEST[setup.scale]
    return {
        (kind, size, copies): plays_at(one, replace(point_at(nodes, kind), filter_bytes=size), copies)
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


BEYOND = (
    Claim(
        "QU-6", "coverage by K, B and degree", "not measured; ours: more of these does no harm", "beyond S1",
        dependence, _variant_plays,
    ),
    Claim(
        "QU-7", "a million nodes", "not measured; ours: ≥ 97 % with larger filters", "beyond S1",
        a_million, lambda setup: [play for plays in _largest(setup).values() for play in plays],
    ),
)  # fmt: skip
