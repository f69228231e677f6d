"""What S4 §6.7 finds when PolderCast's rings are backed up by rings of regular nodes: RE-6 … RE-9.

S4 gives no tolerances. On its own trace a gain counts as met within a factor of two (ours, as for the ratios
of churn claims elsewhere); on any other only its direction does. Gains are points of the hit ratio as S4 has
it, a mean over topics; over subscriptions they stand beside.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import CYCLES_S
from vinecast.lab.bench import regular as bench_regular
from vinecast.lab.claims.claim import Claim, Figure, Measured, Panel, ReferenceLine, Series, Setup
from vinecast.lab.claims.grid.notes import Run
from vinecast.lab.claims.grid.runs import FANOUT, FANOUT_BASE, RingsRun, alone, by_hour, doubled, listed
from vinecast.lab.claims.grid.scenes import (
    PERIODS_S,
    Scene,
    Second,
    scenes_of,
    seeds_of,
    told_periods,
    told_seeds,
)

FANOUT_GAIN = (0.4399, 1.2000, 5.3335)
"""S4 Table 6.2: F = 4 over F = 2, at each speed of churn."""
GAINS = {
    ("day", 70): ((0.6773, 1.8502, 7.6623), (0.2374, 0.6502, 2.3288)),
    ("day", 75): ((0.6417, 1.7363, 7.1811), (0.2017, 0.5363, 1.8475)),
    ("week", 70): ((0.8516, 2.4009, 8.6488), (0.3776, 1.0449, 3.3153)),
    ("week", 75): ((0.6365, 1.4516, 6.9634), (0.2052, 0.4221, 1.6299)),
}
"""S4 Table 6.2: by cycle and threshold, over F = 2 and over F = 4, at each speed of churn."""
WITHIN = 2.0  # ours: the factor within which a gain is S4's
SAME_HOPS = 0.1  # ours: what "almost the same" means (S4 §6.7.4)
DOUBLE = (1.5, 2.5)  # ours: what "almost double" means (S4 §6.7.2)
HOURS, GIGABYTES = 48, 20  # S4 §6.6.1

Compared = Callable[[Scene, int], Run]
"""A scene and a seed -> a run of it."""


def base(fanout: int) -> Compared:
    """PolderCast alone."""
    return lambda scene, seed: alone(scene, seed, fanout)


def ringed(second: Second) -> Compared:
    """PolderCast with a second ring."""
    return lambda scene, seed: doubled(scene, seed, second)


def gain(
    scene: Scene, seeds: Sequence[int], run: Compared, other: Compared, what: str = "hit_by_topic"
) -> NDArray[np.float64]:
    """By how many points a run's hit ratio is above another's, averaged over the seeds. [cycle]"""
    gains = [getattr(run(scene, seed), what) - getattr(other(scene, seed), what) for seed in seeds]
    points: NDArray[np.float64] = 100 * np.mean(gains, axis=0)
    return points


def mean_of(scene: Scene, seeds: Sequence[int], run: Compared, what: str) -> float:
    """The mean of a series over a run's cycles and the seeds."""
    return float(np.mean([getattr(run(scene, seed), what).mean() for seed in seeds]))


def _is_met(scene: Scene, ours: float, theirs: float) -> bool:
    """Whether a gain is S4's, or, on another trace, a gain at all."""
    return theirs / WITHIN <= ours <= theirs * WITHIN if scene.is_skype else ours > 0


def _about(setup: Setup) -> str:
    return f"{told_periods(setup)}, {scenes_of(setup)[0].where}, {told_seeds(setup)}"


def _spread(series: NDArray[np.float64]) -> dict[str, float]:
    """As S4 Table 6.2 has it."""
    return {"avg": float(series.mean()), "min": float(series.min()), "max": float(series.max())}


