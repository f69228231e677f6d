"""Further than S4 goes, at its highest speed of churn: every threshold, every popularity, and whether it is
regularity that helps.

S4 §6.8 says that γ = 70 % "was the most appropriate", of the two that it tried, and that both a higher and a
lower one will do worse at some point (RE-10). S4 §6.7.6 leaves the popularity of topics to others (RE-11).
S4 §6.6.5 asks whether the gain comes from regularity or from more forwarding, and compares with F = 4; here
the second ring is also made of as many nodes, in as many slots, who are regular by the pattern of somebody
else (RE-12). RE-13 asks what is left of it all where rings are repaired better than S0's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vinecast.core.arrays.regularity import CYCLES_S
from vinecast.lab.claims.claim import Claim, Figure, Measured, Panel, ReferenceLine, Series, Setup
from vinecast.lab.claims.grid.rings import base, gain, mean_of, ringed
from vinecast.lab.claims.grid.runs import FANOUT, FANOUT_BASE, RingsRun, alone, doubled, listed
from vinecast.lab.claims.grid.scenes import Scene, Second, scenes_of, seeds_of, told_seeds
from vinecast.sim.measure.metrics import COUNTED, Tally

GAMMAS = {"small": (50, 60, 70, 80, 90), "paper": tuple(range(50, 100, 5))}
AT = 70
"""S4's choice (§6.8)."""
FEW = 1000
"""Subscriptions that a class of topics must have been due to count (ours)."""


def _last(setup: Setup) -> tuple[Scene, Sequence[int]]:
    """The highest speed of churn, where there is most to gain."""
    return scenes_of(setup)[-1], seeds_of(setup)


def _told(setup: Setup) -> str:
    scene = scenes_of(setup)[-1]
    return f"cycles of {scene.period_s:g} s, {scene.where}, {told_seeds(setup)}"


def _plays(setup: Setup, seconds: Sequence[Second | None], exchange: str = "paper") -> list[RingsRun]:
    scene, seeds = _last(setup)
    return [RingsRun(scene, seed, second, exchange) for seed in seeds for second in seconds]


def _a_copy(points: float, copies: float) -> float:
    """What is gained for each copy more a delivery; NaN where there is none."""
    return points / copies if copies > 0 else float("nan")


def thresholds(setup: Setup) -> Measured:
    """RE-10: the best threshold by each cycle, and where 70 % lies."""
    (scene, seeds), gammas = _last(setup), GAMMAS[setup.scale]
    values: dict[str, Any] = {}
    lines, best = [], {}
    fanouts = (FANOUT, FANOUT_BASE)
    bases = {fanout: 100 * mean_of(scene, seeds, base(fanout), "hit_by_topic") for fanout in fanouts}
    few, many = (mean_of(scene, seeds, base(fanout), "duplication") for fanout in fanouts)
    for cycle in CYCLES_S:
        rows = {}
        for gamma in gammas:
            run = ringed(Second(cycle, gamma))
            rows[gamma] = {
                "hit": 100 * mean_of(scene, seeds, run, "hit_by_topic"),
                "hit_subscriptions": 100 * mean_of(scene, seeds, run, "hit"),
                "duplication": mean_of(scene, seeds, run, "duplication"),
                "regular": mean_of(scene, seeds, run, "regular"),
            }
        best[cycle] = max(gammas, key=lambda gamma: rows[gamma]["hit"])
        values[cycle] = {str(gamma): row for gamma, row in rows.items()}
        prices = [_a_copy(row["hit"] - bases[FANOUT], row["duplication"] - few) for row in rows.values()]
        lines.append(
            f"{listed(f'{cycle}:', (row['hit'] for row in rows.values()), '.2f')} % "
            f"(copies {rows[gammas[0]]['duplication']:.2f} … {rows[gammas[-1]]['duplication']:.2f}; points a "
            f"copy more {' / '.join(f'{price:.1f}' for price in prices)}), most at {best[cycle]} %"
        )
    values |= {"best": best, "alone": {str(fanout): hit for fanout, hit in bases.items()}}
    price = _a_copy(bases[FANOUT_BASE] - bases[FANOUT], many - few)
    text = (
        f"hit ratio at γ = {' / '.join(map(str, gammas))} %: {'; '.join(lines)}; F = 2 {bases[FANOUT]:.2f} % "
        f"({few:.2f} copies), F = 4 {bases[FANOUT_BASE]:.2f} % ({many:.2f} copies, {price:.1f} points a copy "
        f"more) ({_told(setup)})"
    )
    holds = all(gamma == AT for gamma in best.values())
    return Measured(text, holds, values, (_threshold_figure(scene, values, gammas, bases),))


