"""What S4 (GRID) finds in traces of who was on line, ch. 4: through the pipeline, on the Skype trace.

The trace is ingested into a lake of its own and analysed there once for all of these claims. Without a data
folder the small scale takes a synthetic trace: nodes with hours of their own, which they keep on most days.
The claims of ch. 6 are in ``grid_rings`` and, where they go further, in ``further``.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from vinecast.core.arrays.regularity import CYCLES_S, SLOTS_S, THRESHOLDS
from vinecast.core.errors import InputError, MissingExtraError
from vinecast.lab.claims.claim import Claim, Figure, Measured, Panel, Series, Setup
from vinecast.lab.claims.grid import further, rings
from vinecast.lab.claims.grid.scenes import synthetic_trace
from vinecast.sim.workload.churn import read_avt

TRACE = "skype.avt.gz"
EVER_ONLINE, ONLINE_MEAN = 2078, 700  # S4 §4.2.2, Table 4.1
REGULAR = {"day": (532, 475, 409, 349, 283, 238, 164, 120), "week": (521, 520, 518, 284, 261, 260, 259, 258)}
"""S4 Table 4.2: mean regular nodes at each of ``THRESHOLDS``, slots of an hour."""
RETENTION_AT = (60, 70, 80, 90)
RETENTION = {
    ("day", 300): (99.35, 99.17, 98.93, 98.64),
    ("day", 3600): (95.14, 93.84, 91.99, 89.54),
    ("week", 300): (99.30, 99.32, 98.86, 98.88),
    ("week", 3600): (94.26, 94.06, 90.72, 90.06),
}
"""S4 Tables 4.4 and 4.5: mean retention in per cent at each of ``RETENTION_AT``."""
NEAR, NEAR_UP_TO = 0.25, 80
"""How near our copy of the trace must come to S4's, and up to which threshold."""
LITTLE = 0.05  # ours: what "changes by little" means
KEPT, KEPT_SHORT = 0.88, 0.986  # S4 §4.5: "over 88 %"; the least of its means for slots of 300 s
HOUR_S = 3600
NODES, DAYS = 300, 28
"""Of the synthetic trace."""
KAD = "kad.avt.gz"
REGULAR_KAD = {
    "day": (1095, 836, 625, 449, 314, 195, 103, 36),
    "week": (1290, 966, 685, 540, 413, 216, 136, 75),
}
"""S4 Table 4.3, likewise for the KAD trace."""


@dataclass(frozen=True)
class Analysis:
    """What the pipeline found in a trace."""

    name: str
    ever_online: int
    online_mean: float
    expected: tuple[float, float]
    """What these two should be."""
    online: list[float]
    """[hour] nodes on line."""
    means: dict[tuple[str, int, int], dict[str, Any]]
    """By cycle, slot in seconds and threshold: a row of ``regularity_means``."""
    regular: dict[tuple[str, int, int], list[int]]
    """Likewise: [slot] regular nodes."""

    def regular_means(self, cycle: str, slot_s: int) -> list[float]:
        """[threshold]"""
        return [self.means[cycle, slot_s, gamma]["regular_mean"] for gamma in THRESHOLDS]

    def retention(self, cycle: str, slot_s: int) -> list[float]:
        """[threshold of ``RETENTION_AT``] shares, 0 where nobody was regular."""
        return [self.means[cycle, slot_s, gamma]["retention_mean"] or 0.0 for gamma in RETENTION_AT]


def analysis_of(setup: Setup) -> Analysis:
    """The analysis of the trace that a setup means; made once."""
    if setup.data is None and setup.scale == "paper":
        raise InputError(
            f"the trace analysis of S4 needs {TRACE}: give the folder that holds it with --data DIR"
        )
    if setup.data is None:
        return _analyse(None, setup.seed)
    path = setup.data / TRACE
    if not path.is_file():
        raise InputError(f"the trace analysis of S4 needs {TRACE}, which is not in {setup.data} (--data DIR)")
    return _analyse(path, 0)