def fan_out(setup: Setup) -> Measured:
    """RE-6."""
    scenes, seeds = scenes_of(setup), seeds_of(setup)
    readings = {
        what: [gain(scene, seeds, base(FANOUT_BASE), base(FANOUT), what) for scene in scenes]
        for what in ("hit_by_topic", "hit")
    }
    gains = [float(series.mean()) for series in readings["hit_by_topic"]]
    met = [
        _is_met(scene, ours, theirs)
        for scene, ours, theirs in zip(scenes, gains, _paper(scenes, FANOUT_GAIN), strict=True)
    ]
    grows = all(a < b for a, b in pairwise(gains))
    hits = [100 * mean_of(scene, seeds, base(FANOUT), "hit_by_topic") for scene in scenes]
    over = [float(series.mean()) for series in readings["hit"]]
    text = (
        f"{listed('by topic', gains)} points (F = 2: {listed('', hits, '.2f').strip()} %); "
        f"{listed('over subscriptions', over)} ({_about(setup)})"
    )
    values: dict[str, Any] = {
        what: {f"{scene.period_s:g}": _spread(series) for scene, series in zip(scenes, found, strict=True)}
        for what, found in readings.items()
    }
    panels = tuple(
        Panel(
            f"cycles of {scene.period_s:g} s",
            "hours",
            "hit ratio gained, points",
            (Series("F = 4 over F = 2", *by_hour(series, scene.period_s)),),
            (ReferenceLine(f"S4: {theirs:.2f} on average", y=theirs),) if scene.is_skype else (),
        )
        for scene, series, theirs in zip(
            scenes, readings["hit_by_topic"], _paper(scenes, FANOUT_GAIN), strict=True
        )
    )
    name = f"grid-fig6.5-{scenes[0].workload}"
    figure = Figure(name, f"PolderCast, F = 4 over F = 2 (S4 Fig. 6.5; {scenes[0].where})", panels, columns=1)
    return Measured(text, all(met) and grows, values, (figure,))


def _paper(scenes: Sequence[Scene], values: Sequence[float]) -> Sequence[float]:
    """S4's values, one for each scene; those of scenes that are not S4's are not asked for."""
    if not scenes[0].is_skype:
        return [0.0] * len(scenes)
    return [values[PERIODS_S["paper"].index(scene.period_s)] for scene in scenes]


def regular_rings(setup: Setup) -> Measured:
    """RE-7."""
    scenes, seeds = scenes_of(setup), seeds_of(setup)
    values: dict[str, Any] = {}
    lines, met = [], {FANOUT: True, FANOUT_BASE: True}
    for (cycle, threshold), theirs in GAINS.items():
        second = Second(cycle, threshold)
        said = []
        for fanout, papers in zip((FANOUT, FANOUT_BASE), theirs, strict=True):
            series = [gain(scene, seeds, ringed(second), base(fanout)) for scene in scenes]
            gains = [float(found.mean()) for found in series]
            for scene, ours, paper in zip(scenes, gains, _paper(scenes, papers), strict=True):
                met[fanout] &= _is_met(scene, ours, paper)
            said.append(listed(f"over F = {fanout}", gains))
            values[f"{second.name} over F = {fanout}"] = {
                f"{scene.period_s:g}": _spread(found) for scene, found in zip(scenes, series, strict=True)
            }
        lines.append(f"{second.name}: {', '.join(said)}")
    values["met"] = {f"over F = {fanout}": holds for fanout, holds in met.items()}
    values["beside"] = beside = _other_readings(scenes[-1], seeds)
    values["by seed"] = by_seed = _seed_by_seed(scenes[-1], seeds)
    verdict = ", ".join(f"over F = {fanout} {'yes' if ok else 'no'}" for fanout, ok in met.items())
    apart, others = (
        "; ".join(f"{name} {listed('', found).strip()}" for name, found in each.items())
        for each in (by_seed, beside)
    )
    text = (
        f"{'; '.join(lines)} points by topic; met: {verdict}. At {scenes[-1].period_s:g} s, over F = 4 seed "
        f"by seed: {apart}. Beside, over F = 2 / F = 4: {others} ({_about(setup)})"
    )
    figures = tuple(_gain_figure(scene, seeds, gamma) for scene in scenes for gamma in (70, 75))
    return Measured(text, _holds(scenes[0], met), values, figures)


def _holds(scene: Scene, met: dict[int, bool]) -> bool:
    """S4's claim is both halves; that F = 4 is outdone too is asked for on its own trace only."""
    return met[FANOUT] and (met[FANOUT_BASE] or not scene.is_skype)


def _seed_by_seed(scene: Scene, seeds: Sequence[int]) -> dict[str, list[float]]:
    """What is gained over F = 4: samples differ, and so do those who come and go."""
    found = {}
    for second in (Second(*key) for key in GAINS):
        series = [gain(scene, [seed], ringed(second), base(FANOUT_BASE)) for seed in seeds]
        found[second.name] = [float(each.mean()) for each in series]
    return found


