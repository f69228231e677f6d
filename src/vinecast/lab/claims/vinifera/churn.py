"""The claim of S2 §4.6.6: Vinifera and Ferry* while nodes come and go as Skype's super-peers did.

S2's flash crowd is around hour 100 of its measurement; ours begins with one, in its fourth hour, when its
nodes multiply. A node is held to events ten cycles of a minute after it has come, as for Vitis.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.lab.claims.claim import Figure, Measured, Panel, Series, Setup
from vinecast.lab.claims.vinifera.runs import A_CYCLE, HELD, PERIOD_S, ContentChurnRun, ContentNetwork
from vinecast.lab.runs.run_cache import Arrays, fetch
from vinecast.sim.scenario.scenario import find_file

TRACE = "skype.avt.gz"
NAMES = {"vinifera": "Vinifera", "ferry": "Ferry*", "friends": "Vinifera, friends told directly"}
KINDS = ("random", "skewed")
NODES = {"paper": 1000, "small": 40}
CYCLES = {"paper": 480, "small": 28}
SETTLED = 20  # ours: cycles before anything counts
RECOVERED = 0.99  # ours: "goes back to and remain at 100%", in the last quarter
QUARTER = 1 / 3  # ours: "one forth"
FASTER = 3  # ours: "four times faster"
SPAN = 10  # ours: cycles over which the figure averages


def churn_runs(setup: Setup) -> list[ContentChurnRun]:
    """Both systems, random and skewed filters; and Vinifera with friends told directly, random ones."""
    trace = None
    if setup.scale == "paper" and setup.data is not None:
        trace = find_file(TRACE, Path(), setup.data)
    size = NODES[setup.scale], 1, CYCLES[setup.scale], setup.seed
    networks = [ContentNetwork(system, kind, *size) for kind in KINDS for system in ("vinifera", "ferry")]
    networks.append(ContentNetwork("vinifera", "random", *size, to_friends=True))
    return [ContentChurnRun(network, trace, setup.keep) for network in networks]


def _key(network: ContentNetwork) -> str:
    return "friends" if network.to_friends else network.system


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64], span: int = 1) -> NDArray[np.float64]:
    """One sum over another, over so many cycles each; nothing where there was nothing. [cycle]"""
    size = above.size - above.size % span
    sums = (
        np.asarray(column[:size], dtype=np.float64).reshape(-1, span).sum(axis=1) for column in (above, below)
    )
    top, bottom = sums
    return np.asarray(np.divide(top, bottom, out=np.full(top.size, np.nan), where=bottom > 0))


def _means(run: Arrays, part: slice) -> tuple[float, float, float]:
    """Hit ratio, overhead and hops over some cycles."""
    sums = {name: float(column[part].sum()) for name, column in run.items()}
    received = sums["unwanted"] + sums["wanted"]
    return (
        sums["hits"] / max(sums["due"], 1.0),
        sums["unwanted"] / max(received, 1.0),
        sums["hops"] / max(sums["hits"], 1.0),
    )


def churn(setup: Setup) -> Measured:
    """VF-6."""
    plays = churn_runs(setup)
    runs = {(play.network.kind, _key(play.network)): fetch(play) for play in plays}
    nodes, cycles = plays[0].network.nodes, plays[0].network.cycles
    trace = "synthetic churn (2 h on, 1 h off)" if plays[0].trace is None else "Skype"
    parts, values, holds = [], {}, True
    last = slice(cycles * 3 // 4, cycles)
    for kind in KINDS:
        found = {}
        for system, name in NAMES.items():
            if (kind, system) not in runs:
                continue
            run = runs[kind, system]
            lowest = np.nanmin(_ratio(run["hits"], run["due"])[SETTLED:])
            hit, _, _ = _means(run, last)
            _, overhead, hops = _means(run, slice(SETTLED, cycles))
            found[system] = hit, overhead, hops
            parts.append(
                f"{kind}, {name}: {lowest:.1%} at the lowest, {hit:.2%} in the last quarter, overhead "
                f"{overhead:.1%}, {hops:.1f} hops"
            )
        ours, others = found["vinifera"], found["ferry"]
        holds &= ours[0] >= RECOVERED and ours[1] <= QUARTER * others[1] and FASTER * ours[2] <= others[2]
        values[kind] = {system: list(three) for system, three in found.items()}
    text = (
        f"{'; '.join(parts)} ({trace}, {cycles} cycles, {nodes:,} nodes, {A_CYCLE} events a cycle, held to "
        f"events {HELD} cycles after coming)"
    )
    return Measured(text, bool(holds), values, (_figure(runs, trace, nodes),))


def _figure(runs: dict[tuple[str, str], Arrays], trace: str, nodes: int) -> Figure:
    columns: dict[str, list[Series]] = {"hit ratio": [], "unwanted share of copies": [], "hops, mean": []}
    for (kind, system), run in runs.items():
        received = run["unwanted"] + run["wanted"]
        pairs = ((run["hits"], run["due"]), (run["unwanted"], received), (run["hops"], run["hits"]))
        for series, (above, below) in zip(columns.values(), pairs, strict=True):
            ratio = _ratio(above, below, SPAN)
            seen = ~np.isnan(ratio)
            hours = (np.arange(ratio.size) * SPAN * PERIOD_S / 3600)[seen]
            series.append(Series(f"{NAMES[system]}, {kind}", hours.tolist(), ratio[seen].tolist()))
    online = next(iter(runs.values()))["online"]
    hours = (np.arange(online.size) * PERIOD_S / 3600).tolist()
    panels = [
        Panel(f"{letter}) {label}", "hours", label, tuple(series))
        for letter, (label, series) in zip("abc", columns.items(), strict=True)
    ]
    panels.append(Panel("nodes on line", "hours", "nodes", (Series("on line", hours, online.tolist()),)))
    return Figure(
        "vinifera-fig11", f"S2 Fig. 4.11: churn ({trace}, {nodes:,} nodes)", tuple(panels), columns=1
    )