def _threshold_figure(
    scene: Scene, values: dict[str, Any], gammas: Sequence[int], bases: dict[int, float]
) -> Figure:
    few = bases[FANOUT]
    marks = (ReferenceLine(f"PolderCast, F = {FANOUT_BASE}", y=bases[FANOUT_BASE] - few),)
    kinds = (
        ("hit", "hit ratio gained over F = 2, points", few, marks),
        ("duplication", "copies a delivery", 0.0, ()),
        ("regular", "regular nodes on line", 0.0, ()),
    )
    panels = tuple(
        Panel(
            label,
            "threshold γ, %",
            label,
            tuple(
                Series(f"by the {cycle}", gammas, [values[cycle][str(g)][kind] - zero for g in gammas])
                for cycle in CYCLES_S
            ),
            found,
        )
        for kind, label, zero, found in kinds
    )
    title = f"Regular rings by threshold, cycles of {scene.period_s:g} s ({scene.where})"
    return Figure(f"grid-thresholds-{scene.workload}", title, panels)


def popularities(setup: Setup) -> Measured:
    """RE-11: no class of topics is worse off for a second ring at γ = 70 %."""
    scene, seeds = _last(setup)
    found: dict[str, dict[int, float]] = {
        f"F = {fanout}": _by_class([alone(scene, seed, fanout).tally for seed in seeds])
        for fanout in (FANOUT, FANOUT_BASE)
    }
    for cycle in CYCLES_S:
        tallies = [doubled(scene, seed, Second(cycle, AT)).tally for seed in seeds]
        found[f"{cycle} {AT} %"] = _by_class(tallies)
    worse = [
        f"{cycle}, {size} and more"
        for cycle in CYCLES_S
        for size, hit in found[f"{cycle} {AT} %"].items()
        if hit < found["F = 2"][size]
    ]
    sizes = list(found["F = 2"])
    lines = "; ".join(listed(f"{name}:", (row[size] for size in sizes), ".1f") for name, row in found.items())
    text = (
        f"hit ratio of topics with {' / '.join(map(str, sizes))} and more subscribers, %: {lines}; worse off "
        f"than with F = 2: {', '.join(worse) or 'none'} ({_told(setup)})"
    )
    series = tuple(Series(name, sizes, [100 - row[size] for size in sizes]) for name, row in found.items())
    panel = Panel("miss ratio", "subscribers of a topic, from", "miss ratio, %", series, log_x=True)
    title = f"Miss ratio by topics' popularity, cycles of {scene.period_s:g} s ({scene.where})"
    figure = Figure(f"grid-popularity-{scene.workload}", title, (panel,), columns=1)
    values = {name: {str(size): hit for size, hit in row.items()} for name, row in found.items()}
    return Measured(text, not worse, values, (figure,))


def _by_class(tallies: list[Tally]) -> dict[int, float]:
    """Hit ratio in per cent by the smallest popularity of a class, of classes with more than a handful."""
    total = np.sum(tallies, axis=0)[0]
    due, hits = total[:, COUNTED.index("due")], total[:, COUNTED.index("hits")]
    return {2 ** int(size): float(100 * hits[size] / due[size]) for size in np.flatnonzero(due >= FEW)}


def _said(cycle: str) -> tuple[Second, Second]:
    """Everybody's own patterns, and somebody else's, both of the whole trace."""
    return Second(cycle, AT, patterns="trace"), Second(cycle, AT, patterns="others")