def _other_readings(scene: Scene, seeds: Sequence[int]) -> dict[str, list[float]]:
    """At γ = 70 %, over F = 2 and over F = 4: what RE-7 would be, read otherwise."""
    found = {}
    for cycle in CYCLES_S:
        letter, beforehand = _readings(cycle)
        readings = {
            f"{cycle}, over subscriptions": (Second(cycle, 70), "hit"),
            f"{cycle}, windows count when they are over": (letter, "hit_by_topic"),
            f"{cycle}, patterns known beforehand": (beforehand, "hit_by_topic"),
        }
        for name, (second, what) in readings.items():
            found[name] = [
                float(gain(scene, seeds, ringed(second), base(fanout), what).mean())
                for fanout in (FANOUT, FANOUT_BASE)
            ]
    return found


def _readings(cycle: str) -> tuple[Second, Second]:
    """Windows count when they are over; patterns are known beforehand."""
    return Second(cycle, 70, "slot"), Second(cycle, 70, patterns="trace")


def _gain_figure(scene: Scene, seeds: Sequence[int], gamma: int) -> Figure:
    """S4 Figs. 6.6–6.9: what is gained over F = 4, and who is there."""
    panels = []
    for cycle in CYCLES_S:
        second = Second(cycle, gamma)
        series = gain(scene, seeds, ringed(second), base(FANOUT_BASE))
        (paper,) = _paper([scene], GAINS[cycle, gamma][1])
        marks = (ReferenceLine(f"S4: {paper:.2f} on average", y=paper),) if scene.is_skype else ()
        curve = Series("over F = 4", *by_hour(series, scene.period_s))
        panels.append(
            Panel(f"cycle of a {cycle}: gain", "hours", "hit ratio gained, points", (curve,), marks)
        )
        run = doubled(scene, seeds[0], second)
        present = tuple(
            Series(name, *by_hour(nodes.astype(np.float64), scene.period_s))
            for name, nodes in (("on line", run.online), ("regular and on line", run.regular))
        )
        panels.append(Panel(f"cycle of a {cycle}: nodes", "hours", "nodes", present))
    name = f"grid-gain-{gamma}-{scene.period_s:g}s-{scene.workload}"
    title = f"Regular rings over F = 4, γ = {gamma} %, cycles of {scene.period_s:g} s (S4 Figs. 6.6–6.9)"
    return Figure(name, f"{title}; {scene.where}", tuple(panels), columns=1)


def cost_of_events(setup: Setup) -> Measured:
    """RE-8: at every speed of churn, for all second rings of RE-7; degrees by the day at γ = 70 %."""
    scenes, seeds = scenes_of(setup), seeds_of(setup)
    values: dict[str, Any] = {}
    lines = []
    between = same = double = True
    for scene in scenes:
        runs = {"F = 2": base(FANOUT), "F = 4": base(FANOUT_BASE)}
        runs |= {Second(*key).name: ringed(Second(*key)) for key in GAINS}
        copies = {name: mean_of(scene, seeds, run, "duplication") for name, run in runs.items()}
        hops = {name: mean_of(scene, seeds, run, "hops") for name, run in runs.items()}
        few, many = copies["F = 2"], copies["F = 4"]
        between &= all(few <= copies[Second(*key).name] <= many for key in GAINS)
        same &= all(abs(hops[Second(*key).name] / hops["F = 4"] - 1) <= SAME_HOPS for key in GAINS)
        looks = np.concatenate([doubled(scene, seed, Second("day", 70)).degrees for seed in seeds])
        below, regular, others = np.nanmean(looks[:, 1:], axis=0).tolist()
        double &= DOUBLE[0] <= regular / below <= DOUBLE[1]
        shown = "F = 2", "F = 4", Second("day", 70).name, Second("week", 70).name
        lines.append(
            f"{scene.period_s:g} s: copies {_of(copies, shown)}, hops {_of(hops, shown)}, in-degree "
            f"{regular:.1f} of regular nodes, {others:.1f} of others, {below:.1f} in PolderCast"
        )
        values[f"{scene.period_s:g}"] = {
            "duplication": copies,
            "hops": hops,
            "in_degree": {"poldercast": below, "regular": regular, "others": others},
        }
    values["met"] = {"duplication": between, "hops": same, "in_degree": double}
    verdict = ", ".join(
        f"{name.replace('_', '-')} {'yes' if ok else 'no'}" for name, ok in values["met"].items()
    )
    text = f"{'; '.join(lines)}; met: {verdict} ({_about(setup)})"
    return Measured(text, between and same and double, values, (_degrees_figure(scenes[0], seeds[0]),))


