"""Beyond S2 ch. 4: more nodes, more attributes, and what people really do.

S2 has up to a thousand nodes and five attributes. Here are ten times the nodes, each event interesting to as
many of them as in S2's thousand, and twice the attributes, each filter as selective as with one (VF-7). And
filters and events of real skew: acts on Twitter in the week of the Higgs boson (sim/workload/higgs.py), which
tell whether nodes that move can carry what falls upon few values (VF-8).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.lab.claims.claim import Claim, Figure, Measured, Panel, Series, Setup
from vinecast.lab.claims.vinifera.runs import TABLE, WAYS, ContentNetwork, ContentRestRun, stats_of
from vinecast.lab.runs.run_cache import fetch
from vinecast.sim.scenario.content_run import ContentStats
from vinecast.sim.scenario.scenario import find_file
from vinecast.sim.workload.content import HIGGS, SIZE
from vinecast.sim.workload.higgs import FILE

SYSTEMS = {"vinifera": "Vinifera", "ferry": "Ferry*"}
SIZES = {"paper": (1000, 3000, 10_000), "small": (48, 96)}
ATTRIBUTES = {"paper": (1, 3, 10), "small": (1, 3)}
CYCLES = {"paper": 24, "small": 12}
EVENTS = {"paper": 300, "small": 30}

PEOPLE = {"paper": 1000, "small": 60}
WISHES = 2  # ours: filters of each
ROUNDS = {"paper": 24, "small": 8}
"""Of events, in which nodes can move."""
SPREADS = {"vinifera": "Vinifera", "fixed": "Vinifera, nobody moves", "ferry": "Ferry*"}

Rests = dict[tuple[str, int], ContentRestRun]
"""By system and number."""


def _rest(setup: Setup, system: str, nodes: int, attributes: int) -> ContentRestRun:
    base = SIZES[setup.scale][0]
    network = ContentNetwork(
        system, "random", nodes, attributes, CYCLES[setup.scale], setup.seed, one_in=SIZE * nodes // base
    )
    ways = WAYS if (nodes, attributes) == (base, 1) else WAYS[:1]  # as other claims have them, which share it
    return ContentRestRun(network, EVENTS[setup.scale], setup.keep, ways)


def by_size(setup: Setup) -> Rests:
    """One attribute; with a node more, somebody more with other wishes."""
    return {
        (system, nodes): _rest(setup, system, nodes, 1) for nodes in SIZES[setup.scale] for system in SYSTEMS
    }


def by_attributes(setup: Setup) -> Rests:
    """In the smallest network."""
    nodes = SIZES[setup.scale][0]
    return {
        (system, count): _rest(setup, system, nodes, count)
        for count in ATTRIBUTES[setup.scale]
        for system in SYSTEMS
    }


def growth(setup: Setup) -> Measured:
    """VF-7."""
    parts, values, panels, holds = [], dict[str, Any](), list[Panel](), True
    for label, rests in (("nodes", by_size(setup)), ("attributes", by_attributes(setup))):
        found = {key: stats_of(fetch(rest)) for key, rest in rests.items()}
        for number in dict.fromkeys(number for _, number in found):
            ours, theirs = (found[system, number] for system in SYSTEMS)
            holds &= _all_arrives(ours) and _all_arrives(theirs)
            holds &= bool(ours.load.max() < theirs.load.max())
            parts.append(f"{label} {number:,}: {_beside(ours, theirs)}")
        values[label] = {f"{system}, {number}": _row(stats) for (system, number), stats in found.items()}
        panels += _panels(label, found)
    nodes = SIZES[setup.scale][0]
    text = (
        f"{'; '.join(parts)} (random filters; one attribute, and an event is for as many in any network; "
        f"{nodes:,} nodes for any number of attributes; {TABLE} links, {EVENTS[setup.scale]} events)"
    )
    title = f"More nodes, more attributes ({TABLE} links, random filters)"
    figure = Figure("vinifera-growth", title, tuple(panels), columns=len(_KINDS))
    return Measured(text, holds, values, (figure,))


def _all_arrives(stats: ContentStats) -> bool:
    return stats.hits == stats.due and stats.wrong == 0


def _beside(ours: ContentStats, theirs: ContentStats) -> str:
    return (
        f"hit ratio {ours.hit_ratio:.2%} and {theirs.hit_ratio:.2%}, overhead {ours.overhead:.1%} and "
        f"{theirs.overhead:.1%}, hops {ours.hops_mean:.1f} and {theirs.hops_mean:.1f}, the most loaded node "
        f"{ours.load.max():.1%} and {theirs.load.max():.1%}"
    )


def _row(stats: ContentStats) -> dict[str, float]:
    return {
        "hit ratio": stats.hit_ratio,
        "overhead": stats.overhead,
        "hops": stats.hops_mean,
        "most": float(stats.load.max()),
        "owned, tenth": _tenth(stats),
    }


_KINDS: dict[str, tuple[str, Callable[[ContentStats], float]]] = {
    "traffic overhead": ("% of copies received", lambda stats: 100 * stats.overhead),
    "delivery": ("hops, mean", lambda stats: stats.hops_mean),
    "the most loaded node": ("% of events passed on", lambda stats: 100 * float(stats.load.max())),
}


def _panels(label: str, found: dict[tuple[str, int], ContentStats]) -> list[Panel]:
    numbers = list(dict.fromkeys(number for _, number in found))
    return [
        Panel(
            f"{title}, by {label}",
            label,
            unit,
            tuple(
                Series(name, numbers, [of(found[system, number]) for number in numbers])
                for system, name in SYSTEMS.items()
            ),
            log_x=True,
        )
        for title, (unit, of) in _KINDS.items()
    ]


def people(setup: Setup) -> dict[str, ContentRestRun]:
    """By how load is spread: the run. Made-up acts, unless there is a folder with the trace."""
    acts = None
    if setup.scale == "paper" and setup.data is not None:
        acts = find_file(FILE, Path(), setup.data)
    size = PEOPLE[setup.scale], 4, CYCLES[setup.scale], setup.seed
    return {
        spread: ContentRestRun(
            ContentNetwork(
                "ferry" if spread == "ferry" else "vinifera", HIGGS, *size,
                balanced=spread != "fixed", filters=WISHES, acts=acts,
            ),
            EVENTS[setup.scale], setup.keep, WAYS[:1], ROUNDS[setup.scale],
        )
        for spread in SPREADS
    }  # fmt: skip


def real_skew(setup: Setup) -> Measured:
    """VF-8."""
    rests = people(setup)
    runs = {spread: fetch(rest) for spread, rest in rests.items()}
    found = {spread: stats_of(run) for spread, run in runs.items()}
    moves = int(runs["vinifera"]["moves"])
    ours, fixed = found["vinifera"], found["fixed"]
    holds = all(map(_all_arrives, found.values())) and _tenth(ours) < _tenth(fixed)
    parts = [f"{SPREADS[spread]}: {_told(stats)}" for spread, stats in found.items()]
    trace = "made-up acts" if rests["vinifera"].network.acts is None else "Higgs"
    where = f"{trace}, {PEOPLE[setup.scale]:,} people with {WISHES} filters, {EVENTS[setup.scale]} events"
    text = f"{'; '.join(parts)} ({where}, {ours.due / ours.events:.0f} subscribers an event; {moves:,} moves)"
    panels = (
        _spread("events passed on", "share of events", {s: stats.load for s, stats in found.items()}),
        _spread("unwanted copies as an owner", "copies", {s: stats.owned for s, stats in found.items()}),
    )
    figure = Figure("vinifera-people", f"Load with real skew ({where})", panels)
    values = {SPREADS[spread]: _row(stats) for spread, stats in found.items()} | {"moves": moves}
    return Measured(text, holds, values, (figure,))


def _told(stats: ContentStats) -> str:
    one = float(stats.owned.max() / max(stats.owned.sum(), 1))
    return (
        f"hit ratio {stats.hit_ratio:.2%}, overhead {stats.overhead:.1%}, {stats.hops_mean:.1f} hops; the "
        f"most loaded node passes on {stats.load.max():.1%} of events; of the copies that owners do not "
        f"want, a tenth of nodes has {_tenth(stats):.1%} and a single one {one:.1%}"
    )


def _tenth(stats: ContentStats) -> float:
    """What the tenth of nodes that has most has of all unwanted copies at owners."""
    most = np.sort(stats.owned)[-max(stats.owned.size // 10, 1) :]
    return float(most.sum() / max(stats.owned.sum(), 1))


def _spread(title: str, label: str, loads: dict[str, Any]) -> Panel:
    """What share of nodes has more than so much."""
    series = []
    for spread, load in loads.items():
        levels = np.unique(load)[:-1]
        above = [float((load > level).mean()) for level in levels]
        series.append(Series(SPREADS[spread], levels.tolist(), above, "steps"))
    return Panel(title, label, "share of nodes with more", tuple(series), log_y=True)


def _jobs(*groups: dict[Any, ContentRestRun]) -> Sequence[ContentRestRun]:
    return list(dict.fromkeys(rest for group in groups for rest in group.values()))


BEYOND = (
    Claim(
        "VF-7", "more nodes, more attributes", "not measured; ours: all arrives, peak load below Ferry*'s",
        "beyond S2", growth, lambda setup: _jobs(by_size(setup), by_attributes(setup)),
    ),
    Claim(
        "VF-8", "real skew", "not measured; ours: all arrives, moves spread what owners have to do",
        "beyond S2", real_skew, lambda setup: _jobs(people(setup)),
    ),
)  # fmt: skip