@lru_cache(maxsize=2)
def _analyse(path: Path | None, seed: int) -> Analysis:
    try:
        from vinecast.pipeline import regularity
        from vinecast.pipeline.ingest.job import ingest
        from vinecast.pipeline.lake import Lake
        from vinecast.pipeline.session import open_session
        from vinecast.pipeline.tables import REGULARITY, SESSIONS
    except ModuleNotFoundError as error:
        raise MissingExtraError("the trace analysis of S4", "spark", error.name or "pyspark") from None

    with tempfile.TemporaryDirectory(prefix="vinecast-claims-") as folder, open_session() as spark:
        expected: tuple[float, float] = EVER_ONLINE, ONLINE_MEAN
        if path is None:
            path = Path(folder) / "synthetic.avt"
            path.write_text(synthetic_trace(seed, NODES, DAYS))
            made = read_avt(path)
            expected = made.nodes, made.mean_online()
        lake = Lake(Path(folder) / "lake")
        ingest(spark, lake, "avt", path, "trace")
        plan = regularity.RegularityPlan(slots_s=SLOTS_S)
        found = regularity.analyse(spark, lake, "trace", plan)
        counts = lake.read(spark, REGULARITY, "trace").orderBy("slot").collect()
        sessions = lake.read(spark, SESSIONS, "trace")
        hours = regularity.online_over_time(sessions, HOUR_S, found.overview.horizon_us).collect()
    regular: dict[tuple[str, int, int], list[int]] = {}
    for row in counts:
        regular.setdefault((row["cycle"], row["slot_s"], row["threshold"]), []).append(row["regular"])
    return Analysis(
        name={TRACE: "Skype", KAD: "KAD"}.get(path.name, "a synthetic trace"),
        ever_online=found.overview.ever_online,
        online_mean=found.overview.online_mean,
        expected=expected,
        online=[row["online"] for row in hours],
        means={(row["cycle"], row["slot_s"], row["threshold"]): row for row in found.means},
        regular=regular,
    )


def presence(setup: Setup) -> Measured:
    """RE-1."""
    found = analysis_of(setup)
    nodes, online = found.expected
    holds = abs(found.ever_online / nodes - 1) <= 0.01 and abs(found.online_mean / online - 1) <= LITTLE
    text = f"{found.ever_online:,} nodes ever on line, {found.online_mean:.1f} on average ({found.name})"
    hours = [hour / 24 for hour in range(len(found.online))]
    panel = Panel("nodes on line", "days", "nodes", (Series(found.name, hours, found.online),))
    figure = Figure("grid-fig4.1", f"Nodes on line, {found.name} (S4 Fig. 4.1a)", (panel,), columns=1)
    values = {"ever_online": found.ever_online, "online_mean": found.online_mean}
    return Measured(text, holds, values, (figure,))


def regular_nodes(setup: Setup) -> Measured:
    """RE-2: S4's values are asked for on its own trace only; the rest holds for any."""
    found = analysis_of(setup)
    means = {cycle: found.regular_means(cycle, HOUR_S) for cycle in CYCLES_S}
    near = found.name != "Skype" or _are_near(means, REGULAR)
    falls = _fall(means)
    drops = [a - b for a, b in pairwise(means["week"])]
    cliff = drops.index(max(drops)) == THRESHOLDS.index(70)
    rows = "; ".join(f"{cycle} {_rounded(row)}" for cycle, row in means.items())
    text = (
        f"{rows} ({found.name}); weekly cliff {'between 70 and 75 %' if cliff else 'NOT between 70 and 75 %'}"
    )
    values = {"regular_mean": means, "near": near, "falls": falls, "cliff": cliff}
    return Measured(text, near and falls and cliff, values, (_means_figure(found), *_slots_figures(found)))


def _are_near(means: Mapping[str, Sequence[float]], paper: Mapping[str, Sequence[float]]) -> bool:
    return all(
        abs(ours / theirs - 1) <= NEAR
        for cycle, row in means.items()
        for gamma, ours, theirs in zip(THRESHOLDS, row, paper[cycle], strict=True)
        if gamma <= NEAR_UP_TO
    )


def _fall(means: Mapping[str, Sequence[float]]) -> bool:
    """Whether nodes become fewer as the threshold grows."""
    return all(a >= b for row in means.values() for a, b in pairwise(row))


def kad_nodes(setup: Setup) -> Measured:
    """RE-3: measured where somebody has the trace. A synthetic one would have to be made from S4's table, and
    would give back what was put in."""
    path = setup.data / KAD if setup.data is not None else None
    if path is None or not path.is_file():
        raise InputError(f"the KAD trace could not be had; a data folder that has it as {KAD} will do")
    found = _analyse(path, 0)
    means = {cycle: found.regular_means(cycle, HOUR_S) for cycle in CYCLES_S}
    near, falls = _are_near(means, REGULAR_KAD), _fall(means)
    text = "; ".join(f"{cycle} {_rounded(row)}" for cycle, row in means.items())
    values = {"regular_mean": means, "near": near, "falls": falls}
    return Measured(f"{text} ({found.name})", near and falls, values)


def _rounded(row: Sequence[float]) -> str:
    return " ".join(str(int(value + 0.5)) for value in row)


def slot_lengths(setup: Setup) -> Measured:
    """RE-4: at the thresholds that S4 §4.4.1 shows; the others are told too."""
    found = analysis_of(setup)
    change = {
        gamma: max(
            abs(found.means[cycle, slot_s, gamma]["regular_mean"] / hourly - 1)
            for cycle in CYCLES_S
            for slot_s in (900, 1800)
            if (hourly := found.means[cycle, HOUR_S, gamma]["regular_mean"])
        )
        for gamma in THRESHOLDS
    }
    shown = max(change[gamma] for gamma in (60, 70))
    text = (
        f"mean regular nodes with slots of 15 and 30 min differ from 60 min by at most {shown:.1%} at γ = 60 "
        f"and 70 %, {max(change.values()):.1%} at any threshold ({found.name})"
    )
    return Measured(text, shown <= LITTLE, {"largest_change": change}, (_lengths_figure(found),))