def somebody_elses(setup: Setup) -> Measured:
    """RE-12: a second ring of nodes that are regular beats one of nodes that are said to be."""
    scene, seeds = _last(setup)
    values: dict[str, Any] = {}
    lines, holds = [], True
    few, many = (mean_of(scene, seeds, base(fanout), "duplication") for fanout in (FANOUT, FANOUT_BASE))
    for cycle in CYCLES_S:
        true, false = _said(cycle)
        gains = {
            name: float(gain(scene, seeds, ringed(second), base(FANOUT)).mean())
            for name, second in (("their own", true), ("somebody else's", false))
        }
        copies = {
            name: mean_of(scene, seeds, ringed(second), "duplication")
            for name, second in (("their own", true), ("somebody else's", false))
        }
        holds &= gains["their own"] > gains["somebody else's"]
        values[cycle] = {"gain": gains, "duplication": copies}
        told = ", ".join(f"{name} {_priced(gains[name], copies[name], few)}" for name in gains)
        lines.append(f"{cycle}: {told}")
    more = float(gain(scene, seeds, base(FANOUT_BASE), base(FANOUT)).mean())
    text = (
        f"points over F = 2 with patterns of the whole trace, {'; '.join(lines)}; F = 4 "
        f"{_priced(more, many, few)} ({_told(setup)})"
    )
    return Measured(text, holds, values)


def _priced(points: float, copies: float, few: float) -> str:
    """Points gained, and what they cost; few: copies without"""
    return f"{points:+.2f} ({copies:.2f} copies, {_a_copy(points, copies - few):.1f} points a copy more)"


def informed_rings(setup: Setup) -> Measured:
    """RE-13: with the informed exchange and stand-by neighbours, F = 2 and a second ring against F = 4."""
    scene, seeds = _last(setup)

    def mean(runs: list[Any], what: str) -> float:
        return float(np.mean([getattr(run, what).mean() for run in runs]))

    found = {
        f"F = {fanout}": [alone(scene, seed, fanout, "informed") for seed in seeds]
        for fanout in (FANOUT, FANOUT_BASE)
    }
    for cycle in CYCLES_S:
        found[f"{cycle} {AT} %"] = [doubled(scene, seed, Second(cycle, AT), "informed") for seed in seeds]
    values = {
        name: {what: mean(runs, what) for what in ("hit_by_topic", "hit", "duplication", "hops")}
        for name, runs in found.items()
    }
    rings = [values[f"{cycle} {AT} %"]["hit_by_topic"] for cycle in CYCLES_S]
    told = "; ".join(
        f"{name} {100 * row['hit_by_topic']:.2f} % ({100 * row['hit']:.2f} % of subscriptions, "
        f"{row['duplication']:.2f} copies)"
        for name, row in values.items()
    )
    text = f"{told} ({_told(setup)})"
    return Measured(text, min(rings) > values["F = 4"]["hit_by_topic"], values)


def _plays_of_thresholds(setup: Setup) -> list[RingsRun]:
    gammas = GAMMAS[setup.scale]
    return _plays(setup, [None, *(Second(cycle, gamma) for cycle in CYCLES_S for gamma in gammas)])


def _plays_of_popularities(setup: Setup) -> list[RingsRun]:
    return _plays(setup, [None, *(Second(cycle, AT) for cycle in CYCLES_S)])


def _plays_of_others(setup: Setup) -> list[RingsRun]:
    return _plays(setup, [None, *(second for cycle in CYCLES_S for second in _said(cycle))])


def _plays_informed(setup: Setup) -> list[RingsRun]:
    return _plays(setup, [None, *(Second(cycle, AT) for cycle in CYCLES_S)], "informed")


CLAIMS = (
    Claim(
        "RE-10", "which threshold is best", f"γ = {AT} %", "S4 §6.8", thresholds, _plays_of_thresholds,
    ),
    Claim(
        "RE-11", "regular rings, by popularity",
        "not in S4 (ours: no class of topics is worse off than with F = 2)", "S4 §6.7.6", popularities,
        _plays_of_popularities,
    ),
    Claim(
        "RE-12", "is it regularity, or forwarding?", "regularity (ours: true patterns beat false ones)",
        "S4 §6.6.5", somebody_elses, _plays_of_others,
    ),
    Claim(
        "RE-13", "regular rings where rings are informed", "not in S4 (ours: better than F = 4 there, too)",
        "S4 §6.8", informed_rings, _plays_informed,
    ),
)  # fmt: skip