def _of(found: dict[str, float], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {found[name]:.2f}" for name in names)


def _degrees_figure(scene: Scene, seed: int) -> Figure:
    hours, below, regular, others = doubled(scene, seed, Second("day", 70)).degrees.T.tolist()
    named = {"PolderCast": below, "regular nodes": regular, "other nodes": others}
    series = tuple(Series(name, hours, found) for name, found in named.items())
    panel = Panel("in-degree", "hours", "in-degree, mean", series)
    title = f"In-degrees, by the day, γ = 70 %, cycles of {scene.period_s:g} s (S4 Fig. 6.10a; {scene.where})"
    return Figure(f"grid-fig6.10-{scene.workload}", title, (panel,), columns=1)


def cost_of_runs(setup: Setup) -> Measured:
    """RE-9: by the benchmark of the same run (lab/bench/regular.py), with S0's exchange, cut short in the
    same way."""
    data = setup.data if setup.scale == "paper" else None
    sizes = bench_regular.RegularSizes() if setup.scale == "paper" else bench_regular.QUICK
    workload = "synthetic" if data is None else setup.workload or "slashdot"
    found = {
        cycle: bench_regular.measure_alone(
            data, workload, "paper", cycle, sizes.nodes, sizes.cycles, setup.threads
        )
        for cycle in CYCLES_S
    }
    minutes = {cycle: each.minutes for cycle, each in found.items()}
    memory = {cycle: each.gb for cycle, each in found.items()}
    trace = found["day"].trace
    told = "; ".join(f"by the {cycle} {minutes[cycle]:.1f} min and {memory[cycle]:.2f} GB" for cycle in found)
    text = (
        f"{told} for {bench_regular.CYCLES:,} cycles, from {sizes.cycles:,} of them ({workload}, "
        f"{sizes.nodes:,} nodes, {trace}, {setup.threads} thread{'s' * (setup.threads > 1)})"
    )
    holds = max(minutes.values()) <= bench_regular.MINUTES and max(memory.values()) <= bench_regular.GB
    return Measured(text, holds, {"minutes": minutes, "gb": memory})


def _plays_alone(setup: Setup) -> list[RingsRun]:
    """RE-6's runs. Here as elsewhere, the highest speed comes first: it takes least, and tells most."""
    return [RingsRun(scene, seed) for scene in reversed(scenes_of(setup)) for seed in seeds_of(setup)]


def _plays_doubled(setup: Setup) -> list[RingsRun]:
    """RE-8's runs."""
    seconds = [None, *(Second(*key) for key in GAINS)]
    return [
        RingsRun(scene, seed, second)
        for scene in reversed(scenes_of(setup))
        for seed in seeds_of(setup)
        for second in seconds
    ]


def _plays_otherwise(setup: Setup) -> list[RingsRun]:
    """RE-7's runs."""
    last = scenes_of(setup)[-1]
    seconds = [second for cycle in CYCLES_S for second in _readings(cycle)]
    beside = [RingsRun(last, seed, second) for seed in seeds_of(setup) for second in seconds]
    return [*_plays_doubled(setup), *beside]


def _listed_gains() -> str:
    return "; ".join(
        f"{Second(*key).name}: {listed('over F = 2', theirs[0])}, {listed('over F = 4', theirs[1])}"
        for key, theirs in GAINS.items()
    )


CLAIMS = (
    Claim(
        "RE-6", "PolderCast, F = 4 over F = 2, points of hit ratio",
        f"{listed('', FANOUT_GAIN).strip()} (cycles of 100 / 200 / 1000 s)", "S4 Table 6.2", fan_out,
        _plays_alone,
    ),
    Claim(
        "RE-7", "regular rings, points of hit ratio", _listed_gains(), "S4 Table 6.2", regular_rings,
        _plays_otherwise,
    ),
    Claim(
        "RE-8", "regular rings: copies, hops, in-degree",
        "copies between F = 2's and F = 4's; hops as F = 4; regular nodes' in-degree almost doubled",
        "S4 §6.7.2–6.7.5", cost_of_events, _plays_doubled,
    ),
    Claim(
        "RE-9", "what the thesis's run takes",
        f"there about {HOURS} h and {GIGABYTES}–30 GB; here ≤ {bench_regular.MINUTES:.0f} min and "
        f"≤ {bench_regular.GB:.0f} GB", "S4 §6.6.1", cost_of_runs,
    ),
)  # fmt: skip