def retention(setup: Setup) -> Measured:
    """RE-5: S4's conclusion decides; its means stand in the figure and beside ours."""
    found = analysis_of(setup)
    ours = {setting: found.retention(*setting) for setting in RETENTION}
    holds = all(
        share >= (KEPT_SHORT if slot_s < HOUR_S else KEPT)
        for (_, slot_s), row in ours.items()
        for share in row
    )
    rows = "; ".join(
        f"{cycle}, {slot_s} s: {' '.join(f'{100 * share:.2f}' for share in row)}"
        for (cycle, slot_s), row in ours.items()
    )
    values = {f"{cycle}_{slot_s}": row for (cycle, slot_s), row in ours.items()}
    panels = tuple(_retention_panel(found, cycle) for cycle in CYCLES_S)
    title = f"Retention of regularity between adjacent slots, {found.name} (S4 Tables 4.4 and 4.5)"
    figure = Figure("grid-retention", title, panels)
    return Measured(f"{rows} % ({found.name})", holds, values, (figure,))


def _retention_panel(found: Analysis, cycle: str) -> Panel:
    series = []
    for slot_s in (300, 3600):
        name = f"slots of {slot_s // 60} min"
        series.append(Series(name, RETENTION_AT, [100 * share for share in found.retention(cycle, slot_s)]))
        series.append(Series(f"{name}, S4", RETENTION_AT, RETENTION[cycle, slot_s]))
    return Panel(f"cycle of a {cycle}", "threshold γ, %", "retention, mean, %", tuple(series))


def _means_figure(found: Analysis) -> Figure:
    panels = tuple(
        Panel(
            f"cycle of a {cycle}",
            "threshold γ, %",
            "regular nodes, mean over slots",
            (
                Series("ours", THRESHOLDS, found.regular_means(cycle, HOUR_S)),
                Series("S4", THRESHOLDS, REGULAR[cycle]),
            ),
        )
        for cycle in CYCLES_S
    )
    return Figure(
        "grid-table4.2", f"Mean regular nodes, {found.name}, slots of an hour (S4 Table 4.2)", panels
    )


def _slots_figures(found: Analysis) -> list[Figure]:
    figures = []
    for number, cycle in ((6, "day"), (7, "week")):
        curves = {gamma: found.regular[cycle, HOUR_S, gamma] for gamma in THRESHOLDS}
        series = tuple(Series(f"γ = {gamma} %", range(len(row)), row) for gamma, row in curves.items())
        panel = Panel("regular nodes", f"hour of the {cycle}", "regular nodes", series)
        title = f"Regular nodes in slots of an hour, {found.name} (S4 Fig. 4.{number})"
        figures.append(Figure(f"grid-fig4.{number}", title, (panel,), columns=1))
    return figures


def _lengths_figure(found: Analysis) -> Figure:
    panels = []
    for cycle in CYCLES_S:
        curves = {slot_s: found.regular[cycle, slot_s, 70] for slot_s in (900, 1800, 3600)}
        series = tuple(
            Series(f"{slot_s // 60} min", [slot * slot_s / HOUR_S for slot in range(len(row))], row)
            for slot_s, row in curves.items()
        )
        panels.append(Panel(f"cycle of a {cycle}", f"hour of the {cycle}", "regular nodes, γ = 70 %", series))
    title = f"Regular nodes with slots of different length, {found.name} (S4 Figs. 4.3 and 4.5)"
    return Figure("grid-fig4.3", title, tuple(panels), columns=1)


def _listed(rows: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(f"{cycle} {' '.join(map(str, row))}" for cycle, row in rows.items())


_HOURLY = {cycle: row for (cycle, slot_s), row in RETENTION.items() if slot_s == HOUR_S}

CLAIMS = (
    Claim(
        "RE-1",
        "who is on line",
        f"{EVER_ONLINE:,} ever, about {ONLINE_MEAN} on average",
        "S4 Table 4.1",
        presence,
    ),
    Claim("RE-2", "mean regular nodes, γ = 60…95 %", _listed(REGULAR), "S4 Table 4.2", regular_nodes),
    Claim("RE-3", "the same for KAD", _listed(REGULAR_KAD), "S4 Table 4.3", kad_nodes),
    Claim("RE-4", "the length of a slot", "no perceivable effect", "S4 §4.4.1", slot_lengths),
    Claim(
        "RE-5",
        "retention between slots, γ = 60…90 %",
        f"{_listed(_HOURLY)} %; 300 s: ≥ {KEPT_SHORT:.1%}",
        "S4 §4.4.3",
        retention,
    ),
    *rings.CLAIMS,
    *further.CLAIMS,
)
